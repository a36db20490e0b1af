"""Arrays that were read from a file, checked before anything is computed with them.

A checksum says that a file is as it was written. That an index lies where compiled code will look it up, that a number
is one and that probabilities sum to one is checked here, whoever wrote the file.
"""

from __future__ import annotations

import struct
import tokenize
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from prism_irl.errors import InputError

AnyArray = TypeVar("AnyArray", bound=npt.NDArray[Any])

BROKEN = (
    *(OSError, ValueError, EOFError, LookupError, RuntimeError, SyntaxError, TypeError, ArithmeticError, MemoryError),
    *(AttributeError, struct.error, tokenize.TokenError),
)
"""What libraries raise when bytes are not what they say: about a file, never about a computation of ours."""
ROUNDING = 1e-5
"""How far from one a sum of probabilities may be: float32 tables of many entries."""


def finite(name: str, values: npt.NDArray[Any], *, lowest: bool = False) -> None:
    """Refuse NaN and infinities; with ``lowest``, −inf is a value: that of an action that does not exist."""
    fine = np.isfinite(values) | (values == -np.inf) if lowest else np.isfinite(values)
    if not fine.all():
        raise InputError(f"The saved {name} are not finite; restore the file or fit again.")


def distributions(name: str, values: npt.NDArray[Any], what: str = "saved") -> None:
    """Refuse what is not a probability distribution along the last axis, (…, n)."""
    total = values.sum(axis=-1)
    if not ((values >= 0).all() and (np.abs(total - 1) <= ROUNDING).all()):
        raise InputError(f"The {what} {name} are not probabilities that sum to one; restore the file or fit again.")


def ids(name: str, values: npt.NDArray[Any], limit: int) -> None:
    """Refuse what is not an integer from 0 to ``limit`` − 1."""
    if values.dtype.kind not in "iu" or (values.size and (values.min() < 0 or values.max() >= limit)):
        raise InputError(f"The saved {name} are out of range; restore the file or fit again.")


def text(name: str, values: npt.NDArray[Any]) -> None:
    """Refuse text, (…,) of numpy's U, that holds numbers which are no characters: nobody could write it down."""
    if not values.dtype.itemsize:
        return
    points = np.ascontiguousarray(values).view(np.uint32 if values.dtype.isnative else values.dtype.str[0] + "u4")
    if ((points >= 0x110000) | ((points >= 0xD800) & (points < 0xE000))).any():
        raise InputError(f"The {name} hold text that is damaged; restore the file.")


def shape(name: str, values: npt.NDArray[Any], expected: tuple[int, ...]) -> None:
    """Refuse another shape."""
    if values.shape != expected:
        raise InputError(
            f"The saved {name} have shape {values.shape}, but this model needs {expected}; they belong to other data "
            "or other parameters."
        )


def frozen(array: AnyArray) -> AnyArray:
    """Make an array read-only that is shared by everybody who asks."""
    array.setflags(write=False)
    return array
