"""The independent gate (the paper's PRISM): P(z_t=k | history) = f_θ(φ_t)_k, independent across steps.

E-step, Eq. (posterior): w_tk ∝ f_θ(φ_t)_k π_k(a_t | s_t), O(nK). M-step: Adam on Eq. (loss), the responsibility-
weighted cross-entropy plus λ_l1 and λ_kl smoothness terms over consecutive steps of one trajectory. Choose it to
reproduce the paper; with `observe="current"` its score is not a likelihood (the gate has seen the action).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from prism_irl.data.batching import Batch, Parts, Prepared, scatter
from prism_irl.switching.base import BatchPosterior, Posterior, Stream
from prism_irl.switching.inference import responsibilities
from prism_irl.switching.networks import HistoryNetwork, Optimiser, SwitchingModule


def gate_loss(log_gate: Tensor, weights: Tensor, mask: Tensor, l1: float, kl: float) -> Tensor:
    """Eq. (loss): the mean over trajectories of L_NLL + λ_l1 L_l1 + λ_kl L_kl.

    Parameters
    ----------
    log_gate : (B, T, K), log f_θ(φ_t)
    weights : (B, T, K), responsibilities w
    mask : (B, T), true at real steps: no term reaches across the end of a trajectory
    """
    real = mask.unsqueeze(-1)
    loss = -(weights * log_gate * real).sum()
    pairs = (mask[:, 1:] & mask[:, :-1]).unsqueeze(-1)
    if l1:
        gate = log_gate.exp()
        loss = loss + l1 * (weights[:, 1:] * (gate[:, 1:] - gate[:, :-1]).abs() * pairs).sum()
    if kl:
        before, after = log_gate[:, :-1], log_gate[:, 1:]
        loss = loss + kl * (before.exp() * (before - after) * pairs).sum()
    return loss / len(mask)


class Gate(SwitchingModule):
    """Independent gate over a history network with K outputs; λ_l1, λ_kl and the optimiser are options."""

    incremental = True
    optimiser: Optimiser

    def __init__(self, network: HistoryNetwork, n_intentions: int, *, l1: float, kl: float, optimiser: Optimiser):
        super().__init__()
        self.n_intentions, self.l1, self.kl = n_intentions, l1, kl
        self.network, self.optimiser = network, optimiser.bind(network)
        self.observe: Literal["past", "current"] = network.observe
        self.normalised = network.observe == "past"

    def log_gate(self, batch: Batch) -> Tensor:
        """Log f_θ(φ_t), (B, T, K)."""
        return torch.log_softmax(self.network(batch), dim=-1)

    def expectation_of(self, batch: Batch, log_emission: Tensor, *, pairwise: bool = False) -> BatchPosterior:
        """Eq. (posterior)."""
        logits = self.network(batch)
        posterior, likelihood = responsibilities(logits, log_emission)
        return BatchPosterior(posterior, torch.softmax(logits.double(), dim=-1), posterior, likelihood)

    def visit(
        self, parts: Parts, log_prob_of: Callable[[Prepared], Any], seed: Any
    ) -> Iterator[tuple[Prepared, Posterior]]:
        """Eq. (posterior) and Eq. (loss) from one forward pass per minibatch.

        Further epochs keep the responsibilities of the first, as Algorithm 1 does.
        """
        data, known = parts.data, 0
        log_emission = log_prob_of(data).double()
        n, K = log_emission.shape
        weights, likelihood = torch.zeros(n, K, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
        for batch in self.optimiser.minibatches(data, seed):
            logits = self.network(batch)
            if known < n:
                posterior, of_steps = responsibilities(logits, data.gather(batch, log_emission))
                scatter(batch, posterior, weights)
                scatter(batch, of_steps, likelihood)
                known += len(batch.real)
            else:
                posterior = data.gather(batch, weights)
            log_gate = torch.log_softmax(logits, dim=-1)
            self.optimiser.step(gate_loss(log_gate, posterior.float(), batch.mask, self.l1, self.kl))
        nothing = np.empty((0, K))
        yield data, Posterior(weights.numpy(), nothing, nothing, likelihood.numpy())

    def action_proba_of(self, batch: Batch, log_emission: Tensor, policy: Tensor) -> Tensor:
        """Mix the policies; a gate that reads the action is evaluated for every candidate and normalised."""
        if self.observe == "past":
            return super().action_proba_of(batch, log_emission, policy)
        gates = torch.softmax(self.network.for_each_action(batch).double(), dim=-1)
        scores = torch.einsum("btak,btka->bta", gates, policy)
        return scores / scores.sum(-1, keepdim=True)

    def stream(self, n_trajectories: int = 1) -> Stream:
        """Streaming Eq. (posterior)."""
        return GateStream(self, n_trajectories)


class GateStream(Stream):
    """Eq. (posterior), one step at a time."""

    def __init__(self, gate: Gate, n_trajectories: int) -> None:
        self.gate, self.network = gate, gate.network
        self.carry = self.network.initial(n_trajectories)
        self.previous = torch.full((n_trajectories,), self.network.n_actions, device=self.network.device)

    @torch.no_grad()
    def joint(self, states: Tensor, policies: Tensor, observations: Tensor | None = None) -> Tensor:
        """f_θ(φ_t)_k π_k(a | s_t), normalised over both."""
        A = self.network.n_actions
        if self.gate.observe == "past":
            logits, self.carry = self.network.step(states, self.previous, observations, self.carry)
            self.gates = torch.log_softmax(logits.double(), dim=-1).unsqueeze(-1).expand(-1, -1, A)
        else:
            self.states, self.observations = states, observations
            every = [
                self.network.step(states, torch.full_like(states, a), observations, self.carry)[0] for a in range(A)
            ]
            self.gates = torch.log_softmax(torch.stack(every, dim=-1).double(), dim=1)
        joint = self.gates.exp() * policies
        return joint / joint.sum((1, 2), keepdim=True)

    @torch.no_grad()
    def update(self, actions: Tensor, evidence: Tensor) -> Tensor:
        """Eq. (posterior)."""
        if self.gate.observe == "current":
            _, self.carry = self.network.step(self.states, actions, self.observations, self.carry)
        self.previous = actions
        index = actions.view(-1, 1, 1).expand(-1, self.gates.shape[1], 1)
        return torch.softmax(self.gates.gather(2, index).squeeze(2) + evidence, dim=-1)
