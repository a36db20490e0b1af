"""Intentions that end and are drawn anew: both passes against a plain forward–backward over the same kernel."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from prism_irl.renewal import Renewal, beliefs, expected_counts, left_from


def plain(chain: Renewal, emission, at, places):
    """Smoothed, filtered, log-likelihoods of one trajectory, by matrices (K, K)."""
    T, K = emission.shape
    kernels = np.empty((T, K, K))
    for t in range(1, T):
        kind = np.zeros(K, int)
        for k in range(K):
            was, is_there = at[t - 1] == k, at[t] == k
            kind[k] = (2 if is_there else 3) if was else int(is_there)
        rate = chain.leaving[np.arange(K), kind]
        onward = np.broadcast_to(chain.onward, (K, K))
        kernels[t] = rate[:, None] * onward + np.diag(1 - rate)
        if chain.reminders is not None:
            reminded = chain.reminders[places[t - 1]]
            kernels[t] = (1 - reminded.sum()) * kernels[t] + reminded
    f, b, ll = np.empty((T, K)), np.ones((T, K)), np.empty(T)
    for t in range(T):
        f[t] = (chain.initial if t == 0 else f[t - 1] @ kernels[t]) * emission[t]
        ll[t] = np.log(f[t].sum())
        f[t] /= f[t].sum()
    for t in range(T - 2, -1, -1):
        b[t] = kernels[t + 1] @ (emission[t + 1] * b[t + 1])
        b[t] /= b[t].sum()
    smoothed = f * b
    return smoothed / smoothed.sum(1, keepdims=True), f, ll


@pytest.mark.parametrize("reminds", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_both_passes_are_those_of_the_whole_kernel(full, reminds):
    rng = np.random.default_rng(3)
    K, lengths = 4, [7, 1, 12]
    n, offsets = sum(lengths), np.concatenate([[0], np.cumsum(lengths)])
    onward = rng.dirichlet(np.ones(K), K if full else 1)
    chain = Renewal(rng.dirichlet(np.ones(K)), onward, rng.uniform(0.1, 0.9, (K, 4)))
    places = rng.integers(3, size=n)
    if reminds:
        chain = chain._replace(reminders=rng.uniform(0, 0.2, (3, K)))
    table, rows, at = rng.uniform(0.1, 1, (6, K)), rng.integers(6, size=n), rng.integers(-1, K, size=n)
    found = beliefs(chain, table[rows], at, offsets, places)
    counted = expected_counts(chain, table, rows, at, offsets, places)
    for i, (first, last) in enumerate(pairwise(offsets)):
        smoothed, filtered, ll = plain(chain, table[rows[first:last]], at[first:last], places[first:last])
        np.testing.assert_allclose(found.counts[first:last], smoothed, atol=1e-12)
        np.testing.assert_allclose(found.filtered[first:last], filtered, atol=1e-12)
        np.testing.assert_allclose(found.log_likelihood[first:last], ll, atol=1e-12)
        assert counted.log_likelihood[i] == pytest.approx(ll.sum())
    sums = np.zeros_like(table)
    np.add.at(sums, rows, found.counts)
    np.testing.assert_allclose(counted.counts, sums, atol=1e-10)
    if reminds:  # the likelihood's slope along a probability that is there is the count over that probability
        more = chain.reminders + 1e-6 * np.eye(3, K)
        slope = (
            expected_counts(chain._replace(reminders=more), table, rows, at, offsets, places).log_likelihood.sum()
            - counted.log_likelihood.sum()
        ) / 1e-6
        calm = 1 - chain.reminders.sum(1)
        left = np.array([counted.reminded[g].sum() for g in range(3)])
        stay = left_from(places, offsets, 3) - left
        expected = sum(counted.reminded[g, g] / chain.reminders[g, g] - stay[g] / calm[g] for g in range(3))
        assert slope == pytest.approx(expected, rel=1e-3)
    # what leaves is drawn again, and every step but the last of a trajectory leaves or stays
    assert counted.left.sum() == pytest.approx(counted.onward.sum())
    assert (counted.left + counted.stayed).sum() == pytest.approx(n - len(lengths))
