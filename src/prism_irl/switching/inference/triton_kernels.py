"""GPU kernel (Triton) of forward–backward, of one chain or of many fits at once: one program per trajectory.

Instead of a launch per step a program walks the whole trajectory, in scaled probability space and double precision.
Imported on machines with CUDA only; `switching.inference.reference` is what the tests compare it with.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _forward_backward(
    initial, kernel, emission, length, predicted, filtered, smoothed, likelihood, pairwise,
    B, T, n, PAIRS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    fit, row = tl.program_id(1).to(tl.int64), tl.program_id(0)
    j, k = tl.arange(0, K), tl.arange(0, K)
    known, pair = k < n, (j[:, None] < n) & (k[None, :] < n)
    place = (fit * B + row) * T
    steps = tl.load(length + fit * B + row)
    tile = j[:, None] * n + k[None, :]
    alpha = tl.zeros((K,), dtype=tl.float64)
    for t in range(steps):
        if t == 0:
            prior = tl.load(initial + fit * n + k, mask=known, other=0.0)
        else:
            move = tl.load(kernel + (place + t) * n * n + tile, mask=pair, other=0.0)
            prior = tl.sum(alpha[:, None] * move, 0)
        e = tl.load(emission + (place + t) * n + k, mask=known, other=-float("inf"))
        top = tl.max(e, 0)
        joint = prior * tl.exp(e - top)
        total = tl.sum(joint, 0)
        alpha = joint / total
        tl.store(predicted + (place + t) * n + k, prior, mask=known)
        tl.store(filtered + (place + t) * n + k, alpha, mask=known)
        tl.store(smoothed + (place + t) * n + k, alpha, mask=known)  # the last step needs no correction
        tl.store(likelihood + place + t, tl.log(total) + top)
    tl.debug_barrier()  # what one lane has stored, another will load
    beta = tl.full((K,), 1.0, dtype=tl.float64)
    for s in range(1, steps):
        t = steps - s
        move = tl.load(kernel + (place + t) * n * n + tile, mask=pair, other=0.0)
        e = tl.load(emission + (place + t) * n + k, mask=known, other=-float("inf"))
        total = tl.load(likelihood + place + t)
        before = tl.load(filtered + (place + t - 1) * n + j, mask=j < n, other=0.0)
        ahead = move * (tl.exp(e - total) * beta)[None, :]
        if PAIRS:
            tl.store(pairwise + (place + t) * n * n + tile, before[:, None] * ahead, mask=pair)
        beta = tl.sum(ahead, 1)
        tl.store(smoothed + (place + t - 1) * n + j, before * beta, mask=j < n)


class Beliefs(NamedTuple):
    """Probabilities of stacked chains: (F, B, T, K) each; log-likelihood (F, B, T); pairwise (F, B, T, K, K)."""

    predicted: Tensor
    filtered: Tensor
    smoothed: Tensor
    log_likelihood: Tensor
    pairwise: Tensor


def forward_backward(initial: Tensor, kernel: Tensor, log_emission: Tensor, length: Tensor) -> Beliefs:
    """Scaled forward–backward, one program per trajectory, float64; zero at padding.

    Parameters
    ----------
    initial : (F, K), P(z_1)
    kernel : (F, B, T, K, K), P(z_t | z_{t-1}); entry 0 is never read
    log_emission : (F, B, T, K), with some intention possible at every step
    length : (F, B) int32
    """
    F, B, T, K = log_emission.shape
    kernel, log_emission = kernel.contiguous(), log_emission.contiguous()
    like = log_emission
    beliefs = Beliefs(
        predicted=torch.zeros_like(like),
        filtered=torch.zeros_like(like),
        smoothed=torch.zeros_like(like),
        log_likelihood=like.new_zeros(F, B, T),
        pairwise=torch.zeros_like(kernel),
    )
    _forward_backward[(B, F)](
        initial.contiguous(), kernel, log_emission, length, *beliefs, B, T, K,
        PAIRS=True, K=triton.next_power_of_2(K), num_warps=1,
    )  # fmt: skip
    return beliefs
