"""Chains that pass through the intentions in order: P(z_t=k | z_{t-1}=j) = 0 unless k is j or j + 1.

Zero is zero, however strong the evidence: log 0 = −∞ in the kernel, in beliefs, paths, streams and gradients, and
labels are a path that the order allows. Stages pass once, or with ``closing`` the first follows the last again.

A demonstration of one task (reach, grasp, carry, let go, leave) does not come back to an earlier stage, and saying so
is worth more than any feature: an intention can no longer stand for two stages that look alike, such as closing and
opening a gripper. Use it for demonstrations of one task each; not for animals, and not for play data.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.batching import Stats
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.recurrent import RecurrentChain
from prism_irl.switching.segmental import best_path
from prism_irl.switching.varying import InputChain

STAY = 0.9
SURE = 0.8  # of the stage that a first stretch is given


def first_only(n_intentions: int) -> Tensor:
    """Initial distribution: every demonstration begins with the first intention, (K,)."""
    initial = torch.zeros((n_intentions,), dtype=torch.float64)
    initial[0] = 1.0
    return initial


class InOrder:
    """What chains over stages share: the moves that exist, labels that make no other, and an untrained chain."""

    n_intentions: int
    closing: bool

    def constant(self) -> OrderedChain:
        """Stages in order, too."""
        return OrderedChain(self.n_intentions, closing=self.closing)

    def mask(self) -> Tensor:
        """1 where a move exists, (K, K)."""
        mask = torch.zeros((self.n_intentions, self.n_intentions), dtype=torch.float64)
        steps = torch.arange(self.n_intentions)
        mask[steps, steps] = 1.0
        mask[steps[:-1], steps[1:]] = 1.0
        if self.closing:
            mask[-1, 0] = 1.0
        return mask

    def labels_of(self, probabilities: FloatArray, offsets: IntArray) -> IntArray:
        """The path in order that is right at the most steps in expectation, (n,)."""
        first = np.arange(self.n_intentions) == 0
        return best_path(probabilities, offsets, self.mask().numpy() > 0, first)


class OrderedChain(InOrder, MarkovChain):
    """Markov chain over stages in order; the M-step normalises the expected counts of allowed moves."""

    free_kernel = False

    def __init__(self, n_intentions: int, *, closing: bool = False) -> None:
        super().__init__(n_intentions)
        self.closing = closing
        self.initial.copy_(first_only(n_intentions))
        stay = torch.full((n_intentions, n_intentions), 1.0 - STAY, dtype=torch.float64)
        stay.fill_diagonal_(STAY)
        self.kernel.copy_(_ordered(stay, self.mask()))

    @torch.no_grad()
    def update(self, stats: Stats) -> None:
        """Expected transition counts along the order, normalised."""
        super().update(stats)
        self.kernel.copy_(_ordered(self.kernel, self.mask()))
        self.initial.copy_(first_only(self.n_intentions))


class OrderedInputChain(InOrder, InputChain):
    """Stages in order whose advance reads inputs: the log odds of the next stage against staying are linear in them."""

    def __init__(self, n_intentions: int, n_inputs: int, *, ridge: float = 1.0, closing: bool = False) -> None:
        super().__init__(n_intentions, n_inputs, ridge=ridge)
        self.closing = closing
        self.take_over(OrderedChain(n_intentions, closing=closing))

    def biases_at(self, before: Tensor | None) -> Tensor:
        """Logits of staying and advancing, and of nothing else."""
        return self.bias + self.mask().log().to(self.bias.device)

    def successors(self, j: int) -> list[int]:
        """The next stage."""
        return [k for k in range(self.n_intentions) if k != j and self.mask()[j, k] > 0]

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given chain over stages."""
        super().take_over(chain)
        self.initial.copy_(first_only(self.n_intentions))

    @torch.no_grad()
    def update(self, stats: Stats) -> None:
        """One regression per stage; every demonstration begins with the first."""
        super().update(stats)
        self.initial.copy_(first_only(self.n_intentions))


class OrderedRecurrentChain(InOrder, RecurrentChain):
    """Recurrent switching over stages in order: the network says when to advance, never where to."""

    closing = False

    def log_initial(self) -> Tensor:
        """Log of the initial distribution: the first intention."""
        return first_only(self.n_intentions).log().to(self.bias.device)

    def _kernel(self, outputs: Tensor) -> Tensor:
        K = self.n_intentions
        logits = (self.bias + outputs.reshape(*outputs.shape[:-1], K, K)).double()
        return torch.log_softmax(logits + self.mask().log().to(logits.device), dim=-1)


def _ordered(kernel: Tensor, mask: Tensor) -> Tensor:
    masked = kernel * mask.to(kernel.device)
    return masked / masked.sum(-1, keepdim=True)
