"""What each intention wants in a continuous world, without a model of it: one least-squares solve per intention.

An agent whose soft-optimal policy is π_k satisfies log π_k(a|s) = r(s, a) + g_k(s') + γ V_k(s') − V_k(s) at every
observed step (s, a, s'). With V and a state-only reward g linear in features φ, and an effort r = c·(|a|², 1), all
unknowns are coefficients of one weighted ridge regression over the data:

    min Σ_t w_tk [log π_k(a_t|s_t) + V(s_t) − γ V(s_{t+1}) − g(s_{t+1}) − c·(|a_t|², 1)]² + λ (|v|² + |g|² + |c|²)

The reward is on states alone, which removes the freedom c(s) that otherwise biases such estimates. What remains free: a
constant (the map is centred), the scale that the noise of the commands sets, and everything where nobody went; with a
discount near 1, potentials and rewards can hardly be told apart, so a short horizon (0.8) is the default of features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from prism_irl.data.batching import Prepared
from prism_irl.data.mapped import chunks
from prism_irl.rewards.base import FloatArray
from prism_irl.rewards.linear import ROWS, Basis, LinearPolicies

FEATURES = 100
RIDGE = 0.01


@dataclass(frozen=True, eq=False)
class StateReward:
    """Rewards g_k and values V_k of K intentions, linear in a basis of standardised observations.

    Parameters
    ----------
    basis : Basis
    rewards, values : (K, p)
    efforts : (K, 2), coefficients of |a|² and 1
    """

    basis: Basis
    rewards: FloatArray
    values: FloatArray
    efforts: FloatArray

    @classmethod
    def solve(
        cls,
        log_policy: FloatArray,
        observations: npt.NDArray[Any],
        commands: FloatArray,
        first_steps: npt.NDArray[np.bool_],
        weights: FloatArray,
        *,
        discount: float,
        n_features: int = FEATURES,
        ridge: float = RIDGE,
    ) -> Self:
        """Solve for all intentions.

        Parameters
        ----------
        log_policy : (n, K) log π_k(a_t | s_t), in standardised units
        observations, commands : (n, d), (n, m), standardised
        first_steps : (n,) true where a trajectory begins: the step before has no successor
        weights : (n, K) responsibilities
        discount : γ
        """
        K, basis = log_policy.shape[1], bent_basis(observations.shape[1], n_features)
        p = basis.size
        size = 2 * p + 2
        gram, cross = np.zeros((K, size, size)), np.zeros((K, size))
        here = np.flatnonzero(~first_steps) - 1
        for rows in chunks(len(here), ROWS // 4):  # wider rows than those of a policy
            t = here[rows]
            now, then = basis(observations[t]), basis(observations[t + 1])
            effort = np.stack([(commands[t] ** 2).sum(axis=1), np.ones(len(t))], axis=1)
            x = np.concatenate([discount * then - now, then, effort], axis=1)
            for k in range(K):
                w = weights[t, k]
                gram[k] += (x * w[:, None]).T @ x
                cross[k] += x.T @ (w * log_policy[t, k])
        found = np.stack([np.linalg.solve(g + ridge * np.eye(size), c) for g, c in zip(gram, cross, strict=True)])
        return cls(basis, found[:, p : 2 * p], found[:, :p], found[:, 2 * p :])

    def at(self, observations: npt.NDArray[Any]) -> FloatArray:
        """g_k(x), (n, K), at standardised observations (n, d)."""
        return np.asarray(self.basis(observations) @ self.rewards.T)

    def values_at(self, observations: npt.NDArray[Any]) -> FloatArray:
        """V_k(x), (n, K)."""
        return np.asarray(self.basis(observations) @ self.values.T)

    def state(self) -> dict[str, FloatArray]:
        """Arrays that determine it."""
        own = {"rewards": self.rewards, "values": self.values, "efforts": self.efforts}
        return {**own, "frequencies": self.basis.frequencies, "phases": self.basis.phases}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self | None:
        """Undo `state`; None where nothing was kept."""
        if not state:
            return None
        basis = Basis(state["frequencies"].shape[0], state["frequencies"].shape[1])
        basis.frequencies, basis.phases = state["frequencies"], state["phases"]
        return cls(basis, state["rewards"], state["values"], state["efforts"])


def bent_basis(n_observations: int, n_features: int = FEATURES) -> Basis:
    """Fourier features that bend within about half a spread in two dimensions, more slowly in more."""
    return Basis(n_observations, n_features, 0.5 * np.sqrt(n_observations / 2.0))


def learn_state_reward(data: Prepared, weights: FloatArray, discount: float) -> StateReward:
    """Rewards of the intentions behind responsibilities (n, K), whatever policies found these.

    The equation needs log π_k as it is and not the linear policy that a segmentation gets along with, so bent policies
    are fitted to the same responsibilities first.
    """
    demos = data.demos
    assert demos.observations is not None
    assert demos.motions is not None
    policies = LinearPolicies(weights.shape[1], demos.motions.shape[1], bent_basis(demos.observations.shape[1]))
    policies.m_step(data, weights)
    log_policy = policies.log_likelihood(data) + demos.log_volume
    steps = demos.observations, demos.motions, demos.first_steps
    return StateReward.solve(log_policy, *steps, weights, discount=discount)
