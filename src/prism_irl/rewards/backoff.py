"""Back-off over a tree of contexts: how counts of long histories become policies that borrow from shorter ones.

A step counts for every suffix of its context, and a context of length l shrinks towards its parent,
π_l(a|c) = (n_c(a) + m π_{l-1}(a|c')) / (n_c + m). With long memories almost every step has a context of its own, and
these two passes over the tree are what an iteration of EM takes longest for: large tables are worked off by compiled
code without temporaries, for which NumPy is the reference. Contexts of one length are sorted by their parents, so that
the children of a parent are neighbours, and sums are made in the order of the reference.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import numpy as np

from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.contexts import Contexts
from prism_irl.optional import compiled

LARGE = 2**17
"""Numbers in a table from which on compiled code is worth its compiler, (K, C, A)."""


def add_to_parents(counts: FloatArray, contexts: Contexts) -> None:
    """Add the counts (K, C, A) of every context to those of its suffixes, in place, from long to short ones."""
    starts, fast = contexts.starts, _is_large(counts)
    for level in range(len(contexts.parents), 0, -1):
        parents = contexts.parents[level - 1]
        if fast:
            _add_level(counts, parents, starts[level])
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
    starts, fast = contexts.starts, _is_large(counts)
    for level, parents in enumerate(contexts.parents, start=1):
        if fast:
            _shrink_level(policies, counts, parents, starts[level], float(strength), otherwise)
            continue
        rows = slice(starts[level], starts[level + 1])
        policies[:, rows] = normalise(counts[:, rows] + strength * policies[:, parents], otherwise[rows])


def normalise(counts: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Rows of counts as probabilities; rows without any count take ``otherwise``."""
    total = counts.sum(-1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), otherwise)


def _is_large(table: FloatArray) -> bool:
    """Whether compiled code is worth its compiler, where there is one."""
    return table.size >= LARGE and os.environ.get("PRISM_BACKEND") != "torch" and find_spec("numba") is not None


@compiled()
def _add_level(counts: FloatArray, parents: IntArray, first: int) -> None:
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


@compiled()
def _shrink_level(
    policies: FloatArray, counts: FloatArray, parents: IntArray, first: int, strength: float, otherwise: FloatArray
) -> None:
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
