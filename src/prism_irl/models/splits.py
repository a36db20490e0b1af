"""Validation trajectories, taken from the training data: what starts, stopping and histories are chosen on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError


def validation_split(demos: Demonstrations, fraction: float, seed: int) -> tuple[Demonstrations, Demonstrations | None]:
    """Return (train, validation) trajectories; the end of the trajectory where there is only one.

    There is no validation part when ``fraction`` is 0 or when there is a single step.
    """
    if fraction <= 0 or demos.n_steps < 2:
        return demos, None
    if len(demos) > 1:
        validation, train = demos.split(fraction, seed=seed)
        return train, validation
    cut = demos.n_steps - min(max(round(fraction * demos.n_steps), 1), demos.n_steps - 1)
    halves = replace(demos, offsets=np.array([0, cut, demos.n_steps]), groups=None, trajectory_names=None)
    return halves.subset([0]), halves.subset([1])


def check_fraction(fraction: float) -> None:
    """Raise an error unless the validation fraction lies in [0, 1)."""
    if not 0 <= fraction < 1:
        raise InputError(f"validation_fraction must lie in [0, 1), not {fraction}.")
