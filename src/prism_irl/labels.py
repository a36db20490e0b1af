"""Labels of steps: the best matching between two labellings, how far they agree, and the segments they form.

Labels are flat integer arrays of n steps that `offsets` (N + 1,) cut into trajectories. Intentions have no natural
order, so labels are compared after the one-to-one matching m that maximises Σ_t 1[m(ẑ_t) = z_t], or by measures that
do not depend on names (`ari`, `nmi`). Scores of whole segmentations are in `prism_irl.evaluation.metrics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prism_irl.arrays import IntArray
from prism_irl.errors import InputError


class Matching(NamedTuple):
    """The predicted labels (n,) under the names of the true ones, and the true name of each predicted intention.

    Those without a partner get n_true, n_true + 1, …, which match nothing.
    """

    labels: IntArray
    mapping: IntArray


class Segments(NamedTuple):
    """Maximal runs of one label within one trajectory: first step (flat), steps, label and trajectory, (M,) each."""

    starts: IntArray
    lengths: IntArray
    labels: IntArray
    trajectories: IntArray


def match(true: ArrayLike, predicted: ArrayLike, n_true: int | None = None, n_predicted: int | None = None) -> Matching:
    """Rename predicted intentions so that as many steps as possible carry the true label; both are (n,).

    Numbers of intentions are by default the largest label plus one.
    """
    from scipy.optimize import linear_sum_assignment  # here, so that importing labels costs nothing

    def by_appearance(labels: IntArray, n: int) -> IntArray:
        first = np.full(n, len(labels))
        values, index = np.unique(labels, return_index=True)
        first[values] = index
        return np.argsort(first, kind="stable")

    z, z_hat = checked_pair(true, predicted)
    n_true, n_predicted = _count(z, n_true, "true"), _count(z_hat, n_predicted, "predicted")
    # Only labels that occur, in order of appearance: ties then break alike whatever the intentions are called.
    rows, columns = by_appearance(z_hat, n_predicted), by_appearance(z, n_true)
    counts = np.bincount(z_hat * n_true + z, minlength=n_predicted * n_true).reshape(n_predicted, n_true)
    occurring = counts[np.ix_(rows, columns)][: len(np.unique(z_hat)), : len(np.unique(z))]
    matched, partners = linear_sum_assignment(occurring, maximize=True)
    # The rest is paired in order, with names that match nothing once the true ones are used up.
    names = np.append(np.delete(columns, partners), n_true + np.arange(n_predicted))
    mapping = np.empty(n_predicted, np.int64)
    mapping[rows[matched]] = columns[partners]
    alone = np.delete(rows, matched)
    mapping[alone] = names[: len(alone)]
    return Matching(mapping[z_hat], mapping)


def label_accuracy(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return the share of steps with the true label after matching, 0 to 1."""
    return float((match(true, predicted).labels == np.asarray(true)).mean())


def ari(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return the adjusted Rand index: 1 for the same partition, about 0 for independent ones."""
    from sklearn.metrics import adjusted_rand_score  # here, so that importing labels costs nothing

    return float(adjusted_rand_score(*checked_pair(true, predicted)))


def nmi(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return the normalised mutual information, 0 to 1: 2 (H(z) + H(ẑ) − H(z, ẑ)) / (H(z) + H(ẑ))."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(*checked_pair(true, predicted)))


def agreement(labelings: Sequence[ArrayLike]) -> float | None:
    """Return the mean adjusted Rand index of the first labelling with the others; None if there are no others."""
    if not labelings:
        raise InputError("agreement needs at least one labelling; none was given.")
    first, *others = labelings
    return float(np.mean([ari(first, other) for other in others])) if others else None


def segments(labels: ArrayLike, offsets: ArrayLike) -> Segments:
    """Cut labels into maximal runs; a trajectory's end always ends a segment."""
    z, edges = _labels(labels, "labels"), np.asarray(offsets)
    if edges.ndim != 1 or edges.dtype.kind not in "iu" or len(edges) < 2 or edges[0] != 0 or edges[-1] != len(z):
        raise InputError(
            f"offsets must be integers from 0 to the number of steps, {len(z)}, one more than trajectories."
        )
    if (np.diff(edges.astype(np.int64)) < 1).any():
        empty = int((np.diff(edges.astype(np.int64)) < 1).argmax())
        raise InputError(f"trajectory {empty} is empty; offsets must increase.")
    first_steps = edges[:-1].astype(np.int64)
    begins = np.ones(len(z), bool)
    begins[1:] = z[1:] != z[:-1]
    begins[first_steps] = True
    starts = np.flatnonzero(begins)
    trajectories = np.searchsorted(first_steps, starts, side="right") - 1
    return Segments(starts, np.diff(starts, append=len(z)), z[starts], trajectories)


def dwell_lengths(labels: ArrayLike, offsets: ArrayLike) -> IntArray:
    """Return the length in steps of every segment, in order."""
    return segments(labels, offsets).lengths


def mean_dwell(labels: ArrayLike, offsets: ArrayLike) -> float:
    """Return the mean length of a segment in steps."""
    return float(dwell_lengths(labels, offsets).mean())


def n_switches(labels: ArrayLike, offsets: ArrayLike) -> int:
    """Return the number of changes of label within trajectories."""
    return len(boundaries(segments(labels, offsets)))


def boundaries(cut: Segments, gap: int = 0) -> IntArray:
    """Return the first steps of segments that do not open a trajectory, with `gap` steps put between trajectories."""
    inner = np.diff(cut.trajectories, prepend=-1) == 0
    found: IntArray = cut.starts[inner] + gap * cut.trajectories[inner]
    return found


def checked_pair(true: ArrayLike, predicted: ArrayLike) -> tuple[IntArray, IntArray]:
    """Return both label arrays as int64, checked to be of the same length."""
    z, z_hat = _labels(true, "true"), _labels(predicted, "predicted")
    if len(z) != len(z_hat):
        raise InputError(f"true has {len(z)} steps but predicted has {len(z_hat)}; give labels of the same steps.")
    return z, z_hat


def _labels(values: ArrayLike, name: str) -> IntArray:
    """(n,) labels as int64, or one sentence about what is wrong with them."""
    labels: NDArray[Any] = np.asarray(values)
    if labels.ndim != 1 or not len(labels) or labels.dtype.kind not in "iu":
        raise InputError(f"{name} must be a flat array of integers, but has shape {labels.shape} and {labels.dtype}.")
    if labels.min() < 0:
        raise InputError(f"{name} has the label {labels.min()} at step {labels.argmin()}; labels start at 0.")
    return labels.astype(np.int64)


def _count(labels: IntArray, given: int | None, name: str) -> int:
    """Return the number of intentions, at least as large as the labels need."""
    needed = int(labels.max()) + 1
    if given is not None and given < needed:
        raise InputError(f"n_{name} is {given}, but {name} has the label {needed - 1}; give at least {needed}.")
    return needed if given is None else given
