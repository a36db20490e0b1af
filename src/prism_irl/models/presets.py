"""Named methods that are a pair: each states its pair and the defaults that differ from those of `Intentions`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from prism_irl import halves
from prism_irl.arrays import FloatArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.switching import NetworkName
from prism_irl.switching.base import Switching
from prism_irl.switching.options import KernelName

PAPER: dict[str, dict[str, Any]] = {
    "gridworld": {"n_intentions": 2, "max_iterations": 180, "discount": 0.9},
    "labyrinth": {"n_intentions": 3, "max_iterations": 180, "discount": 0.97, "l1": 2.22, "kl": 1.48},
    "bridge": {"n_intentions": 4, "max_iterations": 150, "discount": 0.97},
}
"""Table hparams; the gridworld is not in it, so there the labyrinth's network without penalties stands in."""
SOLVERS = {"iavi": "tabular", "iql": "iql"}
"""Component behind each way of HIQL to solve the rewards."""
ORDERED = {"markov": False, "recurrent": True}
"""Switching that has an order of intentions, and whether a network reads the history then."""


@dataclass(eq=False, repr=False, kw_only=True)
class PRISM(Intentions):
    """Probabilistic Recurrent Intention Switching Model, the paper's: a gate that reads the current action, and IAVI.

    One random start, all iterations, no validation data. Its `paper_score` is the number of the paper's tables and no
    likelihood; `score` is one. The general estimator, any switching with any rewards, is `Intentions`, which version
    0.1.0 called PRISM.

    Parameters
    ----------
    n_intentions, l1, kl, network, observe, … : see `Intentions`
    """

    switching: str = field(default="independent", init=False)
    rewards: str = field(default="tabular", init=False)
    observe: Literal["past", "current"] = "current"
    n_starts: int = 1
    starts: Literal["mixed", "windows", "random", "annealed"] = "random"
    validation_fraction: float = 0.0
    patience: int | None = None

    def __new__(cls, *args: Any, **options: Any) -> PRISM:
        """PRISM(switching=…) was the general estimator for one version, and still gives it."""
        if cls is PRISM and {"switching", "rewards"} & options.keys():
            advice = "PRISM is the paper's model now; write Intentions(…), PRISM(switching=…) goes with version 0.3."
            warnings.warn(advice, FutureWarning, stacklevel=2)
            return Intentions(*args, **options)  # type: ignore[return-value]
        return super().__new__(cls)

    @classmethod
    def paper(cls, experiment: str, **changes: Any) -> Self:
        """Return the paper's model with Table hparams: "gridworld", "labyrinth" or "bridge"."""
        if experiment not in PAPER:
            raise InputError(f"The paper has no experiment {experiment!r}; choose {', '.join(PAPER)}.")
        settings: dict[str, Any] = {"seed": 42, **PAPER[experiment]}
        if changes.get("network") == "transformer":
            settings["epochs_per_m_step"] = 8
        return cls(**{**settings, **changes})


@dataclass(eq=False, repr=False, kw_only=True)
class HIQL(Intentions):
    """Hierarchical inverse Q-learning (Zhu et al. 2024): Markov chain over intentions, rewards by IAVI or IQL.

    Each intention's policy is the weighted counts of its steps, so that the likelihood is exactly that of a hidden
    Markov model. Counts are cheap: they are started ten times and not warmed up. Other parameters as in `Intentions`.

    Parameters
    ----------
    rewards : {"iavi", "iql"}
        How rewards follow from the policies: exactly, on the given or counted dynamics (HIAVI), or model-free from the
        transitions weighted by the smoothed responsibilities. Likelihood and labels are the same.
    """

    n_intentions: int = field(default=2, kw_only=False)
    switching: str = field(default="markov", init=False)
    rewards: Literal["iavi", "iql"] = "iavi"
    max_iterations: int = 300
    n_starts: int = 10
    n_candidates: int = 1
    warm_up: int = 0
    device: str = "cpu"

    def _halves(self) -> tuple[Any, Any]:
        return "markov", SOLVERS.get(self.rewards, "tabular")

    def _check_parameters(self, demos: Demonstrations) -> None:
        halves.check_choice(self, rewards=tuple(SOLVERS))
        super()._check_parameters(demos)


@dataclass(eq=False, repr=False, kw_only=True)
class TrajectoryMixture(Intentions):
    """Mixture of intentions over trajectories (Babes et al. 2011), each of which has one and keeps it.

    The null hypothesis of switching: what a chain gains over it, it gains by changes of mind within trajectories.
    `predict` gives the same intention to all steps of a trajectory; `filter_proba` and `filter` give the belief so
    far. Parameters as in `Intentions`; counts are cheap, so they are started ten times.
    """

    n_intentions: int = field(default=2, kw_only=False)
    switching: str = field(default="per-trajectory", init=False)
    rewards: str = field(default="tabular", init=False)
    max_iterations: int = 300
    n_starts: int = 10
    device: str = "cpu"

    @property
    def weights_(self) -> FloatArray:
        """P(z=k), (K,)."""
        return self._kept("weights")


@dataclass(eq=False, repr=False, kw_only=True)
class GoalPRISM(Intentions):
    """Planned goals on a shared habit, π_k(a|c) ∝ exp(h(c, a) + A_k(s, a)), as first published.

    A Markov chain finds the goals, and the habit is counted at the steps that want nothing.
    `Intentions(switching="state", rewards="goals")` lets a goal end where it is reached, and fits the habit to all
    steps. Each start looks for goals on its own random half of the trajectories, so that their agreement says whether
    other data would show the same goals.

    Parameters
    ----------
    n_intentions : K − 1 goals, and one intention that wants nothing in particular and follows the habit
    habit : counted at the steps that want nothing (true, "idle") unless it is fitted to all steps ("all")
    goal_discount, sparsity : see `rewards.options.Goals`
    """

    n_intentions: int = field(default=3, kw_only=False)
    switching: str = "markov"
    rewards: str = field(default="goals", init=False)
    network: NetworkName = "rnn"
    habit: bool | str = True
    goal_discount: float = 0.9
    sparsity: float = 50.0
    embedding: int = 128
    hidden: int = 128
    learning_rate: float = 1e-3
    patience: int | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class FeaturePRISM(Intentions):
    """Intentions with policies linear in features (`rewards.linear`): for robots, whose tokens are too fine for tables.

    The score of Gaussian policies is a log *density*: compare it with other densities of the same commands, never with
    the likelihood of tokens. Networks are small by default: robot data sets have hundreds of demonstrations.

    Parameters
    ----------
    policies : "gaussian" over continuous commands, or "softmax" over action tokens
    ordered : every demonstration passes through the intentions once, in order; for chains
    ridge, noise, noise_strength : see `rewards.options.Features`
    """

    n_intentions: int = field(default=5, kw_only=False)
    policies: Literal["gaussian", "softmax"] = "gaussian"
    switching: str = "markov"
    rewards: str = field(default="features", init=False)
    ordered: bool = False
    network: NetworkName = "gru"
    ridge: float = 1.0
    noise: float = 0.01
    noise_strength: float = 10.0
    embedding: int = 16
    hidden: int = 16
    learning_rate: float = 3e-3
    warm_up: int = 30
    max_iterations: int = 100
    n_starts: int = 8
    discount: float = 0.97
    device: str = "cpu"

    def _halves(self) -> tuple[Any, Any]:
        return "ordered" if self.ordered else self.switching, "features"

    def _parameters(self) -> dict[str, Any]:
        return super()._parameters() | {"recurrent": ORDERED.get(self.switching, False), "interaction": False}

    def _warm_up(self, switching: Switching) -> tuple[int, int]:
        return 1, self.warm_up if switching.incremental else 0

    def _check_parameters(self, demos: Demonstrations) -> None:
        halves.check_choice(self, policies=("gaussian", "softmax"))
        if self.ordered and self.switching not in ORDERED:
            raise InputError(f"{self.switching} has no order of intentions; choose a chain or ordered=False.")
        super()._check_parameters(demos)

    @property
    def weights_(self) -> FloatArray:
        """Weights of every intention: (K, p) for Gaussian policies, (K, A, d + 1) for softmax."""
        self._check_fitted()
        return self.rewards_model_.state()["weights"]


@dataclass(eq=False, repr=False, kw_only=True)
class SWIRL(Intentions):
    """Switching inverse reinforcement learning (Ke et al. 2025): planned rewards, switches that read the state.

    P(z_{t+1} | z_t, s_t) = softmax(log_Ps[z_t, :] + g(s_t)), and rewards R_z(s) (S-1) or R_z(s_prev, s) (S-2), whose
    policies come from soft value iteration. EM as in the paper's Section 3, except that the reward step is solved over
    values, where it is convex, instead of through a hundred unrolled iterations (`rewards.soft`). R_z(s_prev, s)
    cancels from the choice made in s: policies of S-2 depend on the current state alone, and can be any policy of it
    where actions lead to different states, which S-1's cannot.

    Discount, hidden units and iterations are the paper's; the authors start from another model and from rewards found
    on other data.

    Parameters
    ----------
    order : 1 for rewards on states, R(s) (S-1), 2 for rewards on transitions, R(s_prev, s) (S-2)
    temperatures : τ of each intention's soft value iteration, 1 by default (the paper's labyrinth: 0.01, 1, 1). Since
        rewards are free, τ is only the unit of the rewards found; likelihood and labels do not depend on it.
    kernel : g(s) by a network ("mlp") of ``hidden`` sigmoid units (the paper's labyrinth) or a free "table"
    hidden, kernel_ridge : see `switching.options.State`
    invalid_actions, ridge : see `rewards.options.SoftStates`
    """

    n_intentions: int = field(default=3, kw_only=False)
    switching: str = field(default="state", init=False)
    rewards: str = field(default="soft-1", init=False)
    order: int = 1
    temperatures: Sequence[float] | None = None
    kernel: KernelName = "mlp"
    invalid_actions: Literal["mask", "stay"] = "mask"
    ridge: float = 0.01
    kernel_ridge: float = 0.1

    def _halves(self) -> tuple[Any, Any]:
        return "state", f"soft-{self.order}"

    def _parameters(self) -> dict[str, Any]:
        found = super()._parameters()
        return found | {"temperatures": None if self.temperatures is None else tuple(self.temperatures)}

    def _check_parameters(self, demos: Demonstrations) -> None:
        if self.order not in (1, 2):
            raise InputError(f"The order of the rewards is {self.order}; choose 1 for R(s) or 2 for R(s_prev, s).")
        super()._check_parameters(demos)
