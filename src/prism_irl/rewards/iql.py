"""Tabular inverse Q-learning (Kalweit et al. 2020): rewards from transitions, without a model of them.

For every transition (s, a, s') with step sizes α, in this order: counts give π; Q_sh(s,a) ← γ max Q(s',·);
r(s,a) ← η_a + mean over the other actions b of r(s,b) − η_b, with η = log(π + 1e-6) − Q_sh, Eq. (9);
Q(s,a) ← r(s,a) + γ max Q(s',·). Use it where no transition model is at hand; `rewards.iavi` gives the same policy
exactly and at once. Both satisfy softmax(Q) = π, but Eq. (9) says nothing about the mean of r(s,·), which here depends
on the path of learning: r, V of IQL and IAVI differ by a potential, r' = r + Δ(s) − γ E Δ(s'), V' = V + Δ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism_irl.arrays import BoolArray, FloatArray, IntArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.optional import compiled
from prism_irl.rewards.iavi import InverseSolution, unvisited_states

FLOOR = 1e-6  # the authors' constant inside the logarithm


@dataclass(frozen=True)
class LearningRates:
    """Step sizes and epochs; the authors' values.

    Parameters
    ----------
    reward, q, shifted : α_r, α_Q, α_sh
    epochs : passes over all transitions
    """

    reward: float = 1e-4
    q: float = 0.01
    shifted: float = 0.01
    epochs: int = 100

    def __post_init__(self) -> None:
        for name in ("reward", "q", "shifted"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"The step size {name} is {getattr(self, name)}; give a number in (0, 1].")
        if self.epochs < 1:
            raise InputError(f"The number of epochs is {self.epochs}; give at least 1.")


def solve_iql(
    demos: Demonstrations,
    responsibilities: npt.ArrayLike | None = None,
    *,
    discount: float = 0.97,
    rates: LearningRates | None = None,
) -> InverseSolution:
    """Rewards, Q and V = max_a Q of K intentions.

    Parameters
    ----------
    demos : Demonstrations
        Invalid actions take no part. The last step of a trajectory counts for π but has no successor to learn from.
    responsibilities : (n, K), optional
        Weight of every step for every intention: scales its count and its step sizes (HIQL's M-step). One intention
        with all steps by default.
    """
    weights = np.ones((demos.n_steps, 1)) if responsibilities is None else np.asarray(responsibilities, np.float64)
    if weights.ndim != 2 or len(weights) != demos.n_steps:
        raise InputError(
            f"The responsibilities have shape {weights.shape}; give one row per step, ({demos.n_steps}, K)."
        )
    if not 0 <= discount < 1:
        raise InputError(f"The discount is {discount}; give a number of at least 0 and below 1.")
    shape = (demos.n_states, demos.n_actions)
    valid = np.ones(shape, bool) if demos.valid_actions is None else demos.valid_actions
    states, actions = demos.states.astype(np.int64), demos.actions.astype(np.int64)
    successors = np.append(states[1:], -1)
    successors[demos.offsets[1:] - 1] = -1
    alpha = rates or LearningRates()
    rewards, q = np.zeros((2, weights.shape[1], *shape))
    for k in range(weights.shape[1]):
        tables = [np.zeros(valid.size) for _ in range(4)]
        columns = (states, actions, successors, np.ascontiguousarray(weights[:, k]), valid.ravel())
        settings = (demos.n_actions, discount, alpha.reward, alpha.q, alpha.shifted, alpha.epochs)
        _learn(*columns, *settings, *tables)
        rewards[k], q[k] = (np.reshape(table, shape) for table in tables[:2])
    q = np.where(valid, q, -np.inf)
    return InverseSolution(rewards, q, q.max(axis=-1), unvisited_states(_visits(demos, weights)))


def _visits(demos: Demonstrations, weights: FloatArray) -> FloatArray:
    """Weighted counts, (K, S, A)."""
    pairs = demos.states.astype(np.int64) * demos.n_actions + demos.actions
    size = demos.n_states * demos.n_actions
    counts = np.array([np.bincount(pairs, column, size) for column in weights.T], dtype=np.float64)
    return counts.reshape(-1, demos.n_states, demos.n_actions)


@compiled()
def _learn(
    states: IntArray,
    actions: IntArray,
    successors: IntArray,
    weights: FloatArray,
    valid: BoolArray,
    n_actions: int,
    discount: float,
    alpha_r: float,
    alpha_q: float,
    alpha_sh: float,
    epochs: int,
    rewards: FloatArray,
    q: FloatArray,
    shifted: FloatArray,
    visits: FloatArray,
) -> None:
    """Update the flat tables (S·A) in place."""
    for _ in range(epochs):
        for i in range(len(states)):
            w = weights[i]
            if w <= 0.0:
                continue
            row = states[i] * n_actions
            here = row + actions[i]
            visits[here] += w
            if successors[i] < 0:
                continue
            best = -math.inf
            ahead = successors[i] * n_actions
            for b in range(ahead, ahead + n_actions):
                if valid[b] and q[b] > best:
                    best = q[b]
            target = discount * best
            shifted[here] += w * alpha_sh * (target - shifted[here])
            total = 0.0
            for b in range(row, row + n_actions):
                total += visits[b]
            others, gap = 0, 0.0
            for b in range(row, row + n_actions):
                if valid[b] and b != here:
                    others += 1
                    gap += rewards[b] - math.log(visits[b] / total + FLOOR) + shifted[b]
            if others > 0:  # a single action leaves nothing to prefer: its reward stays 0, as in IAVI
                eta = math.log(visits[here] / total + FLOOR) - shifted[here]
                rewards[here] += w * alpha_r * (eta + gap / others - rewards[here])
            q[here] += w * alpha_q * (rewards[here] + target - q[here])
