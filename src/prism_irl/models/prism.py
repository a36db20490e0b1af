"""PRISM as published (Sheng, Zhu & Boedecker): the paper's gate, with its score beside the honest one."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.switching import NetworkName

PAPER: dict[str, dict[str, Any]] = {
    "gridworld": {"n_intentions": 2, "max_iterations": 180, "discount": 0.9},
    "labyrinth": {"n_intentions": 3, "max_iterations": 180, "discount": 0.97, "l1": 2.22, "kl": 1.48},
    "bridge": {"n_intentions": 4, "max_iterations": 150, "discount": 0.97},
}
"""Table hparams; the gridworld is not in it, so there the labyrinth's network without penalties stands in."""


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
    network: NetworkName = "rnn"
    observe: Literal["past", "current"] = "current"
    embedding: int = 128
    hidden: int = 128
    learning_rate: float = 1e-3
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
