"""Sufficient statistics of an E-step, which add up, and the parts of the data that they are sums over.

An M-step reads nothing but `Stats`. Those of a minibatch, of a part of a mapped file and of a worker's share are added
up to those of all data, so that data in memory, on disk and on workers differ only in what `Parts` yields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.batching import Prepared


class Stats(dict[str, Any]):
    """Named statistics: arrays, whose sum is that of their entries, and `Rows`, whose sum is their concatenation."""

    def __add__(self, other: Mapping[str, Any]) -> Stats:
        """Statistics of both; a name that only one side has is taken from there."""
        both = {name: value + other[name] if name in other else value for name, value in self.items()}
        return Stats({**other, **both})

    def __sub__(self, other: Mapping[str, Any]) -> Stats:
        """What is left of these sums without those of a part."""
        return Stats({name: value - other[name] for name, value in self.items()})


class Rows:
    """What an iterative M-step reads of every step: arrays of m rows each, one after the other when added."""

    def __init__(self, *arrays: npt.NDArray[Any]) -> None:
        self.parts = [arrays]

    def __add__(self, other: Rows) -> Rows:
        """Rows of both."""
        both = Rows()
        both.parts = [*self.parts, *other.parts]
        return both

    def joined(self) -> tuple[npt.NDArray[Any], ...]:
        """Each array over all parts, (n, …), not copied where there is a single part."""
        if len(self.parts) == 1:
            return self.parts[0]
        return tuple(np.concatenate(columns) for columns in zip(*self.parts, strict=True))


class Parts:
    """Data as an iteration of EM reads them: all at once, or some trajectories at a time.

    Parameters
    ----------
    data : Prepared
    most : int, optional
        Steps of a part at most (or one trajectory); all data are one part where it is absent.
    """

    def __init__(self, data: Prepared, most: int | None = None) -> None:
        self.data, self.most = data, most

    def __iter__(self) -> Iterator[Prepared]:
        """Yield the parts, in order."""
        return iter([self.data]) if self.most is None else self.data.parts(self.most)
