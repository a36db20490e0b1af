"""Statistics of behaviour, against numbers counted by hand."""

import numpy as np

from prism_irl.evaluation.behaviour import (
    AROUND,
    Behaviour,
    around_switches,
    dwells,
    individuality,
    ngrams,
    numbers,
    return_times,
    shares_of_lengths,
    switch_places,
    switch_steps,
)

# Two trajectories: 0 1 0 0 2 | 1 2 1
ONE = Behaviour(np.array([0, 1, 0, 0, 2, 1, 2, 1]), np.array([0, 0, 1, 1, 0, 0, 0, 1]), np.array([0, 5, 8]))


def test_dwells_end_with_their_trajectory():
    np.testing.assert_array_equal(dwells(ONE, 0), [2, 1, 2])
    np.testing.assert_array_equal(dwells(ONE, 1), [2, 1])


def test_return_times_count_from_entry_to_entry_within_a_trajectory():
    np.testing.assert_array_equal(return_times(ONE, 0), [2])  # staying is no second visit
    np.testing.assert_array_equal(return_times(ONE, 1), [2])  # never from one trajectory to the next
    assert len(return_times(ONE, 2)) == 0


def test_switches_are_within_trajectories():
    np.testing.assert_array_equal(switch_steps(ONE), [2, 4, 7])
    np.testing.assert_allclose(switch_places(ONE, 4), [1 / 3, 1 / 3, 1 / 3, 0])


def test_what_surrounds_a_switch_stays_in_its_trajectory():
    around = around_switches(ONE, np.array([2, 7]), 0)
    assert around[AROUND] == 0.5  # step 2 is in state 0, step 7 is not
    assert around[AROUND - 2] == 0.5  # steps 0 and 5
    assert around[AROUND + 1] == 1.0  # step 3 alone: step 8 does not exist
    assert np.isnan(around[0])


def test_individuality_is_the_mean_distance_from_all_trajectories():
    overall = np.array([3, 3, 2]) / 8
    each = np.array([[3, 1, 1], [0, 2, 1]]) / np.array([[5], [3]])
    np.testing.assert_allclose(individuality(ONE), (0.5 * np.abs(each - overall).sum(axis=1)).mean())


def test_ngrams_never_cross_the_end_of_a_trajectory():
    pairs = ngrams([ONE], 2, 3)
    assert pairs.shape == (1, 6 + 1)  # 01 10 00 02 | 12 21 and the others
    np.testing.assert_allclose(pairs[0], [*[1 / 6] * 6, 0])
    np.testing.assert_allclose(ngrams([ONE], 3, 3)[0], [*[1 / 4] * 4, 0])  # 010 100 002 | 121


def test_numbers_of_one_behaviour():
    found = {(about.name, about.intention, about.state): value for about, value in numbers(ONE, [0, 2], 2).items()}
    assert found["stays where it is", None, None] == 1 / 6
    assert found["goes straight back", None, None] == 2 / 4
    assert found["different states in a trajectory", None, None] == 2.5
    assert found["dwell", 1, None] == 1.5
    assert found["share of the steps", 1, None] == 3 / 8
    assert found["time between visits", None, 0] == 2
    assert np.isnan(found["time between visits", None, 2])
    assert not any(about.intention is not None for about in numbers(ONE, [], 1))


def test_lengths_are_binned_alike():
    short, long = np.array([1, 1, 2, 3]), np.array([3, 9, 9, 9])
    shares = shares_of_lengths([short, long, short])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(shares[0], shares[2])
    assert 0.5 * np.abs(shares[0] - shares[1]).sum() == 0.75
