"""G₂: where states are places, and goals that end found and scored without a look ahead."""

from dataclasses import replace

import numpy as np

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP
from prism_irl.studies import goal_gains
from prism_irl.studies.goal_numerics import CLIP, GoalsThatEnd, _passes, detours


def ring(n=30, length=40, seed=0):
    """Ways between two places of a ring of ten."""
    rng = np.random.default_rng(seed)
    states, actions = np.zeros((2, n, length), np.int64)
    now, aim = rng.integers(10, size=n), rng.integers(2, size=n)
    for t in range(length):
        aim = np.where(now == np.array([2, 7])[aim], 1 - aim, aim)
        right = (np.array([2, 7])[aim] - now) % 10 <= 5
        actions[:, t] = np.where(rng.random(n) < 0.9, right, ~right)
        states[:, t], now = now, (now + 2 * actions[:, t] - 1) % 10
    return Demonstrations.from_arrays(states, actions, n_states=10, n_actions=2)


def test_detours_are_steps_too_many():
    demos = ring()
    found = detours(MDP.from_demonstrations(demos), np.eye(10, dtype=bool))
    assert found.shape == (10, 10, 2)
    np.testing.assert_allclose(found[2, 0], [2.0, 0.0])  # one step back costs two
    np.testing.assert_allclose(found[2, 2], [0.0, 0.0])
    assert found.max() <= CLIP


def test_goals_are_found_and_predict():
    train, test = ring(seed=0), ring(seed=1)
    gap = detours(MDP.from_demonstrations(train), np.eye(10, dtype=bool))
    model = GoalsThatEnd(gap, np.arange(10)).fit(train)
    assert set(model.goals()) >= {2, 7}
    habit = np.log(model.habit[test.states, test.actions]).mean()
    assert model.log_likelihood(test).mean() > habit + 0.03


def test_likelihood_is_a_prediction():
    """Probabilities of both actions add up to one, and the future leaves the past unmoved."""
    demos = ring(n=6)
    gap = detours(MDP.from_demonstrations(demos), np.eye(10, dtype=bool))
    model = GoalsThatEnd(gap, np.arange(10)).fit(demos)
    found = model.log_likelihood(demos)
    for t in (0, 3, 17):
        actions = demos.actions.copy()
        actions[t] = 1 - actions[t]
        other = model.log_likelihood(replace(demos, actions=actions))
        assert (
            np.exp(found[t]) + np.exp(other[t]) == np.float64(1.0).round(12)
            or abs(np.exp(found[t]) + np.exp(other[t]) - 1) < 1e-9
        )
        np.testing.assert_array_equal(other[:t], found[:t])


def test_passes_equal_a_chain_with_a_kernel_per_step():
    rng, K, T = np.random.default_rng(0), 3, 7
    table, w = rng.dirichlet(np.ones(4), K).T.copy(), rng.dirichlet(np.ones(K))
    pairs, at, leave = rng.integers(4, size=T), np.array([-1, 0, 1, -1, 0, -1, 1]), np.array([0.1, 0.1, 0.3])
    counts = np.zeros((4, K))
    likelihood, draws, _ = _passes(pairs, at, np.array([0, T]), table, 0.6, leave, w, counts)
    alpha, expected = w * table[pairs[0]], []
    expected.append(alpha.sum())
    for t in range(1, T):
        gone = np.where(np.arange(K) == at[t - 1], 0.6, leave)
        kernel = np.diag(1 - gone) + gone[:, None] * w
        alpha = (alpha / alpha.sum()) @ kernel * table[pairs[t]]
        expected.append(alpha.sum())
    np.testing.assert_allclose(likelihood, np.log(expected))
    np.testing.assert_allclose(counts.sum(), T)
    assert draws.sum() >= 1


def test_cues_and_trials_are_no_places():
    rng = np.random.default_rng(0)
    demos = ring()
    assert goal_gains.are_places(demos, MDP.from_demonstrations(demos))
    cues = Demonstrations.from_arrays(rng.integers(10, size=(30, 40)), demos.actions.reshape(30, 40), n_states=10)
    assert not goal_gains.are_places(cues, MDP.from_demonstrations(cues))


def test_each_half_is_predicted_by_the_other():
    demos = ring()
    places = goal_gains.find_places(demos, MDP.from_demonstrations(demos))
    gains, goals = goal_gains.goal_gains(demos, places, "trajectory", 0)
    assert gains.shape == (30,)
    assert gains.sum() / demos.n_steps > 0.03
    assert set(goals) >= {2, 7}
