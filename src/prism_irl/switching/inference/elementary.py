"""Exponentials and logarithms as loops that the compiler vectorises, which calls of libm would prevent."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

Array = np.ndarray[Any, Any]
UINT = np.uint64  # an index that cannot be negative need not be checked for it, in every access
LOG2_E, LN2, LN2_REST = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
"""1 / ln 2, the leading 32 bits of ln 2, and what is left of it: their products with whole numbers are exact."""
TINY = 1e-280  # below this a probability has lost its digits: the caller falls back to log space
LOWEST = -708.0  # exponentials below are zero, before they lose digits
EXPONENT = 1023  # of 1.0
WHOLE = 1.5 * 2.0**52  # added to a small number, leaves the nearest whole number in the low bits
WHOLE_BITS = int(np.float64(WHOLE).view(np.int64))
ROOT_HALF_BITS = int(np.sqrt(0.5).view(np.int64))


def _reinterpreted(given: Any, wanted: Any) -> Any:
    """The same 64 bits as another type, in the register where they are."""

    def typed(context: Any, x: Any) -> Any:
        return wanted(given), lambda target, builder, signature, arguments: builder.bitcast(
            arguments[0], target.get_value_type(wanted)
        )

    return intrinsic(typed)


_bits, _float = _reinterpreted(types.float64, types.int64), _reinterpreted(types.int64, types.float64)


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz"})
def exponentials(x: Array, start: int, stop: int) -> None:
    """Replace x[start:stop], up to 709, by exponentials, to 2e-16.

    exp(x) = 2^k exp(r) with |r| ≤ ln 2 / 2, and Taylor's series of exp(r).
    """
    for i in range(start, stop):
        given = x[UINT(i)]
        v = given if given > LOWEST else LOWEST
        shifted = v * LOG2_E + WHOLE
        k = shifted - WHOLE
        r = (v - k * LN2) - k * LN2_REST
        p = 1.0 / 39916800 + r * (1.0 / 479001600)
        p = 1.0 / 40320 + r * (1.0 / 362880 + r * (1.0 / 3628800 + r * p))
        p = 1.0 / 24 + r * (1.0 / 120 + r * (1.0 / 720 + r * (1.0 / 5040 + r * p)))
        p = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6 + r * p)))
        power = _float((_bits(shifted) + EXPONENT) << 52)  # 2^k
        x[UINT(i)] = p * power if given > LOWEST else 0.0


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "nsz"})
def logarithms(x: Array, start: int, stop: int) -> None:
    """Replace x[start:stop] > 0 by logarithms.

    x = 2^k y with 1/√2 ≤ y < √2, and log y = 2 artanh f with f = (y − 1) / (y + 1).
    """
    for i in range(start, stop):
        bits = _bits(x[UINT(i)])
        whole = (bits - ROOT_HALF_BITS) >> 52
        y, k = _float(bits - (whole << 52)), _float(whole + WHOLE_BITS) - WHOLE
        f = (y - 1.0) / (y + 1.0)
        s = f * f
        p = 1.0 / 17 + s * (1.0 / 19 + s * (1.0 / 21))
        p = 1.0 / 9 + s * (1.0 / 11 + s * (1.0 / 13 + s * (1.0 / 15 + s * p)))
        p = s * (1.0 / 3 + s * (1.0 / 5 + s * (1.0 / 7 + s * p)))
        x[UINT(i)] = k * LN2 + (2.0 * (f + f * p) + k * LN2_REST)
