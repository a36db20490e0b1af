"""The protocol of a reward model: policies per intention, and how to improve them from responsibilities.

A reward model answers *what*: it scores every step under every intention, log π_k(a_t | context), and is refitted
with each step weighted by its responsibility, Eq. (reward_opt). It never knows how intentions switch.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from prism_irl.data.batching import Prepared

FloatArray = npt.NDArray[np.float64]


class RewardModel(Protocol):
    """Policies of K intentions."""

    n_intentions: int

    def log_likelihood(self, data: Prepared) -> FloatArray:
        """Log π_k(a_t | context_t) of every step, (n, K)."""

    def maximise(self, data: Prepared, responsibilities: FloatArray) -> None:
        """Eq. (reward_opt): refit each intention with its responsibilities (n, K)."""

    def log_prior(self) -> float:
        """Log density of the prior that `maximise` takes into account, up to a constant."""

    def policies_at(self, rows: npt.NDArray[np.int64]) -> FloatArray:
        """π_k(a | context) at context rows (n,), (n, K, A)."""

    def state(self) -> dict[str, FloatArray]:
        """Arrays that determine the model."""

    def load_state(self, state: dict[str, FloatArray]) -> None:
        """Undo `state`."""
