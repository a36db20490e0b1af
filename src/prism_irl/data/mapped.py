"""Arrays that stay on disk: what is made of mapped files (`data.archive`) is itself a mapped file.

A part of the trajectories and the standardised observations of a fit are as large as the data. Where these were mapped,
because they do not fit into memory, the results lie in files without a name in the folder for temporary files (TMPDIR),
which are gone with the arrays; the operating system keeps of them in memory what there is room for.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.errors import InputError, brief

PLAIN = "biufmMSU"
"""Kinds of arrays that are read: numbers, times and text."""
SMALL = 2**26
"""Bytes up to which an array is made in memory, wherever it comes from."""


def chunks(n: int, size: int = 2**20) -> Iterator[slice]:
    """Slices of 0..n-1, so that a pass over a mapped file holds a piece of it at a time."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def storable(values: Any) -> npt.NDArray[Any]:
    """Numbers and dates as they are, anything else as text: what an npz file holds without pickle."""
    array = np.asarray(values)
    return array if array.dtype.kind in "biufmM" else array.astype(str)


def is_mapped(values: npt.NDArray[Any]) -> bool:
    """Whether an array is a view of a file."""
    base: Any = values
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    return isinstance(base, np.memmap)


def empty_like(source: npt.NDArray[Any], shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array to be filled: on disk where ``source`` is and the array is large, else in memory."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if size <= SMALL or not is_mapped(source):
        return np.empty(shape, dtype)
    try:
        with tempfile.TemporaryFile(prefix="prism-") as file:
            if hasattr(os, "posix_fallocate"):  # a disk that fills up later would kill the process
                os.posix_fallocate(file.fileno(), 0, size)
            return np.asarray(np.memmap(file, dtype, "w+", shape=shape))
    except OSError as error:
        raise InputError(
            f"There is no room for {size / 1e9:.1f} GB in {tempfile.gettempdir()} ({brief(error)}); set TMPDIR to a "
            "folder on a larger disk."
        ) from None


def taken(values: npt.NDArray[Any], rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Rows of an array, ``values[rows]``; of a mapped one piece by piece, into a file where they are many."""
    if not is_mapped(values):
        return np.asarray(values[rows])
    result = empty_like(values, (len(rows), *values.shape[1:]), values.dtype)
    for chunk in chunks(len(rows), 2**16):
        result[chunk] = values[rows[chunk]]
    return result
