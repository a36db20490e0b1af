"""k-means in chunks on a GPU or CPU, with torch and NumPy alone.

Lloyd's algorithm on squared distances ‖x − c‖² = ‖x‖² − 2 x·c + ‖c‖², one matrix product per chunk. This file imports
nothing else of the package, so that it can be carried to a machine that has only torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

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
