"""Planned rewards: the fixed point, its gradient, and what an intention without a goal does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.rewards.goals import GoalPolicies
from prism_irl.rewards.soft import Planner
from prism_irl.worlds.frustration import FrustrationWorld

S, A = 6, 3


def random_mdp(seed: int) -> MDP:
    rng = np.random.default_rng(seed)
    valid = rng.random((S, A)) < 0.8
    valid[:, 0] = True
    return MDP.from_dense(rng.dirichlet(np.ones(S), (S, A)), 0.95, valid)


def random_demos(mdp: MDP, seed: int) -> Demonstrations:
    rng = np.random.default_rng(seed)
    states = [rng.integers(S, size=20) for _ in range(4)]
    actions = [np.array([rng.choice(np.flatnonzero(mdp.valid_actions[s])) for s in row]) for row in states]
    return Demonstrations.from_arrays(states, actions, n_states=S, n_actions=A, valid_actions=mdp.valid_actions)


def some_policies(seed: int, *, habit: bool = True, length: int = 2) -> tuple[GoalPolicies, Prepared]:
    mdp = random_mdp(seed)
    demos = random_demos(mdp, seed)
    contexts = demos.with_history(length)
    policies = GoalPolicies(3, Planner(mdp, 0.9), contexts, habit=habit)
    return policies, Prepared.of(demos, contexts)


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_values_solve_the_soft_bellman_equation(seed: int) -> None:
    planner = Planner(random_mdp(seed), 0.9)
    rewards = np.random.default_rng(seed).uniform(0, 4, (2, S))
    values = planner.values(rewards)
    q = np.where(planner.valid, 0.9 * planner.mdp.expected_values(values), -np.inf)
    np.testing.assert_allclose(values, rewards + np.log(np.exp(q).sum(-1)), atol=1e-8)


@given(st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_gradient_through_the_fixed_point(seed: int) -> None:
    policies, _ = some_policies(seed)
    rng = np.random.default_rng(seed)
    reward, step = rng.uniform(0, 2, S), 1e-5
    counts = rng.uniform(0, 3, policies.habit.shape) * policies.planner.valid[policies.states]
    gradient = policies._objective(reward, counts)[1]
    numeric = [
        (policies._objective(reward + step * e, counts)[0] - policies._objective(reward - step * e, counts)[0])
        / (2 * step)
        for e in np.eye(S)
    ]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-4)


def test_an_intention_that_wants_nothing_follows_the_habit() -> None:
    policies, data = some_policies(3)
    policies.learn_habit(data, np.ones(data.demos.n_steps), memory=True)
    policies.set_rewards(np.array([[0, 0, 3.0, 0, 0, 0], [0, 1.0, 0, 0, 0, 0], np.zeros(S)]))
    np.testing.assert_allclose(policies.policies[-1], policies.habit)
    assert np.abs(policies.policies[0] - policies.habit).max() > 0.05


def test_without_a_habit_the_policy_is_the_soft_optimal_one() -> None:
    policies, _ = some_policies(5, habit="none", length=1)
    rewards = np.zeros((3, S))
    rewards[0, 2] = 2.0
    policies.set_rewards(rewards)
    expected = np.exp(policies.planner.advantage(policies.planner.values(rewards)))
    np.testing.assert_allclose(policies.policies, expected, atol=1e-9)


def test_policies_are_distributions_over_valid_actions() -> None:
    policies, data = some_policies(7)
    policies.learn_habit(data, np.ones(data.demos.n_steps), memory=True)
    policies.m_step(data, np.full((data.demos.n_steps, 3), 1 / 3))
    np.testing.assert_allclose(policies.policies.sum(-1), 1.0)
    assert (policies.policies[:, ~policies.planner.valid[policies.states]] == 0).all()


def test_maximise_raises_the_objective_and_keeps_rewards_non_negative() -> None:
    policies, data = some_policies(11, length=1)
    policies.learn_habit(data, np.ones(data.demos.n_steps), memory=False)
    policies.sparsity = 0.1
    w = np.random.default_rng(0).dirichlet(np.ones(3), data.demos.n_steps)

    def objective() -> float:
        return float((w * policies.log_likelihood(data)).sum()) + policies.log_prior()

    before = objective()
    policies.m_step(data, w)
    assert objective() > before
    assert (policies.rewards >= 0).all()
    assert (policies.rewards[-1] == 0).all()


def test_a_large_penalty_leaves_no_reward() -> None:
    policies, data = some_policies(13, length=1)
    policies.sparsity = 1e4
    policies.rewards[:2] = 1.0
    policies.m_step(data, np.full((data.demos.n_steps, 3), 1 / 3))
    np.testing.assert_allclose(policies.rewards, 0.0, atol=1e-9)


def test_foreign_state_is_refused() -> None:
    policies, _ = some_policies(1)
    with pytest.raises(InputError, match="belong to other data"):
        policies.load_state({"rewards": np.zeros((3, S + 1)), "habit": policies.habit})


def test_a_shared_habit_expects_what_is_observed() -> None:
    """Its fixed point: with weak back-off, expected counts under all intentions are the observed ones."""
    demos = FrustrationWorld().simulate(60, seed=1).demonstrations
    mdp = MDP.from_dense(FrustrationWorld().transitions, 0.9)
    contexts = Contexts(demos.n_states)
    rewards = GoalPolicies(2, Planner(mdp, 0.9), contexts, smoothing=0.0, backoff=0.0)
    rewards.set_rewards(np.stack([4.0 * np.eye(25)[24], np.zeros(25)]))
    data = Prepared.of(demos, contexts)
    weights = np.random.default_rng(0).dirichlet(np.ones(2), demos.n_steps)
    counts = rewards.weighted_counts(data, weights)

    def gap() -> float:
        expected = np.einsum("kc,kca->ca", counts.sum(-1), rewards.policies)
        return float(np.abs(expected - counts.sum(0)).max())

    before = gap()
    rewards.share_habit(data, weights, rounds=1)
    after = gap()
    rewards.share_habit(data, weights, rounds=200)
    assert gap() < 1e-3 < after < before
    np.testing.assert_allclose(rewards.habit.sum(-1), 1.0)
