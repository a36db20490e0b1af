"""What is drawn of a fit, as functions that a process of its own can be given (`figures.elsewhere`).

They import matplotlib when they are called, so that a command whose figures are drawn elsewhere never imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Captions = Callable[[], dict[str, str]]
"""Waits until figures are drawn, and gives their captions."""


def gathered(begun: Iterable[Captions]) -> dict[str, str]:
    """Wait for all figures; their captions, in the same order."""
    return {stem: words for wait in begun for stem, words in wait().items()}


def pictures(folder: Path, explorer: Mapping[str, Any], names: Sequence[str] | None = None) -> dict[str, str]:
    """Maps and switches of a segmentation."""
    from prism_irl.report.pictures import write_pictures

    return write_pictures(folder, explorer, names)


def fit_figures(folder: Path, *of: Any) -> dict[str, str]:
    """Raster, dwell and curves of EM; see `fit_pictures.draw_fit`."""
    from prism_irl.report.fit_pictures import draw_fit

    return draw_fit(folder, *of)


def check_curves(
    folder: Path, checks: Mapping[str, Any], names: Sequence[str], states: Sequence[str] | None
) -> dict[str, str]:
    """The data in the bands of the simulations."""
    from prism_irl.report.check_pictures import draw_curves

    return draw_curves(folder, checks, names, states)


def check_map(folder: Path, occupancy: Mapping[str, Any], layout: Mapping[str, Any]) -> dict[str, str]:
    """Where the data and the simulations differ."""
    from prism_irl.report.check_pictures import draw_map

    return draw_map(folder, occupancy, layout)
