"""Labels of a few frames of a robot dataset: a column of its own, or a second table, down to the fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_irl.cli.fitted import open_run_data
from prism_irl.cli.sources import read_rows
from prism_irl.errors import InputError
from prism_irl.robots.continuous import read_dataset
from prism_irl.robots.lerobot import Words
from prism_irl.robots.lerobot_writing import add_column
from recordings_on_disk import build_example, there_and_back, write_records
from support import one_sentence, prism
from worlds.lerobot import write_lerobot

VECTORS = ("observation.state", "action")
KNOWN = [0, 1, -1, -1, 0]


@pytest.fixture
def dataset(tmp_path):
    write_lerobot(tmp_path / "arm", there_and_back(6, 20), fps=10, robot_type="test")
    return tmp_path / "arm"


def with_column(dataset: Path, name: str, cells: list[object]) -> None:
    """Put a column into the table of every episode, and into the description of the dataset."""
    for path in sorted((dataset / "data").rglob("*.parquet")):
        table = pq.read_table(path)
        pq.write_table(table.append_column(name, pa.array((cells * table.num_rows)[: table.num_rows])), path)
    info = json.loads((dataset / "meta" / "info.json").read_text())
    info["features"][name] = {"dtype": "string", "shape": [1], "names": None}
    (dataset / "meta" / "info.json").write_text(json.dumps(info))


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["reach", "grasp", None, "", "reach"], ("reach", "grasp")),
        ([0, 1, None, -1, 0], None),
        ([0.0, 1.0, None, -1.0, 0.0], None),
        ([[0], [1], [-1], None, [0]], None),
    ],
)
def test_a_column_of_words_or_numbers_with_gaps(dataset, cells, names):
    with_column(dataset, "stage", cells)
    demos = read_dataset(dataset, *VECTORS, labels="stage").demonstrations
    np.testing.assert_array_equal(demos.partial_labels, (KNOWN * 24)[:120])
    assert demos.partial_label_names == names
    assert demos.label_names == ("right", "left")  # phases stay what is true


def test_subtasks_that_were_written_back_are_known_by_their_words(dataset, tmp_path):
    frames, found = np.arange(10), np.array([1] * 4 + [0] * 6)
    add_column(
        dataset, tmp_path / "copy", {2: (frames, found)}, Words(("carries", "reaches")), subtasks=["carry", "reach"]
    )
    demos = read_dataset(tmp_path / "copy", *VECTORS, labels="subtask_index").demonstrations
    assert demos.partial_label_names == ("reach", "carry")
    assert (demos.partial_labels >= 0).sum() == 10  # frames that were not segmented are not known
    np.testing.assert_array_equal(demos.partial_labels[40:50], 1 - found)
    again = read_dataset(tmp_path / "copy", *VECTORS, labels="intention", intention="phase").demonstrations
    np.testing.assert_array_equal(again.partial_labels[40:50], found)
    np.testing.assert_array_equal(np.array(again.label_names)[again.labels], np.array(["right", "left"])[demos.labels])


def write_shards(folder: Path, features: dict[str, object] | None, **columns: object) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(0)
    values = {"steps/action": rng.normal(size=15), "steps/observation/state": rng.normal(size=10)}
    values |= {"steps/is_first": np.array([1, 0, 0, 0, 0])} | {
        f"steps/{name}": cells for name, cells in columns.items()
    }
    with (folder / "arm-train.tfrecord-00000-of-00001").open("wb") as file:
        write_records(file, [build_example(values)])
    if features is not None:
        steps = {"sequence": {"feature": {"featuresDict": {"features": features}}}}
        (folder / "features.json").write_text(json.dumps({"featuresDict": {"features": {"steps": steps}}}))
    return folder


@pytest.mark.parametrize("cells", [np.array(KNOWN), [b"reach", b"grasp", b"", b"-1", b"reach"]])
def test_a_step_feature_of_tfrecord_shards(tmp_path, cells):
    demos = read_dataset(write_shards(tmp_path / "arm", None, stage=cells), *VECTORS, labels="stage").demonstrations
    np.testing.assert_array_equal(demos.partial_labels, KNOWN)


def test_columns_that_are_not_there_are_refused(dataset, tmp_path):
    shards = write_shards(tmp_path / "shards", {"action": {"tensor": {"shape": {"dimensions": ["3"]}}}})
    bare = write_shards(tmp_path / "bare", None, wide=np.arange(10))
    with_column(dataset, "picture", [b"x"])
    for folder, name, words in (
        (dataset, "stage", "no column 'stage' among action"),
        (dataset, "picture", "neither a word nor a number"),
        (shards, "stage", "no column 'stage' among action"),
        (bare, "stage", "no step feature 'stage'"),
        (bare, "wide", "10 values for 5 steps"),
    ):
        with pytest.raises(InputError) as error:
            read_dataset(folder, *VECTORS, labels=name)
        assert words in one_sentence(error)
    with_column(dataset, "gaps", ["reach", None])
    with pytest.raises(InputError, match="intention at trajectory 0, step 1 is missing"):
        read_dataset(dataset, *VECTORS, intention="gaps")
    assert read_dataset(dataset, *VECTORS, intention="gone", may_lack=("intention",)).demonstrations.labels is not None


def test_a_fit_is_told_by_a_second_table(dataset, tmp_path):
    rows = [(episode, start, start + 4, name) for episode in (0, 3) for start, name in ((2, "push"), (12, "pull"))]
    pd.DataFrame(rows, columns=["episode", "start", "end", "label"]).to_csv(tmp_path / "known.csv", index=False)
    vectors = ("--observe", "observation.state", "--act", "action")
    small = ("--intentions", 2, "--n-starts", 1, "--max-iterations", 3, "--simulations", 0)
    done = prism("fit", "arm", *vectors, "--labels", "known.csv", *small, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    kept = pd.read_parquet(tmp_path / "run" / "segments.parquet")
    assert kept["labels"].notna().sum() == 16
    found = kept["predicted_intention"].to_numpy()[:20]  # `intention` are the true phases
    assert (found[:10] == 0).mean() >= 0.9  # what the first label calls push
    assert (found[10:] == 1).mean() >= 0.9
    assert "read partial labels of 16 steps" in done.stdout
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "which has read partial labels of 16 of the steps" in page
    assert "run prism select" not in page  # which has no continuous data
    assert json.loads((tmp_path / "run" / "names.json").read_text()) == {"names": ["push", "pull"]}
    assert "push" in (tmp_path / "run" / "figures" / "dwell.csv").read_text()
    done = prism("fit", "arm", *vectors, *small, "--out", "run", "--overwrite", cwd=tmp_path)  # nobody is told, now
    assert done.returncode == 0, done.stderr
    assert "push" in (tmp_path / "run" / "figures" / "dwell.csv").read_text()
    done = prism("fit", "arm", *vectors, "--labels", "known.csv", *small, "--out", "run", "--overwrite", cwd=tmp_path)
    fitted = open_run_data(tmp_path / "run")  # what contrasts and individuals read
    assert fitted.demos.partial_labels is not None
    assert (fitted.demos.partial_labels >= 0).sum() == 16
    assert fitted.demos.observations.shape == (120, 3)
    done = prism("segment", "run", "arm", "--write-back", "arm", "--subtask-index", "--out", "copy", cwd=tmp_path)
    words = pd.read_parquet(tmp_path / "copy" / "meta" / "subtasks.parquet")
    assert words.index.tolist() == ["push", "pull", "not segmented"]  # by the words of whoever knew
    done = prism("score", "run", "arm", "--json", cwd=tmp_path)  # new data need no labels
    assert json.loads(done.stdout)["label_accuracy"] > 0.9
    seconds = pd.DataFrame([(e, s / 10, t / 10, name) for e, s, t, name in rows])  # the dataset has 10 frames a second
    seconds.to_csv(tmp_path / "seconds.csv", index=False, header=["episode", "start_s", "end_s", "label"])
    for hz in ((), ("--hz", 10)):
        told = read_rows(
            dataset, hz=hz[1] if hz else None, observe=VECTORS[0], act=VECTORS[1], labels=tmp_path / "seconds.csv"
        )
        np.testing.assert_array_equal(told.demonstrations.partial_labels, fitted.demos.partial_labels)
    refused = prism("fit", "arm", *vectors, "--labels", "seconds.csv", "--hz", 0, *small, "--out", "no", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--hz is 0; give the steps per second" in refused.stderr
    refused = prism("fit", "arm", *vectors, "--group", "x", *small, "--out", "no", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--group is about columns of a table" in refused.stderr
