"""Options that commands share, as frozen dataclasses that the command line fills in.

The model's options are made from the constructor of `PRISM`, names, types and documentation, so that the Python
interface and the command line cannot drift apart. An option that was not given stays with the preset's value, or
with the model's default.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter
from docstring_parser import parse

from prism_irl.errors import InputError
from prism_irl.models.prism import PAPER, PRISM

RENAMED = {"n_intentions": "intentions"}


@Parameter(name="*")
@dataclass(frozen=True)
class ColumnOptions:
    """Which columns of the table hold what."""

    trajectory: str | None = None
    "Column with the trajectory identifier [default: trajectory]."
    state: str | None = None
    "Column with the state [default: state]."
    action: str | None = None
    "Column with the action [default: action]."
    time: str | None = None
    "Column to sort the steps of a trajectory by [default: time, if there is one]."
    group: str | None = None
    "Column with the animal, operator or other group [default: group, if there is one]."
    intention: str | None = None
    "Column with true intentions, for evaluation only [default: intention, if there is one]."
    observations: tuple[str, ...] = ()
    "Columns with further numbers that the switching network may read."

    def given(self) -> dict[str, Any]:
        """Only what was said."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value}


@Parameter(name="*")
@dataclass(frozen=True)
class CommonOptions:
    """Options of every command."""

    json: bool = False
    "Print the result as JSON on standard output."
    debug: bool = False
    "Show the full stack trace of an error."


def _model_options() -> type:
    documented = {entry.arg_name: entry.description for entry in parse(PRISM.__doc__ or "").params}
    signature = inspect.signature(PRISM.__init__)
    hints = typing.get_type_hints(PRISM.__init__)
    fields: list[Any] = []
    for name, parameter in list(signature.parameters.items())[1:]:
        text = next((d for names, d in documented.items() if name in names.replace(" ", "").split(",")), "") or ""
        default = f" [default: {parameter.default}]"
        help_text = " ".join(text.split()) + default
        option = Parameter(name=f"--{RENAMED.get(name, name).replace('_', '-')}", help=help_text)
        optional: Any = hints[name] | types.NoneType
        annotation = Annotated[optional, option]
        fields.append((name, annotation, dataclasses.field(default=None)))
    made = dataclasses.make_dataclass("ModelOptions", fields, frozen=True)
    made.__doc__ = "Options of the model."
    made.__module__ = __name__  # annotations are resolved in the module that a class claims to be from
    return Parameter(name="*")(made)


if typing.TYPE_CHECKING:
    ModelOptions = Any
else:
    ModelOptions = _model_options()


def build_model(options: Any, preset: str | None) -> PRISM:
    """PRISM with the options that were given, on top of a preset or of the defaults."""
    given = {} if options is None else {n: v for n, v in dataclasses.asdict(options).items() if v is not None}
    if preset is None:
        return PRISM(**given)
    name = preset.removeprefix("paper-")
    if name not in PAPER:
        choices = ", ".join(f"paper-{experiment}" for experiment in PAPER)
        raise InputError(f"There is no preset {preset!r}; choose {choices}.")
    return PRISM.paper(name, **given)
