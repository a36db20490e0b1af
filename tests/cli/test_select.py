"""`prism select` through the real command line."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prism_irl.cli.main import main

OPTIONS = "--intentions 1..3 --folds 2 --splits 2 --starts 2 --surrogates 0 --max-iterations 25 --jobs 1"


def opposite_policies() -> pd.DataFrame:
    """Two intentions that take opposite actions and last about 15 steps, without labels."""
    rng = np.random.default_rng(0)
    shape = (24, 60)
    switches = rng.random(shape) < 1 / 15
    intention = (switches.cumsum(axis=1) + rng.integers(2, size=(24, 1))) % 2
    action = np.where(rng.random(shape) < 0.9, intention, rng.integers(2, size=shape))
    state = rng.integers(4, size=shape)
    trajectory = np.repeat(np.arange(24), 60)
    return pd.DataFrame({"trajectory": trajectory, "state": state.ravel(), "action": action.ravel()})


@pytest.fixture(scope="module")
def selected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("select")
    opposite_policies().to_csv(folder / "grid.csv", index=False)
    options = OPTIONS.split()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(["select", str(folder / "grid.csv"), *options, "--out", str(folder / "run")])
    assert code == 0
    (folder / "stdout").write_text(out.getvalue())
    return folder


def test_two_intentions_are_recommended_where_there_are_two(selected: Path):
    metrics = json.loads((selected / "run" / "metrics.json").read_text())
    assert metrics["recommended"] == 2
    assert metrics["methods"]["k2"]["agreement"] > 0.8
    assert metrics["methods"]["k2"]["predictive_ll"]["mean"] > metrics["methods"]["k1"]["predictive_ll"]["mean"] + 0.05
    assert metrics["methods"]["k1"]["agreement"] is None
    assert "evidence" not in metrics
    assert "not tested against a habit" in metrics["recommendation"]
    assert metrics["recommendation"].split(":")[0] in (selected / "stdout").read_text()


def test_everything_is_left_behind(selected: Path):
    run = selected / "run"
    rows = pd.read_csv(run / "table.csv")
    assert rows["n_intentions"].tolist() == [1, 2, 3]
    assert {"predictive_ll", "standard_error", "agreement", "minimum_use", "mean_dwell", "identified"} <= set(rows)
    for name in ("config.json", "folds.csv", "report.html", "figures/selection.svg"):
        assert (run / name).is_file(), name
    page = (run / "report.html").read_text()
    assert "identifies 2 intentions" in page
    assert "Does the model behave like the agent?" in page


def test_the_winner_with_the_recommended_number_can_be_explored(selected: Path):
    explored = json.loads((selected / "run" / "explorer.json").read_text())
    metrics = json.loads((selected / "run" / "metrics.json").read_text())
    assert explored["n_intentions"] == metrics["recommended"]
    assert explored["fit"]["halves_agreement"] == metrics["methods"][f"k{metrics['recommended']}"]["agreement"]
    # The very winner whose use of its intentions stands in the table.
    assert sorted(explored["fit"]["usage"], reverse=True) == pytest.approx(metrics["methods"]["k2"]["use"])
    page = (selected / "run" / "report.html").read_text()
    assert "the fit with K=2" in page
    assert "When does the agent switch?" in page


def test_a_mood_that_repeats_its_last_choice_is_one_intention(selected: Path):
    """Whoever prefers one action for a while chooses what was chosen of late: a habit does the same."""
    options = "--intentions 1,2 --folds 2 --splits 1 --starts 1 --surrogates 10 --max-iterations 10 --simulations 0"
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["select", str(selected / "grid.csv"), *options.split(), "--out", str(selected / "tested")]) == 0
    metrics = json.loads((selected / "tested" / "metrics.json").read_text())
    assert not metrics["evidence"]["found"]
    assert metrics["recommended"] == 1
    assert [row["id"] for row in metrics["budget"]][-1] == "intentions"
    assert metrics["recommendation"].split(". ")[0] in (selected / "tested" / "report.html").read_text()


def test_wrong_input_is_one_sentence(selected: Path, capsys: pytest.CaptureFixture[str]):
    base = ["select", str(selected / "grid.csv")]
    for arguments, word in (
        (["--intentions", "none", "--out", str(selected / "x")], "cannot be read"),
        (["--folds", "500", "--out", str(selected / "x")], "folds"),
        (["--out", str(selected / "run")], "already holds a run"),
    ):
        assert main([*base, *arguments]) == 2
        error = capsys.readouterr().err
        assert word in error
        assert error.count("\n") == 1
    assert not (selected / "x").exists()


def test_what_was_fitted_is_not_fitted_again(selected: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a finished fit was made again")

    before = json.loads((selected / "run" / "metrics.json").read_text())
    monkeypatch.setattr("prism_irl.studies.cross_validation.run_job", refuse)
    monkeypatch.setattr("prism_irl.studies.cross_validation._fit", refuse)
    monkeypatch.setattr("prism_irl.studies.null._run_part", refuse)
    options = f"{OPTIONS} --resume".split()
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["select", str(selected / "grid.csv"), *options, "--out", str(selected / "run")]) == 0
    assert json.loads((selected / "run" / "metrics.json").read_text()) == before
