"""Habits remember exactly as much as they say, differ where they say, and hold nothing that is hidden."""

from dataclasses import replace

import numpy as np
import pytest

from prism_irl import maze
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.references import NGram
from worlds.habits import SCALES, HabitWorld

PLACES = ("maze", "grid")


def log_likelihoods(world, demos):
    """Log p of the actions taken, under the world itself."""
    return np.log(world.action_proba(demos)[np.arange(demos.n_steps), demos.actions])


# -- what is drawn -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("options", [{}, {"individuals": True}, {"drift": 1.0}])
def test_probabilities_are_those_of_valid_actions(place, options):
    world = HabitWorld(memory=3, place=place, **options)
    demos = world.simulate(20, seed=0)
    proba = world.action_proba(demos)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    valid = world.mdp.valid_actions[demos.states]
    assert (proba[~valid] == 0).all()
    assert (proba[valid] > 0).all()
    np.testing.assert_array_equal(demos.valid_actions, world.mdp.valid_actions)
    assert demos.labels is None
    assert (demos.lengths == {"maze": 200, "grid": 50}[place]).all()


@pytest.mark.parametrize("place", PLACES)
def test_actions_are_drawn_from_the_probabilities(place):
    """Calibration: actions that were given p happen with frequency p, and the mean log-likelihood is −entropy."""
    world = HabitWorld(memory=4, place=place)
    demos = world.simulate(300, seed=3)
    proba = world.action_proba(demos)
    taken = np.eye(demos.n_actions, dtype=bool)[demos.actions]
    for low in np.arange(0, 1, 0.1):
        inside = (proba > low) & (proba < low + 0.1)
        spread = np.sqrt((proba[inside] * (1 - proba[inside])).sum()) / inside.sum()
        assert abs(taken[inside].mean() - proba[inside].mean()) < 4.5 * spread
    surprise = -np.where(proba > 0, proba * np.log(np.where(proba > 0, proba, 1)), 0).sum(axis=1)
    difference = log_likelihoods(world, demos) + surprise
    assert abs(difference.mean()) < 4.5 * difference.std() / np.sqrt(demos.n_steps)


def test_states_follow_the_maze():
    demos = HabitWorld(memory=3).simulate(30, seed=0)
    states, actions = (np.asarray(x).reshape(30, -1).astype(int) for x in (demos.states, demos.actions))
    assert (states[:, 0] == maze.HOME).all()
    np.testing.assert_array_equal(maze.successors()[states[:, :-1], actions[:, :-1]], states[:, 1:])


def test_states_follow_the_grid():
    world = HabitWorld(memory=3, place="grid")
    demos = world.simulate(2000, seed=0)
    states, actions = (np.asarray(x).reshape(2000, -1).astype(int) for x in (demos.states, demos.actions))
    np.testing.assert_allclose(np.bincount(states[:, 0], minlength=25) / 2000, 1 / 25, atol=0.02)
    counts, model = np.zeros((25, 5, 25)), world.mdp.transitions.toarray().reshape(25, 5, 25)
    np.add.at(counts, (states[:, :-1], actions[:, :-1], states[:, 1:]), 1)
    total = counts.sum(axis=2, keepdims=True)
    assert (counts[(model == 0) & (total > 0)] == 0).all()
    assert (np.abs(counts - total * model) <= 5 * np.sqrt(total * model * (1 - model)) + 3).all()


def test_in_the_maze_turning_back_is_rare_where_there_is_a_choice():
    def turns(world):
        states = np.asarray(world.simulate(100, seed=0).states).reshape(100, -1).astype(int)
        choice = states[:, 1:-1] < maze.FIRST_END
        return (states[:, 2:] == states[:, :-2])[choice].mean()

    for habit in range(3):
        assert turns(HabitWorld(memory=2, habit=habit)) < turns(HabitWorld(memory=2, habit=habit, turn=0.0)) - 0.05


def test_same_seeds_same_trajectories():
    world = HabitWorld(memory=5, individuals=True)
    first, again = world.simulate(20, seed=4), HabitWorld(memory=5, individuals=True).simulate(20, seed=4)
    np.testing.assert_array_equal(first.states, again.states)
    np.testing.assert_array_equal(first.actions, again.actions)
    assert (world.simulate(20, seed=5).actions != first.actions).any()
    other = HabitWorld(memory=5, individuals=True, habit=1)
    assert np.abs(other.action_proba(first) - world.action_proba(first)).mean() > 0.05


def test_effects_are_independent_gaussians():
    """The hash is as good as a draw: standard normal, without correlation between neighbours of any kind."""
    world, contexts = HabitWorld(place="grid"), np.indices((120, 120)).reshape(2, -1).T
    effects = world._effects(0, contexts).reshape(120, 120, 5)
    tolerance = 5 / np.sqrt(effects.size)
    assert abs(effects.mean()) < tolerance
    assert abs((effects**2).mean() - 1) < 2 * tolerance
    assert abs((effects**4).mean() - 3) < 10 * tolerance
    others = [
        np.roll(effects, 1, axis=0),
        np.roll(effects, 1, axis=1),
        np.roll(effects, 1, axis=2),
        effects.transpose(1, 0, 2)[::-1],
        world._effects(1, contexts).reshape(effects.shape),
        HabitWorld(place="grid", habit=1)._effects(0, contexts).reshape(effects.shape),
        np.broadcast_to(world._effects(0, np.arange(120)[:, None])[:, None], effects.shape),
    ]
    for other in others[:-1]:
        assert abs((effects * other).mean()) < tolerance
    assert abs((effects.mean(axis=1) * others[-1][:, 0]).mean()) < tolerance  # lengths 1 and 2 of the same states


# -- memory ------------------------------------------------------------------------------------------------------------


def altered(demos, at, age):
    """The same demonstrations with other states ``age`` steps before step ``at`` of each trajectory."""
    states, actions = (np.array(x).reshape(len(demos), -1).astype(int) for x in (demos.states, demos.actions))
    states[:, at - age] = (states[:, at - age] + 1) % demos.n_states
    # Without valid actions: the action taken there may not exist in the other state.
    sizes = {"n_states": demos.n_states, "n_actions": demos.n_actions}
    return Demonstrations.from_arrays(states, actions, groups=demos.groups, **sizes)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("memory", range(1, len(SCALES) + 1))
def test_the_last_states_matter_and_no_others(place, memory):
    world, at = HabitWorld(memory=memory, place=place, individuals=True), 20
    demos = world.simulate(40, seed=1)
    steps = demos.offsets[:-1] + at
    proba = world.action_proba(demos)[steps]
    beyond = world.action_proba(altered(demos, at, memory))[steps]
    np.testing.assert_array_equal(beyond, proba)
    if memory > 1:
        within = world.action_proba(altered(demos, at, memory - 1))[steps]
        several = world.mdp.valid_actions[demos.states[steps]].sum(axis=1) > 1
        assert several.sum() > 10
        assert (np.abs(within - proba).max(axis=1)[several] > 1e-6).all()


@pytest.mark.parametrize(("place", "n"), [("maze", 2000), ("grid", 8000)])
@pytest.mark.parametrize("memory", range(1, len(SCALES) + 1))
def test_an_n_gram_of_the_same_length_is_the_best(place, n, memory):
    """On plenty of data it comes close to the truth, which a shorter one does not, and a longer one gains nothing."""
    world = HabitWorld(memory=memory, place=place)
    train, test = world.simulate(n, seed=1), world.simulate(n // 4, seed=2)
    scores = {
        length: NGram(length=length, backoff=16.0).fit(train).log_likelihood(test)
        for length in range(max(memory - 1, 1), memory + 2)
    }
    assert log_likelihoods(world, test).mean() - scores[memory].mean() < 0.03
    assert scores[memory + 1].mean() < scores[memory].mean() + 1e-3
    if memory > 1:
        gain = (scores[memory] - scores[memory - 1]).reshape(len(test), -1).mean(axis=1)
        assert gain.mean() > max(0.002, 5 * gain.std() / np.sqrt(len(gain)))


@pytest.mark.parametrize(("place", "n"), [("maze", 500), ("grid", 1000)])
def test_validation_chooses_no_more_than_the_memory(place, n):
    for memory in (1, 3):
        assert NGram(max_length=5).fit(HabitWorld(memory=memory, place=place).simulate(n, seed=1)).length_ == memory


# -- individuals and drift ---------------------------------------------------------------------------------------------


def test_animals_differ_and_trajectories_of_one_do_not():
    world = HabitWorld(memory=3, place="grid", individuals=True, n_animals=5)
    demos = world.simulate(50, seed=0)
    np.testing.assert_array_equal(demos.groups, np.arange(50) % 5)
    states = np.tile(np.asarray(demos.states[:50], int), (10, 1))  # one walk, by ten trajectories of five animals
    sizes = {"n_states": 25, "n_actions": 5}
    same = Demonstrations.from_arrays(states, np.zeros_like(states), groups=np.arange(10) % 5, **sizes)
    proba = world.action_proba(same).reshape(10, 50, 5)
    np.testing.assert_array_equal(proba[:5], proba[5:])
    for one in range(5):
        for other in range(one):
            assert np.abs(proba[one] - proba[other]).sum(axis=1).mean() > 0.1
    with pytest.raises(InputError, match="groups"):
        world.action_proba(Demonstrations.from_arrays(states, np.zeros_like(states), **sizes))


def test_an_animal_is_known_by_its_behaviour():
    """Under the truth, the trajectories of an animal are likelier than they would be of another."""
    world = HabitWorld(memory=2, individuals=True)
    demos = world.simulate(200, seed=0)
    shifted = replace(demos, groups=(demos.groups + 1) % world.n_animals)
    gain = (log_likelihoods(world, demos) - log_likelihoods(world, shifted)).reshape(200, -1).sum(axis=1)
    assert gain.mean() > 5 * gain.std() / np.sqrt(200)


def test_drift_is_slow_and_real():
    world = HabitWorld(memory=2, place="grid", drift=1.0)
    assert world.simulate(20, seed=0).groups is None
    states = np.tile(np.asarray(world.simulate(1, seed=0).states, int), (101, 1))  # one walk, by every trajectory
    walks = Demonstrations.from_arrays(states, np.zeros_like(states), n_states=25, n_actions=5)
    proba = world.action_proba(walks).reshape(101, 50, 5)
    still = HabitWorld(memory=2, place="grid").action_proba(walks).reshape(101, 50, 5)
    np.testing.assert_array_equal(still, np.broadcast_to(still[0], still.shape))
    np.testing.assert_allclose(proba[0], still[0], atol=1e-12)
    from_first = np.abs(proba - proba[0]).sum(axis=2).mean(axis=1)
    between = np.abs(np.diff(proba, axis=0)).sum(axis=2).mean(axis=1)
    assert from_first[-1] > 0.5
    assert from_first[-1] > from_first[50] > from_first[25] > from_first[10] > 0
    assert between.max() < 0.05 * from_first[-1]  # each of the hundred changes is a small part of the way
    half = np.abs(HabitWorld(memory=2, place="grid", drift=0.5).action_proba(walks).reshape(proba.shape) - proba[0])
    np.testing.assert_allclose(half[-1], np.abs(proba[50] - proba[0]), atol=1e-12)


def test_behaviour_drifts_away_from_the_first_habit():
    drifting, still = (HabitWorld(memory=2, place="grid", drift=drift) for drift in (1.0, 0.0))
    demos = drifting.simulate(400, seed=0)
    gain = (log_likelihoods(drifting, demos) - log_likelihoods(still, demos)).reshape(400, -1).mean(axis=1)
    assert abs(gain[:20].mean()) < 0.05
    assert gain[-100:].mean() > 0.3


# -- wrong input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory": 0},
        {"memory": 6},
        {"place": "sea"},
        {"drift": 1.5},
        {"drift": -0.1},
        {"habit": -1},
        {"horizon": 0},
        {"n_animals": 0},
        {"own_scale": -1.0},
        {"turn": float("nan")},
    ],
)
def test_impossible_worlds_are_refused(wrong):
    with pytest.raises(InputError):
        HabitWorld(**wrong)


def test_impossible_questions_are_refused():
    with pytest.raises(InputError, match="at least 1"):
        HabitWorld().simulate(0)
    with pytest.raises(InputError, match="states 0 to 24"):
        HabitWorld(place="grid").action_proba(HabitWorld(place="maze").simulate(5))


def test_the_horizon_is_an_option():
    assert (HabitWorld(horizon=7).simulate(3).lengths == 7).all()
