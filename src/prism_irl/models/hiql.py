"""HIQL (Zhu et al. 2024): a hidden Markov chain over intentions, fitted by Baum–Welch.

Initial distribution and K×K kernel are constant; each intention's policy is the weighted counts of its steps, so that
the likelihood is exactly that of a hidden Markov model, and its rewards are solved by IAVI or learned by IQL
afterwards. Milliseconds per EM iteration: start many times, and show it beside anything recurrent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from prism_irl import halves
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models.pair import PairModel


@dataclass(eq=False, repr=False, kw_only=True)
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
    individuals : bool
        Every animal (group of trajectories) may do some things more often than the others do, whatever it wants
        (`rewards.accents`); how much it may differ is chosen on validation trajectories. A new animal does as all do.
    recount : bool
        In the end count the policies on all trajectories, those of validation included, which long histories need;
        the validation score is then that from before.
    starts : {"mixed", "windows", "random"}
        Kinds of first responsibilities.
    max_iterations, n_starts, validation_fraction, stop_by, patience, discount, device, seed : see `PairModel`
        These models are too small to gain from a GPU. Likelihood and labels do not depend on the discount.
    """

    n_intentions: int = field(default=2, kw_only=False)
    history: int | Literal["auto"] = 1
    smoothing: float = 0.01
    backoff: float | Literal["auto"] = 5.0
    individuals: bool = False
    max_iterations: int = 300
    n_starts: int = 10
    recount: bool = False
    starts: Literal["mixed", "windows", "random"] = "mixed"
    device: str = "cpu"

    def _check_parameters(self, demos: Demonstrations) -> None:
        halves.check_choice(self, starts=("mixed", "windows", "random"))
        super()._check_parameters(demos)


@dataclass(eq=False, repr=False, kw_only=True)
class HIQL(CountPair):
    """Hierarchical inverse Q-learning: Markov chain over intentions, rewards by IAVI (HIAVI) or IQL.

    Parameters
    ----------
    n_intentions : int
        Number of intentions K.
    rewards : {"iavi", "iql"}
        How rewards follow from the policies: exactly, on the given or counted dynamics, or model-free from the
        transitions weighted by the smoothed responsibilities. Likelihood and labels are the same.
    history, smoothing, backoff, max_iterations, n_starts, validation_fraction, recount, stop_by : see `CountPair`
    patience, discount, starts, device, seed : see `CountPair`

    Attributes
    ----------
    initial_ : (K,) P(z_1=k)
    kernel_ : (K, K) P(z_t=k | z_{t−1}=j)
    """

    rewards: Literal["iavi", "iql"] = "iavi"

    def _halves(self) -> tuple[Any, Any]:
        return "markov", "iql" if self.rewards == "iql" else "tabular"

    def _check_parameters(self, demos: Demonstrations) -> None:
        halves.check_choice(self, rewards=("iavi", "iql"))
        super()._check_parameters(demos)
