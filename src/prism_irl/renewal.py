"""Beliefs about intentions that end and are drawn anew, in O(nK) per iteration.

At every step the present intention k ends with a probability that depends on where the agent is, and the next one is
drawn from weights: P(z_{t+1}=k | z_t=j) = (1 − l_j) [j=k] + l_j w_k. Leaving has rank one, so that forward–backward
costs O(K) per step and not O(K²); with a row of weights per intention that is left, (K, K), it costs O(K²) again.

Where the agent is matters in four ways, the columns of ``leaving`` (K, 4): away from its place (`QUIT`), entering it
(`ENTER`: the next action is somebody else's), staying there (`STAY`) and leaving it (`EXIT`).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np

from prism_irl.arrays import BoolArray, FloatArray, IntArray
from prism_irl.optional import compiled

QUIT, ENTER, STAY, EXIT = range(4)
TINY = 1e-300
PARTS, WORTH_THREADS = 4, 500_000
"""Parts that trajectories are cut into where there are more numbers (steps times intentions) than the second."""


RATE_PRIOR = np.array([[1.0, 0.5, 0.5, 0.5], [19.0, 0.5, 0.5, 0.5]])
"""Leavings and stays that are added to those of the data, by where the agent is."""
ORDER_PRIOR = 5.0
"""Draws that the weights of all goals are worth in those after each goal."""
REMINDER_PRIOR = 0.5, 20.0
"""Steps at every place that brought an intention about, and that did not, which are added to those of the data."""

LAST_PRIOR = 20.0
"""Steps at goals, and away from them, that were the last of their trajectory as often as any."""


class Renewal(NamedTuple):
    """Parameters: ``initial`` (K,), ``onward`` (1, K) or (K, K) of the next intention, ``leaving`` (K, 4).

    ``reminders`` (G, K), where there are some: after a step taken at a place of G, the next intention is k with this
    probability, whatever the present one; what is missing to one is the probability that nothing happens.
    """

    initial: FloatArray
    onward: FloatArray
    leaving: FloatArray
    reminders: FloatArray | None = None


class Expected(NamedTuple):
    """Expected counts, and beliefs where they were asked for.

    ``counts`` (P, K): steps of each row of the table under each intention; of beliefs P = n, the smoothed posterior.
    ``first`` (K,): of first steps. ``onward`` (1 or K, K): draws of the next intention. ``left``, ``stayed`` (K, 4): of
    intentions that end and go on, by where the agent is. ``log_likelihood`` (N,) per trajectory, or (n,) per step.
    ``filtered``, ``predicted`` (n, K), or empty. ``reminded`` (G, K): intentions that a place has brought about.
    """

    counts: FloatArray
    first: FloatArray
    onward: FloatArray
    left: FloatArray
    stayed: FloatArray
    log_likelihood: FloatArray
    filtered: FloatArray
    predicted: FloatArray
    reminded: FloatArray


def expected_counts(
    chain: Renewal,
    table: FloatArray,
    rows: IntArray,
    at: IntArray,
    offsets: IntArray,
    places: IntArray | None = None,
) -> Expected:
    """E-step from a table of probabilities (P, K), whose row ``rows`` (n,) belongs to each step.

    ``at`` (n,): the intention whose place the agent is at, −1 elsewhere; ``offsets`` (N + 1,) of the trajectories;
    ``places`` (n,): of each step, for reminders.
    """
    none = np.zeros((0, table.shape[1]))
    given = *_arrays(chain, places), table, rows, at, np.arange(table.shape[1]), offsets

    def part(first: int, last: int) -> Any:
        counts = np.zeros_like(table)
        return counts, *_sweep(*given, first, last, counts, none, none, none[:, 0])

    counts, first, onward, left, stayed, likelihood, reminded = (
        sum(found) for found in zip(*_parts(part, table, offsets), strict=True)
    )
    return Expected(counts, first, onward, left, stayed, likelihood, none, none, reminded)


def beliefs(
    chain: Renewal,
    emission: FloatArray,
    at: IntArray,
    offsets: IntArray,
    places: IntArray | None = None,
    *,
    online: bool = True,
    targets: IntArray | None = None,
) -> Expected:
    """E-step from probabilities of every step up to a factor (n, K), with beliefs about every step.

    ``targets`` (K,): what ``at`` calls the place of each intention, where several have the same one.
    """
    n, K = emission.shape
    counts, log_likelihood = np.zeros((n, K)), np.zeros(n)
    filtered, predicted = (np.zeros((n if online else 0, K)) for _ in range(2))
    targets = np.arange(K) if targets is None else targets
    given = *_arrays(chain, places), emission, np.arange(n), at, targets, offsets
    found = _parts(lambda *part: _sweep(*given, *part, counts, filtered, predicted, log_likelihood), emission, offsets)
    first, onward, left, stayed, _, reminded = (sum(one) for one in zip(*found, strict=True))
    return Expected(counts, first, onward, left, stayed, log_likelihood, filtered, predicted, reminded)


def leaving_rates(left: FloatArray, stayed: FloatArray, nowhere: BoolArray) -> FloatArray:
    """Rates of leaving from counts (K, 4), with a weak prior: those that all goals share, and those of no place."""
    rates = np.empty_like(left)
    for group in (~nowhere, nowhere):
        gone, kept = left[group].sum(0) + RATE_PRIOR[0], stayed[group].sum(0) + RATE_PRIOR[1]
        rates[group] = gone / (gone + kept)
    return rates


def lasting(closed: FloatArray) -> FloatArray:
    """How often a step is the last of its trajectory, away from the goal and at it, (2,).

    Counts (2, 2) are those of last steps, and of all; either has `LAST_PRIOR` steps more that ended as often as any.
    """
    found: FloatArray = (closed[0] + LAST_PRIOR * closed[0].sum() / closed[1].sum()) / (closed[1] + LAST_PRIOR)
    return found


def reminding(reminded: FloatArray, visits: FloatArray, weights: FloatArray) -> FloatArray:
    """Probabilities that a place brings each intention about, (G, K), from counts and how often it was left, (G,)."""
    turned, calm = REMINDER_PRIOR
    found: FloatArray = (reminded + turned * weights) / (visits[:, None] + turned + calm)
    return found


def left_from(places: IntArray, offsets: IntArray, n_places: int) -> FloatArray:
    """How many steps at each place are not the last of their trajectory, (G,)."""
    goes_on = np.ones(len(places))
    goes_on[offsets[1:] - 1] = 0.0
    return np.asarray(np.bincount(places, goes_on, n_places), np.float64)


def _arrays(chain: Renewal, places: IntArray | None) -> tuple[Any, ...]:
    """Parameters as the compiled pass reads them; without reminders there are none of them."""
    if chain.reminders is None or places is None:
        return *chain[:3], np.zeros((0, len(chain.initial))), np.zeros(0, np.int64)
    return *chain[:3], chain.reminders, places


def _parts(run: Callable[[int, int], Any], table: FloatArray, offsets: IntArray) -> list[Any]:
    """What ``run`` finds for trajectories first to last − 1, in threads where that is worth their start.

    How the data are cut depends on the data alone, so that sums do not depend on the machine.
    """
    n = PARTS if offsets[-1] * table.shape[1] > WORTH_THREADS else 1
    cuts = np.searchsorted(offsets, np.linspace(0, offsets[-1], n + 1)).tolist()
    cuts[0], cuts[-1] = 0, len(offsets) - 1
    spans = [(first, last) for first, last in pairwise(cuts) if last > first]
    if len(spans) == 1 or numba.get_num_threads() == 1:
        return [run(*span) for span in spans]
    with ThreadPoolExecutor(numba.get_num_threads()) as pool:
        return list(pool.map(lambda span: run(*span), spans))


@compiled(inline="always")
def _at(leaving: Any, rates: Any, targets: Any, u: int, v: int) -> None:
    """Rates of leaving between a step at the place of u and the next at that of v; −1 where there is none."""
    if u >= 0 or v >= 0:
        for k in range(len(rates)):
            if targets[k] == u:
                rates[k] = leaving[k, 2 if u == v else 3]
            elif targets[k] == v:
                rates[k] = leaving[k, 1]


@compiled(inline="always")
def _away(leaving: Any, rates: Any, u: int, v: int) -> None:
    """Undo `_at`."""
    if u >= 0 or v >= 0:
        for k in range(len(rates)):
            rates[k] = leaving[k, 0]


@compiled()
def _sweep(
    initial: Any,
    onward: Any,
    leaving: Any,
    reminders: Any,
    places: Any,
    table: Any,
    rows: Any,
    at: Any,
    targets: Any,
    offsets: Any,
    begin: int,
    end: int,
    counts: Any,
    filtered: Any,
    predicted: Any,
    per_step: Any,
) -> Any:
    """Both passes over trajectories ``begin`` to ``end`` − 1; counts are added to, beliefs are written."""
    K, J = table.shape[1], onward.shape[0]
    first, draws = np.zeros(K), np.zeros((J, K))
    left, stayed = np.zeros((K, 4)), np.zeros((K, 4))
    likelihood, reminded = np.zeros(len(offsets) - 1), np.zeros(reminders.shape)
    online, stepwise, reminds = filtered.shape[0] > 0, per_step.shape[0] > 0, len(reminders) > 0
    longest = 0
    for i in range(begin, end):
        longest = max(longest, offsets[i + 1] - offsets[i])
    f, b, n, x, brought = np.empty((longest, K)), np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    q, rates = np.empty(J), leaving[:, 0].copy()
    for i in range(begin, end):
        o, T = offsets[i], offsets[i + 1] - offsets[i]
        for t in range(T):
            e = table[rows[o + t]]
            if t == 0:
                for k in range(K):
                    x[k] = initial[k]
            else:
                u, v = at[o + t - 1], at[o + t]
                _at(leaving, rates, targets, u, v)
                if J == 1:
                    m = 0.0
                    for k in range(K):
                        m += f[t - 1, k] * rates[k]
                    for k in range(K):
                        x[k] = f[t - 1, k] * (1.0 - rates[k]) + m * onward[0, k]
                else:
                    for k in range(K):
                        x[k] = f[t - 1, k] * (1.0 - rates[k])
                    for j in range(K):
                        m = f[t - 1, j] * rates[j]
                        for k in range(K):
                            x[k] += m * onward[j, k]
                _away(leaving, rates, u, v)
                if reminds:
                    p, calm = places[o + t - 1], 1.0
                    for k in range(K):
                        calm -= reminders[p, k]
                    for k in range(K):
                        x[k] = calm * x[k] + reminders[p, k]
            z = 0.0
            for k in range(K):
                f[t, k] = x[k] * e[k]
                z += f[t, k]
            if z > TINY:
                for k in range(K):
                    f[t, k] /= z
            else:  # a step that nobody can explain says nothing
                for k in range(K):
                    f[t, k] = x[k]
                z = TINY
            likelihood[i] += np.log(z)
            if stepwise:
                per_step[o + t] = np.log(z)
            if online:
                for k in range(K):
                    filtered[o + t, k] = f[t, k]
                    predicted[o + t, k] = x[k]
        for k in range(K):
            b[k] = 1.0
            counts[rows[o + T - 1], k] += f[T - 1, k]
        for t in range(T - 2, -1, -1):
            e = table[rows[o + t + 1]]
            u, v = at[o + t], at[o + t + 1]
            _at(leaving, rates, targets, u, v)
            for k in range(K):
                x[k] = e[k] * b[k]
            if reminds:  # x becomes the likelihood of what comes, as far as the place does not bring it about
                p, calm, m = places[o + t], 1.0, 0.0
                for k in range(K):
                    calm -= reminders[p, k]
                    m += reminders[p, k] * x[k]
                    brought[k] = reminders[p, k] * x[k]
                for k in range(K):
                    x[k] = calm * x[k] + m
            for j in range(J):
                m = 0.0
                for k in range(K):
                    m += onward[j, k] * x[k]
                q[j] = m
            z = 0.0
            for k in range(K):
                n[k] = (1.0 - rates[k]) * x[k] + rates[k] * q[0 if J == 1 else k]
                z += f[t, k] * n[k]
            inverse = 1.0 / z if z > TINY else 0.0
            if reminds:
                for k in range(K):
                    reminded[places[o + t], k] += brought[k] * inverse
            row, total = counts[rows[o + t]], 0.0
            for k in range(K):
                here = f[t, k] * n[k] * inverse
                row[k] += here
                gone = f[t, k] * rates[k] * q[0 if J == 1 else k] * inverse
                total += gone
                if J > 1:
                    share = f[t, k] * rates[k] * inverse
                    for h in range(K):
                        draws[k, h] += share * onward[k, h] * x[h]
                kind = 0
                if u == targets[k]:
                    kind = 2 if u == v else 3
                elif v == targets[k]:
                    kind = 1
                left[k, kind] += gone
                stayed[k, kind] += here - gone
                b[k] = n[k] * inverse
            if J == 1 and q[0] > TINY:
                for k in range(K):
                    draws[0, k] += total * onward[0, k] * x[k] / q[0]
            _away(leaving, rates, u, v)
        for k in range(K):
            first[k] += f[0, k] * b[k]
    return first, draws, left, stayed, likelihood, reminded
