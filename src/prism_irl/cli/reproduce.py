"""`prism reproduce`: an experiment of the paper, its numbers beside ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cyclopts import Parameter

from prism_irl.cli.options import CommonOptions, FitsOptions
from prism_irl.cli.run_folder import RunFolder
from prism_irl.errors import InputError


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
    experiment: Literal["gridworld", "labyrinth", "bridge", "evidence", "continuous", "study", "tutorial"],
    dataset: Path | None = None,
    /,
    *,
    quick: bool = False,
    out: Path | None = None,
    fits: FitsOptions = FitsOptions(),
    overwrite: bool = False,
    resume: bool = False,
    parts: str | None = None,
    first_seed: int | None = None,
    robots: RobotOptions = RobotOptions(),
    common: CommonOptions = CommonOptions(),
) -> None:
    """Run an experiment of the paper and put its numbers beside ours.

    Example: prism reproduce gridworld --quick --out runs/gridworld

    Parameters
    ----------
    experiment
        Section of the paper; ours are evidence, the calibration of prism evidence, study, that of prism contrast
        and of intervals, tutorial, whether its commands ever call a wrong labelling good, and continuous, worlds
        without tokens, and surgery where its files are.
    dataset
        Robot demonstrations for bridge: a LeRobot, RLDS or raw BridgeData folder [default: simulated pick-and-place].
    quick
        A smaller honest run: fewer trajectories, folds, starts and iterations, labelled as such.
    out
        Folder of the results [default: runs/EXPERIMENT].
    fits.scheduler
        Address of a running Dask scheduler, tcp://host:port, whose workers make the fits of gridworld and labyrinth.
    overwrite
        Replace results that are already there.
    resume
        Go on with an interrupted run, or add parts to a finished one (labyrinth); finished fits are not made again
        (of bridge: those of its likelihood table).
    parts
        Comma-separated parts of the labyrinth to run: paper, honest, frontier, animals, alignment, published, swirl,
        transformer [default: all].
    first_seed
        Seed of the first simulated study; those from it on are analysed (study) [default: 0].
    """
    if robots != RobotOptions() and (experiment != "bridge" or dataset is None):
        raise InputError("--encoder, --encoders, --weights and --split belong to bridge with a dataset.")
    if dataset is not None and experiment != "bridge":
        raise InputError(f"{experiment} has its own data; a dataset belongs to bridge.")
    if fits.scheduler is not None and experiment == "bridge":
        raise InputError("bridge makes its fits on this machine; leave out --scheduler.")
    if parts is not None and experiment != "labyrinth":
        raise InputError(f"--parts belongs to the labyrinth; {experiment} runs in one piece.")
    if first_seed is not None and (experiment != "study" or first_seed < 0):
        raise InputError(
            f"--first-seed {first_seed}: it belongs to study, and must be 0 or more; leave it out elsewhere."
        )
    folder = RunFolder(out or Path("runs") / experiment, overwrite=overwrite, resume=resume, common=common)
    from prism_irl.scale.fanout import cluster

    with cluster(fits.scheduler):
        if experiment == "bridge":
            _bridge(folder, dataset, robots, fits.jobs, quick=quick)
        elif experiment == "labyrinth":
            _labyrinth(folder, parts, fits.jobs, quick=quick)
        elif experiment == "continuous":
            _continuous(folder, fits.jobs, quick=quick)
        elif experiment == "evidence":
            _evidence(folder, fits.jobs, quick=quick)
        elif experiment == "study":
            _study(folder, fits.jobs, first_seed or 0, quick=quick)
        elif experiment == "tutorial":
            _tutorial(folder, fits.jobs, quick=quick)
        else:
            from prism_irl.experiments.gridworld.run import Gridworld, run

            settings = Gridworld.small() if quick else Gridworld()
            run_world(folder, run, settings, fits.jobs, "Frustration gridworld (paper §5.1)")


def run_world(folder: RunFolder, run: Callable[..., dict[str, Any]], settings: Any, jobs: int, title: str) -> None:
    """Run the experiment of a simulated world with these settings into a folder; `prism demo` has small ones."""
    from prism_irl.cli.printing import print_experiment
    from prism_irl.cli.progress import fits_progress

    def work(path: Path, on_fit: Any) -> dict[str, Any]:
        return run(settings, path, jobs=jobs, on_fit=on_fit, title=title)

    config = {"settings": asdict(settings)}
    folder.make(work, print_experiment, progress=fits_progress, config=config)


def _labyrinth(folder: RunFolder, parts: str | None, jobs: int, *, quick: bool) -> None:
    from prism_irl.cli.printing import print_experiment
    from prism_irl.cli.progress import fits_progress
    from prism_irl.experiments.labyrinth import run as labyrinth

    settings = labyrinth.Labyrinth.small() if quick else labyrinth.Labyrinth()
    chosen = labyrinth.PARTS if parts is None else tuple(part.strip() for part in parts.split(",") if part.strip())
    labyrinth.check_parts(chosen)
    data = labyrinth.load(settings)  # says what to fetch before anything is written

    folder.make(
        lambda path, on_fit: labyrinth.run(settings, path, parts=chosen, jobs=jobs, on_fit=on_fit, data=data),
        print_experiment,
        progress=fits_progress,
        config={"data": {"sha256": data.demos.checksum()}, "settings": asdict(settings)},
    )


def _continuous(folder: RunFolder, jobs: int, *, quick: bool) -> None:
    from prism_irl.cli.printing import print_worlds
    from prism_irl.cli.progress import counting
    from prism_irl.experiments.continuous.run import Continuous, run, settings_json

    settings = Continuous.of(quick=quick, cache=folder.begun / "cache")

    def work(path: Path, report: Any) -> dict[str, Any]:
        return run(settings, path, jobs=jobs, on_part=lambda done, total: report("fits", done, total, ""))

    folder.make(
        work,
        print_worlds,
        progress=lambda: counting("fits"),
        config={"settings": settings_json(settings)},
        report=False,
    )


def _evidence(folder: RunFolder, jobs: int, *, quick: bool) -> None:
    from prism_irl.cli.printing import print_calibration
    from prism_irl.cli.progress import counting
    from prism_irl.experiments.evidence.run import run
    from prism_irl.experiments.evidence.settings import Calibration

    settings = Calibration.small() if quick else Calibration()

    def work(path: Path, report: Any) -> dict[str, Any]:
        return run(
            settings,
            path,
            jobs=jobs,
            on_part=lambda done, total: report("data sets", done, total, ""),
        )

    folder.make(
        work,
        print_calibration,
        progress=lambda: counting("data sets"),
        config={"settings": asdict(settings)},
    )


def _study(folder: RunFolder, jobs: int, first_seed: int, *, quick: bool) -> None:
    from prism_irl.cli.printing import print_study
    from prism_irl.cli.progress import counting
    from prism_irl.experiments.study.run import run
    from prism_irl.experiments.study.settings import Settings

    settings = replace(Settings.small() if quick else Settings(), first_seed=first_seed)

    def work(path: Path, report: Any) -> dict[str, Any]:
        return run(settings, path, jobs=jobs, on_part=lambda done, total: report("studies", done, total, ""))

    folder.make(
        work, print_study, progress=lambda: counting("studies"), config={"settings": asdict(settings)}, report=False
    )


def _tutorial(folder: RunFolder, jobs: int, *, quick: bool) -> None:
    from prism_irl.cli.printing import print_tutorial
    from prism_irl.cli.progress import counting
    from prism_irl.experiments.tutorial.run import Tutorial, run

    settings = Tutorial.small() if quick else Tutorial()

    def work(path: Path, report: Any) -> dict[str, Any]:
        return run(settings, path, jobs=jobs, on_part=lambda done, total: report("mice", done, total, ""))

    config = {"settings": asdict(settings)}
    folder.make(work, print_tutorial, progress=lambda: counting("mice"), config=config, report=False)


def _bridge(folder: RunFolder, dataset: Path | None, robots: RobotOptions, jobs: int, *, quick: bool) -> None:
    from prism_irl.cli.printing import print_experiment
    from prism_irl.cli.progress import counting
    from prism_irl.experiments.bridge import run as bridge

    further = tuple(name.strip() for name in (robots.encoders or "").split(",") if name.strip())
    settings = bridge.Bridge.of(
        dataset,
        quick=quick,
        split=robots.split,
        encoder=robots.encoder,
        weights=robots.weights,
        granularity_encoders=further or None,
    )

    def work(path: Path, report: Any) -> dict[str, Any]:
        return bridge.run(
            settings, path, jobs=jobs, on_method=lambda name, done, total: report("fits", done, total, name)
        )

    def show(metrics: dict[str, Any]) -> None:
        where = "simulated pick-and-place" if metrics["simulated"] else str(dataset)
        print(f"{metrics['n_trajectories']} episodes, {metrics['n_steps']} steps: {where}")
        print_experiment(metrics)

    folder.make(
        work,
        show,
        progress=lambda: counting("fits"),
        config=lambda metrics: {"dataset": metrics["dataset"], "settings": asdict(settings)},
    )
