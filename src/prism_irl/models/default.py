"""What is fitted where nobody names it: the only place that chooses.

States that actions connect are places, and intentions are places to get to (goals that end). With the goals found,
held-out trajectories decide whether a network says more of what ends an intention than arrival does (`ALTERNATIVES`).
States of trials (a cue, the last outcome) are no places: free policies with a Markov chain, as many as left-out
trajectories ask for (`number_of_policies`), and one where a habit that remembers says as much. Demonstrations of robots
have phases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from prism_irl.data.demonstrations import Demonstrations

USUAL_PAIR = "recurrent", "tabular"
"""Switching and rewards where no data are known yet."""
MANY_NUMBERS, SOME_STEPS = 6, 50_000
"""Observed numbers from which on continuous data are taken for an arm's, and steps that are looked at to tell."""
ALTERNATIVES: Mapping[tuple[str, str], tuple[str, ...]] = {("arrival", "places"): ("recurrent",)}
"""Kinds of switching that are tried in the place of a default one."""
MOST_AXES = 3
"""Numbers that a position has at most."""
CLEARLY, ERRORS, LEAST_HELD_OUT = 0.01, 2.0, 5
"""An alternative must predict held-out steps better by so many nats, and by so many standard errors over so many
trajectories: labels are at stake, and likelihood alone is no reason to give up what places explain."""
COUNTED: Mapping[tuple[str, str], str] = dict.fromkeys((("markov", "tabular"), ("recurrent", "tabular")), "markov")
"""Default pairs whose number of intentions is chosen by `number_of_policies`, with the switching that compares them."""
MOST_POLICIES, FOLDS, PIECES = 8, 3, 6
"""Most free policies that are tried, on folds of the trajectories; fewer trajectories are cut into so many pieces."""
LEAST_GAIN = 0.002
"""Nats per step that a further policy must gain on what was left out, and `ERRORS` standard errors; over a habit with a
memory all of them must gain one standard error."""
IN_STAGES = 0.15
"""Share of a movement that the time in an episode explains, from which on demonstrations look like a robot's."""
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
    from prism_irl.data.continuous import Movement, share_by_time
    from prism_irl.data.demonstrations import some_trajectories

    part = demos.subset(some_trajectories(demos, SOME_STEPS, 0)) if demos.n_steps > SOME_STEPS else demos
    return share_by_time(Movement.fit(part)(part), part.offsets) >= IN_STAGES


def default_pair(demos: Demonstrations) -> tuple[str, str, str]:
    """Switching and rewards for demonstrations, and why these, in one sentence."""
    if demos.state_space.continuous:
        if are_positions(demos):
            why = "Commands move a position: intentions are places, and switching sees where it is."
            return "state", "landmarks", why
        chain = "States and actions are numbers: policies on features with a Markov chain."
        return *usual_pair(continuous=True), "These demonstrations have phases." if suits_phases(demos) else chain
    if demos.observations is not None:  # covariates, which neither arrival nor a constant kernel reads
        kind = "places that actions connect" if are_places(demos) else "no places that actions connect"
        rewards = "places" if are_places(demos) else "tabular"
        return "recurrent", rewards, f"States are {kind}, and recurrent switching reads the covariates."
    if are_places(demos):
        return "arrival", "places", "States are places that actions connect: intentions are places, and end there."
    return "markov", "tabular", "States are no places that actions connect: free policies with a Markov chain."


def are_positions(demos: Demonstrations) -> bool:
    """Whether observations are positions: two or three numbers that commands change."""
    import numpy as np

    x, y = demos.observations, demos.motions
    if x is None or y is None or demos.design is not None or not 2 <= x.shape[1] <= MOST_AXES:
        return False
    later = np.flatnonzero(~demos.first_steps)
    later = later[:: max(1, len(later) // SOME_STEPS)]
    moved = np.float64(x[later] - x[later - 1])
    if len(later) < MOST_AXES * y.shape[1] or not moved.any():
        return False
    design = np.column_stack([y[later - 1].astype(np.float64), np.ones(len(later))])
    rest = moved - design @ np.linalg.lstsq(design, moved, rcond=None)[0]
    return float(rest.var(axis=0).sum()) <= (1.0 - PREDICTABLE) * float(moved.var(axis=0).sum())


def are_places(demos: Demonstrations) -> bool:
    """Whether states are places: where an action leads can be predicted, and only few of them are near one another."""
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


def number_of_policies(
    demos: Demonstrations, fit: Callable[[int, Demonstrations], Any]
) -> tuple[int, str, dict[str, float]]:
    """How many free policies left-out trajectories ask for, why, and what each number and a habit predict, per step.

    ``fit`` fits a number of policies to some demonstrations. Policies in a chain also imitate a memory of what was
    done, so that they count only where they predict better than a habit that has one (`models.references.NGram`).
    """
    import numpy as np

    from prism_irl.models.references import NGram

    demos = demos.in_pieces(PIECES)
    if len(demos) < FOLDS:
        return 1, "There is too little data to tell intentions apart.", {}
    fold = np.arange(len(demos)) % FOLDS
    parts = [(demos.subset(np.flatnonzero(fold != i)), demos.subset(np.flatnonzero(fold == i))) for i in range(FOLDS)]

    def left_out(fitted: Callable[[Demonstrations], Any]) -> npt.NDArray[np.float64]:
        found = np.zeros(len(demos))
        for i, (train, rest) in enumerate(parts):
            found[fold == i] = np.add.reduceat(fitted(train).log_likelihood(rest), rest.offsets[:-1])
        return found

    def clearly(gain: npt.NDArray[np.float64], least: float, errors: float) -> bool:
        error = np.sqrt(len(gain)) * gain.std(ddof=1)
        return bool(gain.sum() > max(least * demos.n_steps, errors * error))

    scores, best = [left_out(lambda train: fit(1, train))], 1
    seen = min(len(np.unique(train.states.astype(np.int64) * train.n_actions + train.actions)) for train, _ in parts)
    while best == len(scores) < min(MOST_POLICIES, seen):
        scores.append(left_out(lambda train: fit(len(scores) + 1, train)))
        best += clearly(scores[-1] - scores[-2], LEAST_GAIN, ERRORS)
    habit = left_out(lambda train: NGram().fit(train))
    tried = {str(K): float(one.sum() / demos.n_steps) for K, one in enumerate(scores, 1)}
    tried["habit"] = float(habit.sum() / demos.n_steps)
    if best == 1:
        return 1, "A second policy does not predict left-out trajectories better: one intention.", tried
    if not clearly(scores[best - 1] - habit, 0.0, 1.0):
        why = f"A habit with a memory predicts left-out trajectories as well as {best} policies: one intention."
        return 1, why, tried
    why = f"Left-out trajectories ask for {best} of them, which predict better than a habit with a memory."
    return best, why, tried
