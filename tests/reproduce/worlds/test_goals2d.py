"""The square with goals: rounds, noise, and a filter that is exact."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from prism_irl.errors import InputError
from prism_irl.labels import label_accuracy
from worlds.goals2d import GoalsSquare


def test_every_goal_comes_once_in_a_round():
    world = GoalsSquare(n_goals=3, horizon=400, noise=0.05)
    demos = world.simulate(2, seed=1)
    for a, b in pairwise(demos.offsets):
        labels = demos.labels[a:b]
        order = labels[np.flatnonzero(np.diff(labels, prepend=-1))]
        assert len(order) > 6
        for i in range(1, len(order) - 3, 2):  # any two goals in a row differ, and three of a round are all
            assert order[i] != order[i + 1]


def test_commands_are_the_way_plus_noise_of_the_size_asked_for():
    for kind, spread in (("uniform", 0.1 / np.sqrt(3)), ("gaussian", 0.1)):
        world = GoalsSquare(n_goals=2, noise=0.1, noise_kind=kind, horizon=200)
        demos = world.simulate(10, seed=0)
        residual = demos.motions - world.towards(demos.observations.astype(float), demos.labels.astype(np.int64))
        assert abs(residual.std() - spread) < 0.01


def test_the_filter_is_that_of_all_paths():
    """Sum over every sequence of (goal, visited) by hand, on a few steps."""
    world = GoalsSquare(n_goals=2, horizon=6, radius=6.0)  # so large that goals are reached again and again
    demos = world.simulate(1, seed=2)
    x, y = demos.observations.astype(float), demos.motions
    weights = {}
    for path in product(range(2), repeat=6):
        # reached at the first step or not, depending on where it began
        total = 0.0
        for first in range(2):
            p, goal, visited = 0.5, first, np.zeros(2, bool)
            for t in range(6):
                if world.arrived(x[t : t + 1], np.array([goal]))[0]:
                    visited, options = world.round_after(visited, goal)
                    p *= options[path[t]] / options.sum()
                else:
                    p *= path[t] == goal
                goal = path[t]
                mean = world.towards(x[t : t + 1], np.array([goal]))
                p *= np.exp(world.log_density(y[t] - mean)[0])
            total += p
        weights[path] = total
    evidence = sum(weights.values())
    expected = np.array([[sum(w for z, w in weights.items() if z[t] == g) for g in range(2)] for t in range(6)])
    found = world.truth(demos)
    np.testing.assert_allclose(found.probabilities, expected / evidence, atol=1e-6)
    np.testing.assert_allclose(found.log_likelihood.sum(), np.log(evidence), atol=1e-6)


def test_whoever_knows_the_world_is_nearly_always_right():
    world = GoalsSquare(n_goals=3, horizon=80)
    demos = world.simulate(5, seed=3)
    assert label_accuracy(demos.labels, world.truth(demos).probabilities.argmax(1)) > 0.97


def test_a_square_with_one_goal_is_refused():
    with pytest.raises(InputError, match="2 to 5 goals"):
        GoalsSquare(n_goals=1)
