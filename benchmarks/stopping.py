"""When should exact EM stop, and which of its starts should it keep? Rules on simulated worlds and on the mice.

    python benchmarks/stopping.py [--half settle|report] [--seeds 0-19] [--worlds NAME …] [--jobs 2] [--out FOLDER]

Rules differ in what stops a start, validation trajectories or the convergence of the training objective; in what the
best start is chosen by; and in whether EM goes on with all trajectories in the end. Every seed is another simulation,
and on the mice another fifth of the windows is left out. A fit is judged by the predictive likelihood of trajectories
that it has not seen at all; label accuracy on these is written down beside. The rule was settled on even seeds and is
reported on odd ones.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before anything reads them

import numpy as np  # noqa: E402

from prism_irl import em  # noqa: E402
from prism_irl.data.demonstrations import Demonstrations  # noqa: E402
from prism_irl.datasets.labyrinth import load_labyrinth  # noqa: E402
from prism_irl.evaluation.metrics import evaluate  # noqa: E402
from prism_irl.models.presets import HIQL  # noqa: E402
from prism_irl.scale import fanout  # noqa: E402
from prism_irl.worlds.frustration import FrustrationWorld  # noqa: E402
from timing import machine, write  # noqa: E402

sys.path.append(str(Path(__file__).parents[1] / "reproduce"))
from worlds.labyrinth import LabyrinthWorld  # noqa: E402

PRESENT = "validation"
"""The rule that the others are compared with: stop and choose by validation likelihood."""
UNSEEN = 100
"""Trajectories of a simulation that no fit sees."""


class ByValidation(HIQL):
    """Stops by the training objective, and chooses its start by validation likelihood."""

    def _finish(self, starts: list[em.Start], *data: Any) -> None:
        for start in starts:
            for row in start.monitor.rows:
                row["monitored"] = row["validation"]
        super()._finish(starts, *data)


class GoingOn(HIQL):
    """Goes on with all trajectories, from the parameters of the start that was chosen."""

    def _finish(self, starts: list[em.Start], train: Any, validation: Any, demos: Demonstrations) -> None:
        best = max(starts, key=lambda start: start.score)
        everything = self._prepare(demos)
        more = em.Start(best.index, best.switching, best.rewards, em.Monitor(em.Stopping(self.max_iterations, 10)))
        em.fit_start(more, everything, None, seed=self.seed)
        super()._finish(starts, train, validation, demos)


class Rule(NamedTuple):
    """A model and its options."""

    model: type[HIQL]
    options: dict[str, Any]


RULES = {
    PRESENT: Rule(HIQL, {"stop_by": "validation"}),
    "training, start by validation": Rule(ByValidation, {"stop_by": "training"}),
    "training": Rule(HIQL, {"stop_by": "training"}),
    "validation, then all data": Rule(GoingOn, {"stop_by": "validation"}),
    "training, then all data": Rule(GoingOn, {"stop_by": "training"}),
    "no validation part": Rule(HIQL, {"validation_fraction": 0.0}),
}


def line(n_trajectories: int, horizon: int, seed: int, *, stay: float = 0.95, follow: float = 0.9) -> Demonstrations:
    """Walks on a line of five places by an agent that wants to be at either end, and changes its mind now and then."""
    rng = np.random.default_rng(seed)
    states, actions, intentions = np.zeros((3, n_trajectories, horizon), np.int64)
    place, wanted = rng.integers(5, size=n_trajectories), rng.integers(2, size=n_trajectories)
    for t in range(horizon):
        step = np.where(rng.random(n_trajectories) < follow, wanted, 1 - wanted)
        states[:, t], actions[:, t], intentions[:, t] = place, step, wanted
        place = np.clip(place + 2 * step - 1, 0, 4)
        wanted = np.where(rng.random(n_trajectories) < stay, wanted, 1 - wanted)
    return Demonstrations.from_arrays(states, actions, labels=intentions, n_states=5, n_actions=2)


class World(NamedTuple):
    """What is simulated, ``simulate(n, seed)``, or the mice where there is nothing to simulate."""

    n_intentions: int
    n_trajectories: int
    simulate: Any
    history: int | str = 1


def _grid(n: int, seed: int) -> Demonstrations:
    return FrustrationWorld().simulate(n, seed=seed).demonstrations


def _maze(n: int, seed: int) -> Demonstrations:
    return LabyrinthWorld().simulate(n, 500, seed=seed).demonstrations


WORLDS: dict[str, World] = {
    "line, 30 × 30": World(2, 30, lambda n, seed: line(n, 30, seed)),
    "line, 60 × 50": World(2, 60, lambda n, seed: line(n, 50, seed)),
    "gridworld, 50": World(2, 50, _grid),
    "gridworld, 200": World(2, 200, _grid),
    "simulated mice, 25": World(3, 25, _maze),
    "simulated mice, 100": World(3, 100, _maze),
    "mice": World(3, 0, None),
    "mice, K=2": World(2, 0, None),
    "mice, memory 2": World(3, 0, None, 2),
    "mice, memory 4": World(3, 0, None, 4),
}
"""With a memory no half is exact, and the rule of exact EM does not apply: they show why."""


def data(world: World, seed: int) -> tuple[Demonstrations, Demonstrations]:
    """What is fitted, and what only judges."""
    if world.simulate is None:
        demos = load_labyrinth()
        parts = np.random.default_rng(0).permutation(len(demos)) % 5
        return demos.subset(np.flatnonzero(parts != seed % 5)), demos.subset(np.flatnonzero(parts == seed % 5))
    both = world.simulate(world.n_trajectories + UNSEEN, 10_000 + seed)
    order = np.arange(len(both))
    return both.subset(order[: world.n_trajectories]), both.subset(order[world.n_trajectories :])


def fit(task: tuple[str, int, str]) -> dict[str, Any]:
    name, seed, rule = task
    world, (kind, options) = WORLDS[name], RULES[rule]
    train, unseen = data(world, seed)
    clock = time.perf_counter()
    backoff = {1: 5.0, 2: 5.0, 4: 32.0}[int(world.history)]
    model = kind(world.n_intentions, history=world.history, backoff=backoff, seed=seed, **options).fit(train)
    seconds = time.perf_counter() - clock
    found = evaluate(model, unseen)
    return {
        "world": name,
        "rule": rule,
        "seed": seed,
        "unseen_ll": found["predictive_ll"],
        "label_accuracy": found.get("label_accuracy"),
        "iterations": model.n_iterations_,
        "agreement": model.agreement_,
        "seconds": seconds,
    }


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """One line per world and rule: means over seeds, and differences from the present rule."""
    lines = []
    for world in dict.fromkeys(row["world"] for row in rows):
        lines.append(f"  {world}")
        own = [row for row in rows if row["world"] == world]
        before = {row["seed"]: row for row in own if row["rule"] == PRESENT}
        for rule in RULES:
            mine = [row for row in own if row["rule"] == rule and row["seed"] in before]
            if mine:
                lines.append(f"    {rule:<29} {_numbers(mine, before)}")
    return lines


def _numbers(rows: list[dict[str, Any]], before: dict[int, dict[str, Any]]) -> str:
    def difference(key: str) -> str:
        if rows[0][key] is None:
            return ""
        values = np.array([row[key] - before[row["seed"]][key] for row in rows])
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        mean = np.mean([row[key] for row in rows])
        return f"{key} {mean:.4f} ({values.mean():+.4f} ± {error:.4f})  "

    iterations, seconds = (np.median([row[key] for row in rows]) for key in ("iterations", "seconds"))
    return difference("unseen_ll") + difference("label_accuracy") + f"kept iteration {iterations:.0f}, {seconds:.2f} s"


def _range(text: str) -> range:
    first, last = text.split("-")
    return range(int(first), int(last) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=("settle", "report"), default="report")
    parser.add_argument("--seeds", type=_range, default=range(20))
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=list(WORLDS))
    parser.add_argument("--rules", nargs="+", default=list(RULES), choices=list(RULES))
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--out", type=Path, default=Path("runs/stopping"))
    arguments = parser.parse_args()
    title, clock = machine(), time.perf_counter()
    seeds = [seed for seed in arguments.seeds if seed % 2 == (arguments.half == "report")]
    tasks = [
        (name, seed, rule)
        for name in arguments.worlds
        for seed in seeds
        if WORLDS[name].simulate is not None or seed < 5  # the mice have five parts
        for rule in arguments.rules
    ]
    command = f"python benchmarks/stopping.py --half {arguments.half} --rules {' '.join(arguments.rules)}"
    made: dict[int, dict[str, Any]] = {}
    for index, row in fanout.spread(fit, tasks, (), jobs=arguments.jobs):
        made[index] = row
        write(arguments.out, command, title, time.perf_counter() - clock, rows=[made[i] for i in sorted(made)])
    print(*summary([made[i] for i in sorted(made)]), sep="\n")


if __name__ == "__main__":
    main()
