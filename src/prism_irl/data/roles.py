"""Which column of a table holds what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pandas as pd

from prism_irl.errors import InputError

DOUBLED = "doubled"
"""Attribute of a frame: columns that the header of a CSV file names more than once, of which pandas renames some."""


@dataclass(frozen=True)
class Columns:
    """Which column holds what; an optional column that is not named is used when its usual name is there.

    ``trajectory`` may be several columns ("animal,bout"), whose values together name one. ``time`` gives the order
    within a trajectory, ``group`` what splits keep together, ``intention`` true labels (for evaluation only),
    ``observations`` numbers that the switching network may read, ``labels`` intentions that somebody knows, empty
    elsewhere, which the fit is told. Roles in ``may_lack`` are left out where their column
    is not there.
    """

    trajectory: str | tuple[str, ...] = "trajectory"
    state: str = "state"
    action: str = "action"
    time: str | None = None
    group: str | None = None
    intention: str | None = None
    observations: tuple[str, ...] = ()
    may_lack: tuple[str, ...] = ()
    labels: str | None = None

    def resolve(self, frame: pd.DataFrame) -> dict[str, str]:
        """Column of each role that ``frame`` has; a column that was asked for and is not there is an error."""
        usual = {role: role for role in ("time", "group", "intention") if role in frame.columns}
        keys = key_columns(frame, self.trajectory)
        named = {role: name for role, name in vars(self).items() if isinstance(name, str)}
        found = usual | named | {"trajectory": ",".join(keys)}
        several = [("trajectory", name) for name in keys] + [("observations", name) for name in self.observations]
        single = [(role, name) for role, name in found.items() if role != "trajectory"]
        absent = []
        for role, name in [*several, *single]:
            times = count(frame, name)
            if times == 0 and role in self.may_lack:
                del found[role]
            elif times == 0:
                absent.append((role, name))
            check_single(frame, name)
        if absent:
            raise _absent(frame, absent)
        return found


def _absent(frame: pd.DataFrame, absent: list[tuple[str, str]]) -> InputError:
    """All columns that are not there in one sentence, with those that there are and the options that name them."""
    there = ", ".join(map(str, frame.columns[:50])) + (", …" if frame.shape[1] > 50 else "")
    wanted, near = [], False
    for role, name in absent:
        meant = next(iter(get_close_matches(name.lower(), [str(c).lower() for c in frame.columns], 1)), None)
        close = next((str(c) for c in frame.columns if str(c).lower() == meant), None)
        near = near or close is not None
        what = "" if name == role else f" for the {role}"
        wanted.append(f"{name!r}{what}" + (f" (do you mean {close!r}?)" if close is not None else ""))
    options = ", ".join(dict.fromkeys(f"--{role}" for role, _ in absent))
    keywords = ", ".join(dict.fromkeys(f"{role}=" for role, _ in absent))
    alone = "; a table that is one trajectory needs a column with the same value in all rows"
    return InputError(
        f"There is no column {', none '.join(wanted)}; the table has the columns {there}; name the right "
        f"{'one' if len(absent) == 1 else 'ones'} with {options} (in Python {keywords})"
        f"{alone if absent[0][0] == 'trajectory' and not near else ''}."
    )


def count(frame: pd.DataFrame, name: str) -> int:
    """How often a file has a column of this name; pandas would take the first, and call the others NAME.1, …."""
    return int(frame.attrs.get(DOUBLED, {}).get(name, (frame.columns == name).sum()))


def check_single(frame: pd.DataFrame, name: str) -> None:
    """Refuse a column that is there more than once: nobody knows which of them is meant."""
    if (times := count(frame, name)) > 1:
        raise InputError(f"The column {name!r} appears {times} times; keep one or rename the others.")


def key_columns(frame: pd.DataFrame, name: str | Sequence[str]) -> tuple[str, ...]:
    """Columns behind a key: "animal,bout" are two, unless there is a column of that very name."""
    if not isinstance(name, str):
        return tuple(name)
    if name in frame.columns or "," not in name:
        return (name,)
    return tuple(part.strip() for part in name.split(","))
