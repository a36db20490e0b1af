"""Help of a command: one screen of what is needed first (`--help`), or every flag by group (`--help-all`).

Flags of the data, the world and the model are fields of dataclasses (`cli.options`); the screen shows those of them
that `MAIN` names, beside the command's own.
"""

from __future__ import annotations

import shutil
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cyclopts import App

MAIN = """
--trajectory --state --action --observe --act --time --group --labels --covariates --map --grid --method --intentions
--switching --rewards --history --individuals --n-starts --seed --out --resume --overwrite --json
""".split()  # noqa: SIM905
"""Flags of shared groups that one screen shows."""
HEADINGS = {"ColumnOptions": "Data", "WorldOptions": "Data", "ModelOptions": "Model", "CommonOptions": "Output"}
HEADINGS |= {"RunFolder": "Output", "FitsOptions": "Fits", "FoldOptions": "Fits"}
STUDY = "--study", "PATH", "What the columns are, once for all [default: study.toml beside the data]."
"""Read before a command is (`cli.study`), and no flag of any."""
ORDER = ("Data", "Command", "Model", "Model: switching", "Model: rewards", "Fits", "Output")
WIDTH = 80


def show_help(app: App, arguments: list[str], *, everything: bool) -> bool:
    """Print the help of the command that the arguments name; False where they name none, or a group of commands."""
    command, used = app, list[str]()
    for word in (word for word in arguments if not word.startswith("-")):
        if word not in command:
            break
        command = command[word]
        used.append(word)
    if command.default_command is None:
        return False
    print("\n".join(_lines(command, ["prism", *used], everything=everything)))
    return True


def _lines(command: App, name: list[str], *, everything: bool) -> Iterator[str]:
    """The help, line by line, at most `WIDTH` wide on any terminal."""
    from docstring_parser import parse

    text = parse(command.default_command.__doc__ or "")
    long = (text.long_description or "").split("\n\n")
    examples = [" ".join(part.split()) for part in long if part.startswith("Example:")]
    flags = _flags(command)
    positional = [flag.upper() for _, flag, *_ in flags if not flag.startswith("--")]
    yield f"Usage: {' '.join([*name, *positional])} [options]"
    yield ""
    yield from textwrap.wrap(text.short_description or "", WIDTH)
    yield from (line for part in long if not part.startswith("Example:") for line in textwrap.wrap(part, WIDTH))
    yield ""
    for example in examples if everything else examples[:2]:
        yield from textwrap.wrap(example, WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    wide = WIDTH if not everything else max(WIDTH, min(shutil.get_terminal_size((100, 24)).columns, 120))
    flags += [("Data", *STUDY, True)] if any(flag == "--trajectory" for _, flag, *_ in flags) else []
    for heading in dict.fromkeys((*ORDER, *(heading for heading, *_ in flags))):
        own = [
            (flag, kind, words) for where, flag, kind, words, main in flags if where == heading and (everything or main)
        ]
        if own:
            yield ""
            yield heading.replace(": ", ", read by some ") if heading.startswith("Model:") else heading
        for flag, kind, words in own:
            first = f"  {flag.upper() if not flag.startswith('--') else flag} {kind}".rstrip()
            if not everything:  # the first clause, which fits beside its flag
                for stop in (". ", "; ", " ["):
                    words = words.split(stop)[0] if len(words) > WIDTH - 26 and stop in words else words
                words = textwrap.shorten(words.rstrip("."), WIDTH - 26, placeholder=" …")
            body = textwrap.wrap(words, wide - 26, break_on_hyphens=False) or [""]
            if len(first) > 24:
                lines = textwrap.wrap(first.replace("|", "| "), wide, subsequent_indent="    ")
                yield from (line.replace("| ", "|") for line in lines)
                first = ""
            yield f"{first:<26}{body[0]}".rstrip()
            yield from (f"{'':<26}{line}" for line in body[1:])
    if not everything:
        yield ""
        yield f"Every flag, with the component that reads it: {' '.join(name)} --help-all"


def _flags(command: App) -> list[tuple[str, str, str, str, bool]]:
    """Heading, flag, what it takes, what it is, and whether one screen shows it, of every flag of a command."""
    from prism_irl.cli.options import owners

    found, heading, shared = [], "Command", False
    for argument in command.assemble_argument_collection(parse_docstring=True):
        if argument.names == ("*",):
            parts = typing.get_args(argument.hint) or (argument.hint,)
            kind = parts[0].__name__
            shared, heading = True, HEADINGS.get(kind, "Command")
            continue
        if not argument.keys:
            shared, heading = False, "Command"
        flag, where = argument.names[0], heading
        if argument.field_info.is_positional:
            flag, where = flag.removeprefix("--"), "Data"
        if where == "Model" and (what := owners(argument.keys[-1])) is not None:
            where = f"Model: {what}"
        words = " ".join((argument.parameter.help or "").replace("`", "").split())
        main = not shared or flag in MAIN
        found.append((where, flag, _takes(argument.hint), words, main))
    return found


def _takes(hint: Any) -> str:
    """What a flag takes, in a word."""
    union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    parts = [part for part in typing.get_args(hint) if part is not types.NoneType] if union else [hint]
    words = []
    for part in parts:
        if typing.get_origin(part) is typing.Literal:
            words += [str(choice) for choice in typing.get_args(part)]
        else:
            words.append({bool: "", int: "N", float: "X", Path: "PATH", str: "NAME"}.get(part, "NAME"))
    return "|".join(dict.fromkeys(words))
