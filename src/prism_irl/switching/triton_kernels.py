"""GPU kernels (Triton): forward–backward of one chain or of many fits, and the recurrences of many fits at once.

A step of a chain or of a small recurrence is too little work for a kernel of its own: launched one by one, a GPU mostly
waits. Here a program walks whole sequences. Forward–backward is one program per trajectory, in scaled probability space
and double precision. A program of a recurrence owns some rows of one fit, keeps the recurrent weights on chip and reads
its inputs from projected tables (E W_ihᵀ), so that no (fit, row, step, hidden) input is ever made. Imported on machines
with CUDA only; `switching.forward_backward` and `scale.stacked_models` have the same in plain torch, which the
tests compare.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _forward_backward(
    initial, kernel, emission, length, predicted, filtered, smoothed, likelihood, pairwise,
    B, T, n, PAIRS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    fit, row = tl.program_id(1).to(tl.int64), tl.program_id(0)
    j, k = tl.arange(0, K), tl.arange(0, K)
    known, pair = k < n, (j[:, None] < n) & (k[None, :] < n)
    place = (fit * B + row) * T
    steps = tl.load(length + fit * B + row)
    tile = j[:, None] * n + k[None, :]
    alpha = tl.zeros((K,), dtype=tl.float64)
    for t in range(steps):
        if t == 0:
            prior = tl.load(initial + fit * n + k, mask=known, other=0.0)
        else:
            move = tl.load(kernel + (place + t) * n * n + tile, mask=pair, other=0.0)
            prior = tl.sum(alpha[:, None] * move, 0)
        e = tl.load(emission + (place + t) * n + k, mask=known, other=-float("inf"))
        top = tl.max(e, 0)
        joint = prior * tl.exp(e - top)
        total = tl.sum(joint, 0)
        alpha = joint / total
        tl.store(predicted + (place + t) * n + k, prior, mask=known)
        tl.store(filtered + (place + t) * n + k, alpha, mask=known)
        tl.store(smoothed + (place + t) * n + k, alpha, mask=known)  # the last step needs no correction
        tl.store(likelihood + place + t, tl.log(total) + top)
    tl.debug_barrier()  # what one lane has stored, another will load
    beta = tl.full((K,), 1.0, dtype=tl.float64)
    for s in range(1, steps):
        t = steps - s
        move = tl.load(kernel + (place + t) * n * n + tile, mask=pair, other=0.0)
        e = tl.load(emission + (place + t) * n + k, mask=known, other=-float("inf"))
        total = tl.load(likelihood + place + t)
        before = tl.load(filtered + (place + t - 1) * n + j, mask=j < n, other=0.0)
        ahead = move * (tl.exp(e - total) * beta)[None, :]
        if PAIRS:
            tl.store(pairwise + (place + t) * n * n + tile, before[:, None] * ahead, mask=pair)
        beta = tl.sum(ahead, 1)
        tl.store(smoothed + (place + t - 1) * n + j, before * beta, mask=j < n)


class Beliefs(NamedTuple):
    """Probabilities of stacked chains: (F, B, T, K) each; log-likelihood (F, B, T); pairwise (F, B, T, K, K)."""

    predicted: Tensor
    filtered: Tensor
    smoothed: Tensor
    log_likelihood: Tensor
    pairwise: Tensor


def forward_backward(initial: Tensor, kernel: Tensor, log_emission: Tensor, length: Tensor) -> Beliefs:
    """Scaled forward–backward, one program per trajectory, float64; zero at padding.

    Parameters
    ----------
    initial : (F, K), P(z_1)
    kernel : (F, B, T, K, K), P(z_t | z_{t-1}); entry 0 is never read
    log_emission : (F, B, T, K), with some intention possible at every step
    length : (F, B) int32
    """
    F, B, T, K = log_emission.shape
    kernel, log_emission = kernel.contiguous(), log_emission.contiguous()
    like = log_emission
    beliefs = Beliefs(
        predicted=torch.zeros_like(like),
        filtered=torch.zeros_like(like),
        smoothed=torch.zeros_like(like),
        log_likelihood=like.new_zeros(F, B, T),
        pairwise=torch.zeros_like(kernel),
    )
    _forward_backward[(B, F)](
        initial.contiguous(), kernel, log_emission, length, *beliefs, B, T, K,
        PAIRS=True, K=triton.next_power_of_2(K), num_warps=1,
    )  # fmt: skip
    return beliefs


# -- tanh recurrence ---------------------------------------------------------------------------------------------------

ROWS, RNN_WARPS = 16, 8
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
        H=H, R=ROWS, PRECISION=PRECISION, num_warps=RNN_WARPS,
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
        tables[0].shape[1], tables[1].shape[1], H=H, R=ROWS, PRECISION=PRECISION, BOTH=not few, num_warps=RNN_WARPS,
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


# -- GRU: r = σ(x_r + W_r h + b_r),  z = σ(x_z + W_z h + b_z),  m = W_n h + b_n,  n = tanh(x_n + r m) ----------------
#    and h' = n + z (h − n).  The forward pass keeps r, z, n and m, so that the backward pass is three products a step.

GRU_WARPS = 4


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _gru_forward(
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
def _gru_backward(
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
    _gru_forward[(triton.cdiv(B, ROWS), F)](
        first, length, *index, *tables, weight, bias, out, gates, B, n_steps, tables[0].shape[1], tables[1].shape[1],
        H=H, R=ROWS, PRECISION=PRECISION, num_warps=GRU_WARPS,
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
    _gru_backward[(triton.cdiv(B, ROWS), F)](
        first, length, *index, weight, hidden, gates, grad, inputs, product, left, right, B, steps - 1,
        tables[0].shape[1], tables[1].shape[1], H=H, R=ROWS, PRECISION=PRECISION, BOTH=not few, num_warps=GRU_WARPS,
    )  # fmt: skip
    if few:
        right = by_indicators(first, index[1], tables[1].shape[1], inputs)
    recurrent = torch.cat([inputs[..., : 2 * H], product], dim=-1).view(F, -1, 3 * H)  # of the products with h
    return left, right, torch.bmm(recurrent.transpose(1, 2), hidden.view(F, -1, H)), recurrent.sum(1)
