"""How much is too much: what a file or an option may ask of this machine, and how many threads libraries take of it.

A limit comes from the memory that is free. ``PRISM_MAX_MEMORY`` (in GB) sets it by hand, up or down; options have fixed
bounds, far above what a study needs and far below what would stop the machine.

``PRISM_THREADS=1 prism fit …`` keeps a fit to one core: torch, numba and the BLAS of NumPy and SciPy. Without it
``OMP_NUM_THREADS``, which schedulers of clusters set, counts for all of them, numba included, which by itself looks at
the machine alone; without either, every library takes the cores that there are. The number never depends on how busy
the machine is, because sums over other numbers of threads round differently, and the same seed has to give the same
result.
"""

from __future__ import annotations

import math
import os
import sys
from contextlib import suppress
from pathlib import Path

from prism_irl.errors import InputError

VARIABLE = "PRISM_MAX_MEMORY"
THREADS = "PRISM_THREADS"
LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
MOST_THREADS = 4096
GROWN, MOST_GROWTH = 10**9, 200
"""Bytes, and times its size, that a compressed file may become without being asked for."""
PER_STEP = 250
"""Bytes of a fit per step, beside its tables of results."""
PER_PAIR = 2500
"""Bytes per state and action of dynamics, rewards and tables of results, as measured with two intentions."""
SHARE = 0.5
"""Part of the free memory that one file may take: a fit needs some, too."""
MOST = {
    "n_intentions": 1000,
    "history": 64,
    "n_starts": 10_000,
    "max_iterations": 1_000_000,
    "patience": 1_000_000,
    "epochs_per_m_step": 10_000,
    "epochs": 1_000_000,
    "warm_up": 100_000,
    "batch_size": 10_000_000,
    "hidden": 16_384,
    "embedding": 16_384,
    "n_candidates": 1_000_000,
    "seed": 2**31 - 1,  # what every library takes, with some to add
    "folds": 100_000,
    "seeds": 10_000,
    "jobs": 4096,
    "splits": 10_000,
    "starts": 10_000,
    "surrogates": 1_000_000,
    "simulations": 100_000,
    "intervals": 1_000_000,
    "states": 10_000_000,
    "actions": 1_000_000,
}
"""Largest value of an option by its name."""


def available() -> int | None:
    """Bytes that this process may still take: of the machine, or of its container where that is less."""
    found = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) * 1024)
    if not found:
        with suppress(AttributeError, OSError, ValueError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError):  # a container without a limit says "max"
        limit, used = (int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current"))
        found.append(limit - used)
    return max(min(found), 0) if found else None


def allowed_bytes(share: float = SHARE) -> int | None:
    """Bytes that one thing may take: what ``PRISM_MAX_MEMORY`` says, or a share of what is free; None: unknown."""
    text = os.environ.get(VARIABLE)
    if text is not None:
        with suppress(ValueError):
            wanted = float(text)
            if wanted > 0 and math.isfinite(wanted):
                return int(wanted * 1e9)
        raise InputError(f"{VARIABLE} is {text!r}; give a number of gigabytes, such as 8.")
    free = available()
    return None if free is None else int(share * free)


def check_bytes(what: str, n_bytes: float, advice: str, share: float = SHARE) -> None:
    """Refuse what would take more memory than it may, with both numbers and the way to raise the limit."""
    allowed = allowed_bytes(share)
    if allowed is not None and n_bytes > allowed:
        raise InputError(
            f"{what} would take about {readable(n_bytes)} of memory, and {readable(allowed)} are allowed; {advice}, or "
            f"raise the limit ({VARIABLE}=GB)."
        )


def check_sizes(n_states: int, n_actions: int) -> None:
    """Refuse numbers of states and of actions that nobody means, before there is an array of that size."""
    for name, size in (("states", n_states), ("actions", n_actions)):
        if size > MOST[name]:
            raise InputError(
                f"There are {size} {name}, and {MOST[name]} are possible at most; number those that occur from 0 on, "
                "or give them names."
            )


def check_pairs(n_states: int, n_actions: int, n_steps: int) -> None:
    """Refuse tables of states and actions that take gigabytes, of which the data can hardly say anything."""
    pairs = n_states * n_actions
    if pairs * PER_PAIR > 2 * GROWN and pairs > 20 * n_steps and VARIABLE not in os.environ:
        raise InputError(
            f"{n_states:,} states with {n_actions:,} actions are {pairs:,} pairs for {n_steps:,} steps, and would take "
            f"about {readable(pairs * PER_PAIR)}; number those that occur from 0 on, or, if it is meant, say how much "
            f"memory it may take ({VARIABLE}=GB)."
        )


def check_growth(what: str, n_bytes: float, file_bytes: int, n_steps: int = 0) -> None:
    """Refuse a small file that becomes gigabytes, itself or in a fit: damage or malice more often than data."""
    n_bytes = max(n_bytes, PER_STEP * n_steps)
    if n_bytes > max(GROWN, MOST_GROWTH * file_bytes) and VARIABLE not in os.environ:
        raise InputError(
            f"{what} is a file of {readable(file_bytes)} and would become {readable(n_bytes)}; if it is meant, say how "
            f"much memory it may take ({VARIABLE}=GB)."
        )


def check_text(what: str, n: int, widest: int) -> None:
    """Refuse names of which one is so long that an array of all of them, as wide as it everywhere, takes gigabytes."""
    if 4 * n * widest > GROWN / 2 and VARIABLE not in os.environ:
        raise InputError(
            f"The longest of {n:,} {what} has {widest:,} characters, and as many for each would take "
            f"{readable(4 * n * widest)}; shorten it, or say how much memory it may take ({VARIABLE}=GB)."
        )


def check_option(name: str, value: object) -> None:
    """Refuse a value of an option that no machine could work off; ``name`` as in Python."""
    if name == "seed" and isinstance(value, int) and value < 0:
        raise InputError(f"seed must be at least 0, not {value}.")
    if name == "jobs" and isinstance(value, int) and value < 1 and value != -1:
        raise InputError(f"--jobs is {value}; give at least 1, or -1 for every core.")
    most = MOST.get(name)
    if most is None or isinstance(value, bool) or not isinstance(value, int | float) or value <= most:
        return
    flag = {"n_intentions": "intentions"}.get(name, name).replace("_", "-")
    raise InputError(f"--{flag} is {value}; give at most {most}.")


def readable(n_bytes: float) -> str:
    """Bytes in words: 3.2 GB."""
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} GB"


def duration(seconds: float) -> str:
    """Time in words: 40 seconds, 12 minutes, 3.5 hours."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def bound_threads() -> int | None:
    """Tell all libraries, before they are imported, how many threads they may use; returns the number, if any."""
    own, others = os.environ.get(THREADS), os.environ.get("OMP_NUM_THREADS")
    text = own if own is not None else (others or "").partition(",")[0]  # OpenMP takes a list, for nested regions
    if not text:
        return None
    if not (text.isdecimal() and 1 <= int(text) <= MOST_THREADS):
        if own is None:
            return None  # OpenMP itself has something to say about its variable
        raise InputError(f"{THREADS} is {own!r}; give a number of threads, such as 1.")
    if own is not None:
        os.environ.update(dict.fromkeys(LIBRARIES, text))
    cores = os.cpu_count() or 1
    # Numba reads its variable again now and then, and refuses another number than the one it was imported with.
    if "numba" not in sys.modules and (own is not None or "NUMBA_NUM_THREADS" not in os.environ):
        os.environ["NUMBA_NUM_THREADS"] = str(min(int(text), cores))  # numba refuses more than there are
    return int(text)
