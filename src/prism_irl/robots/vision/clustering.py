"""k-means for any amount of data: scikit-learn on small data, torch in chunks from disk on a CPU or GPU; and codes.

Minimises the inertia Σ_i ‖x_i − c_{z_i}‖². Both paths start from greedy k-means++ and stop by the same rule, and
reach the same inertia within a few per cent (`benchmarks/clustering.py`). In chunks it is Lloyd's algorithm on squared
distances ‖x‖² − 2 x·c + ‖c‖², one matrix product per chunk; an empty cluster takes over half of the widest one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl.devices import resolve_device
from prism_irl.errors import InputError
from prism_irl.optional import need
from prism_irl.robots.vision.embeddings import Rows, Vectors, as_rows

Sums = tuple[Tensor, Tensor, Tensor]
"""Of one pass: sums of the members (k, m), their counts (k,) and their squared distances (k,)."""


def plus_plus(sample: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """First centroids by greedy k-means++: (k, m) rows of ``sample`` (n, m), far apart.

    Each new centroid is the best of 2 + log k candidates drawn in proportion to the squared distance from those
    already chosen.
    """
    n, device = len(sample), sample.device
    trials = 2 + int(math.log(k))
    norms = (sample * sample).sum(1)
    # Buffers are made once: thousands of rounds of fresh ones would leave the heap in gigabytes of pieces.
    picked = torch.empty(k, dtype=torch.int64, device=device)
    reached = torch.empty(trials, n, dtype=sample.dtype, device=device)
    nearest = torch.full((n,), float("inf"), dtype=sample.dtype, device=device)
    mass = torch.empty(n, dtype=torch.float64, device=device)
    candidates = torch.randint(n, (trials,), generator=generator).to(device)
    for i in range(k):
        torch.mm(sample[candidates], sample.T, out=reached)
        reached.mul_(-2).add_(norms).add_(norms[candidates][:, None]).clamp_(min=0)
        torch.minimum(reached, nearest, out=reached)
        best = reached.sum(1).argmin() if i else torch.zeros((), dtype=torch.int64, device=device)
        picked[i] = candidates[best]
        nearest.copy_(reached[best])
        torch.cumsum(nearest, 0, dtype=torch.float64, out=mass)
        draws = torch.rand(trials, generator=generator, dtype=torch.float64).to(device)
        candidates = torch.searchsorted(mass, draws * mass[-1]).clamp_(max=n - 1)
    return sample[picked].clone()


def assign(chunk: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """Nearest centroid of each row and the squared distance to it, (n,) and (n,)."""
    scores = torch.addmm((centroids * centroids).sum(1)[None], chunk, centroids.T, alpha=-2)
    best, labels = scores.min(1)
    return labels, (best + (chunk * chunk).sum(1)).clamp_(min=0)


def lloyd_step(chunks: Iterable[Tensor], centroids: Tensor) -> Sums:
    """One pass over the data, summed in float64 where it matters."""
    k, m = centroids.shape
    sums = torch.zeros(k, m, dtype=torch.float64, device=centroids.device)
    counts = torch.zeros(k, dtype=torch.float64, device=centroids.device)
    squares = torch.zeros(k, dtype=torch.float64, device=centroids.device)
    for chunk in chunks:
        chunk = chunk.to(centroids.device, non_blocking=True)
        labels, distances = assign(chunk, centroids)
        partial = torch.zeros(k, m, dtype=chunk.dtype, device=chunk.device).index_add_(0, labels, chunk)
        sums += partial
        counts += torch.bincount(labels, minlength=k)
        squares.index_add_(0, labels, distances.double())
    return sums, counts, squares


def update(sums: Tensor, counts: Tensor, squares: Tensor, old: Tensor) -> Tensor:
    """New centroids, (k, m): means, and for each empty cluster one half of the cluster with most squares left.

    The halves are the mean moved by a small step in a fixed direction and against it, so that nothing is drawn at
    random and the total can only fall from there.
    """
    new = torch.where(counts[:, None] > 0, sums / counts.clamp(min=1)[:, None], old.double())
    left = torch.where(counts > 1, squares.clone(), torch.zeros_like(squares))
    for empty in torch.nonzero(counts == 0).ravel().tolist():
        widest = int(left.argmax())
        if left[widest] <= 0:
            break  # fewer different rows than clusters
        spread = (left[widest] / counts[widest].clamp(min=1) / new.shape[1]).sqrt()
        direction = torch.ones(new.shape[1], dtype=new.dtype, device=new.device)
        direction[1::2] = -1
        new[empty] = new[widest] + 0.1 * spread * direction
        new[widest] = new[widest] - 0.1 * spread * direction
        left[widest] /= 2
        left[empty] = 0
    return new.to(old.dtype)


def lloyd(
    step: Callable[[Tensor], Sums], centroids: Tensor, *, max_iterations: int, tolerance: float
) -> tuple[Tensor, int]:
    """Iterate until the inertia falls by less than ``tolerance`` (relative); returns centroids and iterations.

    ``step`` makes one pass over the data with the given centroids, as `lloyd_step` does.
    """
    last, iterations = float("inf"), 0
    while iterations < max_iterations:
        iterations += 1
        sums, counts, squares = step(centroids)
        inertia = float(squares.sum())
        empty = bool((counts == 0).any()) and inertia > 0
        centroids = update(sums, counts, squares, centroids)
        if not empty and last - inertia <= tolerance * inertia:
            break
        last = inertia
    return centroids, iterations


Backend = Literal["auto", "sklearn", "torch"]
SMALL = 20_000_000
"""Numbers (rows × dimensions) up to which scikit-learn does the work in memory."""
CHUNK = 16384


class Clusters(NamedTuple):
    """What `kmeans` found: means (k, m), Σ of squared distances to them, passes, and which path did the work."""

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
    """Cluster the rows of an (n, m) array, of an npy file or of `Rows`; files are read in chunks and never held.

    Parameters
    ----------
    backend : str
        "sklearn" (in memory), "torch" (streams, GPU or CPU); "auto" takes torch on large data.
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
    if backend not in ("auto", "sklearn", "torch"):
        raise InputError(f"There is no clustering backend {backend!r}; choose auto, sklearn or torch.")
    if backend == "sklearn" or (backend == "auto" and n * m <= SMALL):
        return _sklearn(rows, k, seed, max_iterations, tolerance)
    where = torch.device(resolve_device(device))
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

    sweep = passes(training, "clustering", max_iterations)
    centroids, iterations = lloyd(
        lambda means: lloyd_step(sweep(), means), centroids, max_iterations=max_iterations, tolerance=tolerance
    )
    if training is not rows:
        centroids = update(*lloyd_step(passes(rows, "all rows", 1)(), centroids), centroids)
    squares = lloyd_step(passes(rows, "inertia", 1)(), centroids)[2]
    return Clusters(centroids.cpu().numpy(), float(squares.sum()), iterations, "torch")


def nearest(source: Any, centroids: Vectors, *, device: str = "cpu") -> npt.NDArray[np.int64]:
    """Index of the nearest centroid of every row, (n,), in chunks."""
    rows = as_rows(source)
    if rows.shape[1] != centroids.shape[1]:
        raise InputError(f"Vectors have {rows.shape[1]} dimensions and the centroids {centroids.shape[1]}.")
    where = resolve_device(device)
    means = torch.from_numpy(np.array(centroids)).to(where)
    labels = [assign(_tensor(c).to(where), means)[0].cpu().numpy() for c in rows.chunks(CHUNK)]
    return np.concatenate(labels).astype(np.int64)


def inertia(source: Any, centroids: Vectors) -> float:
    """Σ of squared distances of all rows to their nearest centroid."""
    means = torch.from_numpy(np.array(centroids))
    chunks = (_tensor(chunk) for chunk in as_rows(source).chunks(CHUNK))
    return sum(float(assign(chunk, means)[1].double().sum()) for chunk in chunks)


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
    return plus_plus(torch.from_numpy(rows.take(index)).to(device), k, draws)


def _tensor(chunk: Vectors) -> Tensor:
    return torch.from_numpy(chunk if chunk.flags.writeable else chunk.copy())


def learned_codebook(
    rows: Rows,
    k: int,
    epochs: int,
    *,
    seed: int,
    device: str = "auto",
    on_progress: Callable[[str, int, int], None] | None = None,
) -> tuple[Vectors, float]:
    """``k`` codes (k, m) by vector quantisation with exponential averages (the extra ``robots``), and their inertia.

    Chunks pull the code that is nearest to their rows, c ← 0.9 c + 0.1 mean(members), and codes that nobody uses are
    replaced by rows. Second choice after k-means: it adapts to data that does not end.
    """
    module = need("vector_quantize_pytorch", "robots")
    n, m = rows.shape
    where = resolve_device(device)
    batch = min(n, max(8192, 4 * k))
    with torch.random.fork_rng(devices=[] if where == "cpu" else [where]):
        torch.manual_seed(seed)
        layer = module.VectorQuantize(
            dim=m, codebook_size=k, decay=0.9, kmeans_init=True, kmeans_iters=10, threshold_ema_dead_code=1
        ).to(where)
        layer.train()
        for epoch in range(epochs):
            done = 0
            for chunk in rows.chunks(batch):
                order = torch.randperm(len(chunk))
                if epoch == 0 and done == 0 and len(chunk) < k:
                    raise InputError(f"The first part of the data has {len(chunk)} rows, fewer than {k} codes.")
                with torch.no_grad():
                    layer(torch.from_numpy(np.array(chunk))[order].to(where)[None])
                done += len(chunk)
                if on_progress is not None:
                    on_progress("learning codes", epoch * n + done, epochs * n)
    codes = layer.codebook.detach().cpu().numpy().reshape(k, m).astype(np.float32)
    return codes, inertia(rows, codes)
