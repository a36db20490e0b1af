"""Windows around steps: what they hold, and that no trajectory sees another."""

from __future__ import annotations

import numpy as np

from prism_irl.data.windows import around, moving, standardised

OFFSETS = np.array([0, 5, 12])
VALUES = np.random.default_rng(0).normal(3.0, 2.0, (12, 2))


def test_every_trajectory_is_standardised_by_itself():
    found = standardised(VALUES, OFFSETS)
    for part in (found[:5], found[5:]):
        np.testing.assert_allclose(part.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(part.std(axis=0), 1.0)
    np.testing.assert_array_equal(standardised(np.ones((12, 1)), OFFSETS), 0.0)  # what never changes says nothing


def test_lags_stay_within_the_trajectory():
    found = around(VALUES, OFFSETS, (-2, 0, 1))
    np.testing.assert_array_equal(found[3], np.concatenate([VALUES[1], VALUES[3], VALUES[4]]))
    np.testing.assert_array_equal(found[4], np.concatenate([VALUES[2], VALUES[4], VALUES[4]]))  # its end is repeated
    np.testing.assert_array_equal(found[5], np.concatenate([VALUES[5], VALUES[5], VALUES[6]]))


def test_means_and_spreads_of_a_window():
    mean, spread = moving(VALUES, OFFSETS, 3)
    np.testing.assert_allclose(mean[7], VALUES[6:9].mean(axis=0))
    np.testing.assert_allclose(spread[7], VALUES[6:9].std(axis=0))
    np.testing.assert_allclose(mean[4], (VALUES[3] + 2 * VALUES[4]) / 3)
