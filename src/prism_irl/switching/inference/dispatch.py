"""Beliefs of a chain over intentions, by the fastest exact path at hand.

On a CPU with numba the two passes run compiled, in scaled probability space (`flat`), one thread per trajectory, or
per sixteen trajectories side by side where the kernel is constant; on a GPU with Triton one program per trajectory.
Everywhere else, and where scaling would underflow, `forward_backward` does the same in log space with torch. All give
the same numbers (tested). `PRISM_BACKEND=torch` forces the reference.
"""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from prism_irl.data.batching import Batch
from prism_irl.switching.inference.flat import FlatBeliefs, compiled, is_compiled, passes
from prism_irl.switching.inference.reference import forward_backward, possible


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
    return device.type == "cpu" and is_compiled()


@torch.no_grad()
def infer(
    log_initial: Tensor, log_kernel: Tensor, log_emission: Tensor, mask: Tensor, *, pairwise: bool = False
) -> ChainBeliefs:
    """Both passes; shapes as in `forward_backward`, ``pairwise`` asks for the posteriors of all pairs."""
    if use_compiled(mask.device):
        found = _compiled(log_initial, log_kernel, log_emission, mask, pairwise)
        if found is not None:
            return found
    if use_triton(mask.device) and not torch.isneginf(log_emission).all(-1).any():
        found = _on_gpu(log_initial, log_kernel, log_emission, mask, pairwise)
        if torch.isfinite(found.log_likelihood).all():
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


@cache
def _has_triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:  # comes with torch for CUDA
        return False
    return torch.version.hip is None


def use_triton(device: torch.device) -> bool:
    """Whether Triton's kernels are to be used."""
    return device.type == "cuda" and _has_triton() and os.environ.get("PRISM_BACKEND") != "torch"


def _on_gpu(
    log_initial: Tensor, log_kernel: Tensor, log_emission: Tensor, mask: Tensor, pairwise: bool
) -> ChainBeliefs:
    """One program per trajectory (`triton_kernels`), instead of a launch per step."""
    from prism_irl.switching.inference import triton_kernels

    K = log_emission.shape[-1]
    if log_initial.dim() > 1:  # the same for all trajectories in every chain there is
        log_initial = log_initial[0]
    initial = log_initial.double().exp().reshape(1, K)
    beliefs = triton_kernels.forward_backward(
        initial, log_kernel.double().exp()[None], log_emission.double()[None], mask.sum(1, dtype=torch.int32)[None]
    )
    predicted, filtered, smoothed, likelihood, pairs = (values[0] for values in beliefs)
    return ChainBeliefs(predicted, filtered, smoothed, likelihood, pairs.sum((0, 1)), pairs if pairwise else None)


def _compiled(
    log_initial: Tensor, log_kernel: Tensor, log_emission: Tensor, mask: Tensor, pairwise: bool
) -> ChainBeliefs | None:
    """Compiled passes over a padded batch; None where a step's probability underflows."""
    B, T, K = log_emission.shape
    rows = np.arange(B) * T
    constant = log_kernel.stride(0) == 0 and log_kernel.stride(1) == 0 and not pairwise  # comes as an expanded view
    kernel = (log_kernel[:1, :1] if constant else log_kernel).double().exp().reshape(-1, K, K).numpy()
    out = FlatBeliefs.room(B * T, K, online=True, pairwise=pairwise)
    for values, padding in zip(out[:4], (0.0, 0.0, 0.0, 1.0), strict=True):
        values.fill(padding)
    transitions = passes(
        log_initial.double().exp().numpy(),
        (kernel, np.zeros_like(rows), 0) if constant else (kernel, rows, 1),
        log_emission.double().reshape(-1, K).numpy(),
        (rows, mask.sum(1).numpy()),
        out,
    )
    if transitions is None:
        return None
    predicted, filtered, smoothed, likelihood = (
        torch.from_numpy(values).view(B, T, *values.shape[1:]) for values in out[:4]
    )
    likelihood.masked_fill_(~mask, 0.0)
    pairs = torch.from_numpy(out.pairwise).view(B, T, K, K) if pairwise else None
    return ChainBeliefs(predicted, filtered, smoothed, likelihood, torch.from_numpy(transitions), pairs)


@torch.no_grad()
def responsibilities(logits: Tensor, log_emission: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. (posterior) of a gate: w ∝ softmax(logits) · exp(log_emission), (…, K), and the log-likelihood, (…).

    Both in double precision. An action that is impossible under every intention says nothing about the intention.
    """
    evidence, impossible = possible(log_emission)
    if use_compiled(logits.device):
        K = logits.shape[-1]
        weights = torch.empty(logits.shape, dtype=torch.float64)
        likelihood = torch.empty(logits.shape[:-1], dtype=torch.float64)
        arrays = [values.reshape(-1, K).numpy() for values in (logits, evidence.double(), weights)]
        arrays.append(likelihood.view(-1).numpy())
        compiled.responsibilities(*arrays)
    else:
        joint = torch.log_softmax(logits.double(), dim=-1) + evidence
        likelihood = torch.logsumexp(joint, dim=-1)
        weights = (joint - likelihood.unsqueeze(-1)).exp()
    return weights, likelihood.masked_fill_(impossible, -torch.inf)


def gate_gradient(
    logits: Tensor,
    batch: Batch,
    log_emission: Tensor,
    weights: Tensor,
    likelihood: Tensor,
    l1: float,
    kl: float,
    fresh: bool,
) -> Tensor:
    """Eq. (posterior) of a minibatch and the gradient of Eq. (loss) with respect to its logits, in one compiled pass.

    Parameters
    ----------
    logits : (B, T, K), float32
    batch : Batch
    log_emission : (n, K) of all steps, float64
    weights, likelihood : (n, K) and (n,), float64; written at the steps of the batch when ``fresh``, else read
    l1, kl : penalties of `gate.gate_loss`

    Returns
    -------
    (B, T, K), float32, zero at padding
    """
    gradient = torch.zeros(logits.shape)
    padded = tuple(values.numpy() for values in (logits, batch.mask.sum(1), batch.steps))
    flat = tuple(values.numpy() for values in (log_emission, weights, likelihood))
    compiled.gate_gradient(padded, flat, gradient.numpy(), (l1, kl, fresh))
    return gradient
