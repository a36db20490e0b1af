"""A Markov chain whose kernel reads covariates (thirst, time in the session): a multinomial logit for every intention,.

    P(z_t=k | z_{t-1}=j, x_t) = softmax_k(B_jk + w_jk · x_t),      w_jj = 0,

so that w_jk is what one standard deviation of an input adds to the log odds of going from j to k against staying. The
M-step is convex: the pairwise posteriors of every step weigh one logistic regression per intention. Networks read the
same inputs (`recurrent`, `independent`); here their effect can be read off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl.data.batching import Batch, Prepared
from prism_irl.errors import InputError
from prism_irl.switching.base import Posterior
from prism_irl.switching.chain import FLOOR, Chain, Previous, sticky
from prism_irl.switching.inference.flat import infer_steps
from prism_irl.switching.logit import Logit, fit_logit
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.module import SwitchingModule
from prism_irl.switching.networks import Carry

FloatArray = npt.NDArray[np.float64]
SMALLEST = 1e-3  # a kernel entry of nearly zero would take the gradient forever to revive


class InputChain(SwitchingModule, Chain):
    """Markov chain with covariates.

    Parameters
    ----------
    n_intentions, n_inputs : int
    ridge : float
        Strength of a Gaussian prior on the weights w, in nats: inputs are standardised.
    """

    initial: Tensor
    bias: Tensor
    weights: Tensor

    def __init__(self, n_intentions: int, n_inputs: int, *, ridge: float = 1.0) -> None:
        super().__init__()
        K = n_intentions
        self.n_intentions, self.n_inputs, self.ridge = K, n_inputs, ridge
        self.register_buffer("initial", torch.full((K,), 1.0 / K, dtype=torch.float64))
        self.register_buffer("bias", torch.log_softmax(sticky(K).double(), dim=-1))
        self.register_buffer("weights", torch.zeros(K, K, n_inputs, dtype=torch.float64))

    def log_initial(self) -> Tensor:
        """Log of the initial distribution."""
        return self.initial.log()

    def kernels_at(self, inputs: Tensor) -> Tensor:
        """Log kernel at inputs (…, d), (…, K, K)."""
        logits = self.bias + torch.einsum("...d,jkd->...jk", inputs.double(), self.weights)
        return torch.log_softmax(logits, dim=-1)

    def log_kernel(self, batch: Batch) -> Tensor:
        """Kernel into step t, read from the inputs of step t, (B, T, K, K)."""
        self._check(batch.observations)
        assert batch.observations is not None
        return self.kernels_at(batch.observations)

    def _check(self, observations: Any) -> None:
        if observations is None or observations.shape[-1] != self.n_inputs:
            raise InputError(f"The switching reads {self.n_inputs} inputs; give the columns that the fit had.")

    def _inputs(self, data: Prepared) -> FloatArray:
        """Inputs of all steps here, (n, d)."""
        self._check(data.demos.observations)
        return np.asarray(data.demos.observations, dtype=np.float64)

    def stream_kernel(
        self, states: Tensor, previous: Previous | None, observations: Tensor | None, carry: Carry
    ) -> tuple[Tensor, Carry]:
        """Kernel at the inputs of the step."""
        if observations is None:
            raise InputError(f"The switching reads {self.n_inputs} inputs; give them with every step.")
        return self.kernels_at(observations), carry

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given Markov chain, whatever the inputs."""
        floored = chain.kernel.clamp_min(SMALLEST)
        self.bias.copy_((floored / floored.sum(-1, keepdim=True)).log())
        self.weights.zero_()
        first = chain.initial.clamp_min(SMALLEST)
        self.initial.copy_(first / first.sum())

    # -- inference and learning ----------------------------------------------------------------------------------------

    @torch.no_grad()
    def expectation(self, data: Prepared, log_emission: Tensor, *, online: bool = True) -> Posterior:
        """Forward–backward over ragged data as it lies; in padded batches where that is not to be had."""
        found = None
        if self.initial.device.type == "cpu":
            kernel = self.kernels_at(torch.from_numpy(self._inputs(data))).exp()
            arrays = self.log_initial().numpy(), kernel.numpy(), log_emission.double().numpy()
            found = infer_steps(*arrays, data.demos.offsets, online=online)
        return super().expectation(data, log_emission, online=online) if found is None else found

    @torch.no_grad()
    def maximise(self, data: Prepared, log_emission: Tensor, posterior: Posterior, seed: Any) -> None:
        """Initial distribution in closed form, one weighted multinomial regression per intention."""
        pairs = posterior.pairwise  # with the parameters of the E-step
        if pairs is None:
            pairs = self.pairwise(data, log_emission)
        first = torch.from_numpy(data.total(posterior.responsibilities[data.demos.offsets[:-1]].sum(0))) + FLOOR
        self.initial.copy_(first / first.sum())
        if self.n_intentions == 1:
            return
        inputs = self._inputs(data)
        for j in range(self.n_intentions):
            self._regress(j, pairs[:, j], inputs, data)

    def _regress(self, j: int, targets: FloatArray, inputs: FloatArray, data: Prepared) -> None:
        """Maximise Σ_t Σ_k ξ_t(j, k) log P(k | j, x_t) − ½ ridge |w_j|² from the present weights."""
        others = [k for k in range(self.n_intentions) if k != j]
        bias = (self.bias[j] - self.bias[j, j]).cpu().numpy()[others]
        start = Logit(bias[None], self.weights[j].cpu().numpy()[others])
        group = np.zeros(len(inputs), np.int64)
        found = fit_logit(start, inputs, group, targets[:, [j, *others]], ridge=self.ridge, total=data.total)
        self.bias[j], self.weights[j] = 0.0, 0.0
        self.bias[j, others] = torch.from_numpy(found.biases[0]).to(self.bias)
        self.weights[j, others] = torch.from_numpy(found.slopes).to(self.weights)

    # -- what it says --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def leaving(self, inputs: npt.ArrayLike) -> FloatArray:
        """Probability of leaving each intention at inputs (m, d), (m, K)."""
        kernel = self.kernels_at(torch.as_tensor(np.asarray(inputs, dtype=np.float64)).to(self.bias)).exp()
        return np.asarray(1.0 - kernel.diagonal(dim1=-2, dim2=-1).cpu().numpy(), dtype=np.float64)
