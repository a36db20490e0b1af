"""Which column of a table is what: by its name, then by what is in it; what is not clear is asked for in one sentence.

Nothing is taken in silence: `Recognised.said` says what every column was taken for. A column ``group`` that holds a
treatment is a condition and not the animals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from prism_irl.data.files import WRITABLE, matching
from prism_irl.data.read import read_rows
from prism_irl.errors import InputError

NAMES: dict[str, tuple[str, ...]] = {
    "trajectory": ("trajectory", "bout", "episode", "session", "run", "demo", "walk", "sequence", "block", "traj"),
    "state": ("state", "cell", "node", "position", "place", "location", "stimulus", "cue", "room", "patch"),
    "action": ("action", "move", "choice", "direction", "turn", "response", "movement"),
    "time": ("time", "timestamp", "t", "seconds", "step", "trial", "frame"),
    "group": ("animal", "mouse", "subject", "rat", "monkey", "participant", "animal_id", "subject_id", "id", "group"),
    "intention": ("intention",),
}
"""Usual names of a role's column, in any case, the likeliest first."""
CONDITIONS = ("group", "treatment", "condition", "drug", "genotype", "sex", "cohort")
TREATMENTS = ("control", "ctrl", "saline", "vehicle", "drug", "treated", "sham", "lesion", "wt", "ko", "placebo")
COMMANDS = ("v", "d", "vel_", "cmd_", "command_", "action_", "act_", "delta_")
"""What stands before the name of an observed number where a column holds its command: vx of x."""
FEW = 0.2
"""Different values of a column, as a share of its rows, above which it holds no states."""


@dataclass
class Recognised:
    """What a table's columns were taken for.

    ``columns``: role or option → column, several with commas between. ``events``: columns that are 1 where something
    happened. ``conditions``: columns that compare animals or sessions.
    """

    columns: dict[str, str] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)

    @property
    def said(self) -> str:
        """One line that says it all."""
        parts = [f"{role} {name}" for role, name in self.columns.items()]
        parts += [f"event {name}" for name in self.events] + [f"condition {name}" for name in self.conditions]
        return f"Columns: {', '.join(parts)}."


def read_first(table: Path) -> tuple[pd.DataFrame, bool]:
    """Rows of a table, or of the first of several files behind one pattern, and whether there are several."""
    files = matching(table)
    return read_rows(files[0]), len(files) > 1


def recognise(table: Path, given: dict[str, Any]) -> Recognised:
    """Columns of the roles that are not ``given``; an `InputError` names both where two may be meant."""
    if table.is_dir() or table.suffix.lower() not in WRITABLE:  # a robot dataset or arrays, which name what they hold
        roles = {role: str(name) for role, name in given.items() if role in (*NAMES, "observe", "act")}
        return Recognised(roles, list(given.get("events", ())))
    frame, several = read_first(table)
    found = _recognise(frame, given)
    if several and "trajectory" not in given:
        found.columns["trajectory"] = f"file,{found.columns['trajectory']}"
    return found


def _recognise(frame: pd.DataFrame, given: dict[str, Any]) -> Recognised:
    left = [str(name) for name in frame.columns]
    found = Recognised({role: str(name) for role, name in given.items() if role in (*NAMES, "observe", "act")})
    taken = {part.strip() for name in found.columns.values() for part in name.split(",")} | {
        str(name) for name in given.get("events", ())
    }
    left = [name for name in left if name not in taken]
    for role in ("group", "time", "intention"):
        if role not in found.columns and (name := _named(role, left)) is not None:
            if name.lower() == "group" and is_treatment(frame[name]):
                continue
            found.columns[role] = name
            left.remove(name)
    if "trajectory" not in found.columns:
        found.columns["trajectory"] = _trajectory(frame, left, found.columns.get("group"))
        left = [name for name in left if name not in found.columns["trajectory"].split(",")]
    unit = found.columns["trajectory"].split(",")
    found.conditions = [name for name in left if name.lower() in CONDITIONS and _constant(frame, name, unit)]
    left = [name for name in left if name not in found.conditions]
    _tokens_or_numbers(frame, left, found)
    used = {part for name in found.columns.values() for part in name.split(",")}
    found.events = [*given.get("events", ())] or [name for name in left if name not in used and _marks(frame[name])]
    order = ("trajectory", "state", "action", "observe", "act", "time", "group", "intention")
    found.columns = {role: found.columns[role] for role in order if role in found.columns}
    return found


def _named(role: str, left: Sequence[str]) -> str | None:
    """The column with the likeliest name of a role."""
    low = {name.lower(): name for name in reversed(left)}
    return next((low[name] for name in NAMES[role] if name in low), None)


def _trajectory(frame: pd.DataFrame, left: Sequence[str], group: str | None) -> str:
    """Columns that name a trajectory together: what runs, and the animal where runs are numbered anew for each."""
    runs = [name for name in left if name.lower() in NAMES["trajectory"] and name.lower() != "trajectory"]
    runs = [name for name in left if name.lower() == "trajectory"] or runs
    if not runs and group is None:
        raise InputError(
            f"No column of the table names the trajectory (there are {', '.join(left[:20])}); name it with "
            "--trajectory, or several that do so together: --trajectory animal,bout."
        )
    if group is None or (runs and _constant(frame, group, runs)):
        return ",".join(runs)
    return ",".join([group, *runs])


def _tokens_or_numbers(frame: pd.DataFrame, left: Sequence[str], found: Recognised) -> None:
    """State and action, or the columns that are observed and commanded where they are numbers."""
    if {"observe", "act"} & set(found.columns):
        return
    numbers = [name for name in left if pd.api.types.is_float_dtype(frame[name])]
    plain = {name.lower(): name for name in numbers}
    commands = [
        name
        for name in numbers
        for start in COMMANDS
        if name.lower().startswith(start) and name.lower().removeprefix(start) in plain
    ]
    if commands and not {"state", "action"} & set(found.columns) and _named("state", left) is None:
        found.columns["observe"] = ",".join(name for name in numbers if name not in commands)
        found.columns["act"] = ",".join(dict.fromkeys(commands))
        return
    for role in ("state", "action"):
        if role not in found.columns:
            found.columns[role] = _token(frame, [name for name in left if name not in found.columns.values()], role)


def _token(frame: pd.DataFrame, left: Sequence[str], role: str) -> str:
    """The column of a state or an action: its own name, else a usual one, else the only one that it can be."""
    exact = [name for name in left if name.lower() == role]
    usual = exact or [name for name in left if name.lower() in NAMES[role]]
    other = NAMES["action" if role == "state" else "state"]
    if not usual:
        usual = [name for name in left if name.lower() not in other and _is_token(frame[name])]
    if len(usual) == 1:
        return usual[0]
    if not usual:
        there = ", ".join(map(str, frame.columns[:20]))
        raise InputError(f"No column of the table looks like the {role} (there are {there}); name it with --{role}.")
    raise InputError(
        f"The {role} may be {' or '.join(usual[:5])}; say which: --{role} {usual[0]}, or write it into study.toml."
    )


def _is_token(column: pd.Series[Any]) -> bool:
    """Whether a column holds values that come back: words or whole numbers, few, and more than a mark."""
    if pd.api.types.is_float_dtype(column) or _marks(column):
        return False
    return 2 <= column.nunique() <= max(FEW * len(column), 2)


def _marks(column: pd.Series[Any]) -> bool:
    """Whether a column is 1 (or true) where something happened and 0 elsewhere."""
    if pd.api.types.is_bool_dtype(column):
        return bool(column.any())
    return bool(pd.api.types.is_numeric_dtype(column) and set(column.dropna().unique()) == {0, 1})


def _constant(frame: pd.DataFrame, name: str, unit: Sequence[str]) -> bool:
    """Whether a column has one value in every unit, and several in all."""
    return bool(frame.groupby(list(unit), dropna=False)[name].nunique().max() == 1 and frame[name].nunique() > 1)


def is_treatment(column: pd.Series[Any]) -> bool:
    """Whether values of a column called group are names of treatments rather than of animals."""
    return any(str(value).strip().lower() in TREATMENTS for value in column.dropna().unique()[:20])
