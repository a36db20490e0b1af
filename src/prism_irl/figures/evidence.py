"""Evidence in two pictures: the data among its surrogates, and the budget of predictability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from prism_irl.errors import InputError
from prism_irl.figures.style import FAINT, INK, MUTED, PALETTE, note

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


def power(ax: Axes, found: Mapping[str, Mapping[str, Any]], wrong: Mapping[str, float], *, level: float) -> Axes:
    """Draw how often evidence is found against the number of trajectories.

    Parameters
    ----------
    ax : Axes
    found : mapping of dict
        ``world``, ``n``, ``share``, ``low`` and ``high`` of every world with intentions and size.
    wrong : dict
        ``share``, ``low`` and ``high`` of data without intentions.
    level : float
        Of the test, a dashed line.
    """
    ax.axhspan(wrong["low"], wrong["high"], color=MUTED, alpha=0.25, linewidth=0)
    ax.axhline(wrong["share"], color=MUTED, linewidth=1.0, label="no intentions")
    ax.axhline(level, color=INK, linestyle=(0, (4, 2)), linewidth=0.8, label=f"level {level:.2g}")
    worlds = list(dict.fromkeys(str(row["world"]) for row in found.values()))
    for i, world in enumerate(worlds):
        own = sorted((row for row in found.values() if row["world"] == world), key=lambda row: row["n"])
        n, share, low, high = (np.array([row[key] for row in own], float) for key in ("n", "share", "low", "high"))
        near = n * (1 + 0.03 * (i - (len(worlds) - 1) / 2))  # so that bars do not cover one another
        color = PALETTE[(i * 2) % len(PALETTE)]
        ax.errorbar(
            near, share, [share - low, high - share], fmt="o-", color=color, markersize=4, label=world, capsize=2
        )
    sizes = sorted({int(row["n"]) for row in found.values()})
    ax.set_xscale("log")
    ax.set_xticks(sizes, [str(n) for n in sizes])
    ax.minorticks_off()
    ax.set(xlabel="trajectories", ylabel="evidence found", ylim=(-0.03, 1.03))
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))  # beside the axes: bars may reach anywhere within
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
