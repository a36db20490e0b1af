"""Figures that every fit has: its segmentation, how long intentions last, and the curves of EM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from prism_irl.figures import curves, style, timelines
from prism_irl.labels import segments


def draw_fit(
    folder: Path,
    labels: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    names: Sequence[str],
    expected: npt.NDArray[np.float64] | None,
    monitor: list[dict[str, float]] | None,
) -> dict[str, str]:
    """Draw them from labels (n,), the dwell (K, longest) that a model expects, if it does, and EM's monitor, if any.

    ``names`` are those of the K intentions. Returns the captions.
    """
    captions = {
        "segmentation": "Intention of every step, one row per trajectory.",
        "dwell": "How long each intention lasts once it has begun.",
    }
    with style.paper_style():
        figure, (ax,) = style.new_figure(width=6.6, height=3.2)
        timelines.segmentation_raster(ax, labels, offsets, names=names)
        style.save(figure, folder / "segmentation")
        cut = segments(labels, offsets)
        figure, (ax,) = style.new_figure(height=2.2 + 0.08 * len(names))  # the more, the higher the legend
        if expected is not None:
            captions["dwell"] += " Dashed: what the model expects of a visit that no end of a trajectory cuts short."
        curves.dwell_histogram(ax, [cut.lengths[cut.labels == k] for k in range(len(names))], expected, names)
        style.save(figure, folder / "dwell")
        if monitor is not None:
            figure, (ax,) = style.new_figure(height=2.4)
            curves.em_curves(ax, monitor)
            style.save(figure, folder / "em_curves")
            captions["em_curves"] = "Likelihood during EM, one line per start."
    return captions
