"""`prism segment --stream`: the answers are those of the filter, line by line."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from continuous_worlds import walks
from prism_irl.cli.segment import stream
from prism_irl.data.read import read_data
from prism_irl.errors import InputError
from prism_irl.models.registry import load
from support import one_sentence, prism


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream")
    walks(n_trajectories=4, length=25).to_csv(folder / "arm.csv", index=False)
    small = ("--intentions", 2, "--n-starts", 1, "--max-iterations", 3)
    done = prism("fit", "arm.csv", "--observe", "x,y", "--act", "vx,vy", *small, "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_every_line_is_answered_as_the_batch_would(run):
    table = walks(n_trajectories=2, length=10, seed=4).drop(columns="intention")
    answers: list[str] = []
    found = stream(run, None, io.StringIO(table.to_csv(index=False)), answers.append)
    assert found["steps"] == 20
    rows = pd.read_csv(io.StringIO("\n".join(answers)))
    assert list(rows.columns) == ["trajectory", "intention", "p_0", "p_1"]
    expected = load(run).filter_proba(read_data(table, observe="x,y", act="vx,vy").demonstrations)
    np.testing.assert_allclose(rows[["p_0", "p_1"]], expected, atol=1e-5)


def test_names_stand_behind_the_beliefs(run, tmp_path):
    (tmp_path / "names.json").write_text('{"names": ["reach", "go, home"]}')
    text, answers = "x,y,vx,vy\n1,2,3,4\n", list[str]()
    stream(run, None, io.StringIO(text), answers.append, called=tmp_path / "names.json")
    (row,) = pd.read_csv(io.StringIO("\n".join(answers))).to_dict("records")
    assert row["intention_name"] == ["reach", "go, home"][row["intention"]]


def test_a_trajectory_may_be_called_anything_and_its_row_is_one_line(run):
    answers: list[str] = []
    text = 'trajectory,x,y,vx,vy\n"a,b",1,2,3,4\n"say ""go""",1,2,3,4\n\x1b[31mred,1,2,3,4\n"two\nlines",1,2,3,4\n'
    stream(run, None, io.StringIO(text), answers.append)
    assert len(answers) == 5
    assert all(line.isprintable() for line in answers)
    rows = pd.read_csv(io.StringIO("\n".join(answers)))
    assert rows["trajectory"].tolist() == ["a,b", 'say "go"', "\\x1b[31mred", "two lines"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x,y,vx\n1,2,3\n", "no column 'vy'"),
        ("x,y,vx,vy\n1,2,3\n", "Row 0 of the stream has 3 cells"),
        ("x,y,vx,vy\n1,2,3,up\n", "'up' in column 'vy'"),
        ("x,y,vx,vy\n1,2,3,4\n1,2,1e308,-1e308\n", "Row 1 of the stream is so far from all"),
        ("x,y,vx,vy\n1,2,3,4\n1,inf,3,4\n", "Row 1 of the stream has 'inf' in column 'y'; send a finite number"),
        ("x,y,vx,vy\n1,2,3,nan\n", "'nan' in column 'vy'"),
        ("x,y,vx,vy,x\n1,2,3,4,5\n", "2 columns 'x'"),
        ("trajectory,x,y,vx,vy,trajectory\na,1,2,3,4,b\n", "2 columns 'trajectory'"),
        (f"x,y,vx,vy\n1,2,3,{'4' * 200_000}\n", "not CSV in UTF-8"),
        ("x,y,vx,vy\n", "no row"),
        ("", "no column 'x'"),
    ],
)
def test_what_is_wrong_is_said(run, text, words):
    with pytest.raises(InputError) as error:
        stream(run, None, io.StringIO(text), lambda line: None)
    assert words in one_sentence(error)


def test_bytes_that_are_no_text_are_said(run):
    with pytest.raises(InputError, match="not CSV in UTF-8"):
        stream(run, None, io.TextIOWrapper(io.BytesIO(b"x,y,vx,vy\n1,2,3,\xff\n"), "utf-8"), lambda line: None)


def test_a_stream_needs_no_table(run):
    done = prism("segment", run, "arm.csv", "--stream", cwd=run.parent)
    assert done.returncode == 2
    assert "--stream reads standard input" in done.stderr
    assert prism("segment", run, cwd=run.parent).returncode == 2
