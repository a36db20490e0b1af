"""Maps of the labyrinth, and of any graph with a layout: a number per node as colour, the greedy flow as arrows.

Corridors take the colour between those of the nodes at their ends, walls are drawn as in the real maze, a star marks
the water port and a circle the entrance. Nodes that nobody visited are grey, because what inverse reinforcement
learning says about them is an echo of their neighbours. `figures.maps.add_colorbar` adds the scale.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import LogNorm, Normalize, to_rgba
from numpy.typing import ArrayLike, NDArray

from prism_irl import maze
from prism_irl.errors import InputError
from prism_irl.figures.data import BACKDROP
from prism_irl.figures.style import BARRIER, FAINT, INK, MUTED, UNVISITED, VALUE_MAP, ink_on

Floats = NDArray[np.float64]

# An arrow that points along x, from −½ to ½: shaft and head, widened or narrowed by its confidence.
_ARROW = np.array(
    [(-0.5, -0.5), (0.0, -0.5), (0.0, -1.2), (0.5, 0.0), (0.0, 1.2), (0.0, 0.5), (-0.5, 0.5)], dtype=np.float64
)
DISC = 0.28  # radius of a disc, in shares of an edge
_UNIT_CELL = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)])


def maze_map(
    ax: Axes,
    values: ArrayLike,
    *,
    policy: ArrayLike | None = None,
    title: str | None = None,
    limits: tuple[float, float] | None = None,
    norm: Normalize | None = None,
    colours: str = VALUE_MAP,
) -> Axes:
    """Draw one number per node of the labyrinth.

    Parameters
    ----------
    ax : Axes
    values : (127,)
        Reward or value of each node; NaN, for nodes that were never visited, is greyed out.
    policy : (127, 4), optional
        Action probabilities, of which the largest of each node becomes an arrow, the wider and darker the further it is
        ahead of the second. Greyed nodes get none, and neither do dead ends, which leave no choice.
    title : str, optional
    limits : (low, high), optional
        Ends of the colour scale; by default the range of the nodes that are visible.
    norm : Normalize, optional
        Another scale, such as a logarithmic one, in place of ``limits``.
    colours : str
        Name of the colour scale.
    """
    v, hidden = _numbers(values, maze.N_NODES)
    scale = norm if norm is not None else _scale(v[~hidden], limits)
    cells = maze.cells()
    between = (1 - cells.share) * v[cells.ends[:, 0]] + cells.share * v[cells.ends[:, 1]]
    nearest = np.where(cells.share <= 0.5, cells.ends[:, 0], cells.ends[:, 1])
    # Where one end is grey, the half corridor on the other side keeps the colour of its own node.
    lonely = hidden[cells.ends].any(axis=1)
    between[lonely] = v[nearest[lonely]]
    visible = np.ma.array(between, mask=hidden[nearest])
    squares = cells.xy[:, None] + _UNIT_CELL
    shades = colormaps[colours].with_extremes(bad=UNVISITED)
    # Edges in the colour of the faces: without them hairlines of the background show between the cells.
    ax.add_collection(PolyCollection(list(squares), array=visible, cmap=shades, norm=scale, edgecolors="face", lw=0.3))
    ax.add_collection(
        LineCollection(list(maze.walls()), colors=BARRIER, linewidths=0.7, capstyle="projecting", label=BACKDROP)
    )
    if policy is not None:
        p = np.asarray(policy, float)
        if p.shape != (maze.N_NODES, maze.N_ACTIONS):
            raise InputError(f"The policy has shape {p.shape}; the maze needs ({maze.N_NODES}, {maze.N_ACTIONS}).")
        _draw_flow(ax, np.where(maze.valid_actions(), p, 0.0), hidden, _ink(v, scale, colours))
    x, y = maze.layout()[maze.WATER]
    ax.plot(x, y, "*", markersize=8, color="white", markeredgecolor=INK, markeredgewidth=0.7, zorder=5)
    x, y = maze.ENTRANCE
    ax.plot(x, y, "o", markersize=5, markerfacecolor="white", markeredgecolor=INK, markeredgewidth=1, clip_on=False)
    _finish(ax, title)
    ax.set(xlim=(-1.0, maze.SIZE - 0.3), ylim=(maze.SIZE - 0.3, -0.7))
    return ax


def occupancy_map(ax: Axes, states: ArrayLike, *, weights: ArrayLike | None = None, title: str | None = None) -> Axes:
    """Draw the share of steps at each node, on a logarithmic scale; nodes without steps are grey.

    Parameters
    ----------
    ax : Axes
    states : (n,) int
        Node of every step.
    weights : (n,), optional
        Weight of every step, such as the responsibility of one intention for it.
    title : str, optional
    """
    nodes = np.asarray(states)
    if nodes.ndim != 1 or not len(nodes) or nodes.min() < 0 or nodes.max() >= maze.N_NODES:
        raise InputError(f"The states of shape {nodes.shape} are no nodes of the maze; give numbers from 0 to 126.")
    w = None if weights is None else np.asarray(weights, float)
    if w is not None and (w.shape != nodes.shape or w.min() < 0 or not w.sum() > 0):
        raise InputError(f"The weights of shape {w.shape} do not fit {len(nodes)} steps; give one of at least 0 each.")
    visits = np.bincount(nodes.astype(np.int64), weights=w, minlength=maze.N_NODES).astype(np.float64)
    share = visits / visits.sum()
    visible = share[share > 0]
    scale = LogNorm(visible.min(), max(visible.max(), visible.min() * 1.001))
    return maze_map(ax, np.where(share > 0, share, np.nan), title=title, norm=scale)


def graph_map(
    ax: Axes,
    values: ArrayLike,
    *,
    layout: ArrayLike,
    edges: Sequence[tuple[int, int]] | ArrayLike,
    towards: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    title: str | None = None,
    limits: tuple[float, float] | None = None,
    colours: str = VALUE_MAP,
) -> Axes:
    """Draw one number per node of any graph.

    Parameters
    ----------
    ax : Axes
    values : (S,)
        Number of each node; NaN is greyed out.
    layout : (S, 2)
        Where nodes are drawn, x to the right and y upwards.
    edges : (E, 2) int
        Pairs of nodes to join by a line.
    towards : (S,) int, optional
        Node that an arrow at each node points to, negative or the node itself for none.
    confidence : (S,), optional
        0 to 1, the width and darkness of the arrows; 1 by default.
    title : str, optional
    limits : (low, high), optional
        Ends of the colour scale; by default the range of the nodes that are visible.
    colours : str
        Name of the colour scale.
    """
    xy = np.asarray(layout, float)
    if xy.ndim != 2 or xy.shape[1] != 2 or not len(xy):
        raise InputError(f"The layout has shape {xy.shape}; give (x, y) of every node, (S, 2).")
    v, hidden = _numbers(values, len(xy))
    pairs = np.asarray(edges, np.int64).reshape(-1, 2)
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= len(xy)):
        raise InputError(f"An edge names the node {pairs.max()}; nodes run from 0 to {len(xy) - 1}.")
    scale = _scale(v[~hidden], limits)
    unit = _unit(xy, pairs)
    # Discs as polygons in data units, so that they keep their size relative to the edges in any figure.
    angle = np.linspace(0, 2 * np.pi, 25)[:-1]
    discs = xy[:, None] + DISC * unit * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    shades = colormaps[colours].with_extremes(bad=UNVISITED)
    nodes = PolyCollection(
        list(discs), array=np.ma.array(v, mask=hidden), cmap=shades, norm=scale, edgecolors=MUTED, lw=0.4, zorder=2
    )
    ax.add_collection(nodes)
    ax.add_collection(LineCollection(list(xy[pairs]), colors=FAINT, linewidths=2.5, zorder=1, label=BACKDROP))
    if towards is not None:
        target = np.asarray(towards, np.int64)
        sure = np.ones(len(xy)) if confidence is None else np.asarray(confidence, float)
        if target.shape != (len(xy),) or target.max() >= len(xy) or sure.shape != (len(xy),):
            raise InputError(f"The arrows need one node from 0 to {len(xy) - 1} and one confidence per node.")
        from_ = np.flatnonzero((target >= 0) & (target != np.arange(len(xy))) & ~hidden)
        offset = xy[target[from_]] - xy[from_]
        length = np.linalg.norm(offset, axis=1, keepdims=True)
        moves = length[:, 0] > 0
        _arrows(
            ax, xy[from_][moves], (offset / np.maximum(length, 1e-12))[moves], sure[from_][moves],
            _ink(v[from_][moves], scale, colours), size=0.42 * unit,
        )  # fmt: skip
    _finish(ax, title)
    ax.set_xlim(xy[:, 0].min() - 0.6 * unit, xy[:, 0].max() + 0.6 * unit)
    ax.set_ylim(xy[:, 1].min() - 0.6 * unit, xy[:, 1].max() + 0.6 * unit)
    return ax


# -- parts -------------------------------------------------------------------------------------------------------------


def _draw_flow(ax: Axes, policy: Floats, hidden: NDArray[np.bool_], ink: Floats) -> None:
    """Arrows of the most probable action where there is a choice and it is ahead of the others."""
    choices = maze.valid_actions().sum(axis=1)
    best, ranked = policy.argmax(axis=1), np.sort(policy, axis=1)
    confidence = ranked[:, -1] - ranked[:, -2]  # 0 between equals, 1 for a sure choice
    nodes = np.flatnonzero((choices > 1) & ~hidden & (confidence > 0.05))
    target = maze.successors()[nodes, best[nodes]]
    direction = np.sign(maze.layout()[target] - maze.layout()[nodes])
    direction[(nodes == maze.EXIT[0]) & (best[nodes] == maze.EXIT[1])] = (-1.0, 0.0)
    _arrows(ax, maze.layout()[nodes], direction, confidence[nodes], ink[nodes], size=0.8)


def _arrows(ax: Axes, xy: Floats, direction: Floats, confidence: Floats, ink: Floats, *, size: float) -> None:
    if not len(xy):
        return
    sure = np.clip(confidence, 0, 1)[:, None, None]
    shape = np.tile(_ARROW * size, (len(xy), 1, 1))
    shape[..., 1] *= 0.12 + 0.2 * sure[..., 0]
    rotation = np.stack([direction, direction[:, ::-1] * (-1, 1)], axis=1)  # rows: along, across
    colours = np.concatenate([ink[:, :3], 0.35 + 0.65 * sure[:, :, 0]], axis=1)
    ax.add_collection(
        PolyCollection(list(xy[:, None] + shape @ rotation), facecolors=list(map(tuple, colours)), lw=0, zorder=3)
    )


def _ink(values: Floats, scale: Normalize, colours: str) -> Floats:
    """(n, 4) white on dark colours, dark on bright ones."""
    bright = ink_on(np.asarray(scale(np.nan_to_num(values)), float), colours)
    return np.where(bright[:, None], to_rgba(INK), to_rgba("white"))


def _numbers(values: ArrayLike, n: int) -> tuple[Floats, NDArray[np.bool_]]:
    """One number per node, and which of them are not known."""
    v = np.asarray(values, float)
    if v.shape != (n,):
        raise InputError(f"values has shape {v.shape}; give one number per node, ({n},).")
    return v, ~np.isfinite(v)


def _scale(visible: Floats, limits: tuple[float, float] | None = None) -> Normalize:
    low, high = limits if limits is not None else (visible.min(), visible.max()) if len(visible) else (0.0, 1.0)
    return Normalize(float(low), float(high))


def disc_radius(xy: Floats, pairs: NDArray[np.int64]) -> float:
    """Radius of the discs that `graph_map` draws, in the units of the layout."""
    return DISC * _unit(xy, pairs)


def _unit(xy: Floats, pairs: NDArray[np.int64]) -> float:
    """The usual length of an edge; where edges are long and nodes close, so much that discs still lie side by side."""
    lengths = np.linalg.norm(xy[pairs[:, 0]] - xy[pairs[:, 1]], axis=1) if len(pairs) else np.array([])
    unit = float(np.median(lengths[lengths > 0])) if (lengths > 0).any() else 1.0
    return min(unit, 2.2 * _usual_distance(xy))


def _usual_distance(xy: Floats) -> float:
    """Median distance of a node to the nearest other one."""
    apart = np.linalg.norm(xy[:, None] - xy[None], axis=-1)
    near = np.where(apart > 0, apart, np.inf).min(axis=1)
    return float(np.median(near[np.isfinite(near)])) if np.isfinite(near).any() else np.inf


def _finish(ax: Axes, title: str | None) -> None:
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    if title is not None:
        ax.set_title(title)
