"""The learned switching models of many fits at once: `switching.gate` and `switching.recurrent` on a leading axis.

Parameters are those of the single models by the same names, stacked and padded to the largest K; an absent intention
has a logit of −10⁴, so that its probability is exactly zero and the gradient of its weights too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.scale.stacked.recurrence import Rows
from prism_irl.switching.base import Switching
from prism_irl.switching.forward_backward import forward_backward
from prism_irl.switching.gate import Gate
from prism_irl.switching.inference import use_triton
from prism_irl.switching.recurrent import RecurrentChain

ABSENT = -1e4
Parameters = dict[str, Tensor]


class StackedSwitching(ABC):
    """F switching models with one network shape."""

    def __init__(self, models: Sequence[Switching], device: torch.device) -> None:
        self.models = models
        self.sizes = [model.n_intentions for model in models]
        self.n_intentions = max(self.sizes)
        present = [[k < size for k in range(self.n_intentions)] for size in self.sizes]
        self.present = torch.tensor(present, device=device).view(len(models), 1, 1, -1)
        states = [{name: torch.from_numpy(value) for name, value in model.state().items()} for model in models]
        self.parameters = {
            name: torch.stack(
                [
                    self.resized(name, state[name], size, self.n_intentions)
                    for state, size in zip(states, self.sizes, strict=True)
                ]
            ).to(device)
            for name in states[0]
        }

    @abstractmethod
    def _split(self, name: str) -> int:
        """Number of leading axes of a parameter that count intentions, once its outputs are unflattened."""

    def resized(self, name: str, value: Tensor, old: int, new: int) -> Tensor:
        """Parameter of one fit with ``new`` intentions in place of ``old``: cut off, or filled up with zeros."""
        axes, head = self._split(name), name.startswith("network.head")
        if axes == 0:
            return value
        square = value.unflatten(0, (old,) * axes) if head else value
        common = (slice(0, min(old, new)),) * axes
        out = value.new_zeros(*(new,) * axes, *square.shape[axes:])
        out[common] = square[common]
        return out.flatten(0, axes - 1) if head else out

    def tables(self, p: Parameters) -> tuple[Tensor, Tensor]:
        """Token embeddings that a step adds up: of the state, and of the action (or of the pair before)."""
        left, right = p["network.tokens.states.weight"], p["network.tokens.actions.weight"]
        if "network.tokens.state_before.weight" in p:
            before, action = p["network.tokens.state_before.weight"], p["network.tokens.action_before.weight"]
            both = before.unsqueeze(2) * action.unsqueeze(1) + right.unsqueeze(1)  # (F, S + 1, A + 1, d)
            right = both.flatten(1, 2)
        return left, right

    @abstractmethod
    def indices(self, demos: Demonstrations) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the two tables at every step."""

    @abstractmethod
    def loss(self, p: Parameters, outputs: Tensor, emission: Tensor, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """Sum over fits of each fit's own loss, responsibilities (F, B, T, K), log-likelihood (F, B, T).

        ``outputs`` (F, B, T, n_outputs) come from the network, ``emission`` (F, B, T, K) from the policies.
        """


def _previous(demos: Demonstrations, values: np.ndarray, nothing: int) -> np.ndarray:
    """Value of the step before, ``nothing`` at the first step of a trajectory."""
    before = np.empty(demos.n_steps, np.int64)
    before[1:] = values[:-1]
    before[demos.offsets[:-1]] = nothing
    return before


class StackedGate(StackedSwitching):
    """Independent gates, Eq. (posterior) and Eq. (loss)."""

    def __init__(self, models: Sequence[Switching], device: torch.device) -> None:
        super().__init__(models, device)
        gates = cast(Sequence[Gate], models)
        self.observe = gates[0].observe
        self.l1, self.kl = (
            torch.tensor([getattr(gate, name) for gate in gates], device=device).view(-1, 1) for name in ("l1", "kl")
        )

    def _split(self, name: str) -> int:
        return 1 if name.startswith("network.head") else 0

    def indices(self, demos: Demonstrations) -> tuple[np.ndarray, np.ndarray]:
        """State, and the action before (or the current one)."""
        actions = demos.actions.astype(np.int64)
        seen = _previous(demos, actions, demos.n_actions) if self.observe == "past" else actions
        return demos.states, seen

    def loss(self, p: Parameters, outputs: Tensor, emission: Tensor, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """Mean over trajectories, as `switching.gate.gate_loss`."""
        logits = outputs.masked_fill(~self.present, ABSENT)
        log_gate = torch.log_softmax(logits, dim=-1)
        real = rows.mask.unsqueeze(-1)
        with torch.no_grad():
            joint = torch.log_softmax(logits.double(), dim=-1) + emission
            likelihood = torch.logsumexp(joint, dim=-1)
            weights = (joint - likelihood.unsqueeze(-1)).exp() * real
            likelihood = likelihood * rows.mask
        w = weights.float()
        total = -(w * log_gate * real).sum((2, 3))
        pairs = real[:, :, 1:] & real[:, :, :-1]
        gate = log_gate.exp()
        jumps = (w[:, :, 1:] * (gate[:, :, 1:] - gate[:, :, :-1]).abs() * pairs).sum((2, 3))
        drift = (gate[:, :, :-1] * (log_gate[:, :, :-1] - log_gate[:, :, 1:]) * pairs).sum((2, 3))
        total = total + self.l1 * jumps + self.kl * drift
        trajectories = (rows.length > 0).sum(1).clamp_min(1)
        return (total.sum(1) / trajectories).sum(), weights, likelihood


class StackedChain(StackedSwitching):
    """Recurrent chains."""

    def __init__(self, models: Sequence[Switching], device: torch.device) -> None:
        super().__init__(models, device)
        chains = cast(Sequence[RecurrentChain], models)
        self.penalty = torch.tensor([chain.switch_penalty for chain in chains], device=device, dtype=torch.float64)

    def _split(self, name: str) -> int:
        return {"bias": 2, "initial_logits": 1}.get(name, 2 if name.startswith("network.head") else 0)

    def indices(self, demos: Demonstrations) -> tuple[np.ndarray, np.ndarray]:
        """State, and the pair of state and action before."""
        states, actions = demos.states.astype(np.int64), demos.actions.astype(np.int64)
        before, action = _previous(demos, states, demos.n_states), _previous(demos, actions, demos.n_actions)
        return demos.states, before * (demos.n_actions + 1) + action

    def loss(self, p: Parameters, outputs: Tensor, emission: Tensor, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """As `switching.recurrent.RecurrentChain.loss`."""
        K = self.n_intentions
        start = p["initial_logits"].double().masked_fill(~self.present[:, 0, 0], ABSENT)
        initial = torch.log_softmax(start, dim=-1)
        logits = p["bias"][:, None, None] + outputs.unflatten(-1, (K, K))
        kernel = torch.log_softmax(logits.double().masked_fill(~self.present.unsqueeze(-2), ABSENT), dim=-1)
        with torch.no_grad():
            smoothed, pairwise, likelihood = stacked_beliefs(initial, kernel, emission, rows)
        real = rows.mask
        steps = real.sum((1, 2)).clamp_min(1)
        first = (smoothed[:, :, 0] * initial.unsqueeze(1)).sum((1, 2))
        loss = -(first + (pairwise * kernel).sum((1, 2, 3, 4))) / steps
        here = self.present / self.present.sum(-1, keepdim=True)
        stay = (torch.diagonal(kernel, dim1=-2, dim2=-1).exp() * here).sum(-1)
        loss = loss + self.penalty * ((1.0 - stay) * real).sum((1, 2)) / steps
        return loss.sum(), smoothed * real.unsqueeze(-1), likelihood * real


def stacked_beliefs(initial: Tensor, kernel: Tensor, emission: Tensor, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """Smoothed (F, B, T, K), pairwise (F, B, T, K, K) and log-likelihood (F, B, T); zero at padding.

    ``initial`` (F, K) and ``kernel`` (F, B, T, K, K) are log-probabilities, as ``emission`` (F, B, T, K).
    """
    if use_triton(emission.device):
        from prism_irl.switching import triton_kernels as kernels

        beliefs = kernels.forward_backward(initial.exp(), kernel.exp(), emission, rows.length)
        return beliefs.smoothed, beliefs.pairwise, beliefs.log_likelihood
    found = [forward_backward(initial[f], kernel[f], emission[f], rows.mask[f]) for f in range(len(initial))]
    smoothed = torch.stack([one.smoothed.exp() for one in found]) * rows.mask.unsqueeze(-1)
    return smoothed, torch.stack([one.pairwise for one in found]), torch.stack([one.log_likelihood for one in found])
