"""k-means for any amount of data: scikit-learn on small data, faiss on large data read from disk, torch on a GPU.

Minimises the inertia Σ_i ‖x_i − c_{z_i}‖². The three paths start from greedy k-means++ and stop by the same rule, and
reach the same inertia within a few per cent (`benchmarks/clustering.py`). Seeded; an empty cluster takes over half of
the widest one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl.devices import resolve_device
from prism_irl.errors import InputError
from prism_irl.optional import need
from prism_irl.robots.vision import torch_kmeans
from prism_irl.robots.vision.rows import Rows, Vectors, as_rows

Backend = Literal["auto", "sklearn", "faiss", "torch"]
SMALL = 20_000_000
"""Numbers (rows × dimensions) up to which scikit-learn does the work in memory."""
CHUNK = 16384


@dataclass(frozen=True, eq=False)
class Clusters:
    """What `kmeans` found.

    Parameters
    ----------
    centroids : (k, m) float32
        Means of the clusters.
    inertia : float
        Σ of squared distances of all rows to their centroid.
    iterations : int
        Passes of Lloyd's algorithm.
    backend : str
        Which path did the work.
    """

    centroids: Vectors
    inertia: float
    iterations: int
    backend: str


def kmeans(
    source: Any,
    k: int,
    *,
    backend: Backend = "auto",
    seed: int = 0,
    max_iterations: int = 25,
    tolerance: float = 1e-4,
    rows_per_cluster: int | None = 256,
    device: str = "auto",
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Clusters:
    """Cluster the rows of an array, of npy files or of any `Rows`.

    Parameters
    ----------
    source : (n, m) array, path or Rows
        What to cluster; files are read in chunks and never held.
    k : int
        Number of clusters.
    backend : str
        "sklearn" (in memory), "faiss" (streams from disk, CPU), "torch" (streams, GPU or CPU); "auto" takes torch where
        ``device`` is a GPU, else scikit-learn on small data and faiss on large.
    seed : int
        Same seed, same machine, same clusters.
    max_iterations, tolerance
        Stop after so many passes, or when the inertia falls by less than this share.
    rows_per_cluster : int, optional
        Iterate on at most so many random rows per cluster, which are held in memory, and finish with one pass over
        everything: centroids hardly move beyond 256. None iterates over all rows.
    device : str
        "auto", "cpu" or "cuda", for torch.
    on_progress : function, optional
        Called with what is being done, rows done and rows to do.
    """
    rows = as_rows(source)
    n, m = rows.shape
    if not 1 <= k <= n:
        raise InputError(f"Cannot make {k} clusters of {n} rows; choose between 1 and {n}.")
    chosen = _choose(backend, n * m, device)
    if chosen == "sklearn":
        return _sklearn(rows, k, seed, max_iterations, tolerance)
    where = torch.device(resolve_device(device) if chosen == "torch" else "cpu")
    generator = np.random.default_rng(seed)
    training = rows
    if rows_per_cluster is not None and n > rows_per_cluster * k:
        index = np.sort(generator.choice(n, size=rows_per_cluster * k, replace=False))
        training = as_rows(rows.take(index))
    report = on_progress or (lambda what, done, total: None)
    centroids = _first_centroids(training, k, generator, where)

    def passes(data: Rows, label: str, iterations: int) -> Callable[[], Iterator[Tensor]]:
        done, total = [0], data.shape[0] * iterations

        def one_pass() -> Iterator[Tensor]:
            for chunk in data.chunks(CHUNK):
                yield _tensor(chunk)
                done[0] += len(chunk)
                report(label, done[0], total)

        return one_pass

    step = torch_kmeans.lloyd_step if chosen == "torch" else _faiss_step
    sweep = passes(training, "clustering", max_iterations)
    centroids, iterations = torch_kmeans.lloyd(
        lambda means: step(sweep(), means), centroids, max_iterations=max_iterations, tolerance=tolerance
    )
    if training is not rows:
        centroids = torch_kmeans.update(*step(passes(rows, "all rows", 1)(), centroids), centroids)
    squares = step(passes(rows, "inertia", 1)(), centroids)[2]
    return Clusters(centroids.cpu().numpy(), float(squares.sum()), iterations, chosen)


def nearest(source: Any, centroids: Vectors, *, device: str = "cpu") -> npt.NDArray[np.int64]:
    """Index of the nearest centroid of every row, (n,), in chunks."""
    rows = as_rows(source)
    if rows.shape[1] != centroids.shape[1]:
        raise InputError(f"Vectors have {rows.shape[1]} dimensions and the centroids {centroids.shape[1]}.")
    where = resolve_device(device)
    means = torch.from_numpy(np.array(centroids)).to(where)
    labels = [torch_kmeans.assign(_tensor(c).to(where), means)[0].cpu().numpy() for c in rows.chunks(CHUNK)]
    return np.concatenate(labels).astype(np.int64)


def inertia(source: Any, centroids: Vectors) -> float:
    """Σ of squared distances of all rows to their nearest centroid."""
    means = torch.from_numpy(np.array(centroids))
    chunks = (_tensor(chunk) for chunk in as_rows(source).chunks(CHUNK))
    return sum(float(torch_kmeans.assign(chunk, means)[1].double().sum()) for chunk in chunks)


def _choose(backend: str, numbers: int, device: str) -> str:
    if backend not in ("auto", "sklearn", "faiss", "torch"):
        raise InputError(f"There is no clustering backend {backend!r}; choose auto, sklearn, faiss or torch.")
    if backend != "auto":
        return backend
    if numbers <= SMALL:
        return "sklearn"
    return "faiss" if resolve_device(device) == "cpu" else "torch"


def _sklearn(rows: Rows, k: int, seed: int, max_iterations: int, tolerance: float) -> Clusters:
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    data = np.concatenate(list(rows.chunks(CHUNK)))
    model = KMeans(k, n_init=1, max_iter=max_iterations, tol=tolerance, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters: they stay empty
        model.fit(data)
    return Clusters(model.cluster_centers_.astype(np.float32), float(model.inertia_), int(model.n_iter_), "sklearn")


def _first_centroids(rows: Rows, k: int, generator: np.random.Generator, device: torch.device) -> Tensor:
    """Greedy k-means++ on 64 rows per cluster."""
    n = rows.shape[0]
    index = np.sort(generator.choice(n, size=min(n, max(64 * k, 10_000)), replace=False))
    draws = torch.Generator().manual_seed(int(generator.integers(1 << 62)))
    return torch_kmeans.plus_plus(torch.from_numpy(rows.take(index)).to(device), k, draws)


def _faiss_step(chunks: Iterable[Tensor], centroids: Tensor) -> torch_kmeans.Sums:
    """One pass with faiss's exact search; sums by a sparse product, which has no loop over rows."""
    from scipy import sparse

    faiss = need("faiss", "robots")
    k, m = centroids.shape
    index = faiss.IndexFlatL2(m)
    index.add(centroids.contiguous().numpy())
    sums, counts, squares = np.zeros((k, m)), np.zeros(k), np.zeros(k)
    for chunk in (part.numpy() for part in chunks):
        distances, found = index.search(chunk, 1)
        labels, distances = found[:, 0], np.maximum(distances[:, 0].astype(np.float64), 0)
        n = len(chunk)
        members = sparse.csr_array((np.ones(n, np.float32), labels, np.arange(n + 1)), shape=(n, k))
        sums += members.T @ chunk
        counts += np.bincount(labels, minlength=k)
        squares += np.bincount(labels, weights=distances, minlength=k)
    return torch.from_numpy(sums), torch.from_numpy(counts), torch.from_numpy(squares)


def _tensor(chunk: Vectors) -> Tensor:
    return torch.from_numpy(chunk if chunk.flags.writeable else chunk.copy())
