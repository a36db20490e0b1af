"""Phases without intentions: the simple baselines that every claim about robot phases is shown beside.

Equal parts know nothing but time, k-means nothing of it; change points cut every episode by itself; hidden Markov
models with normal emissions, free or from left to right, are what libraries offer. `simple_labels` has them all.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.data.batching import Prepared
from prism_irl.data.continuous import signals
from prism_irl.data.demonstrations import Demonstrations, some_trajectories, steps_of
from prism_irl.data.mapped import chunks
from prism_irl.labels import ari, label_accuracy
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.segmental import borders

SAMPLE = 20_000
"""Steps that k-means looks at."""
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def k_means(n_phases: int, seed: int = 0) -> Any:
    """An unfitted pipeline that calls the cluster of a standardised vector its phase; the best of ten runs."""
    from sklearn.cluster import KMeans
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), KMeans(n_phases, n_init=10, random_state=seed))


def equal_parts(offsets: IntArray, n_phases: int) -> IntArray:
    """Labels (n,) of episodes that are cut into K parts of equal length."""
    return np.concatenate([np.arange(n) * n_phases // n for n in np.diff(offsets)]).astype(np.int64)


def change_points(vectors: FloatArray, offsets: IntArray, n_phases: int) -> IntArray:
    """Labels (n,) of episodes that are cut, each by itself, into the K parts that vary least, numbered in order.

    The exact cut by dynamic programming (Fisher 1958), on at most `segmental.borders` of 128 bins.
    """
    labels = np.empty(len(vectors), np.int64)
    for a, b in pairwise(offsets):
        edges = borders(int(b - a), 128)
        sums = np.concatenate([np.zeros((1, vectors.shape[1])), vectors[a:b].cumsum(0)])[edges]
        squares = np.concatenate([[0.0], (vectors[a:b] ** 2).sum(1).cumsum()])[edges]
        size = np.maximum(edges[None] - edges[:, None], 1)
        # |sum over a part|² by the products of sums, (B + 1, B + 1): from a row's border to a column's
        products = sums @ sums.T
        norms = np.diag(products)
        cost = squares[None] - squares[:, None] - (norms[None] + norms[:, None] - 2 * products) / size
        cost[np.tril_indices(len(edges))] = np.inf
        best, origin = cost[0], []
        for _ in range(min(n_phases, len(edges) - 1) - 1):
            total = best[:, None] + cost
            origin.append(total.argmin(0))
            best = total.min(0)
        cuts = [len(edges) - 1]
        for came_from in reversed(origin):
            cuts.append(int(came_from[cuts[-1]]))
        parts = edges[[0, *reversed(cuts)]] if len(cuts) else edges[[0, -1]]
        labels[a:b] = np.repeat(np.arange(len(parts) - 1), np.diff(parts))
    return labels


def gaussian_hmm(
    vectors: FloatArray,
    demos: Demonstrations,
    chain: MarkovChain,
    labels: IntArray,
) -> IntArray:
    """Labels (n,) of a hidden Markov model with normal emissions of diagonal covariance, from first labels (n,)."""
    data = Prepared.of(demos, demos.with_history(1))
    beliefs = np.eye(chain.n_intentions)[labels]
    for _ in range(20):
        total = beliefs.sum(0)[:, None] + 1e-9
        mean = beliefs.T @ vectors / total
        variance = np.maximum(beliefs.T @ vectors**2 / total - mean**2, 1e-2)
        distance = vectors**2 @ (1.0 / variance).T - 2.0 * vectors @ (mean / variance).T
        log_density = -0.5 * (distance + (mean**2 / variance + np.log(variance)).sum(1))
        posterior = chain.expectation(data, chain.reads(log_density), online=False)
        beliefs = posterior.responsibilities
        chain.update(chain.statistics(data, posterior))
    return chain.labels_of(beliefs, demos.offsets)


def _labels(fitted: Any, vectors: npt.ArrayLike) -> IntArray:
    """Phase of every vector, (n,), some at a time."""
    x = np.asarray(vectors)
    found = [fitted.predict(x[rows].astype(np.float64)) for rows in chunks(len(x), 2**16)]
    return np.concatenate(found).astype(np.int64)


def simple_labels(demos: Demonstrations, n_phases: int, seed: int = 0) -> dict[str, IntArray]:
    """What simple methods call every step of continuous demonstrations, (n,) each, by the name of the method."""
    from prism_irl.switching.ordered import OrderedChain

    found = {"equal parts": equal_parts(demos.offsets, n_phases)}
    steps = np.random.default_rng(seed).permutation(demos.n_steps)[:SAMPLE]
    for name, values in (("commands", demos.motions), ("observations", demos.observations)):
        if values is not None and len(np.unique(values[steps], axis=0)) > n_phases:
            found[f"k-means on {name}"] = _labels(k_means(n_phases, seed).fit(values[steps].astype(np.float64)), values)
    x = signals(demos)[0]
    spread = x.std(0)
    x = (x - x.mean(0)) / np.where(spread > 1e-9, spread, 1.0)
    found["change points"] = change_points(x, demos.offsets, n_phases)
    first = _labels(k_means(n_phases, seed).fit(x[steps]), x)
    found["Gaussian HMM"] = gaussian_hmm(x, demos, MarkovChain(n_phases), first)
    found["left-to-right HMM"] = gaussian_hmm(x, demos, OrderedChain(n_phases), found["equal parts"])
    return found


def phase_baselines(
    demos: Demonstrations, n_phases: int, labels: IntArray | None = None, seed: int = 0
) -> tuple[dict[str, dict[str, float]], pd.DataFrame | None]:
    """How simple labellings of continuous demonstrations compare, by name, and these; of large data, some episodes.

    ``agreement``: ARI with ``labels`` (n,), where given; ``label_accuracy`` after matching and ``ari`` with the truth,
    where it is known. Nothing where a step has no command, or where every step is the same.
    """
    if not demos.action_space.continuous or demos.observations is None or demos.n_steps <= n_phases:
        return {}, None
    kept = some_trajectories(demos, SAMPLE, seed)
    if len(kept) < len(demos):
        labels = None if labels is None else labels[steps_of(demos.offsets, kept)]
        demos = demos.subset(kept)
    found = {}
    simple = simple_labels(demos, n_phases, seed)
    names = [demos.name_of(i) for i in range(len(demos))]
    table = pd.DataFrame({"trajectory": np.repeat(names, demos.lengths), "step": demos.step_index} | simple)
    for name, own in simple.items():
        agree: dict[str, float] = {}
        if labels is not None:
            agree["agreement"] = float(ari(labels, own))
        if demos.labels is not None:
            agree |= {"label_accuracy": float(label_accuracy(demos.labels, own)), "ari": float(ari(demos.labels, own))}
        found[name] = agree
    return found, table
