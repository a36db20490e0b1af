"""What recovered goals are worth in a maze whose walls have moved: planned anew, walked with noise, and paid truly.

    return = γ^T,     T the step at which the agent is first within the radius of the true goal

That is what ends an intention in this world, too. An agent plans the way to every recovered goal on the new map, walks
it and waits there; the same agent does so with the true goals, from the same starts and with the same noise. The score
is the ratio of the two returns: an agent that waits beside the goal is paid late or never.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from worlds.point_maze import PointMaze

FloatArray = npt.NDArray[np.float64]
WALKERS, STEPS, DISCOUNT = 64, 200, 0.97
"""Agents per goal, how long they walk, and how much the next step counts beside this one."""


def transfer(world: PointMaze, places: FloatArray, seed: int) -> float:
    """Return of planning with recovered goals (K, 2), relative to that of the true ones, after the walls have moved."""
    moved = world.moved_wall()
    apart = np.linalg.norm(places[:, None] - world.goals[None], axis=2)
    mine, true = linear_sum_assignment(apart)
    earned = [
        [walk(moved, place, int(goal), seed) for place in (places[k], world.goals[goal])]
        for k, goal in zip(mine, true, strict=True)
    ]
    got, possible = np.sum(earned, axis=0)
    return float(got / possible)


def walk(world: PointMaze, place: FloatArray, goal: int, seed: int) -> float:
    """Mean discounted return, paid when a goal is reached, of agents that head for a place."""
    generator = np.random.default_rng([seed, goal])
    x = world.start(WALKERS, generator)
    command, left, total = world.heading_for(place), np.ones(WALKERS, dtype=bool), 0.0
    for t in range(STEPS):
        there = left & (np.linalg.norm(x - world.goals[goal], axis=1) < world.radius)
        total += DISCOUNT**t * float(there.mean())
        left &= ~there
        near = np.linalg.norm(x - place, axis=1, keepdims=True)
        way = command(x) * np.minimum(1.0, near / world.step)  # whoever is there stays
        x = world.move(x, way + generator.normal(0.0, world.noise, x.shape))
    return total
