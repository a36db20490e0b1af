"""The steps that the compiled time loops of `switching.recurrence.fused_kernels` share, of four trajectories each.

The innermost loops run along a contiguous row of hidden units, where the compiler vectorises. Inputs of a step are rows
gathered from projected tables, z_t = P_1[i_1] + P_2[i_2] + P_3[i_3] + x_t; a part that is not there has no rows.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = np.ndarray[Any, Any]
Number = Any  # single precision; a Python float would make the compiler compute in double
# A division that may raise, as in Python, would keep loops from being vectorised: hence error_model="numpy".
ROWS = 4  # trajectories that share one pass over the weights; enough for arithmetic, not memory, to be the limit


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def tanh(x: Number) -> Number:
    """Rational minimax approximation, relative error 3e-7 in single precision; libm's tanh would not vectorise."""
    x = np.float32(-8.3) if x < np.float32(-8.3) else x  # min and max would not, either
    x = np.float32(8.3) if x > np.float32(8.3) else x
    y = x * x
    p = np.float32(2.1508547e-05) + y * np.float32(1.46483239e-08)
    p = np.float32(0.999999991) + y * (np.float32(0.134258733) + y * (np.float32(0.00354917245) + y * p))
    q = np.float32(0.000337395573) + y * np.float32(8.29513639e-07)
    q = np.float32(1.0) + y * (np.float32(0.467591982) + y * (np.float32(0.0260799625) + y * q))
    return x * p / q


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def sigmoid(x: Number) -> Number:
    """σ(x) = (1 + tanh(x / 2)) / 2."""
    return np.float32(0.5) + np.float32(0.5) * tanh(np.float32(0.5) * x)


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def accumulate(x: Array, W: Array, out: Array) -> None:
    """Add x @ W to out for four rows at once; x (4, M), W (M, N), out (4, N), M a multiple of four."""
    for block in range(W.shape[0] // 4):
        i = 4 * block
        a0, a1, a2, a3 = x[0, i], x[0, i + 1], x[0, i + 2], x[0, i + 3]
        b0, b1, b2, b3 = x[1, i], x[1, i + 1], x[1, i + 2], x[1, i + 3]
        c0, c1, c2, c3 = x[2, i], x[2, i + 1], x[2, i + 2], x[2, i + 3]
        d0, d1, d2, d3 = x[3, i], x[3, i + 1], x[3, i + 2], x[3, i + 3]
        for j in range(W.shape[1]):
            w0, w1, w2, w3 = W[i, j], W[i + 1, j], W[i + 2, j], W[i + 3, j]
            out[0, j] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3
            out[1, j] += b0 * w0 + b1 * w1 + b2 * w2 + b3 * w3
            out[2, j] += c0 * w0 + c1 * w1 + c2 * w2 + c3 * w3
            out[3, j] += d0 * w0 + d1 * w1 + d2 * w2 + d3 * w3


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def add_row(out: Array, row: Array) -> None:
    """Add one row to another."""
    for j in range(row.shape[0]):
        out[j] += row[j]


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def fill(out: Array, value: Number) -> None:
    """Set every entry of a matrix."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = value


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def gather(z: Array, first: Any, t: int, inputs: Any) -> None:
    """Inputs (i_1, i_2, i_3, P_1, P_2, P_3, x) at one step; a block that is not full repeats its last trajectory."""
    i1, i2, i3, P1, P2, P3, x = inputs
    last = i1.shape[0] - 1
    fill(z, np.float32(0.0))
    for r in range(ROWS):
        b = min(first + r, last)
        if P1.shape[0]:
            add_row(z[r], P1[i1[b, t]])
        if P2.shape[0]:
            add_row(z[r], P2[i2[b, t]])
        if P3.shape[0]:
            add_row(z[r], P3[i3[b, t]])
        if x.shape[0]:
            add_row(z[r], x[b, t])


@numba.njit(cache=True)
def longest(lengths: Array, first: Any) -> int:
    """Steps of the longest trajectory of a block."""
    n = 0
    for b in range(first, min(first + ROWS, lengths.shape[0])):
        n = max(n, lengths[b])
    return n


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def from_head(dh: Array, dl: Array, dlogits: Array, head: Array, first: Any, t: int) -> None:
    """Add what the outputs of step t say about the hidden state, dlogits @ W_head."""
    for r in range(ROWS):
        b = min(first + r, dlogits.shape[0] - 1)
        for o in range(dlogits.shape[2]):
            dl[r, o] = dlogits[b, t, o]
    accumulate(dl, head, dh)


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def no_gradient(gates: Array, first: Any, n: int) -> None:
    """Zero from step n on."""
    for b in range(first, min(first + ROWS, gates.shape[0])):
        fill(gates[b, n:], np.float32(0.0))


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def no_past(hidden: Array, first: Any, n: int) -> None:
    """Zero before the first step and after step n."""
    for b in range(first, min(first + ROWS, hidden.shape[0])):
        fill(hidden[b, :1], np.float32(0.0))
        fill(hidden[b, n + 1 :], np.float32(0.0))


@numba.njit(cache=True, fastmath=True, error_model="numpy", parallel=True)
def add_rows(index: Array, lengths: Array, gates: Array, table: Array, n_parts: int) -> None:
    """Add gates[b, t, :G] to row index[b, t] of table (·, G); threads own columns, so that none waits for another."""
    G = table.shape[1]
    for part in numba.prange(n_parts):
        left, right = part * G // n_parts, (part + 1) * G // n_parts
        for b in range(index.shape[0]):
            for t in range(lengths[b]):
                add_row(table[index[b, t], left:right], gates[b, t, left:right])
