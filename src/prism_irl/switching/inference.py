"""Beliefs of a chain over intentions, by the fastest exact path at hand.

On a CPU with numba the two passes run compiled, in scaled probability space, one thread per trajectory; everywhere
else, and where scaling would underflow, `forward_backward` does the same in log space with torch. Both give the same
numbers (tested). `PRISM_BACKEND=torch` forces the reference.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import torch
from torch import Tensor

from prism_irl.switching.forward_backward import forward_backward

try:
    from prism_irl.switching import compiled
except ImportError:  # numba is an extra
    compiled = None  # type: ignore[assignment]


class ChainBeliefs(NamedTuple):
    """Probabilities (not logs) of one padded batch; see `forward_backward.ChainPosterior`.

    ``predicted``, ``filtered``, ``smoothed`` (B, T, K); ``log_likelihood`` (B, T), zero at padding;
    ``transitions`` (K, K), the sum of the pairwise posteriors; ``pairwise`` (B, T, K, K) or None.
    """

    predicted: Tensor
    filtered: Tensor
    smoothed: Tensor
    log_likelihood: Tensor
    transitions: Tensor
    pairwise: Tensor | None


def use_compiled(device: torch.device) -> bool:
    """Whether compiled kernels are to be used."""
    return compiled is not None and device.type == "cpu" and os.environ.get("PRISM_BACKEND") != "torch"


@torch.no_grad()
def infer(
    log_initial: Tensor, log_kernel: Tensor, log_emission: Tensor, mask: Tensor, *, pairwise: bool = False
) -> ChainBeliefs:
    """Both passes; shapes as in `forward_backward`, ``pairwise`` asks for the posteriors of all pairs."""
    if use_compiled(mask.device):
        found = _compiled(log_initial, log_kernel, log_emission, mask, pairwise)
        if found is not None:
            return found
    result = forward_backward(log_initial.double(), log_kernel.double(), log_emission.double(), mask)
    return ChainBeliefs(
        result.predicted.exp(),
        result.filtered.exp(),
        result.smoothed.exp(),
        result.log_likelihood,
        result.pairwise.sum((0, 1)),
        result.pairwise if pairwise else None,
    )


def _compiled(
    log_initial: Tensor, log_kernel: Tensor, log_emission: Tensor, mask: Tensor, pairwise: bool
) -> ChainBeliefs | None:
    """Compiled passes; None where a step's probability underflows."""
    B, T, K = log_emission.shape
    if log_kernel.stride(0) == 0 and log_kernel.stride(1) == 0:  # a constant kernel comes as an expanded view
        log_kernel = log_kernel[:1, :1]
    kernel = log_kernel.double().exp().contiguous().numpy()
    initial = log_initial.double().expand(B, K).exp().contiguous().numpy()
    emission = log_emission.double().contiguous().numpy()
    out = [torch.zeros(B, T, K, dtype=torch.float64) for _ in range(3)]
    likelihood = torch.zeros(B, T, dtype=torch.float64)
    transitions = torch.zeros(B, K, K, dtype=torch.float64)
    pairs = torch.zeros((B, T, K, K) if pairwise else (0, 0, 0, 0), dtype=torch.float64)
    ok = compiled.forward_backward(  # type: ignore[call-arg]
        initial,
        kernel,
        emission,
        mask.sum(1).numpy(),
        *(o.numpy() for o in out),
        likelihood.numpy(),
        transitions.numpy(),
        pairs.numpy(),
    )
    if not ok:
        return None
    return ChainBeliefs(out[0], out[1], out[2], likelihood, transitions.sum(0), pairs if pairwise else None)
