"""What `prism fit` leaves in its folder: what `models.run_files` writes of any fit, and what a command knows beside."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl import storage
from prism_irl.cli.run_folder import command_line
from prism_irl.data.covariates import Inputs
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.read import Table, with_posterior, write_segments
from prism_irl.errors import InputError
from prism_irl.evaluation.likelihood import Inference, infer_once
from prism_irl.evaluation.tidy import seen_in_words
from prism_irl.figures.elsewhere import HERE, Drawing
from prism_irl.models.base import IntentionModel
from prism_irl.models.persistence import save
from prism_irl.models.run_files import begin_figures, fit_metrics, write_history, write_tables
from prism_irl.models.shown import shown_part
from prism_irl.report import drawn
from prism_irl.report.name_matching import SEGMENTS, carry_names, remember, remembered
from prism_irl.report.names import FILE as NAMES
from prism_irl.report.names import default_names, told_names, write_names


def write_run(
    folder: Path,
    model: IntentionModel,
    table: Table,
    *,
    columns: dict[str, Any],
    source: Path,
    events: Mapping[str, npt.NDArray[np.bool_]] | None = None,
    simulations: int = 0,
    layout: Mapping[str, Any] | None = None,
    world: Mapping[str, str] | None = None,
    evidence: Mapping[str, Any] | None = None,
    intervals: Mapping[str, Any] | None = None,
    inputs: Inputs | None = None,
    before: Path | None = None,
    drawing: Drawing = HERE,
) -> dict[str, Any]:
    """Write everything that a fit leaves behind but its report; returns the metrics.

    ``before`` is the folder of the run that this one will replace, whose names its intentions take over.
    ``drawing`` is where its figures are drawn.
    """
    from prism_irl.evaluation.facts import on_map
    from prism_irl.report.cells import cells_of
    from prism_irl.report.explorer import write_explorer
    from prism_irl.report.markup import page_template
    from prism_irl.robots.recordings import come_from_tokens

    demos, marks = table.demonstrations, dict(events or {})
    extra: dict[str, Any] = {
        "command": command_line(),
        "data": {"file": source.name, "sha256": demos.checksum(), "columns": columns, "events": list(marks)},
        "world": dict(world or {}),
        "vocabulary": {"states": table.states.to_json(), "actions": table.actions.to_json()},
    }
    if inputs is not None:
        extra["data"]["inputs"] = inputs.to_json()
    if demos.action_space.continuous:
        extra["data"]["names"] = {"observations": demos.observation_names, "commands": demos.motion_names}
    found, figures = infer_once(model, demos), folder / "figures"
    names = _names(folder if before is None else before, table, found, extra["data"])
    page = shown_part(demos, found, marks)
    own = begin_figures(figures, model, page.demos, page.found.labels, names, drawing)
    # What is drawn comes first: the figures take longest, and other processes draw them meanwhile.
    tokens = come_from_tokens(source, demos)
    shown, place, beliefs = page.demos, layout, page.found.probabilities
    units = getattr(model, "units_", None)
    if units is not None:  # continuous data are shown by their cells
        shown, place = cells_of(shown, units)
    rewards, values = on_map(model, shown, beliefs)
    explorer = write_explorer(
        folder, shown, beliefs, layout=place, find=not tokens, rewards=rewards, values=values, events=page.marks
    )
    _write_frames(folder, page.demos, explorer, source)
    begun = [drawing.draw(drawn.pictures, figures, explorer, names), own]
    effects = {} if inputs is None else _draw_inputs(figures, model, inputs, intervals, names)
    repeats = 0 if units is not None else simulations
    checks = _write_checks(folder, model, demos, found.labels, explorer, repeats, drawing, names)
    result = fit_metrics(model, demos, found)
    if tokens:
        result["tokens"] = True
    if evidence is not None:
        result["evidence"] = dict(evidence)
    result["data_notes"] = list(table.notes)
    if "dynamics" not in (world or {}) and not demos.action_space.continuous:
        result["notes"] = [seen_in_words(demos)]
    if page.notes:
        result["notes"] = page.notes
    save(model, folder, extra)
    sure = _write_intervals(folder, names, demos, intervals, result)
    storage.write_json(folder / "metrics.json", result)
    write_history(folder, model)
    write_segments(table, found.labels, found.probabilities, folder / SEGMENTS)
    if names != default_names(model.n_intentions):
        write_names(folder, names)
        write_names(figures, names)
    write_tables(folder, model, demos, found, estimated="dynamics" not in (world or {}))
    page_template()  # compiled here, where there is nothing to do but to wait for the figures
    captions = drawn.gathered(begun) | effects | drawn.gathered(checks) | sure
    storage.write_json(figures / "captions.json", captions)
    return result


def _draw_inputs(
    folder: Path, model: Any, inputs: Inputs, intervals: Mapping[str, Any] | None, names: Sequence[str]
) -> dict[str, str]:
    """The effect of inputs on switching, where the kernel is a logit of them; of a network nobody can read it off."""
    from prism_irl.studies.interval_files import draw_inputs
    from prism_irl.switching.inputs import ReadsInputs

    if not isinstance(model.switching_, ReadsInputs) or model.n_intentions == 1:
        return {}
    return draw_inputs(folder, inputs, model.switching_, intervals, names)


def _write_intervals(
    folder: Path, names: Sequence[str], demos: Demonstrations, found: Mapping[str, Any] | None, result: dict[str, Any]
) -> dict[str, str]:
    """Put intervals into a fit's metrics, and write their table and figures; returns the captions."""
    from prism_irl.studies.interval_files import without_intervals, write_intervals

    if found is None:
        without_intervals(folder)  # of an earlier run
        return {}
    result["intervals"], captions = write_intervals(folder, found, names, demos.state_names)
    return captions


def _names(before: Path, table: Table, found: Inference, data: Mapping[str, Any]) -> list[str]:
    """What the intentions are called: by the labels that the fit was told, or as they were in the fit that it replaces.

    Names of that one go to the intentions that resemble its own; which are lost is said on standard error.
    """
    n_intentions = found.probabilities.shape[1]
    names = default_names(n_intentions)
    if (called := told_names(table.demonstrations.known_names, n_intentions)) is not None:
        return called
    if not (before / NAMES).is_file():
        return names
    try:
        rows = with_posterior(table, found.labels, found.probabilities)
        named, notes = carry_names(remember(before), remembered(rows, data, names))
    except (InputError, KeyError):  # an earlier fit that cannot be read, or of other columns
        return names
    for note in notes:
        print(f"prism: {note}", file=sys.stderr)
    return named


def _write_frames(folder: Path, demos: Demonstrations, explorer: dict[str, Any], source: Path) -> None:
    """Put what the camera saw into the report where the data come from `prism tokenize`."""
    from prism_irl.report import frames
    from prism_irl.robots.recordings import frames_of, kept_frames, reachable, recordings_of

    try:
        found = recordings_of(source, demos)
    except InputError as error:
        frames.without_frames(folder, f"There are no frames here. {error}")
        return
    if found is None:
        return

    def pictures(i: int) -> Iterator[Any] | None:
        assert demos.trajectory_names is not None
        seen = frames_of(found.source, int(demos.trajectory_names[i]), found.camera)
        return None if seen is None else kept_frames(seen, demos, i)

    frames.write_frames(folder, demos, explorer, pictures, trajectories=reachable(found.source, demos))


def _write_checks(
    folder: Path,
    model: IntentionModel,
    demos: Demonstrations,
    labels: npt.NDArray[np.int64],
    explorer: dict[str, Any],
    simulations: int,
    drawing: Drawing,
    names: Sequence[str],
) -> list[drawn.Captions]:
    """checks.json and its figures: the data beside simulations of the model."""
    from prism_irl.evaluation.checks import check
    from prism_irl.report import checks

    if simulations == 0:
        checks.without_checks(folder)
        return []
    found = check(model, demos, labels, simulations=simulations, seed=getattr(model, "seed", 0))
    return checks.write_checks(folder, found, explorer, drawing, names)
