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

    def _names(self, demos: Demonstrations) -> list[str]:
        """What the K intentions are called: by the labels that are known in the data, else by their numbers."""
        from prism_irl.report.names import default_names, told_names

        n = int(self._model.n_intentions)
        return told_names(demos.partial_label_names, n) or default_names(n)

    def raster(self, demos: Demonstrations | None = None) -> Figure:
        """Intention of every step, one row per trajectory."""
        from prism_irl.figures import style, timelines

        demos = data_of(self._model, demos, "plot.raster(demos)")
        with style.paper_style():
            figure, (ax,) = style.new_figure(width=6.6, height=3.2)
            timelines.segmentation_raster(ax, self._model.predict(demos), demos.offsets, names=self._names(demos))
            ax.set_title("Intention of every step")
        return figure

    def timeline(self, demos: Demonstrations | None = None, trajectory: int = 0) -> Figure:
        """Probability of each intention along one trajectory, above the true ones where they are known."""
        from prism_irl.figures import style, timelines

        one = data_of(self._model, demos, "plot.timeline(demos)")[trajectory]
        with style.paper_style():
            figure, (ax,) = style.new_figure(width=6.6, height=2.2)
            timelines.posterior_timeline(ax, self._model.predict_proba(one), names=self._names(one), true=one.labels)
            named = trajectory if one.trajectory_names is None else one.trajectory_names[0]
            ax.set_title(f"Trajectory {named}")
            ax.set_xlabel("step")
        return figure

    def maps(self, demos: Demonstrations | None = None, layout: dict[str, Any] | None = None) -> Figure:
        """Where each intention leads, and below it where it earns its reward, as in a report.

        ``layout`` says where states lie, as in `prism_irl.report.places`; by default it is found from the moves.
        """
        from prism_irl.evaluation.rewards import on_map
        from prism_irl.figures import style
        from prism_irl.report.draw import draw_maps
        from prism_irl.report.explorer import map_numbers
        from prism_irl.report.places import find_layout
        from prism_irl.report.story import describe

        demos = data_of(self._model, demos, "plot.maps(demos)")
        place = find_layout(demos) if layout is None else layout
        if place is None:
            raise InputError("These states have no map: too many follow one another; give a layout.")
        p = np.asarray(self._model.predict_proba(demos), np.float64)
        rewards, values = on_map(self._model, demos, p)
        shown = map_numbers(demos, p, place, rewards, values)
        shown |= {"states": demos.state_names, "story": describe(demos, p)}
        with style.paper_style():
            return draw_maps(shown, self._names(demos))
