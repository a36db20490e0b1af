"""HIQL (Zhu et al. 2024): a hidden Markov chain over intentions, fitted by Baum–Welch.

Initial distribution and K×K kernel are constant; each intention's policy is the weighted counts of its steps, so that
the likelihood is exactly that of a hidden Markov model, and its rewards are solved by IAVI or learned by IQL
afterwards. Milliseconds per EM iteration: start many times, and show it beside anything recurrent.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, Self

import torch

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.pair import PairModel
from prism_irl.models.starts import StartKind
from prism_irl.rewards.base import RewardModel
from prism_irl.rewards.iavi import InverseSolution
from prism_irl.rewards.iql import LearningRates, solve_iql
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.switching.base import Switching
from prism_irl.switching.markov import MarkovChain

Starts = Literal["mixed", "windows", "random"]


class CountPair(PairModel):
    """Pairs of weighted-count policies and a switching model with a closed-form M-step: cheap, so started often.

    Parameters
    ----------
    n_intentions : int
        Number of intentions K.
    history : int or "auto"
        Policies depend on the last ``history`` states; "auto" chooses 1 to 6 on the validation trajectories.
    smoothing : float
        Pseudo-count of every valid action in every state.
    backoff : float or "auto"
        Strength of the shrinkage of longer histories towards shorter ones; "auto" chooses it with the history.
    max_iterations : int
        EM iterations at most, per start.
    n_starts : int
        Independent starts; the best by validation likelihood is kept, by training likelihood without validation data.
    validation_fraction : float
        Share of the training trajectories that decides when to stop and which start to keep.
    recount : bool
        In the end count the policies on all trajectories, those of validation included, which long histories need;
        scores on the validation trajectories are then no longer held out.
    patience : int or None
        Iterations without a rise of the monitored likelihood before a start stops; None runs all.
    discount : float
        γ of the rewards when no MDP is given. Likelihood and labels do not depend on it.
    starts : {"mixed", "windows", "random"}
        Kinds of first responsibilities.
    device : {"cpu", "auto", "cuda"}
        These models are too small to gain from a GPU.
    seed : int
        The one source of randomness.
    """

    def __init__(
        self,
        n_intentions: int = 2,
        *,
        history: int | Literal["auto"] = 1,
        smoothing: float = 0.01,
        backoff: float | Literal["auto"] = 5.0,
        max_iterations: int = 300,
        n_starts: int = 10,
        validation_fraction: float = 0.1,
        recount: bool = False,
        patience: int | None = 10,
        discount: float = 0.97,
        starts: Starts = "mixed",
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        self.n_intentions = n_intentions
        self.history = history
        self.smoothing = smoothing
        self.backoff = backoff
        self.max_iterations = max_iterations
        self.n_starts = n_starts
        self.validation_fraction = validation_fraction
        self.recount = recount
        self.patience = patience
        self.discount = discount
        self.starts = starts
        self.device = device
        self.seed = seed

    @abstractmethod
    def _switching(self) -> Switching:
        """Return the untrained switching model."""

    def _build(self, demos: Demonstrations) -> tuple[Switching, RewardModel]:
        settings = {"smoothing": self.smoothing, "backoff": self.backoff_}
        valid = demos.valid_actions
        policies = TabularPolicies(self.n_intentions, demos.n_actions, self.contexts_, valid, **settings)
        return self._switching(), policies

    def _start_kinds(self) -> tuple[StartKind, ...]:
        return ("windows", "random") if self.starts == "mixed" else (self.starts,)

    def _check_parameters(self, demos: Demonstrations) -> None:
        super()._check_parameters(demos)
        self._check_numbers({"smoothing": 0} if self.backoff == "auto" else {"smoothing": 0, "backoff": 0})
        if self.starts not in ("mixed", "windows", "random"):
            raise InputError(f"starts is {self.starts!r}; choose mixed, windows or random.")


class HIQL(CountPair):
    """Hierarchical inverse Q-learning: Markov chain over intentions, rewards by IAVI (HIAVI) or IQL.

    Parameters
    ----------
    n_intentions : int
        Number of intentions K.
    rewards : {"iavi", "iql"}
        How rewards follow from the policies: exactly, on the given or counted dynamics, or model-free from the
        transitions weighted by the smoothed responsibilities. Likelihood and labels are the same.
    history, smoothing, backoff, max_iterations, n_starts, validation_fraction, recount, patience : see `CountPair`
    discount, starts, device, seed : see `CountPair`

    Attributes
    ----------
    initial_ : (K,) P(z_1=k)
    kernel_ : (K, K) P(z_t=k | z_{t−1}=j)
    """

    def __init__(
        self,
        n_intentions: int = 2,
        *,
        rewards: Literal["iavi", "iql"] = "iavi",
        history: int | Literal["auto"] = 1,
        smoothing: float = 0.01,
        backoff: float | Literal["auto"] = 5.0,
        max_iterations: int = 300,
        n_starts: int = 10,
        validation_fraction: float = 0.1,
        recount: bool = False,
        patience: int | None = 10,
        discount: float = 0.97,
        starts: Starts = "mixed",
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        super().__init__(
            n_intentions,
            history=history,
            smoothing=smoothing,
            backoff=backoff,
            max_iterations=max_iterations,
            n_starts=n_starts,
            validation_fraction=validation_fraction,
            recount=recount,
            patience=patience,
            discount=discount,
            starts=starts,
            device=device,
            seed=seed,
        )
        self.rewards = rewards

    def _switching(self) -> Switching:
        return MarkovChain(self.n_intentions)

    @property
    def initial_(self) -> Any:
        """P(z_1=k), (K,)."""
        return self.switching_.get_buffer("initial").cpu().numpy()

    @property
    def kernel_(self) -> Any:
        """P(z_t=k | z_{t−1}=j), (K, K)."""
        return self.switching_.get_buffer("kernel").cpu().numpy()

    def fit(self, demos: Demonstrations, mdp: MDP | None = None, **options: Any) -> Self:
        """Fit by Baum–Welch; options as in `PairModel.fit`. IQL reads no more of an MDP than discount and mask."""
        super().fit(demos, mdp, **options)
        if self.rewards == "iql":
            masked = demos.with_valid_actions(self.mdp_.valid_actions)
            weights = self.predict_proba(demos)
            self.solution_ = solve_iql(masked, weights, discount=self.mdp_.discount, rates=LearningRates())
        return self

    def _check_parameters(self, demos: Demonstrations) -> None:
        super()._check_parameters(demos)
        if self.rewards not in ("iavi", "iql"):
            raise InputError(f"rewards is {self.rewards!r}; choose iavi or iql.")

    def state(self) -> dict[str, Any]:
        """The pair, and learned rewards, which unlike solved ones do not follow from it."""
        if self.rewards != "iql":
            return super().state()
        solution = {name: value for name, value in self._solution()._asdict().items() if value is not None}
        return {**super().state(), **storage.prefixed("iql", solution)}

    def load_state(self, tensors: dict[str, Any], info: dict[str, Any]) -> None:
        """Undo `state`."""
        super().load_state(tensors, info)
        learned = {name: torch.as_tensor(value).numpy() for name, value in storage.part("iql", tensors).items()}
        if learned:
            self.solution_ = InverseSolution(**learned)
