"""The passes of `rewards.backoff`, which are the reference, compiled: one level of the tree each, without temporaries.

Contexts of one length are sorted by their parents, so that the children of a parent are neighbours and every array is
read once, in its order. Sums are made in the order of the reference.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@numba.njit(cache=True, error_model="numpy")
def add_level(counts: Array, parents: Array, first: int) -> None:
    """Add the counts (K, C, A) of the contexts first, first + 1, … to those of their ``parents``."""
    K, _, A = counts.shape
    children = np.empty(A)
    for k in range(K):
        i = 0
        while i < len(parents):
            parent = parents[i]
            children[:] = 0.0
            while i < len(parents) and parents[i] == parent:
                for a in range(A):
                    children[a] += counts[k, first + i, a]
                i += 1
            for a in range(A):
                counts[k, parent, a] += children[a]


@numba.njit(cache=True, error_model="numpy")
def shrink_level(policies: Array, counts: Array, parents: Array, first: int, strength: float, otherwise: Array) -> None:
    """Policies (K, C, A) of the contexts first, first + 1, … from their counts and the policies of their parents."""
    K, _, A = counts.shape
    for k in range(K):
        for i in range(len(parents)):
            row, parent, total = first + i, parents[i], 0.0
            for a in range(A):
                weight = counts[k, row, a] + strength * policies[k, parent, a]
                policies[k, row, a] = weight
                total += weight
            for a in range(A):
                policies[k, row, a] = policies[k, row, a] / total if total > 0 else otherwise[row, a]
