"""Options that commands share, as frozen dataclasses that the command line fills in.

The model's options are made from the fields of `PRISM` and of its components, names, types and documentation, so
that the Python interface and the command line cannot drift apart. An option that was not given stays with the
preset's or the method's value, or with the model's default.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union

from cyclopts import Group, Parameter
from docstring_parser import parse

from prism_irl import halves, limits
from prism_irl.errors import InputError
from prism_irl.models import registry
from prism_irl.models.default import default_pair, usual_pair
from prism_irl.models.settings import Settings
from prism_irl.rewards import REWARDS
from prism_irl.switching import SWITCHING

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.models.base import IntentionModel

START = Group("Start here", sort_key=0)
OWN_DATA = Group("Your data", sort_key=1)
EXPERIMENTS = Group("Experiments", sort_key=2)
ROBOTS = Group("Robots", sort_key=3)
HELP = Group("Help", sort_key=4)
"""Headings under which `prism --help` shows its commands, in this order."""
RENAMED = {
    "n_intentions": "intentions",
    "inputs": "covariates",
    "since": "time-since",
    "observations": "network-inputs",
    "recount": "count-all",
    "power": "window-weight",
}
"""Flags of parameters that have another name in Python."""
COMPONENTS = {"switching": SWITCHING, "rewards": REWARDS}
ORDER = "Phases of demonstrations come once and in order, in a cycle, or in any order [of phases; default: auto]."
PAPER = ("gridworld", "labyrinth", "bridge")
"""Experiments of the paper that have a preset."""


Seed = Annotated[int, Parameter(help="The one source of randomness.")]
Jobs = Annotated[int, Parameter(help="Fits, resamples or simulations that are made at the same time.")]
OwnMethod = Annotated[str | None, Parameter(help="MODULE:CLASS of the model, where it is not one of this package.")]
Overwrite = Annotated[bool, Parameter(help="Replace what is there already.")]

UNREAD = ("events", "inputs", "since", "hz", "episodes", "task")
"""What is said of the data and is no column that a table is read with."""


@Parameter(name="*")
@dataclass(frozen=True)
class ColumnOptions:
    """Which columns of the table hold what."""

    trajectory: str | None = None
    "Column that names the trajectory, or several that do so together: animal,bout [default: trajectory]."
    state: str | None = None
    "Column with the state, or several that name it together: x,y [default: state]."
    action: str | None = None
    "Column with the action [default: action]."
    episodes: str | None = None
    "Episodes of a robot dataset to read, numbers and ranges with commas between: 0,3,10:20 [default: all]."
    task: str | None = None
    "Part of the instruction of the episodes of a robot dataset to read [default: all]."
    observe: str | None = None
    "Columns that are observed, with commas between: continuous states, instead of --state."
    act: str | None = None
    "Columns that are done, with commas between: continuous actions, instead of --action."
    time: str | None = None
    "Column to sort the steps of a trajectory by [default: time, if there is one]."
    group: str | None = None
    "Column with the animal, operator or other group [default: group, if there is one]."
    intention: str | None = None
    "Column with true intentions, for evaluation only [default: intention, if there is one]."
    labels: str | None = None
    "Column with intentions where somebody knows them, empty or -1 elsewhere, or a .csv, .tsv or .parquet file with \
trajectory, step (or start, end; in seconds start_s, end_s) and label: partial labels, which clamp the E-step."
    place: str | None = None
    "Column with the place that a state belongs to, a junction whatever the heading [default: place, if there is one]."
    hz: float | None = None
    "Steps per second, for seconds in --labels and --window [default: by the times, or the frames, of the data]; of a \
LeRobot dataset with more, every n-th frame is read."
    observations: Annotated[tuple[str, ...], Parameter(name="--network-inputs")] = ()
    "Columns with further numbers that the switching network may read."
    ties: Literal["error", "keep"] | None = None
    "Rows of a trajectory at the same time: refuse them, or keep the order of the file [default: error]."
    max_gap: float | None = None
    "Cut a trajectory where more time than this passes between two rows; seconds, where times are dates."
    dates: Literal["day-first", "month-first"] | None = None
    "What comes first in times such as 3/4/2026 [default: whatever makes a date of every cell; ISO dates need nothing]."
    events: tuple[str, ...] = ()
    "Column with 1 where something happened (water came), else 0: marked in the report, unseen by a fit; may repeat."

    missing: Literal["error", "skip", "split"] | None = None
    "Rows without state or action: skip (a step that counts for nothing), split the trajectory there [default: error]."
    inputs: Annotated[str | None, Parameter(name="--covariates")] = None
    "Columns with covariates of switching, comma-separated (thirst,sex): numbers or words, standardised."
    since: Annotated[str | None, Parameter(name="--time-since")] = None
    "Columns with 1 at an event (water came), comma-separated: the time since the last one is a covariate of switching."

    def roles(self) -> dict[str, Any]:
        """The columns that were named and that a table is read with."""
        return {role: name for role, name in given(self).items() if role not in UNREAD}

    def read_with(self) -> dict[str, Any]:
        """`roles`, and of how many steps per second, where that is said: new recordings are read in the same way."""
        return self.roles() | ({} if self.hz is None else {"hz": self.hz})

    def covariates(self) -> tuple[list[str], list[str]]:
        """Columns of --covariates and of --time-since."""
        found = ([name.strip() for name in (text or "").split(",")] for text in (self.inputs, self.since))
        inputs, since = ([name for name in names if name] for names in found)
        return inputs, since


@Parameter(name="*")
@dataclass(frozen=True)
class WorldOptions:
    """What is known of the world; pictures, planning and likelihoods use it, and it is saved with the run."""

    map: Path | None = None
    "Table with state, x, y (y upwards) and, if you like, neighbours (3 7); rows with x2, y2 and no state are walls."
    grid: str | None = None
    "Width and height of a grid, such as 5x5, whose states are numbered row by row from the lower left."
    dynamics: Path | None = None
    "Table with state, action, next_state, probability, or .npz with one (S, A, S) array [default: counted]."
    valid_actions: str | None = None
    "Table with the pairs state, action that exist, or the word observed: those of the data [default: all]."

    def described(self) -> dict[str, str]:
        """What was said, for config.json."""
        return {name: value.name if isinstance(value, Path) else str(value) for name, value in given(self).items()}


@Parameter(name="*")
@dataclass(frozen=True)
class CommonOptions:
    """Options of every command."""

    json: bool = False
    "Print the result as JSON on standard output."
    quiet: bool = False
    "No progress, neither a bar nor a line per minute."
    debug: bool = False
    "Show the full stack trace of an error."


@Parameter(name="*")
@dataclass(frozen=True)
class FitsOptions:
    """How many fits are made at the same time, and where."""

    jobs: int = 2
    "Fits that run at the same time."
    scheduler: str | None = None
    "Address of a running Dask scheduler, tcp://host:port, whose workers make the fits instead of this machine."

    def __post_init__(self) -> None:
        """Refuse numbers of processes and of folds that make no sense, before anything is read."""
        for name, value in vars(self).items():
            limits.check_option(name, value)


@Parameter(name="*")
@dataclass(frozen=True)
class FoldOptions(FitsOptions):
    """How data is cut for a cross-validation, and where its fits are made."""

    folds: int = 5
    "Parts of the cross-validation."
    by: Literal["trajectory", "group"] = "trajectory"
    "What a fold keeps together."


@Parameter(name="*")
@dataclass(frozen=True)
class FittedOptions:
    """How a fitted model reads new data."""

    method: str | None = None
    "MODULE:CLASS of the model, where it is not one of this package."
    time: str | None = None
    "Column to sort the steps of a trajectory by [default: the one that the fit was sorted by]."
    unknown_state: bool = False
    "Accept states that the fit never saw; there all intentions act uniformly."
    intention: str | None = None
    "Column with true intentions, for evaluation [default: intention, if there is one]."


def flag_of(name: str) -> str:
    """The flag of a parameter."""
    return f"--{RENAMED.get(name, name).replace('_', '-')}"


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
    for name, hint in hints.items():  # a component is given by its name there, and not by its options
        if isinstance(hint, types.UnionType):
            parts = tuple(part for part in typing.get_args(hint) if not dataclasses.is_dataclass(part))
            hints[name] = Union[parts]  # noqa: UP007
    return {
        field.name: Option(hints[field.name], field.default, documented.get(field.name, ""))
        for field in dataclasses.fields(kind)
    }


@cache
def _owners() -> dict[str, dict[Option, list[str]]]:
    """Components that have an option of a name, those together that have the same one."""
    found: dict[str, dict[Option, list[str]]] = {}
    for half, (where, _) in {**SWITCHING, **REWARDS}.items():
        for name, option in read_options(halves.locate(where, "component")).items():
            found.setdefault(name, {}).setdefault(option, []).append(half)
    return found


def owners(name: str) -> str | None:
    """What reads a parameter: "switching", "rewards", or None for any pair."""
    of = {half for variants in _owners().get(name, {}).values() for half in variants}
    if not of:
        return None
    return "switching" if of <= set(SWITCHING) else "rewards" if of <= set(REWARDS) else None


def _model_options() -> type:
    """Fields of the estimator, and those that only a component of a pair has, each with the components that read it."""
    found = {name: option for name, option in read_options(Settings).items() if name != "observe"}  # columns, as a flag
    for name, variants in _owners().items():
        if name in ("inputs", "observe"):  # set by --covariates; by presets
            continue
        if name in found:
            of = sorted({half for halves_of in variants.values() for half in halves_of})
            default = "" if found[name].default is None else f"; default: {found[name].default}"
            found[name] = found[name]._replace(help=f"{found[name].help} [of {', '.join(of)}{default}]")
            continue
        texts = [f"{option.help} [of {', '.join(of)}; default: {option.default}]" for option, of in variants.items()]
        found[name] = next(iter(variants))._replace(help=" ".join(texts))
    found["order"] = Option(Literal["auto", "once", "cycle", "free"], None, ORDER)
    fields: list[Any] = []
    for name, option in found.items():
        text = option.help + (
            "" if option.default is None or "default:" in option.help else f" [default: {option.default}]"
        )
        flag = Parameter(name=flag_of(name), help=text)
        optional: Any = option.type | types.NoneType
        fields.append((name, Annotated[optional, flag], dataclasses.field(default=None)))
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


def build_model(
    options: Any,
    preset: str | None = None,
    method: str | None = None,
    demos: Demonstrations | None = None,
    *,
    phases: bool = True,
) -> IntentionModel:
    """Return the unfitted model: of a preset, of a method, of a pair, or the one that suits the demonstrations.

    ``method`` is an identifier of `prism_irl.models.registry`: a named method, a pair, or MODULE:CLASS from outside.
    Options are checked against the model that is fitted. Without ``phases``, continuous data get a pair in any case.
    """
    from prism_irl.models.intentions import Intentions

    said = given(options)
    for name, value in said.items():
        limits.check_option(name, value)
    pair = {name: said[name] for name in COMPONENTS if name in said}
    if "order" in said and method is None and preset is None:
        method = "phases"
    if method is not None and (preset is not None or pair):
        raise InputError("A method is a pair already; pass --method, or --switching and --rewards, or a preset.")
    if method is not None:
        return _with_options(registry.method(method, said.get("n_intentions")).model, said, method)
    if preset is not None:
        if preset.removeprefix("paper-") not in PAPER:
            choices = ", ".join(f"paper-{experiment}" for experiment in PAPER)
            raise InputError(f"There is no preset {preset!r}; choose {choices}.")
        from prism_irl.models.presets import PRISM

        changes = {"network": said["network"]} if "network" in said else {}
        return _with_options(PRISM.paper(preset.removeprefix("paper-"), **changes), said, preset)
    continuous = demos is not None and demos.state_space.continuous
    model = Intentions(**pair)
    model._usual_pair = usual_pair(continuous=continuous, windows="window" in said)
    if pair or demos is None:
        return _with_options(model, said, f"{model.switching}+{model.rewards}")
    of_components = set(said) - set(model.get_params(deep=False))
    if not of_components:
        free = Intentions(**said)
        if phases and (suited := free.suited(demos)) is not free:
            return suited
    switching, rewards = model._usual_pair if "window" in said else default_pair(demos)[:2]
    named = Intentions(switching=switching, rewards=rewards)
    chosen = _with_options(named, said, f"{switching}+{rewards}, which suits these data,")
    return chosen if of_components else free  # which may find that other switching predicts better


def _with_options(model: IntentionModel, said: dict[str, Any], name: str) -> IntentionModel:
    """Set what was said: parameters of the model, and of a pair also options that one component alone has."""
    known = model.get_params(deep=False)
    pair = {what: getattr(model, what) for what in ("switching", "rewards") if what in known}
    named = {
        what: kind for what, kind in pair.items() if isinstance(kind, str) and (kind in COMPONENTS[what] or ":" in kind)
    }
    classes = {what: halves.options_class(what, kind, COMPONENTS[what]) for what, kind in named.items()}
    read = model.parameters_read()
    model.set_params(**{option: value for option, value in said.items() if option in known and option in read})
    rest = {option: value for option, value in said.items() if not (option in known and option in read)}
    for what, kind in classes.items():
        own = {field.name for field in dataclasses.fields(kind)} & set(rest)
        if own:
            shared = {option: getattr(model, option) for option in known}
            options = shared | {option: rest.pop(option) for option in own}
            model.set_params(**{what: halves.resolve(what, pair[what], COMPONENTS[what], options)})
    for option in rest:
        if option != "n_intentions" or rest[option] != model.n_intentions:
            found = [
                f"{half} {what}"
                for what, known_halves in COMPONENTS.items()
                for half, (where, _) in known_halves.items()
                if option in {field.name for field in dataclasses.fields(halves.locate(where, what))}
            ]
            readers = f", which belongs to {', '.join(found)}" if found else ""
            raise InputError(f"{name} does not read {flag_of(option)}{readers}; leave it out.")
    return model
