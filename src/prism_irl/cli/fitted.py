"""What `prism fit` knows beside the fit: names of the run that it replaces, covariates, and frames of a recording."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prism_irl.cli.run_folder import command_line
from prism_irl.data.covariates import Inputs
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.read import Table, with_posterior
from prism_irl.errors import InputError
from prism_irl.evaluation.result import GRID, Effects, FitResult
from prism_irl.models.base import IntentionModel
from prism_irl.models.describe import describe
from prism_irl.models.reporting import write_run
from prism_irl.report.name_matching import carry_names, remember, remembered
from prism_irl.report.names import FILE as NAMES
from prism_irl.report.names import default_names, told_names


def describe_and_write(
    folder: Path,
    model: IntentionModel,
    table: Table,
    *,
    columns: dict[str, Any],
    source: Path,
    world: Mapping[str, str],
    before: Path,
    inputs: Inputs | None = None,
    intervals: Mapping[str, Any] | None = None,
    **asked: Any,
) -> dict[str, Any]:
    """Describe a fit and write everything that it leaves behind but its report; returns the metrics.

    ``before`` is the folder of the run that this one will replace, whose names its intentions take over; ``asked`` is
    what `describe` takes: events, layout, simulations, evidence.
    """
    from prism_irl.robots.recordings import come_from_tokens

    tokens = come_from_tokens(source, table.demonstrations)
    asked |= {"tokens": tokens, "intervals": intervals, "effects": _effects(model, inputs, intervals)}
    result = describe(model, table, known_dynamics="dynamics" in world, **asked)
    data: dict[str, Any] = {"file": source.name, "columns": columns}
    if inputs is not None:
        data["inputs"] = inputs.to_json()
    if (demos := result.demos).action_space.continuous:
        data["names"] = {"observations": demos.observation_names, "commands": demos.motion_names}
    extra = {"command": command_line(), "data": data, "world": dict(world)}
    metrics = write_run(folder, model, result, _names(before, result, data), extra, find=not tokens)
    _write_frames(folder, result.shown.demos, source)
    return metrics


def _effects(model: Any, inputs: Inputs | None, intervals: Mapping[str, Any] | None) -> Effects | None:
    """The effect of covariates on switching, where the kernel is a logit of them; of a network nobody can read it."""
    if inputs is None or model.n_intentions == 1:
        return None
    from prism_irl.studies.intervals import leaving_curves

    if not model.switching_.n_inputs:
        return None
    ends = None if intervals is None else np.asarray(intervals["numbers"]["leaving"]["interval"], float)
    at = np.stack([one.mean + one.spread * GRID for one in inputs.inputs])
    return Effects([one.name for one in inputs.inputs], at, leaving_curves(model.switching_), ends)


def _names(before: Path, result: FitResult, data: Mapping[str, Any]) -> list[str]:
    """What the intentions are called: by the labels that the fit was told, or as they were in the fit that it replaces.

    Names of that one go to the intentions that resemble its own; which are lost is said on standard error.
    """
    K, found = result.n_intentions, result.posterior
    names = default_names(K)
    if (called := told_names(result.demos.partial_label_names, K)) is not None:
        return called
    if not (before / NAMES).is_file():
        return names
    try:
        rows = with_posterior(result.table, found.labels, found.probabilities)
        named, notes = carry_names(remember(before), remembered(rows, data, names))
    except (InputError, KeyError):  # an earlier fit that cannot be read, or of other columns
        return names
    for note in notes:
        print(f"prism: {note}", file=sys.stderr)
    return named


def _write_frames(folder: Path, demos: Demonstrations, source: Path) -> None:
    """Put what the camera saw into the report where the data come from `prism tokenize`."""
    from prism_irl.report import frames
    from prism_irl.report.explorer import read_explorer
    from prism_irl.robots.recordings import frames_of, kept_frames, reachable, recordings_of

    try:
        found = recordings_of(source, demos)
    except InputError as error:
        frames.without_frames(folder, f"There are no frames here. {error}")
        return
    explorer = read_explorer(folder)
    if found is None or explorer is None:
        return

    def pictures(i: int) -> Iterator[Any] | None:
        assert demos.trajectory_names is not None
        seen = frames_of(found.source, int(demos.trajectory_names[i]), found.camera)
        return None if seen is None else kept_frames(seen, demos, i)

    frames.write_frames(folder, demos, explorer, pictures, trajectories=reachable(found.source, demos))
