"""Landmarks: a ruler in the open, a rope around a wall."""

from __future__ import annotations

import numpy as np
import pytest

from prism_irl.rewards.landmarks import SOFT, WAYPOINTS, LandmarkGraph, lines_of_sight, nearest


@pytest.fixture(scope="module")
def walls():
    """Random walks in two rooms beside each other, with a thick wall between and a gap in it at the top."""
    rng = np.random.default_rng(0)
    x, rows, first = np.array([0.5, 0.5]), [], []
    for i in range(12_000):
        first.append(i % 300 == 0)
        if first[-1]:
            x = rng.uniform([0.0, 0.0], [0.7, 2.0]) + np.array([1.3 * rng.integers(2), 0.0])
        rows.append(x)
        step = x + rng.normal(0.0, 0.12, 2)
        inside = (step >= 0).all() and (step <= 2).all()
        in_wall = 0.75 < step[0] < 1.25 and step[1] < 1.6
        x = step if inside and not in_wall else x
    return LandmarkGraph.fit(np.array(rows), np.array(first), 60, seed=0)


def test_in_the_open_distances_are_straight(walls):
    left = np.flatnonzero(walls.landmarks[:, 0] < 0.7)
    apart = np.linalg.norm(walls.landmarks[left][:, None] - walls.landmarks[left], axis=2)
    assert (walls.distances[np.ix_(left, left)] >= apart - 1e-9).all()
    assert np.median(walls.distances[np.ix_(left, left)][apart > 0.3] / apart[apart > 0.3]) < 1.05


def test_around_a_wall_they_go_through_the_gap(walls):
    start, goal = np.array([[0.5, 0.3]]), np.array([1.5, 0.3])
    i = int(nearest(start, walls.landmarks)[0])
    assert walls.to_goal(goal)[i] > 2.0  # 1.0 as the crow flies
    way = walls.field(start, nearest(start, walls.landmarks), goal)[0]
    assert way[1] > 0.6  # up to the gap first
    assert 0.8 < np.linalg.norm(way) <= 1.0 + 1e-9  # a mean of ways that hardly differ


def test_in_sight_the_way_is_straight(walls):
    start, goal = np.array([[0.2, 0.3]]), np.array([0.6, 1.2])
    way = walls.field(start, nearest(start, walls.landmarks), goal)[0]
    expected = (goal - start[0]) / np.linalg.norm(goal - start[0])
    np.testing.assert_allclose(way, expected, atol=1e-6)


def test_a_line_needs_neighbours_all_the_way():
    landmarks = np.array([[0.0], [1.0], [2.0]])
    joined = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=bool)
    assert lines_of_sight(landmarks, joined).all()
    broken = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=bool)
    np.testing.assert_array_equal(lines_of_sight(landmarks, broken), broken)


def test_the_way_around_is_a_mean_of_paths_nearly_as_short(walls):
    """The definition, step by step, for starts that do not see the goal; and straight on where nobody ever went."""
    rng = np.random.default_rng(1)
    x, goal = rng.uniform([0.0, 0.0], [0.6, 1.0], (20, 2)), np.array([1.6, 0.2])
    cells = nearest(x, walls.landmarks)
    at = int(nearest(goal[None], walls.landmarks)[0])
    found = walls.field(x, cells, goal)
    onward = walls.to_goal(goal)
    for row, cell, way in zip(x, cells, found, strict=True):
        assert not walls.sees[cell, at]
        seen = [j for j in np.flatnonzero(walls.sees[cell]) if j != cell]
        best = sorted(seen, key=lambda j: np.linalg.norm(walls.landmarks[cell] - walls.landmarks[j]) + onward[j])
        ways = walls.landmarks[best[:WAYPOINTS]] - row
        size = np.linalg.norm(ways, axis=1)
        weights = np.exp(-(size + onward[best[:WAYPOINTS]]) / (SOFT * walls.spacing))
        expected = (weights / size) @ ways / weights.sum()
        np.testing.assert_allclose(way, expected, atol=1e-9)
        assert np.linalg.norm(way) <= 1.0 + 1e-9
    alone = LandmarkGraph(np.array([[0.0, 0.0], [4.0, 3.0]]), np.eye(2, dtype=bool))
    np.testing.assert_allclose(alone.field(np.zeros((1, 2)), np.array([0]), np.array([4.0, 3.0])), [[0.8, 0.6]])
