"""What is wrong with a command line, in a sentence that says what to type instead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError, MissingArgumentError
from cyclopts.exceptions import UnusedCliTokensError

EXAMPLE = "Example:"


def in_words(app: App, error: CycloptsError, arguments: list[str]) -> str:
    """One sentence for what the parser did not like; its own, where that is clear enough."""
    chain = error.command_chain or ()
    command = " ".join(chain) or "prism"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        name = str(error.argument.name)
        if any(word == name or word.startswith(f"{name}=") for word in arguments):
            return f"{name} needs a value after it{_example(app, chain)}."
        if error.argument.field_info.is_positional:
            name = name.removeprefix("--").upper()
        return f"{command} needs {name}, which is missing{_example(app, chain)}."
    if isinstance(error, UnusedCliTokensError):
        unused = [str(word) for word in error.unused_tokens or ()]
        words = " ".join(unused)
        if len(unused) > 1 and all(Path(word).suffix.lower() in (".csv", ".tsv", ".parquet") for word in unused):
            several = f'"*{Path(unused[0]).suffix}"'
            return f"{command} takes one table, or several as one pattern in quotes: {command} {several}, not {words}."
        return f"{command} does not know what to do with {words}; options begin with --, see prism {command} --help."
    return str(error)


def _example(app: App, chain: Sequence[str]) -> str:
    """The example of the command's help, as the end of a sentence."""
    found: Any = app
    for name in chain:
        found = found[name]
    text = getattr(found.default_command, "__doc__", None) or ""
    lines = [line.strip() for line in text.splitlines()]
    shown = next((line.removeprefix(EXAMPLE).strip() for line in lines if line.startswith(EXAMPLE)), "")
    return f"; for example: {shown}" if shown else f"; see {' '.join(['prism', *chain])} --help"
