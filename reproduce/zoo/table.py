"""`prism reproduce zoo`: every method on many worlds, beside the exact filter of each.

A cell is one method on one world: fitted to its training trajectories with the options that the method has by default,
with the true number of intentions where it asks for one, and with nothing else; judged on its test trajectories. The
row "default" is what `prism fit` does with nothing but column names. The methods of `EVERYWHERE` run on all worlds, the
others on `FEW`, one of each family. Where there are `ENOUGH` trajectories, goals are also looked for in each half of
them. Every finished cell is kept (`cells.csv`, with commit, machine and seconds, and `cache/`), so that a run goes on
where it stopped; how many CPU-hours are left is said first. A run with ``--parts`` also shows the methods that an
earlier run in its folder has finished.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import prism_irl
from prism_irl import __version__, storage
from prism_irl.cli.options import FitsOptions, ModelOptions, build_model
from prism_irl.cli.printing import print_table
from prism_irl.cli.progress import counting
from prism_irl.cli.reproduce import in_script
from prism_irl.cli.runs import RunFolder
from prism_irl.devices import limit_threads, machine
from prism_irl.errors import InputError, brief
from prism_irl.evaluation.metrics import infer_once
from prism_irl.evaluation.truth import recovered_rewards, reward_distance
from prism_irl.labels import match
from prism_irl.mdp import MDP
from prism_irl.models import registry
from prism_irl.scale import fanout
from prism_irl.studies import results
from zoo.sticky_hmm import StickyHMM
from zoo.worlds import FAMILIES, NULLS, TABLE, World, draw

PACKAGE = Path(prism_irl.__file__).parent
FIRST, WORLDS = TABLE.start, 110
"""Five worlds of every family, 70 of them with intentions."""
FEW = 22
"""Worlds of slow methods, one of each family: twelve with places and intentions, two continuous, eight nulls."""
BINS = 10
DISCOUNT = 0.95
"""Of the dynamics that rewards are compared with."""
USED = 0.01
"""Share of the steps from which on an intention counts as found."""
STICKY = "sticky-hmm"
ON_POSITIONS = ("default", "phases", "prism-features", "markov+landmarks", "state+landmarks")
"""Methods of continuous worlds."""
OF_POSITIONS = ON_POSITIONS[1:]
"""Those that are of no other."""
SECONDS = {
    "default": 8.0,
    "goals-that-end": 6.0,
    "hiql": 3.0,
    "swirl-1": 30.0,
    "swirl-2": 60.0,
    "dirl": 10.0,
    "prism-goals": 20.0,
    "prism-paper": 10.0,
    "markov+landmarks": 20.0,
    "state+landmarks": 20.0,
}
"""Seconds of one core that a fit takes, roughly; of other methods `OTHERS`."""
OTHERS = 4.0
EVERYWHERE = ("default", "goals-that-end", "arrival+places", STICKY, "hiql")
"""Methods that run on every world; all others on `FEW`."""
ENOUGH = 400
"""Training trajectories from which on fits to disjoint halves of them are compared."""
RELATED = {"arrival", "needs", "event", "state", "last-visited"}
"""Families in which what ends an intention is what goals that end, or their switching, assume."""


@dataclass(frozen=True)
class Zoo:
    """Settings: methods, and seeds of worlds; all methods but `EVERYWHERE` run on the first ``few``."""

    methods: tuple[str, ...]
    first_seed: int = FIRST
    worlds: int = WORLDS
    few: int = FEW
    quick: bool = False

    def cells(self) -> list[Cell]:
        """Every cell, world by world."""
        return [
            Cell(method, self.first_seed + i)
            for i in range(self.worlds)
            for method in self.methods
            if (i < self.few or method in EVERYWHERE) and suits(method, family_of(self.first_seed + i))
        ]


class Cell(NamedTuple):
    """One method on one world."""

    method: str
    seed: int


def every_method() -> tuple[str, ...]:
    """The default command, every named method, the baseline, and pairs for positions."""
    return tuple(dict.fromkeys(("default", *registry.NAMED, STICKY, *OF_POSITIONS)))


def family_of(seed: int) -> str:
    """The family of a seed of the table."""
    names = list(FAMILIES)
    return names[seed % len(names)]


def suits(method: str, family: str) -> bool:
    """Whether a method is one for this kind of states."""
    return method in ON_POSITIONS if family in ("field", "maze") else method not in OF_POSITIONS


# -- one cell ----------------------------------------------------------------------------------------------------------


def cell(task: Cell, commit: str) -> dict[str, Any]:
    """Fit and judge; a fit that fails says why, and counts as nothing found."""
    limit_threads(1)
    method, seed = task
    world = draw(seed)
    row: dict[str, Any] = {
        "method": method,
        "world": world.name,
        "family": world.family,
        "seed": seed,
        "trajectories": len(world.train),
        "steps": world.train.n_steps,
        "K": world.n_present,
        "oracle_ll": float(world.oracle.log_likelihood.mean()),
        "commit": commit,
        "version": __version__,
        "machine": machine(),
    }
    clock, cpu = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, row["told_k"] = unfitted(method, world)
            model.fit(world.train)
            row["seconds"] = time.perf_counter() - clock
            row |= judged(model, world)
            if (
                not row["told_k"]
                and not world.continuous
                and len(world.train) >= ENOUGH
                and getattr(model, "goals_", None)
            ):
                row |= halves(method, world)
    except Exception as error:  # a row of its own, because one failure must not end a table of hours
        row |= {"seconds": time.perf_counter() - clock, "failed": brief(error)}
    return row | {"cpu_seconds": time.process_time() - cpu}


def unfitted(method: str, world: World) -> tuple[Any, bool]:
    """The method, and whether it was told how many intentions there are: whoever can find that is not."""
    if method == STICKY:
        return StickyHMM(world.n_intentions), True
    if method == "default":
        return build_model(ModelOptions(), demos=world.train, phases=False), False
    model: Any = registry.method(method).model
    if model.n_intentions is None:
        return model, False
    return registry.method(method, world.n_intentions).model, True


def judged(model: Any, world: World) -> dict[str, Any]:
    """Likelihood, and what there is to say about labels, number of intentions, calibration and rewards."""
    demos = world.test
    found = infer_once(model, demos)
    use = np.bincount(found.labels, minlength=found.probabilities.shape[1]) / demos.n_steps
    row: dict[str, Any] = {
        "predictive_ll": float(found.log_likelihood.mean()),
        "n_found": int((use >= USED).sum()),
    }
    if demos.labels is None:
        return row
    row["oracle_accuracy"] = float((world.oracle.labels == demos.labels).mean())
    if found.probabilities.shape[1] > 1:
        mapping = np.asarray(match(demos.labels, found.labels, n_true=world.n_intentions).mapping)
        right = mapping[found.labels] == demos.labels
        row["label_accuracy"] = float(right.mean())
        row["reliability"] = reliability(found.probabilities.max(axis=1), right)
    if world.rewards is not None and world.transitions is not None:
        rewards = recovered_rewards(model, demos, world.n_intentions)
        if rewards is not None:
            mdp = MDP.from_dense(world.transitions, DISCOUNT)
            present = np.unique(demos.labels)
            row["starc"] = float(np.mean([reward_distance(mdp, rewards[k], world.rewards[k]) for k in present]))
    return row


def halves(method: str, world: World) -> dict[str, Any]:
    """Whether fits to disjoint halves of the training trajectories find the same goals, and how many they share."""
    found = []
    for half in (slice(0, None, 2), slice(1, None, 2)):
        model, _ = unfitted(method, replace(world, train=world.train.subset(np.arange(len(world.train))[half])))
        found.append({tuple(goal) for goal in model.fit(world.train.subset(np.arange(len(world.train))[half])).goals_})
    shared = len(found[0] & found[1]) / max(len(found[0] | found[1]), 1)
    return {"halves_agree": found[0] == found[1], "halves_share": shared}


def reliability(confidence: npt.NDArray[np.float64], right: npt.NDArray[np.bool_]) -> list[list[float]]:
    """Steps, summed confidence and right ones, (3, bins) by confidence, which add up over worlds."""
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    return [np.bincount(bins, weights, BINS).tolist() for weights in (np.ones(len(bins)), confidence, right)]


def calibration_error(curves: Iterable[Sequence[Sequence[float]]]) -> float | None:
    """Expected calibration error of added-up reliability curves: how far confidence and truth are apart, by steps."""
    total = np.sum([np.asarray(curve) for curve in curves], axis=0)
    if not np.shape(total):
        return None
    n, confidence, right = total
    return float(np.abs(confidence - right).sum() / n.sum())


# -- the table ---------------------------------------------------------------------------------------------------------


def run(
    settings: Zoo,
    folder: Path,
    *,
    jobs: int = 1,
    on_part: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Make every cell, write metrics.json and cells.csv; return the metrics."""
    kept = folder / "cache"
    kept.mkdir(parents=True, exist_ok=True)
    path = partial(_path, kept)
    settings = with_finished(settings, path)
    tasks = settings.cells()
    if say is not None:
        say(cost(tasks, path))
    # The longest first, so that no process waits for the last one.
    order = sorted(range(len(tasks)), key=lambda i: -SECONDS.get(tasks[i].method, OTHERS))
    rows = fanout.remembered(
        in_script,
        [tasks[i] for i in order],
        ("zoo.table", "cell", storage.source_commit() or "unknown"),
        lambda task: path(Cell(*task)),
        jobs=jobs,
        on_rows=None if on_part is None else lambda done: on_part(done, len(tasks)),
    )
    by_task = dict(zip(order, rows, strict=True))
    ordered = [by_task[i] for i in range(len(tasks))]
    result = {
        "parts": list(settings.methods),
        "title": f"Zoo: {settings.worlds} worlds from seed {settings.first_seed} on",
        "experiment": "zoo",
        "quick": settings.quick,
        "commits": sorted({row["commit"] for row in ordered}),
        "machines": sorted({row["machine"] for row in ordered}),
        "cpu_hours": sum(row["cpu_seconds"] for row in ordered) / 3600,
        "failed": [{key: row[key] for key in ("method", "world", "failed")} for row in ordered if "failed" in row],
        "methods": summaries(ordered, settings.methods),
    }
    results.write_results(folder, result, [])
    results.write_rows(folder / "cells.csv", [{k: v for k, v in row.items() if k != "reliability"} for row in ordered])
    return result


def with_finished(settings: Zoo, path: Callable[[Cell], Path]) -> Zoo:
    """The same with methods that an earlier run in this folder has finished."""
    known = dict.fromkeys((*every_method(), *EVERYWHERE))
    others = [replace(settings, methods=(name,)) for name in known if name not in settings.methods]
    done = [one.methods[0] for one in others if (cells := one.cells()) and all(path(task).exists() for task in cells)]
    order = [name for name in known if name in done or name in settings.methods]
    return replace(settings, methods=(*order, *(name for name in settings.methods if name not in known)))


def _path(folder: Path, task: Cell) -> Path:
    return folder / f"{task.method.replace('+', '_')}-{task.seed}-{code()}.json"


@cache
def code() -> str:
    """A hash of the code that a cell hangs on: a cell of another one is not taken for one of this."""
    rooms = "core", "data", "rewards", "switching", "evaluation", "models"
    files = [path for room in rooms for path in (PACKAGE / room).rglob("*.py")]
    files += [*PACKAGE.glob("*.py"), *Path(__file__).parent.glob("*.py")]
    joined = hashlib.sha256()
    for path in sorted(files):
        joined.update(path.read_bytes())
    return joined.hexdigest()[:12]


def cost(tasks: Sequence[Cell], path: Callable[[Cell], Path]) -> str:
    """One sentence: how much there is, and how long it takes."""
    left = [task for task in tasks if not path(task).exists()]
    hours = sum(SECONDS.get(task.method, OTHERS) for task in left) / 3600
    return f"{len(tasks)} cells, {len(left)} of them left: about {hours:.1f} CPU-hours."


def summaries(rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> dict[str, Any]:
    """Entries of methods: over worlds with intentions, by family, and by how many trajectories there were."""
    found: dict[str, Any] = {}
    for method in methods:
        own = [row for row in rows if row["method"] == method]
        if not own:
            continue
        true = [row for row in own if row["family"] not in NULLS]
        related = [row for row in true if row["family"] in RELATED]
        few = sorted({row["trajectories"] for row in true})
        found[method] = {
            "name": method,
            **summary(true),
            "related": summary(related),
            "nulls": null_summary([row for row in own if row["family"] in NULLS]),
            "families": {
                family: summary(part) for family in FAMILIES if (part := [r for r in true if r["family"] == family])
            },
            "by_trajectories": {str(n): summary([r for r in true if r["trajectories"] == n]) for n in few},
        }
    return found


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over worlds with intentions; a fit that failed, or has one intention alone, has found no labels."""
    if not rows:
        return {"worlds": 0}
    there = [row for row in rows if "predictive_ll" in row]
    labelled = any("label_accuracy" in row for row in rows)
    relative = [row.get("label_accuracy", 0.0) / row["oracle_accuracy"] for row in there]
    wrong = [abs(row.get("n_found", 0) - row["K"]) for row in rows if not row.get("told_k") and labelled]
    curves = [row["reliability"] for row in rows if "reliability" in row]
    return {
        "worlds": len(rows),
        "failed": len(rows) - len(there),
        "label_accuracy": mean(row["label_accuracy"] for row in rows if "label_accuracy" in row),
        "relative_accuracy": sum(relative) / len(rows) if labelled else None,
        "exact_k": mean(off == 0 for off in wrong),
        "within_one": mean(off <= 1 for off in wrong),
        "starc": mean(row["starc"] for row in rows if "starc" in row),
        "halves": sum("halves_agree" in row for row in rows),
        "halves_agree": mean(row["halves_agree"] for row in rows if "halves_agree" in row),
        "below_oracle": mean(row["oracle_ll"] - row["predictive_ll"] for row in there),
        "calibration_error": calibration_error(curves) if curves else None,
        "seconds": mean(row["seconds"] for row in rows),
    }


def null_summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of worlds without intentions: how often one was found, and how far below the truth predictions are."""
    there = [row for row in rows if "predictive_ll" in row]
    return {
        "worlds": len(rows),
        "one": mean(row["n_found"] == 1 for row in there if not row["told_k"]),
        "below_oracle": mean(row["oracle_ll"] - row["predictive_ll"] for row in there),
    }


def mean(values: Iterable[float]) -> float | None:
    """Mean, None of nothing."""
    found = list(values)
    return float(np.mean(found)) if found else None


# -- the command -------------------------------------------------------------------------------------------------------


def command(
    folder: RunFolder, fits: FitsOptions, *, quick: bool, parts: str | None = None, first_seed: int | None = None
) -> None:
    """`prism reproduce zoo`; ``parts`` are methods."""
    known = every_method()
    chosen = known if parts is None else tuple(name.strip() for name in parts.split(",") if name.strip())
    for name in chosen:
        if name not in known:
            registry.find(name)  # says what there is
    if not chosen:
        raise InputError("There is no method in --parts; name at least one, or leave it out.")
    settings = Zoo(chosen, FIRST if first_seed is None else first_seed)
    if quick:  # a world of every family
        settings = replace(settings, worlds=FEW, few=0 if parts is None else FEW, quick=True)

    def work(path: Path, report: Any) -> dict[str, Any]:
        say = None if folder.common.quiet or folder.common.json else print
        return run(settings, path, jobs=fits.jobs, on_part=lambda n, total: report("cells", n, total, ""), say=say)

    config = {"settings": asdict(settings)}
    folder.make(work, print_zoo, progress=lambda: counting("cells"), config=config, report=False)


def print_zoo(metrics: Mapping[str, Any]) -> None:
    """Methods over all worlds with intentions, and their accuracies by family."""
    entries = list(metrics["methods"].values())
    rows = [
        entry | {"related_accuracy": entry["related"].get("relative_accuracy"), "null_one": entry["nulls"]["one"]}
        for entry in entries
    ]
    columns = {
        "method": ("name", 0),
        "worlds": ("worlds", 0),
        "labels/oracle": ("relative_accuracy", 3),
        "by events": ("related_accuracy", 3),
        "K exact": ("exact_k", 2),
        "K ±1": ("within_one", 2),
        "STARC": ("starc", 2),
        "halves": ("halves_agree", 2),
        "nats below oracle": ("below_oracle", 3),
        "calibration error": ("calibration_error", 3),
        "one in nulls": ("null_one", 2),
        "seconds": ("seconds", 1),
    }
    print_table(str(metrics["title"]), rows, columns, 150)
    names = [family for family in FAMILIES if any(family in entry["families"] for entry in entries)]
    by_family = [
        {
            "family": family,
            **{
                entry["name"]: entry["families"][family]["relative_accuracy"]
                for entry in entries
                if family in entry["families"]
            },
        }
        for family in names
    ]
    shown = [entry["name"] for entry in entries if entry["relative_accuracy"] is not None]
    headings = {"method": ("family", 0), **{name: (name, 2) for name in shown}}
    print_table("Label accuracy as a share of the oracle's, by family", by_family, headings, 20 + 16 * len(shown))
    for row in metrics["failed"]:
        print(f"{row['method']} failed on {row['world']}: {row['failed']}")
    print(f"{metrics['cpu_hours']:.2f} CPU-hours.")
