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
        # Small arrays of this thread stay in registers and cache; the big ones are written once.
        step = np.empty((K, K))
        before = np.empty(K)
        weight = np.empty(K)
        message = np.empty(K)
        counts = np.empty((K, K))
        n = lengths[b]
        # Loops instead of whole-array assignments, which the compiler would make parallel once more.
        for j in range(K):
            message[j] = 1.0
            for k in range(K):
                counts[j, k] = 0.0
        if constant:
            for j in range(K):
                for k in range(K):
                    step[j, k] = kernel[0, 0, j, k]
        for t in range(n):
            if not constant:
                for j in range(K):
                    for k in range(K):
                        step[j, k] = kernel[b, t, j, k]
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
                        p += before[j] * step[j, k]
                predicted[b, t, k] = p
                weight[k] = p * np.exp(log_emission[b, t, k] - top)
                total += weight[k]
            if not total > TINY:
                failed[b] = True
                break
            for k in range(K):
                before[k] = weight[k] / total
                filtered[b, t, k] = before[k]
            likelihood[b, t] = np.log(total) + top
        if failed[b]:
            continue
        for k in range(K):
            smoothed[b, n - 1, k] = filtered[b, n - 1, k]
        for t in range(n - 1, 0, -1):
            if not constant:
                for j in range(K):
                    for k in range(K):
                        step[j, k] = kernel[b, t, j, k]
            for k in range(K):
                # emission / likelihood, times what the future says: O(1) by construction. Filtered over predicted is
                # the same ratio without an exponential, where the intention was possible at all.
                p = predicted[b, t, k]
                ratio = filtered[b, t, k] / p if p > TINY else np.exp(log_emission[b, t, k] - likelihood[b, t])
                weight[k] = ratio * message[k]
                before[k] = filtered[b, t - 1, k]
            total = 0.0
            for j in range(K):
                m = 0.0
                for k in range(K):
                    pair = step[j, k] * weight[k]
                    m += pair
                    pair *= before[j]
                    counts[j, k] += pair
                    if wants_pairs:
                        pairwise[b, t, j, k] = pair
                message[j] = m
                total += m * before[j]
            for j in range(K):
                smoothed[b, t - 1, j] = before[j] * message[j] / total
        for j in range(K):
            for k in range(K):
                transitions[b, j, k] = counts[j, k]
    return not failed.any()
