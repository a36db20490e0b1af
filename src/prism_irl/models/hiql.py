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
from prism_irl.models.intentions import Intentions

SOLVERS = {"iavi": "tabular", "iql": "iql"}
"""Component behind each way to solve the rewards."""


@dataclass(eq=False, repr=False, kw_only=True)
class HIQL(Intentions):
    """Hierarchical inverse Q-learning: Markov chain over intentions, rewards by IAVI (HIAVI) or IQL.

    Parameters
    ----------
    n_intentions : int
        Number of intentions K.
    rewards : {"iavi", "iql"}
        How rewards follow from the policies: exactly, on the given or counted dynamics, or model-free from the
        transitions weighted by the smoothed responsibilities. Likelihood and labels are the same.
    history, smoothing, backoff, individuals, max_iterations, n_starts, seed, … : see `Intentions`
        Counts are cheap, so they are started ten times and not warmed up, and too small to gain from a GPU.

    Attributes
    ----------
    initial_ : (K,) P(z_1=k)
    kernel_ : (K, K) P(z_t=k | z_{t−1}=j)
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
        halves.check_choice(self, rewards=("iavi", "iql"))
        super()._check_parameters(demos)
