"""A point in a walled maze that walks to one of four hidden goals, around the walls.

Cells are squares of side one; walls are cells of their own (the medium maze of D4RL and OGBench). The agent heads for
the centre of the next cell on the shortest way, and for the goal itself once it is in its cell; a step that a wall
stops slides along it. Everything else is as in `goals2d`: goals follow one another in rounds, and the same exact filter
is the oracle. ``moved_wall`` gives the same maze with one wall elsewhere, for rewards that must transfer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import shortest_path

from worlds.goals2d import FloatArray, GoalsSquare

MEDIUM = ("########", "#..##..#", "#..#...#", "##...###", "#..#...#", "#.#..#.#", "#...#..#", "########")
MOVED = ("########", "#..##..#", "#..#...#", "##...###", "#......#", "#.##.#.#", "#..##..#", "########")
"""The maze, rows from the top, and the same with walls that have moved."""
CORNERS = ((1, 1), (6, 1), (1, 6), (6, 6))
"""Cells (column, row) of the goals."""


@dataclass(frozen=True)
class PointMaze(GoalsSquare):
    """The maze; positions are in cells, (column, row).

    Parameters
    ----------
    walls : tuple of str
        Rows of the maze, # for a wall.
    """

    n_goals: int = 4
    step: float = 0.2
    noise: float = 0.1
    radius: float = 0.4
    horizon: int = 300
    walls: tuple[str, ...] = MEDIUM

    @property
    def goals(self) -> FloatArray:
        """Centres of the corner cells, (4, 2)."""
        return np.array(CORNERS[: self.n_goals]) + 0.5

    @cached_property
    def free(self) -> npt.NDArray[np.bool_]:
        """Which cells can be entered, (columns, rows)."""
        return np.array([[mark != "#" for mark in row] for row in self.walls]).T

    @cached_property
    def _moves(self) -> FloatArray:
        """Which cells lie side by side, (cells, cells)."""
        width, height = self.free.shape
        moves = np.zeros((width * height, width * height))
        for x, y in np.argwhere(self.free):
            for dx, dy in ((1, 0), (0, 1)):
                if x + dx < width and y + dy < height and self.free[x + dx, y + dy]:
                    moves[x * height + y, (x + dx) * height + y + dy] = 1.0
        return moves

    def _next_on_the_way(self, places: FloatArray) -> npt.NDArray[np.int64]:
        """Cell after each cell on the way to each place, (G, cells)."""
        targets = [int(x) * self.free.shape[1] + int(y) for x, y in places]
        _, before = shortest_path(
            self._moves, directed=False, unweighted=True, return_predecessors=True, indices=targets
        )
        return np.asarray(np.where(before < 0, np.arange(self.free.size), before), dtype=np.int64)

    @cached_property
    def _next(self) -> npt.NDArray[np.int64]:
        return self._next_on_the_way(self.goals)

    def towards(self, positions: FloatArray, goals: npt.NDArray[np.int64]) -> FloatArray:
        """Mean command on the way to goals: to the centre of the next cell, at last to the goal."""
        return self._head(positions, self.goals, self._next, goals)

    def heading_for(self, place: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Mean command, as a function of positions (n, 2), of an agent that wants to be at a place (2,) of the maze."""
        cells = np.argwhere(self.free)
        cell = cells[np.linalg.norm(cells + 0.5 - place, axis=1).argmin()]  # never inside of a wall
        own = np.clip(place, cell + 0.01, cell + 0.99)[None]
        following = self._next_on_the_way(own)
        return lambda positions: self._head(positions, own, following, np.zeros(len(positions), np.int64))

    def _head(
        self, positions: FloatArray, goals: FloatArray, following: npt.NDArray[np.int64], which: npt.NDArray[np.int64]
    ) -> FloatArray:
        height = self.free.shape[1]
        column, row = np.clip(np.floor(positions).astype(np.int64), 0, np.array(self.free.shape) - 1).T
        after = following[which, column * height + row]
        centre = np.stack([after // height, after % height], axis=1) + 0.5
        at_goal = (np.floor(goals[which]) == np.floor(positions)).all(axis=1)
        way = np.where(at_goal[:, None], goals[which], centre) - positions
        return np.asarray(self.step * way / np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 1e-9))

    def move(self, positions: FloatArray, commands: FloatArray) -> FloatArray:
        """One axis after the other; a wall stops the axis that would enter it."""
        result = positions.copy()
        for axis in (0, 1):
            tried = result.copy()
            tried[:, axis] += commands[:, axis]
            column, row = np.floor(tried).astype(np.int64).T
            result = np.where(self.free[column, row][:, None], tried, result)
        return result

    def start(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Somewhere in a free cell."""
        cells = np.argwhere(self.free)
        return np.asarray(cells[generator.integers(len(cells), size=n)] + generator.uniform(0.1, 0.9, (n, 2)))

    def moved_wall(self) -> PointMaze:
        """The same goals behind other walls."""
        return replace(self, walls=MOVED)
