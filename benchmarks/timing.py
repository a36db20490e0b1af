"""Measuring and reporting: medians after a warm-up, rows with a named reference, and the page in the docs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
    """Processor, cores in use, GPU, threads and load."""
    import torch

    from prism_irl.devices import machine as known

    return f"{known()}, {torch.get_num_threads()} threads, load before the run {os.getloadavg()[0]:.1f}"


def write(out: Path, command: str, title: str, seconds: float, **metrics: Any) -> None:
    """Write what was measured and where, as any run does: `docs/results/results.py keep` makes tables of it."""
    from prism_irl import storage

    out.mkdir(parents=True, exist_ok=True)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    origin = {"command": command, "versions": storage.versions(), "date": date, "machine": title, "seconds": seconds}
    storage.write_json(out / "config.json", origin)
    storage.write_json(out / "metrics.json", metrics)
