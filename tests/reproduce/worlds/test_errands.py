"""The errands world does what its description says, and its oracle is exact."""

from itertools import product

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from worlds.errands import ErrandsWorld

UP, DOWN, LEFT, RIGHT, STAY = range(5)


@pytest.fixture(scope="module")
def world():
    return ErrandsWorld()


@pytest.fixture(scope="module")
def demos(world):
    return world.simulate(1024, seed=0).demonstrations


def by_trajectory(world, demos):
    return [np.asarray(x).reshape(-1, world.horizon).astype(int) for x in (demos.states, demos.actions, demos.labels)]


def demonstrations(*trajectories):
    """Build demonstrations from trajectories that are lists of (state, action)."""
    states, actions = zip(*(np.array(trajectory).T for trajectory in trajectories), strict=True)
    return Demonstrations.from_arrays(list(states), list(actions), n_states=25, n_actions=5)


# -- the model ---------------------------------------------------------------------------------------------------------


def test_rows_sum_to_one(world):
    assert world.transitions.shape == (25, 5, 25)
    assert world.policies.shape == world.rewards.shape == (2, 25, 5)
    for probabilities in (world.transitions, world.policies, world.kernels):
        np.testing.assert_allclose(probabilities.sum(axis=-1), 1)


def test_policies_lead_to_their_targets(world):
    assert world.targets == (24, 0)
    assert (world.policies[0, [0, 6, 18], :][:, [UP, RIGHT]].sum(axis=1) > 0.8).all()
    assert (world.policies[1, [24, 18, 6], :][:, [DOWN, LEFT]].sum(axis=1) > 0.8).all()
    # The grid turned by half a turn swaps the two targets, and every move with its opposite.
    np.testing.assert_allclose(world.policies[1], world.policies[0][::-1][:, [DOWN, UP, RIGHT, LEFT, STAY]])


def test_there_are_no_barriers(world):
    reached = (world.transitions > 0).any(axis=1)
    assert (reached.sum(axis=1) >= 3).all()  # itself and two neighbours in a corner
    assert reached.any(axis=0).all()


# -- the simulation ----------------------------------------------------------------------------------------------------


def test_intentions_end_at_their_targets_and_hardly_elsewhere(world, demos):
    states, _, intentions = by_trajectory(world, demos)
    switched = intentions[:, 1:] != intentions[:, :-1]
    arrived = (states == np.array(world.targets)[intentions])[:, :-1]
    for there, rate in ((arrived, 0.9), (~arrived, 0.01)):
        spread = np.sqrt(rate * (1 - rate) / there.sum())
        assert abs(switched[there].mean() - rate) < 4 * spread
    # The target of the *other* intention ends nothing.
    foreign = (states == np.array(world.targets)[1 - intentions])[:, :-1]
    assert foreign.sum() > 500
    assert switched[foreign].mean() < 0.03


def test_first_step_is_any_cell_with_either_intention(world, demos):
    states, _, intentions = by_trajectory(world, demos)
    np.testing.assert_allclose(np.bincount(states[:, 0], minlength=25) / len(states), 1 / 25, atol=0.03)
    assert abs(intentions[:, 0].mean() - 0.5) < 0.07


def test_simulated_actions_and_moves_match_the_model(world, demos):
    states, actions, intentions = by_trajectory(world, demos)
    joint, moved = np.zeros((2, 25, 5)), np.zeros((25, 5, 25))
    np.add.at(joint, (intentions, states, actions), 1)
    np.add.at(moved, (states[:, :-1], actions[:, :-1], states[:, 1:]), 1)
    for counts, model in ((joint, world.policies), (moved, world.transitions)):
        total = counts.sum(axis=-1, keepdims=True)
        spread = np.sqrt(total * model * (1 - model))
        assert (counts[(model == 0) & (total > 0)] == 0).all()
        assert (np.abs(counts - total * model) <= 5 * spread + 3).all()


def test_same_seed_same_trajectories(world, demos):
    again, other = (world.simulate(1024, seed=seed).demonstrations for seed in (0, 1))
    for name in ("states", "actions", "labels"):
        np.testing.assert_array_equal(getattr(again, name), getattr(demos, name))
    assert (other.actions != demos.actions).any()


# -- the oracle --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trajectory",
    [
        [(12, UP)],
        [(18, UP), (23, RIGHT), (24, STAY), (24, DOWN), (19, LEFT), (18, DOWN)],
        [(0, STAY), (0, UP), (5, RIGHT), (6, LEFT), (5, DOWN), (0, LEFT)],
    ],
)
def test_oracle_equals_enumeration(world, trajectory):
    states, actions = np.array(trajectory).T
    posterior = world.oracle(demonstrations(trajectory))
    weights = {}
    for path in product((0, 1), repeat=len(states)):
        weight = 0.5
        for t, z in enumerate(path):
            if t:
                arrived = states[t - 1] == (24, 0)[path[t - 1]]
                switch = 0.9 if arrived else 0.01
                weight *= switch if z != path[t - 1] else 1 - switch
            weight *= world.policies[z, states[t], actions[t]]
        weights[path] = weight
    total = sum(weights.values())
    smoothed = [[sum(w for p, w in weights.items() if p[t] == k) / total for k in (0, 1)] for t in range(len(states))]
    np.testing.assert_allclose(posterior.smoothed, smoothed, atol=1e-12)
    assert posterior.log_likelihood.sum() == pytest.approx(np.log(total), abs=1e-12)


def test_oracle_knows_most_intentions_and_is_calibrated(world, demos):
    posterior = world.oracle(demos)
    assert (posterior.smoothed.argmax(axis=1) == demos.labels).mean() > 0.95
    for low in np.arange(0.1, 0.9, 0.1):
        inside = (posterior.predicted[:, 1] >= low) & (posterior.predicted[:, 1] < low + 0.1)
        spread = 0.5 / np.sqrt(inside.sum())
        assert abs(posterior.predicted[inside, 1].mean() - demos.labels[inside].mean()) < 4 * spread
    taken = posterior.action_proba[np.arange(demos.n_steps), demos.actions]
    np.testing.assert_allclose(posterior.log_likelihood, np.log(taken))


# -- wrong input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [{"horizon": 0}, {"done": 1.2}, {"distraction": -0.1}, {"there": (5, 0)}, {"there": (0, 0)}]
)
def test_impossible_worlds_are_refused(wrong):
    with pytest.raises(InputError):
        ErrandsWorld(**wrong)


def test_wrong_demonstrations_are_refused(world):
    with pytest.raises(InputError, match="at least 1"):
        world.simulate(0)
    foreign = Demonstrations.from_arrays([np.array([3, 30])], [np.array([0, 0])], n_states=40, n_actions=5)
    with pytest.raises(InputError, match="state 30"):
        world.oracle(foreign)
