"""What happens around a step: values some steps before and after, and how much they vary, beside those of the step.

For labelling recordings as a whole. Windows look ahead, so that a density of them is no prediction: never compare it
with the likelihood of commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def standardised(values: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> FloatArray:
    """Mean zero and spread one within every trajectory, (n, d): where a recording was taken does not matter."""
    result = np.asarray(values, dtype=np.float64).copy()
    for part in _parts(result, offsets):
        spread = part.std(axis=0)
        part[:] = (part - part.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
    return result


def around(values: npt.NDArray[Any], offsets: npt.NDArray[Any], lags: Sequence[int]) -> FloatArray:
    """Values at every lag (negative: before), side by side, (n, d · lags); a trajectory's ends are repeated."""
    starts = np.repeat(offsets[:-1], np.diff(offsets))
    ends = np.repeat(offsets[1:], np.diff(offsets)) - 1
    steps = np.arange(len(values))
    return np.concatenate([np.asarray(values)[np.clip(steps + lag, starts, ends)] for lag in lags], axis=1)


def moving(values: npt.NDArray[Any], offsets: npt.NDArray[Any], width: int) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation over a centred window of an odd width, (n, d) each; ends are repeated."""
    from scipy.ndimage import uniform_filter1d

    mean, square = np.asarray(values, dtype=np.float64).copy(), np.asarray(values, dtype=np.float64) ** 2
    for filtered in (mean, square):
        for part in _parts(filtered, offsets):
            part[:] = uniform_filter1d(part, width, axis=0, mode="nearest")
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _parts(values: FloatArray, offsets: npt.NDArray[Any]) -> Iterator[FloatArray]:
    for a, b in pairwise(offsets):
        yield values[a:b]
