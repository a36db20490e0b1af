"""Intentions over time: posterior, hidden counter, and many trajectories at a glance.

The posterior of one trajectory is a stack of K bands that fill the unit interval, with the true intentions as a strip
below where they are known. The raster shows one trajectory per row and is the first thing to look at: stripes are
intentions, salt and pepper is noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from prism_irl.errors import InputError
from prism_irl.figures.style import INK, intention_color, legend_columns, short
from prism_irl.labels import segments

_MARKS = ("v", "x", "o", "s")
_STRIP = (-0.17, 0.1)  # bottom and height of the strip of true labels, below the unit interval


def posterior_timeline(
    ax: Axes,
    probabilities: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    true: ArrayLike | None = None,
    events: Mapping[str, ArrayLike] | None = None,
) -> Axes:
    """Draw the posterior of one trajectory as stacked bands.

    Parameters
    ----------
    ax : Axes
    probabilities : (T, K)
        Probability of each intention at each step; rows sum to one.
    names : K strings, optional
        By default "intention 0", "intention 1", …
    true : (T,) int, optional
        True intentions, drawn as a strip below the bands.
    events : {name: steps}, optional
        Things that happened, such as rewards, each kind with a mark of its own above the bands.
    """
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
        z = np.asarray(true)
        if z.shape != (n_steps,):
            raise InputError(f"true has shape {z.shape}; the posterior has {n_steps} steps.")
        label_strip(ax, z, *_STRIP)
    for i, (name, steps) in enumerate((events or {}).items()):
        at = np.asarray(steps, float).ravel()
        if len(at) and (at.min() < 0 or at.max() >= n_steps):
            raise InputError(f"The event {name!r} is at step {at.max():.0f}; the posterior has {n_steps} steps.")
        height = np.full(len(at), 1.06 + 0.1 * i)
        ax.plot(at, height, _MARKS[i % len(_MARKS)], color=INK, markersize=3.5, linestyle="none", label=name)
    top = 1 + 0.1 * len(events or {}) + (0.02 if events else 0)
    ax.set(xlim=(-0.5, n_steps - 0.5), ylim=(_STRIP[0] if true is not None else 0, top), ylabel="posterior")
    middle = _STRIP[0] + _STRIP[1] / 2
    truth = [] if true is None else [(middle, "truth")]
    positions, texts = zip(*truth, (0, "0"), (0.5, ".5"), (1, "1"), strict=True)
    ax.set_yticks(positions, texts)
    # Above the axes: inside, a legend would hide the bands.
    ncols = legend_columns(ax, [*labels, *(events or {})])
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=ncols, columnspacing=1.0, borderpad=0.1)
    return ax


def label_strip(ax: Axes, labels: ArrayLike, bottom: float, height: float) -> None:
    """Draw the labels (T,) of one trajectory as a coloured strip: step t fills [t − ½, t + ½]."""
    cut = segments(labels, [0, np.size(labels)])
    for start, length, k in zip(cut.starts, cut.lengths, cut.labels, strict=True):
        ax.broken_barh([(start - 0.5, length)], (bottom, height), facecolor=intention_color(int(k)), linewidth=0)


def switch_average(
    ax: Axes, around: ArrayLike, *, into: int, names: Sequence[str] | None = None, title: str | None = None
) -> Axes:
    """Draw the mean probability of each intention before and after switches into one of them.

    Parameters
    ----------
    ax : Axes
    around : (2w + 1, K)
        Mean posterior at the steps −w … w around a switch; step 0 is the first of the new intention.
    into : int
        The new intention, drawn with a thick line.
    names : K strings, optional
    title : str, optional
    """
    p = np.asarray(around, float)
    if p.ndim != 2 or len(p) % 2 == 0 or not 0 <= into < p.shape[1]:
        raise InputError(f"around has shape {p.shape}; give (2w + 1, K) with one of the K intentions as `into`.")
    labels = _names(names, p.shape[1])
    steps = np.arange(len(p)) - len(p) // 2
    ax.axvline(-0.5, color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
    for k in range(p.shape[1]):
        wide = 2.0 if k == into else 1.0
        ax.plot(steps, p[:, k], "o-", color=intention_color(k), linewidth=wide, markersize=2.5, label=labels[k])
    ax.set(xlim=(steps[0] - 0.3, steps[-1] + 0.3), ylim=(-0.03, 1.03), xlabel="steps from the switch")
    ax.set_ylabel("mean posterior")
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    if title is not None:
        ax.set_title(title, y=1.0)
    return ax


def counter_timeline(ax: Axes, counts: ArrayLike, *, label: str) -> Axes:
    """Draw a hidden counter, such as the frustration behind the switches, as a step line.

    Parameters
    ----------
    ax : Axes
    counts : (T,)
        Value at each step.
    label : str
        Name of the counter, on the y axis.
    """
    c = np.asarray(counts, float)
    if c.ndim != 1 or not len(c):
        raise InputError(f"counts has shape {c.shape}; give one number per step, (T,).")
    ax.stairs(c, np.arange(len(c) + 1) - 0.5, color=INK, linewidth=1.0)
    ax.stairs(c, np.arange(len(c) + 1) - 0.5, fill=True, color=INK, alpha=0.12)
    ax.set(xlim=(-0.5, len(c) - 0.5), ylim=(0, max(1.0, c.max()) * 1.1), xlabel="step", ylabel=label)
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
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
    """Draw the intention of every step, one row per trajectory, the first trajectory on top.

    Parameters
    ----------
    ax : Axes
    labels : (n,) int
        Intention of every step, flat.
    offsets : (N + 1,) int
        Where trajectories begin, as in `Demonstrations`.
    names : K strings, optional
        By default "intention 0", "intention 1", …
    max_trajectories : int
        Only so many are drawn, the first ones; the axis says so.
    total : int, optional
        How many there are, where the labels are of the first ones only.
    """
    z, edges = np.asarray(labels), np.asarray(offsets)
    if edges.ndim != 1 or len(edges) < 2 or z.ndim != 1 or edges[0] != 0 or edges[-1] != len(z):
        raise InputError(f"labels of shape {z.shape} and offsets of shape {edges.shape} do not belong together.")
    if max_trajectories < 1:
        raise InputError(f"max_trajectories is {max_trajectories}; draw at least 1.")
    n_rows = min(len(edges) - 1, max_trajectories)
    total = len(edges) - 1 if total is None else total
    lengths = np.diff(edges)[:n_rows]
    inside = np.arange(lengths.max()) < lengths[:, None]
    rows = np.zeros(inside.shape, np.int64)
    rows[inside] = z[: edges[n_rows]]
    picture = np.ma.array(rows, mask=~inside)

    n_intentions = int(z.max()) + 1 if names is None else len(names)
    if z.max() >= n_intentions:
        raise InputError(f"{n_intentions} names were given, and there is an intention {int(z.max())}.")
    called = _names(names, n_intentions)
    colours = [intention_color(k) for k in range(n_intentions)]
    # "none": one pixel per step in the SVG, which keeps a raster of long trajectories small.
    ax.imshow(
        picture,
        aspect="auto",
        interpolation="none",
        cmap=ListedColormap(colours),
        vmin=-0.5,
        vmax=n_intentions - 0.5,
    )
    ax.set(xlabel="step", ylabel="trajectory" if n_rows == total else f"trajectory (first {n_rows} of {total})")
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    ax.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    handles = [Patch(facecolor=colour, label=name) for colour, name in zip(colours, called, strict=True)]
    ncols = legend_columns(ax, called)
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=ncols, columnspacing=1.0)
    return ax


def _names(names: Sequence[str] | None, n: int) -> list[str]:
    if names is None:
        return [f"intention {k}" for k in range(n)]
    if len(names) != n:
        raise InputError(f"{len(names)} names were given for {n} intentions.")
    return [short(name) for name in names]
