"""One number per state on whatever map the states have: a grid, the labyrinth, or any graph with a layout.

Chooses between `maps.grid_heatmap`, `maze.maze_map` and `maze.graph_map`, so that a figure of a fit need not know which
world its data comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import ArrayLike

from prism_irl import maze
from prism_irl.errors import InputError
from prism_irl.figures.data import BACKDROP
from prism_irl.figures.maps import grid_heatmap
from prism_irl.figures.maze import disc_radius, graph_map, maze_map
from prism_irl.figures.style import BARRIER, INK, SIGNED_MAP, VALUE_MAP

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
) -> Axes:
    """Draw one number per state.

    Parameters
    ----------
    ax : Axes
    layout : dict
        ``kind``, ``xy`` (S pairs or None), ``edges``, ``barriers`` and, if there are any, ``walls``, as in
        explorer.json.
    values : (S,)
        Number of each state; NaN is greyed out.
    towards : (S,) int, optional
        State that mostly follows each one, drawn as an arrow; itself or a negative number for none.
    confidence : (S,), optional
        From 0 to 1, how sure the arrow is.
    title : str, optional
    signed : bool
        Numbers around zero, such as rewards: colours in which zero is white, as far to either side.
    """
    v = np.asarray(values, float)
    xy = np.array([(np.nan, np.nan) if point is None else point for point in layout["xy"]], float)
    if v.shape != (len(xy),):
        raise InputError(f"values has shape {v.shape}; the layout has {len(xy)} states.")
    look: dict[str, Any] = {"title": title, "colours": SIGNED_MAP if signed else VALUE_MAP}
    if signed:
        end = max(float(np.nanmax(np.abs(v), initial=0.0)), 1e-12)
        look["limits"] = (-end, end)
    closed = [int(s) for s in layout["barriers"]]
    if layout["kind"] == "grid":
        low = np.nanmin(xy, axis=0)
        width, height = (int(size) + 1 for size in np.nanmax(xy, axis=0) - low)
        placed = np.flatnonzero(np.isfinite(xy).all(axis=1))
        cell = np.zeros(len(xy), np.int64)  # of each state, row by row from below
        cell[placed] = ((xy[placed] - low) @ (1, width)).astype(np.int64)
        on_grid = np.full(width * height, np.nan)
        on_grid[cell[placed]] = v[placed]
        steps: np.ndarray[Any, Any] | None = None
        if towards is not None:
            aims = np.asarray(towards)
            on_cells = np.full(width * height, -1)
            on_cells[cell[placed]] = np.where(aims[placed] < 0, -1, cell[aims[placed]])
            steps = _directions(on_cells, width)
        cells = [(int(cell[s] % width), int(cell[s] // width)) for s in closed]
        return grid_heatmap(ax, on_grid, width=width, height=height, greedy=steps, barriers=cells, **look)
    if layout["kind"] == "maze":
        policy = None if towards is None else _step_types(np.asarray(towards), confidence)
        return maze_map(ax, v, policy=policy, **look)
    placed = np.flatnonzero(np.isfinite(xy).all(axis=1))
    number = np.full(len(xy), -1)
    number[placed] = np.arange(len(placed))
    edges = [(number[i], number[j]) for i, j in layout["edges"] if number[i] >= 0 and number[j] >= 0]
    targets = None
    if towards is not None:
        aims = np.asarray(towards)[placed]
        # A state that nothing follows points at itself, which draws no arrow.
        targets = np.where(aims < 0, np.arange(len(placed)), number[np.maximum(aims, 0)])
    sure = None if confidence is None else np.asarray(confidence, float)[placed]
    graph_map(ax, v[placed], layout=xy[placed], edges=edges, towards=targets, confidence=sure, **look)
    if layout.get("walls"):
        ends = np.array(layout["walls"], float).reshape(-1, 2, 2)
        ax.add_collection(
            LineCollection(list(ends), colors=BARRIER, linewidths=0.7, capstyle="projecting", label=BACKDROP)
        )
    return ax


def label_places(ax: Axes, layout: Mapping[str, Any], names: Mapping[int, str]) -> None:
    """Write the names of some states above their places; below or beside them where another name is in the way."""
    flip = -1 if layout["kind"] == "maze" else 1  # which is drawn with y downwards
    xy = np.array([point for point in layout["xy"] if point is not None], float)
    size = np.maximum(np.ptp(xy, axis=0), 1e-12).max() if len(xy) else 1.0
    edges = np.array([pair for pair in layout["edges"] if all(layout["xy"][s] is not None for s in pair)], np.int64)
    number = np.cumsum([point is not None for point in layout["xy"]]) - 1  # of a state among those with a place
    disc = disc_radius(xy, number[edges.reshape(-1, 2)]) if layout["kind"] not in ("grid", "maze") and len(xy) else 0.0
    edge = max(disc - 0.02 * size, 0.0)  # a name stands on the rim of a large disc, not on the arrow inside
    taken: list[tuple[float, float, int]] = []  # centre and number of characters, in shares of the map
    for s, name in names.items():
        if (point := layout["xy"][s]) is None:
            continue
        text = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
        x, y = point[0] / size, point[1] / size
        side = next((up for up in SIDES if not _hidden((x, y + up / HEIGHT, len(text)), taken)), SIDES[0])
        taken.append((x, y + side / HEIGHT, len(text)))
        ax.annotate(
            text,
            (point[0], flip * point[1] + (edge if side > 0 else -edge)),
            xytext=(0, side),
            textcoords="offset points",
            ha="center",
            fontsize=6,
            color=INK,
            path_effects=[Stroke(linewidth=2, foreground="white"), Normal()],
            zorder=6,
        )


def _hidden(label: tuple[float, float, int], others: list[tuple[float, float, int]]) -> bool:
    """Whether a label would lie on another one."""
    x, y, n = label
    return any(abs(x - ox) < WIDTH * (n + on) / 2 and abs(y - oy) < 6 / HEIGHT for ox, oy, on in others)


def _step_types(towards: np.ndarray[Any, Any], confidence: ArrayLike | None) -> np.ndarray[Any, Any]:
    """(127, 4) action probabilities that lead where the arrows do, as sure as they are."""
    sure = np.ones(len(towards)) if confidence is None else np.asarray(confidence, float)
    leads = (maze.successors() == towards[:, None]) & maze.valid_actions()
    others = maze.valid_actions() & ~leads
    found = leads.any(axis=1)
    share = np.where(found, 1 - sure, 1.0) / np.maximum(others.sum(axis=1), 1)
    aimed = leads / np.maximum(leads.sum(axis=1, keepdims=True), 1) * sure[:, None]
    return np.asarray(aimed + others * share[:, None])


def _directions(towards: np.ndarray[Any, Any], width: int) -> np.ndarray[Any, Any]:
    """Arrow of each cell as `maps.grid_heatmap` numbers them: 0 up, 1 down, 2 left, 3 right, 4 stay, −1 none."""
    arrows = np.full(len(towards), -1)
    here = np.arange(len(towards))
    for arrow, difference in enumerate((width, -width, -1, 1, 0)):
        arrows[(towards >= 0) & (towards - here == difference)] = arrow
    return arrows
