"""Inverse Q-learning: the updates one by one, and where they lead."""

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.rewards import iql
from prism_irl.rewards.iavi import solve_iavi
from prism_irl.rewards.iql import LearningRates, solve_iql

S, A, DISCOUNT = 3, 3, 0.8


def by_hand(demos, weights, rates, discount):
    """The tabular algorithm of Kalweit et al. with its tables as matrices, all actions valid."""
    r, q, shifted, visits = np.zeros((4, demos.n_states, demos.n_actions))
    for _ in range(rates.epochs):
        for begin, end in zip(demos.offsets[:-1], demos.offsets[1:], strict=True):
            for t in range(begin, end):
                s, a, w = int(demos.states[t]), int(demos.actions[t]), weights[t]
                visits[s, a] += w
                if t + 1 == end:
                    continue
                target = discount * q[int(demos.states[t + 1])].max()
                shifted[s, a] = (1 - w * rates.shifted) * shifted[s, a] + w * rates.shifted * target
                eta = np.log(visits[s] / visits[s].sum() + 1e-6) - shifted[s]
                others = np.arange(demos.n_actions) != a
                goal = eta[a] + (r[s, others] - eta[others]).mean()
                r[s, a] = (1 - w * rates.reward) * r[s, a] + w * rates.reward * goal
                q[s, a] = (1 - w * rates.q) * q[s, a] + w * rates.q * (r[s, a] + target)
    return r, q


@pytest.mark.parametrize("compiled", [False, True])
def test_updates_are_those_of_the_algorithm(make_demos, compiled, monkeypatch):
    if compiled:
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr(iql, "_learn", getattr(iql._learn, "py_func", iql._learn))
    demos = make_demos(n_states=S, n_actions=A)
    weights = np.random.default_rng(0).dirichlet(np.ones(2), demos.n_steps)
    rates = LearningRates(0.05, 0.2, 0.3, epochs=3)
    found = solve_iql(demos, weights, discount=DISCOUNT, rates=rates)
    for k in range(2):
        r, q = by_hand(demos, weights[:, k], rates, DISCOUNT)
        np.testing.assert_allclose(found.rewards[k], r, atol=1e-12)
        np.testing.assert_allclose(found.q[k], q, atol=1e-12)
        np.testing.assert_allclose(found.values[k], q.max(1), atol=1e-12)


def walk(mdp: MDP, policy: np.ndarray, n: int, seed=0) -> Demonstrations:
    rng = np.random.default_rng(seed)
    P = mdp.transitions.toarray().reshape(S, A, S)
    s, steps = 0, []
    for _ in range(n):
        a = rng.choice(A, p=policy[s])
        steps.append((s, a))
        s = rng.choice(S, p=P[s, a])
    return Demonstrations.from_arrays([[s for s, _ in steps]], [[a for _, a in steps]], n_states=S, n_actions=A)


def test_approaches_iavi_on_plenty_of_data():
    pytest.importorskip("numba")
    rng = np.random.default_rng(1)
    mdp = MDP.from_dense(rng.dirichlet(np.ones(S), (S, A)), DISCOUNT)
    demos = walk(mdp, rng.dirichlet(np.full(A, 3.0), S), 20_000)
    counted = MDP.from_demonstrations(demos, DISCOUNT)
    counts = np.zeros((S, A))
    np.add.at(counts, (demos.states, demos.actions), 1)
    exact = solve_iavi(counted, counts / counts.sum(1, keepdims=True))
    found = solve_iql(demos, discount=DISCOUNT, rates=LearningRates(5e-4, 5e-4, 5e-4, epochs=60))
    q, v = found.q[0], found.values[0]
    np.testing.assert_allclose(q - v[:, None], exact.q - exact.values[:, None], atol=0.03)
    # The rewards agree once the potential that Eq. (9) leaves open is taken out.
    potential = v - exact.values
    shaped = exact.rewards + potential[:, None] - DISCOUNT * counted.expected_values(potential)
    np.testing.assert_allclose(found.rewards[0], shaped, atol=0.03)
    assert np.ptp(exact.rewards) > 0.5  # so that 0.03 means something


def test_zero_responsibility_is_absence(make_demos):
    demos = make_demos(n_states=S, n_actions=A, lengths=(6, 5, 8))
    weights = np.zeros((demos.n_steps, 1))
    weights[: demos.offsets[2]] = 1.0
    rates = LearningRates(0.1, 0.1, 0.1, epochs=2)
    part = solve_iql(demos.subset([0, 1]), rates=rates)
    np.testing.assert_allclose(solve_iql(demos, weights, rates=rates).q, part.q)


def test_invalid_actions_take_no_part(make_demos):
    demos = make_demos(n_states=4, n_actions=3, masked=True)
    found = solve_iql(demos, rates=LearningRates(0.1, 0.1, 0.1, epochs=5))
    invalid = ~demos.valid_actions
    assert invalid.any()
    assert (found.q[0][invalid] == -np.inf).all()
    assert (found.rewards[0][invalid] == 0).all()
    alone = demos.valid_actions.sum(1) == 1
    assert alone.any()
    assert (found.rewards[0][alone] == 0).all()
    assert np.isfinite(found.values).all()


def test_unvisited_states_are_flagged(make_demos):
    demos = make_demos(n_states=S, n_actions=A).resized(n_states=S + 2)
    assert solve_iql(demos).unvisited.tolist() == [[False] * S + [True] * 2]


def test_wrong_input_is_named(make_demos):
    demos = make_demos(n_states=S, n_actions=A)
    with pytest.raises(InputError, match="responsibilities"):
        solve_iql(demos, np.ones(demos.n_steps))
    with pytest.raises(InputError, match="discount"):
        solve_iql(demos, discount=1.0)
    with pytest.raises(InputError, match="step size"):
        LearningRates(reward=0.0)
    with pytest.raises(InputError, match="epochs"):
        LearningRates(epochs=0)
