"""Every method by its identifier: the only list of methods. Commands, help, docs, loading and experiments read it.

An identifier is one of `NAMED`, a pair of halves ("state+goals"), or a class of one's own ("module:Class", or the name
that an installed package announces as an entry point ``prism_irl.methods``). A variant is appended: `hiql-hauto`
(history and back-off chosen on validation data), `prism-recurrent-h2` (history 2), `state+goals-k4` (K = 4),
`prism-paper-lstm` (network), in any combination. Reading the list imports no method.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism_irl import halves, storage
from prism_irl.errors import InputError, brief
from prism_irl.rewards import REWARDS
from prism_irl.switching import SWITCHING

if TYPE_CHECKING:
    from torch import Tensor

    from prism_irl.models.base import IntentionModel


@dataclass(frozen=True)
class Entry:
    """A method that can be asked for: what people type (``id``) and read (``name``), and ``when`` to choose it.

    ``where`` is "module:Class", or a class method that builds it with the ``options`` that make it this method;
    ``switching`` and ``rewards`` are None for a method that is no pair; ``leaks`` says that its paper score is not a
    likelihood, because the gate sees the action.
    """

    id: str
    name: str
    where: str
    when: str
    switching: str | None = None
    rewards: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    takes_intentions: bool = True
    leaks: bool = False

    def build(self, n_intentions: int | None = None, **options: Any) -> IntentionModel:
        """Return the unfitted model."""
        if self.takes_intentions and n_intentions is not None:
            options["n_intentions"] = n_intentions
        model: IntentionModel = halves.locate(self.where, "method")(**{**self.options, **options})
        return model


@dataclass(frozen=True)
class Method:
    """A named method: an unfitted model that is cloned for every fit; the rest as in `Entry`."""

    id: str
    name: str
    model: IntentionModel
    leaks: bool = False


_LIST = """
uniform | Uniform over valid actions | references:Uniform | | the floor of every comparison
empirical | Empirical policy | references:Empirical | | how often each action was taken in each state
ngram | Back-off n-gram | references:NGram | | a habit without intentions: show it beside everything
bc | Behaviour cloning (LSTM) | cloning:BehaviourCloning | | how predictable the behaviour is at all
iavi | IAVI (single intention) | single:IAVI | single+tabular | one reward that explains the empirical policy exactly
iql | IQL (single intention) | single:IQL | single+iql | one reward, learned without a model of the world
maxent | MaxEnt | single:MaxEnt | | one reward on states, over whole paths (Ziebart 2008)
maxcausalent | MaxCausalEnt | single:MaxCausalEnt | | one reward on states that must plan (Ziebart 2010)
mixture | Trajectory mixture | presets:TrajectoryMixture | per-trajectory+tabular | one per trajectory (Babes 2011)
hiql | HIQL (Markov chain) | presets:HIQL | markov+tabular | the first thing to try: seconds, and intentions that last
swirl-1 | SWIRL S-1 | presets:SWIRL | state+soft-1 | planned rewards on states, switches by the state (Ke 2025)
swirl-2 | SWIRL S-2 | presets:SWIRL | state+soft-2 | planned rewards on transitions, switches by the state (Ke 2025)
dirl | DIRL | dirl:DIRL | | weights of goals that drift with time (Ashwood 2022)
prism-paper | PRISM, paper gate | presets:PRISM.paper | independent+tabular | the paper's own: it has seen the action
prism-past | PRISM, past gate | intentions:Intentions | independent+tabular | the paper's gate, unaware of the action
prism-recurrent | Recurrent switching | intentions:Intentions | recurrent+tabular | triggers of switches lie in the past
prism-markov | Markov switching, annealed starts | intentions:Intentions.annealed | markov+tabular | HIQL, better starts
prism-goals | Goals on a shared habit | presets:GoalPRISM | markov+goals | places to reach, beside what is done anyway
goals-that-end | Goals that end | intentions:Intentions | arrival+places | places to get to, and how many
phases | Phases of demonstrations | phases:Phases | | robots: stages of a task, in their order
prism-features | Policies on features | presets:FeaturePRISM | markov+features | observation vectors: robots
"""
_OPTIONS: dict[str, dict[str, Any]] = {
    "swirl-1": {"order": 1},
    "swirl-2": {"order": 2},
    "prism-paper": {"experiment": "gridworld"},
    "prism-past": {"switching": "independent"},
    "prism-recurrent": {"switching": "recurrent", "rewards": "tabular"},
    "goals-that-end": {"switching": "arrival", "rewards": "places"},
}
_ONE_INTENTION = {"uniform", "empirical", "ngram", "bc", "iavi", "iql", "maxent", "maxcausalent"}


def _named(row: str) -> Entry:
    """A line of the list: identifier, name, where it is, its pair, when to choose it."""
    id, name, where, halves_of, when = (part.strip() for part in row.split("|"))
    switching, _, rewards = halves_of.partition("+")
    return Entry(
        id,
        name,
        f"prism_irl.models.{where}",
        when,
        switching or None,
        rewards or None,
        _OPTIONS.get(id, {}),
        takes_intentions=id not in _ONE_INTENTION,
        leaks=id == "prism-paper",
    )


NAMED: dict[str, Entry] = {entry.id: entry for entry in map(_named, _LIST.strip().splitlines())}
"""Published methods and references by their identifiers."""
_ESTIMATOR = NAMED["prism-past"].where
VARIANT = re.compile(r"-(h\d+|hauto|ind|k\d+|rnn|lstm|gru|transformer)$")


def pair(identifier: str) -> Entry:
    """The method behind "switching+rewards"; a pair that makes no sense is refused with its reason."""
    switching, _, rewards = (part.strip() for part in identifier.partition("+"))
    kind = halves.options_class("switching", switching, SWITCHING)
    reason = halves.options_class("rewards", rewards, REWARDS).unsuited.get(switching)
    if reason is not None:
        raise InputError(reason)
    about = [known[name].about for known, name in ((SWITCHING, switching), (REWARDS, rewards)) if name in known]
    options: dict[str, Any] = {"switching": switching, "rewards": rewards}
    single = kind.defaults.get("n_intentions") == 1
    if single:
        options["n_intentions"] = 1
    name, when = f"{switching} + {rewards}", "; ".join(about)
    return Entry(identifier, name, _ESTIMATOR, when, switching, rewards, options, takes_intentions=not single)


def pairs() -> list[Entry]:
    """Every pair that makes sense."""
    unsuited = {rewards: halves.options_class("rewards", rewards, REWARDS).unsuited for rewards in REWARDS}
    return [pair(f"{one}+{rewards}") for one in SWITCHING for rewards in REWARDS if one not in unsuited[rewards]]


def entries() -> list[Entry]:
    """Named methods, those that installed packages announce, and every pair."""
    return [*NAMED.values(), *(outside(name) for name in announced()), *pairs()]


def announced() -> dict[str, str]:
    """Methods of installed packages: name → "module:Class"."""
    return {found.name: found.value for found in entry_points(group="prism_irl.methods")}


def outside(identifier: str) -> Entry:
    """A method of one's own, "module:Class" or announced; its class may say ``method_name`` and ``when``."""
    known = announced()
    where = known.get(identifier, identifier)
    found = given_class(where)
    takes = "n_intentions" in inspect.signature(found.__init__).parameters
    name = getattr(found, "method_name", found.__name__)
    when = getattr(found, "when", (inspect.getdoc(found) or "a method of your own").splitlines()[0])
    return Entry(identifier, name, where, when, takes_intentions=takes, leaks=bool(found.__dict__.get("leaks") is True))


def find(identifier: str) -> Entry:
    """The entry behind an identifier without variants."""
    if identifier in NAMED:
        return NAMED[identifier]
    if "+" in identifier:
        return pair(identifier)
    if ":" in identifier or identifier in announced():
        return outside(identifier)
    if identifier == "prism":
        raise InputError(
            "prism is two methods: prism-past, whose gate sees the past only (prism before version 0.2), and "
            "prism-paper, the paper's own, whose gate has seen the action; name one of them."
        )
    raise InputError(
        f"There is no method {identifier!r}; choose among {', '.join(NAMED)}, a pair such as state+goals, or "
        "module:Class for your own (prism methods lists them)."
    )


def method(identifier: str, n_intentions: int | None = None, **options: Any) -> Method:
    """Return the unfitted method behind an identifier, variants included.

    ``options`` are passed on as far as the method knows them, so that one set serves a whole comparison.
    """
    base, notes = identifier, list[str]()
    variants: dict[str, Any] = {}
    while base not in NAMED and (found := VARIANT.search(base)) is not None:
        base, suffix = base[: found.start()], found.group(1)
        if suffix == "hauto":
            own, note = {"history": "auto", "backoff": "auto", "recount": True}, "history chosen"
        elif suffix == "ind":
            own, note = {"individuals": True}, "individuals"
        elif suffix[0] == "h":
            own, note = {"history": int(suffix[1:])}, f"history {suffix[1:]}"
        elif suffix[0] == "k":
            own, note = {"n_intentions": int(suffix[1:])}, f"K={suffix[1:]}"
        else:
            own, note = {"network": suffix}, suffix.upper()
        variants |= own
        notes.append(note)
    entry = find(base)
    refused = InputError(f"{identifier!r} is no variant that {base} has.")
    if not entry.takes_intentions and "n_intentions" in variants:
        raise refused
    n_intentions = variants.pop("n_intentions", n_intentions)
    try:
        model = entry.build(n_intentions, **variants)
    except TypeError:
        raise refused from None
    if not set(variants) - {"recount"} <= model.parameters_read():
        raise refused
    accepted = model.get_params(deep=False)
    model.set_params(**{key: value for key, value in options.items() if key in accepted})
    full = entry.name + (f" ({', '.join(reversed(notes))})" if notes else "")
    return Method(identifier, full, model, leaks=entry.leaks)


def methods(identifiers: str, n_intentions: int | None = None, **options: Any) -> list[Method]:
    """The methods of a comma-separated list, as people type it."""
    return [method(name.strip(), n_intentions, **options) for name in identifiers.split(",") if name.strip()]


_CLASSES = {entry.where.partition(":")[2].split(".")[0]: entry.where for entry in NAMED.values()}
"""Class name → where it is, of every method of this package."""


def class_name(model: type) -> str:
    """What a saved model calls its class: plain for ours, "module:Class" for those of others."""
    inside = model.__module__.startswith("prism_irl.") and model.__name__ in _CLASSES
    return model.__name__ if inside else f"{model.__module__}:{model.__qualname__}"


def class_of(name: str) -> type[IntentionModel]:
    """Undo `class_name`, without importing anything that nobody but a file asks for."""
    if name in _CLASSES:
        return given_class(f"{_CLASSES[name].partition(':')[0]}:{name}")
    module = name.partition(":")[0]
    if ":" not in name:
        raise InputError(f"There is no method of the class {name!r} in this version; use the version that wrote it.")
    if module not in sys.modules and name not in announced().values():
        raise InputError(
            f"The model is of the class {name}, which is not part of prism; import {module} first, or say that you "
            f"trust it: --method {name}."
        )
    return given_class(name)


def given_class(given: type | str, saved: str | None = None) -> type[IntentionModel]:
    """A class of a method, or "module:Class", that somebody named on purpose; else that of a ``saved`` model.

    What is named is imported first, be it the class or a component of a saved pair.
    """
    from prism_irl.models.base import IntentionModel

    found = halves.locate(given, "method") if isinstance(given, str) else given
    if isinstance(found, type) and issubclass(found, IntentionModel):
        return found
    if saved is None:
        raise InputError(f"{given!r} is no method: a method is a subclass of prism_irl.models.base.IntentionModel.")
    return class_of(saved)


def save(model: IntentionModel, folder: str | Path, extra: dict[str, Any] | None = None) -> None:
    """Write a fitted model; ``extra`` is kept in config.json beside the model's own parameters."""
    model._check_fitted()
    target = Path(folder)
    with storage.writing(target):
        target.mkdir(parents=True, exist_ok=True)
    config = {
        "format_version": storage.VERSION,
        "method": class_name(type(model)),
        "parameters": halves.parameters_json(model),
        "versions": storage.versions(),
        **(extra or {}),
    }
    storage.save_described(target / "config.json", config, target / "model.safetensors", model._state(), model._info())


def load(folder: str | Path, method: type[IntentionModel] | str | None = None) -> IntentionModel:
    """Read a fitted model back; its output is identical to that of the model that was saved.

    A model from outside the package is found where its module is imported already, where an installed package
    announces it (entry point ``prism_irl.methods``), or as ``method``, the class or its "module:Class" (for a pair with
    a half from outside, that half): a file never decides by itself what is imported.
    """
    source = Path(folder)
    if not source.is_dir():
        raise InputError(f"There is no folder {source}; give the folder that a fit wrote.")
    config, tensors, info = storage.load_described(source / "config.json", source / "model.safetensors")
    check_numbers(source, tensors)
    try:
        written = str(config.get("versions", {}).get("prism-irl", "0.1.0"))
        name = str(config["method"])
        name = "Intentions" if written.startswith("0.1.") and name == "PRISM" else name
        known = class_of(name) if method is None else given_class(method, name)
        for half in ("switching", "rewards"):
            if ":" in str(config["parameters"].get(half, "")) and isinstance(config["parameters"][half], str):
                halves.check_known(config["parameters"][half])
        parameters = {name: halves.from_json(value) for name, value in config["parameters"].items()}
        model: IntentionModel = known(**parameters)
        model._load_state(tensors, info)
    except (KeyError, TypeError, RuntimeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{source} holds a model that this version cannot read ({brief(error)}); use the version that wrote it."
        ) from error
    return model


def check_numbers(source: Path, tensors: dict[str, Tensor]) -> None:
    """Refuse NaN and infinities; the value of an action that does not exist is −inf, as a logarithm may be."""
    for name, value in tensors.items():
        if not value.is_floating_point() or bool(value.isfinite().all()):
            continue
        last = name.rpartition(".")[2]
        if last in ("q", "q_", "habit") or last.startswith("log_"):
            value = value[value != -math.inf]
        if not bool(value.isfinite().all()):
            raise InputError(f"The array {name} of the model in {source} is not finite; restore it or fit again.")
