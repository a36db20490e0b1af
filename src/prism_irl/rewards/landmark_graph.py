"""A graph of landmarks: how far it is to a goal, and which way leads there, learned from where the agent went.

Landmarks are k-means centres of the observations. Two are neighbours where a transition between their cells was
observed, and one sees another where the straight line between them passes from cell to neighbouring cell all the way:
a wall is where nobody ever crossed (and is seen where it is thicker than a cell). Distances are shortest paths along
lines of sight, so that in the open they are those of a ruler, and around a wall those of a rope.

    D(x, g) = |x − g| where x sees g, else min_j D_j, D_j = |x − l_j| + D(l_j, g) over the landmarks that x sees
    u(x, g) = the direction of g where x sees it, of length one (less than one within a step of the goal), else
              Σ_j w_j (l_j − x) / |l_j − x|,     w_j ∝ exp(−D_j / (SOFT · distance between landmarks))

The way around a wall is a mean over paths that are nearly as short as the shortest. Which of them that is hangs on
where k-means happened to put a landmark, and not on the agent: a mean varies less from graph to graph, keeps to the
middle of a corridor, and is shorter where two ways around are equally long and nobody knows which is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import shortest_path

FloatArray = npt.NDArray[np.float64]
SAMPLES = 24
"""Points along a line at which its cell is looked up."""
WAYPOINTS = 8
"""Landmarks of a cell that may be the first stretch of a path: the best ones, seen from its centre."""
SOFT = 0.6
"""How much longer than the shortest a path may be to count nearly as much, in distances between landmarks. Settled by
likelihood in simulated mazes, with noise of 0.1 and 0.2; in the open it hardly matters."""
RARE = 1
"""Observed crossings that make two cells neighbours."""
FAR = 1e3
"""Distance to where no path leads, in standard deviations."""


class LandmarkGraph:
    """Landmarks (L, d), and which of them see each other, (L, L)."""

    def __init__(self, landmarks: FloatArray, sees: npt.NDArray[np.bool_]) -> None:
        self.landmarks, self.sees = landmarks, sees
        apart = np.linalg.norm(landmarks[:, None] - landmarks[None], axis=2)
        lengths = np.where(sees, np.maximum(apart, 1e-9), 0.0)
        np.fill_diagonal(lengths, 0.0)
        found = shortest_path(lengths, directed=False)
        self.distances: FloatArray = np.where(np.isfinite(found), found, FAR)
        np.fill_diagonal(apart, np.inf)
        self.spacing = float(np.median(apart.min(axis=1))) if len(landmarks) > 1 else 0.0
        self._stretches = np.where(sees, apart, np.inf)  # to a landmark on the way, not to the one that is left
        self._kept: tuple[npt.NDArray[Any], npt.NDArray[np.float32]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what was kept to save time."""
        return {**self.__dict__, "_kept": None}

    @classmethod
    def fit(
        cls,
        observations: npt.NDArray[Any],
        first_steps: npt.NDArray[np.bool_],
        n_landmarks: int,
        seed: int,
        reach: float = np.inf,
    ) -> LandmarkGraph:
        """Landmarks of observations (n, d) and lines of sight from the transitions between their cells.

        ``reach`` is how far a line of sight goes, in distances between landmarks: all the way for an agent that takes
        the shortest path, a few for one that follows the middle of its corridors.
        """
        from sklearn.cluster import MiniBatchKMeans

        n = min(n_landmarks, len(np.unique(observations, axis=0)))
        clusters = MiniBatchKMeans(n, n_init=1, random_state=seed, batch_size=4096).fit(observations)
        landmarks = np.asarray(clusters.cluster_centers_, dtype=np.float64)
        cells = nearest(observations, landmarks)
        later = np.flatnonzero(~first_steps)
        crossings = np.zeros((n, n))
        np.add.at(crossings, (cells[later - 1], cells[later]), 1.0)
        neighbours = crossings + crossings.T >= RARE
        np.fill_diagonal(neighbours, True)
        sees = lines_of_sight(landmarks, neighbours)
        if np.isfinite(reach):
            apart = np.linalg.norm(landmarks[:, None] - landmarks[None], axis=2)
            typical = np.median(np.where(np.eye(n, dtype=bool), np.inf, apart).min(axis=1))
            sees &= (apart <= reach * typical) | neighbours
        return cls(landmarks, sees)

    def field(self, observations: npt.NDArray[Any], cells: npt.NDArray[np.int64], goal: FloatArray) -> FloatArray:
        """u(x, g), (n, d): directions towards a goal (d,) from observations (n, d) in cells (n,)."""
        towards = goal - observations
        at = int(nearest(goal[None], self.landmarks)[0])
        size = np.sqrt(np.einsum("nd,nd->n", towards, towards))[:, None]
        found = towards * (np.minimum(1.0, size / self.slow) / np.maximum(size, 1e-9))
        hidden = ~self.sees[:, at][cells]
        if hidden.any():
            found[hidden] = self._around(observations[hidden], cells[hidden], self.to_goal(goal), found[hidden])
        return np.asarray(found)

    def _around(self, x: FloatArray, cells: npt.NDArray[np.int64], to_goal: FloatArray, straight: FloatArray) -> Any:
        """u(x, g), (n, d), where the goal is out of sight; ``straight`` (n, d) where no path leads there."""
        length = self._stretches + to_goal
        order = np.argsort(length, axis=1)[:, : min(WAYPOINTS, len(length))]
        onward = np.where(np.isfinite(np.take_along_axis(length, order, axis=1)), to_goal[order], np.inf)
        ways = self.landmarks[order[cells]] - x[:, None]
        size = np.sqrt(np.einsum("nwd,nwd->nw", ways, ways))
        total = size + onward[cells]
        shortest = total.min(axis=1, keepdims=True)
        leads = np.isfinite(shortest)
        weights = np.exp((np.where(leads, shortest, 0.0) - total) / max(SOFT * self.spacing, 1e-9))
        mean = np.einsum("nw,nwd->nd", weights / np.maximum(size, 1e-9), ways)
        return np.where(leads, mean / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9), straight)

    def all_fields(self, observations: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """u(x, l) for every landmark as the goal, (L, n, d); kept for the observations of the last call."""
        if self._kept is None or self._kept[0] is not observations:
            cells = nearest(observations, self.landmarks)
            x = observations.astype(np.float64)
            ways = np.empty((len(self.landmarks), *observations.shape), np.float32)
            for row, goal in zip(ways, self.landmarks, strict=True):
                row[:] = self.field(x, cells, goal)
            self._kept = observations, ways
        return self._kept[1]

    def within(self, places: FloatArray) -> npt.NDArray[np.bool_]:
        """Whether places (n, d) lie among the landmarks; the first always does, so that a search can stay."""
        own = self.landmarks[nearest(places, self.landmarks)]
        inside = np.linalg.norm(places - own, axis=1) <= self.spacing
        inside[0] = True
        return np.asarray(inside)

    slow = 0.1
    """Distance from a goal, in standard deviations, within which the way to it fades out."""

    def to_goal(self, goal: FloatArray) -> FloatArray:
        """D(l_j, g), (L,)."""
        at = int(nearest(goal[None], self.landmarks)[0])
        seen = self.sees[at]
        apart = np.linalg.norm(self.landmarks - goal, axis=1)
        around = (self.distances[:, seen] + apart[seen]).min(axis=1) if seen.any() else np.full(len(apart), FAR)
        return np.asarray(np.where(seen, apart, around))


def nearest(points: npt.NDArray[Any], centres: FloatArray) -> npt.NDArray[np.int64]:
    """Number of the nearest centre, (n,)."""
    found = np.empty(len(points), dtype=np.int64)
    for start in range(0, len(points), 2**15):
        rows = slice(start, start + 2**15)
        found[rows] = (-2.0 * points[rows] @ centres.T + (centres**2).sum(axis=1)).argmin(axis=1)
    return found


def lines_of_sight(landmarks: FloatArray, neighbours: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which straight lines pass from cell to neighbouring cell all the way, (L, L)."""
    L = len(landmarks)
    i, j = np.triu_indices(L, 1)
    shares = np.linspace(0.0, 1.0, SAMPLES)
    sees = np.eye(L, dtype=bool)
    for rows in np.array_split(np.arange(len(i)), max(1, len(i) * SAMPLES // 2**18)):
        points = landmarks[i[rows], None] + shares[:, None] * (landmarks[j[rows]] - landmarks[i[rows]])[:, None]
        cells = nearest(points.reshape(-1, landmarks.shape[1]), landmarks).reshape(len(rows), SAMPLES)
        clear = neighbours[cells[:, :-1], cells[:, 1:]].all(axis=1)
        sees[i[rows[clear]], j[rows[clear]]] = sees[j[rows[clear]], i[rows[clear]]] = True
    return sees
