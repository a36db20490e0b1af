"""`prism fit`: a table in, a run folder out."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism_irl import storage
from prism_irl.cli.options import ColumnOptions, CommonOptions, ModelOptions, build_model, given
from prism_irl.cli.run_folder import RunFolder
from prism_irl.errors import InputError

if TYPE_CHECKING:
    from prism_irl import em
    from prism_irl.models.base import IntentionModel


def fit(
    table: Path,
    *,
    out: Path,
    columns: ColumnOptions | None = None,
    model: ModelOptions | None = None,
    preset: str | None = None,
    method: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    tensorboard: bool = False,
    events: tuple[str, ...] = (),
    common: CommonOptions | None = None,
) -> None:
    """Fit a model to a table of states and actions.

    Example: prism fit mouse.csv --trajectory bout --state node --action move --intentions 3 --out runs/mouse

    Parameters
    ----------
    table
        A .csv, .parquet or .npz file.
    out
        Folder of the results.
    preset
        paper-gridworld, paper-labyrinth or paper-bridge: the paper's model and hyperparameters.
    method
        Another method, as prism compare names them (hiql, swirl-2, prism-goals, …), or MODULE:CLASS of your own
        [default: PRISM with the options of the model].
    overwrite
        Replace a run that is already there.
    resume
        Go on with an interrupted fit, with the same result as if it had never been interrupted.
    tensorboard
        Write the likelihood of every iteration to OUT/tensorboard; look at it with tensorboard --logdir OUT.
    events
        Column with 1 where something happened (water came), else 0: marked in the report, unseen by a fit; may repeat.
    """
    folder = RunFolder(out, overwrite=overwrite, resume=resume, common=common)
    estimator = build_model(model, preset, method)
    fit_table(table, estimator, given(columns), folder, tensorboard=tensorboard, events=events)


def fit_table(
    source: Path,
    model: IntentionModel,
    columns: dict[str, Any],
    folder: RunFolder,
    *,
    tensorboard: bool = False,
    events: Sequence[str] = (),
) -> None:
    """Fit a model to a table and leave model, metrics, segments, figures and report in the folder.

    Under torchrun the ranks fit together, and one of them writes and prints. With ``tensorboard`` the likelihood of
    every iteration goes to OUT/tensorboard; columns named in ``events`` are marked in the report.
    """
    from prism_irl.cli import tensorboard as logging_tensorboard
    from prism_irl.cli.events import read_events
    from prism_irl.cli.fitted import write_run
    from prism_irl.data import tables
    from prism_irl.models.pair import PairModel
    from prism_irl.scale import distributed, memory

    if tensorboard:
        logging_tensorboard.check_available()
    iterates = _iterates(model)
    checkpoint, resume = folder.out / "checkpoint", folder.resume and iterates
    if iterates and distributed.restarted() and (checkpoint / "request.json").exists():
        # After a lost rank torchrun repeats the command as it was.
        folder, resume = RunFolder(folder.out, resume=True, common=folder.common), True
    watch: dict[str, Any] = {"resume": resume}
    with distributed.join() as world:
        table = tables.read(source, **columns)
        demos, marks = table.demonstrations, read_events(table, events)  # wrong columns are refused before a fit
        if isinstance(model, PairModel):
            model._check_parameters(demos)  # before a folder is made
        if not world.writes:
            if iterates:  # another method is not shared among ranks
                model.fit(demos, **watch)
            return
        folder.open()
        request = {"parameters": model.get_params(deep=False), "data": demos.checksum()}
        _open_checkpoint(checkpoint, request, resume=resume)
        if iterates:
            memory.announce(demos, model, world.size)
            with _watched(folder.out if tensorboard else None, resume=resume) as on_iteration:
                watch |= {"checkpoint": checkpoint, "on_iteration": on_iteration}
                model.fit(demos, **watch)
        else:
            model.fit(demos)
    metrics = write_run(folder.out, model, table, columns=columns, source=source, events=marks)
    shutil.rmtree(checkpoint)
    folder.finish(metrics, show)


def show(metrics: dict[str, Any]) -> None:
    """Print the scores of a fit in a few lines."""
    from prism_irl.cli.printing import print_scores

    part = "train" if metrics["predictive_ll"]["validation"] is None else "validation"
    print(f"{metrics['n_intentions']} intentions, {metrics['n_steps']} steps; scores on {part} data:")
    scores = {key: metrics[key][part] for key in ("predictive_ll", "paper_score")}
    print_scores({**metrics, **scores}, leaks=metrics["leaks"])
    if metrics["em"] is not None:
        agreement = metrics["agreement"]
        print("agreement      " + ("– (no second start came as far)" if agreement is None else f"{agreement:.2f}"))


def _iterates(model: IntentionModel) -> bool:
    """Whether the method's `fit` tells of its iterations and keeps checkpoints."""
    parameters = inspect.signature(model.fit).parameters
    anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return anything or {"checkpoint", "resume", "on_iteration"} <= set(parameters)


@contextmanager
def _watched(folder: Path | None, *, resume: bool) -> Iterator[em.OnIteration]:
    """Progress bar and, with a folder, TensorBoard; a fit that begins again drops the old curves."""
    from prism_irl.cli import tensorboard as logging_tensorboard
    from prism_irl.cli.progress import em_progress

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
