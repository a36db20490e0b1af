"""`prism reproduce evidence`: false positives and power of the test for intentions, on simulated data of known truth.

Nulls are behaviour without intentions of every kind that we could think of: choices that repeat the last one, slow
traces of past choices, place habits that repeat their last action, habits of memory 1 to 6 over states, actions or
both, individual biases and slow drift. Worlds with intentions: the frustration gridworld, goals that end where they
are reached, the same over practised routes, and simulated mice. Every cell is one data set; finished ones are kept.

Seeds below 1,000 settled the rule; those from 1,000 on report it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from prism_irl import maze
from prism_irl.cli.options import FitsOptions
from prism_irl.cli.printing import print_notes, print_table
from prism_irl.cli.progress import counting
from prism_irl.cli.runs import RunFolder
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP
from prism_irl.scale import fanout
from prism_irl.studies import evidence, null, results
from prism_irl.studies.analysis import Analysis
from prism_irl.worlds import grid
from prism_irl.worlds.frustration import FrustrationWorld
from prism_irl.worlds.labyrinth import LabyrinthWorld
from worlds.habits import HabitWorld, _gaussian, _mixed

SIZES = (50, 100, 200)
STEPS = 60
FOLDS = 3
SURROGATES = 99
"""Of every data set at most."""
QUICK = 100
"""Data sets below which a run is a preview."""
Made = tuple[Demonstrations, MDP | None]


class Cell(NamedTuple):
    """One data set: family, size and seed; ``truth`` says whether there are intentions."""

    family: str
    n: int
    seed: int

    @property
    def truth(self) -> bool:
        """Whether there are intentions."""
        return self.family in POSITIVES

    @property
    def id(self) -> str:
        """Name of its file."""
        return f"{self.family}-n{self.n}-s{self.seed}"

    def make(self) -> Made:
        """Simulate it."""
        return (POSITIVES | NULLS)[self.family](self.n, self.seed)


# -- without intentions ------------------------------------------------------------------------------------------------


def choices(
    n: int, seed: int, *, rate: float = 1.0, weight: float = 1.2, spread: float = 0.0, drift: float = 0.0
) -> Made:
    """Choices between two, logistic in a cue, a trace of past choices (rate 1: the last), and an individual bias."""
    rng = np.random.default_rng(seed)
    cue, actions, trace = rng.integers(6, size=(n, STEPS)), np.zeros((n, STEPS), np.int64), np.zeros(n)
    bias = spread * rng.normal(size=8)[np.arange(n) % 8] + drift * np.linspace(-1, 1, n)
    for t in range(STEPS):
        logit = (cue[:, t] - 2.5) / 1.5 + bias + weight * trace
        actions[:, t] = rng.random(n) < 1 / (1 + np.exp(-logit))
        trace += rate * (2 * actions[:, t] - 1 - trace)
    return Demonstrations.from_arrays(cue, actions, n_states=6, n_actions=2), None


def habit(n: int, seed: int, *, memory: int, reads: str, repeat: float = 0.0) -> Made:
    """A habit on a 5 × 5 grid with slip, over its last states, actions or both, with a liking of the last action."""
    rng, mdp = np.random.default_rng(seed), MDP.from_dense(grid.slip(grid.moves(5)[0], 0.9), 0.97)
    P = mdp.transitions.toarray().reshape(mdp.n_states, mdp.n_actions, -1).cumsum(-1)
    A, state = mdp.n_actions, rng.integers(mdp.n_states, size=n)
    states, actions = np.zeros((2, n, STEPS), np.int64)
    for t in range(STEPS):
        past = [("s", 0)] + [(kind, age) for age in range(1, memory) for kind in ("a", "s") if reads in (kind, "both")]
        logits, code = np.zeros((n, A)), np.full((n, 1), seed, np.uint64)
        states[:, t] = state
        for level, (kind, age) in enumerate(past):
            if age > t:
                break
            symbol = (states if kind == "s" else actions)[:, t - age]
            code = _mixed(code, (symbol + 100 * level).astype(np.uint64)[:, None])
            logits += (1.0, 0.8, 0.6, 0.5, 0.4)[min(level, 4)] * _gaussian(_mixed(code, np.arange(A, dtype=np.uint64)))
        if t:
            logits += repeat * np.eye(A)[actions[:, t - 1]]
        p = np.exp(logits - logits.max(1, keepdims=True)).cumsum(1)
        actions[:, t] = (rng.random((n, 1)) * p[:, -1:] > p).sum(1)
        u = rng.random((n, 1))
        state = np.minimum((P[state, actions[:, t]] < u).sum(1), mdp.n_states - 1)
    return Demonstrations.from_arrays(states, actions, n_states=mdp.n_states, n_actions=A), mdp


def maze_habit(n: int, seed: int, **options: Any) -> Made:
    """A habit over states in the labyrinth."""
    world = HabitWorld(habit=seed, horizon=STEPS, **options)
    return world.simulate(n, seed=seed), world.mdp


NULLS: dict[str, Callable[[int, int], Made]] = {
    "sticky": choices,
    "kernels": lambda n, seed: choices(n, seed, rate=(0.3, 0.1, 0.05)[seed % 3], weight=3.0),
    "biases": lambda n, seed: choices(n, seed, weight=0.5, spread=0.8),
    "drift": lambda n, seed: choices(n, seed, weight=0.5, drift=0.8),
    "repeating-places": lambda n, seed: habit(n, seed, memory=1, reads="s", repeat=1.5),
    "states": lambda n, seed: habit(n, seed, memory=1 + seed % 6, reads="s"),
    "actions": lambda n, seed: habit(n, seed, memory=1 + seed % 6, reads="a"),
    "both": lambda n, seed: habit(n, seed, memory=2 + seed % 3, reads="both"),
    "maze": lambda n, seed: maze_habit(n, seed, memory=1 + seed % 5),
    "maze-individuals": lambda n, seed: maze_habit(n, seed, memory=1 + seed % 3, individuals=True),
    "maze-drift": lambda n, seed: maze_habit(n, seed, memory=2, drift=0.5),
}


# -- with intentions ---------------------------------------------------------------------------------------------------


def goals(n: int, seed: int, *, practised: bool = False) -> Made:
    """Ways between places of a 6 × 6 field with walls; the next goal is drawn where one is reached.

    Practised: of the shortest ways always the same one, from goal to goal, with few slips; else a Boltzmann choice.
    """
    rng, size = np.random.default_rng(seed), 6
    S, A = size * size, 4
    x, y = np.arange(S) % size, np.arange(S) // size
    follow = np.zeros((S, A), np.int64)
    for a, (dx, dy) in enumerate(((0, 1), (1, 0), (0, -1), (-1, 0))):
        u, v = np.clip(x + dx, 0, size - 1), np.clip(y + dy, 0, size - 1)
        follow[:, a] = v * size + u
    places = rng.choice(S, int(rng.integers(3, 6)), replace=False)
    far = np.full((len(places), S), 50.0)
    far[np.arange(len(places)), places] = 0.0
    for _ in range(2 * size):
        far = np.minimum(far, 1 + far[:, follow].min(-1))
    q = -far[:, follow]  # (G, S, A)
    taste = 0.5 * rng.random(q.shape) if practised else 0.0
    logits = (8.0 if practised else 2.0) * (q + taste)
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
    mdp = MDP.from_dense(np.eye(S)[follow], 0.97)
    return Demonstrations.from_arrays(states, actions, n_states=S, n_actions=A), mdp


POSITIVES: dict[str, Callable[[int, int], Made]] = {
    "frustration": lambda n, seed: (FrustrationWorld().simulate(n, seed=seed).demonstrations, None),
    "goals": goals,
    "practised": lambda n, seed: goals(n, seed, practised=True),
    "mice": lambda n, seed: (LabyrinthWorld(horizon=100).simulate(n, seed=seed).demonstrations, maze.maze_mdp()),
}


# -- the table ---------------------------------------------------------------------------------------------------------


def cells(first_seed: int, seeds: int, power_seeds: int) -> Iterator[Cell]:
    """Nulls at sizes in turn, worlds with intentions at the largest size and once at the smaller ones."""
    for seed in range(seeds):
        for number, family in enumerate(NULLS):
            yield Cell(family, SIZES[(number + seed) % 3], first_seed + seed)
        if seed < power_seeds:
            for family in POSITIVES:
                yield Cell(family, SIZES[-1], first_seed + seed)
                if seed == 0:
                    yield from (Cell(family, n, first_seed) for n in SIZES[:-1])


def run_cell(cell: Cell, surrogates: int) -> dict[str, Any]:
    """The joint verdict on one data set, and both questions."""
    demos, mdp = cell.make()
    clock = time.perf_counter()
    found = evidence.summary(null.run(demos, Analysis(folds=FOLDS), mdp=mdp, surrogates=surrogates))
    kept = ("found", "decided", "p_value", "g1", "g2", "agreement", "memory", "reads", "several_habits", "shrinkage")
    row = {"id": cell.id, "family": cell.family, "n": cell.n, "seed": cell.seed, "intentions": cell.truth}
    return row | {name: found[name] for name in kept} | {"seconds": time.perf_counter() - clock}


def run(
    wanted: Sequence[Cell],
    folder: Path,
    *,
    surrogates: int = SURROGATES,
    jobs: int = 1,
    on_part: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Make the cells that are not there yet, write metrics.json and cells.csv, and return the metrics."""
    cache = folder / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    tell = None if on_part is None else lambda done: on_part(done, len(wanted))
    rows = fanout.remembered(
        run_cell, wanted, (surrogates,), lambda cell: cache / f"{cell.id}-{surrogates}.json", jobs=jobs, on_rows=tell
    )
    found = summary(rows)
    result = {
        "title": "Is the test for intentions right?",
        "experiment": "calibration",
        "quick": len(wanted) < QUICK,
        "folds": FOLDS,
        "surrogates": surrogates,
        "calibration": found,
        "notes": notes(found),
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
    largest = [row for row in rows if row["intentions"] and row["n"] == SIZES[-1]]
    families = {
        name: share([row for row in rows if row["family"] == name and (name in NULLS or row["n"] == SIZES[-1])])
        for name in itertools.chain(NULLS, POSITIVES)
        if any(row["family"] == name for row in rows)
    }
    p = {
        name: float(stats.binomtest(own["found"], own["of"], 0.05, alternative="greater").pvalue)
        for name, own in families.items()
        if name in NULLS
    }
    adjusted = dict(zip(p, evidence.holm(list(p.values())), strict=True))
    return {
        "false_positives": share(without),
        "power_at_largest": share(largest) if largest else None,
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
    wrong, right = found["false_positives"], found["power_at_largest"]
    text = [
        f"Data without intentions is taken for data with them in {wrong['found']} of {wrong['of']} cases "
        f"({100 * wrong['share']:.1f}%, 95% interval {100 * wrong['low']:.1f} to {100 * wrong['high']:.1f}%; the level "
        "is 5%)."
    ]
    if right is not None:
        text.append(
            f"With intentions and {SIZES[-1]} trajectories they are found in {right['found']} of {right['of']}."
        )
    above = found["families_above_the_level"]
    text.append(f"Families above the level (exact binomial, Holm): {', '.join(above) or 'none'}.")
    return text


def command(folder: RunFolder, fits: FitsOptions, *, quick: bool) -> None:
    """`prism reproduce evidence`."""
    wanted = list(cells(1000, *((1, 1) if quick else (20, 10))))
    hours = sum(100 if cell.truth else 20 for cell in wanted) / 3600
    print(f"{len(wanted)} data sets, about {hours:.1f} hours of one core; finished ones are kept (--resume).")

    def work(path: Path, report: Any) -> dict[str, Any]:
        return run(wanted, path, jobs=fits.jobs, on_part=lambda done, total: report("data sets", done, total, ""))

    config = {"settings": {"seeds": sorted({cell.seed for cell in wanted}), "surrogates": SURROGATES}}
    folder.make(work, print_calibration, progress=lambda: counting("data sets"), config=config)


def print_calibration(metrics: dict[str, Any]) -> None:
    """Print how often evidence was found in data of every kind, and what that says about the test."""
    columns = {"data": ("name", 0), "evidence found": ("found", 0), "data sets": ("of", 0), "share": ("share", 2)}
    print_table(metrics["title"], metrics["methods"].values(), columns)
    print_notes(metrics)
