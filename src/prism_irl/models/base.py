"""The interface of every method: fit, predict_proba, predict, action_proba, score, save.

`score` is the predictive log-likelihood, mean log p(a_t | s_≤t, a_<t), and sums to one over actions for every
method. `paper_score` is the number of the paper's tables: the same where a method's prior has not seen a_t, and not a
likelihood where it has.
"""

from __future__ import annotations

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.demonstrations import Demonstrations, expect_demonstrations, parts_of
from prism_irl.errors import InputError
from prism_irl.evaluation.simulate import Chooser
from prism_irl.mdp import MDP
from prism_irl.models.reporting import Plot, remembering, report, summary

MOST_PROBABILITIES = 2**25
"""Probabilities of actions, steps times actions, that are in memory at the same time."""
DERIVED = {"counts", "values", "values_", "q_", "rewards_", "state_rewards_", "returns", "ends", "place"}
"""What a model saves beside what it has estimated."""


class Parametrised:
    """A class whose constructor stores its arguments under their own names."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, as they were given; ``deep`` adds those of parameters that have some themselves."""
        found: dict[str, Any] = {}
        for name in self._defaults():
            value = found[name] = vars(self)[name] if name in vars(self) else getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": part for inner, part in value.get_params().items()}
        return found

    def set_params(self, **parameters: Any) -> Self:
        """Set some parameters; ``a__b`` is parameter b of parameter a."""
        known = self._defaults()
        for key, value in parameters.items():
            name, _, inner = key.partition("__")
            if name not in known:  # a ValueError, because that is what scikit-learn's searches expect
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}.")
            if inner:
                getattr(self, name).set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """The constructor's call, without what is as it is by default."""
        first = self._told()
        given = {name: repr(getattr(self, name)) for name in [*first, *self._defaults()]}
        changed = (
            f"{name}={text}" for name, text in given.items() if name in first or text != repr(self.default_of(name))
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def _told(self) -> list[str]:
        """Parameters that `repr` names first, even where they are as they are by default."""
        return []

    def parameters_read(self) -> set[str]:
        """Names of the parameters that have an effect."""
        return set(self._defaults())

    def default_of(self, name: str) -> Any:
        """What a parameter is where it is not given."""
        return self._defaults()[name]

    @classmethod
    @cache  # a hundred fits side by side ask thousands of times
    def _defaults(cls) -> dict[str, Any]:
        """Parameters of the constructor in alphabetical order, and their defaults."""
        given = inspect.signature(cls.__init__).parameters
        named = [name for name, one in given.items() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        return {name: given[name].default for name in sorted(named) if name != "self"}

    def __sklearn_tags__(self) -> Any:
        """Those of any estimator."""
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)


def not_fitted(message: str) -> Exception:
    """The error of a model that is asked before it is fitted, which scikit-learn's users catch by its name."""
    from sklearn.exceptions import NotFittedError

    return NotFittedError(message)  # type: ignore[no-any-return]


class IntentionModel(Parametrised, ABC):
    """A method that explains behaviour by K intentions (K = 1 for methods with a single one).

    Subclasses are dataclasses of their parameters (scikit-learn's `get_params` and `clone` work on them) and set
    ``n_states_`` and ``n_actions_`` in `fit`. Whatever `fit` leaves in attributes with a trailing underscore that are
    arrays or plain values is saved and loaded; a method with more inside says how (`_state`, `_info`, `_load_state`).
    """

    n_intentions: int = 1
    n_states_: int
    n_actions_: int
    monitor_: list[dict[str, float]]

    # What a fit may find and `describe` reads; as it stands here where a method has no such thing.
    switching_: Any = None
    rewards_model_: Any = None
    units_: Any = None
    mdp_: Any = None
    state_reward_: Any = None
    valid_actions_: Any = None
    n_observations_: int = 0
    starts_: list[dict[str, Any]] | None = None
    converged_: bool | None = None
    n_iterations_: int | None = None
    agreement_: float | None = None
    n_equal_starts_: int | None = None
    validation_chose_: Sequence[str] = ()
    validation_counted_: bool = False
    intentions_found_: bool = False
    history_length_: int | None = None
    backoff_: Any = None
    default_: Mapping[str, Any] | None = None
    chosen_: Mapping[str, Any] = MappingProxyType({})
    choice_: Sequence[Mapping[str, Any]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "fit" in vars(cls):  # so that `report` and `plot` need not be told again what the fit was given
            cls.fit = remembering(cls.fit)  # type: ignore[method-assign]

    @abstractmethod
    def fit(self, demos: Demonstrations, mdp: MDP | None = None) -> Self:
        """Fit to demonstrations; ``mdp`` is estimated from them when it is needed and not given."""

    @abstractmethod
    def action_proba(self, demos: Demonstrations) -> FloatArray:
        """p(a | s_≤t, a_<t) of every step, (n, A); rows sum to one."""

    def suited(self, demos: Demonstrations) -> IntentionModel:
        """The unfitted model that its fit to these demonstrations will be: another one only where that is left open."""
        return self

    def stability(self, demos: Demonstrations) -> dict[str, Any] | None:
        """How alike fits to two halves of the data label them all; None of a method that does not say it by itself."""
        return None

    def predict_proba(self, demos: Demonstrations) -> FloatArray:
        """P(z_t=k | everything), (n, K); ones, (n, 1), where there is a single intention."""
        if self.n_intentions != 1:
            raise InputError(f"{type(self).__name__} has {self.n_intentions} intentions and no predict_proba.")
        return np.ones((self._check_new(demos).n_steps, 1))

    @property
    def pair(self) -> str | None:
        """Identifier of the pair of switching and rewards; None of a method that is none."""
        return None

    @property
    def leaks(self) -> bool:
        """Whether `paper_score` is not a likelihood, because the prior sees the action that it is scored on."""
        return False

    @property
    def is_density(self) -> bool:
        """Whether `score` is a log density of commands instead of a log probability of actions."""
        return False

    @property
    def looks_ahead(self) -> bool:
        """Whether `predict` reads what comes after a step; scores and streams never do."""
        return False

    def labels_of(self, probabilities: FloatArray, demos: Demonstrations) -> IntArray:
        """Labels (n,) that the beliefs (n, K) amount to: the likeliest, unless intentions come in an order."""
        return np.asarray(probabilities.argmax(axis=1), dtype=np.int64)

    def predict(self, demos: Demonstrations) -> IntArray:
        """Intention of every step, (n,), flat and aligned with the demonstrations."""
        return self.labels_of(self.predict_proba(demos), demos)

    def log_likelihood(self, demos: Demonstrations) -> FloatArray:
        """Log p(a_t | s_≤t, a_<t) of every step, (n,)."""
        expect_demonstrations(demos)
        taken = np.empty(demos.n_steps)
        for steps, part in parts_of(demos, max(MOST_PROBABILITIES // demos.n_actions, 1)):
            actions = part.actions[:, None].astype(np.int64)
            taken[steps] = np.take_along_axis(self.action_proba(part), actions, axis=1)[:, 0]
        with np.errstate(divide="ignore"):
            return np.log(taken)

    @property
    def n_parameters_(self) -> int:
        """How many numbers the fit has estimated; of a distribution one less than it has entries that are not zero.

        Penalties and shrinkage make fewer of them count, so that AIC and BIC are too hard on models that have them.
        """
        total, state = 0, self._state()
        for name, value in state.items():
            own, array = name.rsplit(".", 1)[-1], np.asarray(value)
            derived = own in DERIVED or (own == "policies_" and "weights_" in state)
            if derived or name.startswith(("mdp.", "data.")) or array.dtype.kind != "f" or not array.size:
                continue
            rows = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
            sums_to_one = (rows >= 0).all() and np.allclose(rows.sum(axis=1), 1.0, atol=1e-4)
            total += int(np.count_nonzero(rows)) - len(rows) if sums_to_one else rows.size
        return total

    def score(self, demos: Demonstrations) -> float:
        """Predictive log-likelihood per step, in nats."""
        return float(self.log_likelihood(demos).mean())

    def paper_score(self, demos: Demonstrations) -> float:
        """The paper's score per step; equal to `score` unless the prior sees the action (then not a likelihood)."""
        return self.score(demos)

    def chooser(self, demos: Demonstrations, trajectories: IntArray) -> Chooser:
        """Somebody who chooses as this model does, along some trajectories of the demonstrations, for simulations."""
        raise InputError(f"{type(self).__name__} does not say how it chooses step by step, so it cannot be simulated.")

    @property
    def history_(self) -> list[dict[str, float]]:
        """The former name of `monitor_`, which collided with the parameter ``history``."""
        warnings.warn("history_ is now monitor_; the old name goes with the next version.", FutureWarning, stacklevel=2)
        return self.monitor_

    def save(self, folder: str | Path) -> None:
        """Write config.json and model.safetensors into a folder (no pickle)."""
        from prism_irl.models.registry import save

        save(self, folder)

    @property
    def plot(self) -> Plot:
        """Pictures of the fitted model: ``plot.raster()``, ``plot.timeline()``, ``plot.maps()``, or of other data."""
        self._check_fitted()
        return Plot(self)

    report = report  # `models.reporting`
    summary = summary

    def _sizes(self) -> dict[str, int]:
        return {"n_states": self.n_states_, "n_actions": self.n_actions_}

    def _found(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name.endswith("_") and not name.startswith("_")}

    def _state(self) -> dict[str, Any]:
        """Tensors that, with the parameters and `_info`, determine the fitted model."""
        return {name: value for name, value in self._found().items() if isinstance(value, np.ndarray)}

    def _info(self) -> dict[str, Any]:
        """Sizes and other JSON values that `_load_state` needs."""
        plain = (bool, int, float, str, list, dict, type(None), np.generic)
        found = {name: value for name, value in self._found().items() if isinstance(value, plain)}
        return {name.removesuffix("_"): value for name, value in found.items()}

    def _load_state(self, tensors: dict[str, Any], info: dict[str, Any]) -> None:
        """Undo `_state` and `_info`."""
        self.n_states_, self.n_actions_ = int(info["n_states"]), int(info["n_actions"])
        for name, value in info.items():
            setattr(self, f"{name}_", value)
        for name, tensor in tensors.items():
            if not name.endswith("_") or name.startswith("_"):
                raise InputError(f"{name!r} is not something that a fit finds; restore the model's files or fit again.")
            setattr(self, name, np.asarray(tensor))

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_states_"):
            raise not_fitted(f"This {type(self).__name__} is not fitted yet; call fit first.")

    def _check_new(self, demos: Demonstrations) -> Demonstrations:
        """New data must speak the language of the fit."""
        self._check_fitted()
        expect_demonstrations(demos)
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


def check_mdp(mdp: Any, demos: Demonstrations) -> None:
    """Raise an `InputError` unless ``mdp`` is None or an MDP of the demonstrations' states and actions."""
    if mdp is None:
        return
    if not isinstance(mdp, MDP):
        raise InputError(
            f"The dynamics are of type {type(mdp).__name__}; wrap an (S, A, S) array with MDP.from_dense(P, discount)."
        )
    if (mdp.n_states, mdp.n_actions) != (demos.n_states, demos.n_actions):
        raise InputError(
            f"The MDP has {mdp.n_states} states and {mdp.n_actions} actions, the demonstrations {demos.n_states} and "
            f"{demos.n_actions}; give both the same sets."
        )


def with_valid_actions_of(mdp: MDP | None, demos: Demonstrations) -> Demonstrations:
    """Return demonstrations that carry the MDP's valid actions where they have none of their own."""
    check_mdp(mdp, demos)
    if mdp is None or demos.valid_actions is not None or mdp.valid_actions.all():
        return demos
    return demos.with_valid_actions(mdp.valid_actions.copy())


def validation_split(demos: Demonstrations, fraction: float, seed: int) -> tuple[Demonstrations, Demonstrations | None]:
    """Return (train, validation) trajectories; the end of the trajectory where there is only one.

    There is no validation part when ``fraction`` is 0 or when there is a single step.
    """
    if fraction <= 0 or demos.n_steps < 2:
        return demos, None
    if len(demos) > 1:
        validation, train = demos.split(fraction, seed=seed)
        return train, validation
    cut = demos.n_steps - min(max(round(fraction * demos.n_steps), 1), demos.n_steps - 1)
    halves = replace(demos, offsets=np.array([0, cut, demos.n_steps]), groups=None, trajectory_names=None)
    return halves.subset([0]), halves.subset([1])
