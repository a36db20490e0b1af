"""A CSV of two million rows: read, checked and fitted (Markov chain, K=3), beside pandas reading the same file.

Run alone: python benchmarks/tables.py [--rows 2000000]. The fit is the command as people type it, in a process of its
own, whose largest memory is measured; the limit is 90 s and 3 GB on two cores.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from prism_irl.data.read import read_data
from prism_irl.worlds.frustration import ACTIONS, FrustrationWorld
from timing import Limit, Row

COLUMNS = {"trajectory": "animal,bout", "state": "cell", "action": "move", "time": "t"}
OPTIONS = "--intentions 3 --switching markov --simulations 0 --device cpu --json --quiet"
SECONDS, GIGABYTES = 90.0, 3.0


def write_table(path: Path, rows: int) -> None:
    """Simulated animals whose bouts of 100 steps are numbered in each, with names for states and actions."""
    demos = FrustrationWorld(horizon=100).simulate(-(-rows // 100), seed=0).demonstrations
    trajectory = np.arange(rows) // 100
    cells = np.array([f"x{s % 5}y{s // 5}" for s in range(25)])
    pd.DataFrame(
        {
            "animal": np.char.add("m", (trajectory // 100).astype(str)),
            "bout": trajectory % 100,
            "t": np.arange(rows) % 100 * 0.04,
            "cell": cells[demos.states[:rows]],
            "move": np.array(ACTIONS)[demos.actions[:rows]],
        }
    ).to_csv(path, index=False)


def fit_command(table: Path, out: Path) -> tuple[float, float]:
    """Seconds and gigabytes of `prism fit`."""
    named = [word for role, column in COLUMNS.items() for word in (f"--{role}", column)]
    command = [sys.executable, "-m", "prism_irl", "fit", str(table), *named, *OPTIONS.split(), "--out", str(out)]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - began
    assert json.loads(done.stdout)["n_intentions"] == 3
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6


def measure(rows: int = 2_000_000) -> tuple[list[Row], list[Limit]]:
    """Reading and checking beside pandas' own reading, and the limits of the whole command."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "steps.csv"
        write_table(path, rows)
        times: dict[str, list[float]] = {"pandas": [], "ours": []}
        for _ in range(3):
            for name, work in (("pandas", lambda: pd.read_csv(path)), ("ours", lambda: read_data(path, **COLUMNS))):
                began = time.perf_counter()
                found = work()
                times[name].append(time.perf_counter() - began)
                assert (len(found) if name == "pandas" else found.demonstrations.n_steps) == rows
        seconds, gigabytes = fit_command(path, Path(folder) / "run")
    pandas, ours = (float(np.median(times[name])) for name in ("pandas", "ours"))
    work = f"a CSV of {rows:,} rows"
    return (
        [Row(f"{work}, read and checked", "pandas reads it", pandas, ours)],
        [
            Limit(f"{work}: prism fit (Markov chain, K=3), all of it", seconds, "s", SECONDS),
            Limit(f"{work}: prism fit, peak memory", gigabytes, "GB", GIGABYTES),
        ],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    rows, limits = measure(parser.parse_args().rows)
    for row in rows:
        print(f"{row.work}: {row.seconds:.2f} s; {row.reference}: {row.reference_seconds:.2f} s; {row}")
    for limit in limits:
        verdict = "kept" if limit.kept else "missed"
        print(f"{limit.work}: {limit.measured:.2f} {limit.unit} (limit {limit.limit:g}, {verdict})")
