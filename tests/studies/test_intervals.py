"""Intervals hold their estimate, are the same again, go on where they stopped, and know whose they are."""

import numpy as np
import pandas as pd
import pytest

from prism_irl.cli.main import main
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.presets import HIQL
from prism_irl.models.references import Empirical, Uniform
from prism_irl.models.registry import Method
from prism_irl.studies import intervals as study
from prism_irl.studies.cross_validation import UNIT_SCORES, cross_validate
from prism_irl.studies.intervals import score_intervals, scores_in_words, scoring
from worlds.cohort import CohortWorld


@pytest.fixture(scope="module")
def demos():
    return CohortWorld(animals=4, trajectories=3, horizon=50).simulate(0).demonstrations


@pytest.fixture(scope="module")
def model(demos):
    return HIQL(2, n_starts=2).fit(demos)


@pytest.fixture(scope="module")
def found(model, demos):
    return study.intervals(model, demos, 24)


def test_every_number_lies_in_its_interval(found, model):
    assert found["n_units"] == 8
    assert found["unit"] == "group"
    assert found["agreement"] > 0.8
    for name in ("usage", "dwell", "switch_rate", "kernel"):
        low, high = found["numbers"][name]["interval"]
        assert (low <= found["numbers"][name]["estimate"]).all()
        assert (found["numbers"][name]["estimate"] <= high).all()
    assert found["numbers"]["rewards"]["interval"].shape == (2, 2, model.n_states_)


def test_units_that_were_not_drawn_score_below_the_data_of_the_fit(found, model, demos):
    assert found["numbers"]["new_units"]["estimate"] < model.score(demos)


def test_the_order_of_the_fit_is_kept_whatever_a_draw_calls_its_intentions(model, demos):
    labels = model.predict(demos)
    draw = study.one_draw(model, demos, labels, 0, 0)
    swapped = study.one_draw(model, demos, 1 - labels, 0, 0)
    np.testing.assert_allclose(draw["usage"], swapped["usage"][::-1])
    np.testing.assert_allclose(draw["kernel"], swapped["kernel"][::-1, ::-1])
    np.testing.assert_allclose(draw["rewards"], swapped["rewards"][::-1])


def test_draws_are_animals_and_the_same_again():
    one = study.draw_units(5, 0, 3)
    np.testing.assert_array_equal(one, study.draw_units(5, 0, 3))
    assert one.sum() == 5
    assert any((study.draw_units(5, 0, i) != one).any() for i in range(5))


def test_an_interrupted_bootstrap_goes_on(model, demos, tmp_path, monkeypatch):
    whole = study.bootstrap(model, demos, 22, folder=tmp_path)
    first = sorted(tmp_path.glob("draws_*"))
    assert len(first) == 3
    first[1].unlink()
    asked = []
    make = study.one_draw
    monkeypatch.setattr(study, "one_draw", lambda *given: (asked.append(given[-1]), make(*given))[1])
    again = study.bootstrap(model, demos, 22, folder=tmp_path)
    assert asked == list(range(10, 20))
    for name in whole:
        np.testing.assert_array_equal(again[name], whole[name])


def test_without_groups_trajectories_are_resampled(demos):
    plain = Demonstrations.from_arrays(demos.states.reshape(-1, 50), demos.actions.reshape(-1, 50))
    assert study.units_of(plain)[1:] == (len(demos), "trajectory")


@pytest.mark.parametrize(
    ("n", "model", "said"),
    [(5, HIQL(2), "20 or more"), (50, Uniform(), "not fitted by EM"), (-1, HIQL(2), "20 or more")],
)
def test_what_cannot_have_intervals_is_refused(n, model, said, demos):
    with pytest.raises(InputError, match=said):
        study.check_intervals(n, model, demos)


def test_one_animal_of_one_trajectory_has_none(demos):
    with pytest.raises(InputError, match="at least two"):
        study.check_intervals(50, HIQL(2), demos.subset([0]))


# -- likelihoods of a comparison ---------------------------------------------------------------------------------------


METHODS = [Method("uniform", "Uniform", Uniform()), Method("empirical", "One intention", Empirical())]


@pytest.fixture(scope="module")
def scored_data():
    return CohortWorld(animals=4, trajectories=3, horizon=30).simulate(0).demonstrations


@pytest.fixture(scope="module")
def done(scored_data):
    return cross_validate(scored_data, METHODS, folds=3, extra=scoring(scored_data, 100))


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
    assert scores_in_words(found, names).startswith(
        "One intention predicts best; not clearly worse: Uniform." if close else "One intention predicts better"
    )
    worse["below_low"] = 0.001
    assert scores_in_words(found, names).startswith("One intention predicts better than every other")


def test_the_scores_of_animals_are_in_no_table(done):
    assert all(UNIT_SCORES not in row for row in done.rows)
    assert all(UNIT_SCORES not in entry for entry in done.table().values())


def test_too_few_resamples_or_animals_are_refused(scored_data):
    assert scoring(scored_data, 0) is None
    with pytest.raises(InputError, match="give 20 or more"):
        scoring(scored_data, 5)
    with pytest.raises(InputError, match="at least two animals"):
        scoring(scored_data.subset([0]), 100)


def test_compare_and_select_take_the_option(scored_data, tmp_path, capsys):
    table = tmp_path / "mouse.csv"
    scored_data.to_pandas().to_csv(table, index=False)
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
