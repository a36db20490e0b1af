"""k-means for codebooks: scikit-learn's, on all rows where they are few, else in mini-batches on a sample of them.

Minimises the inertia Σ_i ‖x_i − c_{z_i}‖². Rows of files are read in chunks and never held, but for the sample.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.data import continuous
from prism_irl.errors import InputError
from prism_irl.robots.vision.embeddings import Vectors, as_rows

SMALL = 20_000_000
"""Numbers (rows × dimensions) up to which all rows are clustered at once."""
CHUNK = 16384


class Clusters(NamedTuple):
    """What `kmeans` found: means (k, m) and the sum of squared distances of all rows to them."""

    centroids: Vectors
    inertia: float


def kmeans(
    source: Any,
    k: int,
    *,
    seed: int = 0,
    max_iterations: int = 25,
    rows_per_cluster: int = 256,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Clusters:
    """Cluster the rows of an (n, m) array, of an npy file or of `Rows`.

    Parameters
    ----------
    max_iterations : int
        Stop after so many passes.
    rows_per_cluster : int
        Of large data at most so many random rows per cluster are read: centroids hardly move beyond 256.
    on_progress : function, optional
        Called with what is being done, rows done and rows to do.
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    rows = as_rows(source)
    n, m = rows.shape
    if not 1 <= k <= n:
        raise InputError(f"Cannot make {k} clusters of {n} rows; choose between 1 and {n}.")
    report, few = on_progress or (lambda what, done, total: None), n * m <= SMALL
    kept = np.arange(n)
    if not few and n > rows_per_cluster * k:
        kept = np.sort(np.random.default_rng(seed).choice(n, size=rows_per_cluster * k, replace=False))
    options = {"n_init": 1, "max_iter": max_iterations, "tol": 1e-4, "random_state": seed}
    model = KMeans(k, **options) if few else MiniBatchKMeans(k, batch_size=CHUNK, **options)
    report("clustering", 0, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters: they stay empty
        model.fit(rows.take(kept))
    centroids, inertia, done = model.cluster_centers_.astype(np.float32), 0.0, 0
    if few:
        return Clusters(centroids, float(model.inertia_))
    for chunk in rows.chunks(CHUNK):
        inertia += float(((chunk - centroids[continuous.nearest(chunk, centroids)]) ** 2).sum(dtype=np.float64))
        done += len(chunk)
        report("inertia", done, n)
    return Clusters(centroids, inertia)


def nearest(source: Any, centroids: Vectors) -> npt.NDArray[np.int64]:
    """Index of the nearest centroid of every row, (n,), in chunks."""
    rows = as_rows(source)
    if rows.shape[1] != centroids.shape[1]:
        raise InputError(f"Vectors have {rows.shape[1]} dimensions and the centroids {centroids.shape[1]}.")
    return np.concatenate([continuous.nearest(chunk, centroids) for chunk in rows.chunks(CHUNK)])
