"""An animal is counted with a chain of its own, and with policies that the others chose."""

import copy

import numpy as np
import pytest

from prism_irl.data.batching import Prepared
from prism_irl.models.hiql import HIQL
from prism_irl.models.own_models import OwnModels, has_own_chains, with_own_chain
from prism_irl.models.prism import PRISM
from prism_irl.worlds.cohort import CohortWorld


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
    expected.maximise(Prepared.of(drawn, model.contexts_), model.posterior(drawn).responsibilities)
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
    planned = PRISM(2, switching="markov", rewards="soft-1", **options).fit(demos)
    unit = np.unique(demos.groups, return_inverse=True)[1]
    part = demos.subset(unit == 0)
    assert OwnModels(planned, demos, unit)(0, part).rewards_model_ is planned.rewards_model_
    state = PRISM(2, switching="state", **options).fit(demos)
    assert not has_own_chains(state)
    assert OwnModels(state, demos, unit)(0, part) is state


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
