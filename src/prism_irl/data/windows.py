"""What happens around a step: values some steps before and after, and how much they vary, beside those of the step.

For labelling recordings as a whole (`rewards.windows`). Windows look ahead, so that a density of them is no prediction:
never compare it with the likelihood of commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError

FloatArray = npt.NDArray[np.float64]
LAGS = (0.0, -1.0, -0.5, -0.25, 0.25, 0.5, 1.0)
"""Where in a window values are read, as shares of what it reaches each way."""
SPREADS = (0.5, 1.0)
"""Widths over which their spread is taken, as shares of the same."""
SMOOTHED = 0.25
"""Width of the moving mean that is read, as a share of the same."""
DESCRIBED = len(LAGS) + len(SPREADS)
"""How many numbers a window makes of one."""


def in_steps(window: int | str, demos: Demonstrations, rate: float | None = None) -> int:
    """Steps that a window reaches each way, given as a number of steps or as a time such as ``0.5s``.

    ``rate`` is how many steps a second has; by default it is found from the times of the data, which are dates or
    seconds. Whole numbers may be frames, and are refused.
    """
    text = str(window).strip()
    seconds = _number(text[:-1]) if text.endswith("s") else None
    steps = _number(text)
    if isinstance(window, bool) or (seconds is None and (steps is None or steps != round(steps))):
        raise InputError(f"The window is {window!r}; give a number of steps such as 15, or a time such as 0.5s.")
    if seconds is not None:
        steps = max(round(seconds * (_rate(demos, text) if rate is None else rate)), 1) if seconds > 0 else 0
    assert steps is not None
    if not 1 <= steps <= int(demos.lengths.max()):
        raise InputError(
            f"A window of {steps:.0f} steps each way is no part of a trajectory; the longest has "
            f"{int(demos.lengths.max())} steps, so give a number from 1 to that."
        )
    return int(steps)


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if np.isfinite(found) else None


def _rate(demos: Demonstrations, text: str) -> float:
    """Steps per second, by the median time between two steps of a trajectory."""
    if demos.times is None:
        raise InputError(
            f"A window of {text} needs the time of every step; name its column with --time, say --hz, or give steps."
        )
    if demos.times.dtype.kind not in "fmM":
        raise InputError(
            f"A window of {text} needs times in seconds or dates, and those of the data are whole numbers, which may "
            "be frames; say how many a second has with --hz, or give a number of steps."
        )
    between = np.diff(demos.times)[~demos.first_steps[1:]]
    if demos.times.dtype.kind in "mM":
        between = between / np.timedelta64(1, "s")
    typical = float(np.median(between)) if len(between) else 0.0
    if not typical > 0:
        raise InputError(f"A window of {text} needs steps at different times; give a number of steps.")
    return 1.0 / typical


def described(values: npt.NDArray[Any], offsets: npt.NDArray[Any], steps: int) -> FloatArray:
    """Every step by what happens within ``steps`` before and after it, (n, d · DESCRIBED).

    Values (n, d) are standardised within their trajectory; then come their moving mean at some lags, and their spread
    over shorter and longer windows.
    """
    own = standardised(values, offsets)
    mean = moving(own, offsets, _odd(SMOOTHED * steps))[0]
    lags = [round(share * steps) for share in LAGS]
    spreads = [moving(own, offsets, _odd(share * steps))[1] for share in SPREADS]
    return np.concatenate([around(mean, offsets, lags), *spreads], axis=1)


def _odd(width: float) -> int:
    return 2 * (int(width) // 2) + 1


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
