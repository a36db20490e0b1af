"""What can be asked of a fitted pair: beliefs, predictions, streams and simulations; and how it is kept on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from prism_irl import checked, em, storage
from prism_irl.data import mapped
from prism_irl.data.batching import Batch, Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations, expect_demonstrations, parts_of
from prism_irl.data.units import Units
from prism_irl.devices import as_array, available_device
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.base import FloatArray, IntArray, IntentionModel
from prism_irl.models.parameters import not_fitted
from prism_irl.models.streaming import IntentionFilter, PairChooser, simulate
from prism_irl.rewards.accents import accents_info, load_accents
from prism_irl.rewards.base import RewardModel
from prism_irl.switching.base import Posterior, Switching

if TYPE_CHECKING:
    from torch import Tensor


class FittedPair(IntentionModel):
    """Everything that follows from two fitted halves."""

    switching_: Switching
    rewards_model_: RewardModel
    contexts_: Contexts
    mdp_: MDP
    device: str
    units_: Units | None = None
    chosen_: Mapping[str, Any] = MappingProxyType({})
    choice_: Sequence[Mapping[str, Any]] = ()
    intentions_found_: bool = False
    default_: Mapping[str, Any] | None = None
    found_: Any = None

    def _prepare(self, demos: Demonstrations) -> Prepared:
        return Prepared.of(demos, self.contexts_, self.device_)

    def _check_fitted(self) -> None:
        if not hasattr(self, "mdp_"):  # the last thing that a fit sets
            raise not_fitted(f"This {type(self).__name__} is not fitted yet; call fit first.")

    def _check_new(self, demos: Demonstrations) -> Demonstrations:
        self._check_fitted()
        expect_demonstrations(demos)
        if self.units_ is not None:
            demos = self.units_.apply(demos)
        self.rewards_model_.check(demos)
        return super()._check_new(demos)

    def _emission(self, data: Prepared) -> Any:
        return self.switching_.reads(self.rewards_model_.log_likelihood(data))

    def _prediction(self, demos: Demonstrations) -> Posterior:
        """Beliefs by what is known before each command alone; those of `posterior` unless rewards look ahead."""
        if not self.looks_ahead:
            return self.posterior(demos)
        data = self._prepare(self._check_new(demos))
        return self.switching_.expectation(
            data, self.switching_.reads(self.rewards_model_.predictive_log_likelihood(data))
        )

    def posterior(self, demos: Demonstrations) -> Posterior:
        """All beliefs about the intention of every step; see `switching.base.Posterior`.

        Large continuous data are read in parts, and where they are mapped files, so are beliefs.
        """
        self._check_fitted()
        expect_demonstrations(demos)
        if self.units_ is None or not (self.rewards_model_.adds_up and demos.n_steps > em.LARGE):
            data = self._prepare(self._check_new(demos))
            return self.switching_.expectation(data, self._emission(data))
        found: list[FloatArray] = []
        for rows, part in parts_of(demos, em.PART):
            data = self._prepare(self._check_new(part))
            own = self.switching_.expectation(data, self._emission(data))[:4]
            found = found or [
                mapped.empty_like(demos.states, (demos.n_steps, *one.shape[1:]), one.dtype) for one in own
            ]
            for all_steps, values in zip(found, own, strict=True):
                all_steps[rows] = values
        responsibilities, predicted, filtered, likelihood = found
        return Posterior(responsibilities, predicted, filtered, likelihood)

    def predict_proba(self, demos: Demonstrations) -> FloatArray:
        """P(z_t=k | everything), (n, K): smoothed for a chain, Eq. (posterior) for a gate."""
        return self.posterior(demos).responsibilities

    def labels_of(self, probabilities: FloatArray, demos: Demonstrations) -> IntArray:
        """Labels (n,) of beliefs (n, K): the likeliest, or where stages pass in order, a path that keeps it."""
        return self.switching_.labels_of(probabilities, demos.offsets)

    def filter_proba(self, demos: Demonstrations) -> FloatArray:
        """P(z_t=k | s_≤t, a_≤t), (n, K): what `filter` gives step by step."""
        return self._prediction(demos).filtered

    def decode(self, demos: Demonstrations) -> IntArray:
        """Most probable path as a whole, (n,), of a chain; elsewhere `predict`."""
        data = self._prepare(self._check_new(demos))
        return self.switching_.decode(data, self._emission(data))

    def action_proba(self, demos: Demonstrations) -> FloatArray:
        """p(a | s_≤t, a_<t), (n, A)."""
        data = self._prepare(self._check_new(demos))
        if self.is_density:
            raise InputError(
                "Gaussian policies give a density of the command and no probability of an action token; use "
                'log_likelihood, or policies="softmax".'
            )

        import torch

        def policy_of(batch: Batch) -> Tensor:
            steps = batch.steps.cpu().numpy()
            policies = self.rewards_model_.policies_along(data, steps.reshape(-1))
            return torch.from_numpy(policies.reshape(*steps.shape, *policies.shape[1:])).to(batch.mask.device)

        return self.switching_.action_proba(data, self._emission(data), policy_of)

    @property
    def leaks(self) -> bool:
        """True for a gate that reads the current action."""
        self._check_fitted()
        return not self.switching_.normalised

    @property
    def is_density(self) -> bool:
        """Whether `score` is a log density of commands instead of a log probability of tokens."""
        self._check_fitted()
        return self.rewards_model_.is_density

    @property
    def looks_ahead(self) -> bool:
        """Whether `predict` reads what comes after a step; scores and streams never do."""
        self._check_fitted()
        return self.rewards_model_.looks_ahead

    def log_likelihood(self, demos: Demonstrations) -> FloatArray:
        """Log p(a_t | s_≤t, a_<t), (n,); straight from the E-step where its prior has not seen a_t."""
        return super().log_likelihood(demos) if self.leaks else self._prediction(demos).log_likelihood

    def paper_score(self, demos: Demonstrations) -> float:
        """Mean of log Σ_k f(φ_t)_k π_k(a_t | s_t); not a likelihood when φ_t holds a_t."""
        return float(self._prediction(demos).log_likelihood.mean())

    def filter(self) -> IntentionFilter:
        """Return a streaming filter: one (state, action) in, K probabilities out."""
        self._check_fitted()
        return IntentionFilter(self.switching_, self.rewards_model_, self.contexts_, self.device_, self.units_)

    def sample(self, n_trajectories: int = 1, length: int = 100, seed: int = 0) -> Demonstrations:
        """Simulate from the fitted model; the labels are the intentions drawn."""
        self._check_simulable()
        return simulate(
            self.switching_,
            self.rewards_model_,
            self.contexts_,
            self.mdp_,
            self.start_states_,
            n_trajectories=n_trajectories,
            length=length,
            generator=np.random.default_rng(seed),
            device=self.device_,
        )

    def chooser(self, demos: Demonstrations, trajectories: IntArray) -> PairChooser:
        """Chooses by the predictive distribution."""
        self._check_simulable()
        who = None if self.accents_ is None else self.accents_.who(demos)[trajectories]
        return PairChooser(self.switching_, self.rewards_model_, self.contexts_, self.device_, len(trajectories), who)

    def _check_simulable(self) -> None:
        self._check_fitted()
        if self.motion_shape_ is not None or self.n_observations_:
            raise InputError(
                "A fit with observations cannot be simulated, since they are measured; sample from one without."
            )

    # -- on disk ---------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        """Both halves, contexts, dynamics and start states."""
        valid = {} if self.valid_actions_ is None else {"valid_actions": self.valid_actions_}
        return {
            **storage.prefixed("switching", self.switching_.state()),
            **storage.prefixed("rewards", self.rewards_model_.state()),
            **storage.prefixed("contexts", self.contexts_.state()),
            **storage.prefixed("mdp", self.mdp_.state()),
            **({} if self.accents_ is None else storage.prefixed("accents", self.accents_.state())),
            **({} if self.units_ is None else storage.prefixed("units", self.units_.state())),
            **storage.prefixed("data", {"start_states": self.start_states_, **valid}),
        }

    def _info(self) -> dict[str, Any]:
        """Sizes and what the monitor concluded."""
        m, p, blocks = self.motion_shape_ or (0, 0, ())
        return {
            **self._sizes(),
            "n_observations": self.n_observations_,
            "n_motions": m,
            "n_weights": p,
            "noise_blocks": list(blocks),
            "backoff": self.backoff_,
            "history_choice": self.history_choice_,
            "chosen": dict(self.chosen_),
            "choice": list(self.choice_),
            "intentions_found": self.intentions_found_,
            "default": self.default_,
            **accents_info(self.accents_),
            "discount": self.mdp_.discount,
            "agreement": self.agreement_,
            "n_equal_starts": self.n_equal_starts_,
            "converged": self.converged_,
            "n_iterations": self.n_iterations_,
            "starts": self.starts_,
            "history_rows": self.monitor_,
        }

    def _load_state(self, tensors: dict[str, Any], info: dict[str, Any]) -> None:
        """Rebuild the halves, then fill them."""
        self.n_states_, self.n_actions_ = int(info["n_states"]), int(info["n_actions"])
        self.n_observations_ = int(info["n_observations"])
        self.motion_shape_ = None
        if info.get("n_motions"):
            blocks = tuple(int(block) for block in info["noise_blocks"])
            self.motion_shape_ = int(info["n_motions"]), int(info["n_weights"]), blocks
        self.device_ = available_device(self.device)
        contexts, dynamics, data, units = (
            {name: as_array(value) for name, value in storage.part(prefix, tensors).items()}
            for prefix in ("contexts", "mdp", "data", "units")
        )
        self.units_ = Units.from_state(units)
        self.contexts_ = Contexts.from_state(self.n_states_, contexts)
        self.history_length_, self.backoff_ = self.contexts_.length, float(info["backoff"])
        self.history_choice_ = info["history_choice"]
        self.chosen_, self.choice_ = dict(info.get("chosen", {})), list(info.get("choice", []))
        self.intentions_found_ = bool(info.get("intentions_found", False))
        self.default_ = info.get("default")
        self.accents_ = load_accents(tensors, info, (self.contexts_.n_contexts, self.n_actions_))
        self.mdp_ = MDP.from_state(self.n_states_, float(info["discount"]), dynamics)
        self.valid_actions_ = data.get("valid_actions")
        if self.valid_actions_ is not None:
            checked.shape("valid actions", self.valid_actions_, (self.n_states_, self.n_actions_))
        checked.shape("dynamics", self.mdp_.valid_actions, (self.n_states_, self.n_actions_))
        self.start_states_ = data["start_states"]
        checked.ids("start states", self.start_states_, self.n_states_)
        self.agreement_, self.n_equal_starts_ = info["agreement"], int(info["n_equal_starts"])
        self.converged_, self.n_iterations_ = bool(info["converged"]), int(info["n_iterations"])
        self.starts_, self.monitor_ = info["starts"], info["history_rows"]
        start = self._new_start(0, self._like_training_data())
        start.restore({name: value for name, value in tensors.items() if name.startswith(("switching.", "rewards."))})
        start.switching.check_loaded()
        self.switching_, self.rewards_model_ = start.switching, start.rewards

    def _new_start(self, index: int, demos: Demonstrations) -> em.Start:
        raise not_fitted(f"{type(self).__name__} does not say how to build its halves.")

    def _like_training_data(self) -> Demonstrations:
        """One step with the sizes of the training data: all that building the halves looks at."""
        action = 0 if self.valid_actions_ is None else int(np.argmax(self.valid_actions_[0]))
        demos = Demonstrations(
            np.zeros(1, np.int64),
            np.array([action]),
            np.array([0, 1]),
            self.n_states_,
            self.n_actions_,
            observations=np.zeros((1, self.n_observations_), np.float32) if self.n_observations_ else None,
            valid_actions=self.valid_actions_,
        )
        if self.motion_shape_ is None:
            return demos
        m, p, blocks = self.motion_shape_
        design = np.zeros((1, m, p)) if p else None
        return demos.with_commands(np.zeros((1, m)), design, noise_blocks=blocks)


def motion_shape(demos: Demonstrations) -> tuple[int, int, tuple[int, ...]] | None:
    """Dimensions of the commands, design vectors (0: none) and noise blocks; None where there are no commands."""
    if demos.motions is None:
        return None
    return demos.motions.shape[1], 0 if demos.design is None else demos.design.shape[2], demos.noise_blocks or ()
