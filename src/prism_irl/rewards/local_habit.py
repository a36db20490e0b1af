"""What differs from place to place and is shared by all intentions: habits and skills, as additions to those of all.

    C_l (1, (x − l) / s, u(x, g))        l the landmark nearest to x, s the distance between landmarks, u the way to g

What an agent does at a place whatever it wants (keeping to the middle of a corridor) is nobody's intention, and neither
is how it goes in a direction there (around a corner, where the graph is coarse). Steps of all intentions teach both, so
that they cannot tell them apart; a ridge shrinks them to nothing where few steps were taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.rewards.base import FloatArray, IntArray


def offsets(x: npt.NDArray[Any], cells: IntArray, landmarks: FloatArray, spacing: float) -> FloatArray:
    """(1, (x − l) / s), (n, 1 + d), of observations (n, d) in cells (n,)."""
    apart = (x - landmarks[cells]) / max(spacing, 1e-9)
    return np.concatenate([np.ones((len(apart), 1)), apart], axis=1)


def habit_at(coefficients: FloatArray, cells: IntArray, features: FloatArray) -> FloatArray:
    """C_l f, (n, m), from coefficients (L, m, p) and features (n, p)."""
    return np.asarray(np.einsum("nmp,np->nm", coefficients[cells], features))


def sums_of(features: FloatArray, rest: FloatArray, cells: IntArray, n_cells: int, weights: FloatArray) -> FloatArray:
    """Σ w f (f, rest)ᵀ over the steps of each cell, (L, p, p + m)."""
    joined = np.concatenate([features, rest], axis=1) * weights[:, None]
    p, q = features.shape[1], joined.shape[1]
    found = np.empty((n_cells, p, q))
    for i in range(p):
        for j in range(q):
            found[:, i, j] = np.bincount(cells, features[:, i] * joined[:, j], n_cells)
    return found


def solve(sums: FloatArray, ridge: float) -> FloatArray:
    """Ridge regression of every cell, coefficients (L, m, p)."""
    p = sums.shape[1]
    found = np.linalg.solve(sums[:, :, :p] + ridge * np.eye(p), sums[:, :, p:])
    return np.asarray(found.transpose(0, 2, 1))
