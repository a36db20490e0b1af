"""`prism reproduce`: an experiment of the paper, its numbers beside ours."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from cyclopts import Parameter

from prism_irl.cli.options import CommonOptions, FitsOptions, Overwrite
from prism_irl.cli.runs import RunFolder
from prism_irl.errors import InputError

SCRIPTS = {
    "gridworld": "gridworld",
    "labyrinth": "labyrinth.run",
    "bridge": "bridge.run",
    "evidence": "evidence",
    "continuous": "continuous.run",
    "study": "study",
    "tutorial": "tutorial",
    "zoo": "zoo.table",
    "phases": "phases",
}
"""Experiment → its module in the folder reproduce, whose function ``command`` makes a run."""


@Parameter(name="*")
@dataclass(frozen=True)
class RobotOptions:
    """How the dataset of bridge is read."""

    encoder: str | None = None
    "Frames to vectors: pixels, proprio, dinov2-small, dinov2-base, dinov2-large, siglip2-base or a hub id."
    weights: Path | None = None
    "Local folder with the weights of the encoder [default encoder: dinov2-small, as in the paper]."
    encoders: str | None = None
    "Further encoders of the table of granularity, separated by commas."
    split: str | None = None
    "Split of TFRecord shards (RLDS), or all of them [default: train, where there are several]."


def reproduce(
    experiment: Literal[
        "gridworld", "labyrinth", "bridge", "evidence", "continuous", "study", "tutorial", "zoo", "phases"
    ],
    dataset: Path | None = None,
    /,
    *,
    quick: bool = False,
    out: Path | None = None,
    fits: FitsOptions = FitsOptions(),
    overwrite: Overwrite = False,
    resume: bool = False,
    parts: str | None = None,
    first_seed: int | None = None,
    robots: RobotOptions = RobotOptions(),
    common: CommonOptions = CommonOptions(),
) -> None:
    """Run an experiment of the paper and put its numbers beside ours, in a clone of the repository.

    Example: prism reproduce gridworld --quick --out runs/gridworld

    Parameters
    ----------
    experiment
        Section of the paper; ours are evidence, the calibration of prism evidence, study, that of prism contrast
        and of intervals, tutorial, whether its commands ever call a wrong labelling good, and continuous, worlds
        without tokens, and surgery where its files are; zoo is every method on many worlds; phases is the
        default for robots beside simple methods.
    dataset
        Robot demonstrations for bridge: a LeRobot, RLDS or raw BridgeData folder [default: simulated pick-and-place].
    quick
        A smaller honest run: fewer trajectories, folds, starts and iterations, labelled as such.
    out
        Folder of the results [default: runs/EXPERIMENT].
    fits.scheduler
        Address of a running Dask scheduler, tcp://host:port, whose workers make the fits of gridworld and labyrinth.
    resume
        Go on with an interrupted run, or add parts to a finished one (labyrinth); finished fits are not made again
        (of bridge: those of its likelihood table).
    parts
        Comma-separated parts of the labyrinth to run: paper, honest, frontier, animals, alignment, published, swirl,
        transformer, sizes [default: all]; methods of the zoo.
    first_seed
        Seed of the first simulated study, or world of the zoo, of which those from it on are analysed [default: 0 of
        study; 1000 of the zoo, whose seeds below are for development].
    """
    if robots != RobotOptions() and (experiment != "bridge" or dataset is None):
        raise InputError("--encoder, --encoders, --weights and --split belong to bridge with a dataset.")
    if dataset is not None and experiment != "bridge":
        raise InputError(f"{experiment} has its own data; a dataset belongs to bridge.")
    if fits.scheduler is not None and experiment == "bridge":
        raise InputError("bridge makes its fits on this machine; leave out --scheduler.")
    if parts is not None and experiment not in ("labyrinth", "zoo"):
        raise InputError(f"--parts belongs to the labyrinth and the zoo; {experiment} runs in one piece.")
    if first_seed is not None and (experiment not in ("study", "zoo") or first_seed < 0):
        raise InputError(
            f"--first-seed {first_seed}: it belongs to study and zoo, and must be 0 or more; leave it out elsewhere."
        )
    folder = RunFolder(out or Path("runs") / experiment, overwrite=overwrite, resume=resume, common=common)
    own: dict[str, dict[str, Any]] = {
        "bridge": {"dataset": dataset, "robots": robots},
        "labyrinth": {"parts": parts},
        "study": {"first_seed": first_seed or 0},
        "zoo": {"parts": parts, "first_seed": first_seed},
    }
    script = import_script(SCRIPTS[experiment])
    from prism_irl.scale.fanout import cluster

    with cluster(fits.scheduler):
        script.command(folder, fits, quick=quick, **own.get(experiment, {}))


def in_script(task: Any, script: str, function: str, *shared: Any) -> Any:
    """Return what a function of a script makes of a task, in whatever process or machine has a clone of its own."""
    return getattr(import_script(script), function)(task, *shared)


def import_script(name: str) -> Any:
    """Return a module of the folder reproduce, which stands beside src in a checkout and is no part of the package.

    It is that of the checkout which the package is imported from, else that of the current folder. Only its scripts can
    be imported from then on, after everything that is installed, here and in the processes that fits are spread over.
    """
    for checkout in (Path(__file__).resolve().parents[3], Path.cwd()):
        folder = checkout / "reproduce"
        if all((folder / "/".join(script.split("."))).with_suffix(".py").is_file() for script in SCRIPTS.values()):
            if str(folder) not in sys.path:
                sys.path.append(str(folder))
            return import_module(name)
    raise InputError(
        "The experiments are no part of the installed package; clone its repository, and type this in the clone."
    )
