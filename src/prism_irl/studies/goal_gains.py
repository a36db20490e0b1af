"""G₂: what goals that end predict beyond a habit without memory, on one test fold.

An intention that is a place to get to, and ends there, predicts whole ways. So does a habit with a long memory once the
ways are practised, and the two cannot be told apart by likelihood over that habit. But a habit that only remembers
steps walks such ways less well than whoever wants to arrive: simulated from the habit *with* memory, data have a
smaller gain of goals over the habit *without* memory than the data themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP

FloatArray = npt.NDArray[np.float64]
PREDICTABLE = 0.5
"""Share of the uncertainty of the next state that the action must take away for states to be places."""
FEWEST = 5
"""Places below which nothing is a way."""
FOLDS = 2
LARGEST = 40_000
"""Steps of the trajectories that goals are fitted to at most; more of them are a sample."""


class Places(NamedTuple):
    """Where goals can be: the place of every state (S,), and of every action the detour to each, (G, S, A)."""

    of_state: npt.NDArray[np.int64]
    detours: FloatArray


def are_places(demos: Demonstrations, mdp: MDP) -> bool:
    """Whether one gets from state to state by one's actions, as between places, and not by what is shown (trials).

    The action must take away half of the uncertainty H(s' | s) at least, with the frequencies of the data.
    """
    S, A = demos.n_states, demos.n_actions
    if len(np.unique(demos.states)) < FEWEST or A < 2:
        return False
    P = np.asarray(mdp.transitions.toarray()).reshape(S, A, S)
    pairs = demos.states.astype(np.int64) * A + demos.actions
    weights = np.bincount(pairs, minlength=S * A).reshape(S, A) / demos.n_steps
    following = np.einsum("sa,sax->sx", weights, P)
    given_state = _entropy(following) - _entropy(weights.sum(1))
    given_both = float((weights * -np.sum(P * np.log(np.maximum(P, 1e-300)), axis=-1)).sum())
    return given_state > 1e-9 and 1 - given_both / given_state >= PREDICTABLE


def _entropy(p: FloatArray) -> float:
    return float(-(p * np.log(np.maximum(p, 1e-300))).sum())


def sample(demos: Demonstrations, seed: int) -> npt.NDArray[np.int64]:
    """Trajectories that goals are fitted to, in order: all of them, or as many as `LARGEST` steps."""
    order = np.random.default_rng([seed, 7]).permutation(len(demos))
    kept = order[np.cumsum(demos.lengths[order]) <= LARGEST] if demos.n_steps > LARGEST else order
    return np.sort(kept if len(kept) > FOLDS else order[: FOLDS + 1])


def goal_gains(demos: Demonstrations, places: Places, by: str, seed: int) -> tuple[FloatArray, list[int]]:
    """Log-likelihood of goals minus that of a memoryless habit per trajectory (N,), and the goals of all data.

    Each trajectory is predicted by a fit to the other half of them.
    """
    found = np.zeros(len(demos))
    goals: list[int] = []
    for train, test in demos.fold_indices(min(FOLDS, int(demos.units(by).max()) + 1), by=by, seed=seed):
        fitted, rest = demos.subset(train), demos.subset(test)
        model = fit_goals(fitted, places)
        goals += [int(g) for g in model.goals()]
        own, habit = model.log_likelihood(rest), np.log(model.habit[rest.states, rest.actions])
        found[test] = np.add.reduceat(own - habit, rest.offsets[:-1])
    return found, sorted(set(goals))


def fit_goals(demos: Demonstrations, places: Places) -> Any:
    """A fitted model of goals that end."""
    from prism_irl.studies.goal_numerics import GoalsThatEnd

    return GoalsThatEnd(places.detours, places.of_state, demos.valid_actions).fit(demos)


def find_places(demos: Demonstrations, mdp: MDP) -> Places | None:
    """Every state as a place, where states are places."""
    from prism_irl.studies.goal_numerics import detours

    if not are_places(demos, mdp):
        return None
    S = demos.n_states
    return Places(np.arange(S), detours(mdp, np.eye(S, dtype=bool)))
