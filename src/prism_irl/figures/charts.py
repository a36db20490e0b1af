"""Charts: methods and the choice of K, the course of EM, dwell, evidence, contrasts, intervals, intentions over time.

Each function draws into an Axes and returns it. Scores that are not likelihoods (the gate has seen the action that it
is scored on) are hatched and say so, so that nobody compares them with the rest by accident. The posterior of one
trajectory is a stack of K bands that fill the unit interval, with the true intentions as a strip below where they are
known; the raster shows one trajectory per row: stripes are intentions, salt and pepper is noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
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
from prism_irl.labels import segments

FloatArray = NDArray[np.float64]
Rows = Sequence[Mapping[str, Any]]
NOT_A_LIKELIHOOD = "not a likelihood"
HISTORY = ["start", "iteration", "train", "validation", "monitored"]
"""Columns of a history of EM that are drawn, or that decide what is."""
WIDTH = 1.42
"""Of the axes of the budget, in widths of its longest bar: the rest is for words."""
DASHED = (0, (4, 2))
ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "columnspacing": 1.0}
"""Where a legend stands that would hide something inside the axes."""


def method_bars(ax: Axes, rows: Rows, *, ceiling: float | None = None) -> Axes:
    """Draw the score of each method with its spread over folds, the first on top; ``ceiling`` is the oracle's score.

    A row has ``name``, ``mean``, ``std`` (None without folds), ``is_likelihood`` and, where one was published, a
    ``reference``, drawn as a diamond. Bars begin at the left end of the axis, because log-likelihoods have no natural
    zero: read the points.
    """
    means = np.array([float(row["mean"]) for row in rows])
    spreads = np.array([float(row.get("std") or 0.0) for row in rows])
    references = [row.get("reference") for row in rows]
    ends = [*(means - spreads), *(means + spreads), *(end for end in (*references, ceiling) if end is not None)]
    margin = 0.06 * float(np.ptp(ends)) or 0.05
    left, right = float(min(ends)) - 3 * margin, float(max(ends)) + margin
    for y, row in enumerate(rows):
        proper = bool(row["is_likelihood"])
        colour = PALETTE[0] if proper else MUTED
        look: dict[str, Any] = {"facecolor": "#f4f5f6", "edgecolor": "#aab0b8", "hatch": "//////"}
        look = {"facecolor": "#dcebf5", "edgecolor": "none"} if proper else look
        ax.barh(y, means[y] - left, left=left, height=0.62, linewidth=0.5, **look)
        ax.errorbar(means[y], y, xerr=spreads[y], fmt="o", color=colour, markersize=3.5, elinewidth=1.2, capsize=2)
        if (reference := references[y]) is not None:
            ax.plot(float(reference), y, marker="D", color=PALETTE[3], markersize=4, fillstyle="none", linestyle="none")
        if not proper:
            box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.9}
            ax.text(left + 0.3 * margin, y, NOT_A_LIKELIHOOD, va="center", fontsize=6, style="italic", bbox=box)
        value, ink = f"{means[y]:.3f}".replace("-", "−"), INK if proper else MUTED
        note(ax, value, 1.0, y, relative="x", offset=(4, 0), va="center", color=ink)
    if ceiling is not None:
        ax.axvline(ceiling, color=INK, linestyle=DASHED, linewidth=0.9)
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


def em_curves(ax: Axes, history: Rows) -> Axes:
    """Draw the log-likelihood over EM iterations, one line per start.

    The best start, by what was monitored, is drawn in colour with its validation curve and its best iteration; the
    others are thin grey lines. A row has the columns of `HISTORY`, of which the last two may be missing.
    """
    if not history:
        raise InputError("The history is empty; there is no iteration to draw.")
    table = {name: np.array([row.get(name) for row in history], dtype=float) for name in HISTORY}  # None is NaN
    order = np.argsort(table["iteration"], kind="stable")
    starts = {}
    for start in dict.fromkeys(table["start"].tolist()):
        own = order[table["start"][order] == start]
        starts[int(start)] = {name: values[own] for name, values in table.items()}
    if any(np.isnan(rows["train"]).all() for rows in starts.values()):
        raise InputError("The history has a start without any training log-likelihood; there is no curve to draw.")

    def monitored(start: int) -> FloatArray:  # what the best iteration is chosen by, where a history does not say
        rows = starts[start]
        known = (rows[name] for name in ("monitored", "validation") if not np.isnan(rows[name]).all())
        return next(known, rows["train"])

    best = max(starts, key=lambda start: np.nanmax(monitored(start)))
    others = [rows for start, rows in starts.items() if start != best]
    for i, rows in enumerate(others):
        label = None if i else f"train, {len(others)} other{'s' * (len(others) > 1)}"
        ax.plot(rows["iteration"], rows["train"], color="#b4bac2", linewidth=0.8, label=label)
    kept_of = starts[best]
    x, train, validation = (kept_of[name] for name in ("iteration", "train", "validation"))
    ax.plot(x, train, color=PALETTE[0], linewidth=1.6, label=f"train, start {best}", zorder=3)
    if not np.isnan(validation).all():
        dashed: dict[str, Any] = {"color": PALETTE[3], "linewidth": 1.6, "linestyle": (0, (4, 1.5)), "zorder": 3}
        ax.plot(x, validation, label=f"validation, start {best}", **dashed)
    at = int(np.nanargmax(monitored(best)))
    kept = {name: float(values[at]) for name, values in kept_of.items()}
    by_validation = kept["validation"] == (kept["validation"] if np.isnan(kept["monitored"]) else kept["monitored"])
    height = kept["validation" if by_validation else "train"]  # on the curve that it was chosen by
    ax.plot(kept["iteration"], height, "o", color=INK, markersize=4, zorder=4, label="kept")
    drawn = np.concatenate([table["train"], validation])
    drawn = drawn[~np.isnan(drawn)]
    low, high = float(np.quantile(drawn, 0.02)), float(drawn.max())  # the first steps would flatten the rest
    pad = 0.06 * (high - low) or 0.01
    ax.set(ylim=(low - pad, high + pad), xlabel="EM iteration", ylabel="nats per step")
    _whole_ticks(ax)
    ax.legend(loc="lower right")
    return ax


def _whole_ticks(ax: Axes) -> None:
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    ax.grid(axis="y", color=FAINT, linewidth=0.5)


def dwell_histogram(
    ax: Axes, dwell_lengths: Sequence[ArrayLike], model: ArrayLike | None = None, names: Sequence[str] | None = None
) -> Axes:
    """Draw how long each intention lasts: shares of segments by length, with the mean as a dotted line.

    ``dwell_lengths`` are the lengths of the segments of each of K intentions, ``model`` (K, D) the probability of a
    dwell of 1 … D steps, drawn as a dashed line. An intention without segments is named in the legend only.
    """
    lengths = [np.asarray(values, float).ravel() for values in dwell_lengths]
    longest = max((values.max() for values in lengths if len(values)), default=1.0)
    # Edges between whole numbers; wider bins to the right once there are more lengths than fit.
    if longest <= 40:
        edges = np.arange(0.5, longest + 1)
    else:
        edges = np.unique(np.round(np.geomspace(1, longest + 1, 25))) - 0.5
        ax.set_xscale("log")
        plain_log_ticks(ax.xaxis, edges[0], edges[-1])
    for k, (name, values) in enumerate(zip(_names(names, len(lengths)), lengths, strict=True)):
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
    ax.legend(handles=handles, ncols=legend_columns(ax, [str(one.get_label()) for one in handles]), **ABOVE)
    return ax


# -- how many intentions, and whether there are any --------------------------------------------------------------------


def likelihood_by_intentions(ax: Axes, rows: Rows, chosen: int | None = None) -> Axes:
    """Draw ``predictive_ll`` against ``n_intentions`` with a band of one ``standard_error``; ``chosen`` has a ring."""
    k, mean, error = (_column(rows, name) for name in ("n_intentions", "predictive_ll", "standard_error"))
    ax.fill_between(k, mean - error, mean + error, color=PALETTE[0], alpha=0.2, linewidth=0, label="± 1 s.e.")
    ax.plot(k, mean, "o-", color=PALETTE[0], markersize=4)
    ax.set(ylabel="predictive LL\n(nats per step)")
    return _ringed(ax, k, mean, chosen, "rises up to here")


def agreement_by_intentions(ax: Axes, rows: Rows, chosen: int | None = None, *, threshold: float = 0.8) -> Axes:
    """Draw the ``agreement`` between labellings from disjoint halves (None where there is none) against K.

    From the ``threshold`` on, a dashed line, intentions count as identified.
    """
    k, agreement = _column(rows, "n_intentions"), _column(rows, "agreement")
    ax.axhline(threshold, color=MUTED, linestyle=DASHED, linewidth=0.9)
    note(ax, "identified", 1.0, threshold, relative="x", offset=(-2, 2), ha="right", fontsize=6.5, color=MUTED)
    known = np.isfinite(agreement)
    ax.plot(k[known], agreement[known], "s-", color=PALETTE[3], markersize=4)
    ax.set(xlabel="number of intentions K", ylabel="agreement (ARI)", ylim=(min(0.0, np.nanmin([0, *agreement])), 1.05))
    return _ringed(ax, k, agreement, chosen, "recommended")


def _column(rows: Rows, name: str) -> FloatArray:
    return np.array([row[name] for row in rows], float)  # None becomes NaN


def _ringed(ax: Axes, k: FloatArray, values: FloatArray, chosen: int | None, label: str) -> Axes:
    """A ring around the chosen point, and what both axes have in common."""
    here = (k == chosen) & np.isfinite(values)
    if here.any():
        ax.plot(k[here], values[here], "o", markersize=9, fillstyle="none", color=INK, linestyle="none", label=label)
    _whole_ticks(ax)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="best")
    return ax


def data_among_surrogates(ax: Axes, value: float, surrogates: Sequence[float], label: str) -> Axes:
    """Draw a statistic of the data as a line among those of surrogates as dots, above an axis with a ``label``."""
    found = np.sort(np.asarray(surrogates, float))
    width = max(float(np.ptp([*found, value])), 1e-12) / 28
    heights = np.zeros(len(found))  # so that dots that lie close together are seen one by one
    for i, x in enumerate(found):
        near = heights[:i][np.abs(found[:i] - x) < width]
        heights[i] = next(h for h in range(len(found)) if h not in near)
    ax.plot(found, heights, "o", color=MUTED, markersize=4, alpha=0.8, linewidth=0)
    ax.axvline(value, color=PALETTE[3] if value > found.max() else PALETTE[0], linewidth=1.6)
    right = value > (found.min() + max(found.max(), value)) / 2
    side: dict[str, Any] = {"offset": (-3 if right else 3, 0), "ha": "right" if right else "left"}
    note(ax, "data", value, 0.97, relative="y", va="top", **side)
    middle: dict[str, Any] = {"offset": (0, 1), "ha": "center", "va": "bottom", "color": MUTED}
    note(ax, "surrogates", found[len(found) // 2], 0.02, relative="y", **middle)
    ax.set(xlabel=label, yticks=[], ylim=(-0.9, None))
    ax.locator_params(axis="x", nbins=5)  # long numbers need room
    ax.set_ylim(-0.9, max(ax.get_ylim()[1], 5))
    ax.spines["left"].set_visible(False)
    return ax


def budget(ax: Axes, rows: Rows) -> Axes:
    """Draw the budget of predictability: one bar per row from the worst, with its interval and its gain in words.

    A row has ``id``, ``name``, ``predictive_ll``, ``low``, ``high`` and ``gain`` (None for the first).
    """
    y = -np.arange(len(rows))
    scores, low, high = (_column(rows, key) for key in ("predictive_ll", "low", "high"))
    worst = min(scores.min(), low.min())  # an interval is seen to its end
    floor = worst - 0.06 * max(scores.max() - worst, 1e-6)
    colors = [PALETTE[3] if row["id"] == "intentions" else PALETTE[0] for row in rows]
    ax.barh(y, scores - floor, left=floor, color=colors, alpha=0.85, height=0.62)
    ax.errorbar(scores, y, xerr=[scores - low, high - scores], fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)
    for row, place in zip(rows, y, strict=True):
        gain = row.get("gain")
        text = f"{row['predictive_ll']:.4f}" + ("" if gain is None else f"   ({gain:+.4f})")
        note(ax, text, 1 / WIDTH, float(place), relative="x", offset=(8, 0), ha="left", va="center", fontsize=6.5)
    ax.set_yticks(y, [str(row["name"]) for row in rows])
    ax.set_xlim(floor, floor + WIDTH * (max(high.max(), scores.max()) - floor))
    ax.set_xlabel("cross-validated log-likelihood (nats per step)")
    ax.grid(axis="x", color=FAINT, linewidth=0.5)
    ax.set_axisbelow(True)
    return ax


# -- animals and conditions --------------------------------------------------------------------------------------------


def unit_dots(
    ax: Axes,
    units: Sequence[Mapping[str, float]],
    groups: Sequence[float],
    levels: Sequence[str],
    *,
    color: str = PALETTE[0],
) -> Axes:
    """Draw the value of every unit under each condition, called ``levels``, and those of the ``groups``.

    A unit that is in neighbouring conditions is joined by a line.
    """
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


def difference_forest(ax: Axes, rows: Rows, labels: Sequence[str]) -> Axes:
    """Draw each ``difference`` with its ``interval``, one row each; filled where ``p_adjusted`` is at most 0.05."""
    ax.axvline(0, color=MUTED, linewidth=0.8)
    for y, (row, label) in enumerate(zip(rows, labels, strict=True)):
        clear = row["p_adjusted"] is not None and row["p_adjusted"] <= 0.05
        ax.plot(row["interval"], (y, y), color=PALETTE[0], linewidth=1.4)
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


def unit_rows(ax: Axes, rows: Rows, shared: float, *, color: str) -> Axes:
    """Draw the usage of every animal, as it is (open) and shrunk (filled), with the ``shared`` one as a line.

    A row has ``unit_of``, ``usage_alone``, ``usage`` and ``p_adjusted``.
    """
    ax.axvline(shared, color=MUTED, linewidth=0.9)
    for y, row in enumerate(rows):
        ax.plot((row["usage_alone"], row["usage"]), (y, y), color=FAINT, linewidth=1.0, zorder=1)
        ax.plot(row["usage_alone"], y, "o", color=color, markerfacecolor="white", markersize=4, label=row["unit_of"])
        ax.plot(row["usage"], y, "o", color=color, markersize=4, label=f"{row['unit_of']} shrunk")
    called = [f"{row['unit_of']}{' ∗' if row['p_adjusted'] <= 0.05 else ''}" for row in rows]
    ax.set_yticks(range(len(rows)), labels=called)
    ax.set(xlim=(0, 1), ylim=(len(rows) - 0.5, -0.5), xlabel="share of steps")
    return ax


# -- estimates with intervals, and data beside simulations -------------------------------------------------------------


def estimates(
    ax: Axes, values: ArrayLike, low: ArrayLike, high: ArrayLike, labels: Sequence[str], colors: Sequence[str]
) -> Axes:
    """Draw n estimates, one column each, with the ends of their intervals (n,)."""
    dots, bottoms, tops = (np.asarray(numbers, float) for numbers in (values, low, high))
    for x, (label, color) in enumerate(zip(labels, colors, strict=True)):
        ends: dict[str, Any] = {"solid_capstyle": "round", "label": f"{label} interval"}
        ax.plot((x, x), (bottoms[x], tops[x]), color=color, linewidth=2.0, **ends)
        ax.plot(x, dots[x], "o", color=color, markersize=5, label=label)
    ax.set_xticks(range(len(dots)), labels=list(labels))
    ax.set_xlim(-0.6, len(dots) - 0.4)
    ax.grid(axis="y", color=FAINT, linewidth=0.5)
    return ax


def ranked(
    ax: Axes, values: ArrayLike, low: ArrayLike, high: ArrayLike, labels: Sequence[str], *, most: int = 12, color: str
) -> Axes:
    """Draw the largest of many estimates (n,) with their intervals, the largest on top; NaN are left out."""
    dots, bottoms, tops = (np.asarray(numbers, float) for numbers in (values, low, high))
    order = [int(i) for i in np.argsort(-dots, kind="stable") if np.isfinite(dots[i])][:most]  # NaN come last
    for y, i in enumerate(order):
        ax.plot((bottoms[i], tops[i]), (y, y), color=color, linewidth=1.6, label=f"{labels[i]} interval")
        ax.plot(dots[i], y, "o", color=color, markersize=4, label=labels[i])
    ax.axvline(0, color=PALETTE[7], linewidth=0.6)
    ax.set_yticks(range(len(order)), labels=[labels[i] for i in order])
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


def simulated_bands(
    ax: Axes, curves: Rows, labels: Sequence[str], colors: Sequence[str], *, around: bool = False
) -> Axes:
    """Draw curves of the data as lines, and where 95% of the simulations run as bands of the same colour.

    A curve has ``x``, ``data``, ``low`` and ``high``, as in checks.json; x counts durations, on a logarithmic axis, or
    where it is ``around`` a switch, the steps from it.
    """
    for curve, label, color in zip(curves, labels, colors, strict=True):
        ax.fill_between(curve["x"], curve["low"], curve["high"], color=color, alpha=0.25, linewidth=0)
        ax.plot(curve["x"], curve["data"], color=color, linewidth=1.4, label=label)
    ax.set_ylim(bottom=0)
    if around:
        ax.axvline(-0.5, color=INK, linewidth=0.8, linestyle=DASHED)
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        ax.set_xlabel("steps from the switch")
    else:
        ax.set(xscale="log", xlabel="steps")
        plain_log_ticks(ax.xaxis, *ax.get_xlim(), integer=True)
    ax.grid(axis="y", color=FAINT, linewidth=0.5)
    ax.legend(loc="best")
    return ax


def occupancy_scatter(ax: Axes, data: ArrayLike, simulated: ArrayLike) -> Axes:
    """Draw each state's share of the steps in the data (S,) against the simulations; on the line both are equal."""
    x, y = np.asarray(simulated, float), np.asarray(data, float)
    seen = (x > 0) & (y > 0)
    if not seen.any():
        raise InputError("No state is visited in both the data and the simulations; there is nothing to draw.")
    ends = np.array([min(x[seen].min(), y[seen].min()), max(x[seen].max(), y[seen].max())]) * (0.8, 1.25)
    ax.plot(ends, ends, color=MUTED, linewidth=0.8, label="equal")
    ax.plot(x[seen], y[seen], "o", color=PALETTE[0], markersize=2.5, alpha=0.7, markeredgewidth=0, label="state")
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="simulated", ylabel="data")
    for axis in (ax.xaxis, ax.yaxis):
        plain_log_ticks(axis, *ends)
    return ax


# -- intentions over time ----------------------------------------------------------------------------------------------

_STRIP = (-0.17, 0.1)  # bottom and height of the strip of true labels, below the unit interval


def posterior_timeline(
    ax: Axes,
    probabilities: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    true: ArrayLike | None = None,
) -> Axes:
    """Draw the posterior (T, K) of one trajectory as stacked bands, its ``true`` intentions (T,) as a strip below."""
    p = np.asarray(probabilities, float)
    if p.ndim != 2 or not p.size:
        raise InputError(f"probabilities has shape {p.shape}; give (T, K).")
    n_steps, n_intentions = p.shape
    labels = _names(names, n_intentions)
    # Step t fills [t − ½, t + ½]: bands are constant within a step, because nothing is known between steps.
    edges = np.arange(n_steps + 1) - 0.5
    bounds = np.hstack([np.zeros((n_steps, 1)), np.cumsum(p, axis=1)])
    for k in range(n_intentions):
        low, high = (np.append(bounds[:, j], bounds[-1, j]) for j in (k, k + 1))
        ax.fill_between(edges, low, high, step="post", color=intention_color(k), linewidth=0, label=labels[k])
    if true is not None:
        if np.shape(true) != (n_steps,):
            raise InputError(f"true has shape {np.shape(true)}; the posterior has {n_steps} steps.")
        label_strip(ax, true, *_STRIP)
    ax.set(xlim=(-0.5, n_steps - 0.5), ylim=(_STRIP[0] if true is not None else 0, 1), ylabel="posterior")
    truth = [] if true is None else [(_STRIP[0] + _STRIP[1] / 2, "truth")]
    ax.set_yticks(*zip(*truth, (0, "0"), (0.5, ".5"), (1, "1"), strict=True))
    ax.legend(ncols=legend_columns(ax, labels), borderpad=0.1, **ABOVE)
    return ax


def label_strip(ax: Axes, labels: ArrayLike, bottom: float, height: float) -> None:
    """Draw the labels (T,) of one trajectory as a coloured strip: step t fills [t − ½, t + ½]."""
    cut = segments(labels, [0, np.size(labels)])
    for start, length, k in zip(cut.starts, cut.lengths, cut.labels, strict=True):
        ax.broken_barh([(start - 0.5, length)], (bottom, height), facecolor=intention_color(int(k)), linewidth=0)


def switch_average(
    ax: Axes, around: ArrayLike, *, into: int, names: Sequence[str] | None = None, title: str | None = None
) -> Axes:
    """Draw the mean posterior (2w + 1, K) at the steps −w … w around switches into one intention, the thick line.

    Step 0 is the first of the new intention.
    """
    p = np.asarray(around, float)
    labels, steps = _names(names, p.shape[1]), np.arange(len(p)) - len(p) // 2
    ax.axvline(-0.5, color=INK, linewidth=0.8, linestyle=DASHED)
    for k in range(p.shape[1]):
        wide = 2.0 if k == into else 1.0
        ax.plot(steps, p[:, k], "o-", color=intention_color(k), linewidth=wide, markersize=2.5, label=labels[k])
    ax.set(xlim=(steps[0] - 0.3, steps[-1] + 0.3), ylim=(-0.03, 1.03), xlabel="steps from the switch")
    ax.set_ylabel("mean posterior")
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    if title is not None:
        ax.set_title(title, y=1.0)
    return ax


def segmentation_raster(
    ax: Axes,
    labels: ArrayLike,
    offsets: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    max_trajectories: int = 60,
    total: int | None = None,
) -> Axes:
    """Draw the intention of every step (n,), one row per trajectory, the first trajectory on top.

    Trajectories begin at ``offsets`` (N + 1,); at most so many are drawn, and the axis says of how many in ``total``.
    """
    z, edges = np.asarray(labels), np.asarray(offsets)
    if edges.ndim != 1 or len(edges) < 2 or z.ndim != 1 or edges[0] != 0 or edges[-1] != len(z):
        raise InputError(f"labels of shape {z.shape} and offsets of shape {edges.shape} do not belong together.")
    n_rows = min(len(edges) - 1, max_trajectories)
    total = len(edges) - 1 if total is None else total
    lengths = np.diff(edges)[:n_rows]
    inside = np.arange(lengths.max()) < lengths[:, None]
    rows = np.zeros(inside.shape, np.int64)
    rows[inside] = z[: edges[n_rows]]
    n_intentions = int(z.max()) + 1 if names is None else len(names)
    if z.max() >= n_intentions:
        raise InputError(f"{n_intentions} names were given, and there is an intention {int(z.max())}.")
    called, colours = _names(names, n_intentions), [intention_color(k) for k in range(n_intentions)]
    # "none": one pixel per step in the SVG, which keeps a raster of long trajectories small.
    look: dict[str, Any] = {"aspect": "auto", "interpolation": "none", "cmap": ListedColormap(colours)}
    ax.imshow(np.ma.array(rows, mask=~inside), vmin=-0.5, vmax=n_intentions - 0.5, **look)
    ax.set(xlabel="step", ylabel="trajectory" if n_rows == total else f"trajectory (first {n_rows} of {total})")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator("auto", integer=True))
    handles = [Patch(facecolor=colour, label=name) for colour, name in zip(colours, called, strict=True)]
    ax.legend(handles=handles, ncols=legend_columns(ax, called), **ABOVE)
    return ax


def _names(names: Sequence[str] | None, n: int) -> list[str]:
    if names is None:
        return [f"intention {k}" for k in range(n)]
    if len(names) != n:
        raise InputError(f"{len(names)} names were given for {n} intentions.")
    return [short(name) for name in names]
