"""k-means without scikit-learn is the k-means of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from prism_irl.models import starts as clusters


def rows(n: int, m: int, seed: int) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    kinds = rng.dirichlet(np.full(m, 0.3), 4)
    counts = np.stack([rng.multinomial(12, kinds[rng.integers(4)]) for _ in range(n)])
    found = sparse.csr_array(np.sqrt(counts / 12.0))
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    return found


@settings(max_examples=30, deadline=None)
@given(n=st.integers(8, 120), m=st.integers(2, 30), k=st.integers(2, 6), seed=st.integers(0, 10_000))
def test_clusters_are_those_of_scikit_learn(n: int, m: int, k: int, seed: int) -> None:
    points = rows(n, m, seed)
    found = clusters.cluster_rows(points, k, seed, max_iter=20)
    np.testing.assert_array_equal(found, clusters.with_library(points, k, seed, max_iter=20))


def test_an_empty_cluster_is_left_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    points = sparse.csr_array(np.repeat(np.eye(2), 5, axis=0))  # two distinct rows cannot fill three clusters
    expected = np.zeros(10, np.int64)
    monkeypatch.setattr(clusters, "with_library", lambda *given, **options: expected)
    assert clusters.cluster_rows(points, 3, 0, max_iter=20) is expected
