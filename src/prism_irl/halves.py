"""The two halves of a method, by name: how one is looked up, filled with options, and written down.

A half is a frozen dataclass of options that knows how to build itself (`switching.base.SwitchingOptions`,
`rewards.base.RewardOptions`). `switching.SWITCHING` and `rewards.REWARDS` give each a name and one line that says when
to choose it, without importing it; a half from outside the package is named ``module:Class``.
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from prism_irl import limits
from prism_irl.errors import InputError, brief

OWN_MODULES = "PRISM_OWN_MODULES"
"""Variable of the environment: the folder and the names of a user's own modules, for processes that work for this."""


class Half(NamedTuple):
    """Where the options of a half are defined ("module:Class"), and when to choose it."""

    where: str
    about: str


def locate(where: str, what: str) -> Any:
    """Import ``module:Name`` (or ``module:Name.attribute``); of a user's own also from the current folder."""
    module, _, names = where.partition(":")
    try:
        with nullcontext() if module.partition(".")[0] == "prism_irl" else _current_folder():
            found: Any = import_module(module)
    except Exception as error:  # whatever somebody's module does when it is imported
        reason = brief(error)
        raise InputError(f"The {what} {where!r} cannot be imported ({reason}); is its package installed?") from error
    for name in names.split("."):
        if not hasattr(found, name):
            raise InputError(f"The module {module} has no {name!r}, which should be a {what}; check the spelling.")
        found = getattr(found, name)
    return found


@contextmanager
def _current_folder() -> Iterator[None]:
    """Import from the current folder, too; later, and in processes that work for this one, only what is found now."""
    folder, before = os.getcwd(), set(sys.modules)
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
    new = {name: getattr(sys.modules[name], "__file__", None) for name in set(sys.modules) - before}
    own = {name.partition(".")[0] for name, file in new.items() if file and Path(file).is_relative_to(folder)}
    if own:
        os.environ[OWN_MODULES] = os.pathsep.join([folder, *sorted(own)])


class _OwnModules(MetaPathFinder):
    """Finds modules that a user named in the folder where a command was typed, and nothing else there."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Where a module is that `OWN_MODULES` lists."""
        folder, *own = os.environ[OWN_MODULES].split(os.pathsep)
        return PathFinder.find_spec(name, [folder], target) if name in own else None


if OWN_MODULES in os.environ:  # a process that was started to work for another one
    sys.meta_path.append(_OwnModules())


def options_class(what: str, name: str, known: Mapping[str, Half]) -> Any:
    """Class of the options behind a name of ``known``, or behind ``module:Class``."""
    if name in known:
        return locate(known[name].where, what)
    if not isinstance(name, str) or ":" not in name:
        raise InputError(f"There is no {what} {name!r}; choose {', '.join(known)}, or module:Class for your own.")
    found = locate(name, what)
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise InputError(f"{name} is no {what}; give a dataclass of options that builds it (docs/project/extend.md).")
    return found


def resolve(what: str, given: Any, known: Mapping[str, Half], parameters: Mapping[str, Any]) -> Any:
    """Options of a half: as given, or behind its name, filled with the ``parameters`` that it knows by name."""
    if not isinstance(given, str):
        if not dataclasses.is_dataclass(given) or isinstance(given, type):
            raise InputError(f"The {what} is {given!r}; give a name ({', '.join(known)}) or its options.")
        return given
    kind = options_class(what, given, known)
    own = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in parameters.items() if name in own})


def name_of(given: Any, known: Mapping[str, Half]) -> str:
    """The name behind a half that was given as a name or as options."""
    if isinstance(given, str):
        return given
    where = f"{type(given).__module__}:{type(given).__qualname__}"
    return next((name for name, half in known.items() if half.where == where), where)


def to_json(value: Any) -> Any:
    """Options as a dictionary that names their class; everything else as it is."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    return {"half": f"{type(value).__module__}:{type(value).__qualname__}", **dataclasses.asdict(value)}


def parameters_json(model: Any) -> dict[str, Any]:
    """Parameters of an estimator as they are in force, defaults of its pair included, ready for JSON."""
    return {name: to_json(getattr(model, name)) for name in model.get_params(deep=False)}


def from_json(value: Any) -> Any:
    """Undo `to_json`. A file must not import what it likes: the module is one of ours, or is there already."""
    if not (isinstance(value, dict) and "half" in value):
        return value
    where = str(value["half"])
    check_known(where)
    module, _, name = where.partition(":")
    if module.startswith(("prism_irl.switching.", "prism_irl.rewards.")):
        where = f"{module.rpartition('.')[0]}.options:{name}"  # version 0.1.0 kept options beside their models
    kind = locate(where, "half of a method")
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise InputError(f"{where!r} is no half of a method; the file is damaged.")
    return kind(**{name: _tuples(option) for name, option in value.items() if name != "half"})


def check_known(where: str) -> None:
    """Raise an `InputError` where "module:Class" of a file is neither ours nor imported already."""
    module = where.partition(":")[0]
    if not module.startswith("prism_irl.") and module not in sys.modules:
        raise InputError(
            f"The model was fitted with {where}, which is not part of prism; import {module} first, or say that you "
            f"trust it: --method {where}."
        )


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def check_numbers(
    owner: Any, lowest: Mapping[str, float], *, below: float = math.inf, integer: bool = False, above: bool = False
) -> None:
    """Parameters must be numbers (whole ones) of at least ``lowest``, or ``above`` it, and less than ``below``."""
    for name, low in lowest.items():
        value = getattr(owner, name)
        if isinstance(value, bool) or not isinstance(value, Integral if integer else Real):
            raise InputError(f"{name} must be a {'whole ' if integer else ''}number, not {value!r}.")
        limits.check_option(name, value)
        if not low <= float(value) < below or (above and value == low):
            limit = "" if below == math.inf else f" and below {below}"
            raise InputError(f"{name} must be {'above' if above else 'at least'} {low}{limit}, not {value}.")


def check_fields(options: Any) -> None:
    """Options must be as their class says: ``words`` that are allowed, ``lowest`` numbers, and whole ones."""
    check_choice(options, **options.words)
    check_numbers(options, options.lowest)
    check_numbers(options, options.lowest_whole, integer=True)


def check_choice(options: Any, **choices: tuple[str, ...]) -> None:
    """Options must be one of the words allowed."""
    for name, allowed in choices.items():
        if getattr(options, name) not in allowed:
            raise InputError(f"{name} is {getattr(options, name)!r}; choose {', '.join(allowed)}.")
