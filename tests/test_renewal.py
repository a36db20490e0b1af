"""Intentions that end and are drawn anew: both passes against a plain forward–backward over the same kernel."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from prism_irl.renewal import Renewal, beliefs, expected_counts


def plain(chain: Renewal, emission, at):
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


@pytest.mark.parametrize("full", [False, True])
def test_both_passes_are_those_of_the_whole_kernel(full):
    rng = np.random.default_rng(3)
    K, lengths = 4, [7, 1, 12]
    n, offsets = sum(lengths), np.concatenate([[0], np.cumsum(lengths)])
    onward = rng.dirichlet(np.ones(K), K if full else 1)
    chain = Renewal(rng.dirichlet(np.ones(K)), onward, rng.uniform(0.1, 0.9, (K, 4)))
    table, rows, at = rng.uniform(0.1, 1, (6, K)), rng.integers(6, size=n), rng.integers(-1, K, size=n)
    found = beliefs(chain, table[rows], at, offsets)
    counted = expected_counts(chain, table, rows, at, offsets)
    for i, (first, last) in enumerate(pairwise(offsets)):
        smoothed, filtered, ll = plain(chain, table[rows[first:last]], at[first:last])
        np.testing.assert_allclose(found.counts[first:last], smoothed, atol=1e-12)
        np.testing.assert_allclose(found.filtered[first:last], filtered, atol=1e-12)
        np.testing.assert_allclose(found.log_likelihood[first:last], ll, atol=1e-12)
        assert counted.log_likelihood[i] == pytest.approx(ll.sum())
    sums = np.zeros_like(table)
    np.add.at(sums, rows, found.counts)
    np.testing.assert_allclose(counted.counts, sums, atol=1e-10)
    # what leaves is drawn again, and every step but the last of a trajectory leaves or stays
    assert counted.left.sum() == pytest.approx(counted.onward.sum())
    assert (counted.left + counted.stayed).sum() == pytest.approx(n - len(lengths))
