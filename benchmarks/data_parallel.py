"""Data-parallel EM on this machine: two gloo ranks against one, each with one thread, in the same run.

    python benchmarks/data_parallel.py [--ranks 2] [--network rnn] [--trajectories 190] [--steps 500] [--iterations 20]

Both fit the same simulated table with the paper's gate (128 units, batches of 32, one start), in turns; the models are
compared before any number is printed. Times are those of single EM iterations, of which the first of a run, in which
compiled code is loaded, does not count. The fastest iteration stands for either side: other work on the machine can
only slow one down, and ranks, which wait for each other in every minibatch, are slowed by the slower core. In brackets
are the quartiles over turns of the ratio of median iterations, slow ones included. As many separate fits at the same
time, which wait for nobody, say what the cores could give at most; their reference is the one rank, as many times.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

from prism_irl.worlds.frustration import FrustrationWorld
from timing import Row

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
MODEL = (
    "--intentions 2 --switching {switching} --network {network} --n-starts 1 --starts random --patience 1000 "
    "--warm-up 0 --device cpu --json --max-iterations {iterations}"
)


SAME = 1e-4
"""Gradients are added up in another order and in single precision, and Adam carries the difference on."""


def begin(data: Path, out: Path, ranks: int, iterations: int, switching: str, network: str) -> subprocess.Popen[str]:
    """Start a fit."""
    launcher = f"-m torch.distributed.run --standalone --nproc-per-node {ranks}".split() if ranks > 1 else []
    options = MODEL.format(switching=switching, network=network, iterations=iterations).split()
    command = [sys.executable, *launcher, "-m", "prism_irl", "fit", str(data), *options, "--out", str(out)]
    return subprocess.Popen(command, env=ENVIRONMENT, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def seconds(run: subprocess.Popen[str], out: Path) -> np.ndarray:
    """Seconds of every EM iteration but the first, when the fit has ended."""
    _, errors = run.communicate()
    if run.returncode:
        raise SystemExit(errors)
    with (out / "history.csv").open(newline="") as file:
        since_start = [float(row["seconds"]) for row in csv.DictReader(file)]
    return np.diff(since_start)[1:]


def difference(one: Path, other: Path) -> float:
    """Largest difference between two saved models, relative to 1 + |value|."""
    first, second = (load_file(run / "model.safetensors") for run in (one, other))
    pairs = ((first[name].double(), second[name].double()) for name in first)
    return max(float(((a - b).abs() / (1 + a.abs())).max()) for a, b in pairs)


def rows(
    trajectories: int = 190,
    steps: int = 500,
    iterations: int = 20,
    *,
    ranks: int = 2,
    repeats: int = 5,
    switching: str = "independent",
    network: str = "rnn",
) -> list[Row]:
    """Several ranks against one, after a check that their models are equal; and what the cores could give at most."""
    alone, together, apart = (np.empty((repeats, iterations - 1)) for _ in range(3))
    options = (iterations, switching, network)
    with tempfile.TemporaryDirectory(prefix="prism-bench-") as name:
        folder = Path(name)
        data = folder / "data"
        FrustrationWorld(horizon=steps).simulate(trajectories, seed=0).demonstrations.save(data)
        for turn in range(repeats):
            one, all_ranks, *separate = (folder / f"{kind}_{turn}" for kind in ("one", "all", *map(str, range(ranks))))
            alone[turn] = seconds(begin(data, one, 1, *options), one)
            together[turn] = seconds(begin(data, all_ranks, ranks, *options), all_ranks)
            running = [begin(data, out, 1, *options) for out in separate]
            apart[turn] = np.mean([seconds(run, out) for run, out in zip(running, separate, strict=True)], 0)
        different = difference(folder / "one_0", folder / "all_0")
    if different > SAME:
        raise SystemExit(f"The models differ by {different:.1e}; a time would mean nothing.")
    model = f"{switching} switching" + ("" if switching == "markov" else f", {network.upper()}")
    work = f"an EM iteration over {trajectories * steps:,} steps, {model}"
    return [
        _row(f"{work}, {ranks} gloo ranks", "one rank with one thread", alone, together, "1.5×"),
        _row(f"{work}, of {ranks} separate fits at once", "one after the other", ranks * alone, apart),
    ]


def _row(work: str, reference: str, alone: np.ndarray, ours: np.ndarray, target: str = "") -> Row:
    low, high = (float(value) for value in np.quantile(np.median(alone, 1) / np.median(ours, 1), [0.25, 0.75]))
    return Row(work, reference, float(alone.min()), float(ours.min()), target, (low, high))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("ranks", 2), ("trajectories", 190), ("steps", 500), ("iterations", 20), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--switching", default="independent", choices=("independent", "recurrent", "markov"))
    parser.add_argument("--network", default="rnn", choices=("rnn", "gru", "lstm"))
    for row in rows(**vars(parser.parse_args())):
        print(f"{row.work}: {row.seconds:.3f} s; {row.reference}: {row.reference_seconds:.3f} s; {row}")


if __name__ == "__main__":
    main()
