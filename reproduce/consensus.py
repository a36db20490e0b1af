"""Consensus over equally good solutions: what all of them say, and how much of the data they say it about.

On real data several optima of EM often lie within a thousandth of a nat per step of the best one and cut the data
differently, so that the best of them is best by accident. Instead of one winner take all solutions within a margin
of it, rename their intentions to match (optimal assignment on shared responsibility), and average

    w̄_t(k) = mean over members m of w_t^m(σ_m(k)),     z̄_t = argmax_k w̄_t(k).

The matching is repeated against the average until it stays. Where members disagree w̄ is flat: `unanimous` is the share
of the steps that all members label alike, `support` the mean share of members that label a step as the consensus does.
Scores are likelihoods on training data; nothing outside the demonstrations is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from prism_irl.errors import InputError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MARGIN = 2e-3
"""Nats per step below the best within which another solution counts as equally good, as among the starts of a fit."""
ROUNDS = 20


class Consensus(NamedTuple):
    """The outcome.

    Attributes
    ----------
    probabilities : (n, K) float
        Averaged responsibilities, under the names of the best solution.
    labels : (n,) int
        Their argmax.
    members : tuple of int
        Positions of the solutions that were averaged, the best first.
    renamed : (M, n) int
        Labels of every member under the names of the consensus.
    """

    probabilities: FloatArray
    labels: IntArray
    members: tuple[int, ...]
    renamed: IntArray

    @property
    def unanimous(self) -> float:
        """Share of the steps on which all members agree."""
        return float((self.renamed == self.renamed[0]).all(axis=0).mean())

    @property
    def support(self) -> float:
        """Mean share of the members that label a step as the consensus does."""
        return float((self.renamed == self.labels).mean())


def consensus(
    responsibilities: Sequence[npt.ArrayLike], scores: Sequence[float], *, margin: float = MARGIN
) -> Consensus:
    """Average the responsibilities of all solutions that are nearly as good as the best one.

    Parameters
    ----------
    responsibilities : M arrays (n, K)
        P(z_t=k | everything) of every solution, over the same steps.
    scores : M floats
        Log-likelihood per step on the training data.
    margin : float
        Nats per step below the best score that still count as equally good.
    """
    solutions = [np.asarray(w, dtype=np.float64) for w in responsibilities]
    if not solutions or len(solutions) != len(scores):
        raise InputError(
            f"There are {len(solutions)} solutions and {len(scores)} scores; give at least one solution, and a score "
            "for each."
        )
    for i, w in enumerate(solutions):
        if w.ndim != 2 or w.shape != solutions[0].shape:
            raise InputError(
                f"Solution {i} has responsibilities of shape {w.shape}, solution 0 of {solutions[0].shape}; give all "
                "of the same steps with the same number of intentions, (n, K)."
            )
    if not np.isfinite(scores).all() or margin < 0:
        raise InputError("Scores must be finite and the margin not negative.")
    order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")
    members = tuple(int(i) for i in order if scores[i] >= scores[order[0]] - margin)
    average = solutions[members[0]]
    names: list[IntArray] = []
    for _ in range(ROUNDS):  # two or three suffice; a cycle among ties is cut off
        found = [matched_columns(average, solutions[i]) for i in members]
        if names and all(np.array_equal(a, b) for a, b in zip(found, names, strict=True)):
            break
        names = found
        average = np.mean([solutions[i][:, columns] for i, columns in zip(members, names, strict=True)], axis=0)
    renamed = np.stack([solutions[i][:, columns].argmax(1) for i, columns in zip(members, names, strict=True)])
    return Consensus(average, average.argmax(1), members, renamed)


def matched_columns(reference: FloatArray, other: FloatArray) -> IntArray:
    """Columns of ``other``, in the order that shares most responsibility Σ_t w_t(k) w'_t(σ(k)) with ``reference``."""
    return np.asarray(linear_sum_assignment(reference.T @ other, maximize=True)[1], dtype=np.int64)
