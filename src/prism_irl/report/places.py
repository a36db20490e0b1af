"""Where states lie on a map, as far as that is known.

In this order: a layout that the caller knows (a grid world, a map that somebody drew); the labyrinth or a grid,
recognised by its moves; coordinates in the names of the states ("3,4", "x3y4", "r3c1"); a grid whose states have any
names, where each action moves by one cell in its own direction; and, for a sparse graph of moves, positions whose
distances are those along the graph (stress majorisation). Data whose states follow one another in every order, such as
the cues of a task, has no map, and gets none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import shortest_path

from prism_irl import maze
from prism_irl.data.continuous import Units
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.geography import Geography
from prism_irl.evaluation.tables import MAX_STATES
from prism_irl.report.story import successor_counts

MAX_DEGREE = 8.0  # neighbours of a state on average, beyond which nothing like a map is left
MAZE_MOVES = 0.99  # of the moves must be moves of the labyrinth
FAR = 1.7  # moves between two states on average, below which a graph has no shape: its picture would be a ring
FILLED = 0.5  # share of the cells of a grid that states with whole coordinates must fill
STEPS = 0.95  # share of the moves that must be steps of a grid, for a grid that is found by its actions
_NUMBER = r"(-?\d+(?:\.\d+)?)"
_PAIR = re.compile(rf"\W*{_NUMBER}\s*[,;:x_\s]\s*{_NUMBER}\W*")
_XY = re.compile(rf"\W*(?:\w+[_\W])?x\W*{_NUMBER}[_\W]*y\W*{_NUMBER}\W*", re.IGNORECASE)
_ROW_COLUMN = re.compile(rf"\W*(?:\w+[_\W])?r(?:ow)?\W*{_NUMBER}[_\W]*c(?:ol|olumn)?\W*{_NUMBER}\W*", re.IGNORECASE)
_COMPASS = {"right": (1, 0), "east": (1, 0), "e": (1, 0), "left": (-1, 0), "west": (-1, 0), "w": (-1, 0)}
_COMPASS |= {"up": (0, 1), "north": (0, 1), "n": (0, 1), "down": (0, -1), "south": (0, -1), "s": (0, -1)}

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

    It has ``kind``, ``xy`` (S pairs, y upwards, None for a state without a place), ``edges`` (pairs of states),
    ``note`` (where the layout comes from) and ``barriers``.
    """
    if demos.n_states > MAX_STATES:
        return None
    counts = successor_counts(demos, np.ones(demos.n_steps)).toarray()
    here = np.flatnonzero(~demos.first_steps) - 1
    maze_like = (demos.n_states, demos.n_actions) == (maze.N_NODES, maze.N_ACTIONS) and demos.state_names is None
    if maze_like and len(here):
        expected = maze.successors()[demos.states[here].astype(np.int64), demos.actions[here].astype(np.int64)]
        maze_like = bool((expected == demos.states[here + 1]).mean() >= MAZE_MOVES)
    if maze_like and len(here):
        child = np.arange(1, maze.N_NODES)
        edges = np.stack([maze.parents()[1:], child], axis=1)
        return layout_of("maze", maze.layout() * (1, -1), edges, "The labyrinth of Rosenberg et al. (2021).")
    moves = (counts + counts.T) > 0
    np.fill_diagonal(moves, False)
    edges = np.argwhere(np.triu(moves))
    if (named := _coordinates(demos.state_names)) is not None:
        kind = "grid" if _fills_a_grid(named) else "coordinates"
        return layout_of(kind, named, edges, "Positions are the coordinates in the names of the states.")
    if (width := _grid_width(demos, edges)) is not None:
        return grid(width, demos.n_states // width)
    visited = np.flatnonzero(np.bincount(demos.states, minlength=demos.n_states))
    if len(visited) < 3 or 2 * len(edges) > MAX_DEGREE * len(visited):
        return None
    if (cells := _by_actions(demos)) is not None:
        return layout_of("grid", cells, edges, "A grid, found from where each action leads.")
    if (found := _stress(moves[np.ix_(visited, visited)])) is None:
        return None
    xy = np.full((demos.n_states, 2), np.nan)
    xy[visited] = found
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
    for pattern in (_PAIR, _XY, _ROW_COLUMN):
        found = [match for name in names if (match := pattern.fullmatch(name)) is not None]
        if len(found) == len(names):
            pairs = np.array([[float(m[1]), float(m[2])] for m in found])
            return pairs[:, ::-1] * (1, -1) if pattern is _ROW_COLUMN else pairs  # rows are counted downwards
    return None


def _fills_a_grid(xy: Floats) -> bool:
    """Whether positions (S, 2) are whole cells, each its own, that fill most of a rectangle."""
    size = np.ptp(xy, axis=0) + 1
    whole = (xy == np.round(xy)).all() and len(np.unique(xy, axis=0)) == len(xy)
    return bool(whole and size.min() >= 2 and len(xy) >= FILLED * size.prod())


def _by_actions(demos: Demonstrations) -> Floats | None:
    """(S, 2) cells of a grid on which each action is a step of its own, NaN for a state without moves, if there is one.

    Where an action leads from a state is where it mostly leads to. Two pairs of actions undo each other; they are the
    two axes, named ones as a compass has them. States are then placed along the moves, and all moves must agree.
    """
    S, A = demos.n_states, demos.n_actions
    here = np.flatnonzero(~demos.first_steps) - 1
    pair = demos.states[here].astype(np.int64) * A + demos.actions[here]
    counts = np.zeros((S * A, S), np.int32)
    np.add.at(counts, (pair, demos.states[here + 1]), 1)
    sure = (counts.max(axis=1) >= 2) & (2 * counts.max(axis=1) > counts.sum(axis=1))  # the rest may be slips
    leads = np.where(sure, counts.argmax(axis=1), -1).reshape(S, A)
    moves = {a: {s: int(leads[s, a]) for s in range(S) if leads[s, a] not in (-1, s)} for a in range(A)}
    undone = np.array([[sum(moves[b].get(t) == s for s, t in moves[a].items()) for b in range(A)] for a in range(A)])
    np.fill_diagonal(undone, 0)
    found = {a: _COMPASS[name.lower()] for a, name in enumerate(demos.action_names or ()) if name.lower() in _COMPASS}
    step = found if len(found) >= 4 else None
    if step is None:
        step, free = {}, [a for a in range(A) if moves[a]]
        for axis in ((1, 0), (0, 1)):
            best = max(((undone[a, b], a, b) for a in free for b in free if a < b), default=(0, 0, 0))
            if best[0] < 2:
                return None
            step |= {best[1]: axis, best[2]: (-axis[0], -axis[1])}
            free = [a for a in free if a not in best[1:]]
    steps = [(s, t, step[a]) for a in step for s, t in moves[a].items()]
    links: dict[int, list[tuple[int, int, int]]] = {}
    for s, t, (dx, dy) in steps:
        links.setdefault(s, []).append((t, dx, dy))
        links.setdefault(t, []).append((s, -dx, -dy))
    if len(links) < 4:
        return None
    place = {min(links): (0, 0)}
    waiting = list(place)
    for s in waiting:
        for t, dx, dy in links[s]:
            if t not in place:
                place[t] = (place[s][0] + dx, place[s][1] + dy)
                waiting.append(t)
    agree = [t in place and place[t] == (place[s][0] + dx, place[s][1] + dy) for s, t, (dx, dy) in steps if s in place]
    if len(place) < len(links) or np.mean(agree) < STEPS or len(set(place.values())) < len(place):
        return None
    xy = np.full((S, 2), np.nan)
    for s, cell in place.items():
        xy[s] = cell
    xy -= np.nanmin(xy, axis=0)
    return xy if _fills_a_grid(xy[np.isfinite(xy).all(axis=1)]) else None


def _stress(moves: npt.NDArray[np.bool_]) -> Floats | None:
    """(S, 2) positions whose distances are the numbers of moves between states: SMACOF from classical scaling.

    Each round is the Guttman transform X ← B(X) X / S with B_ij = −d_ij / |x_i − x_j|, which never raises the stress.
    None where a graph has no more of a shape than a ring of states that all follow one another.
    """
    d = shortest_path(moves.astype(float), directed=False, unweighted=True)
    finite = d[np.isfinite(d)]
    apart = finite[finite > 0]
    if not len(apart) or (apart.mean() < FAR and int(np.triu(moves).sum()) >= len(moves)):
        return None
    d = np.where(np.isfinite(d), d, finite.max() + 1)
    n = len(d)
    centred = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centred @ d**2 @ centred)
    x = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-9))
    x = x * np.where(x[0] > 0, -1.0, 1.0)  # the first state in the lower left, whatever sign the solver chose
    for _ in range(150):
        distance = np.linalg.norm(x[:, None] - x[None], axis=-1)
        b = -d / np.maximum(distance, 1e-9)
        np.fill_diagonal(b, 0.0)
        np.fill_diagonal(b, -b.sum(axis=1))
        x = b @ x / n
    return np.asarray(x, np.float64)


VECTOR = 4
"""Numbers of a vector that stand in the name of a cell."""

SAME = 1e-6
"""Share of a quantity below which its differences are those of rounding."""


def cells_of(demos: Demonstrations, units: Units) -> tuple[Demonstrations, dict[str, Any]]:
    """Demonstrations over cells, which have names, and their layout.

    Two observations are the two axes. Of more, the first two principal components of the standardised cells are, which
    show most of the spread and no single quantity.
    """
    in_cells = units.apply(demos)
    names = in_cells.observation_names or tuple(f"observation {i}" for i in range(units.cells.shape[1]))
    places = units.places()
    if len(names) == 2:
        xy, note = places, f"Cells of the observations; {names[0]} to the right, {names[1]} upwards."
    elif len(names) == 1:
        xy = np.concatenate([places, np.zeros_like(places)], axis=1)
        note = f"Cells of the observation; {names[0]} to the right."
    else:
        # Weighted by their steps: a few cells far out would otherwise be all that one sees.
        visits = np.bincount(in_cells.states, minlength=in_cells.n_states) / in_cells.n_steps
        centred = units.cells - visits @ units.cells
        axes = np.linalg.svd(np.sqrt(visits)[:, None] * centred, full_matrices=False)[2][:2]
        low, high = np.quantile((centred @ axes.T)[in_cells.states], (0.01, 0.99), axis=0)
        xy = np.clip(centred @ axes.T, low, high)
        most = [names[int(np.abs(axis).argmax())] for axis in axes]
        what = f"most of {most[0]}; of {most[1]}"
        note = f"Cells on the first two principal components of the observations ({what}), far ones at the margin."
    given = getattr(demos, "motion_names", None) or tuple(f"command {i}" for i in range(units.commands.shape[1]))
    done = units.commands * units.command_spread + units.command_mean
    shown = Demonstrations(
        in_cells.states,
        in_cells.actions,
        in_cells.offsets,
        in_cells.n_states,
        in_cells.n_actions,
        labels=demos.labels,
        groups=demos.groups,
        state_names=_words("cell", names, places),
        action_names=_words("command", given, done),
        label_names=demos.label_names,
        trajectory_names=demos.trajectory_names,
    )
    counts = successor_counts(shown, np.ones(shown.n_steps)).toarray()
    if len(names) > 2:  # lines between all of them would hide them: the move that is made most often from each cell
        np.fill_diagonal(counts, 0)
        most_often = np.stack([np.arange(len(counts)), counts.argmax(axis=1)], axis=1)[counts.max(axis=1) > 0]
        return shown, layout_of("cells", xy, np.unique(np.sort(most_often, axis=1), axis=0), note)
    moves = np.triu((counts + counts.T) > 0, 1)
    return shown, layout_of("cells", xy, np.argwhere(moves), note)


def _words(what: str, names: Sequence[str], centres: npt.NDArray[np.float64]) -> tuple[str, ...]:
    """A name for each centre (n, d): its number, and the first quantities, as finely as a reader needs them."""
    spread = np.maximum(np.ptp(centres, axis=0), 1e-12)
    digits = np.clip(np.ceil(np.log10(20 / spread)), 0, 6).astype(int)  # steps of at most a twentieth of the range
    still = spread <= SAME * np.abs(centres).max(axis=0)  # what never changes needs no decimals to tell cells apart
    # Adding 0 turns −0.00 into 0.00.
    told = [
        [f"{v:.3g}" if same else f"{round(v, d) + 0.0:.{d}f}" for v, d, same in zip(one, digits, still, strict=True)]
        for one in centres
    ]
    vector = {name.partition("[")[0] for name in names} if all(name.endswith("]") for name in names) else set()
    if len(vector) == 1:  # parts of one vector, observation.state[0] and so on: its name once
        name, rest = vector.pop().rpartition(".")[2], ", …" if len(names) > VECTOR else ""
        return tuple(f"{what} {i} ({name} {', '.join(one[:VECTOR])}{rest})" for i, one in enumerate(told))
    words = [", ".join(f"{name} {value}" for name, value in zip(names[:3], one, strict=False)) for one in told]
    return tuple(f"{what} {i} ({own})" for i, own in enumerate(words))
