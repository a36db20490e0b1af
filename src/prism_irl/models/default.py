"""What is fitted where nobody names it: the only place that chooses.

States that actions connect are places, and intentions are places to get to (goals that end). States of trials (a cue,
the last outcome) are none: free policies with a Markov chain. With the goals found, held-out trajectories decide
whether a network says more of what ends an intention than arrival does (`ALTERNATIVES`). Demonstrations of robots have
phases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations

USUAL_PAIR = "recurrent", "tabular"
"""Switching and rewards where no data are known yet."""
MANY_NUMBERS, SOME_STEPS = 6, 50_000
"""Observed numbers from which on continuous data are taken for an arm's, and steps that are looked at to tell."""
ALTERNATIVES: Mapping[tuple[str, str], tuple[str, ...]] = {("arrival", "places"): ("recurrent",)}
"""Kinds of switching that are tried in the place of a default one."""
CLEARLY, ERRORS, LEAST_HELD_OUT = 0.01, 2.0, 5
"""An alternative must predict held-out steps better by so many nats, and by so many standard errors over so many
trajectories: labels are at stake, and likelihood alone is no reason to give up what places explain."""
FEWEST_PLACES, PREDICTABLE, CONNECTED = 7, 0.5, 0.5
"""States that are places: at least so many of them; an action leads to its usual successor at least this often; and
from one of them no more than this share of all is a step away."""


def usual_pair(*, continuous: bool, windows: bool = False) -> tuple[str, str]:
    """Switching and rewards beside a component that somebody named."""
    return ("markov", "windows" if windows else "features") if continuous else USUAL_PAIR


def suits_phases(demos: Demonstrations) -> bool:
    """Whether continuous demonstrations look like a robot's: stages of a task, or more numbers than a place has."""
    if demos.observations is None or demos.motions is None or demos.design is not None:
        return False
    if demos.observations.shape[1] >= MANY_NUMBERS:
        return True
    from prism_irl.data.demonstrations import some_trajectories
    from prism_irl.data.movement import Movement, share_by_time
    from prism_irl.models.phases import IN_STAGES

    part = demos.subset(some_trajectories(demos, SOME_STEPS, 0)) if demos.n_steps > SOME_STEPS else demos
    return share_by_time(Movement.fit(part)(part), part.offsets) >= IN_STAGES


def default_pair(demos: Demonstrations) -> tuple[str, str, str]:
    """Switching and rewards for demonstrations, and why these, in one sentence."""
    if demos.state_space.continuous:
        return *usual_pair(continuous=True), "States and actions are numbers: policies on features with a Markov chain."
    if are_places(demos):
        return "arrival", "places", "States are places that actions connect: intentions are places, and end there."
    return "markov", "tabular", "States are no places that actions connect: free policies with a Markov chain."


def are_places(demos: Demonstrations) -> bool:
    """Whether states are places: where an action leads can be told, and only few of them are near one another."""
    import numpy as np  # here, because settings, which the start of every command reads, know this module

    inside = np.flatnonzero(~demos.first_steps) - 1
    if not len(inside):
        return False
    S, A = demos.n_states, demos.n_actions
    states, after = demos.states[inside].astype(np.int64), demos.states[inside + 1].astype(np.int64)
    visited = len(np.unique(demos.states))
    ways, often = np.unique((states * A + demos.actions[inside]) * S + after, return_counts=True)
    again = ways // S
    first = np.flatnonzero(np.append(True, again[1:] != again[:-1]))
    most, total = np.maximum.reduceat(often, first), np.add.reduceat(often, first)
    seen = total > 1  # of what happened once, nothing can be told
    if visited < FEWEST_PLACES or not seen.any():
        return False
    usual = float((most[seen] - 1).sum() / (total[seen] - 1).sum())
    pairs = np.unique(states * S + after)
    near = np.bincount(pairs[pairs // S != pairs % S] // S, minlength=S)
    return usual >= PREDICTABLE and float(near[near > 0].mean() if near.any() else 0.0) <= CONNECTED * visited
