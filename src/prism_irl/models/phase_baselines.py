"""Phases without intentions: the simple baselines that every claim about robot phases is shown beside.

K-means on what is seen or done at each step knows nothing of time; its phases are what a segmentation by intentions
must beat. The other baselines, Gaussian chains on commands, are `FeaturePRISM` with a constant per intention and
dimension (`gaussian_chain`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.mapped import chunks
from prism_irl.data.units import linear_design
from prism_irl.errors import InputError
from prism_irl.labels import ari, label_accuracy
from prism_irl.models.features import FeaturePRISM

SAMPLE = 20_000
"""Steps that k-means looks at."""
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class KMeansPhases:
    """Phase of a step = cluster of its vector, standardised; best of ten k-means runs by inertia.

    Parameters
    ----------
    n_phases : int
    seed : int
    """

    def __init__(self, n_phases: int = 5, *, seed: int = 0) -> None:
        self.n_phases, self.seed = n_phases, seed

    def fit(self, vectors: npt.ArrayLike) -> Self:
        """Cluster vectors (n, d)."""
        from sklearn.cluster import KMeans

        x = np.asarray(vectors, dtype=np.float64)
        if x.ndim != 2 or len(x) < self.n_phases:
            raise InputError(f"Cannot cut vectors of shape {x.shape} into {self.n_phases} phases; give (n, d), n ≥ K.")
        self.mean_, spread = x.mean(axis=0), x.std(axis=0)
        self.scale_ = np.where(spread > 1e-9, spread, 1.0)
        self.clusters_ = KMeans(self.n_phases, n_init=10, random_state=self.seed).fit((x - self.mean_) / self.scale_)
        return self

    def predict(self, vectors: npt.ArrayLike) -> IntArray:
        """Cluster of every vector, (n,)."""
        x, found = np.asarray(vectors), []
        for rows in chunks(len(x), 2**16):
            found.append(self.clusters_.predict((x[rows].astype(np.float64) - self.mean_) / self.scale_))
        return np.concatenate(found).astype(np.int64)


def phase_baselines(demos: Demonstrations, n_phases: int, seed: int = 0) -> dict[str, dict[str, float]]:
    """Accuracy after matching, and ARI, of k-means on commands and on observations, where true phases are known.

    Centres come from at most `SAMPLE` steps, the labels are of all. Nothing where a step has no command or no truth.
    """
    if not demos.action_space.continuous or demos.labels is None:
        return {}
    steps = np.random.default_rng(seed).permutation(demos.n_steps)[:SAMPLE]
    found = {}
    for name, values in (("commands", demos.motions), ("observations", demos.observations)):
        if values is not None and len(np.unique(values[steps], axis=0)) > n_phases:
            labels = KMeansPhases(n_phases, seed=seed).fit(values[steps]).predict(values)
            agree = {"label_accuracy": label_accuracy(demos.labels, labels), "ari": ari(demos.labels, labels)}
            found[f"k-means on {name}"] = {key: float(value) for key, value in agree.items()}
    return found


def chain_data(demos: Demonstrations, vectors: npt.ArrayLike) -> Demonstrations:
    """Demonstrations whose commands are standardised vectors (n, d), with nothing to depend on but the intention."""
    x = np.asarray(vectors, dtype=np.float64)
    spread = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
    return demos.with_commands(x, linear_design(np.zeros((len(x), 0)), x.shape[1]))


def gaussian_chain(n_phases: int = 5, **options: Any) -> FeaturePRISM:
    """Hidden Markov model with Gaussian emissions, for `chain_data`."""
    return FeaturePRISM(n_phases, policies="gaussian", switching="markov", **options)


def smoothed(vectors: npt.ArrayLike, offsets: IntArray, width: int) -> FloatArray:
    """Running mean over ``width`` steps (an odd number), within each trajectory, (n, d)."""
    if width < 1 or width % 2 == 0:
        raise InputError(f"The running mean is {width} steps wide; give an odd number.")
    x = np.asarray(vectors, dtype=np.float64)
    result = np.empty_like(x)
    half = width // 2
    for start, end in pairwise(offsets):
        sums = np.concatenate([np.zeros((1, x.shape[1])), x[start:end].cumsum(axis=0)])
        position = np.arange(end - start)
        low, high = np.maximum(position - half, 0), np.minimum(position + half + 1, end - start)
        result[start:end] = (sums[high] - sums[low]) / (high - low)[:, None]
    return result
