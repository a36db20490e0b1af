"""Every identity of IAVI: Bellman's equation, zero-mean rewards, softmax(Q) = π, and who may influence what."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from prism_irl.errors import InputError
from prism_irl.mdp import MDP, boltzmann, factorize
from prism_irl.rewards.iavi import IAVI, InverseSolution, Variant, solve_iavi, unvisited_states

variants = st.sampled_from(["hard", "soft"])
quick = settings(deadline=None, max_examples=40)


class Problem(NamedTuple):
    """A random MDP, with its dense table as given, and K log-policies over its valid actions."""

    P: np.ndarray
    mdp: MDP
    log_policy: np.ndarray


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    S, A, K = draw(st.integers(1, 12)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    valid = rng.random((S, A)) < draw(st.sampled_from([0.3, 0.7, 1.0]))
    valid[np.arange(S), rng.integers(A, size=S)] = True
    P = rng.dirichlet(np.full(S, 0.3), size=(S, A))
    mdp = MDP.from_dense(P, draw(st.sampled_from([0.0, 0.5, 0.9, 0.99])), valid)
    scale = draw(st.sampled_from([0.1, 1.0, 5.0]))
    logits = np.where(valid, scale * rng.normal(size=(K, S, A)), -np.inf)
    return Problem(P, mdp, logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))


def maximum(q: np.ndarray, variant: str) -> np.ndarray:
    return q.max(axis=-1) if variant == "hard" else np.logaddexp.reduce(q, axis=-1)


def sweep_iavi(mdp: MDP, log_policy: np.ndarray, variant: str, threshold: float = 1e-13) -> InverseSolution:
    """Reference: the authors' sweeps over one policy, all states at once, until nothing moves any more.

    Written from their least-squares step and not from the closed form: with η = ℓ − γPV, the rewards of a state are
    the minimum-norm solution of r(a) − mean_{b≠a} r(b) = η(a) − mean_{b≠a} η(b) over its valid actions a.
    """
    S, A = mdp.valid_actions.shape
    P = mdp.transitions.toarray().reshape(S, A, S)
    contrasts, values = np.zeros((S, A, A)), np.zeros(S)
    for s, valid in enumerate(mdp.valid_actions):
        n = valid.sum()
        if n > 1:
            contrasts[s][np.ix_(valid, valid)] = (n * np.eye(n) - 1) / (n - 1)
    least_squares = np.linalg.pinv(contrasts) @ contrasts
    for _ in range(20_000):
        future = mdp.discount * P @ values
        rewards = np.einsum("sab,sb->sa", least_squares, np.where(mdp.valid_actions, log_policy - future, 0))
        q = np.where(mdp.valid_actions, rewards + future, -np.inf)
        change, values = np.abs(maximum(q, variant) - values).max(), maximum(q, variant)
        if change <= threshold * max(1.0, np.abs(values).max()):
            return InverseSolution(rewards, q, values)
    raise AssertionError("the sweeps did not converge")


@quick
@given(problems(), variants)
def test_bellman_equation_holds(problem: Problem, variant: Variant) -> None:
    P, mdp, log_policy = problem
    solution = IAVI(mdp, variant).solve(log_policy)
    np.testing.assert_allclose(maximum(solution.q, variant), solution.values, rtol=0, atol=1e-9)
    backup = solution.rewards + mdp.discount * np.einsum("sat,kt->ksa", P, solution.values)
    np.testing.assert_allclose(solution.q[:, mdp.valid_actions], backup[:, mdp.valid_actions], rtol=0, atol=1e-9)
    assert (solution.q[:, ~mdp.valid_actions] == -np.inf).all()
    assert (solution.rewards[:, ~mdp.valid_actions] == 0).all()


@quick
@given(problems(), variants)
def test_planning_with_the_rewards_returns_the_policy(problem: Problem, variant: Variant) -> None:
    _, mdp, log_policy = problem
    solution = IAVI(mdp, variant).solve(log_policy)
    np.testing.assert_allclose(boltzmann(solution.q), np.exp(log_policy), rtol=0, atol=1e-9)
    plan = mdp.value_iteration if variant == "hard" else mdp.soft_value_iteration
    np.testing.assert_allclose(boltzmann(plan(solution.rewards)[0]), np.exp(log_policy), rtol=0, atol=1e-7)


@quick
@given(problems(), variants)
def test_rewards_average_to_zero_over_valid_actions(problem: Problem, variant: Variant) -> None:
    _, mdp, log_policy = problem
    rewards = IAVI(mdp, variant).solve(log_policy).rewards
    means = np.where(mdp.valid_actions, rewards, 0).sum(axis=-1) / mdp.valid_actions.sum(axis=-1)
    np.testing.assert_allclose(means, 0, rtol=0, atol=1e-9)


@quick
@given(problems(), variants, st.integers(0, 2**31))
def test_invalid_actions_influence_nothing(problem: Problem, variant: Variant, seed: int) -> None:
    P, mdp, log_policy = problem
    rng = np.random.default_rng(seed)
    elsewhere = np.where(mdp.valid_actions[..., None], P, rng.dirichlet(np.ones(mdp.n_states), size=P.shape[:2]))
    other = MDP.from_dense(elsewhere, mdp.discount, mdp.valid_actions)
    noise = np.where(mdp.valid_actions, log_policy, -rng.exponential(5, size=log_policy.shape))
    a, b = IAVI(mdp, variant).solve(log_policy), IAVI(other, variant).solve(noise)
    for x, y in zip(a[:3], b[:3], strict=True):
        np.testing.assert_array_equal(x, y)


@quick
@given(problems(), variants)
def test_invalid_actions_might_as_well_not_exist(problem: Problem, variant: Variant) -> None:
    P, mdp, log_policy = problem
    S, A = mdp.valid_actions.shape
    padded = np.concatenate([P, np.broadcast_to(np.eye(S)[:, None], (S, 2, S))], axis=1)
    valid = np.concatenate([mdp.valid_actions, np.zeros((S, 2), dtype=bool)], axis=1)
    wide = np.concatenate([log_policy, np.full((len(log_policy), S, 2), np.log(1e-6))], axis=2)
    small = IAVI(mdp, variant).solve(log_policy)
    large = IAVI(MDP.from_dense(padded, mdp.discount, valid), variant).solve(wide)
    np.testing.assert_allclose(large.values, small.values, rtol=0, atol=1e-9)
    np.testing.assert_allclose(large.rewards[..., :A], small.rewards, rtol=0, atol=1e-9)


@quick
@given(problems(), variants)
def test_all_intentions_at_once_equal_one_by_one(problem: Problem, variant: Variant) -> None:
    _, mdp, log_policy = problem
    iavi = IAVI(mdp, variant)
    together = iavi.solve(log_policy)
    for k, alone in enumerate(map(iavi.solve, log_policy)):
        for x, y in zip(together[:3], alone[:3], strict=True):
            np.testing.assert_allclose(x[k], y, rtol=0, atol=1e-10)


@quick
@given(problems())
def test_dense_and_sparse_factorizations_agree(problem: Problem) -> None:
    P, mdp, _ = problem
    matrix = sparse.eye_array(mdp.n_states) - mdp.discount * mdp.mean_transitions()
    dense, by_splu = (factorize(matrix, m)(P[:, 0, 0].copy()) for m in ("dense", "sparse"))
    np.testing.assert_allclose(dense, by_splu, rtol=0, atol=1e-9)


@pytest.mark.parametrize("variant", ["hard", "soft"])
@pytest.mark.parametrize("seed", range(4))
def test_agreement_with_the_iterative_fixed_point(seed: int, variant: Variant) -> None:
    rng = np.random.default_rng(seed)
    valid = rng.random((7, 4)) < 0.6
    valid[:, seed] = True
    valid[0] = np.arange(4) == seed
    mdp = MDP.from_dense(rng.dirichlet(np.full(7, 0.3), size=(7, 4)), 0.8, valid)
    log_policy = np.where(valid, 2 * rng.normal(size=(7, 4)), -np.inf)
    log_policy -= np.logaddexp.reduce(log_policy, axis=-1, keepdims=True)
    exact, swept = IAVI(mdp, variant).solve(log_policy), sweep_iavi(mdp, log_policy, variant)
    for x, y in zip(exact[:3], swept[:3], strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-10)


@pytest.mark.parametrize("variant", ["hard", "soft"])
def test_one_valid_action_carries_no_reward(variant: Variant) -> None:
    valid = np.array([[True, True], [True, False]])
    mdp = MDP.from_dense(np.full((2, 2, 2), 0.5), 0.9, valid)
    solution = solve_iavi(mdp, [[0.8, 0.2], [1.0, 0.0]], variant=variant)
    # b = 0 there: the state is worth what follows it, and nothing more.
    assert solution.values[1] == pytest.approx(0.9 * solution.values.mean(), abs=1e-12)
    np.testing.assert_allclose(solution.rewards[1], 0, rtol=0, atol=1e-12)
    assert np.abs(solution.rewards[0]).min() > 0.1


def test_one_state_by_hand() -> None:
    mdp = MDP.from_dense(np.ones((1, 2, 1)), 0.5)
    high, low = np.log(0.8), np.log(0.2)
    for variant, b in [("hard", (high - low) / 2), ("soft", -(high + low) / 2)]:
        solution = solve_iavi(mdp, [[0.8, 0.2]], variant=variant)
        assert solution.values == pytest.approx([2 * b])
        np.testing.assert_allclose(solution.rewards, [[(high - low) / 2, (low - high) / 2]])


def test_floor_is_added_before_the_logarithm() -> None:
    P = np.random.default_rng(1).dirichlet(np.ones(3), size=(3, 2))
    valid = np.array([[1, 1], [1, 1], [0, 1]], dtype=bool)
    mdp = MDP.from_dense(P, 0.9, valid)
    policy = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    solution = solve_iavi(mdp, policy, floor=1e-6)
    gap = np.log(1e-6) - np.log(1 + 1e-6)
    assert solution.q[0, 1] - solution.q[0, 0] == pytest.approx(gap)
    floored = IAVI(mdp).solve(np.log(policy + 1e-6))
    np.testing.assert_allclose(solution.rewards, floored.rewards, rtol=0, atol=1e-9)


def test_unvisited_states_are_flagged() -> None:
    mdp = MDP.from_dense(np.random.default_rng(2).dirichlet(np.ones(3), size=(3, 2)), 0.9)
    visits = np.array([[[3, 1], [0, 0], [0.2, 0]], [[1e-9, 0], [0, 5], [0, 0.004]]])
    policies = np.array([[[0.75, 0.25], [0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.1, 0.9], [0.5, 0.5]]])
    solution = solve_iavi(mdp, policies, visits)
    np.testing.assert_array_equal(solution.unvisited, [[False, True, False], [True, False, True]])
    assert np.abs(solution.rewards[0, 1]).max() > 0.01  # the reason for the flag
    np.testing.assert_array_equal(unvisited_states(visits, 0.5), [[False, True, True], [True, False, True]])
    assert solve_iavi(mdp, policies).unvisited is None


def test_errors_say_where() -> None:
    mdp = MDP.from_dense(np.full((2, 2, 2), 0.5), 0.9)
    policy = np.array([[0.5, 0.5], [1.0, 0.0]])
    with pytest.raises(InputError, match="action 1 in state 1 has probability 0"):
        solve_iavi(mdp, policy)
    with pytest.raises(InputError, match=r"action 0 in state 0 is 0\.5"):
        IAVI(mdp).solve(policy)
    with pytest.raises(InputError, match="action 1 in state 0 is nan"):
        IAVI(mdp).solve([[[0.0, np.nan], [0.0, 0.0]]])
    with pytest.raises(InputError, match="action 1 in state 0 is negative"):
        solve_iavi(mdp, [[1.5, -0.5], [0.5, 0.5]])
    with pytest.raises(InputError, match="shape"):
        solve_iavi(mdp, np.ones((2, 1)))
    with pytest.raises(InputError, match="floor"):
        solve_iavi(mdp, policy, floor=-1e-6)
    with pytest.raises(InputError, match="variant"):
        IAVI(mdp, "firm")
