"""The data beside what a fitted model simulates: a line for the data, a band for the simulations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from prism_irl.errors import InputError
from prism_irl.figures.style import FAINT, INK, MUTED, PALETTE, plain_log_ticks


def simulated_bands(
    ax: Axes, curves: Sequence[Mapping[str, Any]], labels: Sequence[str], colors: Sequence[str], *, around: bool = False
) -> Axes:
    """Draw curves of the data as lines, and where 95% of the simulations run as bands of the same colour.

    Parameters
    ----------
    ax : Axes
    curves : list of dict
        ``x``, ``data``, ``low`` and ``high``, as in checks.json.
    labels, colors : one for each curve
    around : bool
        x counts steps from a switch, which is marked; otherwise durations, on a logarithmic axis.
    """
    if not curves:
        raise InputError("There is no curve to draw; give at least one.")
    for curve, label, color in zip(curves, labels, colors, strict=True):
        ax.fill_between(curve["x"], curve["low"], curve["high"], color=color, alpha=0.25, linewidth=0)
        ax.plot(curve["x"], curve["data"], color=color, linewidth=1.4, label=label)
    ax.set_ylim(bottom=0)
    if around:
        ax.axvline(-0.5, color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        ax.set_xlabel("steps from the switch")
    else:
        ax.set(xscale="log", xlabel="steps")
        plain_log_ticks(ax.xaxis, *ax.get_xlim(), integer=True)
    ax.grid(axis="y", color=FAINT, linewidth=0.5)
    ax.legend(loc="best")
    return ax


def occupancy_scatter(ax: Axes, data: ArrayLike, simulated: ArrayLike) -> Axes:
    """Draw each state's share of the steps in the data against that in the simulations; on the line both are equal.

    Parameters
    ----------
    ax : Axes
    data, simulated : (S,)
    """
    x, y = np.asarray(simulated, float), np.asarray(data, float)
    seen = (x > 0) & (y > 0)
    if x.shape != y.shape or not seen.any():
        raise InputError("No state is visited in both the data and the simulations; there is nothing to draw.")
    ends = np.array([min(x[seen].min(), y[seen].min()), max(x[seen].max(), y[seen].max())]) * (0.8, 1.25)
    ax.plot(ends, ends, color=MUTED, linewidth=0.8, label="equal")
    ax.plot(x[seen], y[seen], "o", color=PALETTE[0], markersize=2.5, alpha=0.7, markeredgewidth=0, label="state")
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="simulated", ylabel="data")
    for axis in (ax.xaxis, ax.yaxis):
        plain_log_ticks(axis, *ends)
    return ax
