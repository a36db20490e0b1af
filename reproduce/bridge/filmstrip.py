"""An episode as a strip of frames whose borders have the colour of the intention, above the segmentation itself.

The one figure that tells a robot engineer whether phases make sense: look at what happens where the colour changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from prism_irl.errors import InputError
from prism_irl.figures.style import INK, MUTED, intention_color
from prism_irl.labels import segments


def filmstrip(
    ax: Axes,
    frames: npt.NDArray[np.uint8] | None,
    labels: npt.ArrayLike,
    *,
    true: npt.ArrayLike | None = None,
    names: Sequence[str] | None = None,
    n_frames: int = 12,
    title: str | None = None,
) -> Axes:
    """Draw one episode.

    Parameters
    ----------
    ax : Axes
    frames : (T, height, width, 3) uint8 or None
        One picture per step; without pictures only the strips are drawn.
    labels : (T,) int
        Intention of every step.
    true : (T,) int, optional
        True phase of every step, under the same numbers, as a second strip.
    names : sequence of str, optional
        Names of the intentions, written where each first appears.
    n_frames : int
        Frames drawn, evenly spaced.
    title : str, optional
    """
    found = np.asarray(labels, dtype=np.int64)
    if found.ndim != 1 or not len(found):
        raise InputError(f"The labels have shape {found.shape}; give one intention per step.")
    if frames is not None and len(frames) != len(found):
        raise InputError(f"There are {len(frames)} frames for {len(found)} steps; give one per step.")
    if n_frames < 1:
        raise InputError(f"A filmstrip shows at least one frame, not {n_frames}.")
    T = len(found)
    top = 0.0
    if frames is not None:
        steps = np.unique(np.linspace(0, T - 1, min(n_frames, T)).round().astype(np.int64))
        width = T / len(steps)
        height = 0.9 * width * frames.shape[1] / frames.shape[2]
        for slot, step in enumerate(steps):
            left, right = (slot + 0.06) * width, (slot + 0.94) * width
            colour = intention_color(int(found[step]))
            ax.imshow(frames[step], extent=(left, right, 0.0, height), aspect="auto", interpolation="nearest", zorder=1)
            ax.add_patch(
                Rectangle((left, 0.0), right - left, height, fill=False, edgecolor=colour, linewidth=2.5, zorder=2)
            )
        top = height
    unit = T / 30
    strips = [("found", found, -1.5 * unit)]
    if true is not None:
        truth = np.asarray(true, dtype=np.int64)
        if truth.shape != found.shape:
            raise InputError(f"The true phases have shape {truth.shape} for {T} steps; give one per step.")
        strips.append(("true", truth, -3.0 * unit))
    for name, values, low in strips:
        cut = segments(values, [0, T])
        for start, length, k in zip(cut.starts, cut.lengths, cut.labels, strict=True):
            ax.add_patch(Rectangle((start, low), length, unit, color=intention_color(int(k)), lw=0))
            if names is not None and k < len(names) and length > T / 14:
                middle = (start + length / 2, low + unit / 2)
                ax.text(*middle, names[int(k)], ha="center", va="center", fontsize=6, color="white")
        ax.text(-0.01 * T, low + unit / 2, name, ha="right", va="center", fontsize=6, color=INK)
    ax.set(xlim=(0, T), ylim=(strips[-1][2] - 0.2 * unit, top + 0.2 * unit), yticks=[], xlabel="step")
    ax.spines[["left", "top", "right"]].set_visible(False)
    ax.tick_params(axis="x", colors=MUTED)
    if title is not None:
        ax.set_title(title)
    return ax
