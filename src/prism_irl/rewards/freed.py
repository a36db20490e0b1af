"""Goals on landmarks that may go on as free policies: places first, because they are identified, then more than places.

    y_t ~ N(M u(x_t, g_k) + H (1, x_t), Σ)       as `rewards.landmarks`, until `set_free`
    y_t ~ N(W_k (1, x_t), Σ_k)                   as `rewards.linear`, from there on

Which of the two is kept is decided by trajectories that neither was fitted to (`models.choices`). The goals stay what
they were found to be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.batching import Prepared
from prism_irl.rewards.base import FloatArray
from prism_irl.rewards.landmarks import LandmarkGoals
from prism_irl.rewards.linear import Basis, LinearPolicies


class FreedGoals(LandmarkGoals):
    """Goals, and the policies that may take their place; parameters are those of `LandmarkGoals`."""

    def __init__(self, *sizes: int, **prior: Any) -> None:
        super().__init__(*sizes, **prior)
        n_intentions, n_observations, n_commands, n_actions, _ = sizes
        kept = {name: value for name, value in prior.items() if name != "habit_ridge"}
        self.policies = LinearPolicies(n_intentions, n_commands, Basis(n_observations), n_actions, **kept)
        self.freed: FloatArray = np.zeros(1)

    @property
    def is_free(self) -> bool:
        """Whether policies have taken the place of goals."""
        return bool(self.freed[0])

    def set_free(self, data: Prepared, responsibilities: FloatArray) -> None:
        """Policies of the steps (n, K) that goals explain; from here on they are what EM fits."""
        self.freed = np.ones(1)
        self.policies.maximise(data, responsibilities)

    def maximise(self, data: Prepared, responsibilities: FloatArray) -> None:
        """Of whatever is fitted now."""
        if self.is_free:
            self.policies.maximise(data, responsibilities)
        else:
            super().maximise(data, responsibilities)

    def log_prior(self) -> float:
        """Of whatever is fitted now."""
        return self.policies.log_prior() if self.is_free else super().log_prior()

    def log_density(self, observations: npt.NDArray[Any], commands: FloatArray) -> FloatArray:
        """Of commands (n, m) given observations (n, d), (n, K), by goals or by free policies."""
        if self.is_free:
            return self.policies.log_density(observations, commands)
        return super().log_density(observations, commands)

    def state(self) -> dict[str, FloatArray]:
        """Goals, free policies, and which of them is in force."""
        free = {f"free_{name}": value for name, value in self.policies.state().items()}
        return {**super().state(), **free, "freed": self.freed}

    def load_state(self, state: dict[str, FloatArray]) -> None:
        """Undo `state`."""
        super().load_state({name: value for name, value in state.items() if not name.startswith("free")})
        self.policies.load_state(
            {name.removeprefix("free_"): value for name, value in state.items() if name.startswith("free_")}
        )
        self._set_arrays(state, "freed")
