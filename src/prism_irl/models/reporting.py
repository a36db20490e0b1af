"""`model.report("runs/x")`: the page of a fit, where one works with it.

The folder is that of `prism fit` (model, metrics, segments, tables, figures, report.html), so that ``prism report``,
``segment``, ``score`` and ``names`` go on from it. The data are those of the fit, as long as somebody holds them: a
model remembers them weakly, because it must not keep a large table alive, nor save it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from prism_irl.errors import InputError

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations
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
        Where states lie, as `prism_irl.report.state_places` makes it; by default found from the moves.
    events : {name: (n,) bool}, optional
        Steps at which something happened, to be marked on the page.
    overwrite : bool
        Replace a run that is already there.
    """
    from prism_irl import storage
    from prism_irl.data.read import Table, write_segments
    from prism_irl.data.vocabulary import Vocabulary
    from prism_irl.evaluation.facts import on_map
    from prism_irl.evaluation.likelihood import infer_once
    from prism_irl.evaluation.tidy import seen_in_words
    from prism_irl.models.persistence import save
    from prism_irl.models.run_files import begin_figures, fit_metrics, write_history, write_tables
    from prism_irl.models.shown import shown_part
    from prism_irl.report.cells import cells_of
    from prism_irl.report.explorer import write_explorer
    from prism_irl.report.names import default_names, told_names, write_names
    from prism_irl.report.pictures import write_pictures
    from prism_irl.report.render import write_report

    model._check_fitted()
    data, path = data_of(model, demos, f'report("{folder}", demos)'), Path(folder)
    _check_folder(path, overwrite=overwrite)
    discrete = not data.action_space.continuous
    states, actions = Vocabulary(data.state_names, data.n_states), Vocabulary(data.action_names, data.n_actions)
    marks = {name: np.asarray(at) for name, at in (events or {}).items()}
    found = infer_once(model, data)
    part = shown_part(data, found, marks)
    known = {"file": "in memory", "sha256": data.checksum(), "columns": {}, "events": list(marks)}
    if not discrete:
        known["names"] = {"observations": data.observation_names, "commands": data.motion_names}
    save(
        model,
        path,
        {"data": known, "world": {}, "vocabulary": {"states": states.to_json(), "actions": actions.to_json()}},
    )
    metrics = fit_metrics(model, data, found)
    if discrete:
        metrics["notes"] = [seen_in_words(data)]
    elif part.notes:
        metrics["notes"] = part.notes
    storage.write_json(path / "metrics.json", metrics)
    write_history(path, model)
    table = Table(data, None, np.arange(data.n_steps), states, actions, None)
    write_segments(table, found.labels, found.probabilities, path / "segments.parquet")
    write_tables(path, model, data, found, estimated=True)
    shown, place, beliefs = part.demos, layout, part.found.probabilities
    if (units := getattr(model, "units_", None)) is not None:  # continuous data are shown by their cells
        shown, place = cells_of(shown, units)
    rewards, values = on_map(model, shown, beliefs)
    explorer = write_explorer(path, shown, beliefs, layout=place, rewards=rewards, values=values, events=part.marks)
    figures = path / "figures"
    names = told_names(data.known_names, model.n_intentions)
    called = names or default_names(model.n_intentions)
    drawn = begin_figures(figures, model, part.demos, part.found.labels, called)
    captions = write_pictures(figures, explorer, called) | drawn()
    if names is not None:
        write_names(path, names)
        write_names(figures, names)
    storage.write_json(figures / "captions.json", captions)
    return Page(write_report(path))


def _check_folder(path: Path, *, overwrite: bool) -> None:
    """Never write among files of somebody else."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    ours = (path / "config.json").is_file() and (path / "model.safetensors").is_file()
    if not ours:
        raise InputError(f"{path} is there already and holds no run of prism; choose another folder.")
    if not overwrite:
        raise InputError(f"{path} already holds a run; choose another folder or pass overwrite=True.")
