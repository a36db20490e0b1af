"""Agents in a changed world: planning anew changes nothing where nothing changed, and what is missing never occurs."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.contexts import Contexts
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL
from prism_irl.models.streaming import Imagined
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.switching.markov import MarkovChain
from worlds.cohort import CohortWorld

WORLD = CohortWorld(animals=3, trajectories=3, horizon=40, barriers=((1, 1),), size=4)
QUICK = {"n_starts": 1, "max_iterations": 5, "device": "cpu"}


@pytest.fixture(scope="module")
def demos():
    return WORLD.simulate(0).demonstrations


@pytest.fixture(scope="module")
def soft(demos):
    return Intentions(2, switching="markov", rewards="soft-1", **QUICK).fit(demos, WORLD.mdp)


@pytest.fixture(scope="module")
def goals(demos):
    return Intentions(2, switching="markov", rewards="goals", history=2, backoff=8.0, **QUICK).fit(demos, WORLD.mdp)


@pytest.fixture(scope="module")
def tabular(demos):
    return HIQL(2, n_starts=1, max_iterations=10).fit(demos)


def test_planning_anew_in_the_same_world_changes_nothing(soft, goals):
    visited = soft.rewards_model_.counts.sum((0, 2)) > 0
    np.testing.assert_allclose(soft.imagine(WORLD.mdp).policies_[:, visited], soft.policies_[:, visited], atol=1e-6)
    np.testing.assert_allclose(goals.imagine(WORLD.mdp).policies_, goals.policies_, atol=1e-9)


@given(shut=st.sets(st.integers(0, 15), min_size=1, max_size=5))
@settings(max_examples=20, deadline=None)
def test_a_closed_state_is_never_entered_and_probabilities_stay_probabilities(shut):
    closed = WORLD.mdp.closed(sorted(shut))
    dense = closed.transitions.toarray().reshape(16, 5, 16)
    np.testing.assert_allclose(dense.sum(-1), 1.0)
    for s in shut:
        others = np.arange(16) != s
        assert (dense[others][:, :, s] == 0).all()


def test_policies_of_the_changed_world_are_distributions_that_avoid_the_closed_way(soft, goals):
    closed = WORLD.mdp.closed([5, 10])
    for model in (soft, goals):
        policies = model.imagine(closed).policies_
        np.testing.assert_allclose(policies.sum(-1), 1.0)
        assert np.abs(policies - model.policies_).max() > 0.01


def test_an_intention_that_nobody_has_is_never_drawn(soft, tabular, demos):
    for model in (soft, tabular):
        for k in (0, 1):
            simulated = model.imagine(without=k).simulate(demos)
            assert (simulated.labels == 1 - k).all()


def test_three_intentions_without_one_follow_the_conditioned_kernel():
    many = CohortWorld(animals=10, trajectories=3, horizon=80, size=4).simulate(0).demonstrations
    kernel = np.array([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.4, 0.4, 0.2]])
    chain, contexts = MarkovChain(3), Contexts(16)
    chain.kernel.copy_(torch.from_numpy(kernel))
    rewards = TabularPolicies(3, 5, contexts)
    labels = Imagined(chain, rewards, contexts, WORLD.mdp, torch.device("cpu"), without=2).simulate(many, 1).labels
    later = np.flatnonzero(~many.first_steps)
    counts = np.bincount(labels[later - 1] * 3 + labels[later], minlength=9).reshape(3, 3)[:2, :2]
    wanted = kernel[:2, :2] / kernel[:2, :2].sum(1, keepdims=True)
    np.testing.assert_allclose(counts / counts.sum(1, keepdims=True), wanted, atol=0.04)


def test_the_same_seed_gives_the_same_walk_and_starts_are_those_of_the_data(soft, demos):
    one, two = (soft.imagine(WORLD.mdp).simulate(demos, 3) for _ in range(2))
    np.testing.assert_array_equal(one.states, two.states)
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.states[one.offsets[:-1]], demos.states[demos.offsets[:-1]])


def test_policies_that_cannot_transfer_say_so_and_the_unaware_walk_on(tabular, demos):
    closed = tabular.mdp_.closed([5])
    with pytest.raises(InputError, match="Fit soft-1 or goals"):
        tabular.imagine(closed)
    simulated = tabular.imagine(closed, aware=False).simulate(demos)
    entered = simulated.states[~simulated.first_steps] == 5
    began_there = simulated.states[simulated.offsets[:-1]] == 5
    assert not entered.any() or began_there.any()
    np.testing.assert_array_equal(tabular.imagine(closed, aware=False).policies_, tabular.policies_)


def test_wrong_questions_are_refused(soft):
    with pytest.raises(InputError, match="There is no intention 2"):
        soft.imagine(without=2)
    with pytest.raises(InputError, match="the demonstrations 16"):
        soft.imagine(MDP.from_dense(np.full((3, 5, 3), 1 / 3)))
    single = copy(soft)
    single.n_intentions = 1
    with pytest.raises(InputError, match="only intention"):
        single.imagine(without=0)


def test_a_place_that_nobody_visited_is_worth_what_half_of_the_others_exceed(soft):
    world = soft.imagine(replace(WORLD, barriers=()).mdp)
    rewards = world.rewards.rewards
    known = np.arange(16) != 5  # the barrier
    for k in (0, 1):
        visited = known & (soft.rewards_model_.counts[k].sum(1) >= 0.01)
        assert rewards[k, 5] == pytest.approx(np.median(soft.rewards_model_.rewards[k, visited]))
