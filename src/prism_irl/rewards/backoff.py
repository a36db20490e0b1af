"""Back-off over a tree of contexts: how counts of long histories become policies that borrow from shorter ones.

A step counts for every suffix of its context, and a context of length l shrinks towards its parent,
π_l(a|c) = (n_c(a) + m π_{l-1}(a|c')) / (n_c + m). With long memories almost every step has a context of its own, and
these two passes over the tree are what an iteration of EM takes longest for: large tables are worked off by
`backoff_compiled`, for which the functions here are the reference.
"""

from __future__ import annotations

import os
from types import ModuleType

import numpy as np
import numpy.typing as npt

from prism_irl.data.contexts import Contexts

FloatArray = npt.NDArray[np.float64]
LARGE = 2**17
"""Numbers in a table from which on compiled code is worth its compiler, (K, C, A)."""


def add_to_parents(counts: FloatArray, contexts: Contexts) -> None:
    """Add the counts (K, C, A) of every context to those of its suffixes, in place, from long to short ones."""
    starts, compiled = contexts.starts, _compiled(counts)
    for level in range(len(contexts.parents), 0, -1):
        parents = contexts.parents[level - 1]
        if compiled is not None:
            compiled.add_level(counts, parents, starts[level])
            continue
        for table in counts:
            for action in range(counts.shape[-1]):
                table[: starts[level], action] += np.bincount(
                    parents, weights=table[starts[level] : starts[level + 1], action], minlength=starts[level]
                )


def shrink_to_parents(
    policies: FloatArray, counts: FloatArray, contexts: Contexts, strength: float, otherwise: FloatArray
) -> None:
    """Fill in the policies (K, C, A) of all contexts longer than a state, in place, from short to long ones.

    Parameters
    ----------
    policies : (K, C, A), those of the states are there
    counts : (K, C, A), of every context and all that end with it
    strength : float
        Weight m of the parent.
    otherwise : (C, A)
        Policies of contexts without counts, where the strength is zero.
    """
    starts, compiled = contexts.starts, _compiled(counts)
    for level, parents in enumerate(contexts.parents, start=1):
        if compiled is not None:
            compiled.shrink_level(policies, counts, parents, starts[level], float(strength), otherwise)
            continue
        rows = slice(starts[level], starts[level + 1])
        policies[:, rows] = normalise(counts[:, rows] + strength * policies[:, parents], otherwise[rows])


def normalise(counts: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Rows of counts as probabilities; rows without any count take ``otherwise``."""
    total = counts.sum(-1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), otherwise)


def _compiled(table: FloatArray) -> ModuleType | None:
    """The compiled passes, where the table is large and numba is installed."""
    if table.size < LARGE or os.environ.get("PRISM_BACKEND") == "torch":
        return None
    try:
        from prism_irl.rewards import backoff_compiled
    except ImportError:  # numba is an extra
        return None
    return backoff_compiled
