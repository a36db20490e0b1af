"""Chains that pass through the intentions once, in order: P(z_t=k | z_{t-1}=j) = 0 unless k is j or j + 1.

A demonstration of one task (reach, grasp, carry, let go, leave) does not come back to an earlier stage, and saying so
is worth more than any feature: an intention can no longer stand for two stages that look alike, such as closing and
opening a gripper. Use it for demonstrations of one task each; not for animals, and not for play data.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl.core.stats import Stats
from prism_irl.switching.inputs import InputChain
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.recurrent import RecurrentChain

IMPOSSIBLE = 1e-30  # nothing, whose logarithm is a number
STAY = 0.9
SURE = 0.8  # of the stage that a first stretch is given


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

    free_kernel = False

    def __init__(self, n_intentions: int) -> None:
        super().__init__(n_intentions)
        self.initial.copy_(first_only(n_intentions))
        stay = torch.full((n_intentions, n_intentions), 1.0 - STAY, dtype=torch.float64)
        stay.fill_diagonal_(STAY)
        self.kernel.copy_(_ordered(stay))

    def constant(self) -> OrderedChain:
        """Stages in order, too."""
        return OrderedChain(self.n_intentions)

    @torch.no_grad()
    def update(self, stats: Stats) -> None:
        """Expected transition counts along the order, normalised."""
        super().update(stats)
        self.kernel.copy_(_ordered(self.kernel))
        self.initial.copy_(first_only(self.n_intentions))


class OrderedInputChain(InputChain):
    """Stages in order whose advance reads inputs: the log odds of the next stage against staying are linear in them."""

    def __init__(self, n_intentions: int, n_inputs: int, *, ridge: float = 1.0) -> None:
        super().__init__(n_intentions, n_inputs, ridge=ridge)
        self.take_over(OrderedChain(n_intentions))

    def constant(self) -> OrderedChain:
        """Stages in order, too."""
        return OrderedChain(self.n_intentions)

    def kernels_at(self, inputs: Tensor) -> Tensor:
        """Log kernel at inputs (…, d), (…, K, K): next to nothing but staying and advancing."""
        mask = order_mask(self.n_intentions).log().to(self.bias.device)
        return torch.log_softmax(self.bias + mask + self._pull(inputs), dim=-1)

    def successors(self, j: int) -> list[int]:
        """The next stage."""
        return [j + 1] if j + 1 < self.n_intentions else []

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given chain over stages."""
        super().take_over(chain)
        self.initial.copy_(first_only(self.n_intentions))

    def _update_initial(self, first: npt.NDArray[np.float64]) -> None:
        """Every demonstration begins with the first stage."""


class OrderedRecurrentChain(RecurrentChain):
    """Recurrent switching over stages in order: the network says when to advance, never where to."""

    def constant(self) -> OrderedChain:
        """Stages in order, too."""
        return OrderedChain(self.n_intentions)

    def log_initial(self) -> Tensor:
        """Log of the initial distribution: the first intention."""
        return first_only(self.n_intentions).log().to(self.bias.device)

    def _kernel(self, outputs: Tensor) -> Tensor:
        K = self.n_intentions
        logits = (self.bias + outputs.reshape(*outputs.shape[:-1], K, K)).double()
        return torch.log_softmax(logits + order_mask(K).log().to(logits.device), dim=-1)


def _ordered(kernel: Tensor) -> Tensor:
    masked = kernel * order_mask(len(kernel)).to(kernel.device)
    return masked / masked.sum(-1, keepdim=True)
