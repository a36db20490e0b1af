"""Soft planning with state-only rewards, and gradients through its fixed point.

    V(s) = r(s) + log Σ_a exp(γ Σ_s' P(s'|s,a) V(s')),     A(s,a) = γ Σ_s' P(s'|s,a) V(s') − log Σ_a' exp(…)

Gradients go through the fixed point by the implicit function theorem: dL/dr = (I − γ P_πᵀ)⁻¹ dL/dV, with π the soft
policy of the reward.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from prism_irl.mdp import MDP, factorize
from prism_irl.rewards.base import FloatArray


class Planner:
    """Soft planning in one MDP with state-only rewards.

    Parameters
    ----------
    mdp : MDP, of which the dynamics and the valid actions are used
    discount : γ of the goals; smaller than that of a displayed reward, since a goal is a place to reach soon
    """

    def __init__(self, mdp: MDP, discount: float) -> None:
        self.mdp, self.discount = mdp, discount
        self.valid = mdp.valid_actions
        self.still = self.advantage(self.values(np.zeros((1, mdp.n_states))))[0]

    def values(self, rewards: FloatArray, tolerance: float = 1e-9) -> FloatArray:
        """Soft values (…, S) of state-only rewards (…, S), by Newton's method on the fixed point."""
        shape = rewards.shape
        rewards = rewards.reshape(-1, shape[-1])
        values = np.zeros_like(rewards)
        for k, reward in enumerate(rewards):
            for _ in range(100):  # a handful suffice: each step is soft policy iteration
                log_policy, ahead = self._soft(values[k])
                rest = reward + ahead - values[k]
                if np.abs(rest).max() < tolerance:
                    break
                values[k] += factorize(self._system(log_policy))(rest)
        return values.reshape(shape)

    def _soft(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log soft policy (S, A) and log Σ_a exp(γ P V) (S,)."""
        q = np.where(self.valid, self.discount * self.mdp.expected_values(values), -np.inf)
        top = q.max(-1)
        ahead = top + np.log(np.exp(q - top[:, None]).sum(-1))
        return q - ahead[:, None], ahead

    def _system(self, log_policy: FloatArray) -> Any:
        """I − γ P_π, a sparse (S, S) array."""
        return sparse.eye_array(self.mdp.n_states) - self.discount * self.mdp.policy_transitions(np.exp(log_policy))

    def advantage(self, values: FloatArray) -> FloatArray:
        """A(s, a) of values (…, S), (…, S, A); −inf at invalid actions."""
        flat = values.reshape(-1, values.shape[-1])
        return np.stack([self._soft(v)[0] for v in flat]).reshape(*values.shape, -1)

    def tilt(self, values: FloatArray) -> FloatArray:
        """A_k − A_0 of soft values (…, S), (…, S, A); zero at invalid actions and everywhere without a reward."""
        with np.errstate(invalid="ignore"):  # −inf − (−inf) at invalid actions
            return np.where(self.valid, self.advantage(values) - self.still, 0.0)

    def pull_back(self, values: FloatArray, gradient: FloatArray) -> FloatArray:
        """dL/dr (S,) from dL/d(γ P V)(s, a) (S, A), at the fixed point ``values`` (S,)."""
        log_policy, _ = self._soft(values)
        on_values = self.discount * (self.mdp.transitions.T @ gradient.reshape(-1))
        return factorize(self._system(log_policy).T)(on_values)
