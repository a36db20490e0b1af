"""What the columns of a table are: written once in study.toml, or recognised by their names and what is in them.

Every key of study.toml is a flag of the commands (``time_since`` is ``--time-since``); a command takes those that it
has, what is typed wins over it, and paths are relative to the file. Nothing is taken in silence, and what is not clear
is asked for in one sentence. A column ``group`` that holds a treatment is a condition and not the animals.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from cyclopts import App

from prism_irl import storage
from prism_irl.cli.options import ColumnOptions, Overwrite, given
from prism_irl.errors import InputError, brief, one_line

if TYPE_CHECKING:
    import pandas as pd

FILE = "study.toml"
_TEMPLATE = Path(__file__).with_name(FILE).read_text(encoding="utf-8")
_KEY = re.compile(r"^# (\w+) = (?:.+?)  # ", re.MULTILINE)
KEYS = {part.partition("]")[0]: _KEY.findall(part) for part in _TEMPLATE.split("\n[")[1:]}
"""Tables of the file → their keys."""
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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path} is no TOML file ({brief(error)}); prism init writes one.") from None
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
            if not (parts or key == "events") or not all(
                isinstance(part, str | int | float) and not isinstance(part, bool) for part in parts
            ):
                raise InputError(f"{key} in {path} is no name, number or list of names; give one.")
            words = [str(part) for part in parts]
            if key in PATHS and os.path.exists(path.parent / words[0]):  # no name that is too long is there
                words = [str(path.parent / words[0])]
            values[key] = words if key == "events" else [",".join(words)]
    return values


def with_study(app: App, arguments: list[str]) -> list[str]:
    """The arguments with what a study file says and nobody typed.

    The file is the one that ``--study`` names, or the one in the folder of the data. What
    was taken from it is said on standard error.
    """
    words, typed, rest = list[str](), None, iter(arguments)
    for word in rest:
        flag, _, value = word.partition("=")
        if flag != "--study":
            words.append(word)
        elif not (value := value or next(rest, "")):
            raise InputError("--study needs a file after it, such as --study study.toml.")
        else:
            typed = Path(value)
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
        if not typed.is_file() and first == "--table" and data is not None and chain not in (["init"], ["analyze"]):
            return [*words, *_recognised_flags(words, flags, data)]
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
        if key in FIT_ALONE and chain not in (["fit"], ["analyze"]):
            continue
        taken += [part for value in values for part in (flag, value)]
    if taken and "--quiet" not in words:
        print(one_line(f"prism: from {typed}: {' '.join(taken)}"), file=sys.stderr)
    return [*words, *taken]


def _recognised_flags(words: Sequence[str], flags: Container[str], table: Path) -> list[str]:
    """Flags of a table's columns where they have other names than the usual ones and are clear; said aloud."""
    if not table.is_file():
        return []
    from prism_irl.data.files import WRITABLE, headings

    typed: dict[str, str] = {}
    for word, after in zip(words, [*words[1:], ""], strict=True):
        flag, _, value = word.partition("=")
        if flag[2:] in (*NAMES, *NUMBERS) and flag in flags:
            typed[flag[2:]] = value or after
    usual = ("trajectory", "state", "action")
    if "--state" not in flags or table.suffix.lower() not in WRITABLE or not (there := headings(table)):
        return []
    if set(NUMBERS) & set(typed) or {role for role in usual if role not in typed} <= set(there):
        return []
    try:
        found = recognise(table, typed)
    except InputError:  # the command says what it lacks
        return []
    if "--quiet" not in words:
        print(one_line(f"prism: {found.said}"), file=sys.stderr)
    names = {role: name for role, name in found.columns.items() if role not in typed}
    names |= {} if found.hz is None or "--hz" in words else {"hz": f"{found.hz:g}"}
    events = [] if "--events" in words else found.events
    pairs = [*names.items(), *(("events", name) for name in events)]
    return [word for role, name in pairs if f"--{role}" in flags for word in (f"--{role}", name)]


def write_study(path: Path, table: str, found: Recognised) -> None:
    """Write a study file with comments, which says what was recognised and what else can be said."""
    known: dict[str, Any] = dict(found.columns) | ({} if found.hz is None else {"hz": found.hz})
    if found.events:
        known["events"] = found.events
    if found.conditions:
        known |= {"by": found.conditions[0]}
        known |= {"unit": found.columns["group"]} if "group" in found.columns else {}

    def line(match: re.Match[str]) -> str:
        if match[1] not in known:
            return match[0]
        value = json.dumps(known[match[1]], ensure_ascii=False)
        return f"{match[1]} = {value}  # ".replace("\x7f", "\\u007f")  # which JSON allows and TOML does not

    storage.write_text(path, _KEY.sub(line, _TEMPLATE.replace("TABLE", table, 1)))


# -- columns that are recognised ---------------------------------------------------------------------------------------

NAMES: dict[str, tuple[str, ...]] = {
    role: tuple(words.split())
    for role, words in {
        "trajectory": "trajectory bout episode ep session run demo rollout walk lap sequence block traj window day "
        "recording date trial",
        "state": "state s cell node position place location stimulus cue room patch zone area tile syllable context "
        "contrast coherence odor odour tone",
        "action": "action a move choice direction turn response movement dir decision act option button key heading "
        "side lever port poke step",
        "time": "time timestamp t seconds step trial frame date",
        "group": "animal mouse subject subj rat monkey participant patient individual user agent bird fish fly "
        "person id group",
        "intention": "intention subtask",
    }.items()
}
"""Usual names of a role's column, in any case and without units or a word such as id, the likeliest first."""
NUMBERS = ("observe", "act")
FILLERS = ("id", "nr", "number", "num", "name", "label", "idx", "ms", "s", "sec", "ns", "us")
CONDITIONS = ("group", "treatment", "condition", "drug", "genotype", "sex", "cohort", "phase", "epoch", "dose", "stage")
TREATMENTS = ("control", "ctrl", "saline", "vehicle", "drug", "treated", "sham", "lesion", "wt", "ko", "placebo")
MEASURED = ("rt", "reaction", "latency", "duration", "speed", "velocity", "pupil", "weight", "age", "distance")
"""Words in the names of quantities, which are no states or actions."""
AXES = (("x", "y", "z"), ("x", "y"), ("row", "col"), ("row", "column"))
"""Whole numbers that name a state together."""
POSITIONS = ("pos", "position", "obs", "observation", "state")
COMMANDS = ("vel", "velocity", "cmd", "command", "action", "act", "delta", "v", "d")
"""What stands before or behind the name of a number that is observed, or commanded: vx of x, vel_x of pos_x."""
FEW_WORDS = 10
"""Different words of a column called step or trial up to which they are no times."""
FEW = 0.2
"""Different values of a column, as a share of its rows, above which it holds no states."""


@dataclass
class Recognised:
    """What a table's columns were taken for.

    ``columns``: role or option → column, several with commas between. ``events``: columns that are 1 where something
    happened. ``conditions``: columns that compare animals or sessions. ``hz``: steps per second, where times are in
    milliseconds.
    """

    columns: dict[str, str] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    hz: float | None = None

    @property
    def said(self) -> str:
        """One line that says it all."""
        parts = [f"{role} {name}" for role, name in self.columns.items()]
        parts += [f"event {name}" for name in self.events] + [f"condition {name}" for name in self.conditions]
        parts += [] if self.hz is None else [f"{self.hz:g} steps per second"]
        return f"Columns: {', '.join(parts) or 'those that the file names'}."


def recognise(table: Path, given: dict[str, Any]) -> Recognised:
    """Columns of the roles that are not ``given``; an `InputError` names both where two may be meant."""
    from prism_irl.data.files import FILE as FILE_NAME
    from prism_irl.data.files import WRITABLE, matching, read_table_file

    suffix, events = table.suffix.lower(), list(given.get("events", ()))
    own = {role: str(name) for role, name in given.items() if role in (*NAMES, *NUMBERS)}
    if (vectors := _vectors(table, own)) is not None:
        return Recognised(vectors | own, events)
    if suffix not in (*WRITABLE, ".xlsx", ".nwb"):  # arrays, which name what they hold
        return Recognised(own, events)
    files = matching(table) if suffix in WRITABLE else [table]
    wanted = [own[role] for role in ("state", "action") if role in own]
    if suffix == ".nwb" and not wanted:  # a session may have several tables
        with suppress(InputError):
            return _recognise(read_table_file(table, wanted=("state", "action")), given)
    first = read_table_file(files[0], wanted=wanted)
    found = _recognise(first, given)
    if len(files) > 1 and "trajectory" not in given:
        if "group" not in found.columns:
            found.columns["group"] = FILE_NAME
        found.columns["trajectory"] = f"{FILE_NAME},{found.columns['trajectory']}"
    if len(files) > 1:  # what is the same in the whole file of an animal
        same = [str(name) for name in first if _core(str(name)) in CONDITIONS and first[name].nunique() == 1]
        found.conditions += [name for name in same if name not in found.columns.values()]
    return found


def _vectors(path: Path, given: Mapping[str, str]) -> dict[str, str] | None:
    """What is observed and done in a robot dataset; None of a table, nothing of other folders.

    Where there is no usual state or command, all that is called an observation or an action is meant; where one of
    them was not recorded at all, the other stands for both.
    """
    from prism_irl.robots.continuous import is_dataset
    from prism_irl.robots.episodes import open_episodes

    if not is_dataset(path):
        return {} if path.is_dir() else None
    source, words = open_episodes(path), ({"obs", "observation", "observations"}, {"action", "actions"})
    there = source.further_vectors()
    observe, act = (
        usual or ",".join(name for name in there if {*_words(name)[:1]} & own)
        for usual, own in zip(source.usual_vectors(), words, strict=True)
    )
    if not (observe or act or {"observe", "act"} & given.keys()):
        raise InputError(
            f"{path} has nothing called a state, an observation or an action; say what is observed and what is done "
            f"(--observe, --act) among {', '.join(there[:20]) or 'its columns'}."
        )
    return {role: name for role, name in (("observe", observe or act), ("act", act or observe)) if name}


def _recognise(frame: pd.DataFrame, given: dict[str, Any]) -> Recognised:
    from prism_irl.data.rows import column_of

    left = [str(name) for name in frame.columns]
    found = Recognised({role: str(name) for role, name in given.items() if role in (*NAMES, *NUMBERS)})
    taken = {part.strip() for name in found.columns.values() for part in name.split(",")} | {
        str(name) for name in given.get("events", ())
    }
    for name in sorted(taken - {"file"}):
        column_of(frame, name, "the study")
    left = [name for name in left if name not in taken]
    for role in ("group", "time", "intention"):
        if role not in found.columns and (names := _named(role, left)):
            if role == "time" and frame[names[0]].dtype.kind not in "iufM" and frame[names[0]].nunique() <= FEW_WORDS:
                continue
            if _core(names[0]) == "date" and 2 * frame[names[0]].nunique() < len(frame):  # the day of a session
                continue
            if _core(names[0]) == "group" and is_treatment(frame[names[0]]):
                continue
            found.columns[role] = names[0]
            left.remove(names[0])
    if "trajectory" not in found.columns:
        found.columns["trajectory"] = _trajectory(frame, left, found)
    unit = [name for name in found.columns["trajectory"].split(",") if name in frame.columns]
    alike = [name for name in left if name not in unit and unit and _constant(frame, name, unit)]
    found.conditions = [name for name in alike if _core(name) in CONDITIONS]
    tokens = {*NAMES["state"], *NAMES["action"]}
    alike = [name for name in alike if frame[name].dtype.kind != "f" and _core(name) not in tokens]
    left = [name for name in left if name not in unit and name not in alike]
    _tokens_or_numbers(frame, left, found)
    used = {part for name in found.columns.values() for part in name.split(",")}
    found.events = [*given.get("events", ())] or [name for name in left if name not in used and _marks(frame[name])]
    time = found.columns.get("time")
    if time is not None and unit and "ms" in re.findall(r"[^\W_]+", time.lower()) and frame[time].dtype.kind in "iuf":
        usual = float(frame.groupby(unit, dropna=False)[time].diff().median())
        found.hz = float(f"{1000 / usual:.6g}") if usual > 0 else None
    order = ("trajectory", "state", "action", "observe", "act", "time", "group", "intention")
    found.columns = {role: found.columns[role] for role in order if role in found.columns}
    return found


def _words(name: str) -> list[str]:
    """Words of a name in small letters, without what stands in brackets: mouse, id of MouseID; time of Time (s)."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", re.sub(r"\(.*?\)|\[.*?\]", "", name))
    return re.findall(r"[^\W_]+", plain.lower())


def _core(name: str) -> str:
    """The one word that a name is without fillers; all of it where there are several."""
    words = _words(name)
    kept = [word for word in words if word not in FILLERS] or words
    return kept[0] if len(kept) == 1 else " ".join(words)


def _named(role: str, left: Sequence[str]) -> list[str]:
    """Columns with a usual name of a role, the likeliest first."""
    found = [name for name in left if _core(name) in NAMES[role]]
    return sorted(found, key=lambda name: (NAMES[role].index(_core(name)), name.lower() != _core(name)))


def _trajectory(frame: pd.DataFrame, left: Sequence[str], found: Recognised) -> str:
    """Columns that name a trajectory together: what runs, and the animal where runs are numbered anew for each.

    A trial with several rows is a run and no time. What comes back within the others (a block), or has one row, is no
    run. Where rows of a trajectory have the same time, the one column that tells them apart is part of its name.
    """
    time, fixed = found.columns.get("time"), [found.columns["group"]] if "group" in found.columns else []
    named = [name for name in left if _core(name) in NAMES["trajectory"]]
    runs = [name for name in named if _core(name) == "trajectory"] or named

    def tied(keys: Sequence[str], clock: str | None) -> bool:
        return bool(keys and clock is not None and frame.duplicated([*keys, clock]).any())

    if time is not None and _core(time) == "trial" and tied([*fixed, *runs] or [time], time):
        runs, time = [*runs, time], None
        del found.columns["time"]
    for name in runs[::-1]:
        others = [*fixed, *(run for run in runs if run != name)]
        if others and not tied(others, time) and _is_no_run(frame, name, others):
            runs.remove(name)
    keys = runs if fixed and runs and _constant(frame, fixed[0], runs) else [*fixed, *runs]
    if not keys:
        raise InputError(
            f"No column of the table names the trajectory (there are {', '.join(left[:20])}); name it with "
            "--trajectory, or several that do so together: --trajectory animal,bout; a table that is one trajectory "
            "needs a column with the same value in all rows."
        )
    if tied(keys, time):
        few = [name for name in left if name not in runs and _is_token(frame[name]) and not tied([*keys, name], time)]
        more = [name for name in few if not _is_no_run(frame, name, keys)]
        keys = [*keys, *more] if len(more) == 1 else keys
    return ",".join(keys)


def _is_no_run(frame: pd.DataFrame, name: str, others: list[str]) -> bool:
    """Whether a column's values come back within the others, or change with every row."""
    unit = frame.groupby(others, dropna=False, sort=False).ngroup().to_numpy()
    both = frame.groupby([*others, name], dropna=False, sort=False).ngroup().to_numpy()
    ordered = both[unit.argsort(kind="stable")]
    blocks = 1 + int((ordered[1:] != ordered[:-1]).sum())
    return bool(blocks > both.max() + 1 or len(frame) < 2 * (both.max() + 1))


def _tokens_or_numbers(frame: pd.DataFrame, left: Sequence[str], found: Recognised) -> None:
    """State and action, or the columns that are observed and commanded where they are numbers."""
    if set(NUMBERS) & set(found.columns):
        return
    numbers = [name for name in left if frame[name].dtype.kind == "f"]
    observed = {_without(name, POSITIONS): name for name in numbers}
    commands = {name: _without(name, COMMANDS) for name in numbers}
    commands = {name: core for name, core in commands.items() if observed.get(core, name) != name}
    if commands and not {"state", "action"} & set(found.columns) and not _named("state", left):
        found.columns["observe"] = ",".join(name for name in numbers if name not in commands)
        found.columns["act"] = ",".join(commands)
        return
    for role in ("state", "action"):
        if role not in found.columns:
            found.columns[role] = _token(frame, [name for name in left if name not in found.columns.values()], role)


def _without(name: str, marks: Sequence[str]) -> str:
    """A name without the word before or behind it that says what kind of number it is: x of vx, vel_x and x_vel."""
    words = _words(name)
    for ends in (words[:1], words[-1:]):
        if len(words) > 1 and ends[0] in marks:
            return " ".join(words[1:] if ends == words[:1] else words[:-1])
    plain = " ".join(words)
    short = next((mark for mark in marks if len(mark) == 1 and plain.startswith(mark) and len(plain) > 1), "")
    return plain.removeprefix(short)


def _token(frame: pd.DataFrame, left: Sequence[str], role: str) -> str:
    """The column of a state or an action: its own name, else a usual one, else the only one that it can be."""
    usual = [name for name in left if _core(name) == role] or _named(role, left)
    if not usual and role == "state" and (axes := _axes(frame, left)):
        return axes
    if not usual:
        other = NAMES["action" if role == "state" else "state"]
        free = [name for name in left if _core(name) not in other and not {*MEASURED} & {*_words(name)}]
        usual = [name for name in free if _is_token(frame[name])]
    if len(usual) == 1:
        return usual[0]
    numbers = [name for name in left if frame[name].dtype.kind == "f"]
    if not usual and numbers:
        raise InputError(
            f"No column of the table looks like the {role}, and no number like the command of another (vx of x); name "
            f"them with --state and --action, or with --observe {','.join(numbers[:3])} and --act; positions become "
            "states where they are rounded to cells."
        )
    if not usual:
        there = ", ".join(map(str, frame.columns[:20]))
        raise InputError(f"No column of the table looks like the {role} (there are {there}); name it with --{role}.")
    raise InputError(
        f"The {role} may be {' or '.join(usual[:5])}; say which: --{role} {quote(usual[0])}, or write it into "
        "study.toml."
    )


def _axes(frame: pd.DataFrame, left: Sequence[str]) -> str:
    """Columns that name a cell of a grid together, such as x and y, with commas between; none where there are none."""
    from prism_irl.data.rows import whole_numbers

    own = {_without(name, POSITIONS): name for name in left}
    for axes in AXES:
        names = [own[axis] for axis in axes if axis in own]
        if len(names) == len(axes) and all(whole_numbers(frame[name].dropna()).dtype.kind in "iu" for name in names):
            cells = len(frame[names].drop_duplicates())
            return ",".join(names) if cells <= FEW * len(frame) else ""
    return ""


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
    overwrite: Overwrite = False,
) -> None:
    """Find out what the columns of a table are, and write it to study.toml, which every command reads.

    Example: prism init mouse.csv

    Parameters
    ----------
    table
        A .csv, .tsv, .parquet or Excel file, or several as one pattern in quotes.
    out
        File to write [default: study.toml beside the table].
    """
    target = table.parent / FILE if out is None else out
    if target.exists() and not overwrite:
        raise InputError(f"There is a {target} already; pass --overwrite to replace it, or another --out.")
    found = recognise(table, given(columns))
    write_study(target, one_line(table.name), found)
    print(one_line(found.said))
    print(one_line(f"Written to {target}; correct it there, and type prism analyze {table} next."))
