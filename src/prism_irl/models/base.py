"""The interface of every method: fit, predict_proba, predict, action_proba, score, save.

`score` is the predictive log-likelihood, mean log p(a_t | s_≤t, a_<t), and sums to one over actions for every
method. `paper_score` is the number of the paper's tables: the same where a method's prior has not seen a_t, and not a
likelihood where it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

METHODS: dict[str, type[IntentionModel]] = {}
"""Every class that can be saved and loaded, by name."""


class IntentionModel(BaseEstimator, ABC):  # type: ignore[misc]
    """A method that explains behaviour by K intentions (K = 1 for methods with a single one).

    Subclasses store their constructor's arguments under the same names (scikit-learn's convention, so that
    `get_params` and `clone` work) and set ``n_states_``, ``n_actions_`` in `fit`.
    """

    n_intentions: int = 1
    n_states_: int
    n_actions_: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        METHODS[cls.__name__] = cls

    @abstractmethod
    def fit(self, demos: Demonstrations, mdp: MDP | None = None) -> Self:
        """Fit to demonstrations; ``mdp`` is estimated from them when it is needed and not given."""

    @abstractmethod
    def action_proba(self, demos: Demonstrations) -> FloatArray:
        """p(a | s_≤t, a_<t) of every step, (n, A); rows sum to one."""

    @abstractmethod
    def predict_proba(self, demos: Demonstrations) -> FloatArray:
        """P(z_t=k | everything), (n, K)."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Tensors that, with the constructor's arguments, determine the fitted model."""

    @abstractmethod
    def load_state(self, tensors: dict[str, Any], info: dict[str, Any]) -> None:
        """Undo `state`; ``info`` is what `info` returned."""

    def info(self) -> dict[str, Any]:
        """Sizes and other JSON values that `load_state` needs."""
        return {"n_states": self.n_states_, "n_actions": self.n_actions_}

    @property
    def leaks(self) -> bool:
        """Whether `paper_score` is not a likelihood, because the prior sees the action that it is scored on."""
        return False

    def predict(self, demos: Demonstrations) -> IntArray:
        """Intention of every step, (n,), flat and aligned with the demonstrations."""
        return np.asarray(self.predict_proba(demos).argmax(axis=1), dtype=np.int64)

    def log_likelihood(self, demos: Demonstrations) -> FloatArray:
        """Log p(a_t | s_≤t, a_<t) of every step, (n,)."""
        taken = np.take_along_axis(self.action_proba(demos), demos.actions[:, None].astype(np.int64), axis=1)[:, 0]
        with np.errstate(divide="ignore"):
            return np.log(taken)

    def score(self, demos: Demonstrations) -> float:
        """Predictive log-likelihood per step, in nats."""
        return float(self.log_likelihood(demos).mean())

    def paper_score(self, demos: Demonstrations) -> float:
        """The paper's score per step; equal to `score` unless the prior sees the action (then not a likelihood)."""
        return self.score(demos)

    def save(self, folder: Any) -> None:
        """Write config.json and model.safetensors into a folder (no pickle)."""
        from prism_irl.models.persistence import save

        save(self, folder)

    # -- checks ----------------------------------------------------------------------------------------------------

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_states_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first.")

    def _check_new(self, demos: Demonstrations) -> Demonstrations:
        """New data must speak the language of the fit."""
        self._check_fitted()
        limit = self.n_states_ + (1 if demos.unknown_state else 0)
        if int(demos.states.max()) >= limit:
            step = int(np.argmax(demos.states >= limit))
            raise InputError(
                f"State {demos.states[step]} at {demos.where(step)} was not part of the fit, which knows states 0 to "
                f"{self.n_states_ - 1}; leave that trajectory out or allow unknown states."
            )
        if demos.n_actions != self.n_actions_:
            if int(demos.actions.max()) >= self.n_actions_:
                step = int(np.argmax(demos.actions >= self.n_actions_))
                raise InputError(
                    f"Action {demos.actions[step]} at {demos.where(step)} was not part of the fit, which knows actions "
                    f"0 to {self.n_actions_ - 1}."
                )
            demos = demos.resized(n_actions=self.n_actions_)
        return demos


Factory = Callable[..., IntentionModel]
