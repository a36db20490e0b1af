"""The null: habits are told from intentions both ways, surrogates are as lively as the data, and tests stop early."""

from dataclasses import replace

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP
from prism_irl.models.references import NGram
from prism_irl.studies import evidence, gains, null
from prism_irl.studies.gains import Analysis
from prism_irl.studies.null import EvidenceResult, Question, Task

SMALL = Analysis(intentions=(2,), folds=2, starts=1, max_iterations=20)


def moods(seed=0, n=50, length=80):
    """Two opposite preferences that change about every twenty steps."""
    rng = np.random.default_rng(seed)
    shape = (n, length)
    which = ((rng.random(shape) < 1 / 20).cumsum(axis=1) + np.arange(n)[:, None]) % 2
    states, tastes = rng.integers(16, size=shape), np.random.default_rng(9).integers(2, size=16)
    actions = np.where(rng.random(shape) < 0.95, which ^ tastes[states], rng.integers(2, size=shape))
    return Demonstrations.from_arrays(states, actions, n_states=16, n_actions=2)


def sticky(seed=0, n=40, length=60):
    """Choices by a cue and by the last choice, without any intention."""
    rng = np.random.default_rng(seed)
    states, actions, last = rng.integers(6, size=(n, length)), np.zeros((n, length), np.int64), np.zeros(n)
    for t in range(length):
        actions[:, t] = rng.random(n) < 1 / (1 + np.exp(-(states[:, t] - 2.5) / 1.5 - 1.2 * last))
        last = 2 * actions[:, t] - 1
    return Demonstrations.from_arrays(states, actions, n_states=6, n_actions=2)


def ways(seed=0, n=40, length=50):
    """Ways between four places of a 5 × 5 field, the next drawn on arrival; as good ways are chosen at random."""
    rng, places = np.random.default_rng(seed), np.array([0, 4, 12, 22])
    states, actions = np.zeros((2, n, length), np.int64)
    now, aim = places[rng.integers(4, size=n)], rng.integers(4, size=n)
    for t in range(length):
        aim = np.where(now == places[aim], (aim + rng.integers(1, 4, size=n)) % 4, aim)
        dx, dy = places[aim] % 5 - now % 5, places[aim] // 5 - now // 5
        sideways = np.where(dx == 0, False, (dy == 0) | (rng.random(n) < 0.5))
        best = np.where(sideways, np.where(dx > 0, 0, 1), np.where(dy > 0, 2, 3))
        actions[:, t] = np.where(rng.random(n) < 0.95, best, rng.integers(4, size=n))
        states[:, t] = now
        x = (now % 5 + np.array([1, -1, 0, 0])[actions[:, t]]).clip(0, 4)
        y = (now // 5 + np.array([0, 0, 1, -1])[actions[:, t]]).clip(0, 4)
        now = 5 * y + x
    return Demonstrations.from_arrays(states, actions, n_states=25, n_actions=4)


def test_moods_gain_over_a_habit():
    found = evidence.summary(null.run(moods(), SMALL, surrogates=1))
    assert found["g1"]["low"] > found["g1"]["floor"]
    assert found["g2"] is None  # a cue is no place
    assert not found["found"]  # one surrogate says nothing


@pytest.mark.parametrize("seed", [0, 1])
def test_sticky_choices_are_no_intentions(seed):
    tested = null.run(sticky(seed), SMALL, surrogates=39)
    found = evidence.summary(tested)
    assert not found["found"]
    assert found["memoryless_gain"] > 0.01  # what a habit that reads states alone takes for intentions
    assert len(tested.g1.surrogates) < 39  # a clear no stops early
    assert found["slow_choices"] or found["reads"] != "states"


def test_ways_that_end_at_places_are_found():
    demos = ways()
    found = evidence.summary(null.run(demos, SMALL, surrogates=39))
    assert found["g2"]["effect"] > found["g2"]["floor"]
    assert found["g2"]["found"]
    assert set(found["goals"]) >= {0, 4, 12, 22}


def test_previous_choices_in_the_state_or_in_the_habit_tell_the_same_story():
    plain = sticky(3)
    last = np.concatenate([np.zeros((40, 1), np.int64), plain.actions.reshape(40, -1)[:, :-1].astype(np.int64)], axis=1)
    states = 2 * plain.states.reshape(40, -1).astype(np.int64) + last
    told = Demonstrations.from_arrays(states, plain.actions.reshape(40, -1), n_states=12, n_actions=2)
    found = [
        null._gain(demos, None, SMALL, gains.remembered(SMALL.habit(demos).fit(demos)), everything=False)["gain"]
        for demos in (plain, told)
    ]
    assert abs(found[0] - found[1]) < 0.005


# -- surrogates --------------------------------------------------------------------------------------------------------


def test_shrinkage_is_lowered_until_memory_is_worth_as_much():
    rng = np.random.default_rng(0)
    states = rng.integers(5, size=(40, 50))
    table = rng.dirichlet(np.full(3, 0.3), (5, 5))
    p = table[np.concatenate([states[:, :1], states[:, :-1]], axis=1), states].cumsum(-1)
    actions = (rng.random((40, 50, 1)) > p).sum(-1).clip(0, 2)
    demos = Demonstrations.from_arrays(states, actions, n_states=5, n_actions=3)
    tame = NGram(length=2, reads="states", kernels=False, backoff=128.0).fit(demos)
    habit, slow, tried = null.match(tame, demos, MDP.from_demonstrations(demos), SMALL)
    assert tried["fitted"] == 128.0
    assert tried["chosen"] == habit.backoff_ < 128.0
    assert tame.backoff_ == 128.0
    assert slow is None


def drifting(n=60, length=60):
    """A habit of every trajectory, on the way from one habit of all to another."""
    rng = np.random.default_rng(2)
    first, second = rng.dirichlet(np.full(4, 0.5), (2, 10))
    states, share = rng.integers(10, size=(n, length)), rng.random(n)[:, None, None]
    p = (share * first[states] + (1 - share) * second[states]).cumsum(-1)
    actions = (rng.random((n, length, 1)) > p).sum(-1).clip(0, 3)
    return Demonstrations.from_arrays(states, actions, n_states=10, n_actions=4)


def test_trajectories_differ_in_surrogates_as_they_do_in_the_data():
    demos = drifting()
    mdp, habit = MDP.from_demonstrations(demos), SMALL.habit(demos).fit(demos)
    own = gains.slow_gain(demos, habit, SMALL)[0]
    found, slow, tried = null.match(habit, demos, mdp, SMALL)
    assert own > gains.MIXTURE_GAIN
    assert slow is not None
    assert tried["slow"] in null.POWERS
    made = null.surrogate(found, slow, demos, mdp, SMALL, 1)
    without = null.surrogate(found, None, demos, mdp, SMALL, 1)
    assert gains.slow_gain(made, habit, SMALL)[0] > own / 2
    assert gains.slow_gain(without, habit, SMALL)[0] < own / 4


def test_what_is_slow_changes_from_the_first_half_to_the_second():
    weights = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    slow = gains.Slow(weights, np.array([[[2.0, 0.5], [0.5, 2.0]], [[1.0, 1.0], [1.0, 1.0]]]))
    at, along = np.zeros(3, np.int64), np.array([0.0, 0.5, 1.0])
    np.testing.assert_allclose(slow.factors(at, at, along), [[2.0, 0.5], [1.25, 1.25], [0.5, 2.0]])
    np.testing.assert_allclose(slow.livelier(2.0).factors(at[:1], at[:1], along[:1]), [[4.0, 0.25]])


def test_surrogates_have_starts_lengths_groups_and_covariates_of_the_data():
    demos = replace(sticky(), groups=np.repeat(list("abcd"), 10), observations=np.ones((2400, 1), np.float32))
    habit = NGram(length=2, reads="actions").fit(demos)
    made = null.surrogate(habit, None, demos, MDP.from_demonstrations(demos), SMALL, 3)
    np.testing.assert_array_equal(made.offsets, demos.offsets)
    np.testing.assert_array_equal(made.states[made.offsets[:-1]], demos.states[demos.offsets[:-1]])
    np.testing.assert_array_equal(made.observations, demos.observations)
    assert (made.actions != demos.actions).any()
    again = null.surrogate(habit, None, demos, MDP.from_demonstrations(demos), SMALL, 3)
    np.testing.assert_array_equal(made.actions, again.actions)


def test_other_strengths_of_shrinkage_show_how_the_answer_moves(tmp_path):
    demos = ways()
    tested = null.run(demos, SMALL, surrogates=2, others=2, cache=tmp_path)
    moves = tested.moves()
    assert [row["used"] for row in moves].count(True) == 1
    assert {row["backoff"] for row in moves} == {tested.matching["fitted"], tested.matching["chosen"], null.LIVELIEST}
    assert len(tested.g1.surrogates) == 2
    assert len({row["goals"]["mean"] for row in moves}) == len(moves)
    note = evidence.notes(tested)[-1]
    assert all(f"{row['backoff']:g} steps: {row['gain']['mean']:+.4f} by intentions" in note for row in moves)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert null.run(demos, SMALL, surrogates=2, others=0, cache=tmp_path).moves() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == made


@pytest.mark.parametrize(("most", "hangs"), [(0.09, []), (0.2, [4.0])])
def test_an_answer_that_other_habits_reach_hangs_on_them(most, hangs, monkeypatch):
    tested = null.run(ways(), SMALL, surrogates=1, others=0)
    row = {"backoff": 4.0, "used": False, "gain": {"mean": 0.0, "most": most}, "goals": {"mean": 0.0, "most": most}}
    monkeypatch.setattr(EvidenceResult, "moves", lambda self: [row])
    monkeypatch.setattr(EvidenceResult, "g1", property(lambda self: question(39)))
    monkeypatch.setattr(EvidenceResult, "g2", property(lambda self: question(39)))
    assert evidence.summary(tested)["hangs_on"] == hangs


# -- when to stop ------------------------------------------------------------------------------------------------------


def question(n, reached=0, *, statistic=0.1, low=0.05, spread=0.001):
    others = np.r_[np.full(reached, 1.0), np.random.default_rng(0).normal(0.0, spread, n - reached)]
    return Question(statistic, statistic, low, 0.2, tuple(others))


@pytest.mark.parametrize(
    ("asked", "settled"),
    [
        (question(5, 5), True),  # a clear no
        (question(38), False),
        (question(39), True),  # a clear yes
        (question(39, spread=0.05), False),  # none reached it, but some came near
        (question(39, 1), False),
        (question(199, 1), True),  # no more than were asked for
        (question(10, low=-0.01), True),  # the interval has said no
        (question(9, low=-0.01), False),
        (question(10, statistic=null.FLOOR / 2, low=1e-5), True),  # too small to matter
    ],
)
def test_the_answer_is_settled(asked, settled):
    assert asked.settled(199) == settled


@pytest.mark.parametrize(("two", "settled"), [(question(39), True), (question(38), False), (None, False)])
def test_a_clear_yes_to_one_question_settles_both(two, settled, monkeypatch):
    monkeypatch.setattr(EvidenceResult, "g1", property(lambda self: question(39, 1)))  # near the border
    monkeypatch.setattr(EvidenceResult, "g2", property(lambda self: two))
    assert (EvidenceResult(ways(), SMALL, NGram(), {}, most=199).unsettled == []) == settled


def test_the_second_of_two_clear_questions_needs_fewer_surrogates(monkeypatch):
    one = question(30)
    monkeypatch.setattr(EvidenceResult, "g1", property(lambda self: one))
    for two, unsettled in (
        (question(18), ["gain", "goals"]),
        (question(19), ["gain"]),
        (question(19, spread=0.05), ["gain", "goals"]),
    ):
        monkeypatch.setattr(EvidenceResult, "g2", property(lambda self, two=two: two))
        assert EvidenceResult(ways(), SMALL, NGram(), {}, most=199).unsettled == unsettled
    assert evidence.holm([1 / 40, 1 / 20]) == pytest.approx([0.05, 0.05])


def test_a_quick_test_turns_to_the_question_that_is_farther_from_its_surrogates(monkeypatch):
    asked = {"g1": "gain", "g2": "goals"}
    for name, reached in (("g1", 1), ("g2", 0)):  # near the border, and clear
        counted = property(lambda self, p=asked[name], r=reached: question(max(len(self.values(p, "gain")), 2), r))
        monkeypatch.setattr(EvidenceResult, name, counted)
    monkeypatch.setattr(null, "_run_part", lambda *task: {"gain": 0.0, "seconds": 1.0})
    found = null.run(ways(), SMALL, surrogates=99, others=0, quick=True)
    assert len(found.values("goals", "gain")) >= 39
    assert len(found.values("gain", "gain")) == null.EXCEEDING


def test_p_values_are_besag_and_cliffords():
    assert question(20, 5).p_value == 5 / 20
    assert question(20, 4).p_value == 5 / 21
    assert question(39).p_value == 1 / 40


def test_holm():
    assert evidence.holm([0.04, 0.01]) == pytest.approx([0.04, 0.02])
    assert evidence.holm([0.03, 0.04]) == pytest.approx([0.06, 0.06])
    assert evidence.holm([0.2]) == [0.2]


# -- parts that are not made again -------------------------------------------------------------------------------------


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    demos, told = moods(n=12, length=30), []
    first = null.run(demos, SMALL, surrogates=3, cache=tmp_path, on_part=lambda *numbers: told.append(numbers))
    assert told[-1][0] == len(first.rows)
    with monkeypatch.context() as patch:
        patch.setattr(null, "_run_part", None)
        again = null.run(demos, SMALL, surrogates=3, cache=tmp_path)
    assert again.rows == first.rows
    other = null.run(demos, replace(SMALL, seed=1), surrogates=1, cache=tmp_path)
    assert other.rows[Task(1, "gain")] != first.rows[Task(1, "gain")]


def test_intervals_are_over_animals_where_there_are_several():
    demos = replace(moods(n=16), groups=np.repeat(list("abcd"), 4))
    total, steps = null.by_unit(demos, np.arange(16.0), np.arange(16))
    assert total.tolist() == [6, 22, 38, 54]
    assert steps.tolist() == [320] * 4
    alone = null.by_unit(replace(demos, groups=None), np.arange(16.0), np.arange(16))
    assert len(alone[0]) == 16
    assert isinstance(EvidenceResult(demos, SMALL, NGram(), {}).interval(np.arange(16.0), np.arange(16)), tuple)
