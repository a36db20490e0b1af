"""Speed and memory against named references in the same run, as ratios: `make bench`.

Never an assertion: machines differ. Sizes are those of the paper's data, steps are simulated, so that no data is
needed; every pair is checked for equal results before it is timed. With ``--quick`` everything is small, which tells
that it works and nothing about speed. ``python docs/results/results.py keep runs/bench benchmarks`` puts what was
measured into the page of the docs.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

import bridge
import chains
import continuous
import growth
import inverse
import larger_than_memory
import networks
import startup
import tables
from timing import Limit, Row, all_cores, machine, write

ROOT = Path(__file__).resolve().parent.parent


def show(rows: list[Row], limits: list[Limit], title: str) -> None:
    table = Table(title=title)
    for column in ("work", "reference or limit", "reference", "ours", "ratio", "target"):
        table.add_column(column)
    for r in rows:
        table.add_row(r.work, r.reference, f"{r.reference_seconds:.4g} s", f"{r.seconds:.4g} s", str(r), r.target)
    for v in limits:
        table.add_row(
            v.work, "limit", f"{v.limit:g} {v.unit}", f"{v.measured:.3g} {v.unit}", "", "kept" if v.kept else "missed"
        )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, which say nothing about speed")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "bench")
    options = parser.parse_args()
    all_cores()
    quick, title, clock = options.quick, machine(), time.perf_counter()
    rows = [*inverse.rows(), *chains.rows(8 if quick else 190), *networks.rows(8 if quick else 190, 1 if quick else 5)]
    rows += startup.rows(20, 1) if quick else startup.rows()
    read, whole = tables.measure(20_000 if quick else 2_000_000)
    rows += read
    curves = growth.measure(8 if quick else 95)
    limits = [*bridge.limits(200 if quick else bridge.N), *growth.limits(curves), *whole]
    limits += continuous.limits(20_000 if quick else continuous.STEPS)
    limits += larger_than_memory.limits(20_000 if quick else larger_than_memory.SMALL, 1 if quick else 2)
    growth.write(curves, options.out, None if quick else ROOT / "docs" / "images")
    write(
        options.out,
        "make bench",
        title,
        time.perf_counter() - clock,
        quick=quick,
        ratios=[{**asdict(row), "ratio": row.ratio} for row in rows],
        limits=[{**asdict(limit), "kept": limit.kept} for limit in limits],
    )
    show(rows, limits, title)


if __name__ == "__main__":
    main()
