"""Recurrent switching: a chain whose kernel a recurrent network reads from the history (the paper's limitation c).

It keeps the recurrent gate's likelihood and recovers the intentions: because the chain carries the intention, the
network only has to say when it changes. Logits of the kernel at step t are B_jk + (W h_t)_jk, with B started sticky
(3·I). Choose it where what triggers a switch lies in the past and not in the present state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from prism_irl.data.batching import Batch, Parts, Prepared, pad_batch, scatter
from prism_irl.switching.base import BatchPosterior, Posterior
from prism_irl.switching.chain import Chain, Previous, sticky
from prism_irl.switching.inference import infer
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.networks import Carry, HistoryNetwork, Optimiser, SwitchingModule


class RecurrentChain(SwitchingModule, Chain):
    """Kernel from a history network with K² outputs that observes the past: recurrent switching.

    The penalty on the mean mass off the diagonal of the kernels keeps intentions from becoming actions.
    """

    incremental = True
    optimiser: Optimiser
    adds_up = True

    def __init__(self, network: HistoryNetwork, n_intentions: int, switch_penalty: float, optimiser: Optimiser) -> None:
        super().__init__()
        self.n_intentions, self.switch_penalty = n_intentions, switch_penalty
        self.network = network
        self.bias = nn.Parameter(sticky(n_intentions))
        self.initial_logits = nn.Parameter(torch.zeros(n_intentions))
        self.optimiser = optimiser.bind(self)

    def log_initial(self) -> Tensor:
        """Log of the initial distribution."""
        return torch.log_softmax(self.initial_logits.double(), dim=-1)

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given Markov chain: B = log kernel, so that with a silent network the two are the same."""
        smallest = 1e-3  # a kernel entry of nearly zero would take the network forever to revive
        self.bias.copy_(chain.kernel.clamp_min(smallest).log())
        self.initial_logits.copy_(chain.initial.clamp_min(smallest).log())

    def _kernel(self, outputs: Tensor) -> Tensor:
        K = self.n_intentions
        logits = self.bias + outputs.unflatten(-1, (K, K))
        return torch.log_softmax(logits.double(), dim=-1)  # a float32 kernel sums to one to 1e-7 only

    def log_kernel(self, batch: Batch) -> Tensor:
        """Log softmax_k(B_jk + (W h_t)_jk)."""
        return self._kernel(self.network(batch))

    def initial_carry(self, n_trajectories: int) -> Carry:
        """Hidden state of the network."""
        return self.network.initial(n_trajectories)

    @torch.no_grad()
    def stream_kernel(
        self, states: Tensor, previous: Previous | None, observations: Tensor | None, carry: Carry
    ) -> tuple[Tensor, Carry]:
        """One step of the network."""
        actions = torch.full_like(states, self.network.n_actions) if previous is None else previous.actions
        outputs, carry = self.network.step(
            states, actions, observations, carry, None if previous is None else previous.states
        )
        return self._kernel(outputs), carry

    def loss(self, batch: Batch, log_emission: Tensor) -> tuple[Tensor, BatchPosterior]:
        """Negative log marginal per step plus λ times the mean mass off the diagonal, and the posterior held fixed.

        By the gradient identity, Σ posterior · log-probability with the posterior held fixed has exactly the
        gradient of the log marginal, so that autograd never walks through the recursion.
        """
        initial, kernel = self.log_initial(), self.log_kernel(batch)
        beliefs = infer(initial, kernel, log_emission, batch.mask, pairwise=True)
        assert beliefs.pairwise is not None
        n = batch.mask.sum()
        first = _expected(beliefs.responsibilities[:, 0].to(initial.dtype), initial)
        loss = -(first + _expected(beliefs.pairwise.to(kernel.dtype), kernel)) / n
        if self.switch_penalty:
            stay = torch.diagonal(kernel, dim1=-2, dim2=-1).exp().mean(-1)
            loss = loss + self.switch_penalty * ((1.0 - stay) * batch.mask).sum() / n
        return loss, beliefs

    def visit(
        self, parts: Parts, log_prob_of: Callable[[Prepared], Any], seed: Any
    ) -> Iterator[tuple[Prepared, Posterior]]:
        """Epochs of Adam on the log marginal with the emissions held fixed; beliefs are those of the last epoch.

        Of data that are read in parts, the trajectories of each minibatch are taken one by one, and their beliefs
        forgotten: slower, and with the memory of a minibatch.
        """
        data = parts.data
        if parts.most is not None:
            for part, is_last in self.optimiser.parts(data, seed):
                batch = pad_batch(part.demos, np.arange(len(part.demos)), part.device)
                found = self._empty(log_prob_of(part))
                self._learn(batch, part.gather(batch, found[0]), *found[1:])
                if is_last:
                    yield part, _posterior(*found[1:])
            return
        found = self._empty(log_prob_of(data))
        for batch in self.optimiser.minibatches(data, seed):
            self._learn(batch, data.gather(batch, found[0]), *found[1:])
        yield data, _posterior(*found[1:])

    def _empty(self, log_emission: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The emissions, and room for responsibilities and likelihoods of their steps."""
        n, K = log_emission.shape
        return log_emission, torch.zeros(n, K, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)

    def _learn(self, batch: Batch, log_emission: Tensor, smoothed: Tensor, likelihood: Tensor) -> None:
        """One gradient step; the beliefs that it held fixed go to their places in the flat arrays."""
        loss, beliefs = self.loss(batch, log_emission)
        scatter(batch, beliefs.responsibilities, smoothed)
        scatter(batch, beliefs.log_likelihood, likelihood)
        self.optimiser.step(loss)


def _posterior(smoothed: Tensor, likelihood: Tensor) -> Posterior:
    """Beliefs of a training pass: what only filtering and prediction need is not among them."""
    nothing = np.empty((0, smoothed.shape[1]))
    return Posterior(smoothed.numpy(), nothing, nothing, likelihood.numpy())


def _expected(mass: Tensor, logs: Tensor) -> Tensor:
    """Σ mass · logs, where what is impossible (−∞) has no mass and adds nothing, to the gradient neither."""
    return (mass * logs.masked_fill(torch.isneginf(logs), 0.0)).sum()
