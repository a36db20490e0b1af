"""`model.report("runs/x")`: the page of a fit, where one works with it.

The folder is that of `prism fit` (model, metrics, segments, tables, figures, report.html), so that ``prism report``,
``segment``, ``score`` and ``names`` go on from it. The data are those of the fit, as long as somebody holds them: a
model remembers them weakly, because it must not keep a large table alive, nor save it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from prism_irl.errors import InputError

if TYPE_CHECKING:
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
        try:
            _fitted_to[model] = ref(demos)
        except TypeError:  # a method from outside whose instances have no hash, or data of another kind
            return found
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

    Parameters
    ----------
    folder : path
        A new or an empty one.
    demos : Demonstrations, optional
        Data to show; by default those of the fit.
    layout : dict, optional
        Where states lie, as `prism_irl.report.places` makes it; by default found from the moves.
    events : {name: (n,) bool}, optional
        Steps at which something happened, to be marked on the page.
    overwrite : bool
        Replace a run that is already there.
    """
    from prism_irl.models.describe import describe
    from prism_irl.report.names import default_names, told_names
    from prism_irl.report.render import write_report

    model._check_fitted()
    data, path = data_of(model, demos, f'report("{folder}", demos)'), Path(folder)
    _check_folder(path, overwrite=overwrite)
    result = describe(model, data, events=events, layout=layout)
    names = told_names(data.partial_label_names, model.n_intentions) or default_names(model.n_intentions)
    write_run(path, model, result, names, {"data": {"file": "in memory", "columns": {}}, "world": {}})
    return Page(write_report(path))


def summary(model: IntentionModel, demos: Demonstrations | None = None) -> Summary:
    """Return scores, intentions and how they follow one another as a statistics package prints them.

    ``demos`` are by default those of the fit.
    """
    from prism_irl.models.describe import describe
    from prism_irl.report.names import default_names, told_names
    from prism_irl.report.summary import summary_text

    model._check_fitted()
    data = data_of(model, demos, "summary(demos)")
    result = describe(model, data, references=False)
    return Summary(
        summary_text(
            result, told_names(data.partial_label_names, model.n_intentions) or default_names(model.n_intentions)
        )
    )


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
    from prism_irl.models.persistence import save
    from prism_irl.report.write import write_fit

    demos = result.demos
    data = {"sha256": demos.checksum(), "events": list(result.shown.marks), **extra["data"]}
    if demos.action_space.continuous:
        data["names"] = {"observations": demos.observation_names, "commands": demos.motion_names}
    words = {"states": result.table.states.to_json(), "actions": result.table.actions.to_json()}
    save(model, folder, {**extra, "data": data, "vocabulary": words})
    return write_fit(folder, result, names, find=find)


def _check_folder(path: Path, *, overwrite: bool) -> None:
    """Never write among files of somebody else."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    ours = (path / "config.json").is_file() and (path / "model.safetensors").is_file()
    if not ours:
        raise InputError(f"{path} is there already and holds no run of prism; choose another folder.")
    if not overwrite:
        raise InputError(f"{path} already holds a run; choose another folder or pass overwrite=True.")
