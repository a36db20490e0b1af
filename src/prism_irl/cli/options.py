"""Options that commands share, as frozen dataclasses that the command line fills in.

The model's options are made from the constructor of `PRISM`, names, types and documentation, so that the Python
interface and the command line cannot drift apart. An option that was not given stays with the preset's or the
method's value, or with the model's default.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from prism_irl.cli.signature import read_constructor
from prism_irl.errors import InputError

if TYPE_CHECKING:
    from prism_irl.models.base import IntentionModel

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


@Parameter(name="*")
@dataclass(frozen=True)
class CommonOptions:
    """Options of every command."""

    json: bool = False
    "Print the result as JSON on standard output."
    debug: bool = False
    "Show the full stack trace of an error."


def _model_options() -> type:
    from docstring_parser import parse

    found = read_constructor("prism_irl.models.prism", "PRISM")
    documented = {entry.arg_name: entry.description for entry in parse(found.doc).params}
    fields: list[Any] = []
    for name, kind in found.types.items():
        text = next((d for names, d in documented.items() if name in names.replace(" ", "").split(",")), "") or ""
        help_text = f"{' '.join(text.split())} [default: {found.defaults[name]}]"
        option = Parameter(name=f"--{RENAMED.get(name, name).replace('_', '-')}", help=help_text)
        optional: Any = kind | types.NoneType
        fields.append((name, Annotated[optional, option], dataclasses.field(default=None)))
    made = dataclasses.make_dataclass("ModelOptions", fields, frozen=True)
    made.__doc__ = "Options of the model."
    made.__module__ = __name__  # annotations are resolved in the module that a class claims to be from
    return Parameter(name="*")(made)


if typing.TYPE_CHECKING:
    ModelOptions = Any
else:
    ModelOptions = _model_options()


def given(options: Any) -> dict[str, Any]:
    """Only what was said of a group of options; nothing where none was."""
    if options is None:
        return {}
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return {name: value for name, value in values.items() if value is not None and value != ()}


def build_model(options: Any, preset: str | None = None, method: str | None = None) -> IntentionModel:
    """Return the unfitted model: PRISM on a preset or its defaults, or another method, with the options given.

    ``method`` is an identifier of `prism_irl.models.registry`, or MODULE:CLASS for a class from outside.
    """
    said = given(options)
    if method is not None:
        if preset is not None:
            raise InputError("A preset is a model of the paper and --method another; pass one of them.")
        return _build_method(method, said)
    from prism_irl.models.prism import PAPER, PRISM

    if preset is None:
        return PRISM(**said)
    name = preset.removeprefix("paper-")
    if name not in PAPER:
        choices = ", ".join(f"paper-{experiment}" for experiment in PAPER)
        raise InputError(f"There is no preset {preset!r}; choose {choices}.")
    return PRISM.paper(name, **said)


def _build_method(method: str, said: dict[str, Any]) -> IntentionModel:
    if ":" in method:
        model = import_method(method)()
    else:
        from prism_irl.models import registry
        from prism_irl.models.prism import PRISM

        model = registry.method(method, said.get("n_intentions", PRISM().n_intentions)).model
    known = model.get_params(deep=False)
    for name in said:
        if name not in known and (name != "n_intentions" or said[name] != model.n_intentions):
            option = RENAMED.get(name, name).replace("_", "-")
            raise InputError(f"{method} has no option --{option}; leave it out or choose another method.")
    model.set_params(**{name: value for name, value in said.items() if name in known})
    return model


def import_method(address: str) -> type[IntentionModel]:
    """Import MODULE:CLASS, a method from outside this package; modules of the current folder are found too."""
    module, _, name = address.partition(":")
    if not (module and name):
        raise InputError(f"The method {address!r} cannot be read; write MODULE:CLASS, such as my_models:Mine.")
    from prism_irl.models.base import IntentionModel

    if "" not in sys.path:  # the installed command does not look where it is called
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"The method {address!r} cannot be imported ({error}); check its module and class.") from None
    if not (isinstance(found, type) and issubclass(found, IntentionModel)):
        raise InputError(f"{address} is no method; give a class derived from prism_irl.models.base.IntentionModel.")
    return found
