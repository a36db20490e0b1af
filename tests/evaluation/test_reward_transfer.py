"""Rewards compared: what no behaviour can tell does not count, and what counts is found elsewhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_irl.evaluation.reward_transfer import Elsewhere, canonical_reward, plan, reward_distance
from prism_irl.mdp import MDP

S, A = 5, 3


def random_mdp(rng, discount=0.9, masked=True):
    valid = np.ones((S, A), bool)
    if masked:
        valid[rng.integers(S), rng.integers(A)] = False
    return MDP.from_dense(rng.dirichlet(np.ones(S), (S, A)), discount, valid)


def shaped(mdp, reward, rng, scale):
    """The same reward up to a factor and a potential."""
    potential = rng.normal(size=S) * 3
    return scale * reward + mdp.discount * mdp.expected_values(potential) - potential[:, None]


@given(st.integers(0, 10**6), st.floats(0.01, 100.0))
def test_shaping_and_scale_do_not_count(seed, scale):
    rng = np.random.default_rng(seed)
    mdp, reward = random_mdp(rng), rng.normal(size=(S, A))
    assert reward_distance(mdp, shaped(mdp, reward, rng, scale), reward) == pytest.approx(0.0, abs=1e-8)
    assert reward_distance(mdp, shaped(mdp, -reward, rng, scale), reward) == pytest.approx(1.0, abs=1e-8)
    constant = np.full((S, A), rng.normal())
    assert reward_distance(mdp, constant, reward) == pytest.approx(0.5, abs=1e-8)


@given(st.integers(0, 10**6))
def test_it_is_a_distance(seed):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng)
    a, b, c = rng.normal(size=(3, S, A))
    ab, bc, ac = (reward_distance(mdp, x, y) for x, y in ((a, b), (b, c), (a, c)))
    assert ab == pytest.approx(reward_distance(mdp, b, a))
    assert 0 < ab <= 1
    assert ac <= ab + bc + 1e-12
    assert reward_distance(mdp, a, a) == 0


@given(st.integers(0, 10**6))
def test_rewards_at_no_distance_have_the_same_plans(seed):
    rng = np.random.default_rng(seed)
    mdp, reward = random_mdp(rng, 0.8), rng.normal(size=(S, A))
    np.testing.assert_allclose(plan(mdp, shaped(mdp, reward, rng, 2.0)), plan(mdp, reward))


def test_only_states_that_count():
    rng = np.random.default_rng(3)
    mdp, reward = random_mdp(rng, masked=False), rng.normal(size=(S, A))
    counts = np.array([True, True, True, True, False])
    found = canonical_reward(mdp, reward, counts)
    assert not found[4].any()
    assert np.linalg.norm(found) == pytest.approx(1.0)


def test_rewards_on_states_are_rewards_on_every_action():
    rng = np.random.default_rng(4)
    mdp, reward = random_mdp(rng, masked=False), rng.normal(size=S)
    repeated = np.repeat(reward[:, None], A, axis=1)
    np.testing.assert_allclose(canonical_reward(mdp, reward), canonical_reward(mdp, repeated))


def test_equally_good_actions_share():
    mdp = MDP.from_dense(np.eye(2)[[[0, 1, 1], [1, 1, 0]]], 0.5)
    np.testing.assert_allclose(plan(mdp, np.array([0.0, 1.0])), [[0, 0.5, 0.5], [0.5, 0.5, 0]])


def test_a_share_of_what_the_true_reward_earns():
    mdp = MDP.from_dense(np.eye(2)[[[0, 1], [1, 0]]], 0.5)  # stay or go
    truth = np.array([[[0.0, 0.0], [1.0, 1.0]]])
    there = Elsewhere(mdp, truth, np.array([1.0, 0.0]))
    assert there.best == [pytest.approx(1.0)]  # 0 + 1/2 + 1/4 + …
    assert there.transfer(truth[0], 0) == pytest.approx(1.0)
    assert there.transfer(-truth[0], 0) == pytest.approx(0.0)
    assert there.carried(np.full((2, 2), 0.5), 0) == pytest.approx(0.5)
