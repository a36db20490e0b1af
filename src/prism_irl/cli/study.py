"""What the columns of a table are: written once in study.toml, or recognised by their names and what is in them.

Every key of study.toml is a flag of the commands (``time_since`` is ``--time-since``); a command takes those that it
has, what is typed wins over it, and paths are relative to the file. Nothing is taken in silence, and what is not clear
is asked for in one sentence. A column ``group`` that holds a treatment is a condition and not the animals.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from prism_irl.cli.options import ColumnOptions, given
from prism_irl.errors import InputError, one_line

if TYPE_CHECKING:
    import pandas as pd

FILE = "study.toml"
_LINES = """
[columns]
trajectory | "bout" | names the trajectory; several together: animal,bout
state | "cell" | where the agent is, or what it sees
action | "move" | what it does there
observe | "x,y" | numbers that are observed, instead of state
act | "vx,vy" | numbers that are commanded, instead of action
time | "time" | order of the steps, and their durations
group | "animal" | the animal or operator
events | ["water"] | 1 where something happened, shown on the page
intention | "intention" | true intentions, for evaluation only
covariates | "thirst" | may change switching; numbers or words
time_since | "water" | events whose age may change switching
network_inputs | "speed" | further numbers that a switching network may read
labels | "known.csv" | intentions that somebody knows: a column, or a file
[world]
map | "nodes.csv" | state, x, y, and neighbours if you like: where states lie
grid | "5x5" | width and height, instead of a map
valid_actions | "observed" | actions that exist: those of the data, or a table
dynamics | "moves.csv" | state, action, next_state, probability
[units]
hz | 30 | steps per second, where no column has times
max_gap | 2.0 | cut a trajectory where more time than this passes
dates | "day-first" | what comes first in times such as 3/4/2026
missing | "skip" | what becomes of rows without state or action: skip or split
ties | "keep" | rows of a trajectory at the same time: keep their order
[conditions]
by | "drug" | what prism contrast compares
unit | "animal" | over whom it compares
"""
KEYS: dict[str, dict[str, tuple[str, str]]] = {}
"""Tables of the file → their keys, each with an example and what it is."""
for _line in _LINES.strip().splitlines():
    if _line.startswith("["):
        KEYS[_line.strip("[]")] = {}
    else:
        _key, _example, _about = _line.split(" | ")
        KEYS[list(KEYS)[-1]][_key] = _example, _about
PATHS = ("map", "dynamics", "valid_actions", "labels")
FIT_ALONE = ("covariates", "time_since", "network_inputs", "labels")
"""What describes a fit: other commands that read a table do without."""
EITHER = {"state": ("observe", "act"), "action": ("observe", "act"), "observe": ("state",), "act": ("action",)}
EITHER |= {"map": ("grid",), "grid": ("map",)}
"""Keys that a typed flag makes pointless."""


def read_study(path: Path) -> dict[str, list[str]]:
    """Values of every key of a study file, as they would be typed."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read {path} ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no TOML file ({one_line(str(error))}); prism init writes one.") from None
    values: dict[str, list[str]] = {}
    for table, content in found.items():
        if table not in KEYS or not isinstance(content, Mapping):
            raise InputError(f"{path} has an unknown table [{table}]; there are {', '.join(KEYS)}.")
        for key, value in content.items():
            if key not in KEYS[table]:
                near = get_close_matches(key, KEYS[table], 1)
                meant = f"; do you mean {near[0]}?" if near else f"; there are {', '.join(KEYS[table])}."
                raise InputError(f"{path} has an unknown key {key!r} in [{table}]{meant}")
            parts = value if isinstance(value, list) else [value]
            if not all(isinstance(part, str | int | float) and not isinstance(part, bool) for part in parts):
                raise InputError(f"{key} in {path} is no name, number or list of names; give one.")
            words = [str(part) for part in parts]
            if key in PATHS and (path.parent / words[0]).exists():
                words = [str(path.parent / words[0])]
            values[key] = words if key == "events" else [",".join(words)]
    return values


def with_study(app: App, arguments: list[str]) -> list[str]:
    """The arguments with what a study file says and nobody typed.

    The file is the one that ``--study`` names, or the one in the folder of the data. What
    was taken from it is said on standard error.
    """
    words, typed = _without_study(arguments)
    command, chain = app, []
    for word in words:
        if word.startswith("-") or word not in command:
            break
        command = command[word]
        chain.append(word)
    if command.default_command is None or {"--help", "-h", "--help-all", "--version"} & set(words):
        return words
    collection = command.assemble_argument_collection()
    flags = {name for argument in collection for name in argument.names}
    first = next((argument.name for argument in collection if argument.field_info.is_positional), "")
    data = next((Path(word) for word in words[len(chain) :] if not word.startswith("-")), None)
    if typed is None:
        here = Path() if first != "--table" or data is None else data if data.is_dir() else data.parent
        named = (
            first == "--table" and data is not None and not data.suffix and not data.exists()
        )  # a data set by its name
        typed = here / FILE if not named else Path(FILE, FILE)
        if chain == ["init"] or not typed.is_file():
            return words
    said = {word.partition("=")[0] for word in words}
    taken: list[str] = []
    for key, values in read_study(typed).items():
        flag = f"--{key.replace('_', '-')}"
        others = {f"--{other}" for other in EITHER.get(key, ())}
        of_table = first == "--table" or key in KEYS["conditions"]
        if flag not in flags or flag in said or others & said or not of_table:
            continue
        if key in FIT_ALONE and chain != ["fit"]:
            continue
        taken += [part for value in values for part in (flag, value)]
    if taken and "--quiet" not in words:
        print(one_line(f"prism: from {typed}: {' '.join(taken)}"), file=sys.stderr)
    return [*words, *taken]


def _without_study(arguments: list[str]) -> tuple[list[str], Path | None]:
    """Arguments without ``--study FILE``, and the file."""
    words, found = [], None
    rest = iter(arguments)
    for word in rest:
        flag, _, value = word.partition("=")
        if flag != "--study":
            words.append(word)
            continue
        found = value or next(rest, "")
        if not found:
            raise InputError("--study needs a file after it, such as --study study.toml.")
    return words, None if found is None else Path(found)


def write_study(path: Path, table: str, columns: Mapping[str, str], events: list[str], conditions: list[str]) -> None:
    """Write a study file with comments, which says what was recognised and what else can be said."""
    known: dict[str, Any] = dict(columns)
    if events:
        known["events"] = events
    if conditions:
        known |= {"by": conditions[0]} | ({"unit": columns["group"]} if "group" in columns else {})
    text = [
        f"# What the columns of {table} are. Every command reads this from the folder of the data, or --study FILE;",
        "# what is typed wins. Take away the # of a line to use it.",
    ]
    for heading, keys in KEYS.items():
        text += ["", f"[{heading}]"]
        for key, (example, about) in keys.items():
            value = f"{key} = {json.dumps(known[key], ensure_ascii=False)}" if key in known else f"# {key} = {example}"
            text.append(f"{value}  # {about}")
    path.write_text("\n".join([*text, ""]), encoding="utf-8")


# -- columns that are recognised ---------------------------------------------------------------------------------------

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


def recognise(table: Path, given: dict[str, Any]) -> Recognised:
    """Columns of the roles that are not ``given``; an `InputError` names both where two may be meant."""
    from prism_irl.data.read import WRITABLE, matching, plain_table

    if table.is_dir() or table.suffix.lower() not in WRITABLE:  # a robot dataset or arrays, which name what they hold
        roles = {role: str(name) for role, name in given.items() if role in (*NAMES, "observe", "act")}
        return Recognised(roles, list(given.get("events", ())))
    files = matching(table)
    found = _recognise(plain_table(files[0]), given)
    if len(files) > 1 and "trajectory" not in given:
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
    numbers = [name for name in left if frame[name].dtype.kind == "f"]
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
    if column.dtype.kind == "f" or _marks(column):
        return False
    return 2 <= column.nunique() <= max(FEW * len(column), 2)


def _marks(column: pd.Series[Any]) -> bool:
    """Whether a column is 1 (or true) where something happened and 0 elsewhere."""
    if column.dtype.kind == "b":
        return bool(column.any())
    return column.dtype.kind in "iuf" and set(column.dropna().unique()) == {0, 1}


def _constant(frame: pd.DataFrame, name: str, unit: Sequence[str]) -> bool:
    """Whether a column has one value in every unit, and several in all."""
    return bool(frame.groupby(list(unit), dropna=False)[name].nunique().max() == 1 and frame[name].nunique() > 1)


def is_treatment(column: pd.Series[Any]) -> bool:
    """Whether values of a column called group are names of treatments rather than of animals."""
    return any(str(value).strip().lower() in TREATMENTS for value in column.dropna().unique()[:20])


def init(
    table: Path,
    *,
    columns: ColumnOptions = ColumnOptions(),
    out: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Find out what the columns of a table are, and write it to study.toml, which every command reads.

    Example: prism init mouse.csv

    Parameters
    ----------
    table
        A .csv, .tsv, .parquet or Excel file, or several as one pattern in quotes.
    out
        File to write [default: study.toml beside the table].
    overwrite
        Replace the file that is there.
    """
    target = table.parent / FILE if out is None else out
    if target.exists() and not overwrite:
        raise InputError(f"There is a {target} already; pass --overwrite to replace it, or another --out.")
    found = recognise(table, given(columns))
    try:
        write_study(target, table.name, found.columns, found.events, found.conditions)
    except OSError as error:
        raise InputError(f"Cannot write {target} ({error.strerror}); choose another --out.") from None
    print(one_line(found.said))
    print(one_line(f"Written to {target}; correct it there, and type prism analyze {table} next."))
