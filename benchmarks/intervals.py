"""A bootstrap of a Markov chain on the labyrinth: refits side by side, against one by one.

    python benchmarks/intervals.py [--resamples 200] [--alone 20] [--jobs 2] [--out runs/intervals]

Data are the real labyrinth where `PRISM_DATA` has it, else simulated mice of the same size. ``alone`` resamples are
refitted one after the other in the same run; their time per resample is the reference of the ratio. `python
docs/results/results.py keep runs/intervals intervals` puts the rows into the docs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.datasets.labyrinth import load_with_animals
from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL
from prism_irl.studies import intervals
from timing import machine, write

sys.path.append(str(Path(__file__).parents[1] / "reproduce"))
from worlds.labyrinth import LabyrinthWorld


def data() -> tuple[Demonstrations, str]:
    """The mice, or simulated ones."""
    try:
        return load_with_animals(), "labyrinth"
    except InputError:
        return LabyrinthWorld().simulate(238, 500).demonstrations, "simulated labyrinth"


def measure(
    model: Intentions, demos: Demonstrations, n: int, jobs: int, reference: list[intervals.Draw]
) -> dict[str, Any]:
    """Seconds of ``n`` resamples side by side, and how far the first are from those made one after the other."""
    clock = time.perf_counter()
    draws = intervals.bootstrap(model, demos, n, jobs=jobs)
    together = time.perf_counter() - clock
    apart = max(float(np.abs(draws["dwell"][i] / draw["dwell"] - 1).max()) for i, draw in enumerate(reference))
    how = f"{jobs} side by side, a core each"
    return {"how": how, "seconds": together, "largest_relative_difference_of_dwell": apart}


def main() -> None:
    """Print and keep a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resamples", type=int, default=200)
    parser.add_argument("--alone", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/intervals"))
    options = parser.parse_args()
    title, began = machine(), time.perf_counter()
    demos, name = data()
    model = HIQL(3, n_starts=2, seed=0).fit(demos)
    labels = model.predict(demos)
    intervals.one_draw(model, demos, labels, 1, 0)  # compiles
    clock = time.perf_counter()
    reference = [intervals.one_draw(model, demos, labels, 0, i) for i in range(options.alone)]
    alone = (time.perf_counter() - clock) / options.alone * options.resamples
    row = measure(model, demos, options.resamples, options.jobs, reference)
    rows = [row | {"seconds_one_after_the_other": alone, "ratio": alone / row["seconds"]}]
    found = {"data": name, "n_steps": demos.n_steps, "resamples": options.resamples, "alone": options.alone}
    command = f"python benchmarks/intervals.py --resamples {options.resamples} --jobs {options.jobs}"
    write(options.out, command, title, time.perf_counter() - began, quick=False, **found, rows=rows)
    print(json.dumps(found | {"rows": rows}, indent=1))


if __name__ == "__main__":
    main()
