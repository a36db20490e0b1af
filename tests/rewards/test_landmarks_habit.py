"""Local habits and skills: the sums of a cell are those of its steps, and their solution is a ridge regression."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prism_irl.rewards.landmarks import habit_at, offsets, solve, sums_of


@given(seed=st.integers(0, 2**31), ridge=st.floats(0.1, 50.0))
def test_every_cell_is_a_ridge_regression_of_its_own_weighted_steps(seed, ridge):
    rng = np.random.default_rng(seed)
    n, L, p, m = 60, 4, 5, 2
    features, rest, weights = rng.normal(size=(n, p)), rng.normal(size=(n, m)), rng.uniform(0, 1, n)
    cells = rng.integers(L - 1, size=n)  # nobody was in the last one
    found = solve(sums_of(features, rest, cells, L, weights), ridge)
    for cell in range(L - 1):
        own, root = cells == cell, np.sqrt(weights[cells == cell])[:, None]
        # A ridge is as many steps more, at which nothing was done.
        design = np.concatenate([root * features[own], np.sqrt(ridge) * np.eye(p)])
        target = np.concatenate([root * rest[own], np.zeros((p, m))])
        np.testing.assert_allclose(found[cell].T, np.linalg.lstsq(design, target, rcond=None)[0], atol=1e-8)
    assert not found[L - 1].any()
    np.testing.assert_allclose(habit_at(found, cells, features)[0], found[cells[0]] @ features[0])


def test_an_offset_is_measured_from_the_landmark_in_distances_between_landmarks():
    landmarks = np.array([[0.0, 0.0], [2.0, 0.0]])
    np.testing.assert_allclose(offsets(np.array([[3.0, 1.0]]), np.array([1]), landmarks, 2.0), [[1.0, 0.5, 0.5]])
