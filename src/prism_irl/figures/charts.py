"""Charts: methods and the choice of K, the course of EM, dwell, evidence, contrasts, intervals, checks by simulation.

Each function draws into an Axes and returns it. Scores that are not likelihoods (the gate has seen the action that it
is scored on) are hatched and say so, so that nobody compares them with the rest by accident.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
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


WIDTH = 1.42
"""Of the axes of the budget, in widths of its longest bar: the rest is for words."""


def data_among_surrogates(ax: Axes, value: float, surrogates: Sequence[float], label: str) -> Axes:
    """Draw a statistic of the data as a line among those of surrogates as dots.

    Parameters
    ----------
    ax : Axes
    value : float
    surrogates : sequence of float
    label : str
        Of the axis.
    """
    if not len(surrogates):
        raise InputError("There are no surrogates to draw; give at least one.")
    found = np.sort(np.asarray(surrogates, float))
    ax.plot(found, _stacked(found, value), "o", color=MUTED, markersize=4, alpha=0.8, linewidth=0)
    beyond = value > found.max()
    ax.axvline(value, color=PALETTE[3] if beyond else PALETTE[0], linewidth=1.6)
    right = value > (found.min() + max(found.max(), value)) / 2
    note(
        ax, "data", value, 0.97, relative="y", offset=(-3 if right else 3, 0), ha="right" if right else "left", va="top"
    )
    note(
        ax,
        "surrogates",
        found[len(found) // 2],
        0.02,
        relative="y",
        offset=(0, 1),
        ha="center",
        va="bottom",
        color=MUTED,
    )
    ax.set(xlabel=label, yticks=[], ylim=(-0.9, None))
    ax.locator_params(axis="x", nbins=5)  # long numbers need room
    ax.set_ylim(-0.9, max(ax.get_ylim()[1], 5))
    ax.spines["left"].set_visible(False)
    return ax


def _stacked(values: np.ndarray, value: float) -> np.ndarray:
    """Heights of dots, so that those that lie close together are seen one by one."""
    width = max(float(np.ptp([*values, value])), 1e-12) / 28
    heights = np.zeros(len(values))
    for i, x in enumerate(values):
        near = heights[:i][np.abs(values[:i] - x) < width]
        heights[i] = next(h for h in range(len(values)) if h not in near)
    return heights


def budget(ax: Axes, rows: Sequence[Mapping[str, Any]]) -> Axes:
    """Draw the budget of predictability: one bar per row from the worst, with its interval and its gain in words.

    Parameters
    ----------
    ax : Axes
    rows : list of dict
        ``id``, ``name``, ``predictive_ll``, ``low``, ``high`` and ``gain`` (None for the first) of every row, in order.
    """
    if not rows:
        raise InputError("The budget has no rows; give at least one.")
    y = -np.arange(len(rows))
    scores, low, high = (np.array([row[key] for row in rows], float) for key in ("predictive_ll", "low", "high"))
    worst = min(scores.min(), low.min())  # an interval is seen to its end
    floor = worst - 0.06 * max(scores.max() - worst, 1e-6)
    colors = [PALETTE[3] if row["id"] == "intentions" else PALETTE[0] for row in rows]
    ax.barh(y, scores - floor, left=floor, color=colors, alpha=0.85, height=0.62)
    ax.errorbar(scores, y, xerr=[scores - low, high - scores], fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)
    right = max(high.max(), scores.max())
    for row, place in zip(rows, y, strict=True):
        gain = row.get("gain")
        text = f"{row['predictive_ll']:.4f}" + ("" if gain is None else f"   ({gain:+.4f})")
        note(ax, text, 1 / WIDTH, float(place), relative="x", offset=(8, 0), ha="left", va="center", fontsize=6.5)
    ax.set_yticks(y, [str(row["name"]) for row in rows])
    ax.set_xlim(floor, floor + WIDTH * (right - floor))
    ax.set_xlabel("cross-validated log-likelihood (nats per step)")
    ax.grid(axis="x", color=FAINT, linewidth=0.5)
    ax.set_axisbelow(True)
    return ax


def unit_dots(
    ax: Axes,
    units: Sequence[Mapping[str, float]],
    groups: Sequence[float],
    levels: Sequence[str],
    *,
    color: str = PALETTE[0],
) -> Axes:
    """Draw the value of every unit under each condition.

    Parameters
    ----------
    ax : Axes
    units : {unit: value} of every condition
        A unit that is in neighbouring ones is joined by a line.
    groups : values of the groups
    levels : names of the conditions
    """
    if not any(units):
        raise InputError("There is no unit to draw; give at least one under some condition.")
    places: list[dict[str, float]] = []
    for x, values in enumerate(units):
        spots = np.array([values[name] for name in sorted(values)])
        # Spread by rank, so that equal animals do not hide one another and the figure is the same every time.
        across = x + (np.argsort(np.argsort(spots, kind="stable")) % 5 - 2) * 0.05
        places.append(dict(zip(sorted(values), across.tolist(), strict=True)))
        ax.plot(across, spots, "o", color=color, alpha=0.65, markersize=3.5, markeredgewidth=0, label=levels[x])
        if np.isfinite(groups[x]):
            ax.hlines(groups[x], x - 0.28, x + 0.28, color=INK, linewidth=1.6)
    for x, (left, right) in enumerate(pairwise(units)):
        for name in sorted(set(left) & set(right)):  # from dot to dot
            ends = (places[x][name], places[x + 1][name])
            ax.plot(ends, (left[name], right[name]), color=FAINT, linewidth=0.8, zorder=1)
    ax.set_xticks(range(len(levels)), labels=list(levels))
    ax.set_xlim(-0.5, len(levels) - 0.5)
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
