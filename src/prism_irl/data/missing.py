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

from prism_irl.data.vocabulary import Vocabulary
from prism_irl.errors import InputError

Missing = Literal["error", "skip", "split"]
MISSING = "<missing>"


def lost_rows(frame: pd.DataFrame, columns: Mapping[str, str], how: str) -> npt.NDArray[np.bool_]:
    """Rows without state or action, (n,); with "error" the first one is named, with the two ways out."""
    if how not in ("error", "skip", "split"):
        raise InputError(f"missing is {how!r}; choose error, skip or split.")
    empty = {role: frame[columns[role]].isna().to_numpy() for role in ("state", "action")}
    for role, rows in empty.items():
        if how == "error" and rows.any():
            row = int(np.argmax(rows))
            name = frame[columns["trajectory"]].iloc[row]
            raise InputError(
                f"The {role} at column {columns[role]!r}, row {row} (trajectory {name}) is missing; fill it in, or say "
                "missing='skip' (--missing skip: such a step counts for nothing) or 'split' (cut the trajectory there)."
            )
    lost: npt.NDArray[np.bool_] = empty["state"] | empty["action"]
    if lost.all():
        raise InputError("Every row lacks its state or its action; name the right columns (--state, --action).")
    return lost


def split_frame(frame: pd.DataFrame, columns: Mapping[str, str], lost: npt.NDArray[np.bool_]) -> pd.DataFrame:
    """The rows that are not lost; after each lost one a new trajectory begins, called NAME/1, NAME/2, …."""
    if not lost.any():
        return frame
    trajectory = columns["trajectory"]
    by: list[Any] = [frame[trajectory]] if "time" not in columns else [frame[columns["time"]], frame[trajectory]]
    order = np.lexsort([pd.factorize(values, sort=True)[0] for values in by])
    part = pd.Series(lost[order]).groupby(frame[trajectory].to_numpy()[order]).cumsum().to_numpy()
    number = np.empty(len(frame), np.int64)
    number[order] = part
    cut = frame[trajectory].isin(frame[trajectory][lost])
    parts = pd.Series(number, index=frame.index).astype(str)
    names: pd.Series[Any] = frame[trajectory].astype(str) + ("/" + parts).where(cut, "")
    kept = frame.assign(**{trajectory: names})[~lost].reset_index(drop=True)
    kept.attrs = dict(frame.attrs)
    return kept


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
