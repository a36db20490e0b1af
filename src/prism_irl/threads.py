"""One setting for the threads of everything that has some: torch, numba and the BLAS of NumPy and SciPy.

``PRISM_THREADS=1 prism fit …`` keeps a fit to one core. Without it ``OMP_NUM_THREADS``, which schedulers of clusters
set, counts for all of them, numba included, which by itself looks at the machine alone; without either, every library
takes the cores that there are. The number never depends on how busy the machine is, because sums over other numbers of
threads round differently, and the same seed has to give the same result.
"""

from __future__ import annotations

import os
import sys

from prism_irl.errors import InputError

VARIABLE = "PRISM_THREADS"
LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
MOST = 4096


def bound() -> int | None:
    """Tell all libraries, before they are imported, how many threads they may use; returns the number, if any."""
    own, others = os.environ.get(VARIABLE), os.environ.get("OMP_NUM_THREADS")
    text = own if own is not None else (others or "").partition(",")[0]  # OpenMP takes a list, for nested regions
    if not text:
        return None
    if not (text.isdecimal() and 1 <= int(text) <= MOST):
        if own is None:
            return None  # OpenMP itself has something to say about its variable
        raise InputError(f"{VARIABLE} is {own!r}; give a number of threads, such as 1.")
    if own is not None:
        os.environ.update(dict.fromkeys(LIBRARIES, text))
    cores = os.cpu_count() or 1
    # Numba reads its variable again now and then, and refuses another number than the one it was imported with.
    if "numba" not in sys.modules and (own is not None or "NUMBA_NUM_THREADS" not in os.environ):
        os.environ["NUMBA_NUM_THREADS"] = str(min(int(text), cores))  # numba refuses more than there are
    return int(text)


def crowded() -> str | None:
    """A sentence of advice where more processes are busy than there are cores and nothing bounds the threads."""
    if os.environ.get(VARIABLE) or os.environ.get("OMP_NUM_THREADS") or not hasattr(os, "getloadavg"):
        return None
    cores, busy = os.cpu_count() or 1, os.getloadavg()[0]
    if busy < 1.5 * cores or cores == 1:
        return None
    return f"{busy:.0f} processes are busy on {cores} cores; {VARIABLE}=1 is often several times faster then."
