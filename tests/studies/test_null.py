"""The null: surrogates that have everything but intentions, the same analysis of all of them, and ranks."""

from dataclasses import replace

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.maze import maze_mdp, successors
from prism_irl.mdp import MDP
from prism_irl.studies import null
from prism_irl.studies import tested as outcome
from prism_irl.studies.analysis import Analysis
from prism_irl.studies.tested import HALVES, Task, units
from support import one_sentence
from worlds.habits import HabitWorld

SMALL = Analysis(intentions=(2,), folds=2, starts=1, max_iterations=5)


def opposite(n=16, length=30, change=1 / 12, seed=0, groups=None):
    """Two opposite habits at random states, from one to the other with probability ``change`` per step."""
    rng = np.random.default_rng(seed)
    shape = (n, length)
    switches = rng.random(shape) < change
    which = (switches.cumsum(axis=1) + np.arange(n)[:, None]) % 2
    actions = np.where(rng.random(shape) < 0.9, which, 1 - which)
    return Demonstrations.from_arrays(rng.integers(4, size=shape), actions, n_states=4, n_actions=2, groups=groups)


@pytest.fixture(scope="module")
def demos():
    return opposite()


@pytest.fixture(scope="module")
def tested(demos):
    return null.run(demos, SMALL, surrogates=2)


# -- the analysis ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"intentions": ()}, "two intentions or more"),
        ({"intentions": (1, 2)}, "two intentions or more"),
        ({"folds": 1}, "at least 2 folds"),
        ({"starts": 0}, "1 start"),
        ({"max_iterations": 0}, "1 iteration"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(options, words):
    with pytest.raises(InputError, match=words) as error:
        Analysis(**options)
    one_sentence(error)


def test_a_test_without_surrogates_or_with_too_many_folds_is_refused(demos):
    with pytest.raises(InputError, match="at least one surrogate") as error:
        null.run(demos, SMALL, surrogates=0)
    one_sentence(error)
    with pytest.raises(InputError, match="17 folds of 16 trajectories") as error:
        null.run(demos, replace(SMALL, folds=17))
    one_sentence(error)


def test_individuals_need_several_animals_and_folds_that_do_not_leave_them_out():
    several = opposite(groups=list("abcd") * 4)
    assert Analysis().individuals(several)
    assert not Analysis().individuals(opposite())
    assert not Analysis().individuals(opposite(groups=["a"] * 16))
    assert not Analysis(by="group").individuals(several)


def test_chains_are_tried_with_and_without_the_memory_of_the_habit(demos):
    habit = SMALL.habit(demos)
    habit.length_, habit.backoff_ = 3, 2.0
    chains = Analysis(intentions=(2, 3)).candidates(demos, habit)
    assert set(chains) == {
        *("K=2", "K=2 by state", "K=3"),
        *("K=2, memory 3", "K=2 by state, memory 3", "K=3, memory 3"),
    }
    for name, chain in chains.items():
        assert chain.n_intentions == int(name[2])
        assert chain.history == (3 if "memory" in name else 1)
        assert chain.backoff == 2.0
    habit.length_ = 1
    assert set(Analysis(intentions=(2, 3)).candidates(demos, habit)) == {"K=2", "K=2 by state", "K=3"}


# -- surrogates --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mice():
    """Animals in the maze, whose trajectories differ in length."""
    whole = HabitWorld(memory=2, individuals=True, n_animals=4, horizon=30).simulate(16, seed=1)
    lengths = np.arange(15, 31)
    kept = np.concatenate([first + np.arange(n) for first, n in zip(whole.offsets[:-1], lengths, strict=True)])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return replace(whole, states=whole.states[kept], actions=whole.actions[kept], offsets=offsets)


@pytest.fixture(scope="module")
def habit(mice):
    return SMALL.habit(mice).fit(mice, maze_mdp())


def test_surrogates_keep_all_but_the_choices(mice, habit):
    found = null.surrogate(habit, mice, maze_mdp(), SMALL, 1)
    np.testing.assert_array_equal(found.offsets, mice.offsets)
    np.testing.assert_array_equal(found.groups, mice.groups)
    np.testing.assert_array_equal(found.valid_actions, mice.valid_actions)
    np.testing.assert_array_equal(found.states[found.offsets[:-1]], mice.states[mice.offsets[:-1]])
    assert found.valid_actions[found.states, found.actions].all()
    inner = np.setdiff1d(np.arange(found.n_steps - 1), found.offsets[1:-1] - 1)
    np.testing.assert_array_equal(found.states[inner + 1], successors()[found.states[inner], found.actions[inner]])
    assert (found.actions != mice.actions).any()


def test_surrogates_are_reproducible_and_differ(mice, habit):
    first, again, second = (null.surrogate(habit, mice, maze_mdp(), SMALL, number) for number in (1, 1, 2))
    np.testing.assert_array_equal(first.actions, again.actions)
    assert (first.actions != second.actions).any()
    other = null.surrogate(habit, mice, maze_mdp(), replace(SMALL, seed=1), 1)
    assert (first.actions != other.actions).any()


def test_surrogate_zero_is_the_data(mice, habit):
    assert null.surrogate(habit, mice, maze_mdp(), SMALL, 0) is mice


def test_surrogates_have_the_habit():
    rng = np.random.default_rng(0)
    states = rng.integers(4, size=(16, 60))
    actions = np.where(rng.random(states.shape) < 0.9, states % 2, 1 - states % 2)
    demos = Demonstrations.from_arrays(states, actions, n_states=4, n_actions=2)
    found = null.surrogate(SMALL.habit(demos).fit(demos), demos, MDP.from_demonstrations(demos), SMALL, 1)
    share = (found.actions == found.states % 2).mean()
    assert abs(share - (actions == states % 2).mean()) < 4 * np.sqrt(0.09 / found.n_steps)


def test_several_habits_are_preferred_only_where_trajectories_differ():
    one = opposite(n=24, change=0.5)  # a coin at every step: one habit, nothing that lasts
    assert null.fit_habits(one, None, SMALL).name == "1 habit"
    demos = opposite(n=24, change=0.0)
    habits = null.fit_habits(demos, None, SMALL)
    assert habits.name == "3 habits"
    assert habits.chosen is not habits.plain
    assert habits.chosen.score(demos) > habits.plain.score(demos) + 0.05
    # Its surrogates keep to one habit each, as the trajectories do.
    found = null.surrogate(habits.chosen, demos, MDP.from_demonstrations(demos), SMALL, 1)
    later = found.actions.reshape(24, 30)[:, 10:].mean(axis=1)
    assert (np.abs(later - 0.5) > 0.2).mean() > 0.8


def test_events_of_surrogates_follow_state_and_action_alone(demos):
    simulated = opposite(n=200, seed=3)
    happened = {
        "at state 2": demos.states == 2,
        "half of the time": (demos.actions == 1) & (np.arange(demos.n_steps) % 2 == 0),
    }
    found = null.surrogate_events(happened, demos, simulated, np.random.default_rng(0))
    np.testing.assert_array_equal(found["at state 2"], simulated.states == 2)
    chance = found["half of the time"]
    assert not chance[simulated.actions == 0].any()
    rate = happened["half of the time"][demos.actions == 1].mean()
    assert chance[simulated.actions == 1].mean() == pytest.approx(rate, abs=0.05)


def test_alignment_is_tested_like_the_rest(demos, tmp_path):
    # An event that marks one of the two opposite habits is known from the labels, and not from the habit's own.
    events = {"marked": demos.actions == 1, "never": np.zeros(demos.n_steps, bool)}
    found = null.run(demos, SMALL, surrogates=1, cache=tmp_path, events=events)
    assert found.events == ("marked", "never")
    assert found.alignment("never", 0) == found.alignment("never", 1) == 0.0
    assert found.alignment("marked", 0) > 0.05
    assert found.p_value(lambda data: found.alignment("marked", data)) in (0.5, 1.0)
    folds = {path.name for path in tmp_path.iterdir()}
    again = null.run(demos, SMALL, surrogates=1, cache=tmp_path)  # other events concern the halves alone
    assert len({path.name for path in tmp_path.iterdir()} - folds) == 2
    assert again.events == ()
    assert again.gain(0) == found.gain(0)


# -- numbers of a finished test ----------------------------------------------------------------------------------------


def made(demos, gains, agreements=None, steps=(10, 30)):
    """A test whose folds have given steps, and gains (data, fold) of intentions over a habit."""
    rows = {}
    for data, parts in enumerate(gains):
        for part, gain in enumerate(parts):
            validation = {"K=2": -0.5, "K=3": -0.6}
            numbers = {"n_steps": steps[part], "plain": -0.7, "habit": -0.7, "intentions": -0.7 + gain}
            rows[Task(data, part)] = numbers | {"validation": validation}
        agreement = 0.5 if agreements is None else agreements[data]
        rows[Task(data, HALVES)] = {"agreement": {"K=2": agreement, "K=3": 0.99}}
    return outcome.Tested(demos, SMALL, SMALL.habit(demos), rows)


def test_gain_is_the_mean_over_steps_of_all_folds(demos):
    found = made(demos, [(0.1, 0.2), (0.0, 0.04)])
    assert found.gain(0) == pytest.approx((10 * 0.1 + 30 * 0.2) / 40)
    assert found.gain(1) == pytest.approx(0.03)
    assert found.surrogates == [1]


@pytest.mark.parametrize(
    ("gains", "p"),
    [
        ([0.3, 0.1, 0.2, 0.0], 1 / 4),
        ([0.15, 0.1, 0.2, 0.0], 2 / 4),
        ([0.2, 0.1, 0.2, 0.0], 2 / 4),  # a surrogate that is level reaches the data
        ([0.0, 0.1, 0.2, 0.0], 4 / 4),
    ],
)
def test_p_is_the_rank_of_the_data(demos, gains, p):
    found = made(demos, [(gain, gain) for gain in gains])
    assert found.p_value(lambda data: gains[data]) == p
    assert made(demos, [(g, g) for g in gains], agreements=gains).p_value(found.gain) == p


def test_agreement_is_that_of_the_favourite(demos):
    found = made(demos, [(0.1, 0.1), (0.1, 0.1)], agreements=[0.4, 0.3])
    assert found.favourite(0) == "K=2"
    assert [found.agreement(data) for data in (0, 1)] == [0.4, 0.3]
    for part in (0, 1):
        found.rows[Task(0, part)]["validation"]["K=3"] = -0.4
    assert found.favourite(0) == "K=3"
    assert found.agreement(0) == 0.99
    assert found.agreement(1) == 0.3


def test_memories_of_any_length_are_one_kind_of_chain(demos):
    found = made(demos, [(0.1, 0.1)])
    found.rows[Task(0, 0)]["validation"] = {"K=2": -0.5, "K=2, memory 3": -0.3, "K=2 by state, memory 3": -0.4}
    found.rows[Task(0, 1)]["validation"] = {"K=2": -0.5, "K=2, memory 5": -0.4, "K=2 by state, memory 5": -0.4}
    assert found.favourite(0) == "K=2 with memory"
    found.rows[Task(0, HALVES)] = {"agreement": {"K=2": 0.9, "K=2 with memory": 0.2}}
    assert found.agreement(0) == 0.2


def test_a_chain_that_some_folds_lack_is_no_favourite_for_that(demos):
    found = made(demos, [(0.1, 0.1)])
    # The habit of the second fold has no memory: a chain with its memory is the chain without.
    found.rows[Task(0, 0)]["validation"] = {"K=2": -0.5, "K=2, memory 3": -0.6}
    found.rows[Task(0, 1)]["validation"] = {"K=2": -0.5}
    assert found.favourite(0) == "K=2"
    found.rows[Task(0, 0)]["validation"]["K=2, memory 3"] = -0.4
    assert found.favourite(0) == "K=2 with memory"
    # Halves of which one has no memory can only be compared without.
    found.rows[Task(0, HALVES)] = {"agreement": {"K=2": 0.3, "K=3": 0.9}}
    assert found.agreement(0) == 0.3


def test_the_gain_is_over_the_habit_that_predicts_better(demos):
    found = made(demos, [(0.1, 0.1), (0.1, 0.1)])
    assert found.reference(0) == "plain"
    assert not found.several
    found.rows[Task(0, 1)]["habit"] = -0.8  # chosen on validation trajectories, and worse on the test fold
    assert not found.several
    assert found.gain(0) == pytest.approx(0.1)
    found.rows[Task(0, 0)]["habit"] = -0.1
    assert found.several
    assert found.gain(0) == pytest.approx((10 * -0.5 + 30 * 0.2) / 40)
    assert found.gain(1) == pytest.approx(0.1)


# -- a whole test ------------------------------------------------------------------------------------------------------


def test_every_part_of_every_data_set_is_there(demos, tested):
    assert set(tested.rows) == {Task(data, part) for data in range(3) for part in (HALVES, 0, 1)}
    folds = demos.fold_indices(2)
    for data in range(3):
        for (_, test), row in zip(folds, tested.folds(data), strict=True):
            assert row["n_steps"] == demos.subset(test).n_steps
            assert row["chosen"] == max(row["validation"], key=row["validation"].get)
            assert row["intentions"] == row["tested"][row["chosen"]]
            assert ("per_trajectory" in row) == (data == 0)
    assert tested.gain(0) > 0.02  # what lasts for twelve steps, no habit of a few random states knows


def test_units_are_the_trajectories_of_all_folds(demos, tested):
    found = {name: (total, steps) for name, total, steps in units(tested)}
    assert list(found) == ["uniform", "state", "memory", "plain", "habit", "intentions"]
    np.testing.assert_allclose(found["uniform"][0], -30 * np.log(2))
    for name in ("plain", "habit", "intentions"):
        total, steps = found[name]
        assert steps.tolist() == [30] * 16
        mean = np.average([row[name] for row in tested.folds(0)], weights=[row["n_steps"] for row in tested.folds(0)])
        assert total.sum() / steps.sum() == pytest.approx(mean)


def test_units_are_animals_where_there_are_several(tested):
    groups = np.array(list("abcd") * 4)
    named = replace(tested, demos=replace(tested.demos, groups=groups))
    order = np.concatenate([test for _, test in tested.demos.fold_indices(2)])
    alone = {name: total for name, total, _ in units(tested)}
    for name, total, steps in units(named):
        assert steps.tolist() == [120] * 4
        for animal, sums in zip("abcd", total, strict=True):
            assert sums == pytest.approx(alone[name][groups[order] == animal].sum())
    few = replace(tested, demos=replace(tested.demos, groups=np.array(["a", "b"] * 8)))
    assert len(next(iter(units(few)))[1]) == 16


def test_processes_change_nothing(demos, tested):
    found = null.run(demos, SMALL, surrogates=1, jobs=2)
    assert found.rows == {task: row for task, row in tested.rows.items() if task.data < 2}


def test_one_by_one_comes_to_the_same_decision(demos, tested):
    found = null.sequential(demos, SMALL, most=2)
    gains = [tested.gain(data) for data in (1, 2)]
    assert found["gain"] == tested.gain(0)
    assert found["surrogate_gains"] == gains[: len(found["surrogate_gains"])]
    assert found["reached"] == int(tested.p_value(tested.gain) > 1 / 3)
    assert found["seconds"] > 0


# -- parts that are not made again -------------------------------------------------------------------------------------


@pytest.fixture
def parts(demos, monkeypatch):
    """Parts that were made, in place of which stands their number; data set 3 reaches the data."""
    made_parts = []

    def part(task, *_, **__):
        made_parts.append(task)
        gain = {0: 0.1, 3: 0.1}.get(task.data, 0.05)
        return {"n_steps": 1, "plain": 0.0, "habit": 0.0, "intentions": gain, "validation": {"K=2": 0.0}}

    monkeypatch.setattr(null, "_run_part", part)
    monkeypatch.setattr(null, "fit_habits", lambda data, *_: null.Habits(*[SMALL.habit(data)] * 2, "1 habit"))
    return made_parts


def test_what_is_done_is_not_done_again(demos, parts, tmp_path):
    told = []
    first = null.run(demos, SMALL, surrogates=2, cache=tmp_path, on_part=lambda *numbers: told.append(numbers))
    assert len(parts) == 9
    assert told == [(done, 9) for done in range(10)]
    parts.clear()
    again = null.run(demos, SMALL, surrogates=2, cache=tmp_path, on_part=lambda *numbers: told.append(numbers))
    assert not parts
    assert told[-1] == (9, 9)
    assert again.rows == first.rows
    more = null.run(demos, SMALL, surrogates=4, cache=tmp_path)
    assert {task.data for task in parts} == {3, 4}
    assert len(parts) == 6
    assert more.rows.items() > first.rows.items()


@pytest.mark.parametrize("change", ["seed", "folds", "data", "dynamics"])
def test_other_data_and_settings_have_parts_of_their_own(demos, parts, tmp_path, change):
    null.run(demos, SMALL, surrogates=1, cache=tmp_path)
    parts.clear()
    analysis = {"seed": replace(SMALL, seed=1), "folds": replace(SMALL, folds=3)}.get(change, SMALL)
    data = replace(demos, actions=1 - demos.actions) if change == "data" else demos
    mdp = MDP.from_demonstrations(demos) if change == "dynamics" else None
    null.run(data, analysis, surrogates=1, cache=tmp_path, mdp=mdp)
    assert len(parts) == 2 * (1 + analysis.folds)


def test_one_by_one_stops_at_the_first_that_reaches_the_data(demos, parts):
    found = null.sequential(demos, SMALL, most=19)
    assert found["surrogate_gains"] == [0.05, 0.05, 0.1]
    assert (found["reached"], found["p_value"]) == (1, 1 / 3)
    assert {task.data for task in parts} == {0, 1, 2, 3}
    assert HALVES not in {task.part for task in parts}
    none = null.sequential(demos, SMALL, most=2)
    assert (none["reached"], none["p_value"], len(none["surrogate_gains"])) == (0, 1 / 3, 2)
