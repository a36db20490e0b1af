"""Contrasts find what is there, are exact where nothing is, and say when there are too few animals."""

import sys

import numpy as np
import pytest

from prism_irl.errors import InputError
from prism_irl.models.presets import HIQL
from prism_irl.report.contrast import in_words, section
from prism_irl.studies.contrast import Renamed, contrast, design, refitted
from worlds.cohort import CohortWorld

LEVELS = ("saline", "drug")
TESTED = {"evidence": {"p_value": 0.05, "gain": 0.01, "surrogates": 19}}


def study(seed=0, **effect):
    cohort = CohortWorld(trajectories=4, horizon=50, **effect).simulate(seed)
    demos = cohort.demonstrations
    return HIQL(2, n_starts=2, max_iterations=60).fit(demos), demos, cohort.condition


def compare(model, demos, condition, **options):
    return contrast(model, demos, demos.groups, condition, levels=LEVELS, **options)


def best(found, measure):
    return min((t for t in found["tests"] if t["measure"] == measure), key=lambda t: t["p_adjusted"])


@pytest.fixture(scope="module")
def usage():
    return study(usage=2.5)


def test_another_usage_is_found_and_said(usage):
    found = compare(*usage)
    test = best(found, "usage")
    assert test["p_adjusted"] <= 0.05
    assert test["interval"][0] <= test["difference"] <= test["interval"][1]
    assert "usage of intention" in in_words(found, None, TESTED)
    assert "Not tested" not in in_words(found, None, TESTED)
    assert "Not tested against a habit" in in_words(found, None, {})  # the very intentions that are compared
    assert found["n_per_level"] == [8, 8]
    assert found["exact"]


def test_swapping_the_levels_turns_the_differences_round(usage):
    model, demos, condition = usage
    there = compare(model, demos, condition)
    back = contrast(model, demos, demos.groups, condition, levels=LEVELS[::-1])
    for one, two in zip(there["tests"], back["tests"], strict=True):
        assert one["p"] == pytest.approx(two["p"])
        sign = 1 if one["interval"] is None else -1
        assert one["difference"] == pytest.approx(sign * two["difference"])


def test_p_never_sees_what_is_estimated_with_the_conditions(usage, monkeypatch):
    there = compare(*usage)
    module = sys.modules["prism_irl.studies.contrast"]
    monkeypatch.setattr(
        module, "ConditionModels", lambda model, demos, unit, condition: module.OwnModels(model, demos, unit)
    )
    blind = compare(*usage)
    assert [test["p"] for test in there["tests"]] == [test["p"] for test in blind["tests"]]
    assert best(there, "switch_rate")["difference"] != best(blind, "switch_rate")["difference"]


def test_a_difference_whose_interval_holds_zero_says_so(usage):
    found = compare(*usage)
    test = best(found, "usage")
    assert "holds zero" not in in_words(found, None, TESTED)
    test["interval"] = [-0.1, 0.3]
    assert "The interval holds zero all the same" in in_words(found, None, TESTED)


def test_the_page_says_with_what_differences_were_estimated(usage):
    found = compare(*usage)
    assert found["by_condition"]
    assert "policies of each condition" in section(found, None, TESTED).how
    as_fitted = section(found | {"by_condition": False}, None, TESTED).how
    assert "policies of each condition" not in as_fitted
    assert "with the fit as it is; how often" in as_fitted


def test_rewards_that_differ_are_found_in_another_measure_than_usage():
    found = compare(*study(moved=0.8))
    assert best(found, "reward")["p_adjusted"] <= 0.05
    assert best(found, "usage")["p_adjusted"] > 0.05


def test_a_paired_design_is_recognised_and_names_who_is_left_out():
    model, demos, condition = study(paired=True, switching=3.0, animals=7)
    found = compare(model, demos, condition)
    assert found["paired"]
    assert found["n_units"] == 7
    assert found["assignments"] == 2**7
    assert best(found, "switch_rate")["p_adjusted"] <= 0.05
    condition = np.where((demos.groups == "a00") & (condition == "drug"), "saline", condition)
    found = compare(model, demos, condition)
    assert found["left_out"] == ["a00"]
    assert found["n_units"] == 6
    assert "a00" in in_words(found, None, TESTED)


def test_too_few_animals_get_no_p():
    found = compare(*study(animals=3, usage=3.0))
    assert not found["enough_units"]
    assert all(test["p"] is None and test["p_adjusted"] is None for test in found["tests"])
    assert "Too few" in in_words(found, None, TESTED)
    assert "0.10" in in_words(found, None, TESTED)
    assert best({"tests": [t | {"p_adjusted": 0} for t in found["tests"]]}, "usage")["interval"] is not None


def test_permuted_conditions_are_found_to_differ_one_time_in_twenty(usage):
    """Exactness: over all permutations of the labels, p ≤ 0.05 in no more than 5% of them."""
    model, demos, _ = usage
    animals, rng, small = np.unique(demos.groups), np.random.default_rng(0), 0
    for _ in range(20):
        chosen = rng.permutation(animals)[:8]
        found = compare(model, demos, np.where(np.isin(demos.groups, chosen), "drug", "saline"))
        small += min(t["p_adjusted"] for t in found["tests"]) <= 0.05
    assert small <= 4  # 1 expected; 5 or more come by chance in one of 400 cases


def test_cells_are_animals_under_conditions():
    unit, condition = np.array(list("aabbc")), np.array(["x", "y", "x", "y", "x"])
    plan = design(unit, condition, ("x", "y"))
    assert plan.cells.paired
    assert plan.left_out == ["c"]
    assert plan.cell.tolist() == [0, 1, 2, 3, -1]
    apart = design(np.array(list("abc")), np.array(["x", "y", "z"]), ("x", "y"))
    assert not apart.cells.paired
    assert apart.cell.tolist() == [0, 1, -1]


def test_three_groups_are_compared_and_the_pairs_that_differ_named():
    model, demos, condition = study(usage=4.0)
    drugged = np.unique(demos.groups[condition == "drug"])
    low = np.isin(demos.groups, drugged[::2])
    three = np.where(condition == "saline", "saline", np.where(low, "low", "high"))
    levels = ("saline", "low", "high")
    found = contrast(model, demos, demos.groups, three, levels=levels)
    assert found["n_per_level"] == [8, 4, 4]
    test = best(found, "usage")
    assert test["p_adjusted"] <= 0.05
    assert test["difference"] == pytest.approx(max(test["values"]) - min(test["values"]))
    words = in_words(found, None, TESTED)
    assert "Under saline, low and high the usage of intention" in words
    assert "high − saline" in words
    assert "high − low" not in words
    again = contrast(model, demos, demos.groups, three, levels=levels[::-1])
    assert best(again, "usage")["difference"] == pytest.approx(test["difference"])


def test_groups_of_one_kind_are_told_apart_no_more_often_than_chance(usage):
    model, demos, _ = usage
    animals, rng, small = np.unique(demos.groups), np.random.default_rng(0), 0
    for _ in range(5):
        group = dict(zip(animals, rng.permutation(np.arange(len(animals)) % 3).astype(str), strict=True))
        three = np.array([group[name] for name in demos.groups])
        found = contrast(model, demos, demos.groups, three, levels=("0", "1", "2"))
        small += min(t["p_adjusted"] for t in found["tests"]) <= 0.05
    assert small <= 1


def test_animals_with_some_of_three_conditions_are_refused():
    unit, condition = np.array(list("aabb")), np.array(["x", "y", "y", "z"])
    with pytest.raises(InputError, match="none has all"):
        design(unit, condition, ("x", "y", "z"))
    plan = design(np.array(list("aaabbb")), np.array(list("xyzxyz")), ("x", "y", "z"))
    assert plan.cells.paired
    assert plan.cells.level.tolist() == [0, 1, 2, 0, 1, 2]


def test_a_condition_that_nobody_has_is_refused(usage):
    model, demos, condition = usage
    with pytest.raises(InputError, match="No animal has condition = 'salt'"):
        contrast(model, demos, demos.groups, condition, levels=("saline", "salt"))


# -- refitted intervals ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def refitted_study():
    cohort = CohortWorld(animals=5, trajectories=3, horizon=40, usage=2.0).simulate(0)
    demos = cohort.demonstrations
    return HIQL(2, n_starts=2).fit(demos), demos, demos.groups, cohort.condition


def test_differences_lie_in_intervals_that_are_no_longer_those_of_the_fit_alone(refitted_study):
    first = contrast(*refitted_study, levels=("saline", "drug"))
    found = refitted(first, *refitted_study, 20)
    assert found["refitted"] == 20
    for before, after in zip(first["tests"], found["tests"], strict=True):
        if after["interval"] is None:
            assert before == after
            continue
        assert after["interval"][0] <= after["difference"] <= after["interval"][1]
        assert after["interval"] != before["interval"]
        assert after["p"] == before["p"]


def test_renamed_intentions_are_the_same_model(refitted_study):
    model, demos, *_ = refitted_study
    plain, renamed = model.posterior(demos), Renamed(model, np.array([1, 0])).posterior(demos)
    np.testing.assert_array_equal(plain.responsibilities[:, ::-1], renamed.responsibilities)
    np.testing.assert_array_equal(plain.transitions[::-1, ::-1], renamed.transitions)
