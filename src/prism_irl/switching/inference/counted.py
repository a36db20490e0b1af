"""Expected counts of a constant chain over a table of policies, without beliefs about any single step.

Where policies are a table, the emission of a step is looked up by its (context, action), and all that closed-form
M-steps need of an E-step are sums: of first steps (K,), of moves (K, K) and of choices (P, K) over the P pairs of
context and action. Here both passes keep to the innermost cache, read one number per step and write none: no
logarithms and exponentials of emissions, no responsibilities (n, K) in memory. The passes themselves are those of
`switching.inference.lanes`, which is the reference, with sixteen trajectories side by side.

Sums are made in a number of parts that depends on the data alone, so that they do not depend on threads.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from prism_irl.switching.inference.elementary import UINT, Array
from prism_irl.switching.inference.lanes import BLOCK, LANES, _backward, _forward

PARTS = 16


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _look_up(intentions: Any, table: Array, pairs: Array, rows: Any, begin: int, end: int, scratch: Array) -> None:
    """Probabilities of the steps begin ≤ t < end; garbage beyond an end."""
    first, lengths = rows
    K = len(intentions)
    for lane in range(len(first)):
        row = first[lane]
        for t in range(begin, min(end, lengths[lane])):
            pair = np.int64(pairs[UINT(row + t)])
            for k in range(K):
                scratch[UINT(((2 * K + 1) * t + k) * LANES + lane)] = table[UINT(pair), UINT(k)]


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _log_likelihood(intentions: Any, scratch: Array, rows: Any, begin: int, end: int) -> float:
    """Σ log P(a_t | a_<t) of the steps begin ≤ t < end: of each trajectory the logarithm of one product."""
    first, lengths = rows
    K, total = len(intentions), 0.0
    for lane in range(len(first)):
        product = 1.0
        for t in range(begin, min(end, lengths[lane])):
            product *= scratch[UINT(((2 * K + 1) * t + 2 * K) * LANES + lane)]
        if 1e-300 < product < 1e300:
            total -= np.log(product)
        else:  # a product of very improbable steps, each of which is fine
            for t in range(begin, min(end, lengths[lane])):
                total -= np.log(scratch[UINT(((2 * K + 1) * t + 2 * K) * LANES + lane)])
    return total


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _count(intentions: Any, scratch: Array, pairs: Array, rows: Any, begin: int, end: int, choices: Array) -> None:
    """Add the smoothed probabilities of the steps begin ≤ t < end to the counts of their pairs."""
    first, lengths = rows
    K, lanes = len(intentions), len(first)
    for t in range(begin, end):
        while lengths[lanes - 1] <= t:
            lanes -= 1
        for lane in range(lanes):
            pair = np.int64(pairs[UINT(first[lane] + t)])
            for k in range(K):
                choices[UINT(pair), UINT(k)] += scratch[UINT(((2 * K + 1) * t + K + k) * LANES + lane)]


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _group(intentions: Any, given: Any, rows: Any, out: Any, memory: Any) -> bool:
    """Both passes over at most LANES trajectories, added to what was counted before; False on underflow."""
    (initial, kernel, table, pairs), (begun, moves, choices, likelihood), (scratch, counts) = given, out, memory
    lengths = rows[1]
    K, n, T = len(intentions), len(lengths), lengths[0]
    lanes, bad = n, 0
    for begin in range(0, T, BLOCK):
        end = min(begin + BLOCK, T)
        _look_up(intentions, table, pairs, rows, begin, end, scratch)
        for t in range(begin, end):
            while lengths[lanes - 1] <= t:
                lanes -= 1
            bad += lanes - _forward(intentions, initial, kernel, t, lanes, scratch)
        if bad:
            return False
        likelihood[0] += _log_likelihood(intentions, scratch, rows, begin, end)
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
        _count(intentions, scratch, pairs, rows, begin, end, choices)
    for j in range(K):
        for lane in range(n):
            begun[j] += scratch[(K + j) * LANES + lane]
            for k in range(K):
                moves[j, k] += counts[(j * K + k) * LANES + lane] * kernel[j, k]
    return True


@numba.njit(cache=True, error_model="numpy", parallel=True, fastmath={"contract", "nsz", "arcp"})
def expected_counts(intentions: tuple[int, ...], given: Any, rows: Any, out: Any) -> bool:
    """Count what is expected of B trajectories, in W ≤ B / LANES (rounded up) parts; False where a step underflows.

    Parameters
    ----------
    intentions : (0, …, K - 1), a tuple: its length is known to the compiler, which unrolls all loops over intentions
    given : (initial, kernel, table, pairs)
    rows : (first, lengths)
    out : (begun, moves, choices, likelihood), zeros

    initial, kernel : (K,) and (K, K) probabilities
    table : (P, K), probability of each pair of context and action under each intention
    pairs : (N,), the pair of every step; step t of trajectory b is number first[b] + t
    first, lengths : (B,), the longest trajectory first
    begun, moves, choices : (W, K), (W, K, K) and (W, P, K), out
    likelihood : (W, 1), out, log-likelihood of all steps
    """
    first, lengths = rows
    begun, moves, choices, likelihood = out
    K, B, parts = len(intentions), len(first), len(begun)
    groups = (B + LANES - 1) // LANES
    fine = np.ones(parts, dtype=np.bool_)
    for p in numba.prange(parts):
        part = np.int64(p)  # prange counts in unsigned numbers, which do not mix with signed ones
        memory = (np.empty(lengths[part * LANES] * (2 * K + 1) * LANES), np.empty(K * K * LANES))
        mine = (begun[part], moves[part], choices[part], likelihood[part])
        for group in range(part, groups, parts):  # in turns, so that nobody has all the long ones
            begin, end = group * LANES, min(group * LANES + LANES, B)
            if fine[part]:
                fine[part] = _group(intentions, given, (first[begin:end], lengths[begin:end]), mine, memory)
    return bool(fine.all())
