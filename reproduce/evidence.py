"""`prism reproduce evidence`: false positives and power of the test for intentions, on simulated data of known truth.

Worlds are those of the zoo (`zoo.worlds`), whose generator knows no model of ours, and some that it has not: choices
that are logistic in a cue and the last choice, win-stay–lose-shift, habits of the labyrinth, simulated mice,
frustration, and ways that are always the same one. Every cell is one data set; finished ones are kept.

Seeds below 1,000 settled the rule; those from 1,000 on report it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from prism_irl.cli.options import FitsOptions
from prism_irl.cli.printing import print_notes, print_table
from prism_irl.cli.progress import counting
from prism_irl.cli.runs import RunFolder
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.scale import fanout
from prism_irl.studies import evidence, null, results
from prism_irl.studies.gains import Analysis
from prism_irl.worlds.frustration import FrustrationWorld
from worlds.habits import HabitWorld
from worlds.labyrinth import LabyrinthWorld
from zoo import worlds

SIZES = {50: 40, 100: 80, 200: 160}
"""Trajectories, and how many of them are for training in the worlds of the zoo that have so many."""
STEPS = 60
FIRST_SEED = 1000
NULLS_EACH, LARGEST_EACH, PRACTISED, OTHERS_EACH = 6, 4, 12, 2
"""Data sets of a family: without intentions of each size; with them at the largest size, of practised routes there, and
at the other sizes."""
FOLDS = 3
SURROGATES = 99
"""Of every data set at most."""
LARGE = 200
SECONDS = {False: 40.0, True: 50.0}
"""Of one core that a data set of the largest size takes, roughly: without intentions, and with them."""
POWER = 0.9  # share of data sets with intentions in which a good test finds them
QUICK = 100
"""Data sets below which a run is a preview."""
DIRECTIONS = ((0, 1), (1, 0), (0, -1), (-1, 0))
Make = Callable[[int, int], Demonstrations]


class Cell(NamedTuple):
    """One data set: its family, trajectories, and number; ``truth`` says whether there are intentions."""

    family: str
    n: int
    number: int

    @property
    def truth(self) -> bool:
        """Whether there are intentions."""
        return self.family in POSITIVES

    @property
    def id(self) -> str:
        """Name of its file."""
        return f"{self.family}-n{self.n}-{self.number}"

    def make(self) -> Demonstrations:
        """Simulate it."""
        return (POSITIVES | NULLS)[self.family](self.n, self.number)


def from_zoo(family: str, n: int, number: int) -> Demonstrations:
    """World ``number`` of a family among those of this size, all its trajectories; its dynamics are not told."""
    drawn = (worlds.draw(seed, family) for seed in itertools.count(FIRST_SEED))
    world = next(itertools.islice((world for world in drawn if len(world.train) == SIZES[n]), number, None))
    both = world.train, world.test
    states, actions = (
        [getattr(demos, name)[a:b] for demos in both for a, b in itertools.pairwise(demos.offsets)][:n]
        for name in ("states", "actions")
    )
    groups = [name for demos in both for name in demos.units("group")][:n]
    shape: dict[str, Any] = {
        "n_states": world.train.n_states,
        "n_actions": world.train.n_actions,
        "places": world.train.places,
    }
    return Demonstrations.from_arrays(states, actions, groups=groups, **shape)


# -- without intentions ------------------------------------------------------------------------------------------------


def choices(n: int, seed: int, *, weight: float = 1.2) -> Demonstrations:
    """Choices between two, logistic in a cue and the last choice."""
    rng = np.random.default_rng(seed)
    cue, actions = rng.integers(6, size=(n, STEPS)), np.zeros((n, STEPS), np.int64)
    last: Any = np.zeros(n)
    for t in range(STEPS):
        actions[:, t] = rng.random(n) < 1 / (1 + np.exp(-(cue[:, t] - 2.5) / 1.5 - weight * last))
        last = 2 * actions[:, t] - 1
    return Demonstrations.from_arrays(cue, actions, n_states=6, n_actions=2)


def win_stay(n: int, seed: int) -> Demonstrations:
    """A two-armed bandit with blocks; what won is repeated, and what lost is left, mostly. The state is the outcome."""
    rng = np.random.default_rng(seed)
    won, actions = np.zeros((2, n, STEPS), np.int64)
    stay, shift, good, choice = 0.9, 0.6, rng.integers(2, size=n), rng.integers(2, size=n)
    for t in range(STEPS):
        if t:
            won[:, t] = rng.random(n) < np.where(choice == good, 0.8, 0.2)
            other = rng.random(n) < np.where(won[:, t] == 1, 1 - stay, shift)
            choice = np.where(other, 1 - choice, choice)
        actions[:, t] = choice
        good = np.where(rng.random(n) < 1 / 20, 1 - good, good)
    return Demonstrations.from_arrays(won, actions, n_states=2, n_actions=2)


def repeating(n: int, seed: int, *, size: int = 6, animals: int = 8) -> Demonstrations:
    """A habit of places in a field that repeats its last action, with a bias of every animal towards some actions."""
    rng, S = np.random.default_rng(seed), size * size
    follow = moves(size)
    habit, bias = rng.normal(size=(S, 4)), 0.7 * rng.normal(size=(animals, 4))
    states, actions = np.zeros((2, n, STEPS), np.int64)
    now, who, last = rng.integers(S, size=n), np.arange(n) % animals, np.zeros((n, 4))
    for t in range(STEPS):
        p = np.exp(habit[now] + bias[who] + 1.5 * last)
        chosen = (rng.random((n, 1)) > (p / p.sum(1, keepdims=True)).cumsum(1)).sum(1).clip(0, 3)
        states[:, t], actions[:, t], last = now, chosen, np.eye(4)[chosen]
        now = follow[now, chosen]
    return Demonstrations.from_arrays(states, actions, n_states=S, n_actions=4, groups=who)


def moves(size: int) -> npt.NDArray[np.int64]:
    """Where one gets from every cell of a field by four actions, (S, 4)."""
    x, y = np.arange(size * size) % size, np.arange(size * size) // size
    ways = [np.clip(x + dx, 0, size - 1) + size * np.clip(y + dy, 0, size - 1) for dx, dy in DIRECTIONS]
    return np.stack(ways, axis=1)


def maze_habit(n: int, seed: int) -> Demonstrations:
    """A habit over states in the labyrinth, every third with individuals, every third with drift."""
    world = HabitWorld(habit=seed, horizon=STEPS, memory=1 + seed % 5, individuals=seed % 3 == 1, drift=seed % 3 / 4)
    return world.simulate(n, seed=seed)


NULLS: dict[str, Make] = {
    "logistic choices": lambda n, number: choices(n, FIRST_SEED + number),
    "win-stay": lambda n, number: win_stay(n, FIRST_SEED + number),
    "repeating places": lambda n, number: repeating(n, FIRST_SEED + number),
    "labyrinth habit": lambda n, number: maze_habit(n, FIRST_SEED + number),
    **{family: partial(from_zoo, family) for family in worlds.NULLS},
}


# -- with intentions ---------------------------------------------------------------------------------------------------


def practised(n: int, seed: int) -> Demonstrations:
    """Ways between places of a 6 × 6 field, the next goal drawn on arrival; of short ways always the same one."""
    rng, size = np.random.default_rng(seed), 6
    S, A = size * size, 4
    follow = moves(size)
    places = rng.choice(S, int(rng.integers(3, 6)), replace=False)
    far = np.full((len(places), S), 50.0)
    far[np.arange(len(places)), places] = 0.0
    for _ in range(2 * size):
        far = np.minimum(far, 1 + far[:, follow].min(-1))
    q = -far[:, follow]  # (G, S, A)
    logits = 8.0 * (q + 0.5 * rng.random(q.shape))
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p = 0.97 * p / p.sum(-1, keepdims=True) + 0.03 / A
    states, actions = np.zeros((2, n, STEPS), np.int64)
    now, aim = places[rng.integers(len(places), size=n)], rng.integers(len(places), size=n)
    for t in range(STEPS):
        arrived = now == places[aim]
        aim = np.where(arrived, (aim + rng.integers(1, len(places), size=n)) % len(places), aim)
        chosen = (rng.random((n, 1)) > p[aim, now].cumsum(1)).sum(1).clip(0, A - 1)
        states[:, t], actions[:, t] = now, chosen
        now = follow[now, chosen]
    return Demonstrations.from_arrays(states, actions, n_states=S, n_actions=A)


POSITIVES: dict[str, Make] = {
    "practised routes": lambda n, number: practised(n, FIRST_SEED + number),
    "frustration": lambda n, number: FrustrationWorld().simulate(n, seed=FIRST_SEED + number).demonstrations,
    "simulated mice": lambda n, number: (
        LabyrinthWorld(horizon=100).simulate(n, seed=FIRST_SEED + number).demonstrations
    ),
    **{
        family: partial(from_zoo, family)
        for family in worlds.FAMILIES
        if family not in (*worlds.NULLS, *worlds.CONTINUOUS)
    },
}


# -- the table ---------------------------------------------------------------------------------------------------------


def cells(*, quick: bool) -> Iterator[Cell]:
    """All data sets, or one of every family: first those with number 0."""
    for number in range(1 if quick else max(NULLS_EACH, PRACTISED)):
        for i, n in enumerate(SIZES):
            if number < NULLS_EACH:
                yield from (Cell(family, n, number) for j, family in enumerate(NULLS) if not quick or i == j % 3)
            for j, family in enumerate(POSITIVES):
                most = (PRACTISED if family == "practised routes" else LARGEST_EACH) if n == LARGE else OTHERS_EACH
                if number < most and (not quick or i == j % 3):
                    yield Cell(family, n, number)


def run_cell(cell: Cell, surrogates: int) -> dict[str, Any]:
    """The joint verdict on one data set, and both questions."""
    clock = time.process_time()
    demos = cell.make()
    found = evidence.summary(null.run(demos, Analysis(folds=FOLDS), surrogates=surrogates, others=0, quick=True))
    kept = ("found", "decided", "p_value", "g1", "g2", "agreement", "memory", "reads", "several_habits", "shrinkage")
    row = {"id": cell.id, "family": cell.family, "n": cell.n, "seed": cell.number, "intentions": cell.truth}
    row |= {"steps": demos.n_steps}
    return row | {name: found[name] for name in kept} | {"seconds": time.process_time() - clock}


def make(
    wanted: Sequence[Cell],
    cache: Path,
    *,
    surrogates: int = SURROGATES,
    jobs: int = 1,
    on_part: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Rows of these cells, each kept in a file of its own: any of them can be made elsewhere, in any order."""
    cache.mkdir(parents=True, exist_ok=True)
    tell = None if on_part is None else lambda done: on_part(done, len(wanted))
    return fanout.remembered(
        run_cell, wanted, (surrogates,), lambda cell: cache / f"{cell.id}-{surrogates}.json", jobs=jobs, on_rows=tell
    )


def run(
    wanted: Sequence[Cell],
    folder: Path,
    *,
    surrogates: int = SURROGATES,
    jobs: int = 1,
    on_part: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Make the cells that are not there yet, write metrics.json and cells.csv, and return the metrics."""
    rows = make(wanted, folder / "cache", surrogates=surrogates, jobs=jobs, on_part=on_part)
    found = summary(rows)
    result = {
        "title": "Is the test for intentions right?",
        "experiment": "calibration",
        "quick": len(wanted) < QUICK,
        "folds": FOLDS,
        "surrogates": surrogates,
        "calibration": found,
        "table_title": "Kinds of data",
        **judged(found, surrogates),
        "methods": {name: {"name": name, **own} for name, own in found["families"].items()},
    }
    flat = [
        {name: row[name] for name in ("id", "family", "n", "seed", "intentions", "found", "p_value")} for row in rows
    ]
    results.write_results(folder, result, flat)
    return result


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """False positives and power, each with its exact 95% interval, by family and in all."""
    without = [row for row in rows if not row["intentions"]]
    power = {
        str(n): share(own)
        for n in SIZES
        if (own := [row for row in rows if row["intentions"] and row["n"] == n and row["seed"] < LARGEST_EACH])
    }
    counted = {name: [row for row in rows if row["family"] == name] for name in itertools.chain(NULLS, POSITIVES)}
    counted |= {name: [row for row in counted[name] if row["n"] == LARGE] for name in POSITIVES}
    families = {name: share(own) for name, own in counted.items() if own}
    p = {
        name: float(stats.binomtest(own["found"], own["of"], 0.05, alternative="greater").pvalue)
        for name, own in families.items()
        if name in NULLS
    }
    adjusted = dict(zip(p, evidence.holm(list(p.values())), strict=True))
    return {
        "false_positives": share(without),
        "power": power,
        "families": families,
        "families_above_the_level": [name for name, value in adjusted.items() if value <= 0.05],
        "cpu_hours": sum(row["seconds"] for row in rows) / 3600,
    }


def share(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many of the data sets have evidence."""
    count, n = sum(bool(row["found"]) for row in rows), len(rows)
    interval = stats.binomtest(count, n).proportion_ci(0.95)
    return {"found": count, "of": n, "share": count / n, "low": float(interval.low), "high": float(interval.high)}


def notes(found: dict[str, Any]) -> list[str]:
    """The outcome in words."""
    wrong = found["false_positives"]
    text = [
        f"Data without intentions is taken for data with them in {wrong['found']} of {wrong['of']} cases "
        f"({100 * wrong['share']:.1f}%, 95% interval {100 * wrong['low']:.1f} to {100 * wrong['high']:.1f}%; the level "
        "is 5%)."
    ]
    told = [f"{own['found']} of {own['of']} of {n} trajectories" for n, own in found["power"].items()]
    if told:
        text.append(f"Intentions are found in {', '.join(told[:-1])}{' and ' if told[1:] else ''}{told[-1]}.")
    if "practised routes" in found["families"]:
        own = found["families"]["practised routes"]
        text.append(f"Over practised routes they are found in {own['found']} of {own['of']} of {LARGE} trajectories.")
    above = found["families_above_the_level"]
    text.append(f"Families above the level (exact binomial, Holm): {', '.join(above) or 'none'}.")
    return text


def judged(found: dict[str, Any], surrogates: int) -> dict[str, Any]:
    """What the page says first: are false positives within the error of the level, and is the power good."""
    first, *rest = notes(found)
    right = found["false_positives"]["low"] <= 1 / (1 + surrogates)
    said = [{"level": "good" if right else "bad", "text": first}]
    if found["power"]:
        good = list(found["power"].values())[-1]["share"] >= POWER
        said.append({"level": "good" if good else "warning", "text": rest.pop(0)})
    words = f"{'No more' if right else 'More'} false positives than the level of the test allows for."
    return {"findings": said, "summary": words, "notes": rest}


def command(folder: RunFolder, fits: FitsOptions, *, quick: bool) -> None:
    """`prism reproduce evidence`."""
    wanted = list(cells(quick=quick))
    hours = sum(SECONDS[cell.truth] * cell.n / LARGE for cell in wanted) / 3600
    print(f"{len(wanted)} data sets, about {hours:.1f} hours of one core; finished ones are kept (--resume).")

    def work(path: Path, report: Any) -> dict[str, Any]:
        return run(wanted, path, jobs=fits.jobs, on_part=lambda done, total: report("data sets", done, total, ""))

    config = {"settings": {"data_sets": len(wanted), "first_seed": FIRST_SEED, "surrogates": SURROGATES}}
    folder.make(work, print_calibration, progress=lambda: counting("data sets"), config=config)


def print_calibration(metrics: dict[str, Any]) -> None:
    """Print how often evidence was found in data of every kind, and what that says about the test."""
    columns = {"data": ("name", 0), "evidence found": ("found", 0), "data sets": ("of", 0), "share": ("share", 2)}
    print_table(metrics["title"], metrics["methods"].values(), columns)
    for finding in metrics["findings"]:
        print(finding["text"])
    print_notes(metrics)
