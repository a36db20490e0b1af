"""What simulators share: seeded draws, and settings that make sense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_irl.errors import InputError


def generator(n_trajectories: int, seed: int | np.random.Generator) -> np.random.Generator:
    """The one source of randomness of a simulation, which has at least one trajectory."""
    if n_trajectories < 1:
        raise InputError(f"n_trajectories is {n_trajectories}; simulate at least 1.")
    return np.random.default_rng(seed)


def cumulative(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums that end at exactly one, so that rounding never draws an outcome of probability zero."""
    cdf: NDArray[np.float64] = probabilities.cumsum(axis=-1)
    cdf /= cdf[..., -1:].copy()
    return cdf


def draw(cdf: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw one outcome per row of (N, M) cumulative probabilities."""
    drawn: NDArray[np.int64] = (rng.random((len(cdf), 1)) < cdf).argmax(axis=1)
    return drawn


def check_settings(
    world: Any, *, counts: Sequence[str], probabilities: Sequence[str], not_negative: Sequence[str]
) -> None:
    """Refuse settings of a world that are out of range; its ``discount``, where it has one, lies from 0 to below 1."""
    for names, fits, what in (
        (counts, lambda value: value >= 1, "at least 1"),
        (probabilities, lambda value: 0 <= value <= 1, "a probability between 0 and 1"),
        (not_negative, lambda value: 0 <= value < np.inf, "a finite number that is not negative"),
        (("discount",), lambda value: 0 <= value < 1, "a number from 0 to below 1"),
    ):
        for name in (name for name in names if hasattr(world, name)):
            if not fits(getattr(world, name)):
                raise InputError(f"{name} is {getattr(world, name)}; give {what}.")
