"""The recurrences of many fits at once: F networks side by side, each with its own weights and its own rows.

Inputs come from two projected tables per fit, x_t = left[i_t] + right[j_t] with left = E_s W_ihᵀ + b and right the
same for actions (or for pairs (s_{t-1}, a_{t-1})), so that nothing of size (F, B, T, width) is multiplied. Plain torch
with batched products is the reference and serves the CPU and the LSTM; on a GPU the tanh recurrence and the GRU run as
one Triton program per block of rows (`switching.triton_kernels`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from prism_irl.switching.inference import use_triton


class Rows(NamedTuple):
    """Which steps a minibatch holds: row b of fit f is ``length`` steps from ``first`` on in the flat indices.

    ``first`` (F, B) int64, ``length`` (F, B) int32 (zero for a row that pads), ``n_steps`` the longest, T.
    """

    first: Tensor
    length: Tensor
    n_steps: int

    @property
    def mask(self) -> Tensor:
        """True at real steps, (F, B, T)."""
        return torch.arange(self.n_steps, device=self.first.device) < self.length.unsqueeze(-1)

    def gather(self, flat: Tensor) -> Tensor:
        """Values of a flat (n,) array, (F, B, T); padding repeats some step."""
        step = torch.arange(self.n_steps, device=self.first.device)
        last = (self.length.unsqueeze(-1) - 1).clamp_min(0)
        return flat[self.first.unsqueeze(-1) + torch.minimum(step, last)]


def recurrence(name: str, rows: Rows, index: tuple[Tensor, Tensor], tables: tuple[Tensor, Tensor], weight: Tensor,
               bias: Tensor) -> Tensor:  # fmt: skip
    """Hidden states h_0..h_T with h_0 = 0, (F, B, T + 1, H): kept together, so that products need no copy.

    Parameters
    ----------
    name : "rnn", "gru" or "lstm"
    index : two flat int32 arrays, rows of the tables at every step of the data
    tables : (F, n, G·H) projected inputs, bias of the input included; G gates
    weight, bias : (F, G·H, H) and (F, G·H), of the recurrent product
    """
    hidden: Tensor
    if name == "rnn" and use_triton(weight.device) and weight.shape[-1] in (16, 32, 64, 128):
        # the bias of the recurrent product adds up with that of the input
        left = tables[0] + bias.unsqueeze(1)
        hidden = _TanhRecurrence.apply(rows, index, left, tables[1], weight)
        return hidden
    if name == "gru" and use_triton(weight.device) and weight.shape[-1] in (16, 32, 64):
        hidden = _GatedRecurrence.apply(rows, index, *tables, weight, bias)
        return hidden
    fits = torch.arange(len(weight), device=weight.device)[:, None, None]
    i, j = rows.gather(index[0]).long(), rows.gather(index[1]).long()
    x = (_rows(tables[0], fits, i) + _rows(tables[1], fits, j)).unbind(2)
    step = {"rnn": _rnn_step, "gru": _gru_step, "lstm": _lstm_step}[name]
    transposed, bias = weight.transpose(1, 2), bias.unsqueeze(1)
    h = torch.zeros(*rows.first.shape, weight.shape[-1], device=weight.device)
    carry, outputs = (h, h), [h]
    for x_t in x:
        carry = step(x_t, carry, transposed, bias)
        outputs.append(carry[0])
    return torch.stack(outputs, dim=2)


def _rows(table: Tensor, fits: Tensor, rows: Tensor) -> Tensor:
    """Rows (F, B, T) of stacked tables (F, n, d), as (F, B, T, d)."""
    flat = (fits * table.shape[1] + rows).reshape(-1)
    return table.reshape(-1, table.shape[-1]).index_select(0, flat).reshape(*rows.shape, -1)


Carry = tuple[Tensor, Tensor]


def _rnn_step(x: Tensor, carry: Carry, weight: Tensor, bias: Tensor) -> Carry:
    h = torch.tanh(x + torch.baddbmm(bias, carry[0], weight))
    return h, h


def _gru_step(x: Tensor, carry: Carry, weight: Tensor, bias: Tensor) -> Carry:
    """Gates r, z, n in torch's order; the reset gate applies to the recurrent product."""
    h = carry[0]
    xr, xz, xn = x.chunk(3, dim=-1)
    hr, hz, hn = torch.baddbmm(bias, h, weight).chunk(3, dim=-1)
    z = torch.sigmoid(xz + hz)
    n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
    h = torch.lerp(n, h, z)
    return h, h


def _lstm_step(x: Tensor, carry: Carry, weight: Tensor, bias: Tensor) -> Carry:
    """Gates i, f, g, o in torch's order."""
    i, f, g, o = (x + torch.baddbmm(bias, carry[0], weight)).chunk(4, dim=-1)
    c = torch.sigmoid(f) * carry[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


class _TanhRecurrence(torch.autograd.Function):
    """The Triton kernels as a differentiable function; returns (F, B, T + 1, H) with a zero first."""

    @staticmethod
    def forward(
        ctx: Any, rows: Rows, index: tuple[Tensor, Tensor], left: Tensor, right: Tensor, weight: Tensor
    ) -> Tensor:
        from prism_irl.switching import triton_kernels as kernels

        left, right, weight = left.contiguous(), right.contiguous(), weight.contiguous()
        hidden = kernels.rnn_forward(rows.first, rows.length, index, (left, right), weight, rows.n_steps)
        ctx.rows, ctx.index = rows, index
        ctx.save_for_backward(left, right, weight, hidden)
        return hidden

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, Tensor, Tensor, Tensor]:
        from prism_irl.switching import triton_kernels as kernels

        left, right, weight, hidden = ctx.saved_tensors
        rows = ctx.rows
        left, right, weight = kernels.rnn_backward(
            rows.first, rows.length, ctx.index, (left, right), weight, hidden, grads[0].contiguous()
        )
        return None, None, left, right, weight


class _GatedRecurrence(torch.autograd.Function):
    """The Triton kernels of the GRU as a differentiable function; returns (F, B, T + 1, H) with a zero first."""

    @staticmethod
    def forward(
        ctx: Any, rows: Rows, index: tuple[Tensor, Tensor], left: Tensor, right: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        from prism_irl.switching import triton_kernels as kernels

        left, right, weight, bias = (value.contiguous() for value in (left, right, weight, bias))
        hidden, gates = kernels.gru_forward(rows.first, rows.length, index, (left, right), weight, bias, rows.n_steps)
        ctx.rows, ctx.index = rows, index
        ctx.save_for_backward(left, right, weight, hidden, gates)
        return hidden

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, Tensor, Tensor, Tensor, Tensor]:
        from prism_irl.switching import triton_kernels as kernels

        left, right, weight, hidden, gates = ctx.saved_tensors
        rows = ctx.rows
        found = kernels.gru_backward(
            rows.first, rows.length, ctx.index, (left, right), weight, hidden, gates, grads[0].contiguous()
        )
        return None, None, *found
