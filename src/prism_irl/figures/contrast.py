"""Two conditions side by side: a dot per animal, the value of the group as a bar, a line per animal seen twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from prism_irl.errors import InputError
from prism_irl.figures.style import FAINT, INK, MUTED, PALETTE


def unit_dots(
    ax: Axes,
    first: Mapping[str, float],
    second: Mapping[str, float],
    groups: Sequence[float],
    levels: Sequence[str],
    *,
    color: str = PALETTE[0],
) -> Axes:
    """Draw the value of every unit under two conditions.

    Parameters
    ----------
    ax : Axes
    first, second : {unit: value}
        A unit that is in both is joined by a line.
    groups : (float, float)
        Values of the two groups.
    levels : (str, str)
    """
    if not first and not second:
        raise InputError("There is no unit to draw; give at least one under either condition.")
    places: list[dict[str, float]] = []
    for x, values in enumerate((first, second)):
        spots = np.array([values[name] for name in sorted(values)])
        # Spread by rank, so that equal animals do not hide one another and the figure is the same every time.
        across = x + (np.argsort(np.argsort(spots, kind="stable")) % 5 - 2) * 0.05
        places.append(dict(zip(sorted(values), across.tolist(), strict=True)))
        ax.plot(across, spots, "o", color=color, alpha=0.65, markersize=3.5, markeredgewidth=0, label=levels[x])
        if np.isfinite(groups[x]):
            ax.hlines(groups[x], x - 0.28, x + 0.28, color=INK, linewidth=1.6)
    for name in sorted(set(first) & set(second)):  # from dot to dot
        ends = (places[0][name], places[1][name])
        ax.plot(ends, (first[name], second[name]), color=FAINT, linewidth=0.8, zorder=1)
    ax.set_xticks((0, 1), labels=list(levels))
    ax.set_xlim(-0.5, 1.5)
    ax.set_ylim(bottom=0)
    return ax


def difference_forest(ax: Axes, rows: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> Axes:
    """Draw differences with their intervals, one row each; filled where the adjusted p is at most 0.05.

    Parameters
    ----------
    rows : list of dict with ``difference``, ``interval`` and ``p_adjusted``
    labels : one for each row
    """
    if not rows:
        raise InputError("There is no difference to draw; give at least one.")
    ax.axvline(0, color=MUTED, linewidth=0.8)
    for y, (row, label) in enumerate(zip(rows, labels, strict=True)):
        clear = row["p_adjusted"] is not None and row["p_adjusted"] <= 0.05
        low, high = row["interval"]
        ax.plot((low, high), (y, y), color=PALETTE[0], linewidth=1.4)
        face = PALETTE[0] if clear else "white"
        ax.plot(row["difference"], y, "o", color=PALETTE[0], markerfacecolor=face, markersize=4.5, label=label)
    ax.set_yticks(range(len(rows)), labels=list(labels))
    ax.set_ylim(len(rows) - 0.4, -0.6)  # the first row on top, and none on the frame
    return ax


def state_shares(ax: Axes, first: ArrayLike, second: ArrayLike, levels: Sequence[str]) -> Axes:
    """Draw each state's share of the time under one condition against that under the other, (S,) both."""
    x, y = np.asarray(first, float), np.asarray(second, float)
    seen = (x > 0) | (y > 0)
    end = 1.08 * max(x.max(), y.max())
    ax.plot((0, end), (0, end), color=MUTED, linewidth=0.8, label="equal")
    ax.plot(x[seen], y[seen], "o", color=PALETTE[0], markersize=3, alpha=0.7, markeredgewidth=0, label="state")
    ax.set(xlim=(0, end), ylim=(0, end), xlabel=f"share of time, {levels[0]}", ylabel=f"share of time, {levels[1]}")
    return ax
