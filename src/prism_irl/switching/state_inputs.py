"""Intentions that end at places and read covariates: a kernel per state and pair, and effects that all states share.

    P(z_{t+1}=k | z_t=j, s_t=s, x_{t+1}) = softmax_k(B_sjk + w_jk · x_{t+1}),      B_sjj = 0,  w_jj = 0.

As without inputs (`state.StatePairChain`) a state is shrunk towards the kernel that knows no state, by m steps at the
mean of the inputs; without effects the two are the same. Choose it where an intention ends at a place, and the sooner
the thirstier the animal.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl.switching.chain import sticky
from prism_irl.switching.inputs import FloatArray, InputKernel, IntArray, floored
from prism_irl.switching.logit import Logit, fit_logit
from prism_irl.switching.markov import MarkovChain


class StateInputChain(InputKernel):
    """Kernel per state and pair of intentions, with covariates.

    Parameters
    ----------
    n_states, n_intentions, n_inputs : int
    shrinkage : float
        Steps m that the kernel without the state is worth.
    ridge : float
        Strength of a Gaussian prior on the weights w, in nats: inputs are standardised.
    """

    bias: Tensor
    biases: Tensor

    def __init__(
        self, n_states: int, n_intentions: int, n_inputs: int, *, shrinkage: float = 8.0, ridge: float = 1.0
    ) -> None:
        super().__init__(n_intentions, n_inputs, ridge)
        self.n_states, self.shrinkage = n_states, shrinkage
        self.register_buffer("bias", torch.log_softmax(sticky(n_intentions).double(), dim=-1))
        self.register_buffer("biases", self.bias.expand(n_states, -1, -1).clone())

    def log_kernels(self, inputs: Tensor, before: Tensor) -> Tensor:
        """A state that the fit never named has the kernel of all."""
        table = torch.cat([self.biases, self.bias.unsqueeze(0)])
        own = table.index_select(0, before.reshape(-1).clamp_max(self.n_states))
        return torch.log_softmax(own.reshape(*before.shape, *self.bias.shape) + self._pull(inputs), dim=-1)

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given Markov chain, in every state and whatever the inputs."""
        self.bias.copy_(floored(chain.kernel).log())
        self.biases.copy_(self.bias.expand_as(self.biases))
        self.weights.zero_()
        self.initial.copy_(floored(chain.initial))

    def _regress(self, j: int, others: list[int], targets: FloatArray, inputs: FloatArray, before: IntArray) -> None:
        """The kernel without the state, then that of every state, shrunk towards it, with the shared effects."""
        weights = self.weights[j].cpu().numpy()[others]
        before = np.minimum(before, self.n_states - 1)
        bias, biases = (
            (table - table[..., j : j + 1])[..., others].cpu().numpy() for table in (self.bias[j], self.biases[:, j])
        )
        nowhere = np.zeros(len(inputs), np.int64)
        pooled = fit_logit(Logit(bias[None], weights), inputs, nowhere, targets, ridge=self.ridge)
        at_mean = np.exp(pooled.log_proba(np.zeros((1, self.n_inputs)), np.zeros(1, np.int64)))
        found = fit_logit(
            Logit(biases, weights),
            inputs,
            before,
            targets,
            ridge=self.ridge,
            prior=np.broadcast_to(self.shrinkage * at_mean, (self.n_states, 1 + len(others))),
        )
        self.bias[j, j], self.biases[:, j, j] = 0.0, 0.0
        self.bias[j, others] = torch.from_numpy(pooled.biases[0]).to(self.bias)
        self.biases[:, j, others] = torch.from_numpy(found.biases).to(self.biases)
        self.weights[j, others] = torch.from_numpy(found.slopes).to(self.weights)

    @torch.no_grad()
    def leaving(self, inputs: npt.ArrayLike) -> FloatArray:
        """Probability of leaving each intention at inputs (m, d), (m, K), where the state is not known."""
        at = torch.as_tensor(np.asarray(inputs, dtype=np.float64)).to(self.bias)
        nowhere = torch.full((len(at),), self.n_states, device=at.device)
        kernel = self.log_kernels(at, nowhere).exp()
        return np.asarray(1.0 - kernel.diagonal(dim1=-2, dim2=-1).cpu().numpy(), dtype=np.float64)
