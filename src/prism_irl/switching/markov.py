"""The Markov chain: a constant kernel, P(z_t=k | z_{t-1}=j), updated in closed form (Baum–Welch).

HIQL's switching. Milliseconds per EM iteration, and the start of every richer chain: choose it first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.batching import Batch, Prepared, Stats
from prism_irl.devices import as_array
from prism_irl.switching.base import Counted, Posterior
from prism_irl.switching.chain import FLOOR, STICKINESS, ArrayChain
from prism_irl.switching.inference import expected_counts, infer_flat

if TYPE_CHECKING:
    from torch import Tensor


class MarkovChain(ArrayChain):
    """Constant kernel and initial distribution, updated in closed form (Baum–Welch).

    Both are plain arrays, so that fitting, asking and simulating a chain needs no torch; `initial` and `kernel` show
    the same memory as tensors, to be read or written by whoever computes with those.

    Attributes
    ----------
    begin : (K,), P(z_1=k)
    moves : (K, K), P(z_t=k | z_{t-1}=j)
    """

    exact = True
    adds_up = True
    free_kernel = True
    distributions = ("initial", "kernel")

    def __init__(self, n_intentions: int) -> None:
        self.n_intentions = n_intentions
        self.begin: FloatArray = np.full(n_intentions, 1.0 / n_intentions)
        stay = np.exp(STICKINESS * (np.eye(n_intentions) - 1.0))
        self.moves: FloatArray = stay / stay.sum(-1, keepdims=True)

    @property
    def initial(self) -> Tensor:
        """P(z_1=k), (K,), as a tensor on the CPU: writing into it changes the chain."""
        import torch

        return torch.from_numpy(self.begin)

    @property
    def kernel(self) -> Tensor:
        """P(z_t=k | z_{t-1}=j), (K, K), as a tensor on the CPU: writing into it changes the chain."""
        import torch

        return torch.from_numpy(self.moves)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Initial distribution and kernel."""
        return {"initial": self.begin, "kernel": self.moves}

    def take_over(self, chain: MarkovChain) -> None:
        """Copy the other chain."""
        self.load_state(chain.state())

    def log_initial(self) -> Tensor:
        """Log of the initial distribution."""
        return self.initial.to(self.device).log()

    def log_kernel(self, batch: Batch) -> Tensor:
        """The same kernel at every step, as a view."""
        return self.kernel.to(batch.mask.device).log().expand(*batch.states.shape, -1, -1)

    def expectation(self, data: Prepared, log_emission: Any, *, online: bool = True) -> Posterior:
        """Forward–backward over ragged data as it lies; in padded batches where that is not to be had."""
        found = None
        if str(self.device) == "cpu":
            with np.errstate(divide="ignore"):
                logs = np.log(self.begin), np.log(self.moves)
            found = infer_flat(*logs, as_array(log_emission), data.demos.offsets, online=online)
        return super().expectation(data, log_emission, online=online) if found is None else found

    def kernels(self, before: IntArray, now: IntArray) -> FloatArray:
        """The constant kernel, (K, K)."""
        return self.moves

    def statistics(self, data: Prepared, posterior: Posterior) -> Stats:
        """Expected counts of first steps (K,) and of moves (K, K)."""
        assert posterior.transitions is not None
        first = posterior.responsibilities[data.demos.offsets[:-1]].sum(0)
        return Stats(initial=first, transitions=posterior.transitions)

    def counted(self, data: Prepared, table: FloatArray) -> Counted | None:
        """Both passes over a table of policies, where there is a compiled path."""
        return expected_counts(self.begin, self.moves, table, data) if str(self.device) == "cpu" else None

    def update(self, stats: Stats) -> None:
        """Expected counts, normalised."""
        first, pairs = stats["initial"] + FLOOR, stats["transitions"] + FLOOR
        self.begin[...] = first / first.sum()
        self.moves[...] = pairs / pairs.sum(-1, keepdims=True)

    def dwell_proba(self, longest: int) -> FloatArray:
        """P(dwell = d) of each intention for d = 1 … ``longest``, (K, longest): geometric."""
        stay = self.moves.diagonal()[:, None]
        return np.asarray((1 - stay) * stay ** np.arange(longest))
