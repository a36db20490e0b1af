"""Components and data of many fits at once, on a leading axis: recurrences, gates, recurrent chains, counted policies.

Parameters are those of the single models by the same names, stacked and padded to the largest K; an absent intention
has a logit of −10⁴, so that its probability is exactly zero and the gradient of its weights too. Inputs come from two
projected tables per fit, x_t = left[i_t] + right[j_t] with left = E_s W_ihᵀ + b and right the same for actions (or for
pairs (s_{t-1}, a_{t-1})), so that nothing of size (F, B, T, width) is multiplied. Plain torch with batched products is
the reference and serves the CPU and the LSTM; on a GPU the tanh recurrence and the GRU run as one Triton program per
block of rows (`switching.triton_kernels`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from prism_irl.data.batching import Prepared, minibatches
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.switching.base import Switching
from prism_irl.switching.forward_backward import forward_backward
from prism_irl.switching.gate import Gate
from prism_irl.switching.inference import use_triton
from prism_irl.switching.recurrent import RecurrentChain

Pair = tuple[np.ndarray, np.ndarray]
SHAPES = 8  # different lengths of minibatches, at most


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


class Flat:
    """Data of F fits as flat arrays on the device, one fit after the other.

    ``left`` and ``right`` are rows of the two token tables, ``pairs`` context · A + action of every step.
    """

    def __init__(
        self, data: Sequence[Prepared], device: torch.device, indices: Callable[[Demonstrations], Pair]
    ) -> None:
        self.data, self.device = data, device

        def join(parts: Iterable[np.ndarray], dtype: torch.dtype) -> Tensor:
            return torch.cat(
                [torch.from_numpy(np.ascontiguousarray(part).astype(np.int64)).to(dtype) for part in parts]
            ).to(device)

        tokens = [indices(one.demos) for one in data]
        self.left, self.right = (join((both[i] for both in tokens), torch.int32) for i in range(2))
        self.pairs = join((one.pairs for one in data), torch.int64)
        sizes = np.array([one.demos.n_steps for one in data])
        self.begin = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.n_steps = torch.from_numpy(sizes).to(device)
        self.lengths = [one.demos.lengths for one in data]
        self.most = max(map(len, self.lengths))
        self.longest = max(int(lengths.max()) for lengths in self.lengths)
        shortest = min(int(lengths.min()) for lengths in self.lengths)
        self.rounding = 1 if shortest == self.longest else 8 * -(-self.longest // (8 * SHAPES))

    def rows(self, parts: Sequence[np.ndarray], width: int) -> Rows:
        """Trajectories of each fit as a padded minibatch of ``width`` rows and a rounded length."""
        both = np.zeros((2, len(parts), width), np.int64)
        for f, (part, one) in enumerate(zip(parts, self.data, strict=True)):
            both[0, f, : len(part)] = self.begin[f] + one.demos.offsets[part]
            both[1, f, : len(part)] = self.lengths[f][part]
        n_steps = min(-(-int(both[1].max()) // self.rounding) * self.rounding, self.longest)
        there = torch.from_numpy(both)
        if self.device.type == "cuda":  # which fetches it in its turn, when it is at work, and nobody waits for it here
            there = there.pin_memory().to(self.device, non_blocking=True)
        return Rows(there[0], there[1].int(), n_steps)

    def shuffled(self, batch_size: int, seeds: Sequence[tuple[int, ...]]) -> Iterator[Rows]:
        """Minibatches of one epoch, each fit in the order of its own seed, filled up to few different shapes.

        What is computed for rows and steps that are not there costs less than launching every operation on its own.
        """
        orders = [
            minibatches(one.demos.lengths, batch_size, np.random.default_rng(seed))
            for one, seed in zip(self.data, seeds, strict=True)
        ]
        nothing = np.empty(0, np.int64)
        for m in range(max(map(len, orders))):
            yield self.rows([order[m] if m < len(order) else nothing for order in orders], batch_size)


ABSENT = -1e4
TRITON = {"rnn": (16, 32, 64, 128), "gru": (16, 32, 64)}
"""Hidden units that the kernels are made for."""
Parameters = dict[str, Tensor]


def recurrence(name: str, rows: Rows, index: tuple[Tensor, Tensor], tables: tuple[Tensor, Tensor], weight: Tensor,
               bias: Tensor) -> Tensor:  # fmt: skip
    """Hidden states h_0..h_T with h_0 = 0, (F, B, T + 1, H): kept together, so that products need no copy.

    ``index`` are two flat int32 arrays, rows of the ``tables`` (F, n, G·H) of projected inputs, bias included, at every
    step of the data; ``weight`` (F, G·H, H) and ``bias`` (F, G·H) belong to the recurrent product.
    """
    hidden: Tensor
    if weight.shape[-1] in TRITON.get(name, ()) and use_triton(weight.device):
        if name == "rnn":  # whose bias of the recurrent product adds up with that of the input
            hidden = _Recurrence.apply(rows, index, tables[0] + bias.unsqueeze(1), tables[1], weight)
        else:
            hidden = _Recurrence.apply(rows, index, *tables, weight, bias)
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


class _Recurrence(torch.autograd.Function):
    """The Triton kernels as a differentiable function; returns (F, B, T + 1, H) with a zero first.

    Of the tanh recurrence without a bias, and of the GRU with the one of its recurrent product.
    """

    @staticmethod
    def forward(ctx: Any, rows: Rows, index: tuple[Tensor, Tensor], *given: Tensor) -> Tensor:
        from prism_irl.switching import triton_kernels as kernels

        left, right, weight, *bias = (value.contiguous() for value in given)
        where = rows.first, rows.length, index, (left, right), weight
        run: Any = kernels.gru_forward if bias else kernels.rnn_forward
        found = run(*where, *bias, rows.n_steps)
        kept = found if bias else (found,)
        ctx.rows, ctx.index = rows, index
        ctx.save_for_backward(left, right, weight, *kept)
        hidden: Tensor = kept[0]
        return hidden

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        from prism_irl.switching import triton_kernels as kernels

        left, right, weight, *kept = ctx.saved_tensors
        run: Any = kernels.rnn_backward if len(kept) == 1 else kernels.gru_backward
        first, length = ctx.rows.first, ctx.rows.length
        found = run(first, length, ctx.index, (left, right), weight, *kept, grads[0].contiguous())
        return None, None, *found


# -- switching ---------------------------------------------------------------------------------------------------------


class StackedSwitching(ABC):
    """F switching models with one network shape."""

    def __init__(self, models: Sequence[Switching], device: torch.device) -> None:
        self.models = models
        self.sizes = [model.n_intentions for model in models]
        self.n_intentions = max(self.sizes)
        present = [[k < size for k in range(self.n_intentions)] for size in self.sizes]
        self.present = torch.tensor(present, device=device).view(len(models), 1, 1, -1)
        states = [{name: torch.from_numpy(value) for name, value in model.state().items()} for model in models]
        self.parameters: Parameters = {}
        for name in states[0]:
            sized = zip(states, self.sizes, strict=True)
            own = [self.resized(name, state[name], size, self.n_intentions) for state, size in sized]
            self.parameters[name] = torch.stack(own).to(device)

    @abstractmethod
    def _split(self, name: str) -> int:
        """Number of leading axes of a parameter that count intentions, once its outputs are unflattened."""

    def resized(self, name: str, value: Tensor, old: int, new: int) -> Tensor:
        """Parameter of one fit with ``new`` intentions in place of ``old``: cut off, or filled up with zeros."""
        axes, head = self._split(name), name.startswith("network.head")
        if axes == 0:
            return value
        square = value.unflatten(0, (old,) * axes) if head else value
        common = (slice(0, min(old, new)),) * axes
        out = value.new_zeros(*(new,) * axes, *square.shape[axes:])
        out[common] = square[common]
        return out.flatten(0, axes - 1) if head else out

    def tables(self, p: Parameters) -> tuple[Tensor, Tensor]:
        """Token embeddings that a step adds up: of the state, and of the action (or of the pair before)."""
        left, right = p["network.tokens.states.weight"], p["network.tokens.actions.weight"]
        if "network.tokens.state_before.weight" in p:
            before, action = p["network.tokens.state_before.weight"], p["network.tokens.action_before.weight"]
            both = before.unsqueeze(2) * action.unsqueeze(1) + right.unsqueeze(1)  # (F, S + 1, A + 1, d)
            right = both.flatten(1, 2)
        return left, right

    @abstractmethod
    def indices(self, demos: Demonstrations) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the two tables at every step."""

    @abstractmethod
    def loss(self, p: Parameters, outputs: Tensor, emission: Tensor, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """Sum over fits of each fit's own loss, responsibilities (F, B, T, K), log-likelihood (F, B, T).

        ``outputs`` (F, B, T, n_outputs) come from the network, ``emission`` (F, B, T, K) from the policies.
        """


def _previous(demos: Demonstrations, values: np.ndarray, nothing: int) -> np.ndarray:
    """Value of the step before, ``nothing`` at the first step of a trajectory."""
    before = np.empty(demos.n_steps, np.int64)
    before[1:] = values[:-1]
    before[demos.offsets[:-1]] = nothing
    return before


class StackedGate(StackedSwitching):
    """Independent gates, Eq. (posterior) and Eq. (loss)."""

    def __init__(self, models: Sequence[Switching], device: torch.device) -> None:
        super().__init__(models, device)
        gates = cast(Sequence[Gate], models)
        self.observe = gates[0].observe
        self.l1, self.kl = torch.tensor([[gate.l1, gate.kl] for gate in gates], device=device).T.unsqueeze(-1)

    def _split(self, name: str) -> int:
        return 1 if name.startswith("network.head") else 0

    def indices(self, demos: Demonstrations) -> tuple[np.ndarray, np.ndarray]:
        """State, and the action before (or the current one)."""
        actions = demos.actions.astype(np.int64)
        seen = _previous(demos, actions, demos.n_actions) if self.observe == "past" else actions
        return demos.states, seen

    def loss(self, p: Parameters, outputs: Tensor, emission: Tensor, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """Mean over trajectories, as `switching.gate.gate_loss`."""
        logits = outputs.masked_fill(~self.present, ABSENT)
        log_gate = torch.log_softmax(logits, dim=-1)
        real = rows.mask.unsqueeze(-1)
        with torch.no_grad():
            joint = torch.log_softmax(logits.double(), dim=-1) + emission
            likelihood = torch.logsumexp(joint, dim=-1)
            weights = (joint - likelihood.unsqueeze(-1)).exp() * real
            likelihood = likelihood * rows.mask
        w = weights.float()
        total = -(w * log_gate * real).sum((2, 3))
        pairs = real[:, :, 1:] & real[:, :, :-1]
        gate = log_gate.exp()
        jumps = (w[:, :, 1:] * (gate[:, :, 1:] - gate[:, :, :-1]).abs() * pairs).sum((2, 3))
        drift = (gate[:, :, :-1] * (log_gate[:, :, :-1] - log_gate[:, :, 1:]) * pairs).sum((2, 3))
        total = total + self.l1 * jumps + self.kl * drift
        trajectories = (rows.length > 0).sum(1).clamp_min(1)
        return (total.sum(1) / trajectories).sum(), weights, likelihood


class StackedChain(StackedSwitching):
    """Recurrent chains."""

    def __init__(self, models: Sequence[Switching], device: torch.device) -> None:
        super().__init__(models, device)
        chains = cast(Sequence[RecurrentChain], models)
        self.penalty = torch.tensor([chain.switch_penalty for chain in chains], device=device, dtype=torch.float64)

    def _split(self, name: str) -> int:
        return {"bias": 2, "initial_logits": 1}.get(name, 2 if name.startswith("network.head") else 0)

    def indices(self, demos: Demonstrations) -> tuple[np.ndarray, np.ndarray]:
        """State, and the pair of state and action before."""
        states, actions = demos.states.astype(np.int64), demos.actions.astype(np.int64)
        before, action = _previous(demos, states, demos.n_states), _previous(demos, actions, demos.n_actions)
        return demos.states, before * (demos.n_actions + 1) + action

    def loss(self, p: Parameters, outputs: Tensor, emission: Tensor, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """As `switching.recurrent.RecurrentChain.loss`."""
        K = self.n_intentions
        start = p["initial_logits"].double().masked_fill(~self.present[:, 0, 0], ABSENT)
        initial = torch.log_softmax(start, dim=-1)
        logits = p["bias"][:, None, None] + outputs.unflatten(-1, (K, K))
        kernel = torch.log_softmax(logits.double().masked_fill(~self.present.unsqueeze(-2), ABSENT), dim=-1)
        with torch.no_grad():
            smoothed, pairwise, likelihood = stacked_beliefs(initial, kernel, emission, rows)
        real = rows.mask
        steps = real.sum((1, 2)).clamp_min(1)
        first = (smoothed[:, :, 0] * initial.unsqueeze(1)).sum((1, 2))
        loss = -(first + (pairwise * kernel).sum((1, 2, 3, 4))) / steps
        here = self.present / self.present.sum(-1, keepdim=True)
        stay = (torch.diagonal(kernel, dim1=-2, dim2=-1).exp() * here).sum(-1)
        loss = loss + self.penalty * ((1.0 - stay) * real).sum((1, 2)) / steps
        return loss.sum(), smoothed * real.unsqueeze(-1), likelihood * real


def stacked_beliefs(initial: Tensor, kernel: Tensor, emission: Tensor, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """Smoothed (F, B, T, K), pairwise (F, B, T, K, K) and log-likelihood (F, B, T); zero at padding.

    ``initial`` (F, K) and ``kernel`` (F, B, T, K, K) are log-probabilities, as ``emission`` (F, B, T, K).
    """
    if use_triton(emission.device):
        from prism_irl.switching import triton_kernels as kernels

        beliefs = kernels.forward_backward(initial.exp(), kernel.exp(), emission, rows.length)
        return beliefs.smoothed, beliefs.pairwise, beliefs.log_likelihood
    found = [forward_backward(initial[f], kernel[f], emission[f], rows.mask[f]) for f in range(len(initial))]
    smoothed = torch.stack([one.smoothed.exp() for one in found]) * rows.mask.unsqueeze(-1)
    return smoothed, torch.stack([one.pairwise for one in found]), torch.stack([one.log_likelihood for one in found])


# -- policies ----------------------------------------------------------------------------------------------------------


class StackedPolicies:
    """Policies of F fits.

    Parameters
    ----------
    tables : the policies of each fit, at their first point
    """

    def __init__(self, tables: Sequence[TabularPolicies], device: torch.device) -> None:
        self.tables = tables
        F, A = len(tables), tables[0].n_actions
        K = max(table.n_intentions for table in tables)
        C = max(len(table.valid) for table in tables)
        self.n_intentions, self.rows = K, (C + 1) * A
        policies, counts = (np.zeros((F, C + 1, A, K)) for _ in range(2))
        valid = np.zeros((F, C + 1, A, 1), bool)
        policies[:] = 1.0 / A
        for f, table in enumerate(tables):
            n = table.valid.shape[0]
            valid[f, :n, :, 0] = table.valid
            policies[f, :n, :, : table.n_intentions] = table.policies.transpose(1, 2, 0)
            counts[f, :n, :, : table.n_intentions] = table.counts.transpose(1, 2, 0)
        self.policies, self.counts = (torch.from_numpy(values).to(device) for values in (policies, counts))
        self.valid = torch.from_numpy(valid).to(device)
        self.uniform = self.valid / self.valid.sum(2, keepdim=True).clamp_min(1)
        present = [[k < table.n_intentions for k in range(K)] for table in tables]
        self.present = torch.tensor(present, device=device).view(F, 1, 1, K)
        strengths = np.array([[table.smoothing, table.backoff] for table in tables])
        self.smoothing, self.backoff = torch.from_numpy(strengths.T).to(device).view(2, F, 1, 1, 1)
        self.flat = torch.tensor([not table.contexts.parents for table in tables], device=device)
        self.levels = self._levels(C, device)
        self.n_states = tables[0].contexts.starts[1]
        self.offset = (torch.arange(F, device=device) * self.rows).view(F, 1, 1)
        self.log_policies = torch.empty_like(self.policies).reshape(-1, K)
        self.accept()

    def _levels(self, dump: int, device: torch.device) -> list[tuple[Tensor, Tensor]]:
        """Rows of each level of the context tree and their parents, (F, n), padded with the last row."""
        levels = []
        for level in range(1, max(len(table.contexts.starts) for table in self.tables) - 1):
            rows, parents = [], []
            for table in self.tables:
                starts, trees = table.contexts.starts, table.contexts.parents
                has = level <= len(trees)
                rows.append(np.arange(starts[level], starts[level + 1]) if has else np.empty(0, np.int64))
                parents.append(trees[level - 1] if has else np.empty(0, np.int64))
            width = max(len(r) for r in rows)
            padded = np.full((2, len(rows), width), dump)
            for f, both in enumerate(zip(rows, parents, strict=True)):
                padded[:, f, : len(both[0])] = both
            own, above = torch.from_numpy(padded).long().to(device)
            levels.append((own, above))
        return levels

    def accept(self) -> None:
        """Take the present policies as those that steps are scored by."""
        self.log_policies.copy_(self.policies.clamp_min(1e-300).log().reshape(-1, self.n_intentions))

    def log_emission(self, pairs: Tensor) -> Tensor:
        """Log π_k(a_t | c_t) at (F, B, T) rows `context · A + action`, (F, B, T, K)."""
        index = (self.offset + pairs).reshape(-1)
        return self.log_policies.index_select(0, index).reshape(*pairs.shape, -1)

    def clear(self) -> None:
        """Forget the counts, before a pass over the data."""
        self.counts.zero_()

    def count(self, pairs: Tensor, weights: Tensor) -> None:
        """Add responsibilities (F, B, T, K), zero at padding, to the counts."""
        index = (self.offset + pairs).reshape(-1)
        self.counts.view(-1, self.n_intentions).index_add_(0, index, weights.reshape(-1, self.n_intentions))

    def maximise(self) -> None:
        """Policies from the counts, with back-off from short to long contexts."""

        def expand(index: Tensor) -> Tensor:
            return index[..., None, None].expand(-1, -1, *self.counts.shape[2:])

        self.counts[:, -1] = 0.0
        for rows, parents in reversed(self.levels):  # a step counts for every suffix of its context
            self.counts.scatter_add_(1, expand(parents), self.counts.gather(1, expand(rows)))
        states = slice(0, self.n_states)
        valid, uniform = self.valid[:, states], self.uniform[:, states]
        prior = self.smoothing * valid
        counts = self.counts[:, states]
        shared = _normalise(counts.sum(-1, keepdim=True) + prior, uniform)
        strength = torch.where(self.flat.view(-1, 1, 1, 1), 0.0, self.backoff)
        self.policies[:, states] = _normalise(counts + prior + strength * shared, uniform)
        for rows, parents in self.levels:
            index, above = expand(rows), expand(parents)
            own = self.counts.gather(1, index) + self.backoff * self.policies.gather(1, above)
            plain = self.uniform.expand_as(self.policies).gather(1, index)
            self.policies.scatter_(1, index, _normalise(own, plain))
        self.accept()

    def log_prior(self) -> Tensor:
        """What the pseudo-counts add to the objective of each fit, (F,); zero for longer histories."""
        seen = self.valid & self.present
        logs = torch.where(seen, self.policies.clamp_min(1e-300).log(), 0.0).sum((1, 2, 3))
        return torch.where(self.flat, self.smoothing.view(-1) * logs, 0.0)

    def write_back(self, values: dict[str, Any]) -> None:
        """Hand each fit its table; ``values`` holds stacked policies and counts."""
        if not torch.isfinite(values["policies"]).all():
            raise InputError("The policies of a stacked fit are not finite; fit on the CPU to see which one.")
        for f, table in enumerate(self.tables):
            own = {
                name: values[name][f, : len(table.valid), :, : table.n_intentions] for name in ("policies", "counts")
            }
            table.load_state({name: value.permute(2, 0, 1).contiguous().cpu().numpy() for name, value in own.items()})


def _normalise(counts: Tensor, otherwise: Tensor) -> Tensor:
    total = counts.sum(2, keepdim=True)
    return torch.where(total > 0, counts / torch.where(total > 0, total, 1.0), otherwise)
