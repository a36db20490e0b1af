"""Where states lie on a map, as far as that is known.

In this order: a layout that the caller knows (a grid world, a map that somebody drew); the labyrinth or a grid,
recognised by its moves; coordinates in the names of the states ("3,4"); and, for a sparse graph of moves, positions
whose distances are those along the graph (stress majorisation). Data whose states follow one another in every order
has no map, and gets none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import shortest_path

from prism_irl import maze
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.geography import Geography
from prism_irl.evaluation.facts import MAX_STATES
from prism_irl.report.story import successor_counts

MAX_DEGREE = 8.0  # neighbours of a state on average, beyond which nothing like a map is left
MAZE_MOVES = 0.99  # of the moves must be moves of the labyrinth
_PAIR = re.compile(r"\W*(-?\d+(?:\.\d+)?)\s*[,;:x_\s]\s*(-?\d+(?:\.\d+)?)\W*")

Floats = npt.NDArray[np.float64]


def grid(width: int, height: int, barriers: Sequence[tuple[int, int]] = ()) -> dict[str, Any]:
    """Return the layout of a grid world: state = width·y + x, y upwards."""
    y, x = np.divmod(np.arange(width * height), width)
    closed = [width * by + bx for bx, by in barriers]
    note = f"A grid of {width} by {height} cells, state = {width}y + x."
    return layout_of("grid", np.stack([x, y], axis=1), [], note, barriers=closed)


def from_map(place: Geography, demos: Demonstrations) -> dict[str, Any]:
    """Return the layout of a map that somebody drew; without edges of its own, those of the moves in the data."""
    edges = place.edges
    if edges is None:
        counts = successor_counts(demos, np.ones(demos.n_steps)).tocoo()
        pairs = np.stack([np.minimum(counts.row, counts.col), np.maximum(counts.row, counts.col)], axis=1)
        edges = np.unique(pairs[counts.row != counts.col], axis=0)
    found = layout_of("map", place.xy, edges, place.note)
    return found | {"walls": [[round(float(c), 3) for c in wall] for wall in place.walls]}


def find_layout(demos: Demonstrations) -> dict[str, Any] | None:
    """Return the layout of the states, or None where there is none.

    Returns
    -------
    dict or None
        ``kind``, ``xy`` (S pairs, y upwards, None for a state without a place), ``edges`` (pairs of states), ``note``
        (where the layout comes from) and ``barriers``.
    """
    if demos.n_states > MAX_STATES:
        return None
    counts = successor_counts(demos, np.ones(demos.n_steps)).toarray()
    if _is_maze(demos):
        child = np.arange(1, maze.N_NODES)
        edges = np.stack([maze.parents()[1:], child], axis=1)
        return layout_of("maze", maze.layout() * (1, -1), edges, "The labyrinth of Rosenberg et al. (2021).")
    moves = (counts + counts.T) > 0
    np.fill_diagonal(moves, False)
    edges = np.argwhere(np.triu(moves))
    if (named := _coordinates(demos.state_names)) is not None:
        return layout_of("coordinates", named, edges, "Positions are the coordinates in the names of the states.")
    if (width := _grid_width(demos, edges)) is not None:
        return grid(width, demos.n_states // width)
    visited = np.flatnonzero(np.bincount(demos.states, minlength=demos.n_states))
    if len(visited) < 3 or 2 * len(edges) > MAX_DEGREE * len(visited):
        return None
    xy = np.full((demos.n_states, 2), np.nan)
    xy[visited] = _stress(moves[np.ix_(visited, visited)])
    return layout_of(
        "graph",
        xy,
        edges,
        "Positions are computed (--map and --grid give true ones): states that follow one another lie close together.",
    )


def layout_of(kind: str, xy: npt.ArrayLike, edges: Any, note: str, barriers: Sequence[int] = ()) -> dict[str, Any]:
    """A layout as `find_layout` returns it, of positions (S, 2), NaN where a state has no place."""
    points = [None if np.isnan(point).any() else [round(float(c), 3) for c in point] for point in np.asarray(xy, float)]
    pairs = [[int(i), int(j)] for i, j in edges]
    return {"kind": kind, "xy": points, "edges": pairs, "barriers": [int(b) for b in barriers], "note": note}


def _is_maze(demos: Demonstrations) -> bool:
    if (demos.n_states, demos.n_actions) != (maze.N_NODES, maze.N_ACTIONS) or demos.state_names is not None:
        return False
    here = np.flatnonzero(~demos.first_steps) - 1
    if not len(here):
        return False
    expected = maze.successors()[demos.states[here].astype(np.int64), demos.actions[here].astype(np.int64)]
    return bool((expected == demos.states[here + 1]).mean() >= MAZE_MOVES)


def _grid_width(demos: Demonstrations, edges: npt.NDArray[Any]) -> int | None:
    """Width of the grid of which every move goes to a neighbouring cell, if there is one."""
    if demos.state_names is not None or not len(edges):
        return None
    apart = edges[:, 1] - edges[:, 0]
    width = int(apart.max())
    sideways = edges[apart == 1]
    if width < 3 or demos.n_states % width or not len(sideways) or not np.isin(apart, (1, width)).all():
        return None
    return None if (sideways[:, 1] % width == 0).any() else width  # no move leads around the edge


def _coordinates(names: Sequence[str] | None) -> Floats | None:
    if not names:
        return None
    found = [_PAIR.fullmatch(name) for name in names]
    return None if None in found else np.array([[float(m[1]), float(m[2])] for m in found if m is not None])


def _stress(moves: npt.NDArray[np.bool_], iterations: int = 150) -> Floats:
    """(S, 2) positions whose distances are the numbers of moves between states: SMACOF from classical scaling.

    Each round is the Guttman transform X ← B(X) X / S with B_ij = −d_ij / |x_i − x_j|, which never raises the stress.
    """
    d = shortest_path(moves.astype(float), directed=False, unweighted=True)
    finite = d[np.isfinite(d)]
    d = np.where(np.isfinite(d), d, finite.max() + 1)
    n = len(d)
    centred = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centred @ d**2 @ centred)
    x = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-9))
    x = x * np.where(x[0] > 0, -1.0, 1.0)  # the first state in the lower left, whatever sign the solver chose
    for _ in range(iterations):
        distance = np.linalg.norm(x[:, None] - x[None], axis=-1)
        b = -d / np.maximum(distance, 1e-9)
        np.fill_diagonal(b, 0.0)
        np.fill_diagonal(b, -b.sum(axis=1))
        x = b @ x / n
    return np.asarray(x, np.float64)
