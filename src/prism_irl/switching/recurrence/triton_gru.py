"""GPU kernels (Triton) of the GRU of many fits at once, whole sequences per program.

As `triton_kernels`, which says why, for the cell that recurrent switching has by default:

    r = σ(x_r + W_r h + b_r),  z = σ(x_z + W_z h + b_z),  m = W_n h + b_n,  n = tanh(x_n + r m),  h' = n + z (h − n).

The forward pass keeps r, z, n and m of every step, so that the backward pass is three small products a step and no
more. `switching.recurrence.stacked` has the same in plain torch, which the tests compare.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from prism_irl.switching.recurrence.triton_kernels import FEW, PRECISION, ROWS, _tanh, by_indicators

WIDTHS = (16, 32, 64)  # three recurrent matrices of a wider network do not fit on chip
WARPS = 4


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _forward(
    first, length, left, right, left_table, right_table, weight, bias, out, gates,
    B, T, n_left, n_right,
    H: tl.constexpr, R: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    fit = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * R + tl.arange(0, R)
    cols = tl.arange(0, H)
    inside = rows < B
    begin = tl.load(first + fit * B + rows, mask=inside, other=0)
    steps = tl.load(length + fit * B + rows, mask=inside, other=0)
    own = weight + fit * 3 * H * H + cols[None, :] * H + cols[:, None]  # transposed
    w_r, w_z, w_n = tl.load(own), tl.load(own + H * H), tl.load(own + 2 * H * H)
    b = bias + fit * 3 * H + cols[None, :]
    b_r, b_z, b_n = tl.load(b), tl.load(b + H), tl.load(b + 2 * H)
    h = tl.zeros((R, H), dtype=tl.float32)
    target = out + ((fit * B + rows) * (T + 1))[:, None] * H + cols[None, :]
    kept = gates + ((fit * B + rows) * T)[:, None] * (4 * H) + cols[None, :]
    tl.store(target, h, mask=inside[:, None])
    for t in range(tl.max(steps, 0)):
        real = t < steps
        i = tl.load(left + begin + t, mask=real, other=0)
        j = tl.load(right + begin + t, mask=real, other=0)
        x = left_table + (fit * n_left + i)[:, None] * (3 * H) + cols[None, :]
        y = right_table + (fit * n_right + j)[:, None] * (3 * H) + cols[None, :]
        r = _sigmoid(tl.dot(h, w_r, tl.load(x) + tl.load(y) + b_r, input_precision=PRECISION))
        z = _sigmoid(tl.dot(h, w_z, tl.load(x + H) + tl.load(y + H) + b_z, input_precision=PRECISION))
        m = tl.dot(h, w_n, input_precision=PRECISION) + b_n
        n = _tanh(tl.load(x + 2 * H) + tl.load(y + 2 * H) + r * m)
        h = n + z * (h - n)
        tl.store(target + (t + 1) * H, h, mask=real[:, None])
        tl.store(kept, r, mask=real[:, None])
        tl.store(kept + H, z, mask=real[:, None])
        tl.store(kept + 2 * H, n, mask=real[:, None])
        tl.store(kept + 3 * H, m, mask=real[:, None])
        kept += 4 * H


@triton.jit
def _backward(
    first, length, left, right, weight, hidden, gates, grad_out, grad_in, grad_m, grad_left, grad_right,
    B, T, n_left, n_right,
    H: tl.constexpr, R: tl.constexpr, PRECISION: tl.constexpr, BOTH: tl.constexpr,
):  # fmt: skip
    fit = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * R + tl.arange(0, R)
    cols = tl.arange(0, H)
    inside = rows < B
    begin = tl.load(first + fit * B + rows, mask=inside, other=0)
    steps = tl.load(length + fit * B + rows, mask=inside, other=0)
    own = weight + fit * 3 * H * H + cols[:, None] * H + cols[None, :]
    w_r, w_z, w_n = tl.load(own), tl.load(own + H * H), tl.load(own + 2 * H * H)
    dh = tl.zeros((R, H), dtype=tl.float32)
    row = (fit * B + rows) * (T + 1)
    where = row[:, None] * H + cols[None, :]
    wide = row[:, None] * (3 * H) + cols[None, :]
    kept = gates + ((fit * B + rows) * T)[:, None] * (4 * H) + cols[None, :]
    nothing = tl.zeros((R, H), dtype=tl.float32)
    tl.store(grad_m + where + T * H, nothing, mask=inside[:, None])
    for gate in tl.static_range(3):
        tl.store(grad_in + wide + T * 3 * H + gate * H, nothing, mask=inside[:, None])
    for s in range(T):
        t = T - 1 - s
        real = (t < steps)[:, None]
        d = dh + tl.load(grad_out + where + (t + 1) * H, mask=real, other=0.0)
        d = tl.where(real, d, 0.0)
        before = tl.load(hidden + where + t * H, mask=real, other=0.0)
        at = kept + t * 4 * H
        r = tl.load(at, mask=real, other=0.0)
        z = tl.load(at + H, mask=real, other=0.0)
        n = tl.load(at + 2 * H, mask=real, other=0.0)
        m = tl.load(at + 3 * H, mask=real, other=0.0)
        d_n = d * (1.0 - z) * (1.0 - n * n)
        d_z = d * (before - n) * z * (1.0 - z)
        d_r = d_n * m * r * (1.0 - r)
        d_m = d_n * r
        target = grad_in + wide + t * 3 * H
        tl.store(target, d_r, mask=inside[:, None])
        tl.store(target + H, d_z, mask=inside[:, None])
        tl.store(target + 2 * H, d_n, mask=inside[:, None])
        tl.store(grad_m + where + t * H, d_m, mask=inside[:, None])
        i = tl.load(left + begin + t, mask=t < steps, other=0)
        x = grad_left + (fit * n_left + i)[:, None] * (3 * H) + cols[None, :]
        tl.atomic_add(x, d_r, mask=real, sem="relaxed")
        tl.atomic_add(x + H, d_z, mask=real, sem="relaxed")
        tl.atomic_add(x + 2 * H, d_n, mask=real, sem="relaxed")
        if BOTH:
            j = tl.load(right + begin + t, mask=t < steps, other=0)
            y = grad_right + (fit * n_right + j)[:, None] * (3 * H) + cols[None, :]
            tl.atomic_add(y, d_r, mask=real, sem="relaxed")
            tl.atomic_add(y + H, d_z, mask=real, sem="relaxed")
            tl.atomic_add(y + 2 * H, d_n, mask=real, sem="relaxed")
        dh = tl.dot(d_r, w_r, d * z, input_precision=PRECISION)
        dh = tl.dot(d_z, w_z, dh, input_precision=PRECISION)
        dh = tl.dot(d_m, w_n, dh, input_precision=PRECISION)


def gru_forward(
    first: Tensor, length: Tensor, index: tuple[Tensor, Tensor], tables: tuple[Tensor, Tensor], weight: Tensor,
    bias: Tensor, n_steps: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Hidden states (F, B, T + 1, H), the first of them zero as padding is, and the gates (F, B, T, 4 H) behind them.

    Parameters
    ----------
    first, length : (F, B) int64, int32, where each row begins in the flat indices, and its steps
    index : two flat int32 arrays, rows of the tables
    tables : (F, n, 3 H) projected inputs, bias of the input included
    weight, bias : (F, 3 H, H) and (F, 3 H), of the recurrent product, gates in the order r, z, n
    """
    (F, B), H = first.shape, weight.shape[-1]
    out = torch.zeros(F, B, n_steps + 1, H, device=weight.device)
    gates = torch.empty(F, B, n_steps, 4 * H, device=weight.device)
    _forward[(triton.cdiv(B, ROWS), F)](
        first, length, *index, *tables, weight, bias, out, gates, B, n_steps, tables[0].shape[1], tables[1].shape[1],
        H=H, R=ROWS, PRECISION=PRECISION, num_warps=WARPS,
    )  # fmt: skip
    return out, gates


def gru_backward(
    first: Tensor, length: Tensor, index: tuple[Tensor, Tensor], tables: tuple[Tensor, Tensor], weight: Tensor,
    hidden: Tensor, gates: Tensor, grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of the left table, the right table, W and b, given the gradient of the hidden states."""
    F, B, steps, H = hidden.shape
    inputs, product = hidden.new_empty(F, B, steps, 3 * H), torch.empty_like(hidden)
    left, right = torch.zeros_like(tables[0]), torch.zeros_like(tables[1])
    few = tables[1].shape[1] <= FEW
    _backward[(triton.cdiv(B, ROWS), F)](
        first, length, *index, weight, hidden, gates, grad, inputs, product, left, right, B, steps - 1,
        tables[0].shape[1], tables[1].shape[1], H=H, R=ROWS, PRECISION=PRECISION, BOTH=not few, num_warps=WARPS,
    )  # fmt: skip
    if few:
        right = by_indicators(first, index[1], tables[1].shape[1], inputs)
    recurrent = torch.cat([inputs[..., : 2 * H], product], dim=-1).view(F, -1, 3 * H)  # of the products with h
    return left, right, torch.bmm(recurrent.transpose(1, 2), hidden.view(F, -1, H)), recurrent.sum(1)
