"""Compiled time loops of RNN, GRU and LSTM, forward and backward; called by `switching.recurrence.fused` only.

A thread takes four trajectories through the whole sequence, so that no step waits for another thread and the recurrent
weights stay in cache; what happens within a step is in `switching.recurrence.fused_blocks`. ``inputs`` are three
indices (B, T), three projected tables and dense inputs, (i_1, i_2, i_3, P_1, P_2, P_3, x).

Layout: hidden states and cells (B, T + 1, H), entry 0 being the state before the first step; gates (B, T + 1, ·),
entry t being those of step t and entry T zero. Backward passes overwrite the gates with gradients of what goes into
them; shifted by one entry against the hidden states, a single matrix product then gives the gradient of the weights.

Importing this module needs numba (`pip install prism-irl[fast]`).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from prism_irl.switching.recurrence.fused_blocks import (
    ROWS,
    Array,
    accumulate,
    fill,
    from_head,
    gather,
    longest,
    no_gradient,
    no_past,
    sigmoid,
    tanh,
)

# -- RNN ---------------------------------------------------------------------------------------------------------------


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def _activate(z: Array, h: Array, out: Array) -> None:
    """Hidden units for the next step and for the record, in one pass."""
    for j in range(out.shape[0]):
        unit = tanh(z[j])
        h[j] = unit
        out[j] = unit


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def _through_tanh(dh: Array, h: Array, dz: Array, out: Array) -> None:
    """Gradient before the activation, for the step before and for the record, in one pass."""
    for j in range(out.shape[0]):
        d = dh[j] * (np.float32(1.0) - h[j] * h[j])
        dz[j] = d
        out[j] = d


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def _rnn_forward_block(first: Any, lengths: Array, inputs: Any, W: Array, hidden: Array) -> None:
    B, H = hidden.shape[0], hidden.shape[2]
    n = longest(lengths, first)
    h, z = np.zeros((ROWS, W.shape[0]), np.float32), np.empty((ROWS, H), np.float32)
    no_past(hidden, first, n)
    for t in range(n):
        gather(z, first, t, inputs)
        accumulate(h, W, z)
        for r in range(ROWS):
            _activate(z[r], h[r], hidden[min(first + r, B - 1), t + 1])  # repeated trajectories repeat their values


@numba.njit(cache=True, fastmath=True, error_model="numpy", parallel=True)
def rnn_forward(lengths: Array, inputs: Any, W: Array, hidden: Array) -> None:
    """h_t = tanh(z_t + h_{t-1} W), W (H, H) with its rows padded to a multiple of four; fills hidden."""
    for block in numba.prange((lengths.shape[0] + ROWS - 1) // ROWS):
        _rnn_forward_block(np.int64(block) * ROWS, lengths, inputs, W, hidden)


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def _rnn_backward_block(
    first: Any, lengths: Array, dlogits: Array, head: Array, W: Array, hidden: Array, gates: Array
) -> None:
    B, H = hidden.shape[0], hidden.shape[2]
    n = longest(lengths, first)
    dh, dz = np.zeros((ROWS, H), np.float32), np.zeros((ROWS, W.shape[0]), np.float32)
    dl = np.zeros((ROWS, head.shape[0]), np.float32)
    no_gradient(gates, first, n)
    for t in range(n - 1, -1, -1):
        from_head(dh, dl, dlogits, head, first, t)
        for r in range(ROWS):
            b = min(first + r, B - 1)
            _through_tanh(dh[r], hidden[b, t + 1], dz[r], gates[b, t])
        fill(dh, np.float32(0.0))
        accumulate(dz, W, dh)


@numba.njit(cache=True, fastmath=True, error_model="numpy", parallel=True)
def rnn_backward(lengths: Array, dlogits: Array, head: Array, W: Array, hidden: Array, gates: Array) -> None:
    """Fill gates (B, T + 1, H) with the gradient of z_t; W (H, H) as in h_{t-1} = … W, head (O, H), rows padded."""
    for block in numba.prange((lengths.shape[0] + ROWS - 1) // ROWS):
        _rnn_backward_block(np.int64(block) * ROWS, lengths, dlogits, head, W, hidden, gates)


# -- LSTM --------------------------------------------------------------------------------------------------------------


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def _lstm_forward_block(
    first: Any, lengths: Array, inputs: Any, W: Array, hidden: Array, cells: Array, gates: Array
) -> None:
    B, H = hidden.shape[0], hidden.shape[2]
    n = longest(lengths, first)
    h, z = np.zeros((ROWS, W.shape[0]), np.float32), np.empty((ROWS, 4 * H), np.float32)
    c = np.zeros((ROWS, H), np.float32)
    no_past(hidden, first, n)
    no_past(cells, first, n)
    for t in range(n):
        gather(z, first, t, inputs)
        accumulate(h, W, z)
        for r in range(ROWS):
            for j in range(2 * H):
                z[r, j] = sigmoid(z[r, j])
            for j in range(H):
                z[r, 2 * H + j] = tanh(z[r, 2 * H + j])
            for j in range(H):
                z[r, 3 * H + j] = sigmoid(z[r, 3 * H + j])
            for j in range(H):
                c[r, j] = z[r, H + j] * c[r, j] + z[r, j] * z[r, 2 * H + j]
                h[r, j] = z[r, 3 * H + j] * tanh(c[r, j])
        for r in range(min(ROWS, B - first)):
            hidden[first + r, t + 1] = h[r, :H]
            cells[first + r, t + 1] = c[r]
            gates[first + r, t] = z[r]


@numba.njit(cache=True, fastmath=True, error_model="numpy", parallel=True)
def lstm_forward(lengths: Array, inputs: Any, W: Array, hidden: Array, cells: Array, gates: Array) -> None:
    """c_t = f c_{t-1} + i g, h_t = o tanh c_t; W (H, 4H), gates i, f, g, o side by side."""
    for block in numba.prange((lengths.shape[0] + ROWS - 1) // ROWS):
        _lstm_forward_block(np.int64(block) * ROWS, lengths, inputs, W, hidden, cells, gates)


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def _lstm_backward_block(
    first: Any, lengths: Array, dlogits: Array, head: Array, W: Array, cells: Array, gates: Array
) -> None:
    B, H = cells.shape[0], cells.shape[2]
    one = np.float32(1.0)
    n = longest(lengths, first)
    dh, dz = np.zeros((ROWS, H), np.float32), np.zeros((ROWS, W.shape[0]), np.float32)
    dc, dl = np.zeros((ROWS, H), np.float32), np.zeros((ROWS, head.shape[0]), np.float32)
    no_gradient(gates, first, n)
    for t in range(n - 1, -1, -1):
        from_head(dh, dl, dlogits, head, first, t)
        for r in range(min(ROWS, B - first)):
            g, c, before = gates[first + r, t], cells[first + r, t + 1], cells[first + r, t]
            for j in range(H):
                i, f, u, o = g[j], g[H + j], g[2 * H + j], g[3 * H + j]
                squashed = tanh(c[j])
                d = dc[r, j] + dh[r, j] * o * (one - squashed * squashed)
                dz[r, j] = d * u * i * (one - i)
                dz[r, H + j] = d * before[j] * f * (one - f)
                dz[r, 2 * H + j] = d * i * (one - u * u)
                dz[r, 3 * H + j] = dh[r, j] * squashed * o * (one - o)
                dc[r, j] = d * f
            gates[first + r, t] = dz[r, : 4 * H]
        fill(dh, np.float32(0.0))
        accumulate(dz, W, dh)


@numba.njit(cache=True, fastmath=True, error_model="numpy", parallel=True)
def lstm_backward(lengths: Array, dlogits: Array, head: Array, W: Array, cells: Array, gates: Array) -> None:
    """Overwrite the gates with the gradients of what goes into them; W (4H, H)."""
    for block in numba.prange((lengths.shape[0] + ROWS - 1) // ROWS):
        _lstm_backward_block(np.int64(block) * ROWS, lengths, dlogits, head, W, cells, gates)


# -- GRU ---------------------------------------------------------------------------------------------------------------


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def _gru_forward_block(
    first: Any, lengths: Array, inputs: Any, W: Array, bias: Array, hidden: Array, gates: Array
) -> None:
    B, H = hidden.shape[0], hidden.shape[2]
    one = np.float32(1.0)
    n = longest(lengths, first)
    h, z = np.zeros((ROWS, W.shape[0]), np.float32), np.empty((ROWS, 3 * H), np.float32)
    y = np.empty((ROWS, 3 * H), np.float32)
    no_past(hidden, first, n)
    for t in range(n):
        gather(z, first, t, inputs)
        for r in range(ROWS):
            for j in range(3 * H):
                y[r, j] = bias[j]
        accumulate(h, W, y)
        for r in range(ROWS):
            for j in range(2 * H):
                z[r, j] = sigmoid(z[r, j] + y[r, j])
            for j in range(H):
                z[r, 2 * H + j] = tanh(z[r, 2 * H + j] + z[r, j] * y[r, 2 * H + j])
            for j in range(H):
                u = z[r, H + j]
                h[r, j] = (one - u) * z[r, 2 * H + j] + u * h[r, j]
        for r in range(min(ROWS, B - first)):
            hidden[first + r, t + 1] = h[r, :H]
            gates[first + r, t, : 3 * H] = z[r]
            gates[first + r, t, 3 * H :] = y[r, 2 * H :]


@numba.njit(cache=True, fastmath=True, error_model="numpy", parallel=True)
def gru_forward(lengths: Array, inputs: Any, W: Array, bias: Array, hidden: Array, gates: Array) -> None:
    """h_t = (1 - u) n + u h_{t-1}, n = tanh(z_n + r (h W_n + b_n)); W (H, 3H), gates r, u, n and h W_n + b_n."""
    for block in numba.prange((lengths.shape[0] + ROWS - 1) // ROWS):
        _gru_forward_block(np.int64(block) * ROWS, lengths, inputs, W, bias, hidden, gates)


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def _gru_backward_block(
    first: Any, lengths: Array, dlogits: Array, head: Array, W: Array, hidden: Array, gates: Array
) -> None:
    B, H = hidden.shape[0], hidden.shape[2]
    one = np.float32(1.0)
    length = longest(lengths, first)
    dh, dz = np.zeros((ROWS, H), np.float32), np.zeros((ROWS, W.shape[0]), np.float32)
    dl = np.zeros((ROWS, head.shape[0]), np.float32)
    no_gradient(gates, first, length)
    for t in range(length - 1, -1, -1):
        from_head(dh, dl, dlogits, head, first, t)
        for r in range(min(ROWS, B - first)):
            g, before = gates[first + r, t], hidden[first + r, t]
            for j in range(H):
                reset, u, n, y = g[j], g[H + j], g[2 * H + j], g[3 * H + j]
                d = dh[r, j]
                dn = d * (one - u) * (one - n * n)
                dz[r, j] = dn * y * reset * (one - reset)
                dz[r, H + j] = d * (before[j] - n) * u * (one - u)
                dz[r, 2 * H + j] = dn * reset
                dh[r, j] = d * u
                g[2 * H + j] = dn
            g[: 2 * H] = dz[r, : 2 * H]
            g[3 * H :] = dz[r, 2 * H : 3 * H]
        accumulate(dz, W, dh)


@numba.njit(cache=True, fastmath=True, error_model="numpy", parallel=True)
def gru_backward(lengths: Array, dlogits: Array, head: Array, W: Array, hidden: Array, gates: Array) -> None:
    """Overwrite the gates with gradients: of r, u and n as inputs, and of h W_n + b_n; W (3H, H)."""
    for block in numba.prange((lengths.shape[0] + ROWS - 1) // ROWS):
        _gru_backward_block(np.int64(block) * ROWS, lengths, dlogits, head, W, hidden, gates)
