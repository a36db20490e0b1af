"""Maximum causal entropy against the finite-horizon implementation of `imitation`, in the limit of a long horizon."""

import numpy as np
import pytest

from prism_irl.mdp import MDP
from prism_irl.rewards.maxent import discounted_occupancy, flow_start, match_causal, soft_plan

S, A, DISCOUNT, HORIZON = 5, 3, 0.8, 120  # 0.8^120 = 2e-12: what lies beyond the horizon is not seen


class World:
    """What `imitation` reads of an environment."""

    def __init__(self, transitions: np.ndarray, reward: np.ndarray, start: np.ndarray) -> None:
        self.transition_matrix, self.reward_matrix, self.initial_state_dist = transitions, reward, start
        self.state_dim, self.action_dim, self.horizon = S, A, HORIZON
        self.observation_matrix = np.eye(S)


@pytest.fixture(scope="module")
def mce():
    return pytest.importorskip("imitation.algorithms.mce_irl", exc_type=ImportError)


@pytest.fixture(scope="module")
def transitions():
    return np.random.default_rng(0).dirichlet(np.full(S, 0.4), (S, A))


@pytest.fixture(scope="module")
def mdp(transitions):
    return MDP.from_dense(transitions, DISCOUNT)


def test_plan_and_occupancy_of_a_reward(mce, mdp, transitions):
    reward, start = np.random.default_rng(1).normal(size=S), np.array([0.4, 0.3, 0.3, 0.0, 0.0])
    world = World(transitions, reward, start)
    values, q, policy = mce.mce_partition_fh(world, discount=DISCOUNT)
    plan = soft_plan(mdp, reward)
    np.testing.assert_allclose(plan.values, values[0], atol=1e-3)
    np.testing.assert_allclose(plan.q, q[0], atol=1e-3)
    np.testing.assert_allclose(plan.policy, policy[0], atol=1e-3)
    _, occupancy = mce.mce_occupancy_measures(world, pi=policy, discount=DISCOUNT)
    np.testing.assert_allclose(discounted_occupancy(mdp, plan.policy, start), occupancy, atol=1e-3)


def test_matched_features_are_those_of_imitation(mce, mdp, transitions):
    """The reward that we find makes `imitation`'s agent visit states as often as the demonstrators did."""
    policy = np.random.default_rng(2).dirichlet(np.full(A, 2.0), S)
    start = np.full(S, 1 / S)
    counts = discounted_occupancy(mdp, policy, start)[:, None] * policy
    np.testing.assert_allclose(flow_start(mdp, counts), start, atol=1e-12)
    found = match_causal(mdp, counts)
    world = World(transitions, found.rewards, start)
    # Without a policy it would plan undiscounted, and only discount the occupancy.
    planned = mce.mce_partition_fh(world, discount=DISCOUNT)[2]
    _, occupancy = mce.mce_occupancy_measures(world, pi=planned, discount=DISCOUNT)
    np.testing.assert_allclose(occupancy, counts.sum(axis=1), atol=1e-3)
    assert np.ptp(found.rewards) > 0.1
