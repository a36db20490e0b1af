"""What every animal does under each intention, and what it would be rewarded for: policies and rewards of its own.

    π_gk(a | s) = (N_gk(s, a) + m π_k(a | s)) / (N_gk(s) + m)

with the expected counts of the posterior, so that a state in which an animal hardly was is that of all animals. The
strength m predicts the choices of a trajectory best from the other trajectories of its animal; it is infinite, and all
animals have the shared policies, where knowing the animal does not help. The reward of an animal is the one that its
policy is optimal for (`rewards.iavi`), beside that of the shared policy, which is found in the same way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from prism_irl.evaluation import resampling
from prism_irl.evaluation.truth import reward_distance
from prism_irl.mdp import MDP
from prism_irl.rewards.iavi import solve_iavi

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, np.inf)
PERMUTATIONS = 499
SMOOTHING = 0.01
"""Pseudo-count of every action in the shared policy."""
TESTED = 100.0
"""Strength that animals are told apart with where knowing them does not help."""
LARGEST = 2e7
"""Expected counts of all trajectories, beyond which there are too many to keep."""


class Choices(NamedTuple):
    """``strength`` m; ``policies`` and ``steps`` (G, K, S, A); ``shared`` (K, S, A); ``p_adjusted`` (G, K).

    ``rewards`` (G, K, S, A), ``shared_rewards`` (K, S, A) and ``distance`` (G, K) where dynamics are known.
    """

    strength: float
    policies: FloatArray
    shared: FloatArray
    p_adjusted: FloatArray
    steps: FloatArray
    rewards: FloatArray | None = None
    shared_rewards: FloatArray | None = None
    distance: FloatArray | None = None


def own_choices(counts: FloatArray, who: IntArray, valid: npt.NDArray[np.bool_], mdp: MDP | None, seed: int) -> Choices:
    """Policies and rewards of every animal from the expected counts (N, K, S, A) of its trajectories."""
    G = int(who.max()) + 1
    total = counts.sum(axis=0)
    shared = _normalised(total + SMOOTHING * valid)
    steps = _dealt(counts, who, G)
    m = max(STRENGTHS, key=lambda strength: _left_out(counts, steps, who, valid, strength))
    policies = _shrunk(steps, shared, m)
    found = Choices(m, policies, shared, _tests(counts, who, G, shared, TESTED if np.isinf(m) else m, seed), steps)
    if mdp is None:
        return found
    rewards = np.stack([solve_iavi(mdp, own).rewards for own in policies])
    common = solve_iavi(mdp, shared).rewards
    distance = [[reward_distance(mdp, one, other) for one, other in zip(own, common, strict=True)] for own in rewards]
    return found._replace(rewards=rewards, shared_rewards=common, distance=np.array(distance))


def _dealt(counts: FloatArray, who: IntArray, n: int) -> FloatArray:
    """Counts of every animal, (G, K, S, A)."""
    flat = np.eye(n)[who].T @ counts.reshape(len(counts), -1)
    return np.asarray(flat.reshape(n, *counts.shape[1:]))


def _normalised(counts: FloatArray) -> FloatArray:
    return np.asarray(counts / counts.sum(axis=-1, keepdims=True))


def _shrunk(steps: FloatArray, shared: FloatArray, m: float) -> FloatArray:
    if np.isinf(m):
        return np.broadcast_to(shared, steps.shape).copy()
    return np.asarray((steps + m * shared) / (steps.sum(axis=-1, keepdims=True) + m))


def _left_out(counts: FloatArray, steps: FloatArray, who: IntArray, valid: npt.NDArray[np.bool_], m: float) -> float:
    """Log-likelihood of the choices of every trajectory given all others, those of its animal by strength m."""
    others = _normalised(np.maximum(counts.sum(axis=0) - counts, 0.0) + SMOOTHING * valid)
    rest = np.maximum(steps[who] - counts, 0.0)
    return float(special.xlogy(counts, _shrunk(rest, others, m)).sum())


def _tests(counts: FloatArray, who: IntArray, n: int, shared: FloatArray, m: float, seed: int) -> FloatArray:
    """Adjusted p of every animal and intention, (G, K): trajectories dealt to animals at random."""
    rng = np.random.default_rng([seed, 4])
    statistics = []
    for i in range(PERMUTATIONS + 1):
        steps = _dealt(counts, who if i == 0 else rng.permutation(who), n)
        gain = special.xlogy(steps, _shrunk(steps, shared, m)) - special.xlogy(steps, shared)
        statistics.append(gain.sum(axis=(2, 3)).ravel())
    return resampling.adjusted(np.array(statistics)).reshape(n, -1)


def rows_of(found: Choices, units: Any, states: Any, actions: Any) -> list[dict[str, Any]]:
    """A row per animal, intention, state that it visited and action."""
    rows = []
    for g, k, s in np.argwhere(found.steps.sum(axis=-1) > 0.5):
        for a in np.flatnonzero(found.shared[k, s] > 0):
            row = {"unit_of": str(units[g]), "intention": int(k), "state": states[s], "action": actions[a]}
            row |= {"steps": found.steps[g, k, s, a], "policy": found.policies[g, k, s, a]}
            row["shared_policy"] = found.shared[k, s, a]
            if found.rewards is not None and found.shared_rewards is not None:
                row |= {"reward": found.rewards[g, k, s, a], "shared_reward": found.shared_rewards[k, s, a]}
            rows.append(row)
    return rows
