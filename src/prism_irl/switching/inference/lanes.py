"""Forward–backward of a constant kernel, sixteen trajectories side by side.

A chain must wait for its own last step, but not for that of another chain: here the innermost loop is over trajectories
("lanes"), which the compiler turns into vector instructions. Trajectories come longest first, so that at each time the
running ones are a prefix of the lanes and no step is spent on padding.

All scratch is one flat array with the layout (T, 2K + 1, LANES): of each step the emissions (which the backward pass
replaces by its weights), the filtered probabilities (replaced by the smoothed ones) and one over the step's likelihood.
Rows at constant distances in one array cannot overlap, which the compiler must know before it vectorises a whole step
as one loop. Time is cut into blocks that fit the innermost cache: a block is fetched and exponentiated just before the
forward pass needs it, and written out just after the backward pass has left it.

Importing this module needs numba; `switching.inference.dispatch` chooses it by itself where it is faster than
`switching.inference.compiled`, which does the same for kernels that change in time, one trajectory at a time.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from prism_irl.switching.inference.elementary import TINY, UINT, Array, exponentials, logarithms

LANES = 16
BLOCK = 16  # steps; a block of scratch with three intentions is 14 kB
CLOSE = 1e-6  # smoothed probabilities that sum to one less well have met an underflow


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _fetch(intentions: Any, source: Array, rows: Any, begin: int, end: int, scratch: Array) -> None:
    """Probabilities of the steps begin ≤ t < end from rows of logarithms; garbage beyond an end."""
    first, lengths = rows
    K = len(intentions)
    width = (2 * K + 1) * LANES
    for lane in range(len(first)):
        row = first[lane]
        for t in range(begin, min(end, lengths[lane])):
            for k in range(K):
                scratch[UINT(t * width + k * LANES + lane)] = source[UINT((row + t) * K + k)]
    for t in range(begin, end):
        exponentials(scratch, t * width, t * width + K * LANES)


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _forward(intentions: Any, initial: Array, kernel: Array, t: int, lanes: int, scratch: Array) -> int:
    """P(z_t=k | a_≤t) and 1 / P(a_t | a_<t) of step t; how many lanes did not underflow."""
    K = len(intentions)
    now = t * (2 * K + 1) * LANES
    alpha, scale = now + K * LANES, now + 2 * K * LANES
    before = alpha - (2 * K + 1) * LANES
    fine = 0
    for lane in range(lanes):
        total = 0.0
        for k in range(K):
            p = 0.0
            if t == 0:
                p = initial[UINT(k)]
            else:
                for j in range(K):
                    p += scratch[UINT(before + j * LANES + lane)] * kernel[UINT(j), UINT(k)]
            p *= scratch[UINT(now + k * LANES + lane)]
            scratch[UINT(alpha + k * LANES + lane)] = p
            total += p
        fine += 1 if total > TINY else 0
        inverse = 1.0 / total
        scratch[UINT(scale + lane)] = inverse
        for k in range(K):
            scratch[UINT(alpha + k * LANES + lane)] *= inverse
    return fine


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _backward(intentions: Any, kernel: Array, t: int, lanes: int, scratch: Array, counts: Array) -> int:
    """From step t to t − 1; how many lanes still sum to one.

    With messages β and weights w_t(k) = π_k(a_t) β_t(k) / P(a_t | a_<t), the message of the step before is β_{t−1}(j) =
    Σ_k P_jk w_t(k), the smoothed probability α_{t−1}(j) β_{t−1}(j), and the pairwise one α_{t−1}(j) P_jk w_t(k), whose
    factor P_jk is left to the caller.
    """
    K = len(intentions)
    width = (2 * K + 1) * LANES
    now, before = t * width, (t - 1) * width
    alpha, scale = before + K * LANES, before + 2 * K * LANES
    fine = 0
    for lane in range(lanes):
        inverse = scratch[UINT(scale + lane)]
        total = 0.0
        for j in range(K):
            a = scratch[UINT(alpha + j * LANES + lane)]
            message = 0.0
            for k in range(K):
                w = scratch[UINT(now + k * LANES + lane)]
                message += kernel[UINT(j), UINT(k)] * w
                counts[UINT((j * K + k) * LANES + lane)] += a * w
            scratch[UINT(before + j * LANES + lane)] *= message * inverse
            a *= message
            scratch[UINT(alpha + j * LANES + lane)] = a
            total += a
        fine += 1 if abs(total - 1.0) < CLOSE else 0
    return fine


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _store_likelihood(
    intentions: Any, scratch: Array, rows: Any, begin: int, end: int, logs: Array, out: Array
) -> None:
    """Write log P(a_t | a_<t) of the steps begin ≤ t < end into rows; the scratch's inverses are needed again."""
    first, lengths = rows
    K, lanes = len(intentions), len(first)
    for t in range(begin, end):
        for lane in range(LANES):
            logs[UINT((t - begin) * LANES + lane)] = scratch[UINT(((2 * K + 1) * t + 2 * K) * LANES + lane)]
    logarithms(logs, 0, (end - begin) * LANES)
    for t in range(begin, end):
        while lengths[lanes - 1] <= t:
            lanes -= 1
        for lane in range(lanes):
            out[UINT(first[UINT(lane)] + t)] = -logs[UINT((t - begin) * LANES + lane)]


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _store(intentions: Any, scratch: Array, rows: Any, begin: int, end: int, smoothed: Array) -> None:
    """Smoothed probabilities of the steps begin ≤ t < end into rows."""
    first, lengths = rows
    K = len(intentions)
    for lane in range(len(first)):
        row = first[lane]
        for t in range(begin, min(end, lengths[lane])):
            for k in range(K):
                smoothed[UINT((row + t) * K + k)] = scratch[UINT(((2 * K + 1) * t + K + k) * LANES + lane)]


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _group(intentions: Any, given: Any, rows: Any, out: Any, transitions: Array, memory: Any) -> bool:
    """Both passes over at most LANES trajectories; their pairwise posteriors are added to transitions (K, K)."""
    (initial, kernel, log_emission), (smoothed, likelihood), (scratch, counts, logs) = given, out, memory
    first, lengths = rows
    K, n, T = len(intentions), len(first), lengths[0]
    lanes, bad = n, 0
    for begin in range(0, T, BLOCK):
        end = min(begin + BLOCK, T)
        _fetch(intentions, log_emission, rows, begin, end, scratch)
        for t in range(begin, end):
            while lengths[lanes - 1] <= t:
                lanes -= 1
            bad += lanes - _forward(intentions, initial, kernel, t, lanes, scratch)
        if bad:
            return False
        _store_likelihood(intentions, scratch, rows, begin, end, logs, likelihood)
    counts[:] = 0.0
    lanes = 0
    for begin in range((T - 1) // BLOCK * BLOCK, -1, -BLOCK):
        end = min(begin + BLOCK, T)
        for t in range(min(end, T - 1), begin - 1, -1):
            while lanes < n and lengths[lanes] > t:  # this trajectory ends here, with a message of one
                row = t * (2 * K + 1) * LANES + lanes
                for k in range(K):
                    scratch[row + k * LANES] *= scratch[row + 2 * K * LANES]
                lanes += 1
            if t > begin:
                bad += lanes - _backward(intentions, kernel, t, lanes, scratch, counts)
        if bad:
            return False
        _store(intentions, scratch, rows, begin, end, smoothed)
    for j in range(K):
        for k in range(K):
            total = 0.0
            for lane in range(n):
                total += counts[(j * K + k) * LANES + lane]
            transitions[j, k] += total * kernel[j, k]
    return True


@numba.njit(cache=True, error_model="numpy", parallel=True, fastmath={"contract", "nsz", "arcp"})
def forward_backward(intentions: tuple[int, ...], given: Any, rows: Any, out: Any, transitions: Array) -> bool:
    """Fill the beliefs of B trajectories; return False where a step underflows.

    Parameters
    ----------
    intentions : (0, …, K - 1), a tuple: its length is known to the compiler, which unrolls all loops over intentions
    given : (initial, kernel, log_emission)
    rows : (first, lengths)
    out : (smoothed, likelihood)
    transitions : (W, K, K), out, the sums of pairwise posteriors that each of W ≤ B / LANES (rounded up) threads found

    initial, kernel : (K,) and (K, K) probabilities
    log_emission : (N·K,), log-probabilities or log-densities; step t of trajectory b is row first[b] + t of (N, K)
    first, lengths : (B,), the longest trajectory first
    smoothed : (N·K,), out
    likelihood : (N,), out, the log-likelihood of each step
    """
    first, lengths = rows
    K, B, workers = len(intentions), len(first), len(transitions)
    groups = (B + LANES - 1) // LANES
    fine = np.ones(workers, dtype=np.bool_)
    for w in numba.prange(workers):
        worker = np.int64(w)  # prange counts in unsigned numbers, which do not mix with signed ones
        longest = lengths[worker * LANES]
        memory = (np.empty(longest * (2 * K + 1) * LANES), np.empty(K * K * LANES), np.empty(BLOCK * LANES))
        transitions[worker] = 0.0
        for group in range(worker, groups, workers):  # in turns, so that nobody has all the long ones
            begin, end = group * LANES, min(group * LANES + LANES, B)
            here = (first[begin:end], lengths[begin:end])
            if fine[worker]:
                fine[worker] = _group(intentions, given, here, out, transitions[worker], memory)
    return bool(fine.all())
