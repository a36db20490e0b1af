"""Chains whose kernel reads covariates (thirst, time in the session): a multinomial logit for every intention.

    P(z_t=k | z_{t-1}=j, x_t) = softmax_k(B_jk + w_jk · x_t),      w_jj = 0,

so that w_jk is what one standard deviation of an input adds to the log odds of going from j to k against staying. The
M-step is concave: the pairwise posteriors of every step weigh one logistic regression per intention (`logit`). Here is
what all such chains share, and the Markov chain; `ordered`, `state_inputs` and `semi_markov_inputs` have the others.
Networks read the same inputs (`recurrent`, `independent`); here their effect can be read off.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl.core.stats import Rows, Stats
from prism_irl.data.batching import Batch, Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.switching.base import Posterior, Switching
from prism_irl.switching.chain import FLOOR, Chain, Previous, sticky
from prism_irl.switching.inference import infer_steps
from prism_irl.switching.logit import Logit, fit_logit
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.networks import Carry, SwitchingModule

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
SMALLEST = 1e-3  # a kernel entry of nearly zero would take EM forever to revive


def n_inputs_of(demos: Demonstrations) -> int:
    """Number of inputs of every step; an `InputError` where there are none."""
    if demos.observations is None:
        raise InputError("This switching reads inputs, and the data have none; name their columns (--covariates).")
    return int(demos.observations.shape[1])


class ReadsInputs(Switching):
    """What chains that read inputs share, standardised ones: 0 is their mean."""

    def check_inputs(self, observations: Any) -> None:
        """Raise an `InputError` unless there are as many inputs as the fit had."""
        if observations is None or observations.shape[-1] != self.n_inputs:
            raise InputError(f"The switching reads {self.n_inputs} inputs; give the columns that the fit had.")

    def inputs_of(self, data: Prepared) -> FloatArray:
        """Inputs of all steps here, (n, d)."""
        self.check_inputs(data.demos.observations)
        return np.asarray(data.demos.observations, dtype=np.float64)


class InputKernel(SwitchingModule, Chain, ReadsInputs):
    """A kernel over intentions that reads inputs: everything but what the kernel is, and how it is fitted.

    Attributes
    ----------
    weights : (K, K, d)
        w, zero on the diagonal.
    """

    reads_pairs = True
    initial: Tensor
    weights: Tensor

    def __init__(self, n_intentions: int, n_inputs: int, ridge: float) -> None:
        super().__init__()
        K = n_intentions
        self.n_intentions, self.n_inputs, self.ridge = K, n_inputs, ridge
        self.register_buffer("initial", torch.full((K,), 1.0 / K, dtype=torch.float64))
        self.register_buffer("weights", torch.zeros(K, K, n_inputs, dtype=torch.float64))

    @abstractmethod
    def log_kernels(self, inputs: Tensor, before: Tensor) -> Tensor:
        """Log kernel at inputs (…, d) of the step that is entered, from the state (…) before it, (…, K, K)."""

    def _pull(self, inputs: Tensor) -> Tensor:
        """What inputs (…, d) add to the logits, (…, K, K)."""
        return torch.einsum("...d,jkd->...jk", inputs.double(), self.weights)

    def log_initial(self) -> Tensor:
        """Log of the initial distribution."""
        return self.initial.log()

    def log_kernel(self, batch: Batch) -> Tensor:
        """Kernel into step t, read from the inputs of step t, (B, T, K, K)."""
        self.check_inputs(batch.observations)
        assert batch.observations is not None
        before = torch.cat([batch.states[:, :1], batch.states[:, :-1]], dim=1)
        return self.log_kernels(batch.observations, before)

    def stream_kernel(
        self, states: Tensor, previous: Previous | None, observations: Tensor | None, carry: Carry
    ) -> tuple[Tensor, Carry]:
        """Kernel at the inputs of the step."""
        if observations is None:
            raise InputError(f"The switching reads {self.n_inputs} inputs; give them with every step.")
        return self.log_kernels(observations, states if previous is None else previous.states), carry

    def effects(self) -> FloatArray:
        """The weights."""
        return np.asarray(self.weights.cpu().numpy(), dtype=np.float64)

    # -- inference and learning ----------------------------------------------------------------------------------------

    @torch.no_grad()
    def expectation(self, data: Prepared, log_emission: Tensor, *, online: bool = True) -> Posterior:
        """Forward–backward over ragged data as it lies; in padded batches where that is not to be had."""
        found = None
        if self.initial.device.type == "cpu":
            before = torch.from_numpy(states_before(data.demos))
            kernel = self.log_kernels(torch.from_numpy(self.inputs_of(data)), before).exp()
            arrays = self.log_initial().numpy(), kernel.numpy(), log_emission.double().numpy()
            found = infer_steps(*arrays, data.demos.offsets, online=online)
        return super().expectation(data, log_emission, online=online) if found is None else found

    def statistics(self, data: Prepared, posterior: Posterior) -> Stats:
        """Expected counts of first steps; inputs, the state before and expected moves of every step."""
        assert posterior.pairwise is not None
        rows = Rows(self.inputs_of(data), states_before(data.demos), posterior.pairwise)
        return Stats(initial=first_counts(data, posterior), rows=rows)

    @torch.no_grad()
    def update(self, stats: Stats) -> None:
        """Initial distribution in closed form, one weighted multinomial regression per intention."""
        self._update_initial(stats["initial"])
        inputs, before, pairs = stats["rows"].joined()
        for j in range(self.n_intentions):
            others = self.successors(j)
            if others:
                self._regress(j, others, pairs[:, j][:, [j, *others]], inputs, before)

    def successors(self, j: int) -> list[int]:
        """Intentions that may follow j, itself left out."""
        return [k for k in range(self.n_intentions) if k != j]

    @abstractmethod
    def _regress(self, j: int, others: list[int], targets: FloatArray, inputs: FloatArray, before: IntArray) -> None:
        """Fit what follows j, from the expected moves (n, 1 + len(others)) of every step, staying first."""

    def _update_initial(self, first: FloatArray) -> None:
        self.initial.copy_(first_intentions(first))


def first_counts(data: Prepared, posterior: Posterior) -> FloatArray:
    """Expected number of first steps of every intention, (K,)."""
    return np.asarray(posterior.responsibilities[data.demos.offsets[:-1]].sum(0))


def first_intentions(counts: FloatArray) -> Tensor:
    """P(z_1=k), (K,), from expected counts of first steps."""
    first = torch.from_numpy(counts) + FLOOR
    return first / first.sum()


def states_before(demos: Demonstrations) -> npt.NDArray[np.int64]:
    """State of the step before each, (n,); that of a first step is never read."""
    before = np.zeros(demos.n_steps, np.int64)
    before[1:] = demos.states[:-1]
    return before


def floored(kernel: Tensor) -> Tensor:
    """A kernel whose entries EM can still move."""
    raised = kernel.clamp_min(SMALLEST)
    return raised / raised.sum(-1, keepdim=True)


class InputChain(InputKernel):
    """Markov chain with covariates.

    Parameters
    ----------
    n_intentions, n_inputs : int
    ridge : float
        Strength of a Gaussian prior on the weights w, in nats: inputs are standardised.
    """

    bias: Tensor

    def __init__(self, n_intentions: int, n_inputs: int, *, ridge: float = 1.0) -> None:
        super().__init__(n_intentions, n_inputs, ridge)
        self.register_buffer("bias", torch.log_softmax(sticky(n_intentions).double(), dim=-1))

    def kernels_at(self, inputs: Tensor) -> Tensor:
        """Log kernel at inputs (…, d), (…, K, K)."""
        return torch.log_softmax(self.bias + self._pull(inputs), dim=-1)

    def log_kernels(self, inputs: Tensor, before: Tensor) -> Tensor:
        """Whatever the state."""
        return self.kernels_at(inputs)

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given Markov chain, whatever the inputs."""
        self.bias.copy_(floored(chain.kernel).log())
        self.weights.zero_()
        self.initial.copy_(floored(chain.initial))

    def _regress(self, j: int, others: list[int], targets: FloatArray, inputs: FloatArray, before: IntArray) -> None:
        """Maximise Σ_t Σ_k ξ_t(j, k) log P(k | j, x_t) − ½ ridge |w_j|² from the present weights."""
        bias = (self.bias[j] - self.bias[j, j]).cpu().numpy()[others]
        start = Logit(bias[None], self.weights[j].cpu().numpy()[others])
        group = np.zeros(len(inputs), np.int64)
        found = fit_logit(start, inputs, group, targets, ridge=self.ridge)
        self.bias[j, j] = 0.0
        self.bias[j, others] = torch.from_numpy(found.biases[0]).to(self.bias)
        self.weights[j, others] = torch.from_numpy(found.slopes).to(self.weights)

    # -- what it says --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def leaving(self, inputs: npt.ArrayLike) -> FloatArray:
        """Probability of leaving each intention at inputs (m, d), (m, K)."""
        kernel = self.kernels_at(torch.as_tensor(np.asarray(inputs, dtype=np.float64)).to(self.bias)).exp()
        return np.asarray(1.0 - kernel.diagonal(dim1=-2, dim2=-1).cpu().numpy(), dtype=np.float64)
