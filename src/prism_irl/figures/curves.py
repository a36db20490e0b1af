"""Methods side by side, the course of EM, and how long intentions last.

Scores that are not likelihoods (the gate has seen the action that it is scored on) are hatched and say so, so that
nobody compares them with the rest by accident.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from prism_irl.errors import InputError
from prism_irl.figures.style import (
    FAINT,
    INK,
    MUTED,
    PALETTE,
    intention_color,
    legend_columns,
    note,
    plain_log_ticks,
    short,
)

FloatArray = NDArray[np.float64]

NOT_A_LIKELIHOOD = "not a likelihood"


def method_bars(ax: Axes, rows: Sequence[Mapping[str, Any]], *, ceiling: float | None = None) -> Axes:
    """Draw the score of each method with its spread over folds, the first method on top.

    Bars begin at the left end of the axis, because log-likelihoods have no natural zero: read the points.

    Parameters
    ----------
    ax : Axes
    rows : list of dict
        ``name``, ``mean``, ``std`` (None without folds), ``is_likelihood``, and optionally ``reference``, a published
        number drawn as a diamond.
    ceiling : float, optional
        The oracle's score, drawn as a dashed line.
    """
    if not rows:
        raise InputError("There is no method to draw; give at least one row.")
    means = np.array([float(row["mean"]) for row in rows])
    spreads = np.array([float(row.get("std") or 0.0) for row in rows])
    references = [row.get("reference") for row in rows]
    ends = np.array([*(means - spreads), *(means + spreads), *(r for r in references if r is not None)])
    if ceiling is not None:
        ends = np.append(ends, ceiling)
    margin = 0.06 * float(np.ptp(ends)) or 0.05
    left, right = float(ends.min()) - 3 * margin, float(ends.max()) + margin

    for y, row in enumerate(rows):
        proper = bool(row["is_likelihood"])
        colour = PALETTE[0] if proper else MUTED
        ax.barh(
            y,
            means[y] - left,
            left=left,
            height=0.62,
            facecolor="#dcebf5" if proper else "#f4f5f6",
            edgecolor="none" if proper else "#aab0b8",
            hatch=None if proper else "//////",
            linewidth=0.5,
        )
        ax.errorbar(means[y], y, xerr=spreads[y], fmt="o", color=colour, markersize=3.5, elinewidth=1.2, capsize=2)
        if (reference := references[y]) is not None:
            ax.plot(float(reference), y, marker="D", color=PALETTE[3], markersize=4, fillstyle="none", linestyle="none")
        if not proper:
            box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.9}
            ax.text(left + 0.3 * margin, y, NOT_A_LIKELIHOOD, va="center", fontsize=6, style="italic", bbox=box)
        value, ink = f"{means[y]:.3f}".replace("-", "−"), INK if proper else MUTED
        note(ax, value, 1.0, y, relative="x", offset=(4, 0), va="center", color=ink)
    if ceiling is not None:
        ax.axvline(ceiling, color=INK, linestyle=(0, (4, 2)), linewidth=0.9)
        note(ax, "oracle", ceiling, 1.0, relative="y", offset=(0, 2), ha="center")
    if any(reference is not None for reference in references):
        ax.plot([], [], "D", color=PALETTE[3], markersize=4, fillstyle="none", label="published")
        # On the side of the plot where the oracle's name is not.
        at_left = ceiling is not None and ceiling > (left + right) / 2
        ax.legend(loc="lower left" if at_left else "lower right", bbox_to_anchor=(0.0 if at_left else 1.0, 1.0))
    ax.set_yticks(range(len(rows)), [str(row["name"]) for row in rows])
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(left, right), ylim=(len(rows) - 0.45, -0.55), xlabel="nats per step (right is better)")
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.grid(axis="x", color=FAINT, linewidth=0.5)
    return ax


HISTORY = ["start", "iteration", "train", "validation", "monitored"]
"""Columns of a history of EM that are drawn, or that decide what is."""


def em_curves(ax: Axes, history: Sequence[Mapping[str, Any]]) -> Axes:
    """Draw the log-likelihood over EM iterations, one line per start.

    The best start, by what was monitored, is drawn in colour with its validation curve and its best iteration; the
    others are thin grey lines.

    Parameters
    ----------
    ax : Axes
    history : list of dict
        One row per iteration with ``start``, ``iteration``, ``train`` and optionally ``validation`` and ``monitored``,
        what starts and iterations were chosen by.
    """
    if not history:
        raise InputError("The history is empty; there is no iteration to draw.")
    table = {name: np.array([row.get(name) for row in history], dtype=float) for name in HISTORY}  # None is NaN
    starts = {int(start): _rows_of(table, start) for start in dict.fromkeys(table["start"].tolist())}
    if any(np.isnan(rows["train"]).all() for rows in starts.values()):
        raise InputError("The history has a start without any training log-likelihood; there is no curve to draw.")
    best = max(starts, key=lambda start: np.nanmax(_monitored(starts[start])))
    others = [rows for start, rows in starts.items() if start != best]
    for i, rows in enumerate(others):
        label = None if i else f"train, {len(others)} other{'s' * (len(others) > 1)}"
        ax.plot(rows["iteration"], rows["train"], color="#b4bac2", linewidth=0.8, label=label)
    own = starts[best]
    ax.plot(own["iteration"], own["train"], color=PALETTE[0], linewidth=1.6, label=f"train, start {best}", zorder=3)
    if not np.isnan(own["validation"]).all():
        dashed: dict[str, Any] = {"color": PALETTE[3], "linewidth": 1.6, "linestyle": (0, (4, 1.5)), "zorder": 3}
        ax.plot(own["iteration"], own["validation"], label=f"validation, start {best}", **dashed)
    at = int(np.nanargmax(_monitored(own)))
    kept = {name: float(values[at]) for name, values in own.items()}
    by_validation = kept["validation"] == (kept["validation"] if np.isnan(kept["monitored"]) else kept["monitored"])
    height = kept["validation" if by_validation else "train"]  # on the curve that it was chosen by
    ax.plot(kept["iteration"], height, "o", color=INK, markersize=4, zorder=4, label="kept")

    drawn = np.concatenate([table["train"], own["validation"]])
    drawn = drawn[~np.isnan(drawn)]
    low, high = float(np.quantile(drawn, 0.02)), float(drawn.max())  # the first steps would flatten the rest
    pad = 0.06 * (high - low) or 0.01
    ax.set(ylim=(low - pad, high + pad), xlabel="EM iteration", ylabel="nats per step")
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    ax.grid(axis="y", color=FAINT, linewidth=0.5)
    ax.legend(loc="lower right")
    return ax


def likelihood_by_dwell(
    ax: Axes,
    families: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    points: Mapping[str, tuple[float, float]] | None = None,
    levels: Mapping[str, float] | None = None,
) -> Axes:
    """Draw predictive log-likelihood against mean dwell: what a longer stay with one intention costs in prediction.

    Parameters
    ----------
    ax : Axes
    families : {name: rows}
        Rows with ``mean_dwell`` and ``predictive_ll`` of one kind of model, drawn as a line in the order given, which
        is usually that of the penalty on switching.
    points : {name: (mean dwell, predictive LL)}, optional
        Single methods.
    levels : {name: predictive LL}, optional
        Methods without intentions, as horizontal lines.
    """
    if not any(families.values()) and not points:
        raise InputError("There is no model to draw; give a family with at least one row, or a point.")
    for i, (name, rows) in enumerate(families.items()):
        dwell, score = ([float(row[key]) for row in rows] for key in ("mean_dwell", "predictive_ll"))
        ax.plot(dwell, score, "o-", color=PALETTE[i % len(PALETTE)], markersize=3, label=name)
    for i, (name, at) in enumerate((points or {}).items()):
        ax.plot(*at, "Dsv^P"[i % 5], color=INK, fillstyle="none", label=name, linestyle="none")
    for i, (name, level) in enumerate((levels or {}).items()):
        ax.axhline(level, color=MUTED, linestyle=(":", "--", "-.")[i % 3], linewidth=0.8, label=name)
    ax.set_xscale("log")
    plain_log_ticks(ax.xaxis, *ax.get_xlim())
    ax.set(xlabel="mean dwell (steps)", ylabel="predictive LL (nats per step)")
    ax.grid(color=FAINT, linewidth=0.5)
    ax.legend(loc="best")
    return ax


def dwell_histogram(
    ax: Axes,
    dwell_lengths: Sequence[ArrayLike],
    model: ArrayLike | None = None,
    names: Sequence[str] | None = None,
) -> Axes:
    """Draw how long each intention lasts: shares of segments by length, with the mean as a dotted line.

    Parameters
    ----------
    ax : Axes
    dwell_lengths : K arrays of (M_k,)
        Lengths in steps of the segments of each intention; an intention without segments is named in the legend only.
    model : (K, D), optional
        Probability of a dwell of 1 … D steps under the model, drawn as a dashed line.
    names : K strings, optional
        By default "intention 0", "intention 1", …
    """
    lengths = [np.asarray(values, float).ravel() for values in dwell_lengths]
    longest = max((values.max() for values in lengths if len(values)), default=0.0)
    if longest < 1:
        raise InputError("No intention has a segment; there is nothing to draw.")
    # Edges between whole numbers; wider bins to the right once there are more lengths than fit.
    if longest <= 40:
        edges = np.arange(0.5, longest + 1)
    else:
        edges = np.unique(np.round(np.geomspace(1, longest + 1, 25))) - 0.5
        ax.set_xscale("log")
        plain_log_ticks(ax.xaxis, edges[0], edges[-1])
    called = [f"intention {k}" for k in range(len(lengths))] if names is None else [short(name) for name in names]
    for k, (name, values) in enumerate(zip(called, lengths, strict=True)):
        colour = intention_color(k)
        if not len(values):
            ax.plot([], [], color=colour, label=f"{name}: never")
            continue
        share = np.histogram(values, edges)[0] / len(values)
        ax.stairs(share, edges, color=colour, linewidth=1.2, label=f"{name}: mean {values.mean():.1f}")
        ax.stairs(share, edges, color=colour, fill=True, alpha=0.18)
        ax.axvline(values.mean(), color=colour, linestyle=":", linewidth=1.0)
        if model is not None:
            expected = np.histogram(np.arange(1, np.shape(model)[1] + 1), edges, weights=np.asarray(model, float)[k])[0]
            middle = 0.5 * (edges[1:] + edges[:-1])
            ax.plot(middle, expected, color=colour, linestyle="--", linewidth=1.0, label=f"{name}: model")
    ax.set(xlim=(edges[0], edges[-1]), ylim=(0, ax.get_ylim()[1]), xlabel="dwell (steps)", ylabel="share of segments")
    handles = [one for one in ax.get_legend_handles_labels()[0] if not str(one.get_label()).endswith(": model")]
    if model is not None:
        handles.append(Line2D([], [], color=MUTED, linestyle="--", linewidth=1.0, label="model"))
    # Above the axes: several intentions inside would hide the bars.
    ncols = legend_columns(ax, [str(one.get_label()) for one in handles])
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=ncols, columnspacing=1.0)
    return ax


def _rows_of(table: Mapping[str, FloatArray], start: float) -> dict[str, FloatArray]:
    """Columns of one start, by iteration."""
    own = np.flatnonzero(table["start"] == start)
    own = own[np.argsort(table["iteration"][own], kind="stable")]
    return {name: values[own] for name, values in table.items()}


def _monitored(rows: Mapping[str, FloatArray]) -> FloatArray:
    """What the best iteration is chosen by; where a history does not say, validation if there is any, else training."""
    for name in ("monitored", "validation"):
        if not np.isnan(rows[name]).all():
            return rows[name]
    return rows["train"]
