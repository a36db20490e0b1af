"""Compiled forward–backward: one kernel for any chain, and one for constant kernels that gives statistics directly.

`forward_backward` runs one thread per trajectory, in scaled probability space. Sums are divided out only where they
leave the comfortable range of a float64, so that no step waits for the division of the step before. Trajectories may
lie anywhere in flat arrays, so that one constant kernel (stride 0), padded batches and ragged data are the same code.
What nobody asks for is not written: fresh pages cost more than the arithmetic.

`expected_counts` is for a constant kernel and policies that are a table, where all that closed-form M-steps need are
sums: of first steps (K,), of moves (K, K) and of choices (P, K) over the pairs of context and action; one number per
step is read and none is written. The innermost loop is over sixteen trajectories side by side ("lanes"), which the
compiler turns into vector instructions; they come longest first, so that at each time the running ones are a prefix.
All scratch is one flat array with the layout (T, 2K + 1, LANES): of each step the emissions (which the backward pass
replaces by its weights), the filtered probabilities (replaced by the smoothed ones) and one over the step's likelihood.
Rows at constant distances in one array cannot overlap, which the compiler must know before it vectorises a step. Time
is cut into blocks that fit the innermost cache. Sums are made in parts that depend on the data alone.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from prism_irl.optional import compiled

Array = np.ndarray[Any, Any]
UINT = np.uint64  # an index that cannot be negative need not be checked for it, in every access
TINY = 1e-280  # below this a probability has lost its digits: the caller falls back to log space
SMALL, LARGE = 1e-60, 1e60  # sums between these are left as they are
LANES = 16
BLOCK = 16  # steps; a block of scratch with three intentions is 14 kB
CLOSE = 1e-6  # smoothed probabilities that sum to one less well have met an underflow
PARTS = 16


@compiled(fastmath={"contract", "nsz", "arcp"})
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


@compiled(fastmath={"contract", "nsz", "arcp"})
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


@compiled(fastmath={"contract", "nsz", "arcp"})
def _trajectory(intentions: tuple[int, ...], b: Any, given: Any, out: Any) -> bool:
    """Both passes of trajectory b."""
    all_steps, first, lengths = given[4:]
    n, i = lengths[b], first[b]
    emission, alpha = all_steps[i : i + n].copy(), np.empty((n, len(intentions)))
    fine: bool = _forward(intentions, b, given, out, emission, alpha)
    return fine and _backward(intentions, b, given, out, emission, alpha)


@compiled(parallel=True, fastmath={"contract", "nsz", "arcp"})
def forward_backward(intentions: tuple[int, ...], given: Any, out: Any) -> bool:
    """Fill the beliefs of B trajectories; return False where a step underflows.

    Parameters
    ----------
    intentions : (0, …, K - 1), a tuple: its length is known to the compiler, which unrolls all loops over intentions
    given : (initial, kernel, kernel_first, stride, emission, first, lengths)
    out : (predicted, filtered, smoothed, likelihood, transitions, pairwise)

    initial : (B, K) or (1, K) probabilities
    kernel : (P, K, K) probabilities; step t of trajectory b is led into by row kernel_first[b] + t * stride
    emission : (N, K) probabilities or densities; step t of trajectory b is row first[b] + t
    lengths : (B,) steps of each trajectory
    predicted, filtered, smoothed : (N, K), out; the first two may be empty when not wanted
    likelihood : (N,), out, the likelihood of each step
    transitions : (B, K, K), out, the sum of pairwise posteriors of each trajectory
    pairwise : (P, K, K), out, or empty when not wanted
    """
    B = len(given[6])
    failed = np.zeros(B, dtype=np.bool_)
    for b in numba.prange(B):  # which counts in unsigned numbers, and they do not mix with signed ones
        failed[b] = not _trajectory(intentions, np.int64(b), given, out)
    return not failed.any()


@compiled(fastmath={"contract", "nsz", "arcp"})
def _forward_step(intentions: Any, initial: Array, kernel: Array, t: int, lanes: int, scratch: Array) -> int:
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


@compiled(fastmath={"contract", "nsz", "arcp"})
def _backward_step(intentions: Any, kernel: Array, t: int, lanes: int, scratch: Array, counts: Array) -> int:
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


@compiled(fastmath={"contract", "nsz", "arcp"})
def _look_up(intentions: Any, table: Array, pairs: Array, rows: Any, begin: int, end: int, scratch: Array) -> None:
    """Probabilities of the steps begin ≤ t < end by their pairs; garbage beyond an end."""
    first, lengths = rows
    K = len(intentions)
    for lane in range(len(first)):
        row = first[lane]
        for t in range(begin, min(end, lengths[lane])):
            pair = np.int64(pairs[UINT(row + t)])
            for k in range(K):
                scratch[UINT(((2 * K + 1) * t + k) * LANES + lane)] = table[UINT(pair), UINT(k)]


@compiled(fastmath={"contract", "nsz", "arcp"})
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


@compiled(fastmath={"contract", "nsz", "arcp"})
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


@compiled(fastmath={"contract", "nsz", "arcp"})
def _group(intentions: Any, given: Any, rows: Any, out: Any, memory: Any) -> bool:
    """Both passes over at most LANES trajectories, added to what was counted before; False on underflow."""
    (initial, kernel, table, pairs), (scratch, counts) = given, memory
    begun, moves, choices, likelihood = out
    lengths = rows[1]
    K, n, T = len(intentions), len(lengths), lengths[0]
    lanes, bad = n, 0
    for begin in range(0, T, BLOCK):
        end = min(begin + BLOCK, T)
        _look_up(intentions, table, pairs, rows, begin, end, scratch)
        for t in range(begin, end):
            while lengths[lanes - 1] <= t:
                lanes -= 1
            bad += lanes - _forward_step(intentions, initial, kernel, t, lanes, scratch)
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
                bad += lanes - _backward_step(intentions, kernel, t, lanes, scratch, counts)
        if bad:
            return False
        _count(intentions, scratch, pairs, rows, begin, end, choices)
    for j in range(K):
        for lane in range(n):
            begun[j] += scratch[(K + j) * LANES + lane]
            for k in range(K):
                moves[j, k] += counts[(j * K + k) * LANES + lane] * kernel[j, k]
    return True


@compiled(parallel=True, fastmath={"contract", "nsz", "arcp"})
def expected_counts(intentions: tuple[int, ...], given: Any, rows: Any, out: Any, threads: int) -> bool:
    """Count what is expected of B trajectories, in W ≤ B / LANES (rounded up) parts; False where a step underflows.

    Parameters
    ----------
    intentions : (0, …, K - 1), a tuple: its length is known to the compiler, which unrolls all loops over intentions
    given : (initial, kernel, table, pairs)
    rows : (first, lengths)
    out : (begun, moves, choices, likelihood), zeros
    threads : how many share the parts; asked for in here, the number would forbid to cache what is compiled

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
    workers = min(parts, threads)
    fine = np.ones(parts, dtype=np.bool_)
    for w in numba.prange(workers):
        worker = np.int64(w)  # prange counts in unsigned numbers, which do not mix with signed ones
        memory = (np.empty(lengths[worker * LANES] * (2 * K + 1) * LANES), np.empty(K * K * LANES))
        for part in range(worker, parts, workers):
            mine = (begun[part], moves[part], choices[part], likelihood[part])
            for group in range(part, groups, parts):  # in turns, so that nobody has all the long ones
                begin, end = group * LANES, min(group * LANES + LANES, B)
                if fine[part]:
                    fine[part] = _group(intentions, given, (first[begin:end], lengths[begin:end]), mine, memory)
    return bool(fine.all())
