"""Alignment with outside events: hand-made labellings whose numbers are known, and names from greedy paths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labyrinth.alignment import (
    Events,
    alignment,
    enrichment,
    event_shares,
    greedy_arrival,
    name_intentions,
    shifted,
    steps_to_next,
)
from prism_irl.errors import InputError
from prism_irl.labels import mean_dwell
from prism_irl.maze import HOME, WATER, maze_mdp, successors

LABELS = np.repeat([0, 1, 0, 2, 2, 1], 10)
OFFSETS = np.array([0, 30, 60])


def events(modes: np.ndarray, **happened: list[int]) -> Events:
    flags = {name: np.isin(np.arange(len(modes)), at) for name, at in happened.items()}
    return Events(flags, modes, ("leave", "drink", "explore"))


def test_perfect_alignment():
    found = alignment(
        LABELS, OFFSETS, events(LABELS, delivery=[12], exit=[3, 25]), 3, names=["home", "water", "explore"],
        named_events={"water": "delivery", "home": "exit"},
    )  # fmt: skip
    assert found["matched"] == {"leave": 3.0, "drink": 3.0, "explore": 3.0}  # each mode is a third of the steps
    assert found["distinct"]
    assert found["in_named"] == {"delivery": 1.0, "exit": 1.0}
    assert found["shares"]["exit"] == [1.0, 0.0, 0.0]
    control = found["shuffled"]
    assert control["labellings"] == 20
    assert all(value < 2.9 for value in control["matched"].values())
    assert control["in_named"]["exit"] < 1.0


def test_no_alignment_is_one():
    modes = np.tile([0, 1, 2, 1], 15)
    np.testing.assert_allclose(enrichment(np.repeat([0, 1, 2], 20), modes, 3, 3), 1.0)
    np.testing.assert_array_equal(enrichment(np.zeros(60, int), modes, 2, 3), [[1, 1, 1], [0, 0, 0]])


def test_two_modes_in_one_intention_are_not_distinct():
    merged = np.where(LABELS == 2, 1, LABELS)
    found = alignment(merged, OFFSETS, events(LABELS), 2, shuffles=0)
    assert not found["distinct"]
    assert sum(value is not None and np.isfinite(value) for value in found["matched"].values()) == 2


def test_distances_stay_within_their_trajectory():
    labels, offsets = np.array([0, 0, 1, 1, 0, 0, 1, 1]), np.array([0, 5, 8])
    happened = np.isin(np.arange(8), [3, 6])
    # Switches at 2 and 4 (first trajectory) and at 6 (second): 1 to the event at 3, none after 4, 0 at 6 itself.
    assert steps_to_next(labels, offsets, happened).tolist() == [1, 0]
    assert steps_to_next(labels, offsets, np.zeros(8, bool)).tolist() == []
    assert np.isnan(event_shares(labels, np.zeros(8, bool), 2)).all()


@given(st.integers(0, 1000))
def test_shifted_labels_keep_usage_of_every_trajectory(seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 9, size=4))])
    labels = rng.integers(3, size=offsets[-1])
    moved = shifted(labels, offsets, rng)
    for start, end in itertools.pairwise(offsets):
        own = labels[start:end].tolist()
        assert moved[start:end].tolist() in [own[i:] + own[:i] for i in range(len(own))]


def test_shifted_labels_keep_dwell_up_to_the_seam():
    rng = np.random.default_rng(0)
    assert abs(mean_dwell(shifted(LABELS, OFFSETS, rng), OFFSETS) - mean_dwell(LABELS, OFFSETS)) <= 5


def test_wrong_sizes_are_refused():
    with pytest.raises(InputError, match="labels of 59 steps and events of 60"):
        alignment(LABELS[:-1], np.array([0, 30, 59]), events(LABELS), 3)
    with pytest.raises(InputError, match="2 names for 3 intentions"):
        alignment(LABELS, OFFSETS, events(LABELS), 3, names=["a", "b"])


def towards(target: int) -> np.ndarray:
    """A policy on the maze that steps nearer to a target."""
    mdp, to = maze_mdp(), np.full(len(successors()), len(successors()))
    to[target] = 0
    for _ in range(len(to)):
        to = np.minimum(to, 1 + to[successors()].min(axis=1))
    score = np.where(mdp.valid_actions, -to[successors()].astype(float), -np.inf)
    return np.eye(4)[score.argmax(1)] * 0.7 + 0.3 * mdp.valid_actions / mdp.valid_actions.sum(1, keepdims=True)


def test_greedy_paths_arrive_where_a_policy_leads():
    mdp = maze_mdp()
    uniform = mdp.valid_actions / mdp.valid_actions.sum(1, keepdims=True)
    arrival = greedy_arrival(mdp, np.stack([towards(HOME), towards(WATER), uniform]), (WATER, HOME))
    assert arrival[0].tolist() == [0.0, 1.0]
    assert arrival[1, 0] == 1.0
    assert (arrival[2] < 0.5).all()
    assert name_intentions(arrival, ("water", "home"))[:2] == ["home", "water"]


def test_names_are_given_once_and_not_for_nothing():
    assert name_intentions([[0.9, 0.1], [0.8, 0.0], [0.0, 0.3]], ("water", "home")) == ["water", "explore", "home"]
    assert name_intentions([[0.01, 0.0], [0.0, 0.5], [0.0, 0.0]], ("water", "home")) == [
        "explore 1",
        "home",
        "explore 2",
    ]
