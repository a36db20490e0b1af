"""Vectors that may not fit in memory: an array, or npy files that are read a piece at a time.

Files are read and not mapped, so that the memory a clustering needs is the memory one sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from prism_irl.errors import InputError

Vectors = npt.NDArray[np.float32]


class Rows(Protocol):
    """n vectors of m numbers, read in order or picked."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""

    def chunks(self, size: int) -> Iterator[Vectors]:
        """Yield all rows in order, at most ``size`` at a time, (≤ size, m) float32."""

    def take(self, index: npt.NDArray[np.int64]) -> Vectors:
        """Rows by increasing index, (len(index), m) float32."""


class ArrayRows:
    """Rows of an array in memory."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        if array.ndim != 2 or array.dtype.kind not in "biuf":
            raise InputError(f"Vectors have shape {array.shape} and type {array.dtype}; give numbers of shape (n, m).")
        self._array = array

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        n, m = self._array.shape
        return int(n), int(m)

    def chunks(self, size: int) -> Iterator[Vectors]:
        """Yield views or converted copies of consecutive rows."""
        for start in range(0, len(self._array), size):
            yield np.ascontiguousarray(self._array[start : start + size], dtype=np.float32)

    def take(self, index: npt.NDArray[np.int64]) -> Vectors:
        """Rows by index."""
        return np.ascontiguousarray(self._array[index], dtype=np.float32)


class _File(NamedTuple):
    path: Path
    begin: int
    rows: int
    dtype: np.dtype[Any]


class NpyRows:
    """Rows of one or several npy files, one after the other.

    Parameters
    ----------
    paths : sequence of paths
        Files with (n_i, m) numbers in C order.
    """

    def __init__(self, paths: Sequence[str | Path]) -> None:
        if not paths:
            raise InputError("There are no files with vectors; give at least one.")
        described = [_header(Path(path)) for path in paths]
        widths = {width for _, width in described}
        if len(widths) != 1:
            raise InputError(
                f"The vectors in {Path(paths[0]).parent} have {sorted(widths)} dimensions; make them equal."
            )
        self._files = [file for file, _ in described]
        self._width = widths.pop()
        self._starts = np.concatenate([[0], np.cumsum([file.rows for file in self._files])]).astype(np.int64)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return int(self._starts[-1]), self._width

    def _read(self, file: _File, start: int, count: int) -> Vectors:
        offset = file.begin + start * self._width * file.dtype.itemsize
        values = np.fromfile(file.path, dtype=file.dtype, count=count * self._width, offset=offset)
        if len(values) != count * self._width:
            raise InputError(f"{file.path} ends before its last row; make it again.")
        return values.reshape(count, self._width).astype(np.float32, copy=False)

    def chunks(self, size: int) -> Iterator[Vectors]:
        """Yield consecutive rows, never across two files."""
        for file in self._files:
            for start in range(0, file.rows, size):
                yield self._read(file, start, min(size, file.rows - start))

    def take(self, index: npt.NDArray[np.int64]) -> Vectors:
        """Rows by increasing index, read in one pass over the files."""
        out = np.empty((len(index), self._width), dtype=np.float32)
        size, filled = 65536, 0
        for file, first in zip(self._files, self._starts, strict=False):
            for start in range(0, file.rows, size):
                count = min(size, file.rows - start)
                low, high = np.searchsorted(index, (first + start, first + start + count))
                if high > low:
                    out[low:high] = self._read(file, start, count)[index[low:high] - first - start]
                    filled += high - low
        if filled != len(index):
            raise InputError(
                "Rows were asked for that are not there; give increasing indices below the number of rows."
            )
        return out


class KeptRows:
    """Some rows of others, by a mask (n,), without copying what is large."""

    def __init__(self, rows: Rows, mask: npt.NDArray[np.bool_]) -> None:
        if mask.shape != (rows.shape[0],):
            raise InputError(f"The mask has shape {mask.shape} for {rows.shape[0]} rows.")
        self._rows, self._mask, self._index = rows, mask, np.flatnonzero(mask)

    @property
    def shape(self) -> tuple[int, int]:
        """(number kept, m)."""
        return len(self._index), self._rows.shape[1]

    def chunks(self, size: int) -> Iterator[Vectors]:
        """Yield the kept rows in order."""
        start = 0
        for chunk in self._rows.chunks(size):
            kept = self._mask[start : start + len(chunk)]
            start += len(chunk)
            if kept.any():
                yield chunk if kept.all() else chunk[kept]

    def take(self, index: npt.NDArray[np.int64]) -> Vectors:
        """Kept rows by increasing index."""
        return self._rows.take(self._index[index])


def _header(path: Path) -> tuple[_File, int]:
    """Where the numbers of an npy file begin, and their width; nothing is unpickled."""
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(file)
            begin = file.tell()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is missing, damaged or not an npy file ({error}).") from None
    if len(shape) != 2 or fortran or dtype.kind not in "biuf":
        raise InputError(f"{path} holds {dtype} of shape {shape}; give numbers of shape (n, m) in C order.")
    if path.stat().st_size != begin + shape[0] * shape[1] * dtype.itemsize:
        raise InputError(f"{path} is shorter or longer than its header says; make it again.")
    return _File(path, begin, int(shape[0]), dtype), int(shape[1])


def as_rows(source: Any) -> Rows:
    """Rows of an array, of an npy file, or of several, or rows as they are."""
    if isinstance(source, str | Path):
        return NpyRows([source])
    if hasattr(source, "chunks") and hasattr(source, "take") and not isinstance(source, np.ndarray):
        return source  # type: ignore[no-any-return]
    return ArrayRows(np.asarray(source))
