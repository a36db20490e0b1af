"""`prism reproduce continuous`: worlds with known goals, pick-and-place and surgery, every method beside its baselines.

One fit is one file in the folder `cache`, so that an interrupted run goes on with --resume. Every data set gets a
folder with its own table and report; metrics.json of the whole run holds all of them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from continuous.arm import can_simulate, path_of
from continuous.data import SURGERY, Data, episodes_of, has_surgery, load, prepare
from continuous.methods import (
    BASELINES,
    HALVES,
    HELD_OUT,
    NAMES,
    OF_ARMS,
    Outcome,
    halves_agree,
    held_out,
    run_method,
)
from continuous.told import TOLD, told
from prism_irl import __version__
from prism_irl.cli.options import FitsOptions
from prism_irl.cli.printing import print_table
from prism_irl.cli.progress import counting
from prism_irl.cli.runs import RunFolder
from prism_irl.devices import limit_threads
from prism_irl.evaluation.metrics import LABEL_METRICS, label_metrics, segmentation_metrics, summary
from prism_irl.labels import mean_dwell
from prism_irl.report.render import write_report
from prism_irl.scale import fanout
from prism_irl.studies import results

OF_WORLDS = (
    "oracle",
    "landmarks-state",
    "landmarks-recurrent",
    "landmarks",
    "features-state",
    "features",
    "tokens",
    "tokens-prism",
    "habit",
    *BASELINES,
)
OF_ROBOTS = (
    "windows-consensus",
    "windows-power",
    "windows-semi",
    "gripper-ordered",
    "gripper-pictures",
    "features-ordered",
    "features-state",
    "features",
    "features-recurrent",
    "tokens",
    "habit",
    *OF_ARMS,
    *BASELINES,
)
OF_SURGERY = (
    "windows-consensus",
    "windows-power",
    "windows-semi",
    "chain-windows",
    "kmeans-windows",
)
OF_GRIPPERS = ("gripper-ordered", "gripper-pictures", *OF_ARMS)
"""Methods that are not for other data."""
SLOW = (
    "told-decided",
    "windows-consensus",
    "told-chosen",
    "landmarks-recurrent",
    "features-recurrent",
    "windows-semi",
    "landmarks-state",
    "landmarks",
    "tokens-prism",
)
"""Methods whose fits begin first, the longest before the others, so that no process waits for the last one."""
OTHER_NUMBERS = ("chain-all", "gripper-ordered", "gripper-pictures")
"""Methods whose densities are of other numbers than the commands, and stand apart (``other_ll``)."""
ARM = "pick-and-place"
ONCE = ("landmarks-recurrent", "tokens-prism", "features-recurrent")
"""Methods that are fitted to the first simulation of a world alone, because they take longest."""
NOTES = (
    "Labels are compared after optimal matching, and never seen by a fit, except in the row of labelled trials, which "
    "is scored without matching on surgeons that no fit has seen.",
    "The score of policies over commands is a log density of new walks in the units of the data, comparable within one "
    "world alone, and of robots that of recordings which were held out of a fit of its own; tokens and clusters have "
    "none. The habit has memory and no intentions: what it predicts is no evidence of any.",
    "Goal distance is that of the true goal that was missed by most, in cells. Agreement is the ARI of the labels of "
    "two fits to disjoint halves of the trajectories. Transfer is the return of planning with the recovered goals in a "
    "maze whose walls have moved, relative to that of planning with the true ones.",
)


@dataclass(frozen=True)
class Continuous:
    """Settings: which data sets, how many simulations of each, how large, and options of every fit."""

    data: tuple[str, ...] = ("square-2", "square-3", "square-4", "square-5", "maze-0.1", "maze-0.2")
    seeds: tuple[int, ...] = (10, 11, 12)
    size: float = 1.0
    options: dict[str, Any] = field(default_factory=dict)
    quick: bool = False

    @classmethod
    def of(cls, *, quick: bool = False, cache: Path | None = None) -> Continuous:
        """All data sets that can be made or read here; a quick run has two small worlds and one simulation of each."""
        if quick:
            options = {"n_starts": 1, "max_iterations": 15}
            return cls(("square-3", "maze-0.1"), (10,), 0.4, options, quick=True)
        arms = cls.seeds[: cls().most(ARM)]
        kept = cache is not None and all(path_of(cache, episodes_of(cls.size), seed).is_file() for seed in arms)
        more = (ARM,) if kept or can_simulate() else ()
        return cls((*cls.data, *more, *(SURGERY if has_surgery() else ())))

    def most(self, name: str) -> int:
        """Simulations of a data set: squares hardly vary, and arms take minutes to simulate."""
        return 2 if name.startswith("square") or name == ARM else len(self.seeds)


SEEDED = (*OF_SURGERY, "kmeans-commands", "kmeans-observations")
"""Methods that are fitted to surgery from several seeds: ours, and the baselines that come closest."""


class Task(NamedTuple):
    """One method on one data set.

    ``subject`` is the surgeon left out, where labels are told; ``part`` is "halves" where two fits are compared, "new"
    where recordings are held out.
    """

    data: str
    method: str
    seed: int
    subject: str = ""
    part: str = ""


def tasks_of(settings: Continuous) -> list[Task]:
    """Every fit of the experiment."""
    found = []
    for name in settings.data:
        simulated = name.startswith(("square", "maze"))
        seeds = settings.seeds[: settings.most(name)]
        more = () if simulated else HELD_OUT
        methods = OF_WORLDS if simulated else OF_ROBOTS
        elsewhere = (*(() if name in SURGERY else OF_SURGERY), *(() if name == ARM else OF_GRIPPERS))
        methods = tuple(method for method in methods if method not in elsewhere)
        for method in methods:
            once = method in ONCE or (name in SURGERY and method not in SEEDED)
            own = seeds[:1] if once else seeds
            parts = ["", *(["halves"] if method in HALVES else []), *(["new"] if method in more else [])]
            found += [Task(name, method, seed, part=part) for part in parts for seed in own]
        if name in SURGERY:
            groups = load(name, 0).demos.groups
            assert groups is not None
            found += [Task(name, method, seeds[0], str(subject)) for method in TOLD for subject in np.unique(groups)]
    rank = {method: place for place, method in enumerate(SLOW)}
    return sorted(found, key=lambda task: rank.get(task.method, len(SLOW)))


def run(
    settings: Continuous,
    folder: Path,
    *,
    jobs: int = 1,
    on_part: Callable[[int, int], None] | None = None,
    title: str = "Continuous worlds",
) -> dict[str, Any]:
    """Make every fit, write a table and a report per data set, and return the metrics of all."""
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    tasks = tasks_of(settings)
    if ARM in settings.data:
        prepare(settings.seeds[: settings.most(ARM)], settings.size, cache, jobs)
    shared = (settings, fanout.side_by_side(jobs), cache)

    def tell(done: int) -> None:
        if on_part is not None:
            on_part(done, len(tasks))

    rows = fanout.remembered(one, tasks, shared, partial(_path, cache, settings), jobs=jobs, on_rows=tell)
    tables = {name: table([row for row in rows if row["data"] == name]) for name in settings.data}
    for name, methods in tables.items():
        _write_data_set(folder / name, settings, f"{title}: {name}", methods)
    result = {
        "title": title,
        "experiment": "continuous",
        "quick": settings.quick,
        "folds": 1,
        "seeds": len(settings.seeds),
        "notes": list(NOTES),
        "data": tables,
    }
    results.write_results(folder, result, rows)
    return result


def _write_data_set(folder: Path, settings: Continuous, title: str, methods: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    own = {"title": title, "experiment": "continuous", "quick": settings.quick, "folds": 1}
    metrics = {**own, "seeds": len(settings.seeds), "notes": list(NOTES), "methods": methods}
    results.write_results(folder, metrics, [{"method": key, **entry} for key, entry in methods.items()])
    write_report(folder)


def _path(cache: Path, settings: Continuous, task: Task) -> Path:
    """Named after everything that a row depends on."""
    text = f"{settings.size} {sorted(settings.options.items())} {__version__}"
    key = hashlib.sha256(text.encode()).hexdigest()[:10]
    return cache / f"{'-'.join(str(part) for part in task if part != '')}-{key}.json"


def one(task: Task, settings: Continuous, parallel: bool, cache: Path) -> dict[str, Any]:
    """One row: how well the labels agree, what the fit scored, how long it took."""
    if parallel:
        limit_threads(1)
    began = time.perf_counter()
    data = load(task.data, task.seed, size=settings.size, cache=cache)
    if task.part:
        key, score = ("halves_agreement", halves_agree) if task.part == "halves" else ("predictive_ll", held_out)
        return {**task._asdict(), key: score(task.method, data, task.seed, settings.options)}
    if task.method in TOLD:
        true, labels, chosen = told(data, task.subject, task.seed, settings.options, TOLD[task.method])
        kept = true < data.n_intentions  # steps that somebody labelled
        scores: dict[str, Any] = {"label_accuracy": float((true == labels)[kept].mean())}
        cells = np.bincount(true * (data.n_intentions + 1) + labels, minlength=(data.n_intentions + 1) ** 2)
        scores["confusion"] = cells.reshape(data.n_intentions + 1, -1).tolist()
        scores |= {"gestures": [*data.names, "none"], "chosen": chosen}
        outcome = Outcome(labels)
    else:
        outcome = run_method(task.method, data, task.seed, settings.options)
        scores = {} if task.method == "habit" else _compared(task, data, outcome.labels)
    return {
        **task._asdict(),
        **scores,
        "predictive_ll": outcome.log_density,
        "goal_distance": outcome.goal_distance,
        "transfer": outcome.transfer,
        "fit_seconds": time.perf_counter() - began,
    }


def _compared(task: Task, data: Data, labels: Any) -> dict[str, Any]:
    """What is said about labels that a method found."""
    scores = label_metrics(labels, data.demos)
    if task.data in SURGERY:  # unlabelled steps belong to no gesture
        scores = _labelled_only(data.demos.labels, labels, data.n_intentions, data.demos.offsets)
    return {**scores, "mean_dwell": mean_dwell(labels, data.demos.offsets)}


def _labelled_only(true: Any, labels: Any, n: int, offsets: Any) -> dict[str, float]:
    kept = np.asarray(true) < n
    lengths = np.add.reduceat(kept, offsets[:-1])
    cut = np.concatenate([[0], np.cumsum(lengths[lengths > 0])])
    found = segmentation_metrics(np.asarray(true)[kept], labels[kept], cut)
    return {key: value for key, value in found.items() if isinstance(value, float)}


def table(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Entries of one data set: mean and spread over simulations (over surgeons, where labels are told)."""
    entries: dict[str, dict[str, Any]] = {}
    keys = [
        *LABEL_METRICS,
        "predictive_ll",
        "mean_dwell",
        "goal_distance",
        "transfer",
        "halves_agreement",
        "fit_seconds",
    ]
    order = [*NAMES, *TOLD]
    for method in sorted({row["method"] for row in rows}, key=order.index):
        mine = [row for row in rows if row["method"] == method]
        entry: dict[str, Any] = {"name": TOLD[method].name if method in TOLD else NAMES[method], "paper_score": None}
        for key in keys:
            values = [row[key] for row in mine if row.get(key) is not None]
            entry[key] = summary(values) if values else None
        if method in OTHER_NUMBERS:  # nobody may rank it among densities of commands
            entry["predictive_ll"], entry["other_ll"] = None, entry["predictive_ll"]
        if "confusion" in mine[0]:
            entry["gestures"] = mine[0]["gestures"]
            entry["surgeons"] = {row["subject"]: row["label_accuracy"] for row in mine}
            entry["confusion"] = np.sum([row["confusion"] for row in mine], axis=0).tolist()
        entries[method] = entry
    return entries


def settings_json(settings: Continuous) -> dict[str, Any]:
    """What config.json says."""
    return asdict(settings)


def command(folder: RunFolder, fits: FitsOptions, *, quick: bool) -> None:
    """`prism reproduce continuous`."""
    settings = Continuous.of(quick=quick, cache=folder.begun / "cache")

    def work(path: Path, report: Any) -> dict[str, Any]:
        return run(settings, path, jobs=fits.jobs, on_part=lambda done, total: report("fits", done, total, ""))

    config = {"settings": settings_json(settings)}
    folder.make(work, print_worlds, progress=lambda: counting("fits"), config=config, report=False)


def print_worlds(metrics: dict[str, Any]) -> None:
    """One table per continuous data set."""
    columns = {
        "method": ("name", 0),
        "accuracy": ("label_accuracy", 3),
        "ARI": ("ari", 3),
        "F1@50": ("f1_at_50", 0),
        "log density": ("predictive_ll", 3),
        "goal distance": ("goal_distance", 2),
        "transfer": ("transfer", 2),
        "halves agree": ("halves_agreement", 2),
        "dwell": ("mean_dwell", 1),
    }
    for name, methods in metrics["data"].items():
        print_table(name, methods.values(), columns, width=130)
