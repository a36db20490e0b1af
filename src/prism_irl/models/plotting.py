"""Pictures of a fitted model, where one works with it: `model.plot.raster()`, `.timeline()`, `.maps()`.

Of the data of the fit, or of others, `model.plot.raster(demos)`. Each returns a matplotlib figure, drawn by the
functions that draw those of a report, from the same numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prism_irl.errors import InputError
from prism_irl.models.reporting import data_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from prism_irl.data.demonstrations import Demonstrations


class Plot:
    """Pictures of one model."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def raster(self, demos: Demonstrations | None = None) -> Figure:
        """Intention of every step, one row per trajectory."""
        from prism_irl.figures import style, timelines

        demos = data_of(self._model, demos, "plot.raster(demos)")
        with style.paper_style():
            figure, (ax,) = style.new_figure(width=6.6, height=3.2)
            timelines.segmentation_raster(ax, self._model.predict(demos), demos.offsets)
        return figure

    def timeline(self, demos: Demonstrations | None = None, trajectory: int = 0) -> Figure:
        """Probability of each intention along one trajectory, above the true ones where they are known."""
        from prism_irl.figures import style, timelines

        one = data_of(self._model, demos, "plot.timeline(demos)")[trajectory]
        with style.paper_style():
            figure, (ax,) = style.new_figure(width=6.6, height=2.2)
            timelines.posterior_timeline(ax, self._model.predict_proba(one), true=one.labels)
        return figure

    def maps(self, demos: Demonstrations | None = None, layout: dict[str, Any] | None = None) -> Figure:
        """Where each intention leads: its share of time in every state if it never ended.

        ``layout`` says where states lie, as in `prism_irl.report.state_places`; by default it is found from the moves.
        """
        from prism_irl.figures import layouts, style
        from prism_irl.report.names import default_names
        from prism_irl.report.state_places import find_layout
        from prism_irl.report.story import long_runs

        demos = data_of(self._model, demos, "plot.maps(demos)")
        place = find_layout(demos) if layout is None else layout
        if place is None:
            raise InputError("These states have no map: too many follow one another; give a layout.")
        leads = long_runs(demos, np.asarray(self._model.predict_proba(demos), np.float64))
        visited = np.bincount(demos.states, minlength=demos.n_states) > 0
        with style.paper_style():
            figure, axes = style.new_figure(1, len(leads), width=2.4 * len(leads), height=2.3)
            for ax, shares, name in zip(axes, leads, default_names(len(leads)), strict=True):
                layouts.layout_map(ax, place, np.where(visited, shares, np.nan), title=name)
        return figure
