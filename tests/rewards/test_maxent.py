"""Feature matching: against enumeration, against the MDP's own planning, and against planted rewards."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.rewards.maxent import (
    Paths,
    discounted_occupancy,
    flow_start,
    match_causal,
    match_paths,
    path_starts,
    soft_plan,
)

S, A = 4, 3


def random_mdp(seed=0, *, discount=0.9, masked=False) -> MDP:
    rng = np.random.default_rng(seed)
    valid = np.ones((S, A), bool)
    if masked:
        valid[0, 1:] = valid[2, 0] = False
    return MDP.from_dense(rng.dirichlet(np.full(S, 0.5), (S, A)), discount, valid)


def demonstrated(mdp: MDP, seed=0) -> np.ndarray:
    """Counts (S, A) of nobody in particular: the empirical policy is not soft-optimal for any state reward."""
    rng = np.random.default_rng(seed)
    return np.where(mdp.valid_actions, rng.integers(1, 50, (S, A)), 0).astype(float)


both_masks = pytest.mark.parametrize("masked", [False, True])


@both_masks
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_soft_plan_is_soft_value_iteration(masked, scale):
    mdp = random_mdp(masked=masked)
    reward = scale * np.random.default_rng(1).normal(size=S)
    q, v = mdp.soft_value_iteration(reward)
    plan = soft_plan(mdp, reward)
    np.testing.assert_allclose(plan.values, v, rtol=1e-8)
    np.testing.assert_allclose(plan.q, q, rtol=1e-8)
    np.testing.assert_allclose(plan.policy.sum(1), 1)
    assert (plan.policy[~mdp.valid_actions] == 0).all()
    np.testing.assert_allclose(soft_plan(mdp, reward, values=v + 3.0).values, v, rtol=1e-8)


def test_occupancy_is_the_sum_over_time():
    mdp = random_mdp()
    policy = np.random.default_rng(2).dirichlet(np.ones(A), S)
    step = np.einsum("sa,sat->st", policy, mdp.transitions.toarray().reshape(S, A, S))
    now, expected = np.array([0.5, 0.5, 0, 0]), np.zeros(S)
    for t in range(400):
        expected += 0.9**t * now
        now = now @ step
    np.testing.assert_allclose(discounted_occupancy(mdp, policy, np.array([0.5, 0.5, 0, 0])), expected)


@both_masks
def test_plain_counts_are_an_occupancy_from_their_flow_start(masked):
    mdp = random_mdp(masked=masked)
    counts = demonstrated(mdp)
    empirical = counts / counts.sum(1, keepdims=True)
    occupancy = discounted_occupancy(mdp, empirical, flow_start(mdp, counts))
    np.testing.assert_allclose(occupancy, counts.sum(1))


@both_masks
@pytest.mark.parametrize("features", [None, np.random.default_rng(3).normal(size=(S, 2))], ids=["one-hot", "two"])
def test_causal_match_has_the_demonstrators_features_and_the_highest_likelihood(masked, features):
    mdp = random_mdp(masked=masked)
    counts = demonstrated(mdp)
    found = match_causal(mdp, counts, features)
    assert found.converged
    assert found.gap < 1e-6
    phi = np.eye(S) if features is None else features
    occupancy = discounted_occupancy(mdp, found.policy, flow_start(mdp, counts / counts.sum()))
    np.testing.assert_allclose(phi.T @ occupancy, phi.T @ counts.sum(1) / counts.sum(), atol=1e-6)
    np.testing.assert_allclose(found.rewards, phi @ found.weights)

    def likelihood(theta):
        q, v = mdp.soft_value_iteration(phi @ theta)
        return (counts * np.where(mdp.valid_actions, q - v[:, None], 0)).sum() / counts.sum()

    rng = np.random.default_rng(4)
    best = likelihood(found.weights)
    for _ in range(20):
        assert likelihood(found.weights + rng.normal(scale=0.1, size=len(found.weights))) <= best + 1e-9


def test_causal_match_recovers_a_planted_reward_from_its_own_occupancy():
    mdp = random_mdp(5)
    planted = np.array([0.0, 2.0, -1.0, 0.5])
    plan = soft_plan(mdp, planted)
    counts = discounted_occupancy(mdp, plan.policy, np.full(S, 0.25))[:, None] * plan.policy
    found = match_causal(mdp, counts)
    # A constant added to the reward of every state changes nothing that can be seen.
    np.testing.assert_allclose(found.rewards - found.rewards.mean(), planted - planted.mean(), atol=1e-4)
    np.testing.assert_allclose(found.policy, plan.policy, atol=1e-5)


def test_penalty_shrinks_the_reward_and_leaves_its_own_gap():
    mdp, l2 = random_mdp(), 1e-2
    free, shrunk = (match_causal(mdp, demonstrated(mdp), l2=penalty) for penalty in (1e-9, l2))
    assert np.linalg.norm(shrunk.weights) < np.linalg.norm(free.weights)
    np.testing.assert_allclose(shrunk.expert - shrunk.model, l2 * shrunk.weights, atol=1e-6)


# -- paths -------------------------------------------------------------------------------------------------------------


def enumerated(mdp: MDP, reward: np.ndarray, start: int, length: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Log partition function, expected visits (S,) and first-action probabilities (A,), path by path."""
    P = mdp.transitions.toarray().reshape(S, A, S)
    total, visits, first = 0.0, np.zeros(S), np.zeros(A)
    for actions in product(range(A), repeat=length):
        for later in product(range(S), repeat=length - 1):
            states = (start, *later)
            if not mdp.valid_actions[states, actions].all():
                continue
            moves = P[states[:-1], actions[:-1], states[1:]]
            weight = np.exp(reward[list(states)].sum()) * moves.prod()
            total += weight
            visits += weight * np.bincount(states, minlength=S)
            first[actions[0]] += weight
    return np.log(total), visits / total, first / total


@both_masks
def test_path_passes_equal_enumeration(masked):
    mdp, length = random_mdp(masked=masked), 3
    reward = np.random.default_rng(6).normal(size=S)
    paths = Paths(mdp)
    values = paths.values(reward, length)
    for start in range(S):
        log_z, visits, first = enumerated(mdp, reward, start, length)
        assert values[length, start] == pytest.approx(log_z)
        begin = path_starts([start], [length], S)
        np.testing.assert_allclose(paths.visits(reward, values, begin), visits)
        np.testing.assert_allclose(paths.plan(reward, length).policy[start], first)


def test_expected_visits_are_the_gradient_of_the_partition_function():
    mdp, begin = random_mdp(), path_starts([0, 1, 3], [5, 2, 7], S)
    paths, reward = Paths(mdp), np.random.default_rng(7).normal(size=S)

    def log_z(r):
        return (begin * paths.values(r, 7)).sum()

    gradient = approx_fprime(reward, log_z, 1e-6)
    np.testing.assert_allclose(paths.visits(reward, paths.values(reward, 7), begin), gradient, rtol=1e-4)


def test_ranges_that_exp_cannot_hold_are_exact_all_the_same():
    # State 3 pays so little that its part of the sums underflows, and it can only be left for itself.
    P = np.random.default_rng(0).dirichlet(np.ones(S), (S, A))
    P[3] = np.eye(S)[3]
    paths, reward = Paths(MDP.from_dense(P, 0.9)), np.array([0.0, 1.0, 0.5, -400.0])
    values = paths.values(reward, 20)
    assert values[20, 3] == pytest.approx(20 * (np.log(A) - 400))
    assert np.ptp(values[20]) > 7000
    begin = path_starts([3, 0, 1], [20, 20, 4], S)
    visits = paths.visits(reward, values, begin)
    assert visits.sum() == pytest.approx(44)
    assert visits[3] == pytest.approx(20)
    np.testing.assert_allclose(paths.plan(reward, 20).policy[3], 1 / A)


@pytest.mark.parametrize("features", [None, np.random.default_rng(3).normal(size=(S, 2))], ids=["one-hot", "two"])
def test_path_match_has_the_demonstrators_features(features, make_demos):
    demos = make_demos(n_states=S, n_actions=A, lengths=(20, 7, 12, 1, 20, 15))
    mdp = MDP.from_demonstrations(demos, 0.9)
    visits = np.bincount(demos.states, minlength=S)
    begin = path_starts(demos.states[demos.offsets[:-1]], demos.lengths, S)
    found = match_paths(mdp, visits, begin, features)
    assert found.converged
    assert found.gap < 1e-6
    phi = np.eye(S) if features is None else features
    paths = Paths(mdp)
    model = paths.visits(found.rewards, paths.values(found.rewards, 20), begin)
    np.testing.assert_allclose(phi.T @ model, phi.T @ visits, atol=1e-4)


def test_path_match_recovers_a_planted_reward_from_its_own_visits():
    mdp, planted = random_mdp(8), np.array([0.0, 1.0, -1.0, 0.5])
    begin, paths = path_starts([0, 1, 2, 3], [12, 12, 12, 6], S), Paths(mdp)
    visits = paths.visits(planted, paths.values(planted, 12), begin)
    found = match_paths(mdp, visits, begin, l2=1e-10)
    np.testing.assert_allclose(found.rewards - found.rewards.mean(), planted - planted.mean(), atol=1e-3)


def test_on_deterministic_dynamics_path_planning_is_undiscounted_soft_planning():
    successor = np.random.default_rng(9).integers(S, size=(S, A))
    P = np.eye(S)[successor]
    reward = np.random.default_rng(10).normal(size=S)
    v = np.zeros(S)
    for _ in range(6):
        q = reward[:, None] + v[successor]
        v = np.log(np.exp(q).sum(1))
    np.testing.assert_allclose(Paths(MDP.from_dense(P, 0.5)).plan(reward, 6).q, q)


def test_wrong_input_is_named():
    mdp = random_mdp()
    with pytest.raises(InputError, match="counts have shape"):
        match_causal(mdp, np.ones((S, A + 1)))
    with pytest.raises(InputError, match="features have shape"):
        match_causal(mdp, demonstrated(mdp), np.ones((S + 1, 2)))
    with pytest.raises(InputError, match="L2"):
        match_causal(mdp, demonstrated(mdp), l2=-1.0)
