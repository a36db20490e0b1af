"""`model.report("runs/x")`, `.summary()` and `.plot`: the page and the pictures of a fit, where one works with it.

The folder is that of `prism fit` (model, metrics, segments, tables, figures, report.html), so that ``prism report``,
``segment``, ``score`` and ``names`` go on from it. The data are those of the fit, as long as somebody holds them: a
model remembers them weakly, because it must not keep a large table alive, nor save it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary, ref

import numpy as np

from prism_irl.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.evaluation.result import FitResult
    from prism_irl.models.base import IntentionModel

_fitted_to: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def remembering(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A `fit` that remembers which data it was given."""

    @wraps(fit)
    def fitting(model: Any, demos: Any, *arguments: Any, **options: Any) -> Any:
        from prism_irl.data.demonstrations import expect_demonstrations

        expect_demonstrations(demos)
        found = fit(model, demos, *arguments, **options)
        with suppress(TypeError):  # a method from outside whose instances have no hash, or data of another kind
            _fitted_to[model] = ref(demos)
        return found

    return fitting


def data_of(model: IntentionModel, demos: Demonstrations | None, call: str) -> Demonstrations:
    """The data that were given, or else those of the fit."""
    known = _fitted_to.get(model, lambda: None)() if demos is None else demos
    if known is None:
        raise InputError(f"This model does not hold the data of its fit any more; pass them: model.{call}.")
    return known


class Summary(str):
    """Text that a notebook and a prompt show as it is."""

    __slots__ = ()
    __repr__ = str.__str__


class Page(type(Path())):  # type: ignore[misc]
    """Where a report lies; a notebook shows a link to it."""

    def _repr_html_(self) -> str:
        from html import escape

        return f'Report: <a href="{escape(self.as_posix(), quote=True)}" target="_blank">{escape(str(self))}</a>'


def report(
    model: IntentionModel,
    folder: str | Path,
    demos: Demonstrations | None = None,
    *,
    layout: Mapping[str, Any] | None = None,
    events: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Page:
    """Write the folder that `prism fit` would have written, and return where its page is.

    ``demos`` are by default those of the fit, ``layout`` and ``events`` as in `models.describe`; ``overwrite`` replaces
    a run that is already there.
    """
    from prism_irl.models.describe import describe
    from prism_irl.report.render import write_report

    model._check_fitted()
    data, path = data_of(model, demos, f'report("{folder}", demos)'), Path(folder)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):  # never write among files of somebody else
        if not (path / "config.json").is_file() or not (path / "model.safetensors").is_file():
            raise InputError(f"{path} is there already and holds no run of prism; choose another folder.")
        if not overwrite:
            raise InputError(f"{path} already holds a run; choose another folder or pass overwrite=True.")
    result = describe(model, data, events=events, layout=layout)
    write_run(path, model, result, _names(model, data), {"data": {"file": "in memory", "columns": {}}, "world": {}})
    return Page(write_report(path))


def summary(model: IntentionModel, demos: Demonstrations | None = None) -> Summary:
    """Return scores, intentions and how they follow one another as a statistics package prints them.

    ``demos`` are by default those of the fit.
    """
    from prism_irl.models.describe import describe
    from prism_irl.report.table_rows import summary_text

    model._check_fitted()
    data = data_of(model, demos, "summary(demos)")
    return Summary(summary_text(describe(model, data, references=False), _names(model, data)))


def _names(model: IntentionModel, demos: Demonstrations) -> list[str]:
    """What the K intentions are called: by the labels that are known in the data, else by their numbers."""
    from prism_irl.report.names import default_names, told_names

    return told_names(demos.partial_label_names, model.n_intentions) or default_names(model.n_intentions)


def write_run(
    folder: Path,
    model: IntentionModel,
    result: FitResult,
    names: Sequence[str],
    extra: Mapping[str, Any],
    *,
    find: bool = True,
) -> dict[str, Any]:
    """Write model and result of a fit, everything but the page; returns the metrics.

    ``extra`` is what config.json says beside the model: the ``data`` it was fitted to, the ``world``, the command.
    """
    from prism_irl.models.registry import save
    from prism_irl.report.draw import write_fit

    demos = result.demos
    data = {"sha256": demos.checksum(), "events": list(result.shown.marks), **extra["data"]}
    if demos.action_space.continuous:
        data["names"] = {"observations": demos.observation_names, "commands": demos.motion_names}
    words = {"states": result.table.states.to_json(), "actions": result.table.actions.to_json()}
    save(model, folder, {**extra, "data": data, "vocabulary": words})
    return write_fit(folder, result, names, find=find)


def _on(ax: Axes | None, height: float) -> tuple[Figure, Axes]:
    """The figure of an Axes, or a new one with a single Axes."""
    from prism_irl.figures import style

    if ax is not None:
        return cast("Figure", ax.get_figure(root=True)), ax
    figure, (made,) = style.new_figure(width=6.6, height=height)
    return figure, made


class Plot:
    """Pictures of one model."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def raster(self, demos: Demonstrations | None = None, ax: Axes | None = None) -> Figure:
        """Intention of every step, one row per trajectory; on ``ax``, or a figure of its own."""
        from prism_irl.figures import charts, style

        demos = data_of(self._model, demos, "plot.raster(demos)")
        with style.paper_style():
            figure, ax = _on(ax, 3.2)
            charts.segmentation_raster(ax, self._model.predict(demos), demos.offsets, names=_names(self._model, demos))
            ax.set_title("Intention of every step")
        return figure

    def timeline(self, demos: Demonstrations | None = None, trajectory: int = 0, ax: Axes | None = None) -> Figure:
        """Probability of each intention along one trajectory, above the true ones where they are known."""
        from prism_irl.figures import charts, style

        one = data_of(self._model, demos, "plot.timeline(demos)")[trajectory]
        with style.paper_style():
            figure, ax = _on(ax, 2.2)
            charts.posterior_timeline(
                ax, self._model.predict_proba(one), names=_names(self._model, one), true=one.labels
            )
            named = trajectory if one.trajectory_names is None else one.trajectory_names[0]
            ax.set_title(f"Trajectory {named}")
            ax.set_xlabel("step")
        return figure

    def maps(self, demos: Demonstrations | None = None, layout: dict[str, Any] | None = None) -> Figure:
        """Where each intention leads, and below it where it earns its reward; ``layout`` as in `models.describe`."""
        from prism_irl.evaluation.tables import on_map
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
            return draw_maps(shown, _names(self._model, demos))
