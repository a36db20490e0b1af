"""The choice of K in two panels: what predicts, and what disjoint halves agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from prism_irl.errors import InputError
from prism_irl.figures.style import FAINT, INK, MUTED, PALETTE, note

Rows = Sequence[Mapping[str, Any]]


def likelihood_by_intentions(ax: Axes, rows: Rows, chosen: int | None = None) -> Axes:
    """Draw the predictive log-likelihood against K with a band of one standard error.

    Parameters
    ----------
    ax : Axes
    rows : list of dict
        ``n_intentions``, ``predictive_ll`` and ``standard_error`` of every K.
    chosen : int, optional
        K with a ring around its point.
    """
    k, mean, error = (_column(rows, name) for name in ("n_intentions", "predictive_ll", "standard_error"))
    ax.fill_between(k, mean - error, mean + error, color=PALETTE[0], alpha=0.2, linewidth=0, label="± 1 s.e.")
    ax.plot(k, mean, "o-", color=PALETTE[0], markersize=4)
    _ring(ax, k, mean, chosen, "rises up to here")
    ax.set(ylabel="predictive LL\n(nats per step)")
    return _finish(ax)


def agreement_by_intentions(ax: Axes, rows: Rows, chosen: int | None = None, *, threshold: float = 0.8) -> Axes:
    """Draw the agreement between labellings from disjoint halves against K.

    Parameters
    ----------
    ax : Axes
    rows : list of dict
        ``n_intentions`` and ``agreement`` (None where there is none) of every K.
    chosen : int, optional
        K with a ring around its point.
    threshold : float
        Agreement from which on intentions count as identified, a dashed line.
    """
    k, agreement = _column(rows, "n_intentions"), _column(rows, "agreement")
    ax.axhline(threshold, color=MUTED, linestyle=(0, (4, 2)), linewidth=0.9)
    note(ax, "identified", 1.0, threshold, relative="x", offset=(-2, 2), ha="right", fontsize=6.5, color=MUTED)
    known = np.isfinite(agreement)
    ax.plot(k[known], agreement[known], "s-", color=PALETTE[3], markersize=4)
    _ring(ax, k, agreement, chosen, "recommended")
    ax.set(xlabel="number of intentions K", ylabel="agreement (ARI)", ylim=(min(0.0, np.nanmin([0, *agreement])), 1.05))
    return _finish(ax)


def _column(rows: Rows, name: str) -> np.ndarray:
    if not rows:
        raise InputError("There is no number of intentions to draw; give at least one row.")
    return np.array([row[name] for row in rows], float)  # None becomes NaN


def _ring(ax: Axes, k: np.ndarray, values: np.ndarray, chosen: int | None, label: str) -> None:
    if chosen is None:
        return
    here = k == chosen
    if not here.any():
        raise InputError(f"K={chosen} was chosen but is none of the rows.")
    if np.isfinite(values[here]).all():
        ax.plot(k[here], values[here], "o", markersize=9, fillstyle="none", color=INK, linestyle="none", label=label)


def _finish(ax: Axes) -> Axes:
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    ax.grid(axis="y", color=FAINT, linewidth=0.5)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="best")
    return ax
