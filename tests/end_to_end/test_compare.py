"""`prism compare`, `prism report` and the help texts, as people type them."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from prism_irl.cli.main import main
from prism_irl.cli.printing import print_value_differences
from prism_irl.models.presets import HIQL
from prism_irl.studies import cross_validation
from prism_irl.worlds.frustration import FrustrationWorld

WORLD = FrustrationWorld(horizon=10)
METHODS = ["uniform", "iavi", "hiql", "empirical", "ngram"]  # the last two stand beside whatever is asked for
OPTIONS = "--methods uniform,iavi,hiql --folds 2 --intentions 2 --jobs 1".split()


class Done(NamedTuple):
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


def prism(*arguments: object) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Done(code, out.getvalue(), err.getvalue())


def refused(done: Done, *words: str) -> None:
    """One sentence on standard error, exit code 2, no stack trace."""
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr


def forbidden(*_: object) -> None:
    raise AssertionError("a finished fit was made again")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "mouse.csv"
    WORLD.simulate(16, seed=3).demonstrations.to_pandas().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "compare"
    done = prism("compare", table, *OPTIONS, "--out", folder, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((folder / "metrics.json").read_text())
    return folder


def test_metrics_keep_to_the_schema(run: Path) -> None:
    metrics = json.loads((run / "metrics.json").read_text())
    assert (metrics["quick"], metrics["folds"], metrics["seeds"]) == (False, 2, 1)
    assert (metrics["n_trajectories"], metrics["n_steps"]) == (16, 160)
    assert list(metrics["methods"]) == METHODS
    assert [entry["n_intentions"] for entry in metrics["methods"].values()] == [1, 1, 2, 1, 1]
    rows = pd.read_csv(run / "folds.csv")
    for name, entry in metrics["methods"].items():
        own = rows[rows["method"] == name]
        assert sorted(own["fold"]) == [0, 1]
        labelled = ("label_accuracy",) if entry["n_intentions"] > 1 else ()  # one policy labels nothing
        assert bool(labelled) == (entry["label_accuracy"] is not None)
        for score in ("predictive_ll", "paper_score", "mean_dwell", *labelled):
            assert set(entry[score]) == {"mean", "std"}
            assert entry[score]["mean"] == pytest.approx(own[score].mean())
            assert entry[score]["std"] == pytest.approx(own[score].std(ddof=1))
        assert isinstance(entry["fit_seconds"], float)
        assert entry["leaks"] is False
    assert metrics["methods"]["uniform"]["predictive_ll"]["mean"] == pytest.approx(-np.log(WORLD.n_actions))
    ranked = sorted(metrics["methods"], key=lambda name: -metrics["methods"][name]["predictive_ll"]["mean"])
    assert [metrics["best_two"]["best"], metrics["best_two"]["second"]] == ranked[:2]
    assert 0 <= metrics["best_two"]["p_value"] <= 1


def test_the_run_folder_is_complete(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert names >= {"config.json", "metrics.json", "folds.csv", "table.csv", "figures", "report.html"}
    assert (run / "figures" / "method_bars.svg").exists()
    assert "prism-irl" in json.loads((run / "config.json").read_text())["versions"]
    assert "HIQL (Markov chain)" in (run / "report.html").read_text()
    assert pd.read_csv(run / "table.csv")["method"].tolist() == METHODS
    assert list(json.loads((run / "config.json").read_text())["methods"]) == METHODS
    assert (run / "report.html").read_text().count("reference without intentions</small>") == 3


def test_the_page_explores_the_best_method_with_intentions(run: Path) -> None:
    explored = json.loads((run / "explorer.json").read_text())
    assert explored["fit"]["name"].startswith("HIQL (Markov chain)")
    page = (run / "report.html").read_text()
    assert "It was fitted to all trajectories to be looked at" in page
    assert "What does each intention want?" in page


def test_events_are_marked_in_the_page(table: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(table)
    frame["bell"] = (frame["state"] == 0).astype(int)
    frame.to_csv(tmp_path / "events.csv", index=False)
    arguments = ("compare", tmp_path / "events.csv", "--methods", "hiql", "--folds", 2, "--intentions", 2, "--jobs", 1)
    done = prism(*arguments, "--events", "bell", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    explored = json.loads((tmp_path / "run" / "explorer.json").read_text())
    marked = sum(len(one["events"]["bell"]) for one in explored["trajectories"])
    assert marked == frame["bell"].sum() > 0
    refused(prism(*arguments, "--events", "gong", "--out", tmp_path / "other"), "gong")
    assert not (tmp_path / "other").exists()


def test_resume_makes_no_finished_fit_again(run: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HIQL, "fit", forbidden)
    before = json.loads((run / "metrics.json").read_text())
    with monkeypatch.context() as patch:
        patch.setattr(cross_validation, "run_job", forbidden)
        done = prism("compare", table, *OPTIONS, "--out", run, "--json", "--resume")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == before
        more = prism("compare", table, *OPTIONS[2:], "--methods", "uniform,mixture", "--out", run, "--resume")
        assert (more.returncode, "made again" in more.stderr) == (1, True), "the mixture was never fitted"
    assert json.loads((run / "metrics.json").read_text()) == before


def test_overwrite_begins_again(run: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = "--methods uniform --folds 2 --jobs 1".split()
    assert prism("compare", table, *quick, "--out", tmp_path / "o").returncode == 0
    remembered = list((tmp_path / "o" / "cache").iterdir())
    assert len(remembered) == 2 * 3  # folds of uniform and of the other references
    monkeypatch.setattr(cross_validation, "run_job", forbidden)
    assert "made again" in prism("compare", table, *quick, "--out", tmp_path / "o", "--overwrite").stderr
    refused(prism("compare", table, *quick, "--out", tmp_path / "o", "--overwrite", "--resume"), "pass one")


def test_a_comparison_that_is_there_is_not_touched(run: Path, table: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    refused(prism("compare", table, *OPTIONS, "--out", run), "already holds a run", "--overwrite")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--methods uniform,prism-moon", ("'prism-moon'", "choose among", "prism-recurrent")),
        ("--methods ,", ("no method",)),
        ("--methods uniform,iavi,uniform", ("'uniform' appears twice",)),
        ("--methods uniform --folds 17", ("17 folds of 16 trajectories",)),
        ("--methods uniform --folds 1", ("1 folds",)),
        ("--methods uniform --seeds 0", ("seeds is 0",)),
        ("--methods uniform --jobs 0", ("jobs is 0",)),
        ("--methods uniform --by group", ("no groups",)),
        ("--methods uniform --truth none.npz", ("none.npz",)),
        ("--methods uniform --state cell", ("no column 'cell'",)),
    ],
)
def test_wrong_input_is_one_sentence_and_leaves_nothing(
    options: str, words: tuple[str, ...], table: Path, tmp_path: Path
) -> None:
    refused(prism("compare", table, *options.split(), "--out", tmp_path / "o"), *words)
    assert not list((tmp_path / "o").glob("*"))
    done = prism("compare", tmp_path / "none.csv", "--out", tmp_path / "o")
    refused(done, "none.csv")


def test_truth_and_the_table_on_the_terminal(table: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "truth.npz", rewards=WORLD.rewards, transitions=WORLD.transitions, policies=WORLD.policies)
    options = ["--methods", "uniform,iavi", *"--folds 2 --jobs 1 --truth".split(), tmp_path / "truth.npz"]
    done = prism("compare", table, *options, "--out", tmp_path / "o")
    assert done.returncode == 0, done.stderr
    for words in ("predictive LL", "IAVI (single intention)", "Expected value difference", "predicts better than"):
        assert words in done.stdout
    entries = json.loads((tmp_path / "o" / "metrics.json").read_text())["methods"]
    assert all(entries[name]["evd_0"]["mean"] > 0 for name in ("uniform", "iavi"))


def test_without_true_labels_label_accuracy_is_null(table: Path, tmp_path: Path) -> None:
    pd.read_csv(table).drop(columns="intention").to_csv(tmp_path / "plain.csv", index=False)
    done = prism(
        "compare", tmp_path / "plain.csv", *"--methods uniform --folds 2 --jobs 1 --json --out".split(), tmp_path / "o"
    )
    assert json.loads(done.stdout)["methods"]["uniform"]["label_accuracy"] is None


def test_report_writes_the_page_again(run: Path, tmp_path: Path) -> None:
    page = (run / "report.html").read_text()
    (run / "report.html").unlink()
    done = prism("report", run)
    assert done.returncode == 0, done.stderr
    assert str(run / "report.html") in done.stdout
    assert (run / "report.html").read_text() == page
    refused(prism("report", tmp_path / "nowhere"), "nowhere")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("--help", ("fit", "segment", "compare", "report")),
        ("fit --help", ("--intentions", "--switching", "--out", "Example")),
        ("compare --help", ("--methods", "--folds", "--resume")),
    ],
)
def test_help(command: str, words: tuple[str, ...]) -> None:
    done = prism(*command.split())
    assert done.returncode == 0
    for word in words:
        assert word in done.stdout


def test_value_differences_are_shown_even_if_the_first_method_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    entries = {"bc": {"name": "Cloning"}, "iavi": {"name": "Single", "evd_goal": {"mean": 1.25, "std": 0.0}}}
    print_value_differences({"methods": entries})
    shown = capsys.readouterr().out
    assert "1.25" in shown
    assert "Cloning" not in shown
