"""Rows whose state or action is missing: an error, a cut, or a step that says nothing.

*split* drops such rows and lets a new trajectory begin after each. *skip* keeps them: a missing step is a step in one
extra state, `MISSING`, in which every agent can do one thing only. Its probability is 1 under every intention, so that
the step contributes nothing to any likelihood or count, and the chain of intentions passes through it unbroken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.data.vocabulary import Vocabulary, Where, in_all
from prism_irl.errors import InputError

Missing = Literal["error", "skip", "split"]
MISSING = "<missing>"


def lost_rows(frame: pd.DataFrame, columns: Mapping[str, str], how: str, at: Where) -> npt.NDArray[np.bool_]:
    """Rows without state or action, (n,); with "error" the first one is named, with the two ways out."""
    if how not in ("error", "skip", "split"):
        raise InputError(f"missing is {how!r}; choose error, skip or split.")
    empty = {role: frame[columns[role]].isna().to_numpy() for role in ("state", "action")}
    for role, rows in empty.items():
        if how == "error" and rows.any():
            place, more = at(int(np.argmax(rows))), in_all(int(rows.sum()))
            raise InputError(
                f"The {role} at column {columns[role]!r}, {place} is missing{more}; fill it in, or say missing='skip' "
                "(--missing skip: such a step counts for nothing) or 'split' (cut the trajectory there)."
            )
    lost: npt.NDArray[np.bool_] = empty["state"] | empty["action"]
    if lost.all():
        raise InputError("Every row lacks its state or its action; name the right columns (--state, --action).")
    return lost


def split_rows(
    codes: npt.NDArray[np.intp], names: pd.Series[Any], times: pd.Series[Any] | None, lost: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.intp], pd.Series[Any]]:
    """Trajectories of the rows that are not lost: after each lost one a new one begins, called NAME/1, NAME/2, ….

    Parameters
    ----------
    codes : (n,)
        Trajectory of every row, with its ``names``.
    times : (n,), optional
        Order within a trajectory; else that of the rows.
    lost : (n,)
    """
    by = (codes,) if times is None else (pd.factorize(times, sort=True)[0], codes)
    order = np.lexsort(by)
    part = np.empty(len(codes), np.int64)
    part[order] = pd.Series(lost[order]).groupby(codes[order]).cumsum()
    cut = np.isin(codes, codes[lost])
    own = pd.factorize((codes.astype(np.int64) * (int(part.max()) + 1) + part)[~lost])[0]
    first = np.unique(own, return_index=True)[1]
    words = names.iloc[codes[~lost][first]].reset_index(drop=True).astype(str)
    ending = pd.Series(part[~lost][first]).astype(str).radd("/").where(cut[~lost][first], "")
    return own, words + ending


def only_one_action(n_states: int, n_actions: int) -> npt.NDArray[np.bool_]:
    """Valid actions (S, A) where the last state is `MISSING`."""
    valid = np.ones((n_states, n_actions), bool)
    valid[-1, 1:] = False
    return valid


def with_missing(states: Vocabulary, extra: bool) -> Vocabulary:
    """A vocabulary with one more state for what is missing, where that is asked for."""
    if not extra:
        return states
    return Vocabulary(None if states.names is None else (*states.names, MISSING), states.size + 1)
