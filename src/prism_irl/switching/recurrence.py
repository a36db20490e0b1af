"""Networks over (state, action) tokens in one compiled pass: projected tables, time loop and hand-written backward.

The input of a recurrent network is a sum of embeddings, so the tables can be projected once, P = E W_ih, and every
step gathers rows: no matrix product over all steps. Where a table has more rows than the batch has steps, the
embedded steps are projected instead. The loop over time and its gradient run compiled, four trajectories per thread;
the gradient of the recurrent weights is one matrix product at the end. Results equal `nn.RNN` and `nn.GRU`
up to rounding (tested); `switching.networks` chooses this path by itself, `PRISM_BACKEND=torch` forces theirs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor, nn

from prism_irl.optional import compiled

GATES = {"rnn": 1, "gru": 4}
"""Hidden units that the gates of a step take. An LSTM is torch's own, which is as fast."""


class Inputs(NamedTuple):
    """What a network reads at every step of a batch, already projected: Σ tables[i][rows[i]] + dense.

    ``rows`` (B, T) int64 each; ``tables`` (rows, G); ``dense`` (B, T, G) or None; ``lengths`` (B,) real steps. The
    bias is part of one of them.
    """

    lengths: Tensor
    rows: tuple[Tensor, ...]
    tables: tuple[Tensor, ...]
    dense: Tensor | None


def outputs(kind: str, inputs: Inputs, core: Any, head: nn.Linear) -> Tensor:
    """Head(h_t) of every step, (B, T, O); zero hidden state after the end of a trajectory and its block mates."""
    bias = core.bias_hh_l0 if kind == "gru" else core.bias_hh_l0.detach()
    given = (*inputs.tables, *[None] * (3 - len(inputs.tables)), inputs.dense)
    result: Tensor = _Fused.apply(kind, inputs, *given, core.weight_hh_l0, bias, head.weight, head.bias)
    return result


def _array(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy()


def _padded(W: Tensor) -> Any:
    """Rows filled up with zeros to a multiple of four."""
    W = W.detach()
    return _array(nn.functional.pad(W, (0, 0, 0, -len(W) % 4)) if len(W) % 4 else W)


class _Fused(torch.autograd.Function):
    """Recurrence and head as one node of autograd's graph; hidden states never leave it."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        kind, inputs, *_, W, bias, head, head_bias = arguments
        B, H, absent = len(inputs.lengths), W.shape[1], 3 - len(inputs.tables)
        T = (inputs.rows[0] if inputs.rows else inputs.dense).shape[1]
        none, empty = inputs.lengths.new_zeros(B, 1), torch.zeros(0, len(W))
        index = [_array(rows) for rows in (*inputs.rows, *[none] * absent)]
        tables = [_array(table) for table in (*inputs.tables, *[empty] * absent)]
        dense = empty[:, None] if inputs.dense is None else inputs.dense
        sizes, hidden, gates = _array(inputs.lengths), torch.empty(B, T + 1, H), torch.empty(B, T + 1, GATES[kind] * H)
        read = (*index, *tables, _array(dense))
        run_forward(UNITS[kind], sizes, read, _padded(W.t()), _array(bias), hidden.numpy(), gates.numpy())
        if any(ctx.needs_input_grad):
            ctx.kept = kind, sizes, index, [len(table) for table in tables], hidden, gates
            ctx.has_dense = inputs.dense is not None
            ctx.save_for_backward(W, head)  # so that a change in place between the two passes is noticed
        return torch.addmm(head_bias, hidden.view(-1, H), head.t()).view(B, T + 1, -1)[:, 1:]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dlogits: Tensor) -> tuple[Tensor | None, ...]:
        W, head = ctx.saved_tensors
        if ctx.kept is None:
            raise RuntimeError("The fused recurrence keeps its memory for one backward pass only.")
        (kind, sizes, index, n_rows, hidden, gates), ctx.kept = ctx.kept, None
        (B, entries, H), G = hidden.shape, len(W)
        backward = _array(dlogits), _padded(head), _padded(W)
        run_backward(UNITS[kind], sizes, *backward, hidden.numpy(), gates.numpy())
        # hidden states lag one entry behind the gates, so that row t of one meets h_{t-1} in the other
        rows, past, dbias = gates.view(B * entries, -1), hidden.view(-1, H), None
        if kind == "gru":
            own = torch.cat([rows[:, : 2 * H].t() @ past, rows[:, 3 * H :].t() @ past])
            dbias = torch.cat([rows[:, : 2 * H].sum(0), rows[:, 3 * H :].sum(0)])
        else:
            own = rows.t() @ past
        dtables = [torch.zeros(n, G) if n else None for n in n_rows]
        for table, of_steps in zip(dtables, index, strict=True):
            if table is not None:
                add_rows(of_steps, sizes, gates.numpy(), table.numpy(), min(torch.get_num_threads(), 8))
        ddense = gates[:, :-1, :G].clone() if ctx.has_dense else None
        shifted = nn.functional.pad(dlogits, (0, 0, 1, 0)).reshape(B * entries, -1)
        return None, None, *dtables, ddense, own, dbias, shifted.t() @ past, shifted.sum(0)


# -- the loops over time ---------------------------------------------------------------------------------------------
#
# A thread takes four trajectories through the whole sequence, so that the recurrent weights stay in cache; the inner
# loops run along a contiguous row of hidden units, where the compiler vectorises. ``inputs`` are three indices (B, T),
# three projected tables and dense inputs, (i_1, i_2, i_3, P_1, P_2, P_3, x), whose rows a step adds up, z_t = P_1[i_1]
# + P_2[i_2] + P_3[i_3] + x_t; a part that is not there has no rows.
#
# Layout: hidden states (B, T + 1, H), entry 0 being the state before the first step; gates (B, T + 1, ·), entry t
# being those of step t and entry T zero. Backward passes overwrite the gates with gradients of what goes into them;
# shifted by one entry against the hidden states, a single matrix product then gives the gradient of the weights.

Array = np.ndarray[Any, Any]
Number = Any  # single precision; a Python float would make the compiler compute in double
# A division that may raise, as in Python, would keep loops from being vectorised: hence error_model="numpy".
ROWS = 4  # trajectories that share one pass over the weights; enough for arithmetic, not memory, to be the limit


@compiled(fastmath=True)
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


@compiled(fastmath=True)
def sigmoid(x: Number) -> Number:
    """σ(x) = (1 + tanh(x / 2)) / 2."""
    return np.float32(0.5) + np.float32(0.5) * tanh(np.float32(0.5) * x)


@compiled(fastmath=True)
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


@compiled(fastmath=True)
def add_row(out: Array, row: Array) -> None:
    """Add one row to another."""
    for j in range(row.shape[0]):
        out[j] += row[j]


@compiled(fastmath=True)
def fill(out: Array, value: Number) -> None:
    """Set every entry of a matrix."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = value


@compiled(fastmath=True)
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


@compiled()
def longest(lengths: Array, first: Any) -> int:
    """Steps of the longest trajectory of a block."""
    n = 0
    for b in range(first, min(first + ROWS, lengths.shape[0])):
        n = max(n, lengths[b])
    return n


@compiled(fastmath=True, parallel=True)
def add_rows(index: Array, lengths: Array, gates: Array, table: Array, n_parts: int) -> None:
    """Add gates[b, t, :G] to row index[b, t] of table (·, G); threads own columns, so that none waits for another."""
    G = table.shape[1]
    for part in numba.prange(n_parts):
        left, right = part * G // n_parts, (part + 1) * G // n_parts
        for b in range(index.shape[0]):
            for t in range(lengths[b]):
                add_row(table[index[b, t], left:right], gates[b, t, left:right])


@compiled(fastmath=True)
def _activate(z: Array, h: Array, out: Array) -> None:
    """Hidden units for the next step and for the record, in one pass."""
    for j in range(out.shape[0]):
        unit = tanh(z[j])
        h[j] = unit
        out[j] = unit


@compiled(fastmath=True)
def _through_tanh(dh: Array, h: Array, dz: Array, out: Array) -> None:
    """Gradient before the activation, for the step before and for the record, in one pass."""
    for j in range(out.shape[0]):
        d = dh[j] * (np.float32(1.0) - h[j] * h[j])
        dz[j] = d
        out[j] = d


@compiled(fastmath=True)
def _gated(z: Array, y: Array, h: Array) -> None:
    """A step of the GRU: z becomes the gates r, u and n; y are the recurrent products."""
    H = h.shape[0]
    for j in range(2 * H):
        z[j] = sigmoid(z[j] + y[j])
    for j in range(H):
        z[2 * H + j] = tanh(z[2 * H + j] + z[j] * y[2 * H + j])
    for j in range(H):
        u = z[H + j]
        h[j] = (np.float32(1.0) - u) * z[2 * H + j] + u * h[j]


@compiled(fastmath=True)
def _through_gates(g: Array, before: Array, dh: Array, dz: Array) -> None:
    """Gradients of a step of the GRU; the gates g are overwritten by those of what goes into them."""
    H, one = before.shape[0], np.float32(1.0)
    for j in range(H):
        reset, u, n, y = g[j], g[H + j], g[2 * H + j], g[3 * H + j]
        d = dh[j]
        dn = d * (one - u) * (one - n * n)
        dz[j] = dn * y * reset * (one - reset)
        dz[H + j] = d * (before[j] - n) * u * (one - u)
        dz[2 * H + j] = dn * reset
        dh[j] = d * u
        g[2 * H + j] = dn
    g[: 2 * H] = dz[: 2 * H]
    g[3 * H :] = dz[2 * H : 3 * H]


@compiled(fastmath=True)
def _forward_block(
    units: Any, first: Any, lengths: Array, inputs: Any, W: Array, bias: Array, hidden: Array, gates: Array
) -> None:
    B, H, G = hidden.shape[0], hidden.shape[2], len(units) * hidden.shape[2]
    n = longest(lengths, first)
    h, z = np.zeros((ROWS, W.shape[0]), np.float32), np.empty((ROWS, G), np.float32)
    y = np.empty((ROWS, G), np.float32)
    for b in range(first, min(first + ROWS, B)):
        fill(hidden[b, :1], np.float32(0.0))
        fill(hidden[b, n + 1 :], np.float32(0.0))
    for t in range(n):
        gather(z, first, t, inputs)
        if len(units) == 1:
            accumulate(h, W, z)
            for r in range(ROWS):
                _activate(z[r], h[r], hidden[min(first + r, B - 1), t + 1])  # repeated trajectories repeat their values
        else:
            for r in range(ROWS):
                for j in range(G):
                    y[r, j] = bias[j]
            accumulate(h, W, y)
            for r in range(ROWS):
                _gated(z[r], y[r], h[r, :H])
            for r in range(min(ROWS, B - first)):
                hidden[first + r, t + 1] = h[r, :H]
                gates[first + r, t, :G] = z[r]
                gates[first + r, t, G:] = y[r, 2 * H :]


@compiled(fastmath=True, parallel=True)
def run_forward(units: Any, lengths: Array, inputs: Any, W: Array, bias: Array, hidden: Array, gates: Array) -> None:
    """Fill hidden, and of a GRU the gates r, u, n and h W_n + b_n; W (H, G) with rows padded to a multiple of four.

    RNN: h_t = tanh(z_t + h_{t-1} W). GRU: h_t = (1 - u) n + u h_{t-1}, n = tanh(z_n + r (h W_n + b_n)).
    """
    for block in numba.prange((lengths.shape[0] + ROWS - 1) // ROWS):
        _forward_block(units, np.int64(block) * ROWS, lengths, inputs, W, bias, hidden, gates)


@compiled(fastmath=True)
def _backward_block(
    units: Any, first: Any, lengths: Array, dlogits: Array, head: Array, W: Array, hidden: Array, gates: Array
) -> None:
    B, H = hidden.shape[0], hidden.shape[2]
    n = longest(lengths, first)
    dh, dz = np.zeros((ROWS, H), np.float32), np.zeros((ROWS, W.shape[0]), np.float32)
    dl = np.zeros((ROWS, head.shape[0]), np.float32)
    for b in range(first, min(first + ROWS, B)):
        fill(gates[b, n:], np.float32(0.0))
    for t in range(n - 1, -1, -1):
        for r in range(ROWS):  # what the outputs of step t say about the hidden state
            for o in range(dlogits.shape[2]):
                dl[r, o] = dlogits[min(first + r, B - 1), t, o]
        accumulate(dl, head, dh)
        if len(units) == 1:
            for r in range(ROWS):
                b = min(first + r, B - 1)
                _through_tanh(dh[r], hidden[b, t + 1], dz[r], gates[b, t])
            fill(dh, np.float32(0.0))
        else:
            for r in range(min(ROWS, B - first)):
                _through_gates(gates[first + r, t], hidden[first + r, t], dh[r], dz[r])
        accumulate(dz, W, dh)


@compiled(fastmath=True, parallel=True)
def run_backward(
    units: Any, lengths: Array, dlogits: Array, head: Array, W: Array, hidden: Array, gates: Array
) -> None:
    """Fill the gates with gradients: of z_t, and of a GRU of r, u and n as inputs, and of h W_n + b_n.

    W (G, H) as in h_{t-1} = … W, and head (O, H), rows padded.
    """
    for block in numba.prange((lengths.shape[0] + ROWS - 1) // ROWS):
        _backward_block(units, np.int64(block) * ROWS, lengths, dlogits, head, W, hidden, gates)


UNITS = {"rnn": (0,), "gru": (0, 1, 2)}
"""A number per gate that reads the input: how many there are is known to the compiler."""
