"""The truth as a method: the exact Bayes filter of a simulated world, the ceiling of its experiment."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol, Self

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP
from prism_irl.models.base import FloatArray, IntentionModel


class KnownWorld(Protocol):
    """A world with an exact filter and smoother."""

    @property
    def policies(self) -> FloatArray:
        """True policies (K, S, A)."""

    def oracle(self, demos: Demonstrations) -> Any:
        """Beliefs under the true process, with ``action_proba`` (n, A) and ``smoothed`` (n, K)."""


class WorldOracle(IntentionModel):
    """The exact Bayes filter and smoother of the generating process: nothing to fit, nothing can beat it."""

    def __init__(self, world: Any = None) -> None:
        self.world = world

    @abstractmethod
    def _default_world(self) -> KnownWorld:
        """Return the world that is meant when none is given."""

    @property
    def _world(self) -> KnownWorld:
        world: KnownWorld = self._default_world() if self.world is None else self.world
        return world

    def fit(self, demos: Demonstrations, mdp: MDP | None = None) -> Self:
        """Remember the sizes."""
        self.n_states_, self.n_actions_ = demos.n_states, demos.n_actions
        return self

    def action_proba(self, demos: Demonstrations) -> FloatArray:
        """p(a | past) under the true process."""
        proba: FloatArray = self._world.oracle(demos).action_proba
        return proba

    def predict_proba(self, demos: Demonstrations) -> FloatArray:
        """P(z_t | everything) under the true process."""
        smoothed: FloatArray = self._world.oracle(demos).smoothed
        return smoothed

    @property
    def policies_(self) -> FloatArray:
        """The agent's policies."""
        return self._world.policies

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state(self, tensors: dict[str, Any], info: dict[str, Any]) -> None:
        """Sizes only."""
        self.n_states_, self.n_actions_ = int(info["n_states"]), int(info["n_actions"])
