"""Measuring and reporting: medians after a warm-up, rows with a named reference, and the page in the docs."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import joblib
import numpy as np


@dataclass
class Row:
    """One line of the table; the reference was timed in the same run, on the same data."""

    work: str
    reference: str
    reference_seconds: float
    seconds: float
    target: str = ""
    quartiles: tuple[float, float] | None = None  # of the ratio, where the two took turns

    @property
    def ratio(self) -> float:
        """How many times faster than the reference."""
        return self.reference_seconds / self.seconds

    def __str__(self) -> str:
        digits = 2 if self.ratio < 2 else 1
        spread = "" if self.quartiles is None else " ({:.{d}f}–{:.{d}f})".format(*self.quartiles, d=digits)
        ratio = f"{self.ratio:.2f}" if self.ratio < 10 else f"{self.ratio:,.1f}"
        return f"{ratio}×{spread}"

    @classmethod
    def by_turns(
        cls,
        work: str,
        reference: str,
        slow: Callable[[], object],
        fast: Callable[[], object],
        target: str,
        repeat: int,
        inner: int = 1,
    ) -> Row:
        """Measure both."""
        times = by_turns([slow, fast], repeat, inner)
        ratios = np.quantile(times[0] / times[1], [0.25, 0.75])
        low, high = (float(value) for value in ratios)
        return cls(work, reference, float(np.median(times[0])), float(np.median(times[1])), target, (low, high))


@dataclass
class Limit:
    """A measurement that has a limit instead of a reference."""

    work: str
    measured: float
    unit: str
    limit: float

    @property
    def kept(self) -> bool:
        """Whether the limit was kept."""
        return self.measured <= self.limit


def seconds(work: Callable[[], object], repeat: int = 5, inner: int = 1) -> float:
    """Median wall-clock time of a call after one warm-up; ``inner`` calls are timed together when one is too short."""
    work()
    times = []
    for _ in range(repeat):
        clock = time.perf_counter()
        for _ in range(inner):
            work()
        times.append((time.perf_counter() - clock) / inner)
    return float(np.median(times))


def by_turns(works: Sequence[Callable[[], object]], repeat: int, inner: int = 1) -> np.ndarray:
    """Wall-clock times of a call, (works, repeat).

    What is to be compared takes turns: on a machine whose speed changes from second to second, two long blocks of
    measurements would compare the seconds. A turn of short calls is one that is not counted, because its caches and
    threads belong to the turn before, and ``inner`` that are timed together.
    """
    times = np.empty((len(works), repeat))
    for turn in range(-1, repeat):
        for i, work in enumerate(works):
            if inner > 1 or turn < 0:
                work()
            clock = time.perf_counter()
            for _ in range(inner if turn >= 0 else 0):
                work()
            times[i, turn] = (time.perf_counter() - clock) / inner
    return times


def all_cores() -> None:
    """Let torch use every core, whatever OMP_NUM_THREADS says; compiled kernels do so by themselves."""
    import torch

    torch.set_num_threads(joblib.cpu_count())  # those that this process may use


def machine() -> str:
    """Processor, cores in use and versions."""
    import torch

    name = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        name = names[0] if names else name
    threads = torch.get_num_threads()
    return (
        f"{name}, {joblib.cpu_count()} cores, {threads} threads; Python {platform.python_version()}, "
        f"torch {torch.__version__}, NumPy {np.__version__}; load before the run {os.getloadavg()[0]:.1f}"
    )


def write(rows: list[Row], limits: list[Limit], figure: Path | None, out: Path, page: Path | None, title: str) -> None:
    """Results as JSON, and as the page of the docs where one is wanted."""
    out.mkdir(parents=True, exist_ok=True)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    found = {
        "date": date,
        "machine": title,
        "ratios": [{**asdict(row), "ratio": row.ratio} for row in rows],
        "limits": [{**asdict(limit), "kept": limit.kept} for limit in limits],
    }
    (out / "benchmarks.json").write_text(json.dumps(found, indent=1) + "\n")
    if page is None:
        return
    lines = [
        "# Speed and memory",
        "",
        f"Written by `make bench` on {date}: {title}.",
        "",
        "Every pair was checked for equal results before it was timed; references ran in the same process, on the same "
        "data. Times are medians; where two took turns, the quartiles of their ratio stand in brackets. Where many "
        "seconds have to be quiet, the fastest counts, because other work can only slow one down: of turns for the "
        "Bridge-sized iteration and growth, of single iterations for ranks, whose brackets hold the ratio of median "
        "iterations turn by turn.",
        "",
        "| work | reference | reference, s | ours, s | ratio | target |",
        "|---|---|---:|---:|---:|---|",
        *(
            f"| {r.work} | {r.reference} | {r.reference_seconds:.4g} | {r.seconds:.4g} | {r} | {r.target} |"
            for r in rows
        ),
        "",
        "| work | measured | limit | kept |",
        "|---|---:|---:|---|",
        *(
            f"| {v.work} | {v.measured:.3g} {v.unit} | {v.limit:g} {v.unit} | {'yes' if v.kept else 'no'} |"
            for v in limits
        ),
        "",
    ]
    if figure is not None:
        lines += [f"![How time grows with steps, intentions, states and history](images/{figure.name})", ""]
    page.write_text("\n".join(lines))
