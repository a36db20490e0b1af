"""Maximum causal entropy against the finite-horizon recursion of Ziebart (2010), in the limit of a long horizon.

The recursion is written down here once more, independently and step by step, as other libraries have it: soft backward
induction over a finite horizon, and visits forward from the first state.
"""

import numpy as np
import pytest

from prism_irl.mdp import MDP
from prism_irl.rewards.maxent import discounted_occupancy, flow_start, match_causal, soft_plan

S, A, DISCOUNT, HORIZON = 5, 3, 0.8, 120  # 0.8^120 = 2e-12: what lies beyond the horizon is not seen


def backward_induction(transitions, reward):
    """V_t(s) = log Σ_a exp Q_t(s, a), Q_t(s, a) = r(s) + γ Σ_s' P(s'|s, a) V_{t+1}(s'), π_t = exp(Q_t − V_t).

    Returns V (S,) and Q (S, A) of the first step, and the policies of all steps, (HORIZON, S, A).
    """
    policies = np.empty((HORIZON, S, A))
    v = np.zeros(S)
    for t in reversed(range(HORIZON)):
        q = np.array([[reward[s] + DISCOUNT * transitions[s, a] @ v for a in range(A)] for s in range(S)])
        v = np.array([np.log(sum(np.exp(q[s, a]) for a in range(A))) for s in range(S)])
        policies[t] = np.exp(q - v[:, None])
    return v, q, policies


def visits(transitions, policies, start):
    """Σ_t γ^t P(s_t = s), (S,)."""
    total, now = np.zeros(S), start.copy()
    for t, policy in enumerate(policies):
        total += DISCOUNT**t * now
        now = sum(now[s] * policy[s, a] * transitions[s, a] for s in range(S) for a in range(A))
    return total


@pytest.fixture(scope="module")
def transitions():
    return np.random.default_rng(0).dirichlet(np.full(S, 0.4), (S, A))


@pytest.fixture(scope="module")
def mdp(transitions):
    return MDP.from_dense(transitions, DISCOUNT)


def test_plan_and_occupancy_of_a_reward(mdp, transitions):
    reward, start = np.random.default_rng(1).normal(size=S), np.array([0.4, 0.3, 0.3, 0.0, 0.0])
    values, q, policies = backward_induction(transitions, reward)
    plan = soft_plan(mdp, reward)
    np.testing.assert_allclose(plan.values, values, atol=1e-6)
    np.testing.assert_allclose(plan.q, q, atol=1e-6)
    np.testing.assert_allclose(plan.policy, policies[0], atol=1e-6)
    occupancy = visits(transitions, policies, start)
    np.testing.assert_allclose(discounted_occupancy(mdp, plan.policy, start), occupancy, atol=1e-6)


def test_matched_features_are_those_of_the_recursion(mdp, transitions):
    """The reward that we find makes the finite-horizon agent visit states as often as the demonstrators did."""
    policy = np.random.default_rng(2).dirichlet(np.full(A, 2.0), S)
    start = np.full(S, 1 / S)
    counts = discounted_occupancy(mdp, policy, start)[:, None] * policy
    np.testing.assert_allclose(flow_start(mdp, counts), start, atol=1e-12)
    found = match_causal(mdp, counts)
    occupancy = visits(transitions, backward_induction(transitions, found.rewards)[2], start)
    np.testing.assert_allclose(occupancy, counts.sum(axis=1), atol=1e-3)
    assert np.ptp(found.rewards) > 0.1
