"""Gaussian chains on standardised vectors: what experiments with robots are compared with."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.presets import FeaturePRISM

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def linear_design(features: npt.ArrayLike, n_dimensions: int) -> FloatArray:
    """Design of an ordinary linear policy, y = W x + b, (n, m, m·(d + 1)).

    Parameters
    ----------
    features : (n, d)
        Standardised here, so that one ridge fits all; a feature that never changes is left at zero.
    n_dimensions : int
        Dimensions m of the command.
    """
    x = np.asarray(features, dtype=np.float64)
    if x.ndim != 2:
        raise InputError(f"The features have shape {x.shape}; give one row per step.")
    spread = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
    x = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    design = np.einsum("ij,nd->nijd", np.eye(n_dimensions), x)
    return np.asarray(design.reshape(len(x), n_dimensions, -1))


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
