"""study.toml: what the columns of a study are, written once beside the data; what is typed wins over it.

Every key is a flag of the commands (``time_since`` is ``--time-since``); a command takes those that it has. Paths are
relative to the file.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from cyclopts import App

from prism_irl.errors import InputError, one_line

FILE = "study.toml"
KEYS: dict[str, tuple[str, ...]] = {
    "columns": (
        *("trajectory", "state", "action", "observe", "act", "time", "group", "intention", "labels", "events"),
        *("covariates", "time_since", "network_inputs"),
    ),
    "world": ("map", "grid", "dynamics", "valid_actions"),
    "units": ("hz", "dates", "max_gap", "missing", "ties"),
    "conditions": ("by", "unit"),
}
"""Tables of the file, and their keys."""
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

    def line(key: str, example: str, about: str) -> str:
        value = json.dumps(columns[key], ensure_ascii=False) if key in columns else None
        if key == "events" and events:
            value = json.dumps(events, ensure_ascii=False)
        if key == "by" and conditions:
            value = json.dumps(conditions[0], ensure_ascii=False)
        if key == "unit" and conditions and "group" in columns:
            value = json.dumps(columns["group"], ensure_ascii=False)
        return f"{key} = {value}  # {about}" if value is not None else f"# {key} = {example}  # {about}"

    text = [
        f"# What the columns of {table} are. Every command reads this from the folder of the data, or --study FILE;",
        "# what is typed wins. Take away the # of a line to use it.",
        "",
        "[columns]",
        line("trajectory", '"bout"', "names the trajectory; several together: animal,bout"),
        line("state", '"cell"', "where the agent is, or what it sees"),
        line("action", '"move"', "what it does there"),
        line("observe", '"x,y"', "numbers that are observed, instead of state"),
        line("act", '"vx,vy"', "numbers that are commanded, instead of action"),
        line("time", '"time"', "order of the steps, and their durations"),
        line("group", '"animal"', "the animal or operator"),
        line("events", '["water"]', "1 where something happened, shown on the page"),
        line("intention", '"intention"', "true intentions, for evaluation only"),
        line("covariates", '"thirst"', "may change switching; numbers or words"),
        line("time_since", '"water"', "events whose age may change switching"),
        line("labels", '"known.csv"', "intentions that somebody knows: a column, or a file"),
        "",
        "[world]",
        line("map", '"nodes.csv"', "state, x, y, and neighbours if you like: where states lie"),
        line("grid", '"5x5"', "width and height, instead of a map"),
        line("valid_actions", '"observed"', "actions that exist: those of the data, or a table"),
        line("dynamics", '"moves.csv"', "state, action, next_state, probability"),
        "",
        "[units]",
        line("hz", "30", "steps per second, where no column has times"),
        line("max_gap", "2.0", "cut a trajectory where more time than this passes"),
        "",
        "[conditions]",
        line("by", '"drug"', "what prism contrast compares"),
        line("unit", '"animal"', "over whom it compares"),
        "",
    ]
    path.write_text("\n".join(text), encoding="utf-8")
