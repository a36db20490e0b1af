"""One number per state as colour, on whatever map the states have: a grid, or a graph with a layout.

States without a number are grey, because what inverse reinforcement learning says about places that nobody visited is
an echo of their neighbours. Arrows lead to the state that follows, the wider and darker the surer; dots stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize, to_rgba
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import ArrayLike, NDArray

from prism_irl.errors import InputError
from prism_irl.figures.style import (
    BACKDROP,
    BARRIER,
    FAINT,
    INK,
    MUTED,
    SIGNED_MAP,
    UNVISITED,
    VALUE_MAP,
    ink_on,
)

Floats = NDArray[np.float64]

DISC = 0.28  # radius of a disc, in shares of an edge
_CELL = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)])
# An arrow that points along x, from −½ to ½: shaft and head, widened or narrowed by its confidence.
_ARROW = np.array([(-0.5, -0.5), (0.0, -0.5), (0.0, -1.2), (0.5, 0.0), (0.0, 1.2), (0.0, 0.5), (-0.5, 0.5)])
LONGEST = 14  # characters of a label on a map
HEIGHT, WIDTH = 110.0, 0.045  # of a map in points, about; of a character in shares of the map
SIDES = (5, -9, 12, -16)  # points above the place, in the order in which they are tried


def layout_map(
    ax: Axes,
    layout: Mapping[str, Any],
    values: ArrayLike,
    *,
    towards: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    title: str | None = None,
    signed: bool = False,
    limits: tuple[float, float] | None = None,
) -> Axes:
    """Draw one number per state, ``values`` (S,), NaN greyed out, on a ``layout`` as explorer.json has it.

    An arrow leads ``towards`` the state that mostly follows, (S,) int, itself or a negative number for none, or to a
    place (S, 2); its ``confidence`` (S,) is from 0 to 1. ``signed`` numbers have colours in which zero is white;
    ``limits`` are the ends of the colour scale, by default the range of the states that are visible.
    """
    v = np.asarray(values, float)
    xy = np.array([(np.nan, np.nan) if point is None else point for point in layout["xy"]], float)
    if v.shape != (len(xy),):
        raise InputError(f"values has shape {v.shape}; the layout has {len(xy)} states.")
    end = max(float(np.nanmax(np.abs(v), initial=0.0)), 1e-12)
    look = Look(SIGNED_MAP, (-end, end)) if signed else Look(VALUE_MAP, limits)
    if towards is not None:
        aims = np.asarray(towards)
        if aims.ndim == 1 and (aims.shape != v.shape or aims.max() >= len(xy)):
            raise InputError(f"The arrows need one state from 0 to {len(xy) - 1} for each state.")
        target = aims if aims.ndim == 2 else np.where((aims >= 0)[:, None], xy[aims], np.nan)
        look = look._replace(target=target, sure=None if confidence is None else np.asarray(confidence, float))
    if layout["kind"] == "grid":
        _grid(ax, xy, v, np.isin(np.arange(len(xy)), layout["barriers"]), look)
    else:
        _graph(ax, xy, v, np.asarray(layout["edges"], np.int64).reshape(-1, 2), look)
    if layout.get("walls"):
        look_of: dict[str, Any] = {"colors": BARRIER, "linewidths": 0.7, "capstyle": "projecting", "label": BACKDROP}
        ax.add_collection(LineCollection(list(np.array(layout["walls"], float).reshape(-1, 2, 2)), **look_of))
    if title is not None:
        ax.set_title(title, y=1.0)  # nothing is above a map: without it, matplotlib looks at every draw
    return ax


def add_colorbar(ax: Axes, axes: Sequence[Axes] | None = None, *, label: str = "") -> Colorbar:
    """Draw the colour scale of the map in ``ax`` beside it, or beside all of ``axes`` that share its limits."""
    figure = ax.get_figure(root=True)
    if figure is None or not ax.collections:
        raise InputError("This Axes holds no map; draw one on it first.")
    bar = figure.colorbar(ax.collections[0], ax=list(axes) if axes is not None else ax, shrink=0.85, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label(label)
    return bar


def label_places(ax: Axes, layout: Mapping[str, Any], names: Mapping[int, str]) -> None:
    """Write the names of some states above their places; below or beside them where another name is in the way."""
    xy = np.array([point for point in layout["xy"] if point is not None], float)
    size = np.maximum(np.ptp(xy, axis=0), 1e-12).max() if len(xy) else 1.0
    edge = 0.0
    if layout["kind"] != "grid" and len(xy):
        number = np.cumsum([point is not None for point in layout["xy"]]) - 1  # of a state among those with a place
        there = [pair for pair in layout["edges"] if all(layout["xy"][s] is not None for s in pair)]
        pairs = number[np.array(there, np.int64).reshape(-1, 2)]
        edge = max(DISC * _unit(xy, pairs) - 0.02 * size, 0.0)  # a name stands on the rim of a large disc
    taken: list[tuple[float, float, int]] = []  # centre and number of characters, in shares of the map
    for s, name in names.items():
        if (point := layout["xy"][s]) is None:
            continue
        text = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
        x, y, n = point[0] / size, point[1] / size, len(text)
        free = (
            up
            for up in SIDES
            if not any(abs(x - a) < WIDTH * (n + m) / 2 and abs(y + up / HEIGHT - b) < 6 / HEIGHT for a, b, m in taken)
        )
        side = next(free, SIDES[0])
        taken.append((x, y + side / HEIGHT, n))
        ax.annotate(
            text,
            (point[0], point[1] + (edge if side > 0 else -edge)),
            xytext=(0, side),
            textcoords="offset points",
            ha="center",
            fontsize=6,
            color=INK,
            path_effects=[Stroke(linewidth=2, foreground="white"), Normal()],
            zorder=6,
        )


# -- kinds of maps -----------------------------------------------------------------------------------------------------


class Look(NamedTuple):
    """Colours and their ends, and where arrows point, (S, 2), and how sure they are, (S,)."""

    colours: str = VALUE_MAP
    limits: tuple[float, float] | None = None
    target: Floats | None = None
    sure: Floats | None = None


def _grid(ax: Axes, xy: Floats, v: Floats, closed: NDArray[np.bool_], look: Look) -> None:
    """Cells as squares."""
    placed = np.asarray(np.isfinite(xy).all(axis=1))
    hidden = ~np.isfinite(v) | closed
    cells = xy[:, None] + _CELL
    scale = _scale(v[~hidden], look.limits)
    _faces(ax, cells[placed], np.ma.array(v, mask=hidden)[placed], scale, look.colours, edgecolors="white", lw=0.5)
    grey = hidden & ~closed & placed
    for which, face, edge, hatch in ((closed, BARRIER, "white", None), (grey, UNVISITED, "#b9bec6", "////")):
        how: dict[str, Any] = {"facecolors": face, "edgecolors": edge, "hatch": hatch, "lw": 0.5, "label": BACKDROP}
        ax.add_collection(PolyCollection(list(cells[which]), **how))
    if look.target is not None:
        ink = _ink(v, scale, look.colours)
        _flow(ax, xy, np.where(hidden[:, None], np.nan, look.target), look.sure, ink, size=0.6, dots=True)
    low, high = xy[placed].min(axis=0), xy[placed].max(axis=0)
    ax.set(xlim=(low[0] - 0.5, high[0] + 0.5), ylim=(low[1] - 0.5, high[1] + 0.5), aspect="equal")
    for axis, first, last in ((ax.xaxis, low[0], high[0]), (ax.yaxis, low[1], high[1])):
        axis.set_ticks(np.arange(first, last + 1, max(1, -(-(last - first + 1) // 6))))  # about five on large grids
    ax.tick_params(length=0)
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color(MUTED)


def _graph(ax: Axes, xy: Floats, v: Floats, edges: NDArray[np.int64], look: Look) -> None:
    """States as discs, joined by lines; those without a place are left out."""
    if len(edges) and (edges.min() < 0 or edges.max() >= len(xy)):
        raise InputError(f"An edge names the state {edges.max()}; states run from 0 to {len(xy) - 1}.")
    placed = np.asarray(np.isfinite(xy).all(axis=1))
    both = placed[edges].all(axis=1)
    pairs = (np.cumsum(placed) - 1)[edges[both]]
    xy, v, hidden = xy[placed], v[placed], ~np.isfinite(v[placed])
    scale, unit = _scale(v[~hidden], look.limits), _unit(xy, pairs)
    # Discs as polygons in data units, so that they keep their size relative to the edges in any figure.
    angle = np.linspace(0, 2 * np.pi, 25)[:-1]
    discs = xy[:, None] + DISC * unit * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    _faces(ax, discs, np.ma.array(v, mask=hidden), scale, look.colours, edgecolors=MUTED, lw=0.4, zorder=2)
    ax.add_collection(LineCollection(list(xy[pairs]), colors=FAINT, linewidths=2.5, zorder=1, label=BACKDROP))
    if look.target is not None:
        aims = np.where(hidden[:, None], np.nan, look.target[placed])
        sure = None if look.sure is None else look.sure[placed]
        _flow(ax, xy, aims, sure, _ink(v, scale, look.colours), size=0.42 * unit)
    ax.set(aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_xlim(xy[:, 0].min() - 0.6 * unit, xy[:, 0].max() + 0.6 * unit)
    ax.set_ylim(xy[:, 1].min() - 0.6 * unit, xy[:, 1].max() + 0.6 * unit)


# -- parts -------------------------------------------------------------------------------------------------------------


def _faces(ax: Axes, polygons: Floats, values: Any, scale: Normalize, colours: str, **look: Any) -> None:
    """Polygons (n, V, 2) in the colours of the masked values (n,)."""
    shades = colormaps[colours].with_extremes(bad=UNVISITED)
    ax.add_collection(PolyCollection(list(polygons), array=values, cmap=shades, norm=scale, **look))


def _flow(
    ax: Axes, xy: Floats, target: Floats, sure: Floats | None, ink: Floats, *, size: float, dots: bool = False
) -> None:
    """Arrows from places (n, 2) to their targets, NaN for none; dots, where wanted, for a place that is its own."""
    offset = target - xy
    length = np.linalg.norm(offset, axis=1)
    moves = length > 0
    if moves.any():
        direction = offset[moves] / length[moves, None]
        share = np.clip(np.ones(len(xy)) if sure is None else sure, 0, 1)[moves, None]
        shape = np.tile(_ARROW * size, (len(direction), 1, 1))
        shape[..., 1] *= 0.12 + 0.2 * share
        rotation = np.stack([direction, direction[:, ::-1] * (-1, 1)], axis=1)  # rows: along, across
        colours = np.concatenate([ink[moves, :3], 0.35 + 0.65 * share], axis=1)
        arrows = list(xy[moves][:, None] + shape @ rotation)
        ax.add_collection(PolyCollection(arrows, facecolors=list(map(tuple, colours)), lw=0, zorder=3))
    if dots and (length == 0).any():
        ax.scatter(xy[length == 0, 0], xy[length == 0, 1], s=9, c=ink[length == 0], linewidths=0, zorder=3)


def _ink(values: Floats, scale: Normalize, colours: str) -> Floats:
    """(n, 4) white on dark colours, dark on bright ones."""
    bright = ink_on(np.asarray(scale(np.nan_to_num(values)), float), colours)
    return np.where(bright[:, None], to_rgba(INK), to_rgba("white"))


def _scale(visible: Floats, limits: tuple[float, float] | None = None) -> Normalize:
    low, high = limits if limits is not None else (visible.min(), visible.max()) if len(visible) else (0.0, 1.0)
    return Normalize(float(low), float(high))


def _unit(xy: Floats, pairs: NDArray[np.int64]) -> float:
    """The usual length of an edge; where edges are long and nodes close, so much that discs still lie side by side."""
    lengths = np.linalg.norm(xy[pairs[:, 0]] - xy[pairs[:, 1]], axis=1) if len(pairs) else np.array([])
    unit = float(np.median(lengths[lengths > 0])) if (lengths > 0).any() else 1.0
    apart = np.linalg.norm(xy[:, None] - xy[None], axis=-1)
    near = np.where(apart > 0, apart, np.inf).min(axis=1)
    return min(unit, 2.2 * float(np.median(near[np.isfinite(near)]))) if np.isfinite(near).any() else unit
