"""Steps of some trajectories, and some trajectories of many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from continuous_worlds import walking
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.sampling import between, parts_of, some_trajectories, steps_of
from support import assert_same

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=12)


def of_lengths(lengths: list[int]) -> Demonstrations:
    """Trajectories of these lengths, of one state and one action."""
    rows = [np.zeros(n, np.int64) for n in lengths]
    return Demonstrations.from_arrays(rows, rows)


@settings(max_examples=30, deadline=None)
@given(LENGTHS, st.randoms())
def test_steps_are_those_of_the_trajectories_in_their_order(lengths, random):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    chosen = random.sample(range(len(lengths)), random.randint(0, len(lengths)))
    expected = [step for i in chosen for step in range(offsets[i], offsets[i + 1])]
    assert steps_of(offsets, np.array(chosen, np.int64)).tolist() == expected


@settings(max_examples=30, deadline=None)
@given(LENGTHS, st.integers(1, 40), st.integers(0, 5))
def test_a_sample_is_enough_and_hardly_more(lengths, most, seed):
    demos = of_lengths(lengths)
    chosen = some_trajectories(demos, most, seed)
    taken = demos.lengths[chosen]
    assert (np.diff(chosen) > 0).all()
    assert taken.sum() >= min(most, sum(lengths))
    assert taken.sum() < most + max(lengths)
    among = some_trajectories(demos, most, seed, np.arange(0, len(demos), 2))
    assert (among % 2 == 0).all()


def test_whoever_is_known_is_in_the_sample():
    demos = of_lengths([5] * 40)
    known = np.full(demos.n_steps, -1)
    known[[33, 101]] = 1  # in trajectories 6 and 20
    for seed in range(5):
        assert {6, 20} <= set(some_trajectories(replace(demos, partial_labels=known), 15, seed).tolist())


@settings(max_examples=20, deadline=None)
@given(LENGTHS, st.integers(1, 20))
def test_parts_are_all_steps_in_order(lengths, most):
    demos = of_lengths(lengths)
    rows = [(part.start, part.stop, own.n_steps) for part, own in parts_of(demos, most)]
    assert [begin for begin, _, _ in rows] == [0, *(end for _, end, _ in rows[:-1])]
    assert rows[-1][1] == demos.n_steps
    assert all(end - begin == n for begin, end, n in rows)


def test_what_lies_together_is_not_copied():
    demos = walking(n_trajectories=6, length=5)
    demos = replace(demos, groups=np.arange(6), trajectory_names=np.array(list("abcdef")))
    part = between(demos, 2, 5)
    assert_same(part, demos.subset([2, 3, 4]))
    assert part.where(7) == "trajectory d, step 2"
    assert part.observations.base is not None
