"""Compiled forward–backward: scaled probabilities, one thread per trajectory, scratch no longer than a trajectory.

Exponentials and logarithms stay outside, where they are vectorised. Trajectories may lie anywhere in flat arrays: step
t of trajectory b is row ``first[b] + t`` of the emissions and of the results, and row ``kernel_first[b] + t * stride``
of the kernels, so that one constant kernel (stride 0), padded batches and ragged data are the same code, and results
land where they are wanted. What nobody asks for is not written: fresh pages cost more than the arithmetic.

Importing this module needs numba (`pip install prism-irl[fast]`); `switching.inference` chooses it by itself.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = np.ndarray[Any, Any]
TINY = 1e-280  # below this a scaled probability has lost its digits: the caller falls back to log space


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _forward(
    intentions: tuple[int, ...],
    initial: Array,
    kernel: Array,
    row: int,
    stride: int,
    emission: Array,
    first: int,
    n: int,
    predicted: Array,
    filtered_out: Array,
    scale: Array,
    weight: Array,
    scaled: Array,
    filtered: Array,
) -> bool:
    """Forward pass of one trajectory; leaves emission / likelihood in ``scaled``; False where a step underflows."""
    K = len(intentions)
    online = predicted.shape[0] > 0
    for t in range(n):
        i, m = first + t, row + t * stride
        total = 0.0
        for k in range(K):
            if t == 0:
                p = initial[k]
            else:
                p = 0.0
                for j in range(K):
                    p += filtered[t - 1, j] * kernel[m, j, k]
            if online:
                predicted[i, k] = p
            scaled[t, k] = emission[i, k]
            p *= scaled[t, k]
            weight[k] = p
            total += p
        if not total > TINY:
            return False
        inverse = 1.0 / total
        for k in range(K):
            filtered[t, k] = weight[k] * inverse
            scaled[t, k] *= inverse
            if online:
                filtered_out[i, k] = filtered[t, k]
        scale[i] = total
    return True


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _backward(
    intentions: tuple[int, ...],
    kernel: Array,
    row: int,
    stride: int,
    first: int,
    n: int,
    filtered: Array,
    smoothed: Array,
    counts: Array,
    pairwise: Array,
    weight: Array,
    message: Array,
    scaled: Array,
) -> None:
    """Backward pass of one trajectory; adds its pairwise posteriors to counts (K, K)."""
    K = len(intentions)
    wants_pairs = pairwise.shape[0] > 0
    last = first + n - 1
    for k in range(K):
        message[k] = 1.0
        smoothed[last, k] = filtered[n - 1, k]
    for t in range(n - 1, 0, -1):
        i, m = first + t, row + t * stride
        for k in range(K):  # emission / likelihood, times what the future says: O(1) by construction
            weight[k] = scaled[t, k] * message[k]
        total = 0.0
        for j in range(K):
            before = filtered[t - 1, j]
            sum_k = 0.0
            for k in range(K):
                pair = kernel[m, j, k] * weight[k]
                sum_k += pair
                pair *= before
                counts[j, k] += pair
                if wants_pairs:
                    pairwise[m, j, k] = pair
            message[j] = sum_k
            smoothed[i - 1, j] = before * sum_k
            total += before * sum_k
        inverse = 1.0 / total
        for j in range(K):
            smoothed[i - 1, j] *= inverse


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _trajectory(
    intentions: tuple[int, ...],
    b: Any,
    initial: Array,
    kernel: Array,
    kernel_first: Array,
    stride: int,
    emission: Array,
    first: Array,
    lengths: Array,
    predicted: Array,
    filtered: Array,
    smoothed: Array,
    scale: Array,
    transitions: Array,
    pairwise: Array,
) -> bool:
    K = len(intentions)
    weight, message = np.empty(K), np.empty(K)
    start = initial[b if initial.shape[0] > 1 else 0]
    row, n, i = kernel_first[b], lengths[b], first[b]
    scaled, own = np.empty((n, K)), np.empty((n, K))
    if not _forward(
        intentions, start, kernel, row, stride, emission, i, n, predicted, filtered, scale, weight, scaled, own
    ):
        return False
    counts = np.zeros((K, K))
    _backward(intentions, kernel, row, stride, i, n, own, smoothed, counts, pairwise, weight, message, scaled)
    for j in range(K):
        for k in range(K):
            transitions[b, j, k] = counts[j, k]
    return True


@numba.njit(cache=True, error_model="numpy", parallel=True, fastmath={"contract", "nsz", "arcp"})
def forward_backward(
    intentions: tuple[int, ...],
    initial: Array,
    kernel: Array,
    kernel_first: Array,
    stride: int,
    emission: Array,
    first: Array,
    lengths: Array,
    predicted: Array,
    filtered: Array,
    smoothed: Array,
    scale: Array,
    transitions: Array,
    pairwise: Array,
) -> bool:
    """Fill the beliefs of B trajectories; return False where a step underflows.

    Parameters
    ----------
    intentions : (0, …, K - 1), a tuple: its length is known to the compiler, which unrolls all loops over intentions
    initial : (B, K) or (1, K) probabilities
    kernel : (P, K, K) probabilities; step t of trajectory b is led into by row kernel_first[b] + t * stride
    emission : (N, K), probabilities; step t of trajectory b is row first[b] + t
    lengths : (B,) steps of each trajectory
    predicted, filtered, smoothed : (N, K), out; the first two may be empty when not wanted
    scale : (N,), out, the likelihood of each step
    transitions : (B, K, K), out, the sum of pairwise posteriors of each trajectory
    pairwise : (P, K, K), out, or empty when not wanted
    """
    B = len(lengths)
    failed = np.zeros(B, dtype=np.bool_)
    for b in numba.prange(B):
        failed[b] = not _trajectory(
            intentions,
            np.int64(b),  # prange counts in unsigned numbers, which do not mix with signed ones
            initial,
            kernel,
            kernel_first,
            stride,
            emission,
            first,
            lengths,
            predicted,
            filtered,
            smoothed,
            scale,
            transitions,
            pairwise,
        )
    return not failed.any()
