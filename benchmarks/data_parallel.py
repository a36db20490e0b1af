"""Data-parallel EM on this machine: two gloo ranks against one, each with one thread, in the same run.

    python benchmarks/data_parallel.py [--ranks 2] [--network rnn] [--trajectories 190] [--steps 500] [--iterations 20]

Both fit the same simulated table with the paper's gate (128 units, batches of 32, one start). The time is that of the
EM iterations alone, without starting Python; the models are compared before any number is printed. Runs take turns, and
the fastest of ``--repeats`` counts on either side, because other work on the machine can only slow a run down; ranks,
which wait for each other in every minibatch, are slowed by either core's.
"""

from __future__ import annotations

import argparse
import json
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


def fit(data: Path, out: Path, ranks: int, iterations: int, switching: str, network: str) -> float:
    """Seconds of the EM iterations."""
    launcher = f"-m torch.distributed.run --standalone --nproc-per-node {ranks}".split() if ranks > 1 else []
    options = MODEL.format(switching=switching, network=network, iterations=iterations).split()
    command = [sys.executable, *launcher, "-m", "prism_irl", "fit", str(data), *options, "--out", str(out)]
    done = subprocess.run(command, env=ENVIRONMENT, text=True, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(json.loads(done.stdout)["em"]["seconds"])


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
    """One row: several ranks against one, after a check that their models are equal."""
    with tempfile.TemporaryDirectory(prefix="prism-bench-") as name:
        folder = Path(name)
        FrustrationWorld(horizon=steps).simulate(trajectories, seed=0).demonstrations.save(folder / "data")
        best = {1: np.inf, ranks: np.inf}
        for repeat in range(repeats):
            for n in best:
                run = folder / f"run_{n}_{repeat}"
                best[n] = min(best[n], fit(folder / "data", run, n, iterations, switching, network))
        apart = difference(folder / "run_1_0", folder / f"run_{ranks}_0")
    if apart > 1e-5:
        raise SystemExit(f"The models differ by {apart:.1e}; a time would mean nothing.")
    model = f"{switching} switching" + ("" if switching == "markov" else f", {network.upper()}")
    work = f"{iterations} EM iterations, {trajectories * steps:,} steps, {model}, {ranks} gloo ranks"
    return [Row(work, "one rank with one thread", best[1], best[ranks], "1.5×")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("ranks", 2), ("trajectories", 190), ("steps", 500), ("iterations", 20), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--switching", default="independent", choices=("independent", "recurrent", "markov"))
    parser.add_argument("--network", default="rnn", choices=("rnn", "gru", "lstm"))
    for row in rows(**vars(parser.parse_args())):
        print(f"{row.work}: {row.seconds:.2f} s; {row.reference}: {row.reference_seconds:.2f} s; {row.ratio:.2f}×")


if __name__ == "__main__":
    main()
