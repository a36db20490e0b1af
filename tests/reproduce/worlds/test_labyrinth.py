"""The simulated mouse does what its description says, and its oracle is exact."""

import os
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from prism_irl import maze
from prism_irl.errors import InputError
from worlds.labyrinth import DRINK, EXPLORE, LEAVE, LabyrinthWorld, walls


@pytest.fixture(scope="module")
def world():
    return LabyrinthWorld()


@pytest.fixture(scope="module")
def simulation(world):
    return world.simulate(30, seed=0)


def by_trajectory(simulation):
    demos = simulation.demonstrations
    arrays = (demos.states, demos.actions, demos.labels, *simulation[1:])
    return [np.asarray(array).reshape(len(demos), -1).astype(int) for array in arrays]


def test_policies_lead_to_their_goals(world):
    greedy = maze.successors()[np.arange(127), world.policies.argmax(axis=2)]
    for drive, goal in ((DRINK, maze.WATER), (LEAVE, maze.HOME)):
        edges = csr_array((np.ones(126), (np.arange(1, 127), maze.parents()[1:])), shape=(127, 127))
        distance = shortest_path(edges, directed=False, unweighted=True, indices=goal)
        elsewhere = distance > 0
        assert (distance[greedy[drive]][elsewhere] == distance[elsewhere] - 1).all()
    np.testing.assert_allclose(world.policies.sum(axis=2), 1)
    assert (world.policies[:, ~maze.valid_actions()] == 0).all()
    assert world.policies[(LEAVE, *maze.EXIT)] > 0.9


def test_states_follow_the_maze(simulation):
    states, actions, *_ = by_trajectory(simulation)
    assert (states[:, 0] == maze.HOME).all()
    np.testing.assert_array_equal(maze.successors()[states[:, :-1], actions[:, :-1]], states[:, 1:])


def test_the_port_rests_after_a_drop(world, simulation):
    states, _, _, counters, _, deliveries = by_trajectory(simulation)
    np.testing.assert_array_equal(deliveries, (states == maze.WATER) & (counters == 0))
    assert deliveries.sum() > 100
    for row, clock in zip(deliveries, counters, strict=True):
        drops = np.flatnonzero(row)
        assert (np.diff(drops) > world.refractory).all()
        for drop in drops[drops < len(row) - 1]:
            assert clock[drop + 1] == world.refractory
    falls = np.where(deliveries, world.refractory, np.maximum(counters - 1, 0))
    np.testing.assert_array_equal(falls[:, :-1], counters[:, 1:])


def test_water_is_never_turned_to_while_the_port_rests(simulation):
    _, _, drives, counters, _, _ = by_trajectory(simulation)
    turned = (drives[:, 1:] == DRINK) & (drives[:, :-1] != DRINK)
    assert turned.sum() > 50
    assert (counters[:, 1:][turned] == 0).all()


def test_home_ends_outside_only_and_thirst_decides_what_follows(simulation):
    states, actions, drives, counters, since, _ = by_trajectory(simulation)
    left = (states == maze.EXIT[0]) & (actions == maze.EXIT[1])
    ended = (drives[:, :-1] == LEAVE) & (drives[:, 1:] != LEAVE)
    assert left[:, :-1][ended].all()
    np.testing.assert_array_equal(drives[:, 1:][ended] == DRINK, counters[:, 1:][ended] == 0)
    assert (since[:, 1:][left[:, :-1]] == 0).all()


def test_turning_home_grows_with_the_time_inside(world):
    zeros, nothing = np.zeros(3, np.int64), np.zeros(3, bool)
    kernel = world.kernels(zeros + 5, np.array([0, 50, 10_000]), nothing)
    expected = [0, 50 * world.homesickness, world.homesickness_max]
    np.testing.assert_allclose(kernel[:, EXPLORE, LEAVE], expected)
    assert (kernel[:, EXPLORE, DRINK] == 0).all()
    np.testing.assert_allclose(world.kernels(zeros, zeros, nothing)[:, EXPLORE, DRINK], world.thirst)


def test_switches_need_history(simulation):
    # At one and the same node, turning to water is common once the port is ready and impossible before.
    states, _, drives, counters, _, _ = by_trajectory(simulation)
    exploring = (drives[:, :-1] == EXPLORE) & (maze.levels()[states[:, :-1]] == 5)
    turned = drives[:, 1:] == DRINK
    ready = counters[:, 1:] == 0
    assert turned[exploring & ready].mean() > 0.05
    assert turned[exploring & ~ready].mean() == 0


def test_clocks_are_read_from_states_and_actions_alone(world, simulation):
    found = world.clocks(simulation.demonstrations)
    for clock, true in zip(found, simulation[1:], strict=True):
        np.testing.assert_array_equal(clock, true)
    ragged = simulation.demonstrations.subset([4, 2])
    np.testing.assert_array_equal(world.clocks(ragged).counters[:500], simulation.counters[2000:2500])


def test_momentum_makes_turning_back_rare_but_never_holds_the_mouse_inside():
    world = LabyrinthWorld(momentum=2.0)
    plain, turned = world.policies_from(np.array([-1, 7]), np.array([3, 3]))
    back = int(np.flatnonzero(maze.successors()[3] == 7)[0])
    other = 1 - back
    change = np.log(turned[:, back] / turned[:, other]) - np.log(plain[:, back] / plain[:, other])
    np.testing.assert_allclose(change, -2.0)
    outside = world.policies_from(np.array([0]), np.array([0]))
    np.testing.assert_allclose(outside[0], world.policies[:, 0])


@pytest.mark.parametrize("momentum", [0.0, 1.0])
def test_oracle_is_exact(momentum):
    # Against the sum over all 3^5 sequences of drives.
    world = LabyrinthWorld(momentum=momentum, refractory=2, beta=1.0, homesickness=0.1, homesickness_max=0.4)
    demos = world.simulate(4, horizon=5, seed=1).demonstrations
    found = world.oracle(demos)
    clocks = world.clocks(demos)
    states, actions = demos.states.astype(int), demos.actions.astype(int)
    for i in range(4):
        steps = np.arange(5) + 5 * i
        s, a = states[steps], actions[steps]
        pi = world.policies_from(np.append(-1, s[:-1]), s)
        after = world._tick(clocks.counters[steps], clocks.since_exit[steps], s, a)
        kernels = world.kernels(after[0], after[1], after[3])
        joint = np.zeros((5, 3))
        total = 0.0
        for z in product(range(3), repeat=5):
            p = float(z[0] == EXPLORE)
            for t in range(5):
                p *= pi[t, z[t], a[t]] * (kernels[t - 1, z[t - 1], z[t]] if t else 1.0)
            total += p
            joint[np.arange(5), z] += p
        np.testing.assert_allclose(found.smoothed[steps], joint / total, atol=1e-12)
        np.testing.assert_allclose(found.log_likelihood[steps].sum(), np.log(total))
    np.testing.assert_allclose(found.action_proba.sum(axis=1), 1)
    taken = found.action_proba[np.arange(len(actions)), actions]
    np.testing.assert_allclose(np.log(taken), found.log_likelihood)


def test_oracle_recovers_the_drives(world, simulation):
    demos = simulation.demonstrations
    assert (world.oracle(demos).smoothed.argmax(axis=1) == demos.labels).mean() > 0.95


def test_same_seed_same_mouse(world):
    a, b, c = (world.simulate(2, horizon=60, seed=seed).demonstrations for seed in (3, 3, 4))
    assert a.checksum() == b.checksum() != c.checksum()


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"thirst": 1.5}, "thirst"),
        ({"discount": 1.0}, "discount"),
        ({"refractory": -1}, "refractory"),
        ({"beta": np.inf}, "beta"),
        ({"horizon": 0}, "horizon"),
        ({"thirst": 0.8, "homesickness_max": 0.5}, "more than 1"),
    ],
)
def test_impossible_worlds_are_refused(wrong, word):
    with pytest.raises(InputError, match=word):
        LabyrinthWorld(**wrong)
    with pytest.raises(InputError, match="at least 1"):
        LabyrinthWorld().simulate(0)


def test_walls_are_of_one_cell_and_stand_in_no_corridor():
    assert (np.abs(walls()[:, 1] - walls()[:, 0]).sum(axis=1) == 1).all()
    middles = {tuple(middle) for middle in walls().mean(axis=1)}
    assert len(middles) == len(walls())
    first = maze.layout()[maze.HOME]
    for child in (1, 2):  # the way from the first junction to its branches
        step = np.sign(maze.layout()[child] - first) / 2
        assert tuple(first + step) not in middles
        assert tuple(first + np.array([0.5, 0])) in middles  # and straight on there is none


def test_walls_are_those_of_the_annotations():
    folder = Path(os.environ.get("PRISM_DATA", Path(__file__).resolve().parents[4] / "shared" / "data")) / "labyrinth"
    if not (folder / "annotations.npz").is_file():
        pytest.skip("labyrinth/annotations.npz is absent; set PRISM_DATA to the folder that holds labyrinth/")
    with np.load(folder / "annotations.npz", allow_pickle=False) as notes:
        line = notes["walls"].astype(float)
    drawn = set()
    for a, b in pairwise(line):
        for i in range(steps := round(float(np.abs(b - a).max()))):
            drawn.add(tuple(sorted((tuple(a + (b - a) * i / steps), tuple(a + (b - a) * (i + 1) / steps)))))
    assert {tuple(sorted((tuple(a), tuple(b)))) for a, b in walls()} == drawn
