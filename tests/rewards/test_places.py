"""Places as rewards: detours, the goals of a small world found exactly, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from prism_irl import load
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.labels import match
from prism_irl.mdp import MDP
from prism_irl.models.describe import describe
from prism_irl.models.intentions import Intentions
from prism_irl.rewards.detours import FAR, Detours
from prism_irl.rewards.place_search import SETTINGS, LeftOut
from prism_irl.worlds.samples import mouse
from support import one_sentence

WIDTH, GOALS = 5, (0, 4, 22)
MOVES = np.array([(0, -1), (-1, 0), (0, 1), (1, 0)])


def grid() -> np.ndarray:
    P = np.zeros((WIDTH**2, 4, WIDTH**2))
    for s in range(WIDTH**2):
        for a, (dx, dy) in enumerate(MOVES):
            x, y = s % WIDTH + dx, s // WIDTH + dy
            P[s, a, y * WIDTH + x if 0 <= x < WIDTH and 0 <= y < WIDTH else s] = 1
    return P


def errands(
    n: int, seed: int, length: int = 60, cues: dict[int, int] | None = None, in_turn: bool = False
) -> Demonstrations:
    """Somebody who walks to three goals, each time to another one than before, unless a place reminds of one.

    ``in_turn``: to the one that was left alone for longest.
    """
    P, rng = grid(), np.random.default_rng(seed)
    gaps = Detours(MDP.from_dense(P), np.arange(WIDTH**2)).gaps[list(GOALS)]
    states, actions, labels = (np.zeros((n, length), int) for _ in range(3))
    for i in range(n):
        s, z, last = rng.integers(WIDTH**2), rng.integers(3), -1
        for t in range(length):
            p = np.exp(-2.0 * gaps[z, s])
            a = rng.choice(4, p=p / p.sum())
            states[i, t], actions[i, t], labels[i, t] = s, a, z
            before, last = last, z if s == GOALS[z] else last
            left = {z, before} if in_turn else {z}
            z = rng.choice([k for k in range(3) if k not in left]) if s == GOALS[z] else (cues or {}).get(s, z)
            s = P[s, a].argmax()
    return Demonstrations.from_arrays(states, actions, labels=labels, n_states=WIDTH**2, n_actions=4)


@pytest.fixture(scope="module")
def fitted():
    demos = errands(60, seed=0)
    return Intentions(switching="arrival", rewards="places").fit(demos), demos


def test_detours_are_expected_steps_beyond_the_shortest_way():
    P = np.zeros((3, 2, 3))  # a line 0 – 1 – 2 where the second action slips half of the time
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 2] = 1
    P[:, 1] = np.eye(3) / 2
    P[0, 1, 1] += 0.5
    P[1, 1, 2] += 0.5
    P[2, 1, 2] += 0.5
    found = Detours(MDP.from_dense(P), np.arange(3))
    np.testing.assert_allclose(found.steps[2], [2, 1, 0])
    np.testing.assert_allclose(found.gaps[2], [[0, 0.5], [0, 0.5], [0, 0]])
    assert found.steps[0, 1] == FAR


def test_the_goals_are_found_and_nothing_else(fitted):
    model, demos = fitted
    assert sorted(model.rewards_model_.goals) == sorted(GOALS)
    assert model.n_intentions == 3
    order = [GOALS.index(goal) for goal in model.rewards_model_.goals]
    assert np.mean(np.array(order)[model.predict(demos)] == demos.labels) > 0.93
    np.testing.assert_array_equal(model.state_rewards_.argmax(1), model.rewards_model_.goals)


def test_places_that_remind_of_a_goal_are_found():
    cues = {11: 1, 13: 0}  # off the crossing of all ways, which would look like a goal itself
    demos = errands(100, seed=3, cues=cues)
    model = Intentions(switching="arrival", rewards="places").fit(demos)
    assert set(GOALS) <= set(model.rewards_model_.goals)
    reminders = model.switching_.reminders
    for place, goal in cues.items():
        k = list(model.rewards_model_.goals).index(GOALS[goal])
        assert reminders[place].argmax() == k
        assert reminders[place, k] > 0.4
    own = demos.subset([0])
    stream = model.filter()
    steps = [stream.step(int(s), int(a)) for s, a in zip(own.states, own.actions, strict=True)]
    np.testing.assert_allclose(np.array(steps), model.filter_proba(own), atol=1e-8)


def test_goals_in_turn_depend_on_the_last_two():
    demos = errands(60, seed=3, in_turn=True)
    model = Intentions(switching="arrival", rewards="places").fit(demos)
    order = np.array([GOALS.index(goal) for goal in model.rewards_model_.goals])
    explained = model.log_likelihood(demos)
    after = model.switching_.after
    assert min(after[i, j, 3 - i - j] for i in range(3) for j in range(3) if i != j) > 0.9
    proba = model.action_proba(demos)
    chosen = np.log(proba[np.arange(demos.n_steps), demos.actions])
    np.testing.assert_allclose(chosen, explained, rtol=1e-5)
    assert np.mean(order[model.decode(demos)] == demos.labels) > 0.95
    after[...] = model.switching_.onward
    assert explained.mean() > model.log_likelihood(demos).mean() + 0.02


def test_goals_come_back_over_resampled_trajectories(fitted):
    model, demos = fitted
    assert (model.rewards_model_.returns >= 0.8).all()
    goals = describe(model, demos).tables["goals.csv"]
    assert sorted(goals["place"]) == sorted(GOALS)
    np.testing.assert_array_equal(goals["returns"], model.rewards_model_.returns)


def test_walks_to_nowhere_are_an_intention_without_a_place(tmp_path):
    rows = pd.DataFrame(list(mouse(np.random.default_rng(0))))
    demos = Demonstrations.from_table(
        rows, trajectory=("animal", "bout"), state="cell", action="move", intention="intention"
    )
    model = Intentions(switching="arrival", rewards="places").fit(demos)
    assert [len(goals) for goals in model.goals_] == [1, 1, 0]
    matched = np.asarray(match(demos.labels, model.predict(demos), n_true=3).mapping)
    assert np.mean(matched[model.predict(demos)] == demos.labels) > 0.85
    found = describe(model, demos).tables
    assert found["goals.csv"]["place"].tolist()[2] == ""
    assert (found["trips.csv"].loc[found["trips.csv"]["intention"] == 2, "to"] == "").all()
    model.save(tmp_path)
    np.testing.assert_array_equal(load(tmp_path).predict_proba(demos), model.predict_proba(demos))
    own = demos.subset([0])
    stream = model.filter()
    steps = [stream.step(int(s), int(a)) for s, a in zip(own.states, own.actions, strict=True)]
    np.testing.assert_allclose(np.array(steps), model.filter_proba(own), atol=1e-8)


def runs_in_a_tree(n: int, seed: int, length: int = 60) -> Demonstrations:
    """In a tree of 31 places somebody goes to one of its ends, to its root, or to any other of the 15 ends."""
    P, rng = np.zeros((31, 3, 31)), np.random.default_rng(seed)
    for s in range(31):
        for a, after in enumerate((2 * s + 1, 2 * s + 2, (s - 1) // 2)):  # left, right, back
            P[s, a, after if 0 <= after < 31 else s] = 1
    goals, weights = np.r_[20, 0, np.delete(np.arange(15, 31), 5)], np.r_[0.3, 0.25, np.full(15, 0.03)]
    gaps = Detours(MDP.from_dense(P), np.arange(31)).gaps[goals]
    states, actions, labels = (np.zeros((n, length), int) for _ in range(3))
    for i in range(n):
        s, z = 0, rng.choice(17, p=weights)
        for t in range(length):
            p = np.exp(-3.0 * gaps[z, s])
            a = rng.choice(3, p=p / p.sum())
            states[i, t], actions[i, t], labels[i, t] = s, a, min(z, 2)
            z = rng.choice(17, p=weights) if s == goals[z] else z
            s = P[s, a].argmax()
    return Demonstrations.from_arrays(states, actions, labels=labels, n_states=31, n_actions=3)


def test_many_places_that_nothing_tells_apart_are_one_intention(tmp_path):
    demos, new = runs_in_a_tree(60, seed=0), runs_in_a_tree(4, seed=1)
    model = Intentions(switching="arrival", rewards="places").fit(demos)
    *few, crowd = model.goals_
    assert sorted(few) == [[0], [20]]
    assert set(crowd) == set(range(15, 31)) - {20}
    found = model.predict(new)
    assert np.mean(np.asarray(match(new.labels, found, n_true=3).mapping)[found] == new.labels) > 0.85
    own = new.subset([0])
    stream = model.filter()
    steps = [stream.step(int(s), int(a)) for s, a in zip(own.states, own.actions, strict=True)]
    np.testing.assert_allclose(np.array(steps), model.filter_proba(own), atol=1e-8)
    proba = model.action_proba(new)
    np.testing.assert_allclose(np.log(proba[np.arange(new.n_steps), new.actions]), model.log_likelihood(new))
    assert np.mean(model.decode(new) == found) > 0.85
    model.save(tmp_path / "fit")
    np.testing.assert_allclose(load(tmp_path / "fit").predict_proba(new), model.predict_proba(new))
    result = describe(model, demos)
    assert result.tables["goals.csv"]["place"].tolist()[-1] == "15 places"
    trips = result.tables["trips.csv"].query("intention == 2 and arrived")
    assert set(trips["to"]) <= set(crowd)
    assert len(result.places[-1]) == 15


def test_another_seed_finds_the_same_goals(fitted):
    model, demos = fitted
    again = Intentions(switching="arrival", rewards="places", seed=7).fit(demos)
    assert set(again.rewards_model_.goals) == set(model.rewards_model_.goals)


def test_one_long_trajectory_is_enough():
    demos = errands(1, seed=4, length=3000)
    model = Intentions(switching="arrival", rewards="places").fit(demos)
    assert sorted(model.rewards_model_.goals) == sorted(GOALS)
    assert (model.rewards_model_.returns >= 0.5).all()


def test_as_many_goals_as_are_asked_for(fitted):
    _, demos = fitted
    assert Intentions(2, switching="markov", rewards="places").fit(demos).n_intentions == 2
    many = Intentions(7, switching="arrival", rewards="places").fit(demos)
    assert len(set(many.rewards_model_.goals)) == many.n_intentions == 7


def test_a_place_is_made_of_several_states():
    demos = errands(40, seed=2)
    columns = np.arange(WIDTH**2) % WIDTH  # a place is a column of the grid
    found = Intentions(switching="arrival", rewards="places").fit(
        Demonstrations.from_arrays(
            demos.states.reshape(40, -1), demos.actions.reshape(40, -1), places=columns, n_states=WIDTH**2, n_actions=4
        )
    )
    assert set(found.rewards_model_.goals) <= set(range(WIDTH))


def test_a_kept_model_answers_as_before(fitted, tmp_path):
    import prism_irl

    model, demos = fitted
    model.save(tmp_path)
    np.testing.assert_array_equal(prism_irl.load(tmp_path).predict_proba(demos), model.predict_proba(demos))


def test_a_stream_believes_what_the_batch_believes(fitted):
    model, demos = fitted
    own = demos.subset([0])
    stream = model.filter()
    steps = [stream.step(int(s), int(a)) for s, a in zip(own.states, own.actions, strict=True)]
    np.testing.assert_allclose(np.array(steps), model.filter_proba(own), atol=1e-8)


def refusal(demos: Demonstrations, mdp: MDP | None = None, **options) -> str:
    with pytest.raises(InputError) as caught:
        Intentions(switching="arrival", rewards="places", **options).fit(demos, mdp)
    return one_sentence(caught)


def test_bad_input_is_one_sentence():
    demos = errands(6, seed=1)
    still = Demonstrations.from_arrays(np.zeros((4, 9), int), np.tile([0, 1, 0], (4, 3)), n_states=1, n_actions=2)
    assert "same place" in refusal(still)
    P = grid()
    wrong = np.roll(P, 1, axis=1)
    assert "impossible" in refusal(demos, MDP.from_dense(wrong))
    closed = P.copy()
    closed[1, 1], closed[5, 0] = np.eye(WIDTH**2)[[1, 5]]
    assert "no way into" in refusal(demos, MDP.from_dense(closed))
    assert "40 goals" in refusal(demos, n_intentions=40)


def wanting_several(n: int, seed: int, length: int = 80) -> Demonstrations:
    """Two intentions that end at any time: the corners 0 and 24, whichever is nearer, and the middle of the top, 2."""
    P, rng = grid(), np.random.default_rng(seed)
    detours = Detours(MDP.from_dense(P), np.arange(WIDTH**2))
    targets = [detours.joined(np.isin(np.arange(WIDTH**2), own)) for own in ((0, 24), (2,))]
    gaps = detours.gaps[targets]
    states, actions, labels = (np.zeros((n, length), int) for _ in range(3))
    for i in range(n):
        s, z = rng.integers(WIDTH**2), rng.integers(2)
        for t in range(length):
            p = np.exp(-2.5 * gaps[z, s])
            a = rng.choice(4, p=p / p.sum())
            states[i, t], actions[i, t], labels[i, t] = s, a, z
            z = 1 - z if rng.random() < 0.05 else z
            s = P[s, a].argmax()
    return Demonstrations.from_arrays(states, actions, labels=labels, n_states=WIDTH**2, n_actions=4)


def test_places_that_are_wanted_at_once_are_one_intention(tmp_path):
    demos = wanting_several(60, seed=1)
    model = Intentions(switching="arrival", rewards="places").fit(demos)
    assert sorted(model.goals_) == [[0, 24], [2]]
    order = [[[0, 24], [2]].index(goal) for goal in model.goals_]
    assert np.mean(np.array(order)[model.predict(demos)] == demos.labels) > 0.9
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert again.goals_ == model.goals_
    np.testing.assert_allclose(again.predict_proba(demos), model.predict_proba(demos))
    np.testing.assert_allclose(again.rewards_, model.rewards_)


def test_nobody_roams_where_no_goal_is_left():
    demos, detours = errands(9, seed=1), Detours(MDP.from_dense(grid()), np.arange(WIDTH**2))
    parts = LeftOut(demos, detours, 0.02, 0, each=5.0)
    search, steps, _ = parts.folds[0]
    found = search.run(np.unique(demos.states), steps, SETTINGS[0], 2)[0]
    roaming = search.wander(search.order(found, steps, reminds=False), steps, instead=False)
    alone = search.eliminate(roaming, steps, learns=True, single=True)[-1]
    assert alone.goals.tolist() == [detours.n_places]
    assert not parts.roams([alone] * 3)


def test_trajectories_that_end_at_the_goal_say_which_it_was():
    long = errands(40, seed=5)
    ends = np.flatnonzero(np.isin(long.states, GOALS) & (np.array(GOALS)[long.labels] == long.states)) + 1
    cuts = np.unique(np.append(ends, long.offsets[1:]))
    parts = [part for part in np.split(np.arange(long.n_steps), cuts[:-1]) if len(part) > 1]
    demos = Demonstrations.from_arrays(
        *([column[part] for part in parts] for column in (long.states, long.actions)),
        labels=[long.labels[part] for part in parts],
        n_states=WIDTH**2,
        n_actions=4,
    )
    model = Intentions(switching="arrival", rewards="places").fit(demos)
    assert sorted(model.rewards_model_.goals) == sorted(GOALS)
    away, there = model.switching_.last
    assert there > 0.5 > 5 * away
    order = [GOALS.index(goal) for goal in model.rewards_model_.goals]
    right = np.array(order)[model.predict(demos)] == demos.labels
    model.switching_.last[...] = 0.5
    assert right.mean() > np.mean(np.array(order)[model.predict(demos)] == demos.labels) + 0.01
