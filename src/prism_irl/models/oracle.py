"""The truth as a method: the exact Bayes filter of a simulated world, the ceiling of its experiment."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP
from prism_irl.models.base import FloatArray, IntentionModel


class WorldOracle(IntentionModel):
    """The exact Bayes filter and smoother of the generating process: nothing to fit, nothing can beat it.

    ``world`` has the true ``policies`` (K, S, A), and beliefs ``oracle(demos)`` with ``action_proba`` (n, A) and
    ``smoothed`` (n, K).
    """

    def __init__(self, world: Any) -> None:
        self.world = world
        self.n_intentions = len(world.policies)

    def fit(self, demos: Demonstrations, mdp: MDP | None = None) -> Self:
        """Remember the sizes."""
        self.n_states_, self.n_actions_ = demos.n_states, demos.n_actions
        return self

    def action_proba(self, demos: Demonstrations) -> FloatArray:
        """p(a | past) under the true process."""
        return np.asarray(self.world.oracle(demos).action_proba)

    def predict_proba(self, demos: Demonstrations) -> FloatArray:
        """P(z_t | everything) under the true process."""
        return np.asarray(self.world.oracle(demos).smoothed)

    @property
    def policies_(self) -> FloatArray:
        """The agent's policies."""
        return np.asarray(self.world.policies)
