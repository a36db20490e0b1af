"""`prism tokenize`: a robot dataset in, demonstrations out; and segmentations written back to a copy of the dataset."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from prism_irl import storage
from prism_irl.cli import run_folder as runs
from prism_irl.cli.progress import console
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.npz import write_npz
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.robots import recordings
from prism_irl.robots.episodes import open_episodes
from prism_irl.robots.lerobot_columns import add_column
from prism_irl.robots.vision import pipeline
from prism_irl.robots.vision.embeddings import embed
from prism_irl.robots.vision.encoders import make_encoder
from prism_irl.robots.vision.granularity import granularity
from prism_irl.robots.vision.tokenizer import Tokenizer


@dataclass(frozen=True)
class TokenizeOptions:
    """What `prism tokenize` was asked for; the command documents each field."""

    encoder: str = "pixels"
    camera: str | None = None
    states: int = 2048
    actions: int = 32
    method: Literal["kmeans", "vq"] = "kmeans"
    action_scaling: Literal["standardised", "none"] = "standardised"
    gripper: str = "auto"
    keep_still_start: bool = False
    observations: Literal["none", "proprio"] = "none"
    strict: bool = False
    batch_size: int = 64
    device: str = "auto"
    seed: int = 0
    like: Path | None = None


def tokenize(
    dataset: Path, options: TokenizeOptions, out: Path, *, overwrite: bool = False, resume: bool = False
) -> dict[str, Any]:
    """Encode, cluster and count; leaves demonstrations, dynamics, tokenizer and metrics in ``out``."""
    if overwrite and resume:
        raise InputError("--overwrite begins again and --resume goes on; pass one of them.")
    source = open_episodes(dataset, strict=options.strict)
    encoder = make_encoder(options.encoder, camera=options.camera, batch_size=options.batch_size, device=options.device)
    tokenizer = (
        Tokenizer.load(options.like / "tokenizer")
        if options.like is not None
        else Tokenizer(
            options.states,
            options.actions,
            method=options.method,
            action_scaling=options.action_scaling,
            gripper=_gripper(options.gripper),
            drop_still_start=not options.keep_still_start,
            device=options.device,
            seed=options.seed,
        )
    )
    folder = runs.prepare_folder(out, overwrite=overwrite, resume=resume)
    if overwrite:
        shutil.rmtree(folder / "cache", ignore_errors=True)
    with counting("frames") as report, plain_warnings():
        cache = embed(
            source,
            encoder,
            folder / "cache",
            like=None if options.like is None else options.like / "cache",
            on_episode=lambda done, total, frames: report("episodes", done, total, f"{frames} frames"),
        )
    if options.like is None:
        with counting("rows") as report:
            pipeline.fit_tokenizer(cache, tokenizer, on_progress=lambda what, done, n: report(what, done, n, ""))
    demos = pipeline.demonstrations(cache, tokenizer, observations=options.observations)
    mdp = MDP.from_demonstrations(demos)
    tokenizer.save(folder / "tokenizer")
    storage.save_tensors(folder / "mdp.safetensors", mdp.state(), {"n_states": mdp.n_states, "discount": mdp.discount})
    write_npz(demos, folder / "demonstrations.npz")
    metrics = {
        "n_episodes": demos.n_trajectories,
        "n_steps": demos.n_steps,
        "skipped": [{"episode": entry.name, "reason": entry.reason} for entry in cache.skipped],
        "n_states": demos.n_states,
        "n_actions": demos.n_actions,
        "states_used": len(np.unique(demos.states)),
        "actions_used": len(np.unique(demos.actions)),
        "inertia": tokenizer.inertia_,
        "gripper": tokenizer.gripper_,
        "granularity": granularity(demos),
    }
    storage.write_json(folder / "metrics.json", metrics)
    config = {
        "command": runs.command_line(),
        "versions": runs.versions(),
        "dataset": source.describe(),
        "source": recordings.place(dataset, folder),  # where a report finds the frames again
        "options": vars(options),
        "data": {"sha256": demos.checksum()},
    }
    storage.write_json(folder / "config.json", config)
    return metrics


def write_back(dataset: Path, out: Path, demos: Demonstrations, labels: np.ndarray[Any, Any]) -> int:
    """Copy a LeRobot dataset with an ``intention`` column; returns how many of its steps have one.

    The trajectories' names are episode numbers and their times frame numbers, as `tokenize` leaves them.
    """
    if demos.trajectory_names is None or demos.times is None:
        raise InputError("The data do not say which episodes and frames they come from; give what tokenize wrote.")
    values = {}
    for i, name in enumerate(demos.trajectory_names):
        here = slice(int(demos.offsets[i]), int(demos.offsets[i + 1]))
        if not str(name).isdecimal() or demos.times.dtype.kind not in "iu":
            raise InputError(
                f"Trajectory {name} is not an episode number with frame numbers; give what tokenize wrote."
            )
        values[int(name)] = (demos.times[here], labels[here])
    return add_column(dataset, out, values)


def write_back_run(run: Path, data: Path, dataset: Path, out: Path, *, unknown_state: bool) -> int:
    """Segment tokenized data with a fitted run and put the intentions into a copy of the dataset."""
    from prism_irl.cli.open_run import open_run

    if out.exists():
        raise InputError(f"{out} exists already; choose a new folder for the copy.")
    model, table = open_run(run, data, unknown_state=unknown_state)
    labels = model.predict_proba(table.demonstrations).argmax(axis=1)
    return write_back(dataset, out, table.demonstrations, labels)


def load_mdp(folder: Path) -> MDP:
    """Dynamics that `tokenize` counted."""
    tensors, header = storage.load_tensors(folder / "mdp.safetensors")
    state = {name: tensor.numpy() for name, tensor in tensors.items()}
    return MDP.from_state(int(header["n_states"]), float(header["discount"]), state)


def print_metrics(metrics: dict[str, Any], out: Path) -> None:
    """Show what `tokenize` made, in a few lines."""
    left_out = len(metrics["skipped"])
    print(
        f"{metrics['n_episodes']} episodes, {metrics['n_steps']} steps"
        + (f"; {left_out} damaged episode{'s' if left_out > 1 else ''} left out" if left_out else "")
    )
    for what in ("states", "actions"):
        print(f"{what:<8} {metrics[f'{what}_used']} of {metrics[f'n_{what}']} tokens used")
    for name, found in metrics["granularity"].items():
        print(f"{name:<11} {found['mean']:.2f} ± {found['std']:.2f}" + ("" if name == "revisits" else " %"))
    print(f"Demonstrations: {out / 'demonstrations.npz'}")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings as one sentence for people, each once, without the line of code they come from."""
    before, said = warnings.formatwarning, set[str]()

    def once(message: Warning | str, *_: Any, **__: Any) -> str:
        known, text = str(message) in said, f"prism: {message}\n"
        said.add(str(message))  # a damaged episode is met when the encoder is fitted and when it is used
        return "" if known else text

    warnings.formatwarning = once
    try:
        yield
    finally:
        warnings.formatwarning = before


@contextmanager
def counting(unit: str) -> Iterator[Callable[[str, int, int | None, str], None]]:
    """Yield a callback for a progress bar with a rate; silent when not on a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(show_speed=True),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[status]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int | None, status: str) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total, status=status or unit)
            speed = progress.tasks[tasks[what]].speed
            rate = f", {speed:.0f} {what if status else unit}/s" if speed else ""
            progress.update(tasks[what], completed=done, total=total, status=f"{status or unit}{rate}")

        yield report


def _gripper(text: str) -> int | Literal["auto"] | None:
    if text in ("auto", "none"):
        return "auto" if text == "auto" else None
    try:
        return int(text)
    except ValueError:
        raise InputError(f"The gripper is {text!r}; give a dimension such as -1, auto or none.") from None
