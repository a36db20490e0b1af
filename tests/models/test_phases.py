"""Phases of demonstrations: order, baselines, streams and what is kept."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.labels import label_accuracy
from prism_irl.models import phase_choices
from prism_irl.models.describe import em_course
from prism_irl.models.intentions import Intentions
from prism_irl.models.phase_choices import sequence_distance, told_by_time
from prism_irl.models.phases import Phases
from prism_irl.models.registry import load
from worlds.scripted import episodes


def demonstrations(task, n=16, seed=3):
    found = list(episodes(task, n, seed=seed))
    return Demonstrations.continuous(
        [one.states for one in found], [one.actions for one in found], labels=[one.phases for one in found]
    )


def told(demos, known):
    """The demonstrations with known phases in the place of the truth."""
    seen, done, known = (
        [values[a:b] for a, b in pairwise(demos.offsets)] for values in (demos.observations, demos.motions, known)
    )
    return Demonstrations.continuous(seen, done, partial_labels=known)


def equal_parts(demos, K):
    return np.concatenate([np.arange(n) * K // n for n in demos.lengths])


@pytest.fixture(scope="module")
def fitted():
    demos = demonstrations("pick-place")
    return Phases(n_intentions=6).fit(demos), demos


@pytest.mark.parametrize("task", ["pick-place", "drawer", "joint-targets", "pour"])
def test_stages_are_found_better_than_by_equal_parts(task):
    demos = demonstrations(task)
    K = len(np.unique(demos.labels))
    model = Phases(n_intentions=K).fit(demos)
    assert model.order_ == "once"
    ours, simple = (label_accuracy(demos.labels, labels) for labels in (model.predict(demos), equal_parts(demos, K)))
    assert ours > simple + 0.03


def test_strokes_that_come_back_are_no_stages():
    demos = demonstrations("wipe")
    model = Phases(n_intentions=2).fit(demos)
    assert model.order_ == "free"
    assert label_accuracy(demos.labels, model.predict(demos)) > 0.85


def test_no_episode_is_out_of_order_with_thirty_commands():
    rng = np.random.default_rng(0)
    seen = [np.cumsum(rng.normal(size=(int(rng.integers(5, 60)), 4)), 0) for _ in range(40)]
    done = [rng.normal(size=(len(one), 30)) * rng.lognormal(size=30) for one in seen]
    demos = Demonstrations.continuous(seen, done)
    model = Phases(n_intentions=5, order="once").fit(demos)
    labels, filtered, smoothed = model.predict(demos), model.filter_proba(demos), model.predict_proba(demos)
    for a, b in zip(demos.offsets[:-1], demos.offsets[1:], strict=True):
        assert labels[a] == 0
        assert set(np.diff(labels[a:b])) <= {0, 1}
        for t in range(4):
            assert (filtered[a + t, t + 1 :] == 0).all()
            assert (smoothed[a + t, t + 1 :] == 0).all()


def test_an_episode_shorter_than_its_stages_stays_in_order():
    demos = demonstrations("pick-place")
    model = Phases(n_intentions=6).fit(demos)
    short = demos.subset([0])
    short = Demonstrations.continuous([short.observations[:3]], [short.motions[:3]])
    assert model.predict(short).tolist() == [0, 1, 2]


def test_a_cycle_begins_again():
    demos = demonstrations("wipe")
    labels = Phases(n_intentions=2, order="cycle").fit(demos).predict(demos)
    assert {tuple(pair) for pair in pairwise(labels)} == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_halves_of_the_episodes_agree_on_stages_and_not_on_noise(fitted):
    model, demos = fitted
    found = model.stability(demos)
    assert found["halves_agreement"] > 0.7
    assert len(found["halves_by_phase"]) == 6
    rng = np.random.default_rng(0)
    noise = Demonstrations.continuous(list(rng.normal(size=(12, 60, 4))), list(rng.normal(size=(12, 60, 3))))
    assert Phases(n_intentions=4, order="free").fit(noise).stability(noise)["halves_agreement"] < 0.5
    assert model.stability(demos.subset([0, 1, 2])) is None


def test_known_phases_are_kept(fitted):
    _, demos = fitted
    known = np.where(np.arange(demos.n_steps) < demos.offsets[3], demos.labels, -1)
    labels = Phases(n_intentions=6).fit(told(demos, known)).predict(demos)
    assert (labels == demos.labels).mean() > 0.8


def regression(demos, labels, n_labelled):
    """Labels by logistic regression on windows of five steps each way, without an order."""
    x = np.concatenate([demos.observations, demos.motions], axis=1).astype(float)
    x = (x - x.mean(0)) / np.maximum(x.std(0), 1e-9)
    around = np.arange(-5, 6)
    rows = [np.clip(np.arange(a, b)[:, None] + around, a, b - 1) for a, b in pairwise(demos.offsets)]
    windows = x[np.concatenate(rows)].reshape(len(x), -1)
    return LogisticRegression(max_iter=1000).fit(windows[:n_labelled], labels[:n_labelled]).predict(windows)


def test_three_labelled_episodes_teach_at_least_what_regression_learns_and_in_any_numbering():
    gains, announced = [], []
    for task in ("two-objects", "drawer", "buttons", "wipe", "insert"):
        demos = demonstrations(task, 14)
        K, n = int(demos.labels.max()) + 1, demos.offsets[3]
        labels = np.random.default_rng(1).permutation(K)[demos.labels]  # of words, which are in no order of stages
        model = Phases(n_intentions=K).fit(told(demos, np.where(np.arange(demos.n_steps) < n, labels, -1)))
        assert model.order_ == ("free" if task == "wipe" else "once")
        right = [(found == labels)[n:].mean() for found in (model.predict(demos), regression(demos, labels, n))]
        gains.append(right[0] - right[1])
        announced.append(model.chosen_["label_accuracy"] - right[0])
        assert model.chosen_["label_accuracy"] == max(row["label_accuracy"] for row in model.choice_)
    assert np.sum(np.array(gains) >= 0) >= 4
    assert np.mean(gains) > 0.01
    assert np.abs(announced).mean() < 0.05


def test_labels_of_parts_of_episodes_are_enough(tmp_path):
    demos = demonstrations("pick-place", 8)
    rng = np.random.default_rng(0)
    some = (np.arange(demos.n_steps) < demos.offsets[4]) & (rng.random(demos.n_steps) < 0.3)
    model = Phases().fit(told(demos, np.where(some, demos.labels, -1)))
    assert model.n_intentions == 6
    assert (model.predict(demos) == demos.labels).mean() > 0.8
    assert (model.filter_proba(demos).argmax(1) == demos.labels).mean() > 0.6
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(model.predict_proba(demos), load(tmp_path / "run").predict_proba(demos))


def test_labelled_episodes_may_each_show_a_part_of_the_phases():
    demos = demonstrations("pick-place", 6)
    episode = np.repeat(np.arange(6), demos.lengths)
    known = np.where((episode < 6) & (demos.labels == episode), demos.labels, -1)  # one phase of each
    model = Phases(n_intentions=6).fit(told(demos, known))
    assert (model.predict(demos) == demos.labels).mean() > 0.6


def test_labels_that_contradict_the_order_are_named():
    demos = demonstrations("pick-place", 6)
    steps = np.arange(demos.n_steps)
    known = np.where(steps < demos.offsets[3], demos.labels, -1)
    known[(steps >= demos.offsets[2]) & (known == 1)] = 4  # of three labelled episodes the last one
    a = int(demos.offsets[2])
    at = int(np.argmax(np.diff(known[a:]) < 0)) + 1
    where = f"trajectory 2, step {at} is labelled 2 after 4, where the order of stages is 0 → 1 → 2"
    with pytest.raises(InputError, match=f"T{where[1:]}.*--order free"):
        Phases(n_intentions=6, order="once").fit(told(demos, known))
    with pytest.raises(InputError, match=f"T{where[1:]}.*--switching markov"):
        Intentions(6, switching="ordered").fit(told(demos, known))
    loose = Phases(n_intentions=6).fit(told(demos, known))
    assert loose.order_ == "free"
    assert where in loose.default_["why"]


def test_labelled_episodes_that_lack_a_phase_are_in_order():
    demos = demonstrations("pick-place", 6)
    known = np.where(np.arange(demos.n_steps) < demos.offsets[3], demos.labels, -1)
    known[: demos.offsets[1]][known[: demos.offsets[1]] == 1] = 0
    assert Phases(n_intentions=6).fit(told(demos, known)).order_ == "once"


def test_more_known_phases_than_asked_for_are_refused():
    demos = demonstrations("pick-place", 3)
    with pytest.raises(InputError, match="number 3"):
        Phases(n_intentions=2).fit(told(demos, np.minimum(demos.labels, 2)))


def test_stream_knows_only_the_past_and_nearly_what_the_filter_knows(fitted):
    model, demos = fitted
    a, b = demos.offsets[:2]
    stream = model.filter()
    steps = [
        stream.step(observation=x, motion=y) for x, y in zip(demos.observations[a:b], demos.motions[a:b], strict=True)
    ]
    assert np.allclose(np.sum(steps, axis=1), 1.0)
    agree = (np.argmax(steps, axis=1) == model.filter_proba(demos.subset([0])).argmax(1)).mean()
    assert agree > 0.7


def test_what_is_saved_says_the_same(fitted, tmp_path):
    model, demos = fitted
    model.save(tmp_path / "run")
    again = load(tmp_path / "run")
    np.testing.assert_array_equal(model.predict_proba(demos), again.predict_proba(demos))
    np.testing.assert_array_equal(model.log_likelihood(demos), again.log_likelihood(demos))


def test_the_same_seed_gives_the_same_phases():
    demos = demonstrations("wipe", 8)
    one, two = (Phases(n_intentions=3, seed=5).fit(demos).predict(demos) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_tokens_are_refused():
    demos = Demonstrations.from_arrays([[0, 1, 0]], [[1, 0, 1]])
    with pytest.raises(InputError, match="continuous commands"):
        Phases(n_intentions=2).fit(demos)


def test_the_number_of_phases_is_found_where_nobody_gives_one():
    model = Phases(seed=0).fit(demonstrations("drawer", 24))
    assert 4 <= model.n_intentions <= 9
    assert len(model.tried_) == 9
    assert model.intentions_found_
    assert em_course(model)["rise"] is not None
    with pytest.raises(InputError, match="One episode does not say"):
        Phases().fit(demonstrations("drawer", 1))


def test_episodes_that_are_long_are_compared_all_the_same(monkeypatch):
    demos = demonstrations("stack", 8)
    monkeypatch.setattr(phase_choices, "SOME", 10)
    model = Phases(n_intentions=4).fit(demos)
    assert np.isfinite(model.in_order_).all()
    assert model.stability(demos) is not None


def test_a_lamp_that_is_switched_on_at_any_time_is_not_read():
    demos = demonstrations("pour")
    rng = np.random.default_rng(0)
    lamp = np.concatenate([np.arange(n) > rng.integers(n) for n in demos.lengths])
    seen = np.column_stack([demos.observations, lamp])
    lit = Demonstrations.continuous(
        [seen[a:b] for a, b in pairwise(demos.offsets)], [demos.motions[a:b] for a, b in pairwise(demos.offsets)]
    )
    plain, model = (Phases(n_intentions=6, order="once").fit(one) for one in (demos, lit))
    assert model.read_.tolist() == [1.0, 0.0, 1.0]  # the gripper, the lamp, and the gripper's command
    ours, other = (label_accuracy(demos.labels, one.predict(own)) for one, own in ((plain, demos), (model, lit)))
    assert other > ours - 0.02


def test_gestures_that_come_back_differ_between_episodes_and_stages_do_not():
    kept, staged = (Phases(n_intentions=4).fit(demonstrations(task, 8)) for task in ("machine", "stack"))
    assert (kept.order_, staged.order_) == ("free", "once")
    (told, edits, spread), (told_staged, edits_staged, spread_staged) = kept.in_order_, staged.in_order_
    assert told < 0.4 < 0.6 < told_staged
    assert edits > 0.2 > 0.1 > edits_staged
    assert spread > 0.2 > 0.1 > spread_staged


def test_sequences_are_compared_without_their_times():
    offsets, one, two = np.array([0, 10, 30]), np.repeat([0, 1, 0], [3, 4, 3]), np.repeat([0, 1, 2, 0], 5)
    edits, spread = sequence_distance(np.concatenate([one, two]), offsets)
    assert edits == pytest.approx(1 / 4)
    assert spread == pytest.approx(0.5 / 3.5)
    assert sequence_distance(np.concatenate([one, np.repeat(one, 2)]), offsets) == (0.0, 0.0)
    assert told_by_time(np.tile(np.repeat([0, 1], 12), 2), np.array([0, 24, 48])) == pytest.approx(1.0)
    assert told_by_time(np.repeat([0, 1], 24), np.array([0, 24, 48])) == pytest.approx(0.0)


def test_things_that_are_put_away_one_after_the_other_are_stages():
    demos = demonstrations("sorting", 12)
    model = Phases(n_intentions=5).fit(demos)
    assert model.order_ == "once"
    assert label_accuracy(demos.labels, model.predict(demos)) > 0.5
