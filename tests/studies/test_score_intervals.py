"""Intervals of a comparison are over held-out animals, paired between methods, and the plain table stays as it was."""

import numpy as np
import pandas as pd
import pytest

from prism_irl.cli.main import main
from prism_irl.errors import InputError
from prism_irl.models.references import Empirical, Uniform
from prism_irl.models.registry import Method
from prism_irl.studies.cross_validation import UNIT_SCORES, cross_validate
from prism_irl.studies.score_intervals import in_words, score_intervals, scoring
from worlds.cohort import CohortWorld

METHODS = [Method("uniform", "Uniform", Uniform()), Method("empirical", "One intention", Empirical())]


@pytest.fixture(scope="module")
def demos():
    return CohortWorld(animals=4, trajectories=3, horizon=30).simulate(0).demonstrations


@pytest.fixture(scope="module")
def done(demos):
    return cross_validate(demos, METHODS, folds=3, extra=scoring(demos, 100))


def test_the_estimate_is_the_likelihood_of_all_held_out_steps(done):
    found = score_intervals(done, 100)
    rows = {row["method"]: row for row in found["rows"]}
    steps = {fit.fold: fit.row["n_steps"] for fit in done.fits}
    for name in ("uniform", "empirical"):
        own = [fit.row for fit in done.fits if fit.method.id == name]
        pooled = sum(row["predictive_ll"] * row["n_steps"] for row in own) / sum(steps.values())
        assert rows[name]["predictive_ll"] == pytest.approx(pooled)
    assert (found["n_units"], found["unit"]) == (8, "group")


def test_differences_are_paired_and_hold_their_estimate(done):
    found = score_intervals(done, 100)
    rows = {row["method"]: row for row in found["rows"]}
    assert found["best"] == "empirical"
    assert rows["empirical"]["below_best"] is None
    worse = rows["uniform"]
    assert worse["below_low"] <= worse["below_best"] <= worse["below_high"]
    assert worse["low"] == pytest.approx(worse["high"]) == pytest.approx(np.log(1 / 5))  # the same for every animal
    names = {method.id: method.name for method in METHODS}
    close = worse["below_low"] <= 0
    assert in_words(found, names).startswith(
        "One intention predicts best; not clearly worse: Uniform." if close else "One intention predicts better"
    )
    worse["below_low"] = 0.001
    assert in_words(found, names).startswith("One intention predicts better than every other")


def test_the_scores_of_animals_are_in_no_table(done):
    assert all(UNIT_SCORES not in row for row in done.rows)
    assert all(UNIT_SCORES not in entry for entry in done.table().values())


def test_too_few_resamples_or_animals_are_refused(demos):
    assert scoring(demos, 0) is None
    with pytest.raises(InputError, match="give 20 or more"):
        scoring(demos, 5)
    with pytest.raises(InputError, match="at least two animals"):
        scoring(demos.subset([0]), 100)


def test_compare_and_select_take_the_option(demos, tmp_path, capsys):
    table = tmp_path / "mouse.csv"
    demos.to_pandas().to_csv(table, index=False)
    common = ["--folds", "2", "--jobs", "1", "--intervals", "30"]
    asked = ["compare", str(table), "--methods", "uniform", *common, "--out", str(tmp_path / "compared")]
    assert main(asked) == 0
    assert "95% intervals over 8 held-out animals" in capsys.readouterr().out
    kept = pd.read_csv(tmp_path / "compared" / "score_intervals.csv")
    assert set(kept.method) == {"uniform", "empirical", "ngram"}
    assert "held-out animals" in (tmp_path / "compared" / "report.html").read_text()
    cheap = ["--intentions", "1", "--splits", "1", "--starts", "1", "--surrogates", "0", "--max-iterations", "2"]
    assert main(["select", str(table), *cheap, *common, "--out", str(tmp_path / "selected")]) == 0
    assert (tmp_path / "selected" / "score_intervals.csv").is_file()
    assert main(["select", str(table), "--intervals", "3", "--out", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "none").exists()
