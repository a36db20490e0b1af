"""`prism reproduce phases`: what `prism fit` makes of demonstrations without being told more, beside simple methods.

Scripted arms whose stages are known (`worlds.scripted`), random tasks (`worlds.random_tasks`), and surgery where its
files are. K is that of the truth; one row more says which K the same command finds by itself. Settings of phases were
chosen on other seeds of these tasks; nothing was chosen on the last three, which were kept aside, nor on the seeds of
this experiment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from continuous.data import has_surgery
from continuous.data import load as recorded
from prism_irl import __version__
from prism_irl.cli.options import FitsOptions
from prism_irl.cli.printing import print_table
from prism_irl.cli.progress import counting
from prism_irl.cli.runs import RunFolder
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import limit_threads
from prism_irl.labels import ari, label_accuracy
from prism_irl.models.intentions import Intentions
from prism_irl.models.phase_baselines import simple_labels
from prism_irl.scale import fanout
from prism_irl.studies import results
from prism_irl.studies.null import OnPart
from worlds import random_tasks
from worlds.scripted import HELD_OUT, TASKS, episodes

OURS, FOUND = "phases", "phases, number found"
SURGERY = ("knot_tying", "suturing")
RANDOM = 1000
"""Seed of the first of four random tasks of every kind and number of episodes."""


@dataclass(frozen=True)
class Experiment:
    """The experiment.

    Parameters
    ----------
    tasks : scripted tasks
    kinds : of random tasks, whose stages the seeds draw, too
    episodes : how many episodes of each task
    seeds : of the simulations
    surgery : real recordings, too
    """

    tasks: tuple[str, ...] = tuple(TASKS)
    kinds: tuple[str, ...] = random_tasks.KINDS
    episodes: tuple[int, ...] = (6, 24)
    seeds: tuple[int, ...] = (1000, 1001)
    surgery: bool = True
    quick: bool = False

    @classmethod
    def small(cls) -> Experiment:
        """One simulation of every task."""
        return cls(episodes=(8,), kinds=(), seeds=(1000,), surgery=False, quick=True)


def run(settings: Experiment, folder: Path, *, jobs: int = 1, on_part: OnPart | None = None) -> dict[str, Any]:
    """Fit every task, write metrics.json and folds.csv; return the metrics."""
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    cells = [(task, n, seed) for seed in settings.seeds for n in settings.episodes for task in settings.tasks]
    cells += [
        (kind, n, seed) for kind in settings.kinds for n in settings.episodes for seed in range(RANDOM, RANDOM + 4)
    ]
    if settings.surgery and has_surgery():
        cells += [(task, 0, settings.seeds[0]) for task in SURGERY]
    key = hashlib.sha256(__version__.encode()).hexdigest()[:8]
    rows = fanout.remembered(
        judged,
        cells,
        (fanout.side_by_side(jobs),),
        lambda cell: cache / f"{key}-{cell[0]}-{cell[1]}-{cell[2]}.json",
        jobs=jobs,
        on_rows=None if on_part is None else lambda done: on_part(done, len(cells)),
    )
    result = {
        "title": "Phases of demonstrations",
        "experiment": "phases",
        "quick": settings.quick,
        "seeds": list(settings.seeds),
        "episodes": list(settings.episodes),
        "held_out": [*HELD_OUT],
        "methods": list(rows[0]["label_accuracy"]),
        "rows": rows,
    }
    results.write_results(folder, result | {"notes": notes(result)}, [_flat(row) for row in rows])
    return result | {"notes": notes(result)}


def demonstrations(task: str, n: int, seed: int) -> Demonstrations:
    """Demonstrations of a task with its true stages; the columns have no names."""
    if task in SURGERY:
        return recorded(task, seed).demos
    made = list((random_tasks.episodes if task in random_tasks.KINDS else episodes)(task, n, seed=seed))
    seen, done, truth = ([np.asarray(getattr(one, name)) for one in made] for name in ("states", "actions", "phases"))
    return Demonstrations.continuous(seen, done, labels=truth)


def judged(cell: tuple[str, int, int], parallel: bool) -> dict[str, Any]:
    """Label accuracy after matching, and ARI, of every method on one data set."""
    if parallel:
        limit_threads(1)
    task, n, seed = cell
    demos = demonstrations(task, n, seed)
    assert demos.labels is not None
    truth = demos.labels if task in SURGERY else np.unique(demos.labels, return_inverse=True)[1]
    K = recorded(task, seed).n_intentions if task in SURGERY else len(np.unique(truth))
    kept = truth < K  # of surgery, what nobody labelled is a further class
    bare = replace(demos, labels=None)
    told, free = Intentions(K).fit(bare), Intentions().fit(bare)
    labels = {OURS: told.predict(bare), FOUND: free.predict(bare), **simple_labels(bare, K)}
    return {
        "task": task,
        "episodes": len(demos),
        "seed": seed,
        "n_steps": demos.n_steps,
        "n_columns": demos.observations.shape[1] + demos.motions.shape[1],  # type: ignore[union-attr]
        "n_phases": K,
        "n_found": free.n_intentions,
        "order": getattr(told, "order_", "none"),
        "label_accuracy": {name: float(label_accuracy(truth[kept], own[kept])) for name, own in labels.items()},
        "ari": {name: float(ari(truth[kept], own[kept])) for name, own in labels.items()},
    }


def mean(rows: Sequence[Mapping[str, Any]], method: str, measure: str = "label_accuracy") -> float:
    """Mean of a measure of one method."""
    return float(np.mean([row[measure][method] for row in rows]))


def notes(result: Mapping[str, Any]) -> list[str]:
    """The outcome in words."""
    rows, simple = result["rows"], [name for name in result["methods"] if name not in (OURS, FOUND)]
    drawn = [row for row in rows if row["task"] in random_tasks.KINDS]
    named, new = ([row for row in rows if test(row["task"])] for test in (TASKS.__contains__, HELD_OUT.__contains__))
    named += [row for row in rows if row["task"] in SURGERY]
    best = max(simple, key=lambda name: mean(named, name))
    found = [
        f"Phases label {mean(named, OURS):.3f} of the steps right; the best single simple method, {best}, "
        f"{mean(named, best):.3f}.",
        f"They are more than 0.02 below equal parts in {_below(named)[0]} of {len(named)} data sets, by "
        f"{_below(named)[1]:.3f} at most.",
    ]
    if new:
        found += [
            f"On three tasks that chose nothing but a threshold of the order they label {mean(new, OURS):.3f} right, "
            f"{best} {mean(new, best):.3f}.",
        ]
    if drawn:
        found += [
            f"On random tasks they label {mean(drawn, OURS):.3f} right, equal parts {mean(drawn, 'equal parts'):.3f}, "
            f"{best} {mean(drawn, best):.3f}; they are more than 0.02 below equal parts in {_below(drawn)[0]} of "
            f"{len(drawn)}, by {_below(drawn)[1]:.3f} at most.",
        ]
    return [
        *found,
        f"Without the number of phases the same command finds it exactly in {_off(rows, 0)} and within one in "
        f"{_off(rows, 1)} of {len(rows)} data sets, with {mean(rows, FOUND):.3f} of the steps right; equal parts of "
        f"the true number have {mean(rows, 'equal parts'):.3f}.",
    ]


def _off(rows: Sequence[Mapping[str, Any]], most: int) -> int:
    """In how many data sets the number of phases found is off by so many at most."""
    return sum(abs(row["n_found"] - row["n_phases"]) <= most for row in rows)


def _below(rows: Sequence[Mapping[str, Any]]) -> tuple[int, float]:
    """In how many data sets phases are more than 0.02 below equal parts, and by how much at most."""
    gains = [row["label_accuracy"][OURS] - row["label_accuracy"]["equal parts"] for row in rows]
    return sum(gain < -0.02 for gain in gains), max(-min(gains), 0.0)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    cells = {name: value for name, value in row.items() if not isinstance(value, dict)}
    return cells | {f"label_accuracy {name}": value for name, value in row["label_accuracy"].items()}


def command(folder: RunFolder, fits: FitsOptions, *, quick: bool) -> None:
    """`prism reproduce phases`."""
    settings = Experiment.small() if quick else Experiment()

    def work(path: Path, report: Any) -> dict[str, Any]:
        return run(settings, path, jobs=fits.jobs, on_part=lambda done, total: report("tasks", done, total, ""))

    config = {"settings": asdict(settings)}
    folder.make(work, print_phases, progress=lambda: counting("tasks"), config=config, report=False)


def print_phases(metrics: Mapping[str, Any]) -> None:
    """Label accuracy on every task beside equal parts and the best simple method there, means over seeds and sizes."""
    simple = [name for name in metrics["methods"] if name not in (OURS, FOUND)]
    table = []
    for task in dict.fromkeys(row["task"] for row in metrics["rows"]):
        rows = [row for row in metrics["rows"] if row["task"] == task]
        best = max(simple, key=lambda name: mean(rows, name))
        scores = {"ours": mean(rows, OURS), "parts": mean(rows, "equal parts"), "best": mean(rows, best), "name": best}
        sizes = {"K": rows[0]["n_phases"], "found": float(np.median([row["n_found"] for row in rows]))}
        table.append({"task": task, **sizes, **scores})
    columns = {"task": ("task", 0), "K": ("K", 0), "found": ("found", 1), "phases": ("ours", 3)}
    columns |= {"equal parts": ("parts", 3), "best simple": ("best", 3), "which": ("name", 0)}
    print_table(str(metrics["title"]), table, columns)
    for note in metrics["notes"]:
        print(note)
