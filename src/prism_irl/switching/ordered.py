"""Chains that pass through the intentions once, in order: P(z_t=k | z_{t-1}=j) = 0 unless k is j or j + 1.

A demonstration of one task (reach, grasp, carry, let go, leave) does not come back to an earlier stage, and saying so
is worth more than any feature: an intention can no longer stand for two stages that look alike, such as closing and
opening a gripper. Use it for demonstrations of one task each; not for animals, and not for play data.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from prism_irl.data.batching import Prepared
from prism_irl.switching.base import Posterior
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.recurrent import RecurrentChain

IMPOSSIBLE = 1e-30  # nothing, whose logarithm is a number
STAY = 0.9


def order_mask(n_intentions: int) -> Tensor:
    """1 where an intention stays or advances by one, else next to nothing, (K, K)."""
    mask = torch.full((n_intentions, n_intentions), IMPOSSIBLE, dtype=torch.float64)
    steps = torch.arange(n_intentions)
    mask[steps, steps] = 1.0
    mask[steps[:-1], steps[1:]] = 1.0
    return mask


def first_only(n_intentions: int) -> Tensor:
    """Initial distribution: every demonstration begins with the first intention, (K,)."""
    initial = torch.full((n_intentions,), IMPOSSIBLE, dtype=torch.float64)
    initial[0] = 1.0
    return initial / initial.sum()


class OrderedChain(MarkovChain):
    """Markov chain over stages in order; the M-step normalises the expected counts of allowed moves."""

    def __init__(self, n_intentions: int) -> None:
        super().__init__(n_intentions)
        self.initial.copy_(first_only(n_intentions))
        stay = torch.full((n_intentions, n_intentions), 1.0 - STAY, dtype=torch.float64)
        stay.fill_diagonal_(STAY)
        self.kernel.copy_(_ordered(stay))

    @torch.no_grad()
    def maximise(self, data: Prepared, log_emission: Tensor, posterior: Posterior, seed: Any) -> None:
        """Expected transition counts along the order, normalised."""
        super().maximise(data, log_emission, posterior, seed)
        self.kernel.copy_(_ordered(self.kernel))
        self.initial.copy_(first_only(self.n_intentions))


class OrderedRecurrentChain(RecurrentChain):
    """Recurrent switching over stages in order: the network says when to advance, never where to."""

    def log_initial(self) -> Tensor:
        """Log of the initial distribution: the first intention."""
        return first_only(self.n_intentions).log().to(self.bias.device)

    def _kernel(self, outputs: Tensor) -> Tensor:
        K = self.n_intentions
        logits = (self.bias + outputs.reshape(*outputs.shape[:-1], K, K)).double()
        return torch.log_softmax(logits + order_mask(K).log().to(logits.device), dim=-1)


def _ordered(kernel: Tensor) -> Tensor:
    masked = kernel * order_mask(len(kernel))
    return masked / masked.sum(-1, keepdim=True)
