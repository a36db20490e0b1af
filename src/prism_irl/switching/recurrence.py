"""Networks over (state, action) tokens in one compiled pass: projected tables, time loop and hand-written backward.

The input of a recurrent network is a sum of embeddings, so the tables can be projected once, P = E W_ih, and every
step gathers rows: no matrix product over all steps. Where a table has more rows than the batch has steps, the
embedded steps are projected instead. The loop over time and its gradient run compiled, four trajectories per thread;
the gradient of the recurrent weights is one matrix product at the end. Results equal `nn.RNN` and `nn.GRU`
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
    from prism_irl.switching import recurrence_kernels as kernels
    from prism_irl.switching.recurrence_kernels import add_rows

AVAILABLE = kernels is not None
_pool = threading.local()
POOLED = 8  # buffers kept per thread
WIDTHS = {"rnn": (1,), "gru": (1, 4)}
"""Of what a forward pass keeps, in hidden units: hidden states and gates. An LSTM is torch's own, which is as fast."""


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
    free += [torch.empty(0).set_(buffer.untyped_storage()) for buffer in buffers]
    del free[:-POOLED]


class Gradients(NamedTuple):
    """Gradients of one pass: of the tables and dense inputs that it read, and of the weights."""

    tables: list[Tensor | None]
    dense: Tensor | None
    weight: Tensor
    bias: Tensor | None  # of a GRU, whose recurrent bias does not simply add to the input's
    head: Tensor
    head_bias: Tensor


class Pass:
    """Recurrence and head of one batch; keeps the hidden states until `gradients` or `close`.

    Parameters
    ----------
    inputs : Inputs, at most three tables
    W, bias : recurrent weights (G, H) and bias (G,), the latter read by a GRU only
    head, head_bias : (O, H) and (O,)
    """

    def __init__(self, kind: str, inputs: Inputs, W: Tensor, bias: Tensor, head: Tensor, head_bias: Tensor) -> None:
        B, H = len(inputs.lengths), W.shape[1]
        none = inputs.lengths.new_zeros(B, 1)
        T = (inputs.rows[0] if inputs.rows else inputs.dense).shape[1]  # type: ignore[union-attr]
        absent = 3 - len(inputs.tables)
        self.kind, self.W, self.head, self.head_bias = kind, W, head, head_bias
        self.sizes = _array(inputs.lengths)
        self.index = [_array(rows) for rows in (*inputs.rows, *[none] * absent)]
        tables = [_array(table) for table in (*inputs.tables, *[torch.zeros(0, len(W))] * absent)]
        dense = torch.zeros(0, 0, len(W)) if inputs.dense is None else inputs.dense
        self.n_rows, self.has_dense = [len(table) for table in tables], inputs.dense is not None
        self.buffers = [take_buffer(B, T + 1, width * H) for width in WIDTHS[kind]]
        read = (self.sizes, (*self.index, *tables, _array(dense)), _padded(W.t()))
        own = (_array(bias),) if kind == "gru" else ()
        getattr(kernels, f"{kind}_forward")(*read, *own, *(buffer.numpy() for buffer in self.buffers))

    def logits(self) -> Tensor:
        """Outputs of every step, (B, T, O)."""
        B, entries, H = self.buffers[0].shape
        flat = torch.addmm(self.head_bias, self.buffers[0].view(-1, H), self.head.t())
        return flat.view(B, entries, -1)[:, 1:]

    def close(self) -> None:
        """Let others use the memory of the hidden states."""
        give_back(*self.buffers)
        self.buffers = []

    def gradients(self, dlogits: Tensor) -> Gradients:
        """Gradients from those of the outputs, (B, T, O), which must be zero at padding; closes the pass."""
        if not self.buffers:
            raise RuntimeError("The fused recurrence keeps its memory for one backward pass only.")
        kind, W, hidden = self.kind, self.W, self.buffers[0]
        (B, entries, H), G = hidden.shape, W.shape[0]
        T = entries - 1
        read = (self.sizes, _array(dlogits), _padded(self.head), _padded(W))
        if kind == "rnn":  # whose forward pass needs no gates
            self.buffers.append(take_buffer(B, T + 1, H))
        *_, states, gates = self.buffers
        getattr(kernels, f"{kind}_backward")(*read, states.numpy(), gates.numpy())
        # hidden states lag one entry behind the gates, so that row t of one meets h_{t-1} in the other
        rows, past = gates.view(B * (T + 1), -1), hidden.view(-1, H)
        dbias = None
        if kind == "gru":
            own = torch.cat([rows[:, : 2 * H].t() @ past, rows[:, 3 * H :].t() @ past])
            dbias = torch.cat([rows[:, : 2 * H].sum(0), rows[:, 3 * H :].sum(0)])
        else:
            own = rows.t() @ past
        dtables: list[Tensor | None] = []
        for index, n_rows in zip(self.index, self.n_rows, strict=True):
            dtables.append(torch.zeros(n_rows, G) if n_rows else None)
            if dtables[-1] is not None:
                parts = min(torch.get_num_threads(), 8)
                add_rows(index, self.sizes, gates.numpy(), dtables[-1].numpy(), parts)
        ddense = gates[:, :T, :G].clone() if self.has_dense else None
        shifted = nn.functional.pad(dlogits, (0, 0, 1, 0)).view(-1, dlogits.shape[-1])
        found = Gradients(dtables, ddense, own, dbias, shifted.t() @ past, shifted.sum(0))
        self.close()
        return found


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
    """`Pass` as one node of autograd's graph; hidden states never leave it, so their memory is reused."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        kind, inputs, _, _, _, _, W, bias, head, head_bias = arguments
        ran = Pass(kind, inputs, W, bias, head, head_bias)
        logits = ran.logits()
        if any(ctx.needs_input_grad):
            ctx.ran = ran
            ctx.save_for_backward(W, head)  # so that a change in place between the two passes is noticed
        else:
            ran.close()
        return logits

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dlogits: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors
        found: Gradients = ctx.ran.gradients(dlogits)
        return None, None, *found.tables, found.dense, found.weight, found.bias, found.head, found.head_bias
