"""The cloned agent acts by its last six steps: by all of them, and by nothing before them."""

import numpy as np
import pytest

from prism_irl import maze
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.cloning import BehaviourCloning
from prism_irl.models.references import NGram
from worlds.cloned import ClonedWorld
from worlds.labyrinth import LabyrinthWorld

SMALL = {"hidden": 16, "embedding": 16, "max_epochs": 25, "batch_size": 5, "device": "cpu"}


@pytest.fixture(scope="module")
def mice():
    return LabyrinthWorld().simulate(50, 100, seed=0).demonstrations


@pytest.fixture(scope="module")
def world(mice):
    return ClonedWorld(BehaviourCloning(**SMALL).fit(mice), mice, maze.maze_mdp(), horizon=60)


def told(world, states, actions):
    """Weights of the forgetful agent at the last of the states (B, T), after the actions (B, T − 1)."""
    chooser = world.chooser(len(states))
    for t in range(actions.shape[1]):
        chooser.weights(states[:, t])
        chooser.take(actions[:, t])
    return chooser.weights(states[:, -1])


@pytest.fixture(scope="module")
def pasts(mice):
    """Twelve steps of every mouse, whose last state is a junction with a choice."""
    states, actions = (np.asarray(x).reshape(50, -1).astype(np.int64) for x in (mice.states, mice.actions))
    ends = [int(np.flatnonzero(row[12:] < maze.FIRST_END)[0]) + 13 for row in states]
    pieces = [(s[e - 12 : e], a[e - 12 : e - 1]) for s, a, e in zip(states, actions, ends, strict=True)]
    return np.stack([s for s, _ in pieces]), np.stack([a for _, a in pieces])


@pytest.mark.parametrize("what", ["state", "action"])
def test_it_depends_on_exactly_six_steps(world, pasts, what):
    states, actions = pasts
    before = told(world, states, actions)
    for age in range(1, 12):
        changed = states.copy(), actions.copy()
        column, size = (changed[0], 127) if what == "state" else (changed[1], 4)
        column[:, -1 - age if what == "state" else -age] += 1
        column %= size
        after = told(world, *changed)
        if age <= 5:
            assert (after != before).any(axis=1).mean() > 0.9
        else:
            np.testing.assert_array_equal(after, before)


def test_within_six_steps_it_is_the_network(world, pasts):
    states, actions = (x[:, :6] for x in pasts)
    demos = Demonstrations.from_arrays(states, actions, n_states=127, n_actions=4, valid_actions=maze.valid_actions())
    expected = world.model.action_proba(demos).reshape(50, 6, 4)
    for t in range(6):
        np.testing.assert_allclose(told(world, states[:, : t + 1], actions[:, :t]), expected[:, t], atol=1e-6)


def test_later_it_is_the_network_that_began_five_steps_ago(world, pasts):
    states, actions = pasts
    np.testing.assert_array_equal(told(world, states, actions), told(world, states[:, -6:], actions[:, -5:]))
    whole = ClonedWorld(world.model, world.demos, memory=12)
    assert np.abs(told(whole, states, actions) - told(world, states, actions)).max() > 1e-4


def test_trajectories_walk_where_the_data_were_taken(world, mice):
    demos = world.simulate(40, seed=0)
    states, actions = (np.asarray(x).reshape(40, 60).astype(int) for x in (demos.states, demos.actions))
    assert set(states[:, 0]) <= set(mice.states[mice.offsets[:-1]])
    np.testing.assert_array_equal(maze.successors()[states[:, :-1], actions[:, :-1]], states[:, 1:])
    assert demos.labels is None
    assert demos.groups is None
    np.testing.assert_array_equal(demos.valid_actions, maze.valid_actions())


def test_actions_are_drawn_from_what_the_agent_says(world):
    demos = world.simulate(300, seed=1)
    states, actions = (np.asarray(x).reshape(300, 60).astype(np.int64) for x in (demos.states, demos.actions))
    chooser, proba = world.chooser(300), []
    for t in range(60):
        proba.append(chooser.weights(states[:, t]))
        chooser.take(actions[:, t])
    p, taken = np.stack(proba, axis=1), np.eye(4, dtype=bool)[actions]
    for low in np.arange(0, 1, 0.1):
        inside = (p > low) & (p < low + 0.1)
        spread = np.sqrt((p[inside] * (1 - p[inside])).sum()) / inside.sum()
        assert abs(taken[inside].mean() - p[inside].mean()) < 4.5 * spread


def test_starts_are_drawn_from_those_of_the_data():
    states = np.array([[0, 1, 2]] * 3 + [[2, 1, 0]])
    demos = Demonstrations.from_arrays(states, np.array([[1, 1, 1]] * 3 + [[0, 0, 0]]), n_states=3, n_actions=2)
    first = ClonedWorld(NGram(length=1, backoff=1.0).fit(demos), demos, horizon=4).simulate(2000, seed=0)
    share = (first.states[first.offsets[:-1]] == 2).mean()
    assert abs(share - 0.25) < 0.05


def test_same_seed_same_trajectories(world):
    first, again, other = (world.simulate(20, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.states, again.states)
    np.testing.assert_array_equal(first.actions, again.actions)
    assert (first.actions != other.actions).any()


def test_impossible_worlds_are_refused(mice):
    model = NGram(length=1, backoff=1.0).fit(mice)
    for wrong in ({"memory": 0}, {"horizon": 0}):
        with pytest.raises(InputError, match="at least 1"):
            ClonedWorld(model, mice, **wrong)
    with pytest.raises(InputError, match="at least 1"):
        ClonedWorld(model, mice).simulate(0)
