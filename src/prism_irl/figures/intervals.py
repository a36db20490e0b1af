"""Estimates with their intervals, as dots and lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from prism_irl.errors import InputError
from prism_irl.figures.style import FAINT, PALETTE


def estimates(
    ax: Axes, values: ArrayLike, low: ArrayLike, high: ArrayLike, labels: Sequence[str], colors: Sequence[str]
) -> Axes:
    """Draw n estimates, one column each, with the ends of their intervals (n,)."""
    dots, ends = np.asarray(values, float), np.stack([np.asarray(low, float), np.asarray(high, float)])
    if not len(dots):
        raise InputError("There is no estimate to draw; give at least one.")
    for x, (dot, (bottom, top), color) in enumerate(zip(dots, ends.T, colors, strict=True)):
        ax.plot(
            (x, x), (bottom, top), color=color, linewidth=2.0, solid_capstyle="round", label=f"{labels[x]} interval"
        )
        ax.plot(x, dot, "o", color=color, markersize=5, label=labels[x])
    ax.set_xticks(range(len(dots)), labels=list(labels))
    ax.set_xlim(-0.6, len(dots) - 0.4)
    ax.grid(axis="y", color=FAINT, linewidth=0.5)
    return ax


def ranked(
    ax: Axes, values: ArrayLike, low: ArrayLike, high: ArrayLike, labels: Sequence[str], *, most: int = 12, color: str
) -> Axes:
    """Draw the largest of many estimates (n,) with their intervals, the largest on top; NaN are left out."""
    dots = np.asarray(values, float)
    order = [int(i) for i in np.argsort(-np.nan_to_num(dots, nan=-np.inf), kind="stable") if np.isfinite(dots[i])]
    if not order:
        raise InputError("There is no estimate to draw; give at least one that is a number.")
    bottoms, tops = np.asarray(low, float), np.asarray(high, float)
    for y, i in enumerate(order[:most]):
        ax.plot((bottoms[i], tops[i]), (y, y), color=color, linewidth=1.6, label=f"{labels[i]} interval")
        ax.plot(dots[i], y, "o", color=color, markersize=4, label=labels[i])
    ax.axvline(0, color=PALETTE[7], linewidth=0.6)
    ax.set_yticks(range(len(order[:most])), labels=[labels[i] for i in order[:most]])
    ax.invert_yaxis()
    return ax


def effect(
    ax: Axes, x: ArrayLike, values: ArrayLike, band: tuple[ArrayLike, ArrayLike] | None, label: str, color: str
) -> Axes:
    """Draw a curve (G,) over an input, with its interval as a band."""
    top, before = np.nanmax(np.asarray(values, float)), ax.get_ylim()[1] if ax.lines else 0.0
    if band is not None:
        low, high = (np.asarray(end, float) for end in band)
        ax.fill_between(np.asarray(x, float), low, high, color=color, alpha=0.25, linewidth=0)
        top = max(top, np.nanmax(high))
    ax.plot(x, values, color=color, linewidth=1.4, label=label)
    ax.set_ylim(0, max(1.08 * top, before) or 1.0)  # room for this curve and for those before it
    ax.grid(axis="y", color=FAINT, linewidth=0.5)
    return ax
