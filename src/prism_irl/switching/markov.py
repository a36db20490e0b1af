"""The Markov chain: a constant kernel, P(z_t=k | z_{t-1}=j), updated in closed form (Baum–Welch).

HIQL's switching. Milliseconds per EM iteration, and the start of every richer chain: choose it first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl.data.batching import Batch, Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.halves import check_numbers
from prism_irl.switching.base import Counts, Posterior, SwitchingOptions
from prism_irl.switching.chain import FLOOR, Chain, Previous, sticky
from prism_irl.switching.inference.dispatch import expected_counts, infer_flat
from prism_irl.switching.networks import Carry


class MarkovChain(Chain):
    """Constant kernel and initial distribution, updated in closed form (Baum–Welch)."""

    exact = True
    distributions = ("initial", "kernel")
    initial: Tensor
    kernel: Tensor

    def __init__(self, n_intentions: int) -> None:
        super().__init__()
        self.n_intentions = n_intentions
        self.register_buffer("initial", torch.full((n_intentions,), 1.0 / n_intentions, dtype=torch.float64))
        self.register_buffer("kernel", torch.softmax(sticky(n_intentions).double(), dim=-1))

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Copy the other chain."""
        self.initial.copy_(chain.initial)
        self.kernel.copy_(chain.kernel)

    def log_initial(self) -> Tensor:
        """Log of the initial distribution."""
        return self.initial.log()

    def log_kernel(self, batch: Batch) -> Tensor:
        """The same kernel at every step, as a view."""
        return self.kernel.log().expand(*batch.states.shape, -1, -1)

    def expectation(self, data: Prepared, log_emission: Tensor, *, online: bool = True) -> Posterior:
        """Forward–backward over ragged data as it lies; in padded batches where that is not to be had."""
        beliefs = None
        if self.kernel.device.type == "cpu":
            beliefs = infer_flat(
                self.log_initial(),
                self.kernel.log(),
                log_emission,
                data.demos.offsets,
                online=online,
                longest_first=data.longest_first,
            )
        if beliefs is None:
            return super().expectation(data, log_emission, online=online)
        return Posterior(
            beliefs.smoothed.numpy(),
            beliefs.predicted.numpy(),
            beliefs.filtered.numpy(),
            beliefs.log_likelihood.numpy(),
            beliefs.transitions.numpy(),
        )

    def stream_kernel(
        self, states: Tensor, previous: Previous | None, observations: Tensor | None, carry: Carry
    ) -> tuple[Tensor, Carry]:
        """The constant kernel."""
        return self.kernel.log().expand(len(states), -1, -1), carry

    def maximise(self, data: Prepared, log_emission: Tensor, posterior: Posterior, seed: Any) -> None:
        """Expected transition counts of the E-step, normalised."""
        assert posterior.transitions is not None
        begun = data.total(posterior.responsibilities[data.demos.offsets[:-1]].sum(0))
        self._normalise(begun, data.total(posterior.transitions))

    def count(self, data: Prepared, table: npt.NDArray[np.float64]) -> Counts | None:
        """Both passes over a table of policies, where there is a compiled path and all data are here."""
        own = type(self).maximise is MarkovChain.maximise and type(self).expectation is MarkovChain.expectation
        if self.kernel.device.type != "cpu" or not data.is_whole or not own:  # a subclass may have steps of its own
            return None
        return expected_counts(self.initial.numpy(), self.kernel.numpy(), table, data)

    def maximise_counts(self, counts: Counts) -> None:
        """Expected counts, normalised."""
        self._normalise(counts.begun, counts.moves)

    @torch.no_grad()
    def _normalise(self, begun: npt.NDArray[np.float64], moves: npt.NDArray[np.float64]) -> None:
        first, pairs = torch.from_numpy(begun) + FLOOR, torch.from_numpy(moves) + FLOOR
        self.initial.copy_(first / first.sum())
        self.kernel.copy_(pairs / pairs.sum(-1, keepdim=True))

    def dwell_proba(self, longest: int) -> npt.NDArray[np.float64]:
        """P(dwell = d) of each intention for d = 1 … ``longest``, (K, longest): geometric."""
        stay = self.kernel.diagonal().cpu().numpy()[:, None]
        return np.asarray((1 - stay) * stay ** np.arange(longest))


@dataclass(frozen=True)
class Markov(SwitchingOptions):
    """Options of the Markov chain.

    Parameters
    ----------
    inputs : bool
        The kernel reads the observations of a step, as a multinomial logit (`switching.inputs`); --inputs sets it.
    input_ridge : float
        Strength of the prior on what inputs do, in nats per squared standard deviation.
    """

    constant: ClassVar[bool] = True
    inputs: bool = False
    input_ridge: float = 1.0

    def check(self, n_intentions: int) -> None:
        """Strength of the prior."""
        check_numbers(self, {"input_ridge": 0})

    def build(self, n_intentions: int, demos: Demonstrations) -> Chain:
        """The chain, sticky and uniform."""
        if not self.inputs:
            return MarkovChain(n_intentions)
        from prism_irl.switching.inputs import InputChain

        if demos.observations is None:
            raise InputError("This Markov chain reads inputs, and the data have none; name their columns (--inputs).")
        return InputChain(n_intentions, demos.observations.shape[1], ridge=self.input_ridge)


@dataclass(frozen=True)
class Single(Markov):
    """One intention: a chain with nowhere to go."""

    def check(self, n_intentions: int) -> None:
        """K = 1."""
        if n_intentions != 1:
            raise InputError(f"single has one intention, and {n_intentions} were asked for; set n_intentions=1.")
