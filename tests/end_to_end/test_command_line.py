"""The real command line, in real processes: what people type, and what they see when the input is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.torch import load_file, save_file

from prism_irl.worlds.frustration import FrustrationWorld
from support import Done, prism

SMALL = (
    "--switching recurrent --intentions 2 --hidden 8 --embedding 8 "
    "--n-starts 2 --max-iterations 4 --warm-up 3 --device cpu"
).split()


def refused(done: Done, *words: str) -> None:
    """One sentence on standard error, exit code 2, no stack trace."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr


def process(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "prism_irl", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    pipes: dict[str, Any] = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # what a shell runs in the background is deaf to Ctrl-C, and so would be everything that it starts
    return subprocess.Popen(
        command, cwd=cwd, env=environment, **pipes, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small gridworld table with other column names and text labels."""
    folder = tmp_path_factory.mktemp("data")
    frame = FrustrationWorld(horizon=20).simulate(40, seed=3).demonstrations.to_pandas()
    frame["move"] = np.array(["up", "down", "left", "right", "stay"])[frame["action"]]
    frame = frame.rename(columns={"trajectory": "bout", "state": "cell"}).drop(columns="action")
    frame.to_csv(folder / "mouse.csv", index=False)
    return folder / "mouse.csv"


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "mouse"
    columns = "--trajectory bout --state cell --action move".split()
    fit = process("fit", table, *columns, *SMALL, "--out", folder, "--json", cwd=table.parent)
    stdout, stderr = fit.communicate()
    assert fit.returncode == 0, stderr
    metrics = json.loads(stdout)
    assert metrics == json.loads((folder / "metrics.json").read_text())
    return folder


def test_fit_leaves_a_complete_run_folder(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert names >= {
        "config.json",
        "model.safetensors",
        "metrics.json",
        "history.csv",
        "segments.parquet",
        "report.html",
    }
    assert "checkpoint" not in names
    metrics = json.loads((run / "metrics.json").read_text())
    assert set(metrics) >= {"method", "n_intentions", "n_trajectories", "n_steps", "mean_dwell", "agreement", "em"}
    assert metrics["n_trajectories"] == 40
    assert metrics["n_steps"] == 800
    for score in ("predictive_ll", "paper_score"):
        assert set(metrics[score]) == {"train", "validation"}
    assert set(metrics["em"]) >= {"iterations", "converged", "seconds", "starts"}


def test_segment_returns_the_rows_in_order_with_probabilities(run: Path, table: Path, tmp_path: Path) -> None:
    done = prism("segment", run, table, "--out", tmp_path / "labels.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    given, labelled = pd.read_csv(table), pd.read_parquet(tmp_path / "labels.parquet")
    pd.testing.assert_frame_equal(labelled[given.columns], given, check_dtype=False)
    probabilities = labelled[["p_0", "p_1"]].to_numpy()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-6)
    column = "predicted_intention" if "intention" in given else "intention"
    np.testing.assert_array_equal(labelled[column], probabilities.argmax(axis=1))
    again = prism("segment", run, table, "--out", tmp_path / "labels.parquet", cwd=tmp_path)
    refused(again, "labels.parquet", "--overwrite")


def test_score_prints_both_numbers(run: Path, table: Path, tmp_path: Path) -> None:
    done = prism("score", run, table, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    assert {"predictive_ll", "paper_score", "mean_dwell", "n_steps", "label_accuracy", "ari", "boundary_f1"} <= set(
        scores
    )
    assert scores["paper_score"] == pytest.approx(scores["predictive_ll"], abs=1e-9)


def test_missing_column_unknown_state_and_bad_values(run: Path, table: Path, tmp_path: Path) -> None:
    good = pd.read_csv(table)
    good.rename(columns={"bout": "b", "cell": "q", "move": "z"}).to_csv(tmp_path / "odd.csv", index=False)
    refused(prism("fit", tmp_path / "odd.csv", "--out", tmp_path / "o", cwd=tmp_path), "trajectory")
    good.assign(cell=good["cell"].where(good.index != 7, 99)).to_csv(tmp_path / "new.csv", index=False)
    refused(prism("score", run, tmp_path / "new.csv", cwd=tmp_path), "99")
    allowed = prism("score", run, tmp_path / "new.csv", "--unknown-state", "--json", cwd=tmp_path)
    assert allowed.returncode == 0, allowed.stderr
    columns = "--trajectory bout --state cell --action move".split()
    for bad, word in ((np.nan, "cell"), (-1, "-1")):
        good.assign(cell=good["cell"].where(good.index != 7, bad)).to_csv(tmp_path / "bad.csv", index=False)
        refused(prism("fit", tmp_path / "bad.csv", *columns, "--out", tmp_path / "o", cwd=tmp_path), word)
    (tmp_path / "empty.csv").write_text("")
    refused(prism("fit", tmp_path / "empty.csv", "--out", tmp_path / "o", cwd=tmp_path), "empty.csv")
    refused(prism("fit", tmp_path / "none.csv", "--out", tmp_path / "o", cwd=tmp_path), "none.csv")
    many = prism("fit", table, *columns, "--intentions", "5000", "--out", tmp_path / "o", cwd=tmp_path)
    refused(many, "5000")
    assert not (tmp_path / "o").exists()


def test_wrong_options_are_one_sentence(table: Path, tmp_path: Path) -> None:
    done = prism("fit", table, "--out", tmp_path / "o", "--intentions", "three", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert prism("fit", table, "--out", tmp_path / "o", "--preset", "paper-moon", cwd=tmp_path).returncode == 2


def test_damaged_and_foreign_models_are_refused(run: Path, table: Path, tmp_path: Path) -> None:
    weights = (run / "model.safetensors").read_bytes()
    for content in (weights[: len(weights) // 2], b"not a model"):
        copy = tmp_path / f"copy{len(content)}"
        copy.mkdir()
        (copy / "config.json").write_bytes((run / "config.json").read_bytes())
        (copy / "model.safetensors").write_bytes(content)
        refused(prism("score", copy, table, cwd=tmp_path), "model.safetensors")
    save_file(load_file(run / "model.safetensors"), copy / "model.safetensors")
    refused(prism("score", copy, table, cwd=tmp_path), "not written by prism")
    refused(prism("score", tmp_path / "nowhere", table, cwd=tmp_path), "nowhere")


def test_an_existing_run_is_not_touched_without_overwrite(run: Path, table: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    columns = "--trajectory bout --state cell --action move".split()
    refused(prism("fit", table, *columns, *SMALL, "--out", run, cwd=tmp_path), "--overwrite")
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before
    file = tmp_path / "file"
    file.write_text("mine")
    refused(prism("fit", table, *columns, *SMALL, "--out", file, cwd=tmp_path), "file")
    assert file.read_text() == "mine"


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_fit_resumes_to_the_same_result(table: Path, tmp_path: Path, how: signal.Signals) -> None:
    columns = "--trajectory bout --state cell --action move".split()
    options = [
        *columns,
        *"--intentions 2 --switching recurrent --hidden 8 --embedding 8 --n-starts 2 --warm-up 3 --device cpu".split(),
    ]
    options += "--max-iterations 100 --patience 100 --batch-size 4 --simulations 0".split()
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert prism("fit", table, *options, "--out", whole, cwd=tmp_path).returncode == 0
    running = process("fit", table, *options, "--out", cut, cwd=tmp_path)
    # Wait for a checkpoint of the running start, then strike.
    deadline = time.monotonic() + 120
    while not list(cut.glob("checkpoint/start_*.safetensors")) and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    interrupted = running.poll() is None
    running.send_signal(how)
    _, stderr = running.communicate()
    if interrupted and how == signal.SIGINT:
        assert running.returncode == 130, stderr
        assert "--resume" in stderr
    if how != signal.SIGKILL:
        assert not list(tmp_path.rglob(".prism-*.tmp"))
    if interrupted and how == signal.SIGTERM:
        assert (running.returncode, "Traceback" in stderr) == (128 + how, False), stderr
    if interrupted:
        refused(prism("fit", table, *options, "--out", cut, cwd=tmp_path), "--resume")
        other = prism("fit", table, *options, "--seed", "5", "--out", cut, "--resume", cwd=tmp_path)
        refused(other, "other data or options")
        done = prism("fit", table, *options, "--out", cut, "--resume", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    first, second = load_file(whole / "model.safetensors"), load_file(cut / "model.safetensors")
    assert first.keys() == second.keys()
    for name in first:
        assert first[name].equal(second[name]), name
    history = [pd.read_csv(folder / "history.csv").drop(columns="seconds") for folder in (whole, cut)]
    pd.testing.assert_frame_equal(*history)
    assert interrupted, "the fit ended before it could be interrupted; make it longer"


def test_results_may_stand_in_the_current_folder(table: Path, tmp_path: Path) -> None:
    columns = "--trajectory bout --state cell --action move".split()
    done = prism(
        "fit",
        table,
        *columns,
        *"--intentions 2 --switching markov --n-starts 1 --max-iterations 2".split(),
        "--out",
        ".",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path.name}-evidence" in done.stdout
