"""How far it is to every place, and how much further by each action: value iteration towards all places at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prism_irl.arrays import BoolArray, FloatArray, IntArray
from prism_irl.mdp import MDP
from prism_irl.optional import compiled

if TYPE_CHECKING:
    from prism_irl.rewards.place_search import Ways

FAR = 1000.0
"""Steps to a place that cannot be reached."""
CLIP = 8.0
"""Steps of a detour at most: whoever walks twenty steps off the way is as lost as with eight."""


class Detours:
    """Expected steps towards places, and detours of actions.

    Parameters
    ----------
    mdp : MDP
    place : (S,) integers from 0, the place that a state belongs to

    Attributes
    ----------
    at : (T, S), the states of each target: of each of G places, of none, and of each set of places of `joined`
    steps : (T, S), expected steps to each target by the shortest way, to the nearest of its places; `FAR` to none
    gaps : (T, S, A), additional steps of each action, at most `CLIP`; 0 at the target itself, and to none
    back : (S, A), expected steps back to the place of the state after each action, at most `CLIP`
    """

    def __init__(self, mdp: MDP, place: IntArray) -> None:
        self.place, self.valid = place.astype(np.int64), mdp.valid_actions
        self.n_places = int(place.max()) + 1
        states = np.argsort(self.place, kind="stable").astype(np.int64)
        first = np.searchsorted(self.place[states], np.arange(self.n_places + 1)).astype(np.int64)
        P = mdp.transitions
        self._rows = P.indptr.astype(np.int64), P.indices.astype(np.int64), P.data
        self.at: BoolArray = np.zeros((0, len(self.place)), np.bool_)
        self.steps: FloatArray = np.zeros(self.at.shape)
        self.gaps: FloatArray = np.zeros((*self.at.shape, self.valid.shape[1]))
        ahead = self._append(states, first)
        own = np.minimum(ahead[self.place, np.arange(len(self.place))] - 1.0, CLIP)
        self.back: FloatArray = np.where(self.valid, own, 0.0)
        self._append(states[:0], np.zeros(2, np.int64))
        self._sets: dict[bytes, int] = {}

    def _append(self, states: IntArray, first: IntArray) -> FloatArray:
        """Add targets, the states from ``first[t]`` to ``first[t + 1]`` each; the steps by each action, (t, S, A)."""
        at = np.zeros((len(first) - 1, len(self.place)), np.bool_)
        at[np.repeat(np.arange(len(at)), np.diff(first)), states] = True
        ahead: FloatArray
        steps, ahead = _value_iteration(*self._rows, np.asarray(self.valid), states, first, FAR)
        gaps = np.minimum(ahead - ahead.min(-1, keepdims=True), CLIP)
        gaps[at | ~at.any(-1, keepdims=True)] = 0.0
        self.at, self.steps = np.concatenate([self.at, at]), np.concatenate([self.steps, steps])
        self.gaps = np.concatenate([self.gaps, gaps])
        return ahead

    def joined(self, at: BoolArray) -> int:
        """The target that consists of some states (S,): one goes to the nearest of them."""
        key = at.tobytes()
        if key not in self._sets:
            states = np.flatnonzero(at)
            self._sets[key] = len(self.at)
            self._append(states, np.array([0, len(states)]))
        return self._sets[key]

    def places_of(self, targets: IntArray) -> BoolArray:
        """Which places (G,) each of some targets (K,) consists of, (K, G)."""
        found = np.zeros((len(targets), self.n_places), np.bool_)
        target, state = np.nonzero(self.at[targets])
        found[target, self.place[state]] = True
        return found

    def policies(self, goals: IntArray, ways: Ways, habit: FloatArray, noise: float) -> FloatArray:
        """π_g(a|s) of some goals, (K, S, A); zero for invalid actions."""
        gaps = self.gaps[goals]
        if ways.kappa:
            gaps = gaps * np.exp(-ways.kappa * self.steps[goals])[..., None]
        logs = ways.alpha * np.log(np.where(self.valid, habit, 1.0)) - ways.beta * gaps
        if ways.levels is not None:
            logs = logs + ways.levels
        weights = np.exp(logs - logs.max(-1, keepdims=True)) * self.valid
        policies: FloatArray = (1.0 - noise) * weights / weights.sum(-1, keepdims=True) + noise * habit
        if ways.at_goal is not None:
            goal, state = np.nonzero(self.at[goals])
            policies[goal, state] = self.there(state, ways)
        return policies

    def there(self, state: IntArray, ways: Ways) -> FloatArray:
        """What is done at goals, in their states (M,), (M, A)."""
        assert ways.at_goal is not None
        done = (ways.at_goal + 1e-12) * self.valid[state] * np.exp(-ways.stay * self.back[state])
        return np.asarray(done / done.sum(-1, keepdims=True))


@compiled()
def _value_iteration(
    indptr: Any, indices: Any, data: Any, valid: Any, states: Any, first: Any, far: float
) -> tuple[Any, Any]:
    """Gauss–Seidel sweeps, forth and back, for every place; self-loops are solved for."""
    (S, A), G = valid.shape, len(first) - 1
    steps, ahead = np.empty((G, S)), np.empty((G, S, A))
    for g in range(G):
        d, goal = np.full(S, far), np.zeros(S, np.bool_)
        for i in range(first[g], first[g + 1]):
            d[states[i]], goal[states[i]] = 0.0, True
        for sweep in range(1000):
            change = 0.0
            for i in range(S):
                s = i if sweep % 2 == 0 else S - 1 - i
                if goal[s]:
                    continue
                best = far
                for a in range(A):
                    if valid[s, a]:
                        q, own = 1.0, 0.0
                        for j in range(indptr[s * A + a], indptr[s * A + a + 1]):
                            if indices[j] == s:
                                own += data[j]
                            else:
                                q += data[j] * d[indices[j]]
                        if own < 1.0 - 1e-9:
                            best = min(best, q / (1.0 - own))
                change = max(change, abs(best - d[s]))
                d[s] = best
            if change < 1e-6:
                break
        for s in range(S):
            steps[g, s] = d[s]
            for a in range(A):
                q = 1.0
                for j in range(indptr[s * A + a], indptr[s * A + a + 1]):
                    q += data[j] * d[indices[j]]
                ahead[g, s, a] = q if valid[s, a] else np.inf
    return steps, ahead
