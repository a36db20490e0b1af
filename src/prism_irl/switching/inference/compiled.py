"""Compiled forward–backward: scaled probabilities, one thread per trajectory, scratch no longer than a trajectory.

Everything of one trajectory happens in its thread, exponentials and logarithms included, so that nobody waits for a
serial part. Sums are divided out only where they leave the comfortable range of a float64, so that no step waits for
the division of the step before. Trajectories may lie anywhere in flat arrays: step t of trajectory b is row ``first[b]
+ t`` of the emissions and of the results, and row ``kernel_first[b] + t * stride`` of the kernels, so that one constant
kernel (stride 0), padded batches and ragged data are the same code, and results land where they are wanted. What nobody
asks for is not written: fresh pages cost more than the arithmetic.

Importing this module needs numba (`pip install prism-irl[fast]`); `switching.inference.dispatch` chooses it by itself.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from prism_irl.switching.inference.elementary import TINY, UINT, Array, exponentials, logarithms

SMALL, LARGE = 1e-60, 1e60  # sums between these are left as they are


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _forward(intentions: tuple[int, ...], b: int, given: Any, out: Any, emission: Array, alpha: Array) -> bool:
    """Forward pass of trajectory b; leaves P(z_t=k, a_≤t) up to a factor per step in alpha; False on underflow."""
    starts, kernel, rows, stride, _, places, lengths = given
    predicted, filtered, _, scale, _, _ = out
    initial, row, first, n = starts[b if starts.shape[0] > 1 else 0], rows[b], places[b], lengths[b]
    K = len(intentions)
    online = predicted.shape[0] > 0
    before, t = 1.0, 0
    while t < n:
        # Left only to divide a sum out: as a branch in one loop it would be computed, and waited for, in every step.
        while t < n:
            i, m, now, last = UINT(first + t), UINT(row + t * stride), UINT(t), UINT(t - 1)
            total = 0.0
            for k in range(K):
                if t == 0:
                    p = initial[k]
                else:
                    p = 0.0
                    for j in range(K):
                        p += alpha[last, j] * kernel[m, j, k]
                if online:
                    predicted[i, k] = p / before
                p *= emission[now, k]
                alpha[now, k] = p
                total += p
            likelihood = total / before
            if not (likelihood > TINY and total > TINY):
                return False
            scale[i] = likelihood
            if online:
                for k in range(K):
                    filtered[i, k] = alpha[now, k] / total
            before = total
            t += 1
            if not SMALL < total < LARGE:
                break
        for k in range(K):
            alpha[t - 1, k] /= before
        before = 1.0
    return True


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _backward(intentions: tuple[int, ...], b: int, given: Any, out: Any, emission: Array, alpha: Array) -> bool:
    """Backward pass of trajectory b, which sums up its pairwise posteriors; False on underflow."""
    _, kernel, rows, stride, _, places, lengths = given
    _, _, smoothed, _, transitions, pairwise = out
    row, first, n = rows[b], places[b], lengths[b]
    K = len(intentions)
    weight, message, counts = np.empty(K), np.empty(K), np.zeros((K, K))
    wants_pairs = pairwise.shape[0] > 0
    constant = stride == 0 and not wants_pairs
    total = 0.0
    for k in range(K):
        message[k] = 1.0
        total += alpha[n - 1, k]
    for k in range(K):
        smoothed[first + n - 1, k] = alpha[n - 1, k] / total
    t = n - 1
    while t > 0:
        while t > 0:  # as in the forward pass
            now, m, before, last = UINT(t), UINT(row + t * stride), UINT(first + t - 1), UINT(t - 1)
            for k in range(K):
                weight[k] = emission[now, k] * message[k]
            total = 0.0
            for j in range(K):
                sum_k = 0.0
                for k in range(K):
                    sum_k += kernel[m, j, k] * weight[k]
                message[j] = sum_k
                total += alpha[last, j] * sum_k
            if not total > TINY:
                return False
            inverse = 1.0 / total
            for j in range(K):
                share = alpha[last, j] * inverse
                smoothed[before, j] = share * message[j]
                if constant:
                    for k in range(K):
                        counts[j, k] += share * weight[k]
                else:
                    for k in range(K):
                        pair = share * kernel[m, j, k] * weight[k]
                        counts[j, k] += pair
                        if wants_pairs:
                            pairwise[m, j, k] = pair
            t -= 1
            if not SMALL < total < LARGE:
                break
        for j in range(K):
            message[j] /= total
    for j in range(K):
        for k in range(K):
            transitions[b, j, k] = counts[j, k] * kernel[row, j, k] if constant else counts[j, k]
    return True


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _trajectory(intentions: tuple[int, ...], b: Any, given: Any, out: Any) -> bool:
    """Both passes of trajectory b."""
    log_emission, first, lengths = given[4:]
    K, n, i = len(intentions), lengths[b], first[b]
    flat, alpha = log_emission[i * K : (i + n) * K].copy(), np.empty((n, K))
    exponentials(flat, 0, n * K)
    emission = flat.reshape(n, K)
    if not _forward(intentions, b, given, out, emission, alpha):
        return False
    if not _backward(intentions, b, given, out, emission, alpha):
        return False
    logarithms(out[3], i, i + n)
    return True


@numba.njit(cache=True, error_model="numpy", parallel=True, fastmath={"contract", "nsz", "arcp"})
def forward_backward(intentions: tuple[int, ...], given: Any, out: Any) -> bool:
    """Fill the beliefs of B trajectories; return False where a step underflows.

    Parameters
    ----------
    intentions : (0, …, K - 1), a tuple: its length is known to the compiler, which unrolls all loops over intentions
    given : (initial, kernel, kernel_first, stride, log_emission, first, lengths)
    out : (predicted, filtered, smoothed, likelihood, transitions, pairwise)

    initial : (B, K) or (1, K) probabilities
    kernel : (P, K, K) probabilities; step t of trajectory b is led into by row kernel_first[b] + t * stride
    log_emission : (N·K,), log-probabilities or log-densities; step t of trajectory b is row first[b] + t of (N, K)
    lengths : (B,) steps of each trajectory
    predicted, filtered, smoothed : (N, K), out; the first two may be empty when not wanted
    likelihood : (N,), out, the log-likelihood of each step
    transitions : (B, K, K), out, the sum of pairwise posteriors of each trajectory
    pairwise : (P, K, K), out, or empty when not wanted
    """
    B = len(given[6])
    failed = np.zeros(B, dtype=np.bool_)
    for b in numba.prange(B):  # which counts in unsigned numbers, and they do not mix with signed ones
        failed[b] = not _trajectory(intentions, np.int64(b), given, out)
    return not failed.any()


@numba.njit(cache=True, error_model="numpy")
def _softmax(x: Array, logs: Array, out: Array) -> float:
    """Softmax of x (K,) and its logarithm; returns log Σ_k exp(x_k)."""
    top, total = -np.inf, 0.0
    for k in range(len(x)):
        top = max(top, np.float64(x[k]))
    for k in range(len(x)):
        out[k] = np.exp(x[k] - top)
        total += out[k]
    top += np.log(total)
    for k in range(len(x)):
        logs[k] = x[k] - top
        out[k] /= total
    return float(top)


@numba.njit(cache=True, error_model="numpy")
def responsibilities(logits: Array, log_emission: Array, weights: Array, likelihood: Array) -> None:
    """Eq. (posterior) of n independent steps, in log space.

    Parameters
    ----------
    logits : (n, K), of the gate
    log_emission : (n, K); no row may be −inf throughout
    weights, likelihood : (n, K) and (n,), out: w_tk, and log Σ_k f_k π_k
    """
    n, K = logits.shape
    joint = np.empty(K)
    for i in range(n):
        _softmax(logits[i], joint, weights[i])
        for k in range(K):
            joint[k] += log_emission[i, k]
        likelihood[i] = _softmax(joint, joint, weights[i])


@numba.njit(cache=True, error_model="numpy")
def _gate_gradient_of_trajectory(logits: Array, steps: Array, flat: Any, gradient: Array, how: Any) -> None:
    """Unscaled gradient of one trajectory, (T, K)."""
    (log_emission, weights, likelihood), (l1, kl, fresh) = flat, how
    n, K = len(steps), logits.shape[1]
    logs, gate, D, joint = np.empty((n, K)), np.empty((n, K)), np.empty((n, K)), np.empty(K)
    for t in range(n):
        i = steps[t]
        _softmax(logits[t], logs[t], gate[t])
        if fresh:
            impossible = True
            for k in range(K):
                impossible = impossible and log_emission[i, k] == -np.inf
            for k in range(K):
                joint[k] = logs[t, k] + (0.0 if impossible else log_emission[i, k])
            total = _softmax(joint, joint, weights[i])
            likelihood[i] = -np.inf if impossible else total
        for k in range(K):
            D[t, k] = -weights[i, k]
    if l1 != 0.0 or kl != 0.0:
        for t in range(1, n):
            for k in range(K):
                push = l1 * weights[steps[t], k] * np.sign(gate[t, k] - gate[t - 1, k])
                D[t, k] += push * gate[t, k] - kl * gate[t - 1, k]
                D[t - 1, k] += gate[t - 1, k] * (kl * (logs[t - 1, k] - logs[t, k] + 1.0) - push)
    for t in range(n):
        total = 0.0
        for k in range(K):
            total += D[t, k]
        for k in range(K):
            gradient[t, k] = D[t, k] - gate[t, k] * total


@numba.njit(cache=True, error_model="numpy", parallel=True)
def gate_gradient(padded: Any, flat: Any, gradient: Array, how: Any) -> None:
    """See `dispatch.gate_gradient`; steps (B, T) are rows of what is flat.

    ``padded`` is (logits, lengths, steps), ``flat`` (log_emission, weights, likelihood), and ``how`` (l1, kl, fresh).

    With g = f_θ(φ), D = ∂L / ∂ log g is −w_t in every step. For every pair of steps the first penalty adds λ_l1 w_t
    sign(g_t − g_{t−1}) times g_t in step t and times −g_{t−1} in step t − 1; the second λ_kl g_{t−1} (log g_{t−1} −
    log g_t + 1) in step t − 1 and −λ_kl g_{t−1} in step t. The logits get (D − g Σ_k D_k) / B.
    """
    logits, lengths, steps = padded
    B = len(lengths)
    for b in numba.prange(B):
        n = lengths[b]
        _gate_gradient_of_trajectory(logits[b, :n], steps[b, :n], flat, gradient[b, :n], how)
        gradient[b, :n] /= np.float32(B)
