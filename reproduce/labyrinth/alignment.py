"""Do the intentions mean something? Alignment of labels with outside events that no fit has seen.

Four questions, each asked of the labels and of shuffled ones: which modes of a reference labelling are *enriched* in
an intention (share of the mode among the steps of the intention, over its share among all steps; 1 = no relation);
into which intention the events fall (deliveries of water, exits); how many steps pass from a switch to the next event;
and whether different modes sit in different intentions. Shuffled labels are the same labels shifted around each
trajectory by a random number of steps: usage and dwell of every intention stay as they are, and only the alignment
with events is lost. Names come from the recovered maps alone: an intention is called after the target that its greedy
paths arrive at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from prism_irl.errors import InputError
from prism_irl.labels import segments
from prism_irl.mdp import MDP

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

SHUFFLES = 20
NAMED_SHARE = 0.05
"""Share of the nodes whose greedy path must arrive at a target before an intention is called after it."""


@dataclass(frozen=True, eq=False)
class Events:
    """What happened outside, aligned with the flat steps of the demonstrations.

    Parameters
    ----------
    happened : name → (n,) bool
        Steps of each kind of event.
    modes : (n,) int
        A reference labelling of the steps.
    mode_names : tuple of str
        Names of modes 0, 1, …
    """

    happened: Mapping[str, BoolArray]
    modes: IntArray
    mode_names: tuple[str, ...]

    def of(self, steps: IntArray) -> Events:
        """The events of some steps, in their order."""
        return Events({name: at[steps] for name, at in self.happened.items()}, self.modes[steps], self.mode_names)


# -- numbers of one labelling ------------------------------------------------------------------------------------------


def enrichment(labels: IntArray, modes: IntArray, n_intentions: int, n_modes: int) -> FloatArray:
    """Share of each mode within each intention over its share overall, (K, M); 0 where an intention is never used."""
    if n_modes == 0:
        return np.zeros((n_intentions, 0))
    joint = np.bincount(labels * n_modes + modes, minlength=n_intentions * n_modes).reshape(n_intentions, n_modes)
    within = joint / np.maximum(joint.sum(1, keepdims=True), 1)
    overall = joint.sum(0) / len(labels)
    return np.asarray(within / np.where(overall > 0, overall, 1.0), dtype=np.float64)


def event_shares(labels: IntArray, happened: BoolArray, n_intentions: int) -> FloatArray:
    """Share of the events that falls into each intention, (K,); NaN where nothing happened."""
    counts = np.bincount(labels[happened], minlength=n_intentions).astype(np.float64)
    return counts / counts.sum() if counts.sum() else np.full(n_intentions, np.nan)


def steps_to_next(labels: IntArray, offsets: IntArray, happened: BoolArray) -> IntArray:
    """Steps from every switch to the next event of its trajectory; switches that no event follows are left out."""
    cut = segments(labels, offsets)
    switches = cut.starts[np.diff(cut.trajectories, prepend=-1) == 0]
    at = np.flatnonzero(happened)
    if not len(at) or not len(switches):
        return np.zeros(0, dtype=np.int64)
    following = np.searchsorted(at, switches)
    there = following < len(at)
    switches, found = switches[there], at[following[there]]
    end = np.asarray(offsets)[np.searchsorted(offsets, switches, side="right")]
    same = found < end
    return np.asarray(found[same] - switches[same], dtype=np.int64)


def shifted(labels: IntArray, offsets: IntArray, generator: np.random.Generator) -> IntArray:
    """The labels of each trajectory, shifted around by a random number of steps: the control."""
    lengths = np.diff(offsets)
    by = np.repeat(generator.integers(0, lengths), lengths)
    first, length = np.repeat(offsets[:-1], lengths), np.repeat(lengths, lengths)
    return np.asarray(labels[first + (np.arange(len(labels)) - first + by) % length], dtype=np.int64)


def _numbers(
    labels: IntArray, offsets: IntArray, events: Events, n_intentions: int, named: Mapping[str, int]
) -> dict[str, dict[str, float]]:
    """Everything that is also computed for shuffled labels; ``named`` says which event belongs to which intention."""
    n_modes = len(events.mode_names)
    found = enrichment(labels, events.modes, n_intentions, n_modes)
    rows, columns = linear_sum_assignment(found, maximize=True)
    matched = np.full(n_modes, np.nan)  # of an intention of its own; with K < M some modes have none
    matched[columns] = found[rows, columns]
    steps = {name: steps_to_next(labels, offsets, at) for name, at in events.happened.items()}
    return {
        "matched": dict(zip(events.mode_names, matched.tolist(), strict=True)),
        "in_named": {
            event: float(event_shares(labels, events.happened[event], n_intentions)[k]) for event, k in named.items()
        },
        "steps_to_next": {name: float(np.median(own)) if len(own) else np.nan for name, own in steps.items()},
    }


def alignment(
    labels: npt.ArrayLike,
    offsets: npt.ArrayLike,
    events: Events,
    n_intentions: int,
    *,
    names: Sequence[str] | None = None,
    named_events: Mapping[str, str] | None = None,
    shuffles: int = SHUFFLES,
) -> dict[str, Any]:
    """Return the alignment of a labelling with events, and the same numbers for shuffled labels.

    Parameters
    ----------
    labels, offsets : (n,), (N + 1,) int
        Intention of every step.
    events : Events
    n_intentions : int
    names : K names, optional
        Of the intentions, from the maps (`name_intentions`).
    named_events : name of an intention → event, optional
        Which event should fall into which named intention, say {"water": "delivery"}.
    shuffles : number of shuffled labellings

    Returns
    -------
    dict
        ``enrichment`` {mode: (K,)}; ``matched`` {mode: number} with every mode in an intention of its own, chosen so
        that the sum is largest; ``distinct``, whether the modes are most enriched in different intentions; ``shares``
        {event: (K,)}; ``in_named`` {event: share within the named intention}; ``steps_to_next`` {event: median};
        ``shuffled``, the mean over shuffled labellings of ``matched``, ``in_named`` and ``steps_to_next``.
    """
    z, edges = np.asarray(labels, dtype=np.int64), np.asarray(offsets, dtype=np.int64)
    if len(z) != len(events.modes):
        raise InputError(f"There are labels of {len(z)} steps and events of {len(events.modes)}; give the same steps.")
    if names is not None and len(names) != n_intentions:
        raise InputError(f"There are {len(names)} names for {n_intentions} intentions; give one each.")
    given = list(names or ())
    named = {event: given.index(name) for name, event in (named_events or {}).items() if name in given}
    own = _numbers(z, edges, events, n_intentions, named)
    generator = np.random.default_rng(0)
    control = [_numbers(shifted(z, edges, generator), edges, events, n_intentions, named) for _ in range(shuffles)]
    table = enrichment(z, events.modes, n_intentions, len(events.mode_names))
    shares = {event: event_shares(z, at, n_intentions).tolist() for event, at in events.happened.items()}
    return {
        "enrichment": dict(zip(events.mode_names, table.T.tolist(), strict=True)),
        "matched": own["matched"],
        "distinct": len(set(table.argmax(axis=0).tolist())) == table.shape[1],
        "shares": shares,
        "in_named": own["in_named"],
        "steps_to_next": own["steps_to_next"],
        "shuffled": {
            what: {key: float(np.mean([one[what][key] for one in control])) for key in numbers if control}
            for what, numbers in own.items()
        }
        | {"labellings": shuffles},
    }


# -- names from maps ---------------------------------------------------------------------------------------------------


def greedy_arrival(
    mdp: MDP, policies: npt.ArrayLike, targets: Sequence[int], current_state: npt.ArrayLike | None = None
) -> FloatArray:
    """Share of the states whose greedy path arrives at each target, (K, number of targets).

    Parameters
    ----------
    mdp : MDP
        Dynamics; each step follows the likeliest action to its likeliest successor. For policies on histories, the
        MDP over contexts (`rewards.iavi`).
    policies : (K, C, A)
    targets : states
        The targets themselves do not count among the states that arrive.
    current_state : (C,) int, optional
        Newest state of each context; paths begin in the contexts of length 1, which come first.
    """
    p = np.asarray(policies, dtype=np.float64)
    state = np.arange(mdp.n_states) if current_state is None else np.asarray(current_state)
    n_states = int(state.max()) + 1
    likeliest = np.asarray(mdp.transitions.argmax(axis=1)).ravel().reshape(mdp.n_states, mdp.n_actions)
    arrives = np.zeros((len(p), len(targets)))
    for k, policy in enumerate(np.where(mdp.valid_actions, p, -1.0)):
        following = likeliest[np.arange(mdp.n_states), policy.argmax(axis=1)]
        for j, target in enumerate(targets):
            at = np.arange(n_states)
            arrived = state[at] == target
            for _ in range(mdp.n_states):  # a path without repetition is no longer than that
                new = following[at]
                if (arrived | (new == at)).all():
                    break
                at = np.where(arrived, at, new)
                arrived = arrived | (state[at] == target)
            arrives[k, j] = (arrived.sum() - 1) / (n_states - 1)
    return arrives


def name_intentions(arrival: npt.ArrayLike, names: Sequence[str]) -> list[str]:
    """Call each intention after the target that its greedy paths arrive at.

    Names are given one to one so that the summed shares of arriving nodes are largest; an intention whose share stays
    below `NAMED_SHARE` is not called after its target. All others are called "explore", numbered if there are several.

    Parameters
    ----------
    arrival : (K, T)
        From `greedy_arrival`.
    names : T strings
    """
    shares = np.asarray(arrival, dtype=np.float64)
    found: list[str | None] = [None] * len(shares)
    for k, target in zip(*linear_sum_assignment(shares, maximize=True), strict=True):
        if shares[k, target] >= NAMED_SHARE:
            found[k] = names[target]
    rest = found.count(None)
    numbers = iter(range(1, rest + 1))
    return [name if name is not None else "explore" if rest == 1 else f"explore {next(numbers)}" for name in found]
