"""The frustration gridworld does what its description says, and its oracle is exact."""

from dataclasses import FrozenInstanceError
from itertools import product

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.worlds.frustration import ACTIONS, FrustrationWorld

UP, DOWN, LEFT, RIGHT, STAY = range(5)


@pytest.fixture(scope="module")
def world():
    return FrustrationWorld()


@pytest.fixture(scope="module")
def simulation(world):
    return world.simulate(1024, seed=0)


def by_trajectory(world, simulation):
    demos = simulation.demonstrations
    arrays = (demos.states, demos.actions, demos.labels, simulation.counters)
    return [np.asarray(array).reshape(-1, world.horizon).astype(int) for array in arrays]


def demonstrations(*trajectories):
    """Build demonstrations from trajectories that are lists of (state, action)."""
    states, actions = zip(*(np.array(trajectory).T for trajectory in trajectories), strict=True)
    return Demonstrations.from_arrays(list(states), list(actions), n_states=25, n_actions=5)


# -- the model ---------------------------------------------------------------------------------------------------------


def test_rows_sum_to_one(world):
    assert world.transitions.shape == (25, 5, 25)
    assert world.policies.shape == world.rewards.shape == (2, 25, 5)
    np.testing.assert_allclose(world.transitions.sum(axis=2), 1)
    np.testing.assert_allclose(world.policies.sum(axis=2), 1)
    np.testing.assert_allclose(world.start.sum(), 1)
    assert (world.start > 0).sum() == world.free.sum() == 22


def test_barriers_cannot_be_entered(world):
    barriers = [5 * 3 + 1, 5 * 2 + 2, 5 * 1 + 3]
    assert not world.free[barriers].any()
    assert world.transitions[np.ix_(world.free, range(5), barriers)].max() == 0


def test_slip(world):
    # From (0, 0): up to (0, 1), right to (1, 0); down, left and stay remain.
    np.testing.assert_allclose(world.transitions[0, UP, [0, 1, 5]], [0.06, 0.02, 0.92])
    np.testing.assert_allclose(world.transitions[0, LEFT, [0, 1, 5]], [0.96, 0.02, 0.02])


def test_blocked_is_wall_or_barrier_and_never_stay(world):
    assert set(np.flatnonzero(world.blocked[0])) == {DOWN, LEFT}
    assert set(np.flatnonzero(world.blocked[24])) == {UP, RIGHT}
    assert set(np.flatnonzero(world.blocked[world.state((2, 1))])) == {UP, RIGHT}  # (2, 2) and (3, 1)
    assert not world.blocked[:, STAY].any()
    assert world.blocked[world.free].sum() == 20 + 12  # wall sides, and four neighbours of each of the three barriers


def test_experts_do_not_know_the_barriers(world):
    q, reward = world.q[0], np.eye(25)[24]
    for s in range(25):
        x, y = s % 5, s // 5
        ends = [(x, min(y + 1, 4)), (x, max(y - 1, 0)), (max(x - 1, 0), y), (min(x + 1, 4), y), (x, y)]
        values = np.array([q[5 * v + u].max() for u, v in ends])
        np.testing.assert_allclose(q[s], reward[s] + 0.9 * (0.9 * values + 0.1 * values.mean()), atol=1e-9)
    np.testing.assert_allclose(
        np.log(world.policies[0, 7, UP] / world.policies[0, 7, DOWN]), 5 * (q[7, UP] - q[7, DOWN])
    )
    # The grid turned by half a turn swaps the two targets, and every move with its opposite.
    np.testing.assert_allclose(world.policies[1], world.policies[0][::-1][:, [DOWN, UP, RIGHT, LEFT, STAY]])


def test_rewards_are_received_in_the_target(world):
    assert world.rewards.sum() == 2 * len(ACTIONS)
    assert (world.rewards[0, 24] == 1).all()
    assert (world.rewards[1, 0] == 1).all()


def test_world_cannot_be_changed(world):
    with pytest.raises(ValueError, match="read-only"):
        world.policies[0, 0, 0] = 1
    with pytest.raises(FrozenInstanceError):
        world.beta = 2.0


# -- the simulation ----------------------------------------------------------------------------------------------------


def test_first_step(world, simulation):
    states, _, intentions, counters = by_trajectory(world, simulation)
    assert (intentions[:, 0] == 0).all()
    assert (counters[:, 0] == 0).all()
    share = np.bincount(states[:, 0], minlength=25) / len(states)
    np.testing.assert_allclose(share, world.start, atol=0.03)


def test_counter_follows_encounters_and_resets(world, simulation):
    states, actions, intentions, counters = by_trajectory(world, simulation)
    switched = intentions[:, 1:] != intentions[:, :-1]
    after = counters[:, :-1] + world.blocked[states, actions][:, :-1]
    np.testing.assert_array_equal(counters[:, 1:], np.where(switched, 0, after))
    assert switched[after > 0].any()
    assert not switched[after == 0].any()


def test_switch_frequency_given_counter(world, simulation):
    states, actions, intentions, counters = by_trajectory(world, simulation)
    switched = intentions[:, 1:] != intentions[:, :-1]
    encounter = world.blocked[states, actions][:, :-1]
    after = counters[:, :-1] + encounter
    for c in range(1, 5):
        for met in (False, True):  # a switch may come on a step without an encounter too
            chosen = (after == c) & (encounter == met)
            spread = np.sqrt(0.15 * c * (1 - 0.15 * c) / chosen.sum())
            assert abs(switched[chosen].mean() - 0.15 * c) < 4 * spread


def test_switch_probability_is_capped(world):
    np.testing.assert_allclose(world.switch_probability(np.array([0, 1, 6, 7, 40])), [0, 0.15, 0.9, 0.9, 0.9])


def test_simulated_actions_and_moves_match_the_model(world, simulation):
    states, actions, intentions, _ = by_trajectory(world, simulation)
    joint, moves = np.zeros((2, 25, 5)), np.zeros((25, 5, 25))
    np.add.at(joint, (intentions, states, actions), 1)
    np.add.at(moves, (states[:, :-1], actions[:, :-1], states[:, 1:]), 1)
    for counts, model in ((joint, world.policies), (moves, world.transitions)):
        total = counts.sum(axis=-1, keepdims=True)
        spread = np.sqrt(total * model * (1 - model))
        assert (counts[(model == 0) & (total > 0)] == 0).all()
        assert (np.abs(counts - total * model) <= 5 * spread + 3).all()
    assert moves[~world.free].sum() == 0


def test_same_seed_same_trajectories(world, simulation):
    again, other = world.simulate(1024, seed=0), world.simulate(1024, seed=1)
    demos = simulation.demonstrations
    np.testing.assert_array_equal(again.demonstrations.states, demos.states)
    np.testing.assert_array_equal(again.demonstrations.actions, demos.actions)
    np.testing.assert_array_equal(again.demonstrations.labels, demos.labels)
    np.testing.assert_array_equal(again.counters, simulation.counters)
    assert (other.demonstrations.actions != demos.actions).any()


# -- the oracle --------------------------------------------------------------------------------------------------------


def enumerate_paths(world, states, actions):
    """Sum over every sequence of switches, with an unbounded counter: predicted, filtered, smoothed, evidence."""
    steps = len(states)
    predicted, filtered, smoothed, evidence = np.zeros((steps, 2)), np.zeros((steps, 2)), np.zeros((steps, 2)), []
    for t in range(steps):
        for switches in product((False, True), repeat=t):
            weight, z, c = 1.0, 0, 0
            for u, switch in enumerate(switches):
                c += int(world.blocked[states[u], actions[u]])
                p = min(0.15 * c, 0.9)
                weight *= world.policies[z, states[u], actions[u]] * (p if switch else 1 - p)
                z, c = (1 - z, 0) if switch else (z, c)
            predicted[t, z] += weight
            filtered[t, z] += weight * world.policies[z, states[t], actions[t]]
            if t == steps - 1:
                path = np.concatenate([[0], np.cumsum(switches)]).astype(int) % 2
                smoothed[np.arange(steps), path] += weight * world.policies[z, states[t], actions[t]]
        evidence.append(filtered[t].sum() / predicted[t].sum())
    return *(x / x.sum(axis=1, keepdims=True) for x in (predicted, filtered, smoothed)), np.array(evidence)


@pytest.mark.parametrize(
    "trajectory",
    [
        [(12 - 5, UP)],
        [(7, UP), (7, RIGHT), (7, UP), (6, DOWN), (1, LEFT), (0, STAY), (0, LEFT)],
        [(24, UP)] * 10,  # ten encounters: beyond the counter at which the switch probability is capped
        [(6, STAY)] * 4 + [(24, RIGHT), (24, UP), (24, DOWN), (19, LEFT), (18, LEFT), (17, LEFT)],
    ],
)
def test_oracle_equals_enumeration(world, trajectory):
    posterior = world.oracle(demonstrations(trajectory))
    states, actions = np.array(trajectory).T
    predicted, filtered, smoothed, evidence = enumerate_paths(world, states, actions)
    np.testing.assert_allclose(posterior.predicted, predicted, atol=1e-12)
    np.testing.assert_allclose(posterior.filtered, filtered, atol=1e-12)
    np.testing.assert_allclose(posterior.smoothed, smoothed, atol=1e-12)
    np.testing.assert_allclose(posterior.log_likelihood, np.log(evidence), atol=1e-12)
    mixture = predicted[:, 0, None] * world.policies[0, states] + predicted[:, 1, None] * world.policies[1, states]
    np.testing.assert_allclose(posterior.action_proba, mixture, atol=1e-12)


def test_oracle_equals_enumeration_without_a_reachable_cap():
    world = FrustrationWorld(switch_rate=0.0)
    posterior = world.oracle(demonstrations([(24, UP)] * 5))
    np.testing.assert_array_equal(posterior.smoothed, [[1, 0]] * 5)


def test_oracle_probabilities_are_normalised_and_consistent(world, simulation):
    demos, posterior = simulation.demonstrations, world.oracle(simulation.demonstrations)
    for proba in (posterior.predicted, posterior.filtered, posterior.smoothed, posterior.action_proba):
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
    taken = posterior.action_proba[np.arange(demos.n_steps), demos.actions]
    np.testing.assert_allclose(posterior.log_likelihood, np.log(taken))
    last = demos.offsets[1:] - 1
    np.testing.assert_allclose(posterior.smoothed[last], posterior.filtered[last], atol=1e-12)


def test_oracle_is_calibrated(world, simulation):
    p, z = world.oracle(simulation.demonstrations).predicted[:, 1], simulation.demonstrations.labels
    for low in np.arange(0.1, 0.9, 0.1):
        inside = (p >= low) & (p < low + 0.1)
        assert abs(p[inside].mean() - z[inside].mean()) < 0.06


@pytest.mark.parametrize(
    ("beta", "horizon", "likelihood", "smoothed", "filtered", "truth"),
    [(5.0, 50, -1.088, 0.984, 0.978, -0.87), (10.0, 100, -0.942, 0.998, 0.997, -0.70)],
)
def test_oracle_reaches_the_measured_ceiling(beta, horizon, likelihood, smoothed, filtered, truth):
    world = FrustrationWorld(beta=beta, horizon=horizon)
    demos = world.simulate(1024, seed=0).demonstrations
    posterior = world.oracle(demos)
    assert posterior.log_likelihood.mean() == pytest.approx(likelihood, abs=0.008)
    assert (posterior.smoothed.argmax(axis=1) == demos.labels).mean() == pytest.approx(smoothed, abs=0.003)
    assert (posterior.filtered.argmax(axis=1) == demos.labels).mean() == pytest.approx(filtered, abs=0.003)
    known = np.log(world.policies[demos.labels, demos.states, demos.actions]).mean()
    assert known == pytest.approx(truth, abs=0.01)


def test_ragged_input_gives_each_trajectory_its_own_result(world, simulation):
    demos = simulation.demonstrations
    lengths = [7, 50, 1, 23]
    pieces = [slice(50 * i, 50 * i + length) for i, length in enumerate(lengths)]
    states, actions = ([flat[piece] for piece in pieces] for flat in (demos.states, demos.actions))
    together = world.oracle(Demonstrations.from_arrays(states, actions, n_states=25, n_actions=5))
    alone = [
        world.oracle(Demonstrations.from_arrays([s], [a], n_states=25, n_actions=5))
        for s, a in zip(states, actions, strict=True)
    ]
    for field, values in zip(together._fields, together, strict=True):
        np.testing.assert_allclose(values, np.concatenate([getattr(one, field) for one in alone]), atol=1e-12)


# -- wrong input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"horizon": 0},
        {"success": 1.2},
        {"switch_max": -0.1},
        {"discount": 1.0},
        {"beta": -1.0},
        {"beta": float("nan")},
        {"goal": (5, 0)},
        {"barriers": ((4, 4),)},
    ],
)
def test_impossible_worlds_are_refused(wrong):
    with pytest.raises(InputError):
        FrustrationWorld(**wrong)


def test_wrong_demonstrations_are_refused(world):
    with pytest.raises(InputError, match="at least 1"):
        world.simulate(0)
    foreign = Demonstrations.from_arrays([np.array([3, 30])], [np.array([0, 0])], n_states=40, n_actions=5)
    with pytest.raises(InputError, match="state 30"):
        world.oracle(foreign)
    with pytest.raises(InputError, match="trajectory 1, step 0"):
        FrustrationWorld(beta=1e4).oracle(demonstrations([(24, UP)], [(0, DOWN)]))
