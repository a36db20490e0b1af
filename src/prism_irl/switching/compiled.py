"""Compiled forward–backward: scaled probabilities, one thread per trajectory, no temporary arrays.

Importing this module needs numba (`pip install prism-irl[fast]`); `switching.inference` chooses it by itself.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = np.ndarray[Any, Any]
TINY = 1e-280  # below this a scaled probability has lost its digits: the caller falls back to log space


@numba.njit(cache=True, parallel=True)
def forward_backward(
    initial: Array,
    kernel: Array,
    log_emission: Array,
    lengths: Array,
    predicted: Array,
    filtered: Array,
    smoothed: Array,
    likelihood: Array,
    transitions: Array,
    pairwise: Array,
) -> bool:
    """Fill the beliefs of a batch; return False where a step underflows.

    Parameters
    ----------
    initial : (B, K) probabilities
    kernel : (B, T, K, K) probabilities, or (1, 1, K, K) when constant
    log_emission : (B, T, K)
    lengths : (B,) real steps
    predicted, filtered, smoothed : (B, T, K), out
    likelihood : (B, T), out
    transitions : (B, K, K), out, the sum of pairwise posteriors of each trajectory
    pairwise : (B, T, K, K), out, or empty when not wanted
    """
    B, _, K = log_emission.shape
    constant = kernel.shape[0] == 1 and kernel.shape[1] == 1
    wants_pairs = pairwise.shape[0] > 0
    failed = np.zeros(B, dtype=np.bool_)
    for b in numba.prange(B):
        weight = np.empty(K)
        message = np.empty(K)
        incoming = np.empty(K)
        n = lengths[b]
        for t in range(n):
            top = log_emission[b, t, 0]
            for k in range(1, K):
                top = max(top, log_emission[b, t, k])
            total = 0.0
            for k in range(K):
                if t == 0:
                    p = initial[b, k]
                else:
                    p = 0.0
                    for j in range(K):
                        step = kernel[0, 0, j, k] if constant else kernel[b, t, j, k]
                        p += filtered[b, t - 1, j] * step
                predicted[b, t, k] = p
                weight[k] = p * np.exp(log_emission[b, t, k] - top)
                total += weight[k]
            if not total > TINY:
                failed[b] = True
                break
            for k in range(K):
                filtered[b, t, k] = weight[k] / total
            likelihood[b, t] = np.log(total) + top
        if failed[b]:
            continue
        for k in range(K):
            message[k] = 1.0
            smoothed[b, n - 1, k] = filtered[b, n - 1, k]
        for t in range(n - 1, 0, -1):
            # emission / likelihood, times what the future says: O(1) by construction
            for k in range(K):
                incoming[k] = np.exp(log_emission[b, t, k] - likelihood[b, t]) * message[k]
            total = 0.0
            for j in range(K):
                m = 0.0
                for k in range(K):
                    step = kernel[0, 0, j, k] if constant else kernel[b, t, j, k]
                    pair = step * incoming[k]
                    m += pair
                    pair *= filtered[b, t - 1, j]
                    transitions[b, j, k] += pair
                    if wants_pairs:
                        pairwise[b, t, j, k] = pair
                message[j] = m
                total += m * filtered[b, t - 1, j]
            for j in range(K):
                smoothed[b, t - 1, j] = filtered[b, t - 1, j] * message[j] / total
    return not failed.any()
