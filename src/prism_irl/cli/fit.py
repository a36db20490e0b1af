"""`prism fit`: a table in, a run folder out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from prism_irl import em, storage
from prism_irl.cli import run_folder as runs
from prism_irl.cli import tensorboard as logging_tensorboard
from prism_irl.cli.events import read_events
from prism_irl.cli.progress import em_progress
from prism_irl.data import tables
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation import metrics
from prism_irl.evaluation.likelihood import LABEL_METRICS, evaluate
from prism_irl.labels import dwell_lengths, mean_dwell, segments
from prism_irl.models.pair import PairModel
from prism_irl.models.persistence import save
from prism_irl.models.prism import PRISM
from prism_irl.scale import distributed, memory


def fit_table(
    source: Path,
    model: PRISM,
    columns: dict[str, Any],
    out: Path,
    *,
    overwrite: bool,
    resume: bool,
    tensorboard: bool = False,
    events: Sequence[str] = (),
) -> dict[str, Any] | None:
    """Fit a model to a table and leave model, metrics, segments, figures and report in ``out``.

    Under torchrun the ranks fit together; one of them writes, and the others return None. With ``tensorboard`` the
    likelihood of every iteration goes to ``out``/tensorboard; columns named in ``events`` are marked in the report.
    """
    if overwrite and resume:
        raise InputError("--overwrite begins again and --resume goes on; pass one of them.")
    if tensorboard:
        logging_tensorboard.check_available()
    checkpoint = out / "checkpoint"
    if distributed.restarted() and (checkpoint / "request.json").exists():
        overwrite, resume = False, True  # after a lost rank torchrun repeats the command as it was
    with distributed.join() as world:
        table = tables.read(source, **columns)
        demos = table.demonstrations
        read_events(table, events)  # refuses wrong columns before anything is fitted
        model._check_parameters(demos)
        if not world.writes:
            model.fit(demos, resume=resume)
            return None
        folder = runs.prepare_folder(out, overwrite=overwrite, resume=resume)
        request = {"parameters": model.get_params(deep=False), "data": demos.checksum()}
        _open_checkpoint(checkpoint, request, resume=resume)
        memory.announce(demos, model, world.size)
        with _watched(folder if tensorboard else None, resume=resume) as on_iteration:
            model.fit(demos, checkpoint=checkpoint, resume=resume, on_iteration=on_iteration)
    result = write_run(folder, model, table, columns=columns, source=source, events=events)
    shutil.rmtree(checkpoint)
    return result


@contextmanager
def _watched(folder: Path | None, *, resume: bool) -> Iterator[em.OnIteration]:
    """Progress bar and, with a folder, TensorBoard; a fit that begins again drops the old curves."""
    with em_progress() as show:
        if folder is None:
            yield show
            return
        logs = folder / "tensorboard"
        if logs.exists() and not resume:
            shutil.rmtree(logs)
        with logging_tensorboard.tensorboard(logs) as log:

            def both(now: em.Progress) -> None:
                show(now)
                log(now)

            yield both


def _open_checkpoint(checkpoint: Path, request: dict[str, Any], *, resume: bool) -> None:
    """Make sure that what is resumed is what was begun; a fit that begins again drops the old checkpoint."""
    wanted = storage.read_plain(request)
    if resume and (checkpoint / "request.json").exists():
        if storage.read_json(checkpoint / "request.json") != wanted:
            raise InputError(
                f"{checkpoint.parent} was begun with other data or options; repeat the original command with --resume, "
                "or begin again with --overwrite."
            )
        return
    if resume:
        raise InputError(f"There is nothing to resume in {checkpoint.parent}; run the command without --resume.")
    if checkpoint.exists():
        shutil.rmtree(checkpoint)
    checkpoint.mkdir()
    storage.write_json(checkpoint / "request.json", request)


def write_run(
    folder: Path,
    model: PairModel,
    table: tables.Table,
    *,
    columns: dict[str, Any],
    source: Path,
    events: Sequence[str] = (),
) -> dict[str, Any]:
    """Write everything that a fit leaves behind; returns the metrics."""
    demos = table.demonstrations
    extra = {
        "command": runs.command_line(),
        "data": {"file": source.name, "sha256": demos.checksum(), "columns": columns, "events": list(events)},
        "vocabulary": {"states": table.states.to_json(), "actions": table.actions.to_json()},
    }
    probabilities = model.predict_proba(demos)
    labels = probabilities.argmax(axis=1)
    result = fit_metrics(model, demos)
    save(model, folder, extra)
    storage.write_json(folder / "metrics.json", result)
    runs.write_history(folder, model.monitor_)
    tables.write_table(tables.with_posterior(table, labels, probabilities), folder / "segments.parquet")
    from prism_irl.evaluation.facts import state_rewards
    from prism_irl.report.explorer import write_explorer
    from prism_irl.report.pictures import write_pictures
    from prism_irl.report.render import write_report

    explorer = write_explorer(
        folder, demos, probabilities, rewards=state_rewards(model), events=read_events(table, events)
    )
    _write_frames(folder, demos, explorer, source)
    captions = write_pictures(folder / "figures", explorer) | write_figures(folder / "figures", model, demos, labels)
    storage.write_json(folder / "figures" / "captions.json", captions)
    write_report(folder)
    return result


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


def fit_metrics(model: PairModel, demos: Demonstrations) -> dict[str, Any]:
    """metrics.json of a fit."""
    train, validation = model._validation_split(demos)
    labels = model.predict(demos)
    dwell = dwell_lengths(labels, demos.offsets)
    starts = segments(labels, demos.offsets)
    parts = {"train": train.demos, "validation": None if validation is None else validation.demos}
    scores = {part: None if data is None else evaluate(model, data) for part, data in parts.items()}
    if model.recount and validation is not None:
        # The policies have counted the validation trajectories since; this is what they scored before.
        held_out = next(start["score"] for start in model.starts_ if start["best"])
        scores["validation"] = {"predictive_ll": None if model.leaks else held_out, "paper_score": held_out}
    result = {
        "method": type(model).__name__,
        "n_intentions": model.n_intentions,
        "n_trajectories": demos.n_trajectories,
        "n_steps": demos.n_steps,
        "predictive_ll": {part: None if s is None else s["predictive_ll"] for part, s in scores.items()},
        "paper_score": {part: None if s is None else s["paper_score"] for part, s in scores.items()},
        "leaks": model.leaks,
        "history_length": model.history_length_,
        "backoff": model.backoff_,
        "mean_dwell": mean_dwell(labels, demos.offsets),
        "agreement": model.agreement_,
        "n_equal_starts": model.n_equal_starts_,
        "em": {
            "iterations": model.n_iterations_,
            "converged": model.converged_,
            "fixed": model.patience is None,  # so many iterations were asked for, not convergence
            "seconds": sum(start["seconds"] for start in model.starts_),
            "starts": len(model.starts_),
        },
        "usage": np.bincount(labels, minlength=model.n_intentions) / len(labels),
        "dwell_per_intention": [
            float(dwell[starts.labels == k].mean()) if (starts.labels == k).any() else None
            for k in range(model.n_intentions)
        ],
    }
    if demos.labels is not None:
        found = metrics.segmentation_metrics(demos.labels, labels, demos.offsets)
        result |= {name: found[name] for name in LABEL_METRICS}
    return result


def write_figures(folder: Path, model: PairModel, demos: Demonstrations, labels: Any) -> dict[str, str]:
    """EM curves, segmentation raster and dwell histogram of a fit; returns their captions."""
    from matplotlib.figure import Figure

    from prism_irl.figures import curves, style, timelines

    folder.mkdir(exist_ok=True)
    cut = segments(labels, demos.offsets)
    lengths = [cut.lengths[cut.labels == k] for k in range(model.n_intentions)]
    captions = {}
    with style.paper_style():
        for stem, size, draw, caption in (
            (
                "segmentation",
                (6.6, 3.2),
                lambda ax: timelines.segmentation_raster(ax, labels, demos.offsets),
                "Intention of every step, one row per trajectory.",
            ),
            (
                "dwell",
                (3.3, 2.4),
                lambda ax: curves.dwell_histogram(ax, lengths),
                "How long each intention lasts once it has begun.",
            ),
            (
                "em_curves",
                (3.3, 2.4),
                lambda ax: curves.em_curves(ax, model.monitor_),
                "Likelihood during EM, one line per start.",
            ),
        ):
            figure = Figure(figsize=size, layout="constrained")
            draw(figure.add_subplot())
            style.save(figure, folder / stem)
            captions[stem] = caption
    return captions
