"""k-means of sparse rows as scikit-learn does it, draw for draw, without the second that importing it takes.

Greedy k-means++ (Arthur & Vassilvitskii 2007), then Lloyd's algorithm. Windows of a trajectory are clustered in tens of
milliseconds, and a fit that only counts imports nothing else of scikit-learn. A cluster that runs empty is left to
`sklearn.cluster.KMeans`, which is also the reference (tested).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
TOLERANCE = 1e-4
"""Shift of the centres that ends the iterations, as a share of the mean variance of the columns."""


def cluster_rows(points: Any, k: int, seed: int, *, max_iter: int) -> npt.NDArray[np.int64]:
    """Cluster of every row of a sparse matrix (n, m), (n,).

    Parameters
    ----------
    points : csr_array, (n, m)
    k : int
        Clusters, fewer than rows.
    seed : int
        Seed of the draws that k-means++ makes.
    max_iter : int
        Iterations of Lloyd's algorithm at most.
    """
    norms = np.asarray(points.multiply(points).sum(axis=1)).ravel()
    centres = _first_centres(points, norms, k, np.random.RandomState(seed))
    variances = points.power(2).mean(axis=0) - np.asarray(points.mean(axis=0)) ** 2
    labels: npt.NDArray[np.int64] | None = None
    for _ in range(max_iter):
        before, labels = labels, _nearest(points, centres)
        sizes = np.bincount(labels, minlength=k)
        if not sizes.all():
            return with_library(points, k, seed, max_iter=max_iter)
        moved = (points.T @ np.eye(k)[labels]).T / sizes[:, None]
        shift, centres = float(((moved - centres) ** 2).sum()), moved
        if before is not None and np.array_equal(labels, before):
            return labels
        if shift <= TOLERANCE * float(np.mean(variances)):
            break
    return _nearest(points, centres)


def with_library(points: Any, k: int, seed: int, *, max_iter: int) -> npt.NDArray[np.int64]:
    """The same by scikit-learn, for dense rows, too."""
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():  # few distinct rows are fine: fewer clusters start, EM grows the rest
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(k, n_init=1, max_iter=max_iter, random_state=seed).fit_predict(points)
    return np.asarray(found, dtype=np.int64)


def _nearest(points: Any, centres: FloatArray) -> npt.NDArray[np.int64]:
    """Nearest centre of every row, (n,): argmin |c|² − 2 x·c."""
    lengths = np.einsum("km,km->k", centres, centres)  # summed as the reference does: rows far from all centres tie
    return np.asarray((lengths - 2.0 * (points @ centres.T)).argmin(axis=1), dtype=np.int64)


def _first_centres(points: Any, norms: FloatArray, k: int, generator: np.random.RandomState) -> FloatArray:
    """K rows, (k, m): each the best of a few that are drawn in proportion to their distance from those before."""
    n = points.shape[0]

    def distances(rows: FloatArray) -> FloatArray:
        return np.asarray(
            np.maximum(np.einsum("km,km->k", rows, rows)[:, None] - 2.0 * (points @ rows.T).T + norms, 0.0)
        )

    chosen = [int(generator.choice(n, p=np.full(n, 1.0 / n)))]
    closest = distances(points[chosen].toarray())[0]
    for _ in range(1, k):
        drawn = generator.uniform(size=2 + int(np.log(k))) * closest.sum()
        candidates = np.minimum(np.searchsorted(np.cumsum(closest), drawn), n - 1)
        each = np.minimum(closest, distances(points[candidates].toarray()))
        best = int(each.sum(axis=1).argmin())
        chosen.append(int(candidates[best]))
        closest = each[best]
    return np.asarray(points[chosen].toarray(), dtype=np.float64)
