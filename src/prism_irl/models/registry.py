"""Every method by its identifier: what `prism compare --methods` takes and metrics.json uses.

A variant is appended to an identifier: `prism-recurrent-h2` (history 2), `hiql-hauto` (history and back-off chosen on
validation data), `prism-paper-k4` (K = 4), `prism-paper-lstm` (network), in any combination.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from prism_irl.errors import InputError
from prism_irl.models.base import IntentionModel
from prism_irl.models.cloning import BehaviourCloning
from prism_irl.models.dirl import DIRL
from prism_irl.models.goals import GoalPRISM
from prism_irl.models.hiql import HIQL
from prism_irl.models.mixture import TrajectoryMixture
from prism_irl.models.prism import PRISM
from prism_irl.models.references import NGram, Uniform
from prism_irl.models.single import IAVI, IQL, MaxCausalEnt, MaxEnt
from prism_irl.models.swirl import SWIRL

Builder = Callable[..., IntentionModel]


@dataclass(frozen=True)
class Method:
    """A named method: an unfitted model that is cloned for every fit.

    Parameters
    ----------
    id : str
        Identifier in metrics.json and on the command line.
    name : str
        What people read.
    model : IntentionModel
    leaks : bool
        Its paper score is not a likelihood, because the gate sees the action.
    """

    id: str
    name: str
    model: IntentionModel
    leaks: bool = False


def _paper(n_intentions: int, **options: Any) -> PRISM:
    return PRISM.paper("gridworld", n_intentions=n_intentions, **options)


def _annealed(n_intentions: int, history: int | Literal["auto"] = 1, **memory: Any) -> PRISM:
    """Return HIQL's chain, looked for harder: annealed starts.

    Without memory there is little to overfit, and starts are compared on all trajectories: good optima differ by less
    than a tenth of the data can tell. Memory needs validation trajectories, to choose its length and to stop in time.
    """
    if "network" in memory:
        raise TypeError("A Markov chain has no network.")
    settings: dict[str, Any] = {"starts": "annealed", "n_starts": 8, "n_candidates": 1, "device": "cpu"}
    if history == 1:
        settings["validation_fraction"] = 0.0
    return PRISM(n_intentions, switching="markov", history=history, **settings, **memory)


BUILDERS: dict[str, tuple[str, Builder, bool]] = {
    "uniform": ("Uniform over valid actions", Uniform, False),
    "iavi": ("IAVI (single intention)", IAVI, False),
    "iql": ("IQL (single intention)", IQL, False),
    "maxent": ("MaxEnt", MaxEnt, False),
    "maxcausalent": ("MaxCausalEnt", MaxCausalEnt, False),
    "ngram": ("Back-off n-gram", NGram, False),
    "bc": ("Behaviour cloning (LSTM)", BehaviourCloning, False),
    "mixture": ("Trajectory mixture", TrajectoryMixture, True),
    "hiql": ("HIQL (Markov chain)", HIQL, True),
    "swirl-1": ("SWIRL S-1", lambda **o: SWIRL(order=1, **o), True),
    "swirl-2": ("SWIRL S-2", lambda **o: SWIRL(order=2, **o), True),
    "dirl": ("DIRL", DIRL, True),
    "prism-paper": ("PRISM, paper gate", _paper, True),
    "prism": ("PRISM, past gate", lambda **o: PRISM(switching="independent", **o), True),
    "prism-recurrent": ("Recurrent switching", PRISM, True),
    "prism-markov": ("Markov switching, annealed starts", _annealed, True),
    "prism-goals": ("Goals on a shared habit", GoalPRISM, True),
}
"""Identifier → name, builder, and whether it takes the number of intentions."""

VARIANT = re.compile(r"-(h\d+|hauto|k\d+|rnn|lstm|gru|transformer)$")


def method(identifier: str, n_intentions: int, **options: Any) -> Method:
    """Return the unfitted method behind an identifier, variants included.

    ``options`` are passed on as far as the method knows them, so that one set serves a whole comparison.
    """
    base, notes = identifier, list[str]()
    variants: dict[str, Any] = {}
    while base not in BUILDERS:
        found = VARIANT.search(base)
        if found is None:
            raise InputError(f"There is no method {identifier!r}; choose among {', '.join(BUILDERS)}.")
        base, suffix = base[: found.start()], found.group(1)
        if suffix == "hauto":
            variants |= {"history": "auto", "backoff": "auto", "recount": True}
            notes.append("history chosen")
        elif suffix[0] == "h":
            variants["history"] = int(suffix[1:])
            notes.append(f"history {suffix[1:]}")
        elif suffix[0] == "k":
            n_intentions = int(suffix[1:])
            notes.append(f"K={suffix[1:]}")
        else:
            variants["network"] = suffix
            notes.append(suffix.upper())
    name, build, takes_k = BUILDERS[base]
    if not takes_k and any(note.startswith("K=") for note in notes):
        raise InputError(f"{identifier!r} is no variant that {base} has.")
    arguments: dict[str, Any] = {"n_intentions": n_intentions} if takes_k else {}
    try:
        model = build(**arguments, **variants)
    except TypeError:
        raise InputError(f"{identifier!r} is no variant that {base} has.") from None
    accepted = model.get_params(deep=False)
    model.set_params(**{key: value for key, value in options.items() if key in accepted})
    full = name + (f" ({', '.join(reversed(notes))})" if notes else "")
    return Method(identifier, full, model, leaks=base == "prism-paper")
