"""Networks over (state, action) tokens in one compiled pass: projected tables, time loop and hand-written backward.

The input of a recurrent network is a sum of embeddings, so the tables can be projected once, P = E W_ih, and every
step gathers rows: no matrix product over all steps. Where a table has more rows than the batch has steps, the
embedded steps are projected instead. The loop over time and its gradient run compiled, four trajectories per thread;
the gradient of the recurrent weights is one matrix product at the end. Results equal `nn.RNN`, `nn.GRU` and `nn.LSTM`
up to rounding (tested); `switching.networks` chooses this path by itself, `PRISM_BACKEND=torch` forces theirs.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

kernels: Any = None
with contextlib.suppress(ImportError):  # numba is an extra
    from prism_irl.switching import fused_kernels as kernels

AVAILABLE = kernels is not None
N_GATES = {"rnn": 1, "lstm": 4, "gru": 3}
_pool = threading.local()
POOLED = 8  # buffers kept per thread


class Inputs(NamedTuple):
    """What a network reads at every step of a batch, already projected: Σ tables[i][rows[i]] + dense.

    ``rows`` (B, T) int64 each; ``tables`` (rows, G); ``dense`` (B, T, G) or None; ``lengths`` (B,) real steps. The
    bias is part of one of them.
    """

    lengths: Tensor
    rows: tuple[Tensor, ...]
    tables: tuple[Tensor, ...]
    dense: Tensor | None


def take_buffer(*shape: int) -> Tensor:
    """Uninitialised float32 memory, used before where possible: fresh pages cost more than the writes themselves."""
    n = int(np.prod(shape))
    free: list[Tensor] = _pool.__dict__.setdefault("free", [])
    fitting = [i for i, buffer in enumerate(free) if buffer.numel() >= n]
    if fitting:
        best = min(fitting, key=lambda i: free[i].numel())
        if free[best].numel() <= 4 * n:  # a small batch must not hold the memory of a large one
            return free.pop(best)[:n].view(shape)
    return torch.empty(n).view(shape)


def give_back(*buffers: Tensor) -> None:
    """Return buffers whose contents nobody needs any more."""
    free: list[Tensor] = _pool.__dict__.setdefault("free", [])
    for buffer in buffers:
        whole = torch.empty(0).set_(buffer.untyped_storage())
        free.append(whole)
    del free[:-POOLED]


def outputs(kind: str, inputs: Inputs, core: Any, head: nn.Linear) -> Tensor:
    """Head(h_t) of every step, (B, T, O); zero hidden state after the end of a trajectory and its block mates."""
    G = N_GATES[kind] * core.hidden_size
    index = [*inputs.rows, *([inputs.lengths.new_zeros(len(inputs.lengths), 1)] * (3 - len(inputs.rows)))]
    tables = [*inputs.tables, *([torch.zeros(0, G)] * (3 - len(inputs.tables)))]
    dense = torch.zeros(0, 0, G) if inputs.dense is None else inputs.dense
    T = (inputs.rows[0] if inputs.rows else dense).shape[1]
    bias = core.bias_hh_l0 if kind == "gru" else core.bias_hh_l0.detach()
    result: Tensor = _Fused.apply(
        kind, T, inputs.lengths, *index, *tables, dense, core.weight_hh_l0, bias, head.weight, head.bias
    )
    return result


def _array(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy()


def _padded(W: Tensor) -> Any:
    """Rows filled up with zeros to a multiple of four."""
    return _array(nn.functional.pad(W.detach(), (0, 0, 0, -len(W) % 4)))


class _Fused(torch.autograd.Function):
    """Tables, recurrence and head as one node of the graph; hidden states never leave it, so their memory is reused."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        kind, T, lengths, i1, i2, i3, P1, P2, P3, dense, W, bias, head, head_bias = arguments
        B, H = len(lengths), W.shape[1]
        sizes, index, gathered = _array(lengths), [_array(i) for i in (i1, i2, i3)], [_array(P) for P in (P1, P2, P3)]
        hidden = take_buffer(B, T + 1, H)
        buffers = [hidden]
        read = (sizes, *index, *gathered, _array(dense), _padded(W.t()))
        if kind == "rnn":
            kernels.rnn_forward(*read, hidden.numpy())
        elif kind == "lstm":
            buffers += [take_buffer(B, T + 1, H), take_buffer(B, T + 1, 4 * H)]
            kernels.lstm_forward(*read, *(buffer.numpy() for buffer in buffers))
        else:
            buffers += [take_buffer(B, T + 1, 4 * H)]
            kernels.gru_forward(*read, _array(bias), *(buffer.numpy() for buffer in buffers))
        logits = torch.addmm(head_bias, hidden.view(-1, H), head.t()).view(B, T + 1, -1)[:, 1:]
        if any(ctx.needs_input_grad):
            ctx.kind, ctx.buffers, ctx.n_rows = kind, buffers, [len(P) for P in (P1, P2, P3, dense)]
            ctx.save_for_backward(lengths, i1, i2, i3, W, head)
        else:
            give_back(*buffers)
        return logits

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dlogits: Tensor) -> tuple[Tensor | None, ...]:
        lengths, i1, i2, i3, W, head = ctx.saved_tensors
        if ctx.buffers is None:
            raise RuntimeError("The fused recurrence keeps its memory for one backward pass only.")
        kind, hidden = ctx.kind, ctx.buffers[0]
        (B, entries, H), G = hidden.shape, W.shape[0]
        T = entries - 1
        sizes, output = _array(lengths), _array(dlogits)
        read = (sizes, output, _padded(head), _padded(W))
        if kind == "rnn":
            gates = take_buffer(B, T + 1, H)
            kernels.rnn_backward(*read, hidden.numpy(), gates.numpy())
            buffers = [hidden, gates]
        elif kind == "lstm":
            buffers, gates = ctx.buffers, ctx.buffers[2]
            kernels.lstm_backward(*read, ctx.buffers[1].numpy(), gates.numpy())
        else:
            buffers, gates = ctx.buffers, ctx.buffers[1]
            kernels.gru_backward(*read, hidden.numpy(), gates.numpy())
        ctx.buffers = None
        # hidden states lag one entry behind the gates, so that row t of one meets h_{t-1} in the other
        rows, past = gates.view(B * (T + 1), -1), hidden.view(-1, H)
        dbias = None
        if kind == "gru":
            own = torch.cat([rows[:, : 2 * H].t() @ past, rows[:, 3 * H :].t() @ past])
            dbias = torch.cat([rows[:, : 2 * H].sum(0), rows[:, 3 * H :].sum(0)])
        else:
            own = rows.t() @ past
        dtables: list[Tensor | None] = []
        for index, n_rows in zip((i1, i2, i3), ctx.n_rows[:3], strict=True):
            dtables.append(torch.zeros(n_rows, G) if n_rows else None)
            if dtables[-1] is not None:
                parts = min(torch.get_num_threads(), 8)
                kernels.add_rows(_array(index), sizes, gates.numpy(), dtables[-1].numpy(), parts)
        ddense = gates[:, :T, :G].clone() if ctx.n_rows[3] else None
        flat = dlogits.reshape(-1, dlogits.shape[-1])
        shifted = nn.functional.pad(dlogits, (0, 0, 1, 0)).view(-1, dlogits.shape[-1])
        dhead, dhead_bias = shifted.t() @ past, flat.sum(0)
        give_back(*buffers)
        return None, None, None, None, None, None, *dtables, ddense, own, dbias, dhead, dhead_bias
