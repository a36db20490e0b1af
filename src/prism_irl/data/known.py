"""Few labels: what somebody knows about the intention of some steps, and how a fit is told.

Where z_t = j is known, the E-step may not believe anything else: the emission of every other intention is put so far
below that of j that its posterior is zero, whatever the switching model is. EM then climbs the joint likelihood
log p(a, z_known) instead of log p(a). Intention j is the j-th known label, so that the result carries its names.
Predictions are never clamped: a fitted model says what it believes, and is evaluated by that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.vocabulary import Array, Vocabulary, Where, distinct, whole_numbers
from prism_irl.errors import InputError

FloatArray = npt.NDArray[np.float64]
GUESSED = 0.05
"""Weight of a step that nobody knows in the first policies, beside the one of a step that somebody knows."""
FAR = 1e3
"""Nats below the known intention: exp(−1000) is zero in double precision, and finite sums stay finite."""


def clamped(emission: FloatArray, demos: Demonstrations) -> FloatArray:
    """Emissions (n, K) that leave the known intention alone at the steps where there is one."""
    steps, intentions = _told(demos)
    if not len(steps):
        return emission
    result = emission.copy()
    own = emission[steps, intentions]
    # A step that the known intention cannot explain at all (−inf) says so in the likelihood of no step but this one.
    result[steps] = np.where(np.isfinite(own), own - FAR, -FAR)[:, None]
    result[steps, intentions] = own
    return result


def aligned(responsibilities: FloatArray, demos: Demonstrations, *, in_order: bool = False) -> FloatArray:
    """First responsibilities (n, K) in the order of the known intentions, and certain where these are known.

    Steps that nobody knows count little at first: what a search guesses about them must not drown what is known.
    With ``in_order`` the columns are stages that follow one another, and stay where they are.
    """
    steps, intentions = _told(demos)
    if not len(steps):
        return responsibilities
    result = responsibilities.copy() if in_order else responsibilities[:, alignment(responsibilities, demos)]
    result = GUESSED * result
    result[steps] = np.eye(result.shape[1])[intentions]
    return result


def alignment(responsibilities: FloatArray, demos: Demonstrations, *, keep_last: bool = False) -> npt.NDArray[np.int64]:
    """Column of the responsibilities that shares most with each known intention, (K,), one to one.

    With ``keep_last`` the last intention, which wants nothing, stays the last.
    """
    steps, intentions = _told(demos)
    K = responsibilities.shape[1]
    shared = np.zeros((K, K))
    np.add.at(shared, intentions, responsibilities[steps])
    if keep_last:
        shared[-1, -1] = shared.sum() + 1.0
    from scipy.optimize import linear_sum_assignment  # here, because few data have labels

    return np.asarray(linear_sum_assignment(-shared)[1], dtype=np.int64)


def check_known(demos: Demonstrations, n_intentions: int) -> None:
    """Raise an `InputError` where more intentions are known than the model has."""
    steps, intentions = _told(demos)
    if len(steps) and int(intentions.max()) >= n_intentions:
        step = int(steps[np.argmax(intentions)])
        name = str(intentions.max()) if demos.known_names is None else repr(demos.known_names[int(intentions.max())])
        raise InputError(
            f"The known intention {name} at {demos.where(step)} is number {int(intentions.max()) + 1}, and the model "
            f"has {n_intentions} intentions; ask for at least as many as there are known ones."
        )


def _told(demos: Demonstrations) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    if demos.known is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    steps = np.flatnonzero(demos.known >= 0)
    return steps, demos.known[steps].astype(np.int64)


def filled(values: pd.Series[Any]) -> npt.NDArray[np.int64]:
    """Rows of a column of known labels that hold one: empty cells do not, nor does −1."""
    empty = values.isna() | values.astype(str).str.strip().isin(("", "-1", "-1.0"))
    return np.flatnonzero(~empty)


def read_known(values: pd.Series[Any], role: str, where: Where) -> tuple[Array, tuple[str, ...] | None]:
    """Known intentions, (n,), −1 where nobody knows, and their names."""
    there = filled(values)
    if not len(there):
        raise InputError(f"The column {values.name!r} of known labels is empty; fill some cells in or leave it out.")
    told = whole_numbers(values.iloc[there].infer_objects())  # empty cells make floats of a column of ids
    found = distinct(told, "known label", lambda i: where(int(there[i])))
    words = Vocabulary.learn(found, "known label")
    if words.names is not None:  # in the order in which they come, so that stages of a task are in order
        words = Vocabulary(tuple(str(value) for value in found.values), words.size)
    known = np.full(len(values), -1, dtype=np.int64)
    known[there] = words.encode(found, "known label")
    return known, words.names
