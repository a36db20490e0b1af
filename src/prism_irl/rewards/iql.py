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
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.optional import compiled
from prism_irl.rewards.iavi import InverseSolution, unvisited_states

FLOOR = 1e-6  # the authors' constant inside the logarithm


@dataclass(frozen=True)
class LearningRates:
    """Step sizes α_r, α_Q and α_sh, and epochs, passes over all transitions; the authors' values."""

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
    shape, alpha = (demos.n_states, demos.n_actions), rates or LearningRates()
    valid = np.ones(shape, bool) if demos.valid_actions is None else demos.valid_actions
    states, actions = demos.states.astype(np.int64), demos.actions.astype(np.int64)
    successors = np.append(states[1:], -1)
    successors[demos.offsets[1:] - 1] = -1
    rewards, q, _, visits = tables = np.zeros((4, weights.shape[1], valid.size))
    for k in range(weights.shape[1]):
        steps = (states, actions, successors, np.ascontiguousarray(weights[:, k]), valid.ravel())
        sizes = (alpha.reward, alpha.q, alpha.shifted)
        _learn(steps, demos.n_actions, discount, sizes, alpha.epochs, tuple(tables[:, k]))
    rewards, q, visits = (table.reshape(-1, *shape) for table in (rewards, q, visits))
    q = np.where(valid, q, -np.inf)
    return InverseSolution(rewards, q, q.max(axis=-1), unvisited_states(visits / alpha.epochs))


@compiled()
def _learn(steps: Any, n_actions: int, discount: float, alphas: Any, epochs: int, tables: Any) -> None:
    """Update the flat tables (S·A), r, Q, Q_sh and visits, in place."""
    states, actions, successors, weights, valid = steps
    rewards, q, shifted, visits = tables
    alpha_r, alpha_q, alpha_sh = alphas
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
