"""GPU kernels (Triton) of the tanh recurrence of many fits at once, whole sequences per program (GRU: `triton_gru`).

A step of a small recurrence is too little work for a kernel of its own: launched one by one, a GPU mostly waits. Here
a program owns the rows of one fit for the whole sequence, keeps the recurrent weights on chip, and reads its inputs
from projected tables (E W_ihᵀ), so that no (fit, row, step, hidden) input is ever made. Imported on machines with CUDA
only; `switching.recurrence.stacked` has the same in plain torch, which the tests compare.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, WARPS = 16, 8
FEW = 64  # rows of a table whose gradient is better a product with indicators than a queue of additions
PRECISION = "tf32x3"  # as exact as float32 (2e-6 after 500 steps), on tensor cores; plain tf32 is off by 3e-3


@triton.jit
def _tanh(x):
    # exp overflows to infinity on one side only, where the quotient is exactly one
    e = tl.exp(2.0 * x)
    return 1.0 - 2.0 / (e + 1.0)


@triton.jit
def _rnn_forward(
    first, length, left, right, left_table, right_table, weight, out,
    B, T, n_left, n_right,
    H: tl.constexpr, R: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    fit = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * R + tl.arange(0, R)
    cols = tl.arange(0, H)
    inside = rows < B
    begin = tl.load(first + fit * B + rows, mask=inside, other=0)
    steps = tl.load(length + fit * B + rows, mask=inside, other=0)
    recurrent = tl.load(weight + fit * H * H + cols[None, :] * H + cols[:, None])  # transposed
    h = tl.zeros((R, H), dtype=tl.float32)
    target = out + ((fit * B + rows) * (T + 1))[:, None] * H + cols[None, :]
    tl.store(target, h, mask=inside[:, None])
    for t in range(tl.max(steps, 0)):
        real = t < steps
        i = tl.load(left + begin + t, mask=real, other=0)
        j = tl.load(right + begin + t, mask=real, other=0)
        x = tl.load(left_table + (fit * n_left + i)[:, None] * H + cols[None, :])
        x += tl.load(right_table + (fit * n_right + j)[:, None] * H + cols[None, :])
        h = _tanh(tl.dot(h, recurrent, x, input_precision=PRECISION))
        tl.store(target + (t + 1) * H, h, mask=real[:, None])


@triton.jit
def _rnn_backward(
    first, length, left, right, weight, hidden, grad_out, grad_in, grad_left, grad_right,
    B, T, n_left, n_right,
    H: tl.constexpr, R: tl.constexpr, PRECISION: tl.constexpr, BOTH: tl.constexpr,
):  # fmt: skip
    fit = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * R + tl.arange(0, R)
    cols = tl.arange(0, H)
    inside = rows < B
    begin = tl.load(first + fit * B + rows, mask=inside, other=0)
    steps = tl.load(length + fit * B + rows, mask=inside, other=0)
    recurrent = tl.load(weight + fit * H * H + cols[:, None] * H + cols[None, :])
    dh = tl.zeros((R, H), dtype=tl.float32)
    where = ((fit * B + rows) * (T + 1))[:, None] * H + cols[None, :]
    tl.store(grad_in + where + T * H, dh, mask=inside[:, None])
    for s in range(T):
        t = T - 1 - s
        real = (t < steps)[:, None]
        d = tl.load(grad_out + where + (t + 1) * H, mask=real, other=0.0)
        h = tl.load(hidden + where + (t + 1) * H, mask=real, other=0.0)
        x = tl.where(real, (dh + d) * (1.0 - h * h), 0.0)
        tl.store(grad_in + where + t * H, x, mask=inside[:, None])
        i = tl.load(left + begin + t, mask=t < steps, other=0)
        tl.atomic_add(grad_left + (fit * n_left + i)[:, None] * H + cols[None, :], x, mask=real, sem="relaxed")
        if BOTH:
            j = tl.load(right + begin + t, mask=t < steps, other=0)
            tl.atomic_add(grad_right + (fit * n_right + j)[:, None] * H + cols[None, :], x, mask=real, sem="relaxed")
        dh = tl.dot(x, recurrent, input_precision=PRECISION)


def rnn_forward(first: Tensor, length: Tensor, index: tuple[Tensor, Tensor], tables: tuple[Tensor, Tensor],
                weight: Tensor, n_steps: int) -> Tensor:  # fmt: skip
    """Hidden states (F, B, T + 1, H), the first of them zero; padding is zero as well.

    Parameters
    ----------
    first, length : (F, B) int64, int32, where each row begins in the flat indices, and its steps
    index : two flat int32 arrays, rows of the tables
    tables : (F, n, H) projected inputs, bias included
    weight : (F, H, H), W_hh
    """
    (F, B), H = first.shape, weight.shape[-1]
    out = torch.zeros(F, B, n_steps + 1, H, device=weight.device)
    grid = (triton.cdiv(B, ROWS), F)
    _rnn_forward[grid](
        first, length, *index, *tables, weight, out, B, n_steps, tables[0].shape[1], tables[1].shape[1],
        H=H, R=ROWS, PRECISION=PRECISION, num_warps=WARPS,
    )  # fmt: skip
    return out


def rnn_backward(
    first: Tensor, length: Tensor, index: tuple[Tensor, Tensor], tables: tuple[Tensor, Tensor], weight: Tensor,
    hidden: Tensor, grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of the left table, the right table and W_hh, given the gradient of the hidden states."""
    F, B, steps, H = hidden.shape
    T = steps - 1
    inputs = torch.empty_like(hidden)
    left, right = torch.zeros_like(tables[0]), torch.zeros_like(tables[1])
    few = tables[1].shape[1] <= FEW
    _rnn_backward[(triton.cdiv(B, ROWS), F)](
        first, length, *index, weight, hidden, grad, inputs, left, right, B, T,
        tables[0].shape[1], tables[1].shape[1], H=H, R=ROWS, PRECISION=PRECISION, BOTH=not few, num_warps=WARPS,
    )  # fmt: skip
    flat = inputs.view(F, -1, H)
    if few:
        right = by_indicators(first, index[1], tables[1].shape[1], inputs)
    return left, right, torch.bmm(flat.transpose(1, 2), hidden.view(F, -1, H))


def by_indicators(first: Tensor, index: Tensor, n: int, inputs: Tensor) -> Tensor:
    """Gradient (F, n, width) of a small table from that of its rows, (F, B, T + 1, width) with zero at padding."""
    F, _, steps, width = inputs.shape
    position = first.unsqueeze(-1) + torch.arange(steps - 1, device=first.device)
    rows = index[position.clamp_max(len(index) - 1)]
    which = (rows.unsqueeze(-1) == torch.arange(n, device=rows.device)).float()
    which = torch.nn.functional.pad(which, (0, 0, 0, 1))
    return torch.bmm(which.view(F, -1, n).transpose(1, 2), inputs.view(F, -1, width))
