from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.contexts import Contexts, with_memory
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError

N_STATES = 4
History = tuple[int, ...]
ragged_states = st.lists(st.lists(st.integers(0, N_STATES - 1), min_size=1, max_size=12), min_size=1, max_size=6)


def demonstrations(trajectories: list[list[int]], n_states: int = N_STATES) -> Demonstrations:
    return Demonstrations.from_arrays(trajectories, [[0] * len(t) for t in trajectories], n_states=n_states)


def histories(trajectory: list[int], length: int) -> Iterator[History]:
    """The last ``length`` states at every step, oldest first, fewer at the beginning."""
    for t in range(len(trajectory)):
        yield tuple(trajectory[max(t + 1 - length, 0) : t + 1])


def naive_known(trajectories: list[list[int]], length: int) -> set[History]:
    known: set[History] = {(s,) for s in range(N_STATES)}
    for trajectory in trajectories:
        for size in range(1, length + 1):
            known |= {h for h in histories(trajectory, size) if len(h) == size}
    return known


def naive_rows(known: set[History]) -> dict[History, int]:
    """Rows by length, then by the row of the parent, then by the oldest state."""
    rows: dict[History, int] = {}
    for size in sorted({len(h) for h in known}):
        same = [h for h in known if len(h) == size]
        same.sort(key=lambda h: (rows[h[1:]], h[0]) if size > 1 else (0, h[0]))
        rows |= {h: len(rows) + i for i, h in enumerate(same)}
    return rows


def naive_lookup(rows: dict[History, int], history: History) -> int:
    """Row of the longest suffix in a dictionary; a suffix counts only if it can be grown state by state."""
    best = len(rows)
    for size in range(1, len(history) + 1):
        if history[-size:] not in rows:
            break
        best = rows[history[-size:]]
    return best


def spelled(contexts: Contexts) -> list[History]:
    """Every context as its states, oldest first, read off the tree."""
    out: list[History] = [(s,) for s in range(contexts.n_states)]
    for parents, oldest in zip(contexts.parents, contexts.oldest, strict=True):
        out += [(int(o), *out[p]) for p, o in zip(parents, oldest, strict=True)]
    return out


@given(ragged_states, st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_the_tree_holds_exactly_the_histories_that_occur(trajectories: list[list[int]], length: int) -> None:
    contexts = Contexts.fit(demonstrations(trajectories), length)
    rows = naive_rows(naive_known(trajectories, length))
    assert spelled(contexts) == list(rows)
    assert contexts.length == length
    assert contexts.n_contexts == len(rows) == contexts.starts[-1]
    assert np.diff(contexts.starts).tolist() == [sum(len(h) == size for h in rows) for size in range(1, length + 1)]
    assert contexts.current_state.tolist() == [h[-1] for h in rows]


@given(ragged_states, ragged_states, st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_encode_is_a_dictionary_with_fallback_to_the_longest_known_suffix(
    old: list[list[int]], new: list[list[int]], length: int
) -> None:
    contexts = Contexts.fit(demonstrations(old), length)
    rows = naive_rows(naive_known(old, length))
    expected = [naive_lookup(rows, h) for trajectory in new for h in histories(trajectory, length)]
    assert contexts.encode(demonstrations(new)).tolist() == expected


@given(ragged_states, st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_own_data_are_known_in_full(trajectories: list[list[int]], length: int) -> None:
    demos = demonstrations(trajectories)
    contexts = Contexts.fit(demos, length)
    words = spelled(contexts)
    expected = [h for trajectory in trajectories for h in histories(trajectory, length)]
    assert [words[row] for row in contexts.encode(demos)] == expected


def test_fallback_by_hand() -> None:
    contexts = Contexts.fit(demonstrations([[0, 1, 2], [3, 1]]), 3)
    words = spelled(contexts)
    encoded = [words[row] for row in contexts.encode(demonstrations([[2, 1, 2], [3, 1, 2], [2, 3], [0, 1, 2]]))]
    # (2, 1) never occurred; (3, 1, 2) neither, but (1, 2) did; (2, 3) neither; nothing crosses into another trajectory.
    assert encoded == [(2,), (1,), (1, 2), (3,), (3, 1), (1, 2), (2,), (3,), (0,), (0, 1), (0, 1, 2)]


def test_a_state_that_was_never_named_is_unknown_and_hides_what_came_before() -> None:
    contexts = Contexts.fit(demonstrations([[0, 1, 2, 3, 0, 1, 2]]), 3)
    words = spelled(contexts)
    new = demonstrations([[0, 1, 4, 1, 2]], n_states=5)
    rows = contexts.encode(new)
    assert rows[2] == contexts.unknown == contexts.n_contexts
    assert [words[row] for row in rows[[0, 1, 3, 4]]] == [(0,), (0, 1), (1,), (1, 2)]
    # One past the last state, before state 0, must not be taken for state 0 before state 1.
    assert contexts.encode(demonstrations([[4, 0]], n_states=5)).tolist() == [contexts.unknown, 0]


def test_with_one_state_a_context_is_a_state() -> None:
    demos = demonstrations([[0, 3, 2], [1]])
    contexts = Contexts.fit(demos, 1)
    assert (contexts.n_contexts, contexts.parents) == (N_STATES, ())
    assert contexts.encode(demos).tolist() == demos.states.tolist()
    assert contexts.current_state.tolist() == list(range(N_STATES))


def test_histories_longer_than_every_trajectory() -> None:
    demos = demonstrations([[0, 1], [2]])
    contexts = Contexts.fit(demos, 5)
    assert contexts.starts == (0, 4, 5, 5, 5, 5)
    assert contexts.encode(demos).tolist() == [0, 4, 2]


def test_windows_may_be_shorter_or_longer_than_the_tree() -> None:
    contexts = Contexts.fit(demonstrations([[0, 1, 2]]), 2)
    assert contexts.lookup(np.array([[2], [0]])).tolist() == [2, 0]
    assert contexts.lookup(np.array([[2, 1, 0, 3], [1, 0, -1, -1]])).tolist() == [5, 4]


@pytest.mark.parametrize("length", [0, -1])
def test_length_must_be_positive(length: int) -> None:
    with pytest.raises(InputError, match=f"at least 1 .*not {length}"):
        Contexts.fit(demonstrations([[0]]), length)


def test_large_state_sets_do_not_overflow() -> None:
    demos = demonstrations([[0, 60_000, 1, 60_000, 1]], n_states=60_001)
    contexts = Contexts.fit(demos, 3)
    words = spelled(contexts)
    assert [words[row] for row in contexts.encode(demos)][2:] == [(0, 60_000, 1), (60_000, 1, 60_000), (1, 60_000, 1)]


# -- actions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        ("states", [(2, 1, 0), (1, 0, -1)]),
        ("actions", [(2, 4, 3), (1, 3, -1)]),
        ("both", [(2, 4, 1), (1, 3, 0)]),
    ],
)
def test_windows_hold_what_contexts_read(reads, expected):
    demos = Demonstrations.from_arrays([[0, 1, 2]], [[3, 4, 0]], n_states=3, n_actions=5)
    contexts = Contexts.fit(demos, 3, reads)
    windows = contexts.windows(demos, 3)
    assert [tuple(row) for row in windows[[2, 1]]] == expected
    rows = contexts.encode(demos)
    assert rows[2] == contexts.n_contexts - 1
    again = Contexts.from_state(3, contexts.state())
    np.testing.assert_array_equal(again.encode(demos), rows)
    recent = np.full((1, 3), -1)
    for t in range(3):
        recent = contexts.push(recent, np.array([[0, 1, 2][t]]))
        np.testing.assert_array_equal(recent[0], windows[t])
        recent = contexts.took(recent, np.array([[3, 4, 0][t]]))


@pytest.mark.parametrize("reads", ["actions", "both"])
def test_contexts_of_actions_are_a_tree(reads):
    rng = np.random.default_rng(0)
    demos = Demonstrations.from_arrays(rng.integers(4, size=(5, 20)), rng.integers(2, size=(5, 20)), n_states=4)
    contexts = Contexts.fit(demos, 4, reads)
    rows, windows = contexts.encode(demos), contexts.windows(demos, 4)
    for row in np.unique(rows[rows >= contexts.starts[-2]]):
        assert len(np.unique(windows[rows == row], axis=0)) == 1
    for level, parents in enumerate(contexts.parents, start=2):
        there = (windows[:, level - 1] >= 0).nonzero()[0]
        assert (np.unique(contexts.cut(level).encode(demos)[there]) >= contexts.starts[level - 1]).all()
        np.testing.assert_array_equal(np.unique(contexts.cut(level - 1).encode(demos)[there]), np.unique(parents))
    np.testing.assert_array_equal(contexts.cut(2).encode(demos), Contexts.fit(demos, 2, reads).encode(demos))


# -- continuous data ---------------------------------------------------------------------------------------------------


def test_a_step_remembers_its_own_trajectory_and_nothing_else():
    seen = [np.arange(4.0)[:, None], 10 + np.arange(3.0)[:, None]]
    done = [100 + np.arange(4.0)[:, None], 200 + np.arange(3.0)[:, None]]
    found = with_memory(Demonstrations.continuous(seen, done), 2)
    np.testing.assert_array_equal(
        found.observations,
        [
            [0, 0, 0, 0, 0, 0, 0],
            [1, 0, 100, 1, 0, 0, 0],
            [2, 1, 101, 1, 0, 100, 1],
            [3, 2, 102, 1, 1, 101, 1],
            [10, 0, 0, 0, 0, 0, 0],
            [11, 10, 200, 1, 0, 0, 0],
            [12, 11, 201, 1, 10, 200, 1],
        ],
    )
    np.testing.assert_array_equal(found.motions, np.concatenate(done))


def test_a_habit_with_memory_predicts_what_one_without_cannot():
    from prism_irl.models.references import continuous_scores

    rng = np.random.default_rng(0)
    runs = [np.cumsum(rng.normal(size=(80, 1)), axis=0) for _ in range(6)]  # each command is near the last one
    demos = Demonstrations.continuous([np.zeros_like(run) for run in runs], runs)
    scores = continuous_scores(demos, np.arange(6) == 5)
    held = {key: entry["predictive_ll"]["validation"] for key, entry in scores.items()}
    assert held["memory"] > held["linear"] + 0.3
