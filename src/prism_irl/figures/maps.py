"""Maps of grid worlds: values or rewards per cell, greedy actions as arrows.

State = width·y + x, and y grows upwards as in `worlds.frustration`, where "up" adds one to y: state 0 is the lower
left cell and the last state the upper right one. Cells that nobody visited are greyed out, because what inverse
reinforcement learning says about them is an artefact of the solve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from prism_irl.errors import InputError
from prism_irl.figures.style import BARRIER, INK, MUTED, UNVISITED, VALUE_MAP, ink_on

Cell = tuple[int, int]
# (dx, dy) of up, down, left, right, stay: the order of worlds.frustration.ACTIONS.
DIRECTIONS = ((0, 1), (0, -1), (-1, 0), (1, 0), (0, 0))


def grid_heatmap(
    ax: Axes,
    values: ArrayLike,
    *,
    width: int,
    height: int,
    greedy: ArrayLike | None = None,
    barriers: Sequence[Cell] = (),
    mark: Sequence[Cell] | None = None,
    unvisited: ArrayLike | None = None,
    title: str | None = None,
    limits: tuple[float, float] | None = None,
    colours: str = VALUE_MAP,
) -> Axes:
    """Draw one number per cell.

    Parameters
    ----------
    ax : Axes
    values : (S,)
        Number of each state; NaN is greyed out like an unvisited cell.
    width, height : int
        Cells along x and y, S = width·height.
    greedy : (S,) int, optional
        Action drawn in each cell: 0 up, 1 down, 2 left, 3 right as arrows, 4 stay as a dot, negative for nothing.
        Barriers and greyed cells get none.
    barriers : sequence of (x, y)
        Cells that cannot be entered.
    mark : sequence of (x, y), optional
        Cells with a star in their corner, such as the target.
    unvisited : (S,) bool, optional
        Cells to grey out.
    title : str, optional
    limits : (low, high), optional
        Ends of the colour scale, to share it between maps; by default the range of the cells that are visible.
    colours : str
        Name of the colour scale.
    """
    v = _per_state(values, width, height, "values").astype(float)
    hidden = ~np.isfinite(v)
    if unvisited is not None:
        hidden |= _per_state(unvisited, width, height, "unvisited").astype(bool)
    blocked = np.zeros(len(v), bool)
    blocked[[_state(cell, width, height, "barrier") for cell in barriers]] = True

    visible = v[~hidden & ~blocked]
    low, high = limits if limits is not None else ((visible.min(), visible.max()) if len(visible) else (0.0, 1.0))
    masked = np.ma.array(v, mask=hidden | blocked).reshape(height, width)
    edges_x, edges_y = np.arange(width + 1) - 0.5, np.arange(height + 1) - 0.5
    ax.pcolormesh(edges_x, edges_y, masked, cmap=colours, norm=Normalize(low, high), edgecolors="white", linewidth=0.5)
    for state in np.flatnonzero(hidden | blocked):
        corner = (state % width - 0.5, state // width - 0.5)
        face, pattern = (BARRIER, None) if blocked[state] else (UNVISITED, "////")
        edge = "white" if blocked[state] else "#b9bec6"
        ax.add_patch(Rectangle(corner, 1, 1, facecolor=face, edgecolor=edge, hatch=pattern, linewidth=0.5))

    scale = high - low if high > low else 1.0
    ink = np.where(ink_on((np.nan_to_num(v) - low) / scale, colours), INK, "white")
    if greedy is not None:
        actions = np.where(hidden | blocked, -1, _per_state(greedy, width, height, "greedy"))
        _draw_actions(ax, actions, ink, width)
    for cell in mark or ():
        marked = _state(cell, width, height, "mark")
        colour = "white" if blocked[marked] else INK if hidden[marked] else str(ink[marked])
        ax.plot(cell[0] + 0.31, cell[1] + 0.31, marker="*", markersize=5, color=colour, markeredgewidth=0, zorder=4)

    ax.set(xlim=(-0.5, width - 0.5), ylim=(-0.5, height - 0.5), aspect="equal")
    ax.set_xticks(_ticks(width))
    ax.set_yticks(_ticks(height))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color(MUTED)
    if title is not None:
        ax.set_title(title, y=1.0)  # nothing is above a map: without it, matplotlib looks at every draw
    return ax


def add_colorbar(ax: Axes, axes: Sequence[Axes] | None = None, *, label: str = "") -> Colorbar:
    """Draw the colour scale of the map in ``ax`` beside it, or beside all of ``axes`` that share its limits."""
    figure = ax.get_figure(root=True)
    if figure is None or not ax.collections:
        raise InputError("This Axes holds no map; call grid_heatmap on it first.")
    bar = figure.colorbar(ax.collections[0], ax=list(axes) if axes is not None else ax, shrink=0.85, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label(label)
    return bar


def _draw_actions(ax: Axes, actions: np.ndarray, ink: np.ndarray, width: int) -> None:
    if actions.max() >= len(DIRECTIONS):
        raise InputError(f"greedy has the action {actions.max()}; actions are 0 up, 1 down, 2 left, 3 right, 4 stay.")
    x, y = np.arange(len(actions)) % width, np.arange(len(actions)) // width
    moves = np.flatnonzero((actions >= 0) & (actions < 4))
    if len(moves):
        dx, dy = np.array(DIRECTIONS)[actions[moves]].T
        arrow: dict[str, Any] = {"pivot": "mid", "angles": "xy", "units": "xy", "scale": 1.8, "width": 0.09}
        head: dict[str, Any] = {"headwidth": 4, "headlength": 3.5, "headaxislength": 3.2}
        ax.quiver(x[moves], y[moves], dx, dy, color=ink[moves], zorder=3, **arrow, **head)
    stays = np.flatnonzero(actions == 4)
    if len(stays):
        ax.scatter(x[stays], y[stays], s=9, c=ink[stays], linewidths=0, zorder=3)


def _ticks(n: int) -> np.ndarray:
    """Every cell on small grids, about five numbers on large ones."""
    return np.arange(0, n, max(1, -(-n // 6)))


def _per_state(values: ArrayLike, width: int, height: int, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.shape != (width * height,):
        raise InputError(f"{name} has shape {array.shape}; a {width}×{height} grid needs ({width * height},).")
    return array


def _state(cell: Cell, width: int, height: int, name: str) -> int:
    x, y = cell
    if not (0 <= x < width and 0 <= y < height):
        raise InputError(f"{name} {cell} lies outside the {width}×{height} grid; cells are (x, y) from (0, 0).")
    return width * y + x
