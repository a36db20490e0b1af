"""G₂: where states are places, and goals that end found and scored without a look ahead."""

import numpy as np

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP
from prism_irl.studies import gains


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


def test_cues_and_trials_are_no_places():
    rng = np.random.default_rng(0)
    demos = ring()
    assert gains.are_places(demos, MDP.from_demonstrations(demos))
    cues = Demonstrations.from_arrays(rng.integers(10, size=(30, 40)), demos.actions.reshape(30, 40), n_states=10)
    assert not gains.are_places(cues, MDP.from_demonstrations(cues))


def test_each_half_is_predicted_by_the_other():
    demos = ring()
    detours = gains.find_detours(demos, MDP.from_demonstrations(demos))
    found, goals = gains.goal_gains(demos, detours, None, gains.Analysis(), {"length": 2, "reads": "states"})
    assert found.shape == (30,)
    assert found.sum() / demos.n_steps > 0.01
    assert set(goals) >= {2, 7}


def test_a_prediction_that_does_not_help_leaves_the_habit_alone():
    demos = ring(n=5)
    habit = np.log(np.full((demos.n_steps, 2), 0.01))
    habit[np.arange(demos.n_steps), demos.actions] = np.log(0.99)
    contrary = habit[:, ::-1]
    powers, score = gains.best_powers([habit, contrary], demos)
    assert score >= np.log(0.99)
    assert gains.weighted([habit, contrary], powers).argmax(1).tolist() == demos.actions.tolist()


def test_goals_are_looked_for_in_a_sample_of_many_trajectories():
    demos = Demonstrations.from_arrays([np.zeros(10, int)] * 30, [np.zeros(10, int)] * 30)
    assert gains.sample(demos, gains.Analysis()).tolist() == list(range(30))
    few = gains.sample(demos, gains.Analysis(goal_steps=100))
    assert len(set(few.tolist())) == 10
    assert few.tolist() == sorted(few.tolist())
