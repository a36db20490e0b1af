"""`--window`: typed, saved in steps, read again by segment, score and streams."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from continuous_worlds import walks
from prism_irl import storage
from prism_irl.cli.stream import stream
from prism_irl.cli.window import steps_per_second
from prism_irl.data.read import read_data
from prism_irl.models.persistence import load
from prism_irl.robots.episodes import Episode
from prism_irl.robots.lerobot_writing import write_lerobot
from support import prism

SMALL = ("--intentions", 2, "--n-starts", 1, "--max-iterations", 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("window")
    table = walks(n_trajectories=4, length=25)
    table.assign(time=0.1 * (np.arange(100) % 25)).to_csv(folder / "arm.csv", index=False)
    columns = ("--observe", "x,y", "--act", "vx,vy")
    done = prism("fit", "arm.csv", *columns, "--window", "0.4s", *SMALL, "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_seconds_become_steps_and_the_run_keeps_them(folder):
    rewards = storage.read_object(folder / "run" / "config.json")["parameters"]["rewards"]
    assert rewards["half"].endswith("Windows")
    assert rewards["window"] == 4
    metrics = storage.read_object(folder / "run" / "metrics.json")
    assert metrics["pair"] == "markov+windows"
    assert metrics["predictive_ll"] == metrics["paper_score"]
    assert "Labels look at what happens before and after a step" in (folder / "run" / "report.html").read_text("utf-8")


def test_segment_labels_as_the_fit_did(folder):
    done = prism("segment", "run", "arm.csv", "--out", "labels.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    fit = pd.read_parquet(next(folder.glob("run/segments.*")))
    labels = pd.read_csv(folder / "labels.csv")
    np.testing.assert_allclose(labels[["p_0", "p_1"]], fit[["p_0", "p_1"]], atol=1e-9)


def test_a_stream_says_that_it_cannot_look_ahead(folder):
    table = walks(n_trajectories=1, length=10, seed=4)
    answers: list[str] = []
    notes: list[str] = []
    stream(folder / "run", None, io.StringIO(table.to_csv(index=False)), answers.append, notes.append)
    assert len(notes) == 1
    assert "by the commands alone" in notes[0]
    rows = pd.read_csv(io.StringIO("\n".join(answers)))

    expected = load(folder / "run").filter_proba(read_data(table, observe="x,y", act="vx,vy").demonstrations)
    np.testing.assert_allclose(rows[["p_0", "p_1"]], expected, atol=2e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--window", "long"), "a number of steps such as 15"),
        (("--window", "9s"), "the longest has 25 steps"),
        (("--window", "4", "--rewards", "features"), "does not read --window"),
    ],
)
def test_bad_windows_are_refused_in_a_sentence(folder, options, words):
    done = prism("fit", "arm.csv", "--observe", "x,y", "--act", "vx,vy", *options, *SMALL, "--out", "no", cwd=folder)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (folder / "no").exists()


def test_datasets_know_their_steps_per_second(tmp_path):
    write_lerobot(tmp_path / "arm", [Episode(0, np.zeros((5, 2)), np.zeros((5, 3)))], fps=20, robot_type="test")
    assert steps_per_second(tmp_path / "arm") == 20.0
    assert steps_per_second(tmp_path / "arm.csv") is None
