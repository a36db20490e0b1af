from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.labels import label_accuracy
from prism_irl.models import starts
from prism_irl.models.intentions import Intentions
from prism_irl.models.starts import (
    StartKind,
    annealing_powers,
    first_responsibilities,
    random_responsibilities,
    window_responsibilities,
)
from worlds.labyrinth import LabyrinthWorld
from zoo.worlds import draw

KINDS: tuple[StartKind, ...] = ("random", "windows", "annealed")


def random_demonstrations(seed: int, lengths: list[int], n_states: int = 5, n_actions: int = 3) -> Demonstrations:
    rng = np.random.default_rng(seed)
    states = [rng.integers(n_states, size=length) for length in lengths]
    actions = [rng.integers(n_actions, size=length) for length in lengths]
    return Demonstrations.from_arrays(states, actions, n_states=n_states, n_actions=n_actions)


@given(
    st.sampled_from(KINDS), st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(1, 4), st.integers(0, 9)
)
@settings(max_examples=25, deadline=None)
def test_responsibilities_are_distributions(kind: StartKind, lengths: list[int], k: int, seed: int) -> None:
    demos = random_demonstrations(seed, lengths)
    first = first_responsibilities(kind, demos, k, np.random.default_rng(seed))
    assert first.shape == (demos.n_steps, k)
    assert first.dtype == np.float64
    assert (first > 0).all(), "no intention starts out impossible"
    np.testing.assert_allclose(first.sum(axis=1), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_one_seed_one_start(kind: StartKind) -> None:
    demos = random_demonstrations(0, [40, 60])
    first, again, other = (first_responsibilities(kind, demos, 3, np.random.default_rng(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("kind", KINDS)
def test_one_intention_has_everything(kind: StartKind) -> None:
    demos = random_demonstrations(0, [4])
    np.testing.assert_array_equal(first_responsibilities(kind, demos, 1, np.random.default_rng(0)), np.ones((4, 1)))


def test_random_is_the_same_at_all_visits_of_a_pair_and_differs_between_pairs() -> None:
    demos = random_demonstrations(1, [200], n_states=300)
    first = random_responsibilities(demos, 2, np.random.default_rng(0))
    pairs = demos.states.astype(int) * 3 + demos.actions
    for pair in np.unique(pairs):
        assert len(np.unique(first[pairs == pair], axis=0)) == 1
    assert len(np.unique(first[:, 0])) == len(np.unique(pairs))


def test_windows_find_stretches_of_different_behaviour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two habits that never share a (state, action), 50 steps each: no window of 10 mixes them but at the seams."""
    monkeypatch.setattr(starts, "WINDOW_LENGTHS", (10,))
    habit = np.repeat([0, 1, 0, 1], 50)
    states = np.random.default_rng(0).integers(4, size=200)
    demos = Demonstrations.from_arrays([states, states], [habit, habit])
    first = window_responsibilities(demos, 2, np.random.default_rng(0))
    found = first.argmax(axis=1)
    agreement = (found == np.concatenate([habit, habit])).mean()
    assert max(agreement, 1 - agreement) > 0.9
    assert set(np.unique(first.round(6))) == {0.1, 0.9}


def test_windows_never_cross_trajectories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trajectories shorter than a window, each of one habit, come out pure whatever the phase of the cuts."""
    monkeypatch.setattr(starts, "WINDOW_LENGTHS", (25,))
    habits = np.arange(20) % 2
    demos = Demonstrations.from_arrays([[h] * 6 for h in habits], [[h] * 6 for h in habits])
    for seed in range(5):
        found = window_responsibilities(demos, 2, np.random.default_rng(seed)).argmax(axis=1).reshape(20, 6)
        assert (found == found[:, :1]).all(), "one window per trajectory, or two of the same habit"
        assert (found[habits == 0] == found[0, 0]).all()
        assert (found[habits == 1] != found[0, 0]).all()


def test_all_steps_of_a_window_are_in_one_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "WINDOW_LENGTHS", (10,))
    demos = random_demonstrations(2, [300])
    found = window_responsibilities(demos, 3, np.random.default_rng(4)).argmax(axis=1)
    cuts = np.flatnonzero(np.diff(found)) + 1
    assert len(cuts) > 5
    assert len(set(cuts % 10)) == 1, "cuts are a window apart"


def test_phase_of_the_cuts_changes_between_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "WINDOW_LENGTHS", (10,))
    demos = random_demonstrations(2, [300])
    phases = set()
    for seed in range(6):
        found = window_responsibilities(demos, 3, np.random.default_rng(seed)).argmax(axis=1)
        phases.add(int(np.flatnonzero(np.diff(found))[0] + 1) % 10)
    assert len(phases) > 1


def test_windows_fall_back_to_random_when_there_are_too_few() -> None:
    demos = random_demonstrations(0, [3, 2])
    first = window_responsibilities(demos, 4, np.random.default_rng(0))
    assert first.shape == (5, 4)
    assert len(np.unique(first.round(6))) > 2, "not the two levels of a clustering"


def test_identical_windows_are_no_warning() -> None:
    demos = Demonstrations.from_arrays([[0] * 200], [[0] * 200])
    first = window_responsibilities(demos, 3, np.random.default_rng(0))
    np.testing.assert_allclose(first.sum(axis=1), 1)


def test_annealing_ends_with_the_emissions_as_they_are() -> None:
    powers = annealing_powers()
    assert powers[0] < powers[-1] == 1
    assert (np.diff(powers) > 0).all()


def test_annealed_starts_lead_higher_than_random_ones() -> None:
    """Simulated mice, from the same first responsibilities: what differs is the power of the emissions alone."""
    demos = LabyrinthWorld().simulate(20, 150, seed=1).demonstrations
    scores = {}
    for kind in ("random", "annealed"):
        options = {"n_starts": 4, "n_candidates": 1, "warm_up": 0, "validation_fraction": 0.0, "device": "cpu"}
        model = Intentions(2, switching="markov", starts=kind, max_iterations=80, **options).fit(demos)
        scores[kind] = np.array([start["score"] for start in model.starts_])
    assert scores["annealed"].mean() > scores["random"].mean() + 0.003
    assert scores["annealed"].max() > scores["random"].max()


def test_annealing_belongs_to_chains() -> None:
    with pytest.raises(InputError, match="belongs to chains"):
        Intentions(2, switching="independent", starts="annealed").fit(random_demonstrations(0, [20, 20]))


def test_goals_start_other_pairs_and_label_better_than_windows() -> None:
    world = draw(701, "arrival")
    truth, demos = world.train.labels, replace(world.train, labels=None)
    assert truth is not None
    right = {}
    for kind in ("goals", "windows"):
        first = first_responsibilities(kind, demos, world.n_intentions, np.random.default_rng(0))
        np.testing.assert_allclose(first.sum(axis=1), 1)
        right[kind] = label_accuracy(truth, first.argmax(axis=1))
    assert right["goals"] > max(0.9, right["windows"] + 0.1)
    fitted = {
        kind: label_accuracy(
            truth, Intentions(4, switching="markov", starts=kind, n_starts=1).fit(demos).predict(demos)
        )
        for kind in ("goals", "windows")
    }
    assert fitted["goals"] > max(0.8, fitted["windows"])


def test_goals_need_places() -> None:
    x = [np.random.default_rng(0).normal(size=(30, 2)) for _ in range(4)]
    demos = Demonstrations.continuous(x, x)
    with pytest.raises(InputError, match="looks for places, and these states"):
        Intentions(2, switching="markov", rewards="features", starts="goals").fit(demos)
