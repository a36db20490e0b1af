"""An animal is counted with a chain of its own and policies that the others chose: all of them, or its condition."""

import copy

import numpy as np
import pytest

from prism_irl.data.batching import Prepared
from prism_irl.evaluation import units
from prism_irl.models import subject_models
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL
from prism_irl.models.subject_models import ConditionModels, OwnModels, has_own_chains, with_own_chain
from worlds.cohort import CohortWorld


@pytest.fixture(scope="module")
def demos():
    return CohortWorld(animals=3, trajectories=4, horizon=40).simulate(0).demonstrations


@pytest.fixture(scope="module")
def model(demos):
    return HIQL(2, n_starts=2).fit(demos)


@pytest.mark.parametrize("history", [1, 2])
def test_policies_are_those_of_everybody_else(demos, history):
    model = HIQL(2, n_starts=1, history=history, max_iterations=5).fit(demos)
    unit = np.unique(demos.groups, return_inverse=True)[1]
    times = np.arange(len(demos)) % 3
    others = np.flatnonzero(unit != 1)
    drawn = demos.subset(np.repeat(others, times[others]))
    expected = copy.deepcopy(model.rewards_model_)
    expected.m_step(Prepared.of(drawn, model.contexts_), model.posterior(drawn).responsibilities)
    before = model.rewards_model_.policies.copy()
    found = OwnModels(model, demos, unit, times)(1, demos.subset(unit == 1))
    np.testing.assert_allclose(found.rewards_model_.policies, expected.policies, atol=1e-9)
    np.testing.assert_array_equal(model.rewards_model_.policies, before)


def test_the_steps_of_an_animal_do_not_move_its_own_policies(model, demos):
    unit = np.unique(demos.groups, return_inverse=True)[1]
    other = copy.deepcopy(demos)
    own = np.repeat(unit == 2, demos.lengths)
    other.actions[own] = (other.actions[own] + 1) % demos.n_actions
    tables = [OwnModels(model, d, unit)(2, d.subset(unit == 2)).rewards_model_.policies for d in (demos, other)]
    np.testing.assert_allclose(tables[0], tables[1], atol=1e-9)


def test_what_has_no_markov_chain_or_plans_keeps_its_policies(demos):
    options = {"n_starts": 1, "max_iterations": 2, "device": "cpu"}
    planned = Intentions(2, switching="markov", rewards="soft-1", **options).fit(demos)
    unit = np.unique(demos.groups, return_inverse=True)[1]
    part = demos.subset(unit == 0)
    assert OwnModels(planned, demos, unit)(0, part).rewards_model_ is planned.rewards_model_
    state = Intentions(2, switching="state", **options).fit(demos)
    assert not has_own_chains(state)
    assert OwnModels(state, demos, unit)(0, part) is state
    condition = np.arange(6) % 2
    assert ConditionModels(planned, demos, unit, condition)(0, part).rewards_model_ is planned.rewards_model_
    assert ConditionModels(state, demos, unit, condition)(0, part) is state


@pytest.mark.parametrize("history", [1, 2])
def test_policies_of_a_condition_are_its_choices_and_a_few_of_everybody(demos, history, monkeypatch):
    monkeypatch.setattr(subject_models, "ROUNDS", 0)
    model = HIQL(2, n_starts=1, history=history, max_iterations=5).fit(demos)
    unit, condition = np.unique(demos.groups, return_inverse=True)[1], np.array([0, 0, 1, 0, 1, 1])
    times = np.arange(len(demos)) % 3

    def choices(who):
        drawn = demos.subset(np.repeat(np.flatnonzero(who), times[who]))
        return model.rewards_model_.weighted_counts(
            Prepared.of(drawn, model.contexts_), model.posterior(drawn).responsibilities
        )

    alike, everybody = choices((condition[unit] == 0) & (unit != 1)), choices(unit != 1)
    steps = everybody.sum(-1, keepdims=True)
    expected = copy.deepcopy(model.rewards_model_)
    expected.smoothing = subject_models.SMOOTHING
    expected.set_counts(alike + np.where(steps > 20, 20 / np.maximum(steps, 1e-300), 1.0) * everybody)
    found = ConditionModels(model, demos, unit, condition, times)(1, demos.subset(unit == 1)).rewards_model_
    np.testing.assert_allclose(found.policies, expected.policies, atol=1e-9)
    assert model.rewards_model_.smoothing == 0.01


def test_a_group_with_another_goal_is_not_taken_for_one_that_switches_more_often():
    cohort = CohortWorld(moved=0.5, spread=0.0).simulate(10_000)
    demos, second = cohort.demonstrations, np.arange(16) >= 8
    unit = np.unique(demos.groups, return_inverse=True)[1]
    model = HIQL(2, n_starts=2).fit(demos)
    labels = demos.labels.reshape(len(demos), -1)
    truth = (labels[:, 1:] != labels[:, :-1]).mean(axis=1)
    truth = truth[second[unit]].mean() - truth[~second[unit]].mean()
    differences = []
    for own in (OwnModels(model, demos, unit), ConditionModels(model, demos, unit, second)):
        counts = units.count_units(model, demos, unit, own)
        at = [measure.name for measure in counts.measures].index("switch_rate")
        one, two = units.ratio(np.stack([~second, second]).astype(float), counts)[:, at]
        differences.append(two - one)
    assert abs(differences[1] - truth) < abs(differences[0] - truth) / 2


def test_a_chain_of_their_own_leaves_policies_alone_and_is_less_drawn_to_the_mean():
    """Of animals that switch twice as often as the others, a shared chain misses some switches."""
    cohort = CohortWorld(animals=4, trajectories=6, horizon=60, switching=3.0, spread=0.0, leave=(0.04, 0.04)).simulate(
        0
    )
    demos = cohort.demonstrations
    model = HIQL(2, n_starts=1, max_iterations=30).fit(demos)
    fast = demos.subset(cohort.condition == "drug")
    own = with_own_chain(model, fast)
    assert own.rewards_model_ is model.rewards_model_
    assert own.kernel_.diagonal().mean() < model.kernel_.diagonal().mean()
    np.testing.assert_allclose(own.kernel_.sum(axis=1), 1.0)
    switches = [one.posterior(fast).transitions for one in (model, own)]
    rates = [1 - pairs.trace() / pairs.sum() for pairs in switches]
    labels = fast.labels.reshape(len(fast), -1)
    truth = (labels[:, 1:] != labels[:, :-1]).mean()
    assert abs(rates[1] - truth) < abs(rates[0] - truth)


def test_on_all_data_the_own_chain_is_nearly_the_fitted_one():
    demos = CohortWorld(animals=4, trajectories=4, horizon=50).simulate(0).demonstrations
    model = HIQL(2, n_starts=1).fit(demos)
    np.testing.assert_allclose(with_own_chain(model, demos).kernel_, model.kernel_, atol=0.01)
