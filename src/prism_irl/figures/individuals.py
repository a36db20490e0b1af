"""One row per animal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from prism_irl.errors import InputError
from prism_irl.figures.style import FAINT, MUTED


def unit_rows(ax: Axes, rows: Sequence[Mapping[str, Any]], shared: float, *, color: str) -> Axes:
    """Draw the usage of every animal, as it is (open) and shrunk (filled), with that of all as a line.

    Parameters
    ----------
    rows : list of dict with ``unit_of``, ``usage_alone``, ``usage`` and ``p_adjusted``
    shared : float
    """
    if not rows:
        raise InputError("There is no animal to draw; give at least one.")
    ax.axvline(shared, color=MUTED, linewidth=0.9)
    for y, row in enumerate(rows):
        ax.plot((row["usage_alone"], row["usage"]), (y, y), color=FAINT, linewidth=1.0, zorder=1)
        ax.plot(row["usage_alone"], y, "o", color=color, markerfacecolor="white", markersize=4, label=row["unit_of"])
        ax.plot(row["usage"], y, "o", color=color, markersize=4, label=f"{row['unit_of']} shrunk")
    ax.set_yticks(
        range(len(rows)), labels=[f"{row['unit_of']}{' ∗' if row['p_adjusted'] <= 0.05 else ''}" for row in rows]
    )
    ax.set_xlim(0, 1)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel("share of steps")
    return ax
