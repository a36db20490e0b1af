"""The reference of the network benchmarks: nn.Embedding → nn.RNN → nn.Linear, batches of 32, a separate E-step.

Written as one would without knowing this package: a gate over (s_t, a_t), Adam on Eq. (loss), weighted counts.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from prism_irl.data.demonstrations import Demonstrations

BATCH = 32


class PlainGate(nn.Module):
    """log f(φ_t) of whole padded sequences."""

    def __init__(self, n_states: int, n_actions: int, n_intentions: int, width: int) -> None:
        super().__init__()
        self.states, self.actions = nn.Embedding(n_states, width), nn.Embedding(n_actions, width)
        self.rnn = nn.RNN(width, width, batch_first=True)
        self.head = nn.Linear(width, n_intentions)

    def forward(self, states: Tensor, actions: Tensor) -> Tensor:
        """(B, T) → (B, T, K)."""
        return torch.log_softmax(self.head(self.rnn(self.states(states) + self.actions(actions))[0]), dim=-1)


def gate_loss(log_gate: Tensor, w: Tensor, l1: float, kl: float) -> Tensor:
    """Eq. (loss)."""
    gate = log_gate.exp()
    loss = -(w * log_gate).sum()
    loss = loss + l1 * (w[:, 1:] * (gate[:, 1:] - gate[:, :-1]).abs()).sum()
    loss = loss + kl * (gate[:, :-1] * (log_gate[:, :-1] - log_gate[:, 1:])).sum()
    return loss / len(w)


class PlainEM:
    """Algorithm 1 with trajectories of equal length."""

    def __init__(self, demos: Demonstrations, gate: PlainGate, policies: np.ndarray, l1: float, kl: float) -> None:
        n = len(demos)
        self.states = torch.from_numpy(demos.states.astype(np.int64)).view(n, -1)
        self.actions = torch.from_numpy(demos.actions.astype(np.int64)).view(n, -1)
        self.gate, self.policies, self.l1, self.kl = gate, policies, l1, kl
        self.adam = torch.optim.Adam(gate.parameters(), lr=1e-3)

    @torch.no_grad()
    def expectation(self) -> Tensor:
        """Eq. (posterior), batch by batch."""
        w = []
        for i in range(0, len(self.states), BATCH):
            s, a = self.states[i : i + BATCH], self.actions[i : i + BATCH]
            likelihood = torch.from_numpy(self.policies[:, s.numpy(), a.numpy()]).permute(1, 2, 0)
            joint = self.gate(s, a).exp() * likelihood
            w.append(joint / joint.sum(-1, keepdim=True))
        return torch.cat(w)

    def epoch(self, w: Tensor, generator: np.random.Generator) -> None:
        """Adam on Eq. (loss)."""
        order = torch.from_numpy(generator.permutation(len(self.states)))
        for rows in order.split(BATCH):
            self.adam.zero_grad()
            loss = gate_loss(self.gate(self.states[rows], self.actions[rows]), w[rows].float(), self.l1, self.kl)
            loss.backward()
            self.adam.step()

    def iterate(self, generator: np.random.Generator) -> None:
        """One EM iteration."""
        w = self.expectation()
        self.epoch(w, generator)
        K, S, A = self.policies.shape
        pairs = (self.states * A + self.actions).numpy().ravel()
        counts = np.stack([np.bincount(pairs, w[..., k].numpy().ravel(), S * A) for k in range(K)])
        counts = counts.reshape(K, S, A) + 0.01
        self.policies = counts / counts.sum(-1, keepdims=True)
