"""PRISM with policies that share parameters across states: for robots, whose tokens are too fine for tables.

`policies="gaussian"` explains continuous commands (`Demonstrations.continuous`), `policies="softmax"` action tokens
from observation vectors; both work with every switching model, and `ordered=True` lets a demonstration pass through the
intentions once, in order. The score of Gaussian policies is a log *density*: compare it with other densities of the
same commands, never with the likelihood of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from prism_irl import halves
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.base import FloatArray
from prism_irl.models.intentions import Intentions
from prism_irl.switching import NetworkName
from prism_irl.switching.base import Switching

ORDERED = {"markov": False, "recurrent": True}
"""Switching that has an order of intentions, and whether a network reads the history then."""


@dataclass(eq=False, repr=False, kw_only=True)
class FeaturePRISM(Intentions):
    """Intentions with policies linear in features.

    Parameters
    ----------
    n_intentions : int
        Number of intentions K.
    policies : {"gaussian", "softmax"}
        Over continuous commands, or over action tokens.
    switching : {"markov", "recurrent", "independent"}
        How intentions switch. The networks read tokens and, where there are any, observations.
    ordered : bool
        Every demonstration passes through the intentions once, in order; for chains.
    network : {"rnn", "lstm", "gru", "transformer"}
        What reads the history.
    ridge : float
        Strength of the prior on the weights; one is far below what a few hundred steps say.
    noise, noise_strength : float
        Prior variance of a command, and how many commands it is worth.
    warm_up : int
        Markov-chain EM iterations before a recurrent chain begins.
    embedding, hidden, n_starts, seed, … : see `Intentions`
        Networks are small by default: robot data sets have hundreds of demonstrations.
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
