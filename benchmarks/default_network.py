"""Which network should recurrent switching have by default? Candidates by validation likelihood on simulated worlds.

    python benchmarks/default_network.py [--seeds 8] [--jobs 16] [--seconds 330] [--out default_network.json]

An RNN with 128 units (the default so far) against a GRU with 32, each at two learning rates, all else as by default.
Every seed is another simulation; a fit sees four fifths of its trajectories, stops and chooses its start on a tenth of
those, and is compared by the predictive likelihood of the last fifth. These simulations share no trajectory with the
ones that experiments report, and labels decide nothing: their accuracy is written down beside.

Fits run in processes of one thread each and none begins after ``--seconds``; a seed counts where all candidates have
finished it. Packages that only reading and writing files needs may be absent.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"  # before anything reads them


class Absent(types.ModuleType):
    """A package that is not installed and that nothing here calls: any name in it is an empty class."""

    __path__: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {})


FILES = {"pandas": ("pandas",), "safetensors": ("safetensors", "safetensors.torch")}
for package in [name for name in FILES if importlib.util.find_spec(name) is None]:
    sys.modules |= {module: Absent(module) for module in FILES[package]}

import numpy as np  # noqa: E402

from prism_irl.devices import limit_threads  # noqa: E402
from prism_irl.evaluation.metrics import evaluate  # noqa: E402
from prism_irl.models.intentions import Intentions  # noqa: E402
from prism_irl.worlds.frustration import FrustrationWorld  # noqa: E402

sys.path.append(str(Path(__file__).parents[1] / "reproduce"))
from worlds.labyrinth import LabyrinthWorld  # noqa: E402

OTHER_GRID = FrustrationWorld(beta=3.0, barriers=((1, 1), (2, 3), (3, 2)))
WORLDS: dict[str, tuple[Any, int, int]] = {
    "labyrinth": (LabyrinthWorld(), 3, 120),
    "gridworld": (FrustrationWorld(), 2, 512),
    "gridworld, softer experts and other barriers": (OTHER_GRID, 2, 512),
}
"""Name → world, its number of intentions, and trajectories to simulate."""

NETWORKS: dict[str, dict[str, Any]] = {
    "rnn-128": {"network": "rnn", "embedding": 128, "hidden": 128},
    "gru-32": {"network": "gru", "embedding": 32, "hidden": 32},
}
RATES = (1e-3, 3e-3)
CANDIDATES = {f"{name} {rate:g}": {**size, "learning_rate": rate} for name, size in NETWORKS.items() for rate in RATES}
PRESENT = "rnn-128 0.001"
FIRST_SEED = 500  # far from the seeds of simulations that are reported


class Task(NamedTuple):
    """One fit."""

    seed: int
    world: str
    candidate: str


def fit(task: Task, deadline: float) -> dict[str, Any] | None:
    """Simulate, fit, and score the fifth that was kept apart; None where there is no time left to begin."""
    if time.time() > deadline:
        return None
    limit_threads(1)
    world, K, n = WORLDS[task.world]
    demos = world.simulate(n, seed=FIRST_SEED + task.seed).demonstrations
    train, validation = (demos.subset(part) for part in demos.split_indices(0.8, seed=task.seed))
    clock = time.perf_counter()
    model = Intentions(K, **CANDIDATES[task.candidate], device="cpu", seed=task.seed).fit(train)
    seconds = time.perf_counter() - clock
    found = evaluate(model, validation)
    return {
        **task._asdict(),
        "validation_ll": found["predictive_ll"],
        "oracle_ll": float(world.oracle(validation).log_likelihood.mean()),
        "stopping_ll": max(float(start["score"]) for start in model.starts_),
        "seconds": seconds,
        "iterations": sum(int(start["iterations"]) for start in model.starts_),
        "label_accuracy": found["label_accuracy"],
    }


def run(tasks: list[Task], jobs: int, deadline: float) -> Iterator[dict[str, Any]]:
    """Yield the results of the fits as they finish."""
    # Forked, so that the stand-ins for absent packages are there as well; nothing has used a thread so far.
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        waiting = [pool.apply_async(fit, (task, deadline)) for task in tasks]
        for result in waiting:
            found = result.get()
            if found is not None:
                yield found


def differences(rows: list[dict[str, Any]], candidate: str, number: str) -> dict[str, np.ndarray]:
    """Per world, candidate minus present default for every seed that has all candidates."""
    known = {(row["world"], row["seed"], row["candidate"]): row[number] for row in rows}
    found: dict[str, list[float]] = {}
    for world, seed in sorted({key[:2] for key in known}):
        if all((world, seed, name) in known for name in CANDIDATES):
            found.setdefault(world, []).append(known[world, seed, candidate] - known[world, seed, PRESENT])
    return {world: np.array(values) for world, values in found.items()}


def mean_and_error(values: np.ndarray) -> str:
    error = f"{values.std(ddof=1) / np.sqrt(len(values)):.5f}" if len(values) > 1 else "?"
    return f"{values.mean():+.5f} ± {error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=330)
    parser.add_argument("--out", type=Path, default=Path("default_network.json"))
    arguments = parser.parse_args()
    tasks = [Task(seed, world, name) for seed in range(arguments.seeds) for world in WORLDS for name in CANDIDATES]
    rows: list[dict[str, Any]] = []
    for row in run(tasks, arguments.jobs, time.time() + arguments.seconds):
        rows.append(row)
        print(f"{row['world']}, seed {row['seed']}, {row['candidate']}: {row['validation_ll']:.5f}", flush=True)
        result = {"present": PRESENT, "candidates": CANDIDATES, "runs": rows}
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"\nValidation likelihood per step, minus that of {PRESENT} (± standard error over seeds)")
    for candidate in CANDIDATES:
        found = differences(rows, candidate, "validation_ll")
        accuracy = differences(rows, candidate, "label_accuracy")
        seconds = [row["seconds"] for row in rows if row["candidate"] == candidate]
        print(f"\n{candidate}: {np.mean(seconds) if seconds else np.nan:.1f} s per fit")
        for world, values in found.items():
            beside = f"label accuracy {mean_and_error(accuracy[world])}, not used"
            print(f"  {world}, {len(values)} seeds: {mean_and_error(values)}  ({beside})")
        if found:
            print(f"  all: {mean_and_error(np.concatenate(list(found.values())))}")


if __name__ == "__main__":
    main()
