"""`prism evidence` through the real command line."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prism_irl.report.verdict import signed
from support import page_of, prism

SMALL = {"--intentions": 2, "--folds": 2, "--starts": 1, "--max-iterations": 5, "--jobs": 1, "--group": "mouse"}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two opposite habits that change about every twelve steps, of four animals, and their test."""
    folder = tmp_path_factory.mktemp("evidence")
    rng = np.random.default_rng(0)
    shape = (16, 30)
    which = ((rng.random(shape) < 1 / 12).cumsum(axis=1) + np.arange(16)[:, None]) % 2
    action = np.where(rng.random(shape) < 0.9, which, 1 - which).ravel()
    trajectory = np.repeat(np.arange(16), 30)
    columns = {"bout": trajectory, "mouse": trajectory % 4, "state": rng.integers(4, size=480), "action": action}
    pd.DataFrame(columns).to_csv(folder / "mice.csv", index=False)
    found = run(folder, surrogates=2, out="run")
    assert found.returncode == 0, found.stderr
    (folder / "stdout").write_text(found.stdout)
    return folder


def run(folder: Path, **options: object):
    """The command with small settings, where no others are given; underscores stand for hyphens, True for a flag."""
    given = SMALL | {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    typed = [part for name, value in given.items() for part in ([name] if value is True else [name, value])]
    return prism("evidence", "mice.csv", "--trajectory", "bout", *typed, cwd=folder)


def metrics_of(folder: Path) -> dict:
    return json.loads((folder / "run" / "metrics.json").read_text())


def test_everything_is_left_behind(done: Path) -> None:
    names = {path.relative_to(done / "run").as_posix() for path in (done / "run").rglob("*")}
    assert names >= {"config.json", "metrics.json", "table.csv", "folds.csv", "report.html"}
    assert names >= {f"figures/{name}.{kind}" for name in ("evidence", "budget") for kind in ("svg", "png")}
    metrics = metrics_of(done)
    assert metrics["title"] == "Are there intentions in mice.csv?"
    assert metrics["evidence"]["surrogates"] == 2
    assert metrics["evidence"]["individuals"] is True
    assert "individuals" in [row["id"] for row in metrics["budget"]]
    config = json.loads((done / "run" / "config.json").read_text())
    assert config["data"]["file"] == "mice.csv"
    assert config["data"]["columns"]["group"] == "mouse"


def test_a_quick_test_is_made_on_simulations_of_one_habit(done: Path) -> None:
    found = metrics_of(done)["evidence"]
    assert (len(found["shrinkage"]["moves"]) > 1) == (found["memory"] > 1)  # the present state alone is not shrunk
    assert run(done, quick=True, surrogates=1, out="quick").returncode == 0
    metrics = json.loads((done / "quick" / "metrics.json").read_text())
    assert metrics["quick"]
    assert metrics["evidence"]["shrinkage"]["moves"] == []
    assert "1 starts" not in metrics["notes"][-1]
    assert "one start" in metrics["notes"][-1]


def test_the_terminal_shows_the_budget_and_the_outcome(done: Path) -> None:
    text, metrics = (done / "stdout").read_text(), metrics_of(done)
    for row in metrics["budget"]:
        assert row["name"] in text
        assert signed(row["predictive_ll"], 4) in text
    assert metrics["notes"][0] in text
    assert "report.html" in text


def test_the_page_says_the_verdict(done: Path) -> None:
    page, metrics = page_of(done / "run"), metrics_of(done)
    assert metrics["notes"][0] in page
    assert "The budget of predictability" in page
    assert "Paper score" not in page  # a column that this table has not


def test_what_is_done_is_not_done_again(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prism_irl.studies import null

    before, made, run_part = metrics_of(done), [], null._run_part

    def part(task, *shared):
        made.append(task)
        return run_part(task, *shared)

    monkeypatch.setattr(null, "_run_part", part)
    assert run(done, surrogates=2, out="run", resume=True).returncode == 0
    assert made == []
    assert metrics_of(done) == before
    more = run(done, surrogates=3, out="run", resume=True, json=True)
    assert more.returncode == 0, more.stderr
    assert {task.data for task in made} == {3}
    after = json.loads(more.stdout)
    assert after["evidence"]["surrogate_gains"][:2] == before["evidence"]["surrogate_gains"]
    assert after["evidence"]["gain"] == before["evidence"]["gain"]
    assert run(done, surrogates=2, out="run", resume=True).returncode == 0  # as it was, for the other tests


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"intentions": "none"}, "cannot be read"),
        ({"intentions": "1,2"}, "two intentions or more"),
        ({"starts": 0}, "1 start"),
        ({"folds": 500}, "500 folds of 16 trajectories"),
        ({"by": "group", "folds": 5}, "5 folds of 4 groups"),
        ({"group": "nobody"}, "nobody"),
        ({"surrogates": 0}, "--surrogates is 0; give at least 39"),
    ],
)
def test_wrong_input_is_one_sentence(done: Path, options: dict[str, object], words: str) -> None:
    found = run(done, **options, out="other")
    assert found.returncode == 2
    assert words in found.stderr
    assert found.stderr.count("\n") == 1
    assert not (done / "other").exists()


def test_a_finished_run_is_not_touched(done: Path) -> None:
    before = metrics_of(done)
    found = run(done, surrogates=1, out="run")
    assert found.returncode == 2
    assert "already holds a run" in found.stderr
    assert metrics_of(done) == before
