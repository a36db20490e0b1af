"""`prism reproduce evidence`: false positives and power of the test for intentions, on data of known truth.

At the level 1 / (1 + B) the data must beat all B surrogates, so surrogates are simulated one by one, and no further one
after the first that reaches the data: the decision is the same, and data without intentions is done soon (Besag and
Clifford 1991).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from prism_irl import __version__
from prism_irl.cli.options import FitsOptions
from prism_irl.cli.printing import print_notes, print_table
from prism_irl.cli.progress import counting
from prism_irl.cli.run_folder import RunFolder
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import limit_threads
from prism_irl.evaluation.likelihood import label_metrics
from prism_irl.figures import evidence as drawing
from prism_irl.figures import style
from prism_irl.mdp import MDP
from prism_irl.scale import fanout, remember
from prism_irl.studies import null, results, selection
from prism_irl.studies.analysis import Analysis
from prism_irl.studies.null import OnPart
from prism_irl.studies.select_intentions import Select, try_numbers

DRIFT = 0.5
"""Way to another habit that is gone from the first trajectory to the last. A habit that is replaced altogether (1) is
beyond slow, and on even seeds the test did find it."""
SIZES = (50, 100, 200)
MOUSE_STEPS = 100
"""Steps of a window of the simulated mice here: shorter than in their own experiment, for the sake of time."""


@dataclass(frozen=True)
class DataSet:
    """One simulated data set.

    Parameters
    ----------
    world : str
        "habit", "drift", "cloned", "frustration", "mice" or "errands".
    truth : int
        Number of intentions, 1 for none.
    n : int
        Trajectories.
    seed : int
    memory, place, individuals : of habits
    """

    world: str
    truth: int
    n: int
    seed: int
    memory: int = 0
    place: str = ""
    individuals: bool = False

    @property
    def id(self) -> str:
        """Name in tables."""
        kind = f"-{self.place}-m{self.memory}{'-individuals' if self.individuals else ''}" if self.place else ""
        return f"{self.world}{kind}-n{self.n}-s{self.seed}"

    @property
    def half(self) -> str:
        """Whether it settled the rule or reports it."""
        return "report" if self.seed % 2 else "settle"

    def make(self) -> tuple[Demonstrations, MDP | None]:
        """Simulate it."""
        if self.place:
            from worlds.habits import HabitWorld

            options: dict[str, Any] = {"memory": self.memory, "place": self.place, "individuals": self.individuals}
            drift = DRIFT if self.world == "drift" else 0.0
            world = HabitWorld(**options, drift=drift, habit=self.seed)
            return world.simulate(self.n, seed=self.seed), world.mdp
        return _SIMULATED[self.world](self.n, self.seed)


def _cloned(n: int, seed: int) -> tuple[Demonstrations, MDP | None]:
    from prism_irl.models.cloning import BehaviourCloning
    from prism_irl.worlds.labyrinth import LabyrinthWorld
    from worlds.cloned import ClonedWorld

    mouse = LabyrinthWorld(horizon=MOUSE_STEPS)
    seen = mouse.simulate(100, seed=10_000 + seed).demonstrations
    network = BehaviourCloning(hidden=32, seed=seed).fit(seen)
    world = ClonedWorld(network, seen, horizon=MOUSE_STEPS)
    return world.simulate(n, seed=seed), world.dynamics


def _frustration(n: int, seed: int) -> tuple[Demonstrations, MDP | None]:
    from prism_irl.worlds.frustration import FrustrationWorld

    return FrustrationWorld().simulate(n, seed=seed).demonstrations, None


def _mice(n: int, seed: int) -> tuple[Demonstrations, MDP | None]:
    from prism_irl.maze import maze_mdp
    from prism_irl.worlds.labyrinth import LabyrinthWorld

    return LabyrinthWorld(horizon=MOUSE_STEPS).simulate(n, seed=seed).demonstrations, maze_mdp()


def _errands(n: int, seed: int) -> tuple[Demonstrations, MDP | None]:
    from worlds.errands import ErrandsWorld

    return ErrandsWorld().simulate(n, seed=seed).demonstrations, None


_SIMULATED = {"cloned": _cloned, "frustration": _frustration, "mice": _mice, "errands": _errands}
TRUTHS = {"frustration": 2, "mice": 3, "errands": 2}


@dataclass(frozen=True)
class Calibration:
    """Settings of the calibration.

    Parameters
    ----------
    analysis : what is done to every data set
    surrogates : B
    habits : seeds of every kind of habit
    further : seeds of drift and of cloned behaviour
    power : seeds of every world with intentions at the largest size
    counted : seeds of the same whose number of intentions `prism select` is asked for
    tried : numbers of intentions that it is asked to choose among
    smaller : seeds of the same at smaller sizes
    """

    analysis: Analysis = field(default_factory=lambda: Analysis(folds=3))
    surrogates: int = 19
    habits: tuple[int, ...] = (1, 3)
    further: tuple[int, ...] = (1, 3, 5)
    power: tuple[int, ...] = (1, 3, 5, 7, 9, 11, 13, 15, 17, 19)
    counted: tuple[int, ...] = (1, 3, 5, 7, 9, 11, 13, 15, 17, 19)
    tried: tuple[int, ...] = (1, 2, 3, 4)
    smaller: tuple[int, ...] = (1, 3)
    quick: bool = False

    @classmethod
    def small(cls) -> Calibration:
        """A few data sets of every kind."""
        return cls(habits=(1,), further=(1,), power=(1,), tried=(1, 2, 3), smaller=(), quick=True)

    def data_sets(self) -> Iterator[DataSet]:
        """All of them: without intentions first."""
        number = 0
        for seed in self.habits:
            for place in ("maze", "grid"):
                for memory in range(1, 6):
                    for individuals in (False, True):
                        if self.quick and memory not in (2, 4):
                            continue
                        size = SIZES[number % len(SIZES)] if not self.quick else SIZES[0]
                        number += 1
                        yield DataSet("habit", 1, size, seed, memory, place, individuals)
        for seed in self.further:
            for place in ("maze", "grid"):
                yield DataSet("drift", 1, SIZES[0] if self.quick else SIZES[1], seed, 2, place)
            yield DataSet("cloned", 1, SIZES[0] if self.quick else SIZES[1], seed)
        for world, truth in TRUTHS.items():
            for size in SIZES:
                for seed in self.power if size == SIZES[-1] else self.smaller:
                    yield DataSet(world, truth, size, seed)


RIGHT = 0.9
"""Share of steps with the true intention from which on a labelling counts as right."""


def run(
    settings: Calibration,
    folder: Path,
    *,
    jobs: int = 1,
    on_part: OnPart | None = None,
    title: str = "Calibration of evidence",
) -> dict[str, Any]:
    """Test every data set, write metrics.json, folds.csv and figures; return the metrics."""
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    chosen = list(settings.data_sets())
    counted = [data for data in chosen if data.truth > 1 and data.n == SIZES[-1] and data.seed in settings.counted]
    total = len(chosen) + len(counted)

    def tell(done: int) -> None:
        if on_part is not None:
            on_part(done, total)

    rows = _spread(test_one, chosen, settings, cache, "test", jobs, tell)
    numbers = _spread(count_one, counted, settings, cache, "count", jobs, lambda done: tell(len(chosen) + done))
    for data in counted:
        rows[data.id] |= recommended(numbers[data.id], found=rows[data.id]["found"])
    ordered = [rows[data.id] for data in chosen]
    result = {
        "title": title,
        "experiment": "calibration",
        "quick": settings.quick,
        "folds": settings.analysis.folds,
        "surrogates": settings.surrogates,
        "calibration": summary(ordered),
        "notes": notes(settings, ordered),
        "methods": _table(ordered),
    }
    results.write_results(folder, result, ordered)
    results.write_figures(folder / "figures", {"power": partial(_draw, result=result)})
    return result


def _spread(
    work: Callable[[DataSet, Calibration, bool], dict[str, Any]],
    wanted: Sequence[DataSet],
    settings: Calibration,
    cache: Path,
    kind: str,
    jobs: int,
    tell: Callable[[int], None],
) -> dict[str, dict[str, Any]]:
    """Do some work on every data set, remembering what is done."""
    shared = (settings, fanout.side_by_side(jobs))
    path = partial(_path, cache, settings, kind)
    rows = remember.spread(work, wanted, shared, path, jobs=jobs, on_rows=tell)
    return {data.id: row for data, row in zip(wanted, rows, strict=True)}


def _path(cache: Path, settings: Calibration, kind: str, data: DataSet) -> Path:
    key = hashlib.sha256(f"{settings.analysis!r} {settings.surrogates} {__version__}".encode()).hexdigest()[:12]
    tried = "" if kind == "test" else f"-{kind}-{settings.tried[0]}to{settings.tried[-1]}"
    return cache / f"{key}-{data.id}{tried}.json"


def test_one(data: DataSet, settings: Calibration, parallel: bool) -> dict[str, Any]:
    """Whether the data beats all surrogates, and after how many it was known."""
    if parallel:
        limit_threads(1)
    demos, mdp = data.make()
    found = null.sequential(demos, settings.analysis, most=settings.surrogates, mdp=mdp)
    return {
        "id": data.id,
        "world": data.world + (f", {data.place}" if data.place else ""),
        "truth": data.truth,
        "n_trajectories": data.n,
        "individuals": data.individuals,
        "memory": data.memory or None,
        "half": data.half,
        **found,
        "found": found["reached"] == 0,
    }


test_one.__test__ = False  # type: ignore[attr-defined]  # not a test of pytest, whatever its name begins with


def count_one(data: DataSet, settings: Calibration, parallel: bool) -> dict[str, Any]:
    """What `prism select` knows about every number of intentions: likelihoods of folds, and agreement of halves."""
    if parallel:
        limit_threads(1)
    demos, mdp = data.make()
    select = Select(intentions=settings.tried, folds=settings.analysis.folds, surrogates=0)
    _, found, candidates = try_numbers(demos, select, mdp=mdp)
    rows = {str(k): asdict(candidate) for k, candidate in candidates.items()}
    accuracy = {
        str(k): label_metrics(found[k].labels, demos).get("label_accuracy") for k in settings.tried if k == data.truth
    }
    return {"candidates": rows, "label_accuracy": accuracy}


def recommended(row: dict[str, Any], *, found: bool) -> dict[str, Any]:
    """What `prism select` recommends, given whether there is evidence, and how right its labels are."""
    candidates = {int(k): selection.Candidate(**_tuples(values)) for k, values in row["candidates"].items()}
    choice = selection.choose(candidates, {"found": found, "gain": 0.0, "p_value": 0.0})
    chosen = candidates[choice.recommended]
    return {
        "recommended": choice.recommended,
        "by_likelihood": choice.by_likelihood,
        "identified": chosen.identified and choice.recommended > 1,
        "agreement": chosen.agreement,
        "label_accuracy": row["label_accuracy"].get(str(choice.recommended)),
    }


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """False positives, and power by world and size, each with its 95% interval (Clopper–Pearson)."""
    without = [row for row in rows if row["truth"] == 1]
    kinds = sorted({row["world"] for row in without})
    power = {}
    for world in TRUTHS:
        for n in SIZES:
            own = [row for row in rows if row["world"] == world and row["n_trajectories"] == n]
            if own:
                power[f"{world} {n}"] = {"world": world, "n": n, **share(own)}
    largest = [row for row in rows if row["truth"] > 1 and row["n_trajectories"] == SIZES[-1]]
    return {
        "false_positives": share(without),
        "by_kind": {kind: share([row for row in without if row["world"] == kind]) for kind in kinds},
        "power": power,
        "power_at_largest": share(largest) if largest else None,
        "select": {
            world: _select_share(own)
            for world in TRUTHS
            if (own := [row for row in largest if row["world"] == world and "recommended" in row])
        },
    }


def _select_share(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How often `prism select` recommends the true number, and how many labellings it vouches for are wrong."""
    right = [row["recommended"] == row["truth"] for row in rows]
    vouched = [row for row in rows if row["identified"]]
    wrong = [row for row in vouched if row["label_accuracy"] is None or row["label_accuracy"] < RIGHT]
    return {"right": sum(right), "of": len(rows), "vouched_for": len(vouched), "vouched_for_and_wrong": len(wrong)}


def share(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """How many of the data sets have evidence."""
    count, n = sum(bool(row["found"]) for row in rows), len(rows)
    interval = stats.binomtest(count, n).proportion_ci(0.95)
    return {"found": count, "of": n, "share": count / n, "low": float(interval.low), "high": float(interval.high)}


def notes(settings: Calibration, rows: Sequence[dict[str, Any]]) -> list[str]:
    """The outcome in words."""
    found = summary(rows)
    wrong, right = found["false_positives"], found["power_at_largest"]
    level = 1 / (1 + settings.surrogates)
    chance = float(stats.binom.sf(wrong["found"] - 1, wrong["of"], level)) if wrong["found"] else 1.0
    text = [
        f"Data without intentions is taken for data with them in {wrong['found']} of {wrong['of']} cases "
        f"({100 * wrong['share']:.1f}%, 95% interval {100 * wrong['low']:.1f} to {100 * wrong['high']:.1f}%; the level "
        f"is {100 * level:.0f}%, and as many or more would come by chance with probability {chance:.2f})."
    ]
    if right is not None:
        text.append(
            f"With intentions and {SIZES[-1]} trajectories they are found in {right['found']} of {right['of']} cases."
        )
        for world, found_here in found["select"].items():
            text.append(
                f"{world}: prism select recommends the true number of intentions in {found_here['right']} of "
                f"{found_here['of']} cases; it vouches for {found_here['vouched_for']} labellings, of which "
                f"{found_here['vouched_for_and_wrong']} are right at less than {100 * RIGHT:.0f}% of the steps."
            )
    return text


def _table(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One row per kind of data."""
    table = {}
    kinds = sorted({(row["truth"], row["world"], row["n_trajectories"]) for row in rows})
    for truth, world, n in kinds:
        own = [row for row in rows if (row["truth"], row["world"], row["n_trajectories"]) == (truth, world, n)]
        found = share(own)
        table[f"{world}-{n}"] = {
            "name": f"{world}, {n} trajectories" + ("" if truth > 1 else " (no intentions)"),
            "evidence_found": found["found"],
            "data_sets": found["of"],
            "gain_over_habit": float(np.mean([row["gain"] for row in own])),
            "seconds": float(np.mean([row["seconds"] for row in own])),
        }
    return table


def _draw(path: Path, result: dict[str, Any]) -> str:
    found = result["calibration"]
    figure, (ax,) = style.new_figure(width=4.2, height=2.6)
    drawing.power(ax, found["power"], found["false_positives"], level=1 / (1 + result["surrogates"]))
    style.save(figure, path)
    return (
        "How often evidence for intentions is found, against the size of the data: worlds with intentions as lines, "
        "data without any (all kinds and sizes together) as the band at the bottom; bars and band are 95% intervals."
    )


def command(folder: RunFolder, fits: FitsOptions, *, quick: bool) -> None:
    """`prism reproduce evidence`."""
    settings = Calibration.small() if quick else Calibration()

    def work(path: Path, report: Any) -> dict[str, Any]:
        return run(settings, path, jobs=fits.jobs, on_part=lambda done, total: report("data sets", done, total, ""))

    config = {"settings": asdict(settings)}
    folder.make(work, print_calibration, progress=lambda: counting("data sets"), config=config)


def print_calibration(metrics: dict[str, Any]) -> None:
    """Print how often evidence was found in data of every kind, and what that says about the test."""
    columns = {
        "data": ("name", 0),
        "evidence found": ("evidence_found", 0),
        "data sets": ("data_sets", 0),
        "gain over habit": ("gain_over_habit", 4),
        "seconds": ("seconds", 1),
    }
    print_table(metrics["title"], metrics["methods"].values(), columns)
    print_notes(metrics)
