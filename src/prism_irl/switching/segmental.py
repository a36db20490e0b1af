"""Exact inference over whole segments: a phase lasts a share of its episode, and moves are allowed or they are not.

An episode of B bins is cut into segments; segment i has phase k_i, length d_i and the likelihood of its bins:

    P(k_1) P(d_1 | k_1) L(1 : d_1 | k_1) · A(k_1, k_2) P(d_2 | k_2) L(… | k_2) · …,

where P(d | k) is any table of lengths and A any matrix: a zero in it is a zero in every result, because nothing is
floored. Time O(K B²), so that long episodes come in bins. `best_path` reads labels off any beliefs, so that the steps
of an episode never leave the order in which phases may follow one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from prism_irl.arrays import BoolArray, FloatArray, IntArray
from prism_irl.optional import compiled

NEVER, TINY = -np.inf, -45.0


def once(n_phases: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log of moves (K, K), of first phases and of last ones (K,): every phase once, in the order of its number."""
    moves = np.full((n_phases, n_phases), NEVER)
    moves[np.arange(n_phases - 1), np.arange(1, n_phases)] = 0.0
    first, last = np.full(n_phases, NEVER), np.full(n_phases, NEVER)
    first[0] = last[-1] = 0.0
    return moves, first, last


def cycle(n_phases: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The same where the first phase follows the last one, and an episode may end anywhere."""
    moves, first, last = once(n_phases)
    moves[-1, 0] = 0.0
    return moves, first, np.zeros_like(last)


def anything(moves: FloatArray, first: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The same for probabilities of moves (K, K), without a phase that follows itself, and of first phases (K,)."""
    with np.errstate(divide="ignore"):
        return np.log(moves), np.log(first), np.zeros(len(first))


@compiled()
def viterbi(
    evidence: FloatArray, lengths: FloatArray, moves: FloatArray, first: FloatArray, last: FloatArray, path: IntArray
) -> float:
    """Write the likeliest phases of one episode into ``path`` (B,); returns their joint log-likelihood.

    ``evidence`` (B + 1, K): log-likelihood of all bins before each border; ``lengths`` (K, B): log P(d | k).
    """
    n, n_phases = evidence.shape[0] - 1, evidence.shape[1]
    best, enter = np.full((n + 1, n_phases), -np.inf), np.full((n + 1, n_phases), -np.inf)
    begun, origin = np.zeros((n + 1, n_phases), np.int64), np.full((n + 1, n_phases), -1, np.int64)
    enter[0] = first
    for end in range(1, n + 1):
        for k in range(n_phases):
            values = enter[:end, k] - evidence[:end, k] + lengths[k, :end][::-1]
            begun[end, k] = values.argmax()
            best[end, k] = values.max() + evidence[end, k]
        for k in range(n_phases):
            values = best[end] + moves[:, k]
            enter[end, k], origin[end, k] = values.max(), values.argmax()
    phase, total = -1, -np.inf
    for k in range(n_phases):
        if best[n, k] + last[k] > total:
            phase, total = k, best[n, k] + last[k]
    end = n
    while phase >= 0 and end > 0:
        start = begun[end, phase]
        path[start:end] = phase
        phase, end = origin[start, phase], start
    return float(total)


@compiled()
def _log_sum(values: FloatArray) -> float:
    top, total = values.max(), 0.0
    if top > -np.inf:
        for value in values:
            if value - top > TINY:  # below, it adds less than rounding does
                total += np.exp(value - top)
        top += np.log(total)
    return float(top)


@compiled()
def posterior(
    evidence: FloatArray,
    lengths: FloatArray,
    moves: FloatArray,
    first: FloatArray,
    last: FloatArray,
    border: FloatArray,
    beliefs: FloatArray,
) -> float:
    """Write P(phase of a bin | all) of one episode into ``beliefs`` (B, K); returns the log-likelihood.

    As `viterbi`, with ``border`` (B + 1,): how much likelier a segment ends at each border, in nats.
    """
    n, n_phases = evidence.shape[0] - 1, evidence.shape[1]
    done, enter = np.full((n + 1, n_phases), -np.inf), np.full((n + 1, n_phases), -np.inf)
    enter[0] = first
    for end in range(1, n + 1):
        for k in range(n_phases):
            done[end, k] = evidence[end, k] + _log_sum(enter[:end, k] - evidence[:end, k] + lengths[k, :end][::-1])
        if end < n:
            for k in range(n_phases):
                enter[end, k] = _log_sum(done[end] + moves[:, k]) + border[end]
    likelihood = _log_sum(done[n] + last)
    if likelihood == -np.inf:
        return float(likelihood)
    ahead, begin = np.full((n + 1, n_phases), -np.inf), np.full((n + 1, n_phases), -np.inf)
    ahead[n] = last
    for start in range(n - 1, -1, -1):
        for k in range(n_phases):
            ways = ahead[start + 1 :, k] + evidence[start + 1 :, k] + lengths[k, : n - start]
            begin[start, k] = _log_sum(ways) - evidence[start, k]
        if start > 0:
            for k in range(n_phases):
                ahead[start, k] = _log_sum(begin[start] + moves[k]) + border[start]
    for k in range(n_phases):
        there = 0.0
        for t in range(n):
            there += np.exp(enter[t, k] + begin[t, k] - likelihood) - np.exp(done[t, k] + ahead[t, k] - likelihood)
            beliefs[t, k] = max(there, 0.0)
    for t in range(n):
        beliefs[t] /= beliefs[t].sum()
    return float(likelihood)


@compiled()
def forward(
    evidence: FloatArray,
    hazard: FloatArray,
    moves: FloatArray,
    first: FloatArray,
    predicted: FloatArray,
    filtered: FloatArray,
) -> None:
    """Write P(z_t | steps before t) and P(z_t | steps up to t), (T, K) each, of an episode whose end is not known.

    ``evidence`` (T, K): log-likelihood of every step; ``hazard`` (K, D): P(a phase ends | its age); ``moves`` (K, K)
    and ``first`` (K,) are probabilities. The last age is carried on for as long as it takes.
    """
    n, n_phases = evidence.shape
    longest = hazard.shape[1]
    ages, new = np.zeros((n_phases, longest)), np.zeros((n_phases, longest))
    ended = np.zeros(n_phases)
    for t in range(n):
        if t == 0:
            for k in range(n_phases):
                ages[k, 0] = first[k]
        else:
            last = min(t, longest - 1)
            for k in range(n_phases):
                ended[k] = 0.0
                carried = 0.0
                for d in range(last + 1):
                    gone = ages[k, d] * hazard[k, d]
                    ended[k] += gone
                    if d + 1 < longest:
                        new[k, d + 1] = ages[k, d] - gone
                    else:
                        carried = ages[k, d] - gone
                new[k, longest - 1] += carried
            for k in range(n_phases):
                new[k, 0] = 0.0
                for j in range(n_phases):
                    new[k, 0] += ended[j] * moves[j, k]
            ages, new = new, ages
        top, total = -np.inf, 0.0
        for k in range(n_phases):
            predicted[t, k] = ages[k].sum()
            if predicted[t, k] > 0.0:
                top = max(top, evidence[t, k])
        for k in range(n_phases):
            filtered[t, k] = predicted[t, k] * np.exp(evidence[t, k] - top) if predicted[t, k] > 0.0 else 0.0
            total += filtered[t, k]
        for k in range(n_phases):
            filtered[t, k] /= total
            if predicted[t, k] > 0.0:
                ages[k] *= filtered[t, k] / predicted[t, k]


@compiled()
def _best_path(beliefs: FloatArray, allowed: BoolArray, first: Any, last: Any, path: IntArray) -> None:
    n, n_phases = beliefs.shape
    value = np.where(first, beliefs[0], -np.inf)
    origin = np.zeros((n, n_phases), np.int64)
    for t in range(1, n):
        found = np.full(n_phases, -np.inf)
        for k in range(n_phases):
            for j in range(n_phases):
                if (j == k or allowed[j, k]) and value[j] > found[k]:
                    found[k], origin[t, k] = value[j], j
            found[k] += beliefs[t, k]
        value = found
    ends = np.where(last, value, -np.inf)
    if ends.max() == -np.inf:  # shorter than the phases that it should pass
        ends = value
    k = int(ends.argmax())
    for t in range(n - 1, -1, -1):
        path[t] = k
        k = origin[t, k]


def best_path(
    beliefs: FloatArray,
    offsets: IntArray,
    allowed: BoolArray,
    first: BoolArray | None = None,
    last: BoolArray | None = None,
) -> IntArray:
    """Labels (n,) that are right at the most steps in expectation, among those that only make ``allowed`` moves (K, K).

    ``beliefs`` (n, K) are P(z_t = k | everything); staying is always allowed, ``first`` and ``last`` (K,) say where an
    episode may begin and end.
    """
    everything = np.ones(beliefs.shape[1], bool)
    path = np.zeros(len(beliefs), np.int64)
    begin, end = (everything if where is None else where for where in (first, last))
    values = np.ascontiguousarray(beliefs, dtype=np.float64)
    for a, b in pairwise(offsets):
        _best_path(values[a:b], allowed, begin, end, path[a:b])
    return path


def length_table(mean: FloatArray, spread: FloatArray, n_bins: int) -> FloatArray:
    """Log P(d | k) of lengths of 1 to B bins, (K, B): a normal distribution of shares of the episode, cut off."""
    shares = np.arange(1, n_bins + 1) / n_bins
    table = -0.5 * ((shares - mean[:, None]) / spread[:, None]) ** 2
    top = table.max(axis=1, keepdims=True)
    return np.asarray(table - top - np.log(np.exp(table - top).sum(axis=1, keepdims=True)))


def borders(length: int, most: int) -> IntArray:
    """First steps of the bins of an episode, and its length: one bin per step, or ``most`` bins of nearly one size."""
    n = min(length, most)
    return np.round(np.linspace(0, length, n + 1)).astype(np.int64)


def moved(labels: Sequence[IntArray], n_phases: int) -> tuple[FloatArray, FloatArray]:
    """Probabilities of moves (K, K) and of first phases (K,) as the labels of episodes count them, never quite zero."""
    moves, first = np.full((n_phases, n_phases), 0.5), np.full(n_phases, 0.5)
    for path in labels:
        runs = path[np.r_[True, np.diff(path) != 0]]
        first[runs[0]] += 1.0
        np.add.at(moves, (runs[:-1], runs[1:]), 1.0)
    np.fill_diagonal(moves, 0.0)
    return moves / np.maximum(moves.sum(axis=1, keepdims=True), 1e-300), first / first.sum()


def run_lengths(labels: IntArray, offsets: IntArray, n_phases: int) -> FloatArray:
    """Mean and spread of the lengths of runs of each phase, as shares of their episode, (K, 2)."""
    shares: list[list[float]] = [[] for _ in range(n_phases)]
    for a, b in pairwise(offsets):
        cuts = np.r_[0, np.flatnonzero(np.diff(labels[a:b])) + 1, b - a]
        for start, end in pairwise(cuts):
            shares[labels[a + start]].append((end - start) / (b - a))
    mean = np.array([np.mean(own) if own else 1.0 / n_phases for own in shares])
    counts = np.array([len(own) for own in shares])
    spread = np.array([np.std(own) if len(own) > 1 else 0.5 / n_phases for own in shares])
    spread = np.sqrt((counts * spread**2 + 3 * (0.25 * mean) ** 2) / (counts + 3))
    return np.stack([mean, np.maximum(spread, 0.01)], axis=1)
