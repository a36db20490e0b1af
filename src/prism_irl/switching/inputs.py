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
from scipy import optimize, special
from torch import Tensor

from prism_irl.data.batching import Batch, Prepared
from prism_irl.errors import InputError
from prism_irl.switching.base import Posterior
from prism_irl.switching.chain import FLOOR, Chain, Previous, sticky
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.networks import Carry

FloatArray = npt.NDArray[np.float64]
SMALLEST = 1e-3  # a kernel entry of nearly zero would take the gradient forever to revive


class InputChain(Chain):
    """Markov chain with covariates.

    Parameters
    ----------
    n_intentions, n_inputs : int
    ridge : float
        Strength of a Gaussian prior on the weights w, in nats: inputs are standardised.
    steps : int
        L-BFGS iterations of one M-step at most, warm-started: a generalised EM.
    """

    initial: Tensor
    bias: Tensor
    weights: Tensor

    def __init__(self, n_intentions: int, n_inputs: int, *, ridge: float = 1.0, steps: int = 30) -> None:
        super().__init__()
        K = n_intentions
        self.n_intentions, self.n_inputs, self.ridge, self.steps = K, n_inputs, ridge, steps
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
        if batch.observations is None or batch.observations.shape[-1] != self.n_inputs:
            raise InputError(f"The switching reads {self.n_inputs} inputs; give the columns that the fit had.")
        return self.kernels_at(batch.observations)

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

    # -- learning ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def maximise(self, data: Prepared, log_emission: Tensor, posterior: Posterior, seed: Any) -> None:
        """Initial distribution in closed form, one weighted multinomial regression per intention."""
        pairs = self.pairwise(data, log_emission)  # with the parameters of the E-step
        first = torch.from_numpy(data.total(posterior.responsibilities[data.demos.offsets[:-1]].sum(0))) + FLOOR
        self.initial.copy_(first / first.sum())
        if self.n_intentions == 1:
            return
        assert data.demos.observations is not None
        inputs = data.demos.observations.astype(np.float64)
        for j in range(self.n_intentions):
            self._regress(j, pairs[:, j], inputs, data)

    def _regress(self, j: int, targets: FloatArray, inputs: FloatArray, data: Prepared) -> None:
        """Maximise Σ_t Σ_k ξ_t(j, k) log P(k | j, x_t) − ½ ridge |w_j|² from the present weights."""
        K, d = self.n_intentions, self.n_inputs
        others = [k for k in range(K) if k != j]
        weight = targets.sum(axis=1)
        used = weight > 1e-8
        x, y, w = inputs[used], targets[used], weight[used]
        scale = max(float(data.total(np.array([w.sum()]))[0]), 1.0)

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            bias, slopes = flat[: K - 1], flat[K - 1 :].reshape(K - 1, d)
            logits = np.zeros((len(x), K))
            logits[:, others] = bias + x @ slopes.T
            log_p = special.log_softmax(logits, axis=1)
            gap = (np.exp(log_p) * w[:, None] - y)[:, others]
            value = np.concatenate([[-(y * log_p).sum()], gap.sum(axis=0), (gap.T @ x).ravel()])
            value = data.total(value)
            loss = (value[0] + 0.5 * self.ridge * (slopes**2).sum()) / scale
            gradient = value[1:]
            gradient[K - 1 :] += self.ridge * slopes.ravel()
            return float(loss), gradient / scale

        bias = (self.bias[j] - self.bias[j, j]).cpu().numpy()[others]
        start = np.concatenate([bias, self.weights[j].cpu().numpy()[others].ravel()])
        found = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": self.steps}).x
        new_bias, new_weights = np.zeros(K), np.zeros((K, d))
        new_bias[others], new_weights[others] = found[: K - 1], found[K - 1 :].reshape(K - 1, d)
        self.bias[j] = torch.from_numpy(new_bias).to(self.bias)
        self.weights[j] = torch.from_numpy(new_weights).to(self.weights)

    # -- what it says --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def leaving(self, inputs: npt.ArrayLike) -> FloatArray:
        """Probability of leaving each intention at inputs (m, d), (m, K)."""
        kernel = self.kernels_at(torch.as_tensor(np.asarray(inputs, dtype=np.float64)).to(self.bias)).exp()
        return np.asarray(1.0 - kernel.diagonal(dim1=-2, dim2=-1).cpu().numpy(), dtype=np.float64)
