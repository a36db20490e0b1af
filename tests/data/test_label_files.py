"""Labels from a second table: step by step or in stretches, beside any data; what does not fit is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.label_files import is_file, labelled, with_labels
from prism_irl.data.tables import read, to_pandas
from prism_irl.errors import InputError
from support import frame, one_sentence


def steps(**options: object) -> Demonstrations:
    """Trajectories a (4 steps) and b (3 steps)."""
    demos = Demonstrations.from_arrays([[0, 1, 0, 1], [1, 0, 1]], [[0] * 4, [0] * 3], **options)
    return replace(demos, trajectory_names=np.array(["a", "b"]))


def written(folder: Path, text: str) -> Path:
    path = folder / "known.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "trajectory,step,label\nb,1,grasp\na,0,reach\na,1,reach\nb,2,grasp\na,2,\na,3,-1\n",
        "episode,start,end,label\nb,1,9,grasp\na,0,2,reach\n",
        "episode_index,first,last,label\na,0,1,reach\nb,1,2,grasp\na,0,0,reach\n",
    ],
)
def test_steps_and_stretches_say_the_same(text, tmp_path):
    demos = with_labels(steps(), written(tmp_path, text))
    np.testing.assert_array_equal(demos.known, [0, 0, -1, -1, -1, 1, 1])
    assert demos.known_names == ("reach", "grasp")  # as they come in the data, whatever the order of the file


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-1, 2), min_size=7, max_size=7).filter(lambda known: max(known) >= 0))
def test_stretches_of_any_labels_give_them_back(tmp_path_factory, known):
    flat = np.array(known)
    rows = [
        (name, i, i + 1, flat[offset + i])
        for name, offset, length in (("a", 0, 4), ("b", 4, 3))
        for i in range(length)
        if flat[offset + i] >= 0
    ]
    path = tmp_path_factory.mktemp("labels") / "known.parquet"
    pd.DataFrame(rows, columns=["trajectory", "start", "end", "label"]).to_parquet(path)
    np.testing.assert_array_equal(with_labels(steps(), path).known, flat)


def test_stretches_are_in_the_times_of_the_data(tmp_path):
    seconds = steps(times=[[0.0, 0.5, 1.0, 1.5], [10.0, 10.5, 11.0]])
    text = "trajectory,start,end,label\na,0.4,1.2,1\nb,10.5,99,0\n"
    np.testing.assert_array_equal(with_labels(seconds, written(tmp_path, text)).known, [-1, 1, 1, -1, -1, 0, 0])
    days = np.array(["2026-01-01T10:00:00", "2026-01-01T10:01:00", "2026-01-01T10:02:00"], dtype="datetime64[ns]")
    dated = Demonstrations.from_arrays([[0, 1, 0]], [[0, 0, 0]], times=[days])
    text = "trajectory,start,end,label\n0,2026-01-01 10:00:30,2026-01-01 10:01:30,1\n"
    np.testing.assert_array_equal(with_labels(dated, written(tmp_path, text)).known, [-1, 1, -1])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([3.0, 5.0, 10.0, 29.97, 30.0, 50.0, 60.0]), st.data())
def test_seconds_are_frames_at_any_rate(tmp_path_factory, rate, data):
    """A stretch of frames, said in seconds with the digits of an annotation program, is the same stretch."""
    frames = np.arange(200) + data.draw(st.integers(0, 5))
    demos = Demonstrations.from_arrays([[0] * 200], [[0] * 200], times=[frames])
    begin = data.draw(st.integers(int(frames[0]), int(frames[-1])))
    end = data.draw(st.integers(begin + 1, int(frames[-1]) + 1))
    digits = data.draw(st.sampled_from([7, 9, 15]))
    folder = tmp_path_factory.mktemp("labels")
    rows = f"trajectory,start_s,end_s,label\n0,{begin / rate:.{digits}f},{end / rate:.{digits}f},x\n"
    told = with_labels(demos, written(folder, rows), rate=rate).known
    np.testing.assert_array_equal(told == 0, (frames >= begin) & (frames < end))
    plain = with_labels(demos, written(folder, f"trajectory,start,end,label\n0,{begin},{end},x\n")).known
    np.testing.assert_array_equal(told, plain)


def test_seconds_count_from_the_first_step_where_the_data_have_a_clock(tmp_path):
    path = written(tmp_path, "trajectory,start_s,end_s,label\na,0.7,1.5,x\nb,0,0.3,y\n")
    clock = [[10.0, 10.7, 11.0, 11.5], [3.0, 3.3, 4.0]]  # 10.7 − 10 is a little less than 0.7
    expected = [-1, 0, 0, -1, 1, -1, -1]
    np.testing.assert_array_equal(with_labels(steps(times=clock), path).known, expected)
    dates = [
        np.datetime64("2026-01-01T10:00:00", "ns") + (1e9 * np.array(one)).astype("timedelta64[ns]") for one in clock
    ]
    np.testing.assert_array_equal(with_labels(steps(times=dates), path).known, expected)
    for demos, rate, words in (
        (steps(), None, "with --hz, or give start and end"),
        (steps(times=[[0, 1, 2, 3], [0, 1, 2]]), None, "whole numbers for times or none"),
        (steps(times=clock), 10.0, "leave --hz out"),
    ):
        with pytest.raises(InputError) as error:
            with_labels(demos, path, rate=rate)
        assert words in one_sentence(error)


def test_labels_stand_beside_the_rows_of_a_table(tmp_path):
    path = written(tmp_path, "bout,step,label\na,1,drink\nb,0,run\n")
    table = labelled(read(frame().rename(columns={"trajectory": "bout"}), trajectory="bout"), path, "bout")
    assert table.frame is not None
    assert table.frame["labels"].fillna("").tolist() == ["run", "", "", "drink", ""]  # rows of b and a take turns
    again = read(table.frame, trajectory="bout", labels="labels").demonstrations
    np.testing.assert_array_equal(again.known, table.demonstrations.known)
    assert "labels" in to_pandas(table.demonstrations)
    with pytest.raises(InputError, match="column 'labels' already") as error:
        labelled(read(frame(labels=0)), written(tmp_path, "trajectory,step,label\na,1,drink\n"))
    one_sentence(error)


def test_a_file_is_told_from_a_column_by_its_ending():
    assert is_file("known.csv")
    assert is_file(Path("known.parquet"))
    assert not is_file("known_drive")
    assert not is_file(None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("trajectory,step\na,0\n", "needs the columns of a trajectory, a label"),
        ("bout,step,label\na,0,x\n", "it has bout, step, label"),
        ("trajectory,label\na,x\n", "start and end, or first and last"),
        ("trajectory,step,label\na,0,\n", "is empty"),
        ("trajectory,step,label\na,1,x\nc,0,x\n", "trajectory c at line 3"),
        ("trajectory,step,label\na,4,x\n", "step 4 at line 2"),
        ("trajectory,step,label\na,-1,x\n", "0 to 3"),
        ("trajectory,step,label\na,half,x\n", "half at line 2"),
        ("trajectory,step,label\na,0.5,x\n", "not a whole number"),
        ("trajectory,step,label\na,0,x\na,0,y\n", "two labels for trajectory a, step 0, x at line 2"),
        ("trajectory,start,end,label\na,0,3,x\na,2,4,y\n", "two labels for trajectory a, step 2"),
        ("trajectory,start,end,label\na,2,2,x\n", "ends before it begins"),
        ("trajectory,first,last,label\na,2,1,x\n", "ends before it begins"),
        ("trajectory,start,end,label\na,7,9,x\n", "holds no step of trajectory a"),
        ("trajectory,step,label\na,0,0.5\n", "0.5"),
        (
            "trajectory,start,end,start_s,end_s,label\na,0,1,0,1,x\n",
            "more than once (start and end; start_s and end_s)",
        ),
        ("trajectory,start_s,end,label\na,0,1,x\n", "or start_s and end_s; it has"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(text, words, tmp_path):
    with pytest.raises(InputError) as error:
        with_labels(steps(), written(tmp_path, text))
    assert words in one_sentence(error)


def test_data_that_cannot_be_labelled_are_refused(tmp_path):
    path = written(tmp_path, "trajectory,start,end,label\na,0,1,x\n")
    with pytest.raises(InputError, match="no file") as error:
        with_labels(steps(), tmp_path / "gone.csv")
    one_sentence(error)
    with pytest.raises(InputError, match="Time goes back") as error:
        with_labels(steps(times=[[3, 2, 1, 0], [0, 1, 2]]), path)
    one_sentence(error)
    twins = replace(steps(), trajectory_names=np.array(["a", "a"]))
    with pytest.raises(InputError, match="share a name") as error:
        with_labels(twins, path)
    one_sentence(error)
    dated = steps(times=[np.array(["2026-01-01"] * n, dtype="datetime64[ns]") for n in (4, 3)])
    with pytest.raises(InputError, match="are dates") as error:
        with_labels(dated, path)
    one_sentence(error)
