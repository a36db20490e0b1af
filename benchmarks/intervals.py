"""A bootstrap of a Markov chain on the labyrinth: refits at once on a GPU, or side by side, against one by one.

    python benchmarks/intervals.py [--resamples 200] [--alone 20] [--jobs 2] [--out runs/intervals]

Data are the real labyrinth where `PRISM_DATA` has it, else simulated mice of the same size. ``alone`` resamples are
refitted one after the other in the same run; their time per resample is the reference of the ratio.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.datasets.labyrinth import load_with_animals
from prism_irl.errors import InputError
from prism_irl.models.hiql import HIQL
from prism_irl.studies import intervals
from prism_irl.worlds.labyrinth import LabyrinthWorld
from timing import machine


def data() -> tuple[Demonstrations, str]:
    """The mice, or simulated ones."""
    try:
        return load_with_animals(), "labyrinth"
    except InputError:
        return LabyrinthWorld().simulate(238, 500).demonstrations, "simulated labyrinth"


def main() -> None:
    """Print and keep one row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resamples", type=int, default=200)
    parser.add_argument("--alone", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/intervals"))
    options = parser.parse_args()
    demos, name = data()
    model = HIQL(3, n_starts=2, seed=0).fit(demos)
    labels = model.predict(demos)
    intervals.one_draw(model, demos, labels, 1, 0)  # compiles
    clock = time.perf_counter()
    reference = [intervals.one_draw(model, demos, labels, 0, i) for i in range(options.alone)]
    alone = (time.perf_counter() - clock) / options.alone
    if torch.cuda.is_available():
        intervals.bootstrap(model, demos, 2, seed=1)  # compiles
    clock = time.perf_counter()
    draws = intervals.bootstrap(model, demos, options.resamples, jobs=options.jobs)
    together = time.perf_counter() - clock
    apart = max(float(np.abs(draws["dwell"][i] / draw["dwell"] - 1).max()) for i, draw in enumerate(reference))
    found = {
        "data": name,
        "n_steps": demos.n_steps,
        "resamples": options.resamples,
        "how": "stacked on a GPU" if torch.cuda.is_available() else f"{options.jobs} side by side",
        "seconds": together,
        "seconds_one_after_the_other": alone * options.resamples,
        "ratio": alone * options.resamples / together,
        "largest_relative_difference_of_dwell": apart,
        "machine": machine(),
    }
    print(json.dumps(found, indent=1))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "metrics.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
