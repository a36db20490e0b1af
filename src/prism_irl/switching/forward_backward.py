"""Exact inference for a chain over intentions, batched over trajectories, in log space.

With kernel P(z_t=k | z_{t-1}=j, history) and emissions π_k(a_t | s_t) the forward pass gives
p(z_t | s_≤t, a_<t) (predicted), p(z_t | s_≤t, a_≤t) (filtered) and log p(a_t | s_≤t, a_<t); the backward pass gives
the smoothed responsibilities and the pairwise posteriors. Cost O(n K²). The gradient of the log marginal with
respect to the emission (kernel) log-probabilities *is* the smoothed (pairwise) posterior, so no gradient ever has to
flow through the recursion.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class ChainPosterior(NamedTuple):
    """What the two passes give for a batch; (B, T, K) log-probabilities unless said otherwise.

    ``predicted``: log p(z_t | s_≤t, a_<t). ``filtered``: log p(z_t | s_≤t, a_≤t). ``smoothed``: log p(z_t | all).
    ``log_likelihood`` (B, T): log p(a_t | s_≤t, a_<t), zero at padding. ``pairwise`` (B, T, K, K):
    p(z_{t-1}=j, z_t=k | all), zero at the first step and at padding.
    """

    predicted: Tensor
    filtered: Tensor
    smoothed: Tensor
    log_likelihood: Tensor
    pairwise: Tensor


def possible(log_emission: Tensor) -> tuple[Tensor, Tensor]:
    """Emissions (…, K) to infer with, and where an action is impossible under every intention, (…).

    Such an action (never seen, without smoothing) has likelihood zero and says nothing about the intention: it counts
    as no evidence, so that −inf − (−inf) = NaN cannot spread along the trajectory.
    """
    impossible = torch.isneginf(log_emission).all(-1)
    return log_emission.masked_fill(impossible.unsqueeze(-1), 0.0), impossible


def forward(log_initial: Tensor, log_kernel: Tensor, log_emission: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Forward pass: predicted and filtered log-probabilities (B, T, K), and the log-likelihood (B, T).

    Of ``log_initial`` (B, K) or (K,), ``log_emission`` (B, T, K) and ``log_kernel`` (B, T, K, K), whose entry t leads
    from z_{t-1} (rows) to z_t (columns); entry 0 is not read.
    """
    kernels, emissions = log_kernel.unbind(1), log_emission.unbind(1)
    predicted = [log_initial.expand_as(emissions[0])]
    likelihood: list[Tensor] = []
    filtered: list[Tensor] = []
    for t, emission in enumerate(emissions):
        if t > 0:
            predicted.append(torch.logsumexp(filtered[-1].unsqueeze(-1) + kernels[t], dim=1))
        joint = predicted[-1] + emission
        likelihood.append(torch.logsumexp(joint, dim=-1))
        filtered.append(joint - likelihood[-1].unsqueeze(-1))
    return torch.stack(predicted, 1), torch.stack(filtered, 1), torch.stack(likelihood, 1)


def backward(log_kernel: Tensor, log_emission: Tensor, log_likelihood: Tensor, mask: Tensor) -> Tensor:
    """Backward messages log p(a_{t+1:} | z_t) / p(a_{t+1:} | a_≤t), (B, T, K); zero from the last real step on."""
    scaled = (log_emission - log_likelihood.unsqueeze(-1)).unbind(1)
    kernels, real = log_kernel.unbind(1), mask.unbind(1)
    message = torch.zeros_like(scaled[-1])
    messages = [message]
    for t in range(len(scaled) - 1, 0, -1):
        message = torch.logsumexp(kernels[t] + (scaled[t] + message).unsqueeze(1), dim=-1)
        message = torch.where(real[t].unsqueeze(-1), message, torch.zeros_like(message))
        messages.append(message)
    return torch.stack(messages[::-1], 1)


def forward_backward(log_initial: Tensor, log_kernel: Tensor, log_emission: Tensor, mask: Tensor) -> ChainPosterior:
    """Both passes; shapes as in `forward`, ``mask`` (B, T) true at real steps."""
    log_emission, impossible = possible(log_emission)
    predicted, filtered, likelihood = forward(log_initial, log_kernel, log_emission)
    message = backward(log_kernel, log_emission, likelihood, mask)
    smoothed = torch.log_softmax(filtered + message, dim=-1)
    pairwise = torch.zeros_like(log_kernel)
    incoming = log_emission - likelihood.unsqueeze(-1) + message
    log_pairs = filtered[:, :-1].unsqueeze(-1) + log_kernel[:, 1:] + incoming[:, 1:].unsqueeze(-2)
    pairwise[:, 1:] = torch.where(mask[:, 1:, None, None], log_pairs.exp(), torch.zeros_like(log_pairs))
    likelihood = likelihood.masked_fill(impossible, -torch.inf).masked_fill(~mask, 0.0)
    return ChainPosterior(predicted, filtered, smoothed, likelihood, pairwise)


def viterbi(log_initial: Tensor, log_kernel: Tensor, log_emission: Tensor, mask: Tensor) -> Tensor:
    """Most probable path of intentions, (B, T) int64; shapes as in `forward_backward`."""
    kernels, emissions, real = log_kernel.unbind(1), possible(log_emission)[0].unbind(1), mask.unbind(1)
    stay = torch.arange(log_emission.shape[-1], device=log_emission.device).expand_as(emissions[0])
    best = log_initial.expand_as(emissions[0]) + emissions[0]
    pointers = []
    for t in range(1, len(emissions)):
        value, pointer = (best.unsqueeze(-1) + kernels[t]).max(dim=1)
        best = torch.where(real[t].unsqueeze(-1), value + emissions[t], best)
        pointers.append(torch.where(real[t].unsqueeze(-1), pointer, stay))
    path = [best.argmax(-1)]
    for pointer in reversed(pointers):
        path.append(pointer.gather(1, path[-1].unsqueeze(1)).squeeze(1))
    return torch.stack(path[::-1], 1)
