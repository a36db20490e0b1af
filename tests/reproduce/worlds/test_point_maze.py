"""The walled maze: nobody walks through walls, and everybody arrives."""

from __future__ import annotations

import numpy as np

from prism_irl.labels import label_accuracy
from worlds.point_maze import MEDIUM, MOVED, PointMaze


def test_nobody_is_ever_inside_a_wall():
    for world in (PointMaze(), PointMaze(noise=0.2), PointMaze().moved_wall()):
        demos = world.simulate(6, seed=0)
        column, row = np.floor(demos.observations).astype(int).T
        assert world.free[column, row].all()


def test_every_goal_can_be_reached_from_everywhere():
    for walls in (MEDIUM, MOVED):
        world = PointMaze(walls=walls, noise=0.0)
        cells = np.argwhere(world.free) + 0.5
        for goal in range(4):
            x, goals = cells.copy(), np.full(len(cells), goal)
            for _ in range(400):
                x = np.where(world.arrived(x, goals)[:, None], x, world.move(x, world.towards(x, goals)))
            assert world.arrived(x, goals).all()


def test_walls_have_moved_and_goals_have_not():
    world = PointMaze()
    moved = world.moved_wall()
    assert (world.free != moved.free).any()
    np.testing.assert_array_equal(world.goals, moved.goals)


def test_the_oracle_knows_the_goal():
    world = PointMaze(horizon=120)
    demos = world.simulate(3, seed=1)
    assert label_accuracy(demos.labels, world.truth(demos).probabilities.argmax(1)) > 0.97
