"""G₂: what goals that end predict beyond a habit without memory, on one test fold.

An intention that is a place to get to, and ends there, predicts whole ways. So does a habit with a long memory once the
ways are practised, and the two cannot be told apart by likelihood over that habit. But a habit that only remembers
steps walks such ways less well than whoever wants to arrive: simulated from the habit *with* memory, data have a
smaller gain of goals over the habit *without* memory than the data themselves.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP
from prism_irl.rewards.detours import Detours
from prism_irl.rewards.place_search import SETTINGS, GoalSearch, Steps, habit_of
from prism_irl.rewards.places import candidates_of, place_of

FloatArray = npt.NDArray[np.float64]
PREDICTABLE = 0.5
"""Share of the uncertainty of the next state that the action must take away for states to be places."""
FEWEST = 5
"""Places below which nothing is a way."""
FOLDS = 2
LARGEST = 40_000
"""Steps of the trajectories that goals are fitted to at most; more of them are a sample."""
SETTING, NOISE, HEAVY = SETTINGS[2], 0.02, 0.01
"""Where the search begins, the share of the habit in every policy, and the weight from which a place is a goal."""


def are_places(demos: Demonstrations, mdp: MDP) -> bool:
    """Whether one gets from state to state by one's actions, as between places, and not by what is shown (trials).

    The action must take away half of the uncertainty H(s' | s) at least, with the frequencies of the data.
    """
    S, A = demos.n_states, demos.n_actions
    if len(np.unique(demos.states)) < FEWEST or A < 2:
        return False
    pairs = demos.states.astype(np.int64) * A + demos.actions
    weights = np.bincount(pairs, minlength=S * A) / demos.n_steps
    following = mdp.transitions.multiply(weights[:, None]).tocsr()
    given_both = _entropy(following.data) - _entropy(weights)
    by_state = sparse.kron(sparse.eye(S), np.ones((1, A)), "csr") @ following
    given_state = _entropy(by_state.data) - _entropy(weights.reshape(S, A).sum(1))
    return given_state > 1e-9 and 1 - given_both / given_state >= PREDICTABLE


def _entropy(p: FloatArray) -> float:
    return float(-(p * np.log(np.maximum(p, 1e-300))).sum())


def sample(demos: Demonstrations, seed: int) -> npt.NDArray[np.int64]:
    """Trajectories that goals are fitted to, in order: all of them, or as many as `LARGEST` steps."""
    order = np.random.default_rng([seed, 7]).permutation(len(demos))
    kept = order[np.cumsum(demos.lengths[order]) <= LARGEST] if demos.n_steps > LARGEST else order
    return np.sort(kept if len(kept) > FOLDS else order[: FOLDS + 1])


def goal_gains(demos: Demonstrations, detours: Detours, by: str, seed: int) -> tuple[FloatArray, list[int]]:
    """Log-likelihood of goals minus that of a memoryless habit per trajectory (N,), and the goals of all data.

    Each trajectory is predicted by a fit to the other half of them.
    """
    gain, goals = np.zeros(len(demos)), set[int]()
    for train, test in demos.fold_indices(min(FOLDS, int(demos.units(by).max()) + 1), by=by, seed=seed):
        fitted, rest = demos.subset(train), demos.subset(test)
        search = GoalSearch(detours, habit_of(fitted, detours), NOISE)
        found = search.begin(candidates_of(fitted, detours.place), Steps(fitted, detours.place), SETTING)
        likelihood = search.expect(found, Steps(rest, detours.place)).log_likelihood
        habit = np.log(search.habit[rest.states, rest.actions])
        gain[test] = likelihood - np.add.reduceat(habit, rest.offsets[:-1])
        goals |= set(found.goals[found.chain.initial >= HEAVY].tolist())
    return gain, sorted(goals)


def find_detours(demos: Demonstrations, mdp: MDP) -> Detours | None:
    """Detours on the way to every place, where states are places."""
    return Detours(mdp, place_of(demos)) if are_places(demos, mdp) else None
