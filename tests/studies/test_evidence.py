"""The budget adds up, intervals hold what they are of, and words say no more than the numbers do."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models.cloning import BehaviourCloning
from prism_irl.models.references import Uniform
from prism_irl.models.registry import Method
from prism_irl.studies import evidence, null
from prism_irl.studies.analysis import Analysis
from prism_irl.studies.tested import Task

SMALL = Analysis(intentions=(2,), folds=2, starts=1, max_iterations=5)
INTERVALS = [("predictive_ll", "low", "high"), ("gain", "gain_low", "gain_high")]


def animals(n=16, length=30):
    """Two opposite habits that change about every twelve steps, of four animals."""
    rng = np.random.default_rng(0)
    shape = (n, length)
    which = ((rng.random(shape) < 1 / 12).cumsum(axis=1) + np.arange(n)[:, None] // 4) % 2
    actions = np.where(rng.random(shape) < 0.9, which, 1 - which)
    states, groups = rng.integers(4, size=shape), list("abcd") * (n // 4)
    return Demonstrations.from_arrays(states, actions, n_states=4, n_actions=2, groups=groups)


@pytest.fixture(scope="module")
def demos():
    return animals()


@pytest.fixture(scope="module")
def folder(demos, tmp_path_factory):
    """Everything that a test leaves, with behaviour cloning."""
    folder = tmp_path_factory.mktemp("evidence")
    tiny = Method("bc", "Cloning", BehaviourCloning(hidden=4, embedding=4, max_epochs=2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "method", lambda name: tiny)
        result = evidence.evidence(demos, SMALL, folder, surrogates=2, cloning=True, title="Tiny")
    assert json.loads((folder / "metrics.json").read_text()) == result
    return folder


@pytest.fixture(scope="module")
def result(folder):
    return json.loads((folder / "metrics.json").read_text())


@pytest.fixture(scope="module")
def tested(demos, folder):
    """The same test, from what is remembered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(null, "_run_part", None)
        return null.run(demos, SMALL, surrogates=2, cache=folder / "cache")


# -- the budget --------------------------------------------------------------------------------------------------------


def test_rows_stand_in_order_and_gains_add_up(result, tested):
    rows = result["budget"]
    order = [name for name in evidence.NAMES if name != "habit" or tested.several]
    assert [row["id"] for row in rows] == order
    assert rows[0]["gain"] is None
    for above, row in pairwise(rows):
        assert row["gain"] == pytest.approx(row["predictive_ll"] - above["predictive_ll"])
    assert sum(row["gain"] for row in rows[1:-1]) == pytest.approx(rows[-2]["predictive_ll"] + np.log(2))


def test_rows_are_means_over_all_steps(demos, result, tested):
    scores = {row["id"]: row["predictive_ll"] for row in result["budget"]}
    assert scores["uniform"] == pytest.approx(-np.log(2))
    weights = [row["n_steps"] for row in tested.folds(0)]
    mean = np.average([row["intentions"] for row in tested.folds(0)], weights=weights)
    assert scores["intentions"] == pytest.approx(mean)
    by_hand = []
    for train, test in demos.folds(2):
        by_hand.append(BehaviourCloning(hidden=4, embedding=4, max_epochs=2).fit(train).score(test))
    assert scores["cloning"] == pytest.approx(np.average(by_hand, weights=weights), abs=1e-5)


@pytest.mark.parametrize(("value", "low", "high"), INTERVALS)
def test_intervals_contain_the_estimate(result, value, low, high):
    for row in result["budget"]:
        if row[value] is not None:
            assert row[low] - 1e-12 <= row[value] <= row[high] + 1e-12
            assert row["id"] == "uniform" or row[low] < row[high]
    assert result["evidence"]["gain_low"] < result["evidence"]["gain"] < result["evidence"]["gain_high"]


def test_intervals_are_over_animals_where_there_are_several(demos, tested):
    # Bootstraps of four animals and of their sixteen trajectories differ, and the words say whose they are.
    alone = replace(tested, demos=replace(demos, groups=None))
    assert evidence.gain_interval(tested) != evidence.gain_interval(alone)
    assert "Intervals are bootstraps over animals." in evidence.notes(tested)[2]
    assert "Intervals are bootstraps over trajectories." in evidence.notes(alone)[2]


def test_several_habits_have_a_row_where_they_predict_better(tested):
    for better, there in ((-0.01, False), (0.01, True)):
        rows = {
            task: row | {"habit": row["plain"] + better} if "plain" in row else row for task, row in tested.rows.items()
        }
        found = [row.id for row in evidence.budget(replace(tested, rows=rows))]
        assert ("habit" in found) == there
        assert found[-1] == "intentions"


def test_cloning_of_trajectories_stands_beside_their_own_steps(demos, tested, tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "method", lambda name: Method("bc", "Uniform", Uniform()))
    ragged = replace(demos, offsets=np.r_[0, np.cumsum(2 * np.arange(16) + 15)], groups=None)
    found = evidence._cloning(ragged, SMALL, None, 1, tmp_path)
    order = np.concatenate([test for _, test in ragged.fold_indices(2)])
    np.testing.assert_allclose(found, -np.log(2) * ragged.lengths[order])
    grouped = replace(demos, offsets=ragged.offsets)
    sums = evidence._cloning(grouped, SMALL, None, 1, tmp_path)
    np.testing.assert_allclose(sums, [-np.log(2) * ragged.lengths[grouped.groups == animal].sum() for animal in "abcd"])


# -- the outcome -------------------------------------------------------------------------------------------------------


def outcome(**changes):
    base = {
        "p_value": 0.05,
        "gain": 0.0123,
        "gain_low": 0.01,
        "gain_high": 0.02,
        "surrogate_gains": [-0.004] * 18 + [0.0011],
        "surrogates": 19,
        "memory": 3,
        "several_habits": False,
        "individuals": False,
        "agreement": 0.81,
        "agreement_p_value": 0.05,
        "level": 0.05,
        "found": True,
        "decided": True,
    }
    return base | changes


def test_words_for_evidence():
    text = evidence.words(outcome())
    assert text.startswith("Evidence for intentions beyond habit: intentions gain +0.0123 nats per step over a habit")
    assert "memory 3 (95% interval +0.0100 to +0.0200)" in text
    assert "any of 19 surrogates without intentions gains is +0.0011 (p = 0.05)" in text
    assert "not settled" not in text
    assert "predicts as well" not in text


def test_words_for_no_evidence():
    text = evidence.words(outcome(found=False, p_value=0.4))
    assert text.startswith("No evidence for intentions beyond habit:")
    assert "(p = 0.4)" in text


def test_too_few_surrogates_decide_nothing():
    text = evidence.words(outcome(found=False, decided=False, p_value=0.25, surrogates=3, surrogate_gains=[0.0] * 3))
    assert text.startswith("Not decided, for want of surrogates (--surrogates 19 or more)")
    assert "any of 3 surrogates" in text


def test_words_say_what_the_habit_knows_and_what_remains_open():
    assert "memory 3, different among trajectories, and individuals (" in evidence.words(
        outcome(several_habits=True, individuals=True)
    )
    assert "agree to 0.81, no better than on surrogates (p = 0.30)" in evidence.words(outcome(agreement_p_value=0.3))
    assert "The habit predicts as well all the same" in evidence.words(outcome(gain=-0.001))


def test_evidence_is_a_gain_that_no_more_than_the_level_of_surrogates_reach(tested):
    gains = np.r_[0.1, np.zeros(19)]
    many = replace(tested, rows={Task(b, 0): row(gain) for b, gain in enumerate(gains)})
    assert evidence.is_evidence(many)
    many.rows[Task(7, 0)] = row(0.1)
    assert not evidence.is_evidence(many)


def row(gain):
    return {"n_steps": 1, "plain": 0.0, "habit": 0.0, "intentions": gain}


def test_the_summary_is_what_was_tested(result, tested):
    found = result["evidence"]
    assert found["gain"] == tested.gain(0)
    assert found["surrogate_gains"] == [tested.gain(b) for b in (1, 2)]
    assert found["agreement"] == tested.agreement(0)
    assert found["surrogate_agreements"] == [tested.agreement(b) for b in (1, 2)]
    assert found["p_value"] == tested.p_value(tested.gain)
    assert found["individuals"] is True
    assert found["found"] is False  # two surrogates cannot decide
    assert result["notes"][0] == evidence.words(found)
    # Two surrogates cannot say yes; they say no as soon as one of them reaches the data.
    assert found["decided"] == (found["p_value"] > 1 / 3)
    assert result["notes"][0].startswith("No evidence" if found["decided"] else "Not decided")


# -- files -------------------------------------------------------------------------------------------------------------


def test_everything_is_left_behind(folder, result):
    assert (result["title"], result["experiment"], result["folds"]) == ("Tiny", "evidence", 2)
    table = pd.read_csv(folder / "table.csv")
    assert table["id"].tolist() == list(result["methods"]) == [row["id"] for row in result["budget"]]
    np.testing.assert_allclose(table["predictive_ll"], [row["predictive_ll"] for row in result["budget"]])
    folds = pd.read_csv(folder / "folds.csv")
    assert folds[["data", "fold"]].to_numpy().tolist() == [[data, fold] for data in range(3) for fold in range(2)]
    own = folds[folds["data"] == 0]
    reference = max(np.average(own[name], weights=own["n_steps"]) for name in ("plain", "habit"))
    gain = np.average(own["intentions"], weights=own["n_steps"]) - reference
    assert gain == pytest.approx(result["evidence"]["gain"])
    captions = json.loads((folder / "figures" / "captions.json").read_text())
    assert list(captions) == ["evidence", "budget"]
    for name in captions:
        assert (folder / "figures" / f"{name}.svg").is_file()
        assert (folder / "figures" / f"{name}.png").is_file()
    assert "2 surrogates" in captions["evidence"]
