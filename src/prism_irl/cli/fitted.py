"""What `prism fit` leaves in its folder besides the model: metrics, segments, figures and what the report explores.

Any method can be written: those that are no pair of switching and rewards have no starts, no history and no agreement,
which are null in metrics.json, and no figure of EM.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl import storage
from prism_irl.cli.run_folder import command_line
from prism_irl.data import tables
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.inputs import Inputs
from prism_irl.data.motions import MotionDemonstrations
from prism_irl.data.table_files import write_table
from prism_irl.errors import InputError
from prism_irl.evaluation.facts import dwell_per_intention
from prism_irl.evaluation.likelihood import Inference, infer_once, label_metrics
from prism_irl.evaluation.tidy import seen_in_words
from prism_irl.labels import mean_dwell, segments
from prism_irl.models.base import IntentionModel
from prism_irl.models.persistence import save
from prism_irl.report.name_matching import SEGMENTS, Remembered, carry_names, remember
from prism_irl.report.names import FILE as NAMES
from prism_irl.report.names import write_names
from prism_irl.studies.references import reference_scores


def write_run(
    folder: Path,
    model: IntentionModel,
    table: tables.Table,
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
) -> dict[str, Any]:
    """Write everything that a fit leaves behind but its report; returns the metrics.

    ``before`` is the folder of the run that this one will replace, whose names its intentions take over.
    """
    from prism_irl.evaluation.facts import state_rewards, state_values
    from prism_irl.report.cells import cells_of
    from prism_irl.report.explorer import write_explorer
    from prism_irl.report.pictures import write_pictures
    from prism_irl.robots.recordings import come_from_tokens

    demos, marks = table.demonstrations, dict(events or {})
    named = _names_before(folder if before is None else before)
    extra: dict[str, Any] = {
        "command": command_line(),
        "data": {"file": source.name, "sha256": demos.checksum(), "columns": columns, "events": list(marks)},
        "world": dict(world or {}),
        "vocabulary": {"states": table.states.to_json(), "actions": table.actions.to_json()},
    }
    if inputs is not None:
        extra["data"]["inputs"] = inputs.to_json()
    if isinstance(demos, MotionDemonstrations):
        extra["data"]["names"] = {"observations": demos.observation_names, "commands": demos.motion_names}
    found = infer_once(model, demos)
    result = fit_metrics(model, demos, found)
    if come_from_tokens(source, demos):
        result["tokens"] = True
    if evidence is not None:
        result["evidence"] = dict(evidence)
    result["data_notes"] = list(table.notes)
    if "dynamics" not in (world or {}) and not isinstance(demos, MotionDemonstrations):
        result["notes"] = [seen_in_words(demos)]
    save(model, folder, extra)
    sure = _write_intervals(folder, model, demos, intervals, result)
    storage.write_json(folder / "metrics.json", result)
    _write_history(folder, model)
    write_table(tables.with_posterior(table, found.labels, found.probabilities), folder / SEGMENTS)
    if named is not None:  # the intentions of an earlier fit in this folder had names
        _carry_names(folder, named)
    _write_tables(folder, model, demos, found, estimated="dynamics" not in (world or {}))
    shown, place = demos, layout
    units = getattr(model, "units_", None)
    if units is not None:  # continuous data are shown by their cells
        shown, place = cells_of(demos, units)
    rewards, values = state_rewards(model), state_values(model)
    explorer = write_explorer(
        folder, shown, found.probabilities, layout=place, rewards=rewards, values=values, events=marks
    )
    _write_frames(folder, demos, explorer, source)
    figures = folder / "figures"
    captions = write_pictures(figures, explorer) | write_figures(figures, model, demos, found.labels)
    if inputs is not None:
        captions |= _draw_inputs(figures, model, inputs, intervals)
    captions |= _write_checks(folder, model, demos, found.labels, explorer, 0 if units is not None else simulations)
    storage.write_json(figures / "captions.json", captions | sure)
    return result


def _draw_inputs(folder: Path, model: Any, inputs: Inputs, intervals: Mapping[str, Any] | None) -> dict[str, str]:
    """The effect of inputs on switching, where the kernel is a logit of them; of a network nobody can read it off."""
    from prism_irl.report.names import default_names
    from prism_irl.studies.interval_files import draw_inputs
    from prism_irl.switching.inputs import InputChain

    if not isinstance(model.switching_, InputChain) or model.n_intentions == 1:
        return {}
    return draw_inputs(folder, inputs, model.switching_, intervals, default_names(model.n_intentions))


def _write_intervals(
    folder: Path, model: IntentionModel, demos: Demonstrations, found: Mapping[str, Any] | None, result: dict[str, Any]
) -> dict[str, str]:
    """Put intervals into a fit's metrics, and write their table and figures; returns the captions."""
    from prism_irl.report.names import default_names
    from prism_irl.studies.interval_files import without_intervals, write_intervals

    if found is None:
        without_intervals(folder)  # of an earlier run
        return {}
    result["intervals"], captions = write_intervals(folder, found, default_names(model.n_intentions), demos.state_names)
    return captions


def fit_metrics(model: IntentionModel, demos: Demonstrations, found: Inference) -> dict[str, Any]:
    """metrics.json of a fit."""
    validation = _validation_trajectories(model, demos)
    scores = _scores(model, demos, found, np.repeat(validation, demos.lengths))
    starts = getattr(model, "starts_", None)
    em = None
    if starts is not None:
        em = {
            "iterations": getattr(model, "n_iterations_", None),
            "converged": getattr(model, "converged_", None),
            "fixed": getattr(model, "patience", 0) is None,  # so many iterations were asked for, not convergence
            "seconds": sum(start["seconds"] for start in starts),
            "starts": len(starts),
        }
    return {
        "method": type(model).__name__,
        "pair": getattr(model, "pair", None),
        "n_intentions": model.n_intentions,
        "n_trajectories": demos.n_trajectories,
        "n_steps": demos.n_steps,
        **scores,
        "validation_chose": getattr(model, "validation_chose_", []),
        "references": reference_scores(demos, validation),
        "leaks": model.leaks,
        "density": model.is_density,
        "history_length": getattr(model, "history_length_", None),
        "backoff": getattr(model, "backoff_", None),
        "mean_dwell": mean_dwell(found.labels, demos.offsets),
        "agreement": getattr(model, "agreement_", None),
        "n_equal_starts": getattr(model, "n_equal_starts_", None),
        "em": em,
        "usage": np.bincount(found.labels, minlength=model.n_intentions) / len(found.labels),
        "dwell_per_intention": dwell_per_intention(found.labels, demos.offsets, model.n_intentions),
        **label_metrics(found.labels, demos),
    }


def _validation_trajectories(model: IntentionModel, demos: Demonstrations) -> npt.NDArray[np.bool_]:
    """Trajectories that EM did not train on, (n_trajectories,); none of a method without starts, which is given all."""
    chosen = np.zeros(demos.n_trajectories, bool)
    fraction = getattr(model, "validation_fraction", 0.0)
    if hasattr(model, "starts_") and fraction > 0 and len(demos) > 1:
        chosen[demos.split_indices(fraction, seed=getattr(model, "seed", 0))[0]] = True
    return chosen


def _scores(
    model: IntentionModel, demos: Demonstrations, found: Inference, validation: npt.NDArray[np.bool_]
) -> dict[str, dict[str, float | None]]:
    """Both scores on training and on validation steps, each the mean over its steps; ``validation`` (n,)."""
    scores: dict[str, dict[str, float | None]] = {
        name: {
            "train": float(values[~validation].mean()),
            "validation": float(values[validation].mean()) if validation.any() else None,
        }
        for name, values in (("predictive_ll", found.log_likelihood), ("paper_score", found.paper))
    }
    if validation.any() and getattr(model, "recount", False):
        # The policies have counted the validation trajectories since; this is what they scored before.
        before = _validation_score_before(model)
        scores["predictive_ll"]["validation"] = None if model.leaks else before
        scores["paper_score"]["validation"] = before
    if getattr(model, "validation_counted_", False):  # by a habit, whose memory came last
        scores["predictive_ll"]["validation"] = scores["paper_score"]["validation"] = None
    return scores


def _validation_score_before(model: Any) -> float:
    """Validation likelihood of the iteration that was kept of the best start, as EM's monitor saw it."""
    best = next(index for index, start in enumerate(model.starts_) if start["best"])
    rows = (row for row in model.monitor_ if row["start"] == best and row["iteration"] == model.n_iterations_)
    return float(next(rows)["validation"])


def _write_history(folder: Path, model: IntentionModel) -> None:
    """history.csv: what the monitor of EM saw; without EM there is none, not even that of an earlier run."""
    if hasattr(model, "starts_"):
        storage.write_text(folder / "history.csv", pd.DataFrame(model.monitor_).to_csv(index=False))
        return
    for old in (folder / "history.csv", *folder.glob("figures/em_curves.*")):
        old.unlink(missing_ok=True)


def _names_before(run: Path) -> Remembered | None:
    """What an earlier fit did, if its intentions had names and it can still be read."""
    if not (run / NAMES).is_file():
        return None
    with suppress(InputError):
        return remember(run)
    return None


def _carry_names(folder: Path, named: Remembered) -> None:
    """Give the names of the earlier fit to the intentions that resemble its own, and say which are lost."""
    names, notes = carry_names(named, remember(folder))
    write_names(folder, names)
    for note in notes:
        print(f"prism: {note}", file=sys.stderr)


def _write_tables(
    folder: Path, model: IntentionModel, demos: Demonstrations, found: Inference, *, estimated: bool
) -> None:
    """rewards.csv and, where dynamics were counted, dynamics.csv; without them none of an earlier run stays."""
    from prism_irl.evaluation.tidy import intention_table, move_table

    discrete = not isinstance(demos, MotionDemonstrations)
    wanted = {
        "rewards.csv": None if not discrete else intention_table(model, demos, found.probabilities),
        "dynamics.csv": move_table(demos) if estimated and discrete else None,
    }
    for name, table in wanted.items():
        if table is None:
            (folder / name).unlink(missing_ok=True)
        else:
            write_table(table, folder / name)


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
) -> dict[str, str]:
    """checks.json and its figures: the data beside simulations of the model; returns their captions."""
    from prism_irl.evaluation.checks import check
    from prism_irl.report import checks

    if simulations == 0:
        checks.without_checks(folder)
        return {}
    seed = getattr(model, "seed", 0)
    return checks.write_checks(folder, check(model, demos, labels, simulations=simulations, seed=seed), explorer)


def write_figures(
    folder: Path, model: IntentionModel, demos: Demonstrations, labels: npt.NDArray[np.int64]
) -> dict[str, str]:
    """Segmentation raster, dwell histogram and, where EM was run, its curves; returns their captions."""
    from prism_irl.figures import curves, style, timelines

    captions = {
        "segmentation": "Intention of every step, one row per trajectory.",
        "dwell": "How long each intention lasts once it has begun.",
    }
    with style.paper_style():
        figure, (ax,) = style.new_figure(width=6.6, height=3.2)
        timelines.segmentation_raster(ax, labels, demos.offsets)
        style.save(figure, folder / "segmentation")
        cut = segments(labels, demos.offsets)
        figure, (ax,) = style.new_figure(height=2.4)
        says = getattr(getattr(model, "switching_", None), "dwell_proba", None)
        if says is not None and model.n_intentions > 1:
            captions["dwell"] += " Dashed: what the model expects of a visit that no end of a trajectory cuts short."
        expected = None if says is None or model.n_intentions == 1 else says(int(cut.lengths.max()))
        curves.dwell_histogram(ax, [cut.lengths[cut.labels == k] for k in range(model.n_intentions)], expected)
        style.save(figure, folder / "dwell")
        if hasattr(model, "starts_"):
            figure, (ax,) = style.new_figure(height=2.4)
            curves.em_curves(ax, model.monitor_)
            style.save(figure, folder / "em_curves")
            captions["em_curves"] = "Likelihood during EM, one line per start."
    return captions
