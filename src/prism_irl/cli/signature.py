"""The options of a dataclass as flags: name, type, default and documentation of every field."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from typing import Any, NamedTuple, Union

from docstring_parser import parse


class Option(NamedTuple):
    """One field of a dataclass."""

    type: Any
    default: Any
    help: str


def read_options(kind: type) -> dict[str, Option]:
    """Fields of a dataclass by name, documented by its docstring or that of the base class that has them."""
    documented: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        for entry in parse(inspect.cleandoc(vars(base).get("__doc__") or "")).params:
            text = " ".join((entry.description or entry.type_name or "").split())
            documented |= dict.fromkeys(entry.arg_name.replace(" ", "").split(","), text)
    hints = typing.get_type_hints(kind)
    return {
        field.name: Option(_typed(hints[field.name]), field.default, documented.get(field.name, ""))
        for field in dataclasses.fields(kind)
    }


def _typed(hint: Any) -> Any:
    """The type on a command line, where a component is given by its name and not by its options."""
    if not isinstance(hint, types.UnionType):
        return hint
    return Union[tuple(part for part in typing.get_args(hint) if not dataclasses.is_dataclass(part))]  # noqa: UP007
