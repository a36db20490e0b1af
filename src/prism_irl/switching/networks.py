"""Models that are made of tensors, and networks that summarise the past: RNN, LSTM, GRU and a causal Transformer.

Each network reads x_t = E_s(s_t) + E_a(a) (+ W o_t for observation vectors) and returns h_t, which depends on x_1..x_t
only. Besides the whole-sequence `forward` there is `step`, which carries a hidden state through a stream, and
`alternatives`, which answers "what would h_t be had x_t been different?" from the same carried state: a gate that
reads the current action needs it to be normalised over actions.

The Transformer looks back at most `SPAN` steps, so that time grows with the data. The window moves in blocks of its own
length: queries of a block meet the keys of theirs and of the one before, and a mask leaves the last SPAN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from prism_irl import checked
from prism_irl.data.batching import Batch, Prepared, minibatches
from prism_irl.errors import InputError
from prism_irl.switching import NetworkName, recurrence
from prism_irl.switching.base import Switching
from prism_irl.switching.inference import use_compiled

Carry = tuple[Tensor, ...]
SPAN = 1024
"""Steps that attention looks back over, the present one included."""
QUERIES = 128
"""Steps whose alternatives are compared with the past at once: bounds memory, whatever the length."""


class SwitchingModule(nn.Module, Switching):
    """A `Switching` that is a module, too, so that saving and devices come for free."""

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Parameters and buffers."""
        return {name: value.detach().cpu().numpy() for name, value in self.state_dict().items()}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`."""
        self.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})

    def reads(self, values: npt.NDArray[Any], device: torch.device | str = "cpu") -> Tensor:
        """Tensors."""
        return torch.from_numpy(values).to(device)

    optimiser: Optimiser | None = None
    """What trains it step by step, if anything does."""

    def training_state(self) -> dict[str, Tensor]:
        """Adam's moments."""
        return {} if self.optimiser is None else self.optimiser.state()

    def load_training_state(self, state: dict[str, Tensor]) -> None:
        """Restore Adam's moments."""
        if self.optimiser is not None:
            self.optimiser.load(state)


@dataclass
class Optimiser:
    """Settings of the M-step of a network, and the bound Adam instance; ``epochs`` are passes per M-step."""

    learning_rate: float = 1e-3
    batch_size: int = 32
    epochs: int = 1

    def bind(self, module: nn.Module) -> Optimiser:
        """Attach to the parameters of a module; returns self."""
        self.parameters = dict(module.named_parameters())
        self.adam = torch.optim.Adam(self.parameters.values(), lr=self.learning_rate)
        return self

    def minibatches(self, data: Prepared, seed: Any) -> Iterator[Batch]:
        """All minibatches of all epochs, in an order that ``seed`` fixes; `step` once for each."""
        generator = np.random.default_rng(seed)
        for _ in range(self.epochs):
            yield from data.shuffled(self.batch_size, generator)

    def parts(self, data: Prepared, seed: Any) -> Iterator[tuple[Prepared, bool]]:
        """The trajectories of the same minibatches, taken from the data one by one, and whether it is the last epoch.

        For data that are all here and larger than what one would hold twice.
        """
        generator = np.random.default_rng(seed)
        for epoch in range(self.epochs):
            for trajectories in minibatches(data.demos.lengths, self.batch_size, generator):
                yield data.subset(trajectories), epoch == self.epochs - 1

    def step(self, loss: Tensor) -> None:
        """One update down the gradient of the loss."""
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        on_cpu = all(parameter.device.type == "cpu" for parameter in self.parameters.values())
        self.adam.param_groups[0]["fused"] = on_cpu  # one pass over memory instead of eight, same update
        self.adam.step()

    def state(self) -> dict[str, Tensor]:
        """Moments and step counts by parameter name."""
        moments = {name: self.adam.state.get(parameter, {}) for name, parameter in self.parameters.items()}
        return {f"{name}/{key}": value for name, own in moments.items() for key, value in own.items()}

    def load(self, state: dict[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self.adam.state.clear()
        for name, value in state.items():
            parameter_name, key = name.rsplit("/", 1)
            parameter = self.parameters[parameter_name]
            checked.shape(name, value.numpy(), () if key == "step" else tuple(parameter.shape))
            checked.finite(name, value.numpy())
            self.adam.state[parameter][key] = value.clone() if key == "step" else value.clone().to(parameter.device)


class Tokens(nn.Module):
    """Embedding of a step: x_t = E_s(s_t) + E_a(a) + W o_t, (B, T, d), with ``interaction`` + U(s_{t-1}) ⊙ V(a_{t-1}).

    The latter says what the last action met where it was taken (a blocked move, a collected reward). The action table
    has one row more, for "no action yet"; the state table too, kept at zero, for states that the fit never saw.
    """

    def __init__(
        self, n_states: int, n_actions: int, n_observations: int, width: int, scale: float, interaction: bool = False
    ) -> None:
        super().__init__()
        self.states = nn.Embedding(n_states + 1, width, padding_idx=n_states)
        self.actions = nn.Embedding(n_actions + 1, width)
        self.observations = nn.Linear(n_observations, width, bias=False) if n_observations else None
        with torch.no_grad():
            self.states.weight[:n_states].normal_(0.0, scale)
            self.actions.weight.normal_(0.0, scale)
        self.state_before = nn.Embedding(n_states + 1, width) if interaction else None
        self.action_before = nn.Embedding(n_actions + 1, width) if interaction else None
        if self.state_before is not None:
            nn.init.normal_(self.state_before.weight, 0.0, 0.3 * scale)

    def forward(
        self, states: Tensor, actions: Tensor, observations: Tensor | None, previous_states: Tensor | None = None
    ) -> Tensor:
        """Embed states, actions and previous ones of equal shape (…), and observations (…, m) where there are any."""
        x: Tensor = self.states(states) + self.actions(actions)
        if self.state_before is not None and self.action_before is not None:
            x = x + self.state_before(previous_states) * self.action_before(actions)
        if self.observations is not None:
            if observations is None:
                raise InputError("The model was fitted with observation vectors; the new data has none.")
            width, found = self.observations.in_features, observations.shape[-1]
            if found != width:
                raise InputError(
                    f"The model was fitted with observation vectors of {width} numbers; the new ones have {found}."
                )
            x = x + self.observations(observations)
        return x


class Recurrent(nn.Module):
    """One layer of a vanilla (tanh) RNN, an LSTM or a GRU."""

    def __init__(self, name: str, width: int, hidden: int) -> None:
        super().__init__()
        kinds: dict[str, Any] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
        self.core = kinds[name](width, hidden, batch_first=True)
        self.name, self.compiled = name, name in recurrence.GATES
        self.n_carry = 2 if name == "lstm" else 1
        self.hidden = hidden

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, d) → (B, T, H)."""
        h: Tensor = self.core(x)[0]
        return h

    def initial(self, batch: int, like: Tensor) -> Carry:
        """Hidden state before the first step."""
        return tuple(like.new_zeros(1, batch, self.hidden) for _ in range(self.n_carry))

    def step(self, x: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """One step: x (B, d) → h (B, H), and the new hidden state."""
        out, state = self.core(x.unsqueeze(1), carry if self.n_carry == 2 else carry[0])
        return out.squeeze(1), state if self.n_carry == 2 else (state,)

    def alternatives(self, x: Tensor, others: Tensor, mask: Tensor) -> Tensor:
        """h_t had x_t been others[:, t, a]: x (B, T, d), others (B, T, A, d) → (B, T, A, H)."""
        B, _, A, d = others.shape
        carry, outputs = self.initial(B, x), []
        for x_t, other_t in zip(x.unbind(1), others.unbind(1), strict=True):
            repeated = tuple(c.repeat_interleave(A, dim=1) for c in carry)
            outputs.append(self.step(other_t.reshape(B * A, d), repeated)[0].reshape(B, A, -1))
            _, carry = self.step(x_t, carry)
        return torch.stack(outputs, 1)


def windows(length: int, span: int, block: int) -> list[tuple[int, int, int]]:
    """Blocks of queries first ≤ t < last, and the first key that any of them may see: (first, last, key)."""
    edges = [*range(0, length, block), length]
    return [(first, last, max(0, first - span + 1)) for first, last in pairwise(edges)]


def in_view(first: int, last: int, key: int, span: int, device: torch.device) -> Tensor:
    """Whether query t sees key u, t − span < u ≤ t, (last − first, last − key) bool."""
    back = torch.arange(first, last, device=device)[:, None] - torch.arange(key, last, device=device)
    return (back >= 0) & (back < span)


def attend(q: Tensor, k: Tensor, v: Tensor, span: int) -> Tensor:
    """Causal attention within a window; all (B, heads, T, d)."""
    attention, length = nn.functional.scaled_dot_product_attention, q.shape[-2]
    if length <= span:
        return attention(q, k, v, is_causal=True)
    parts = []
    for first, last, key in windows(length, span, span):
        seen, own = in_view(first, last, key, span, q.device), (k[..., key:last, :], v[..., key:last, :])
        parts.append(attention(q[..., first:last, :], *own, attn_mask=seen))
    return torch.cat(parts, dim=-2)


class TransformerLayer(nn.Module):
    """Pre-norm self-attention and feed-forward layer with an explicit causal mask.

    Normalising before each sublayer keeps gradients alive from the first EM iterations on.
    """

    def __init__(self, width: int, heads: int, span: int = SPAN) -> None:
        super().__init__()
        self.heads, self.span = heads, span
        self.norm_attention, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (B, heads, T, d / heads)."""
        qkv = self.qkv(self.norm_attention(x)).chunk(3, dim=-1)
        q, k, v = (u.unflatten(-1, (self.heads, -1)).transpose(1, 2) for u in qkv)
        return q, k, v

    def merge(self, x: Tensor, attended: Tensor) -> Tensor:
        """Residual connections around attention and feed-forward."""
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        result: Tensor = x + self.mlp(self.norm_mlp(x))
        return result

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Causal pass over a sequence: (output, keys, values)."""
        q, k, v = self.project(x)
        return self.merge(x, attend(q, k, v, self.span)), k, v

    def replaced(self, other: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Output at each step t when x_t is replaced by other_t while the past keeps its keys and values."""
        q, k, v = self.project(other)
        own = (q * k).sum(-1, keepdim=True)  # how much every step attends to its replaced self, (B, heads, T, 1)
        attended = []
        for first, last, key in windows(q.shape[-2], self.span, QUERIES):
            here = slice(first, last)
            scores = q[..., here, :] @ keys[..., key:last, :].transpose(-1, -2)
            seen = in_view(first, last, key, self.span, q.device)
            itself = torch.zeros_like(seen)
            itself[torch.arange(last - first), torch.arange(first - key, last - key)] = True
            scores = torch.where(itself, own[..., here, :], scores).masked_fill(~seen, -math.inf)
            weights = torch.softmax(scores / math.sqrt(q.shape[-1]), dim=-1)
            mine = weights.diagonal(first - key, dim1=-2, dim2=-1).unsqueeze(-1)
            past = weights @ values[..., key:last, :]
            attended.append(past + mine * (v[..., here, :] - values[..., here, :]))
        return self.merge(other, torch.cat(attended, dim=-2))


class Transformer(nn.Module):
    """Causal Transformer encoder with sinusoidal positions, whose layers look back at most ``span`` steps."""

    def __init__(self, width: int, heads: int = 4, layers: int = 1, span: int = SPAN) -> None:
        super().__init__()
        if width % (2 * heads):
            raise InputError(f"The Transformer's width {width} must be a multiple of {2 * heads}; change `embedding`.")
        self.layers = nn.ModuleList(TransformerLayer(width, heads, span) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.hidden, self.heads = width, heads

    def positions(self, first: int, last: int, like: Tensor) -> Tensor:
        """Sinusoidal code of positions first..last-1, (last - first, d)."""
        t = torch.arange(first, last, device=like.device, dtype=torch.float32).unsqueeze(1)
        half = torch.arange(0, self.hidden, 2, device=like.device, dtype=torch.float32)
        angle = t * torch.exp(-math.log(10000.0) * half / self.hidden)
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).to(like.dtype)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, d) → (B, T, d)."""
        x = x + self.positions(0, x.shape[1], x)
        for layer in self.layers:
            x, _, _ = layer(x)
        out: Tensor = self.norm(x)
        return out

    def initial(self, batch: int, like: Tensor) -> Carry:
        """No keys and no values yet, and no step."""
        empty = like.new_zeros(batch, self.heads, 0, self.hidden // self.heads)
        return (*(empty, empty) * len(self.layers), torch.zeros((), dtype=torch.int64))

    def step(self, x: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """One step with the keys and values that are still in view: x (B, d) → h (B, d)."""
        t = int(carry[-1])
        x = x.unsqueeze(1) + self.positions(t, t + 1, x)
        cache: list[Tensor] = []
        layer: Any
        for i, layer in enumerate(self.layers):
            q, k, v = layer.project(x)
            k = torch.cat([carry[2 * i], k], -2)[..., -layer.span :, :]
            v = torch.cat([carry[2 * i + 1], v], -2)[..., -layer.span :, :]
            x = layer.merge(x, nn.functional.scaled_dot_product_attention(q, k, v))
            cache += [k, v]
        return self.norm(x).squeeze(1), (*cache, carry[-1] + 1)

    def alternatives(self, x: Tensor, others: Tensor, mask: Tensor) -> Tensor:
        """h_t had x_t been others[:, t, a]: (B, T, A, d), one action at a time."""
        position = self.positions(0, x.shape[1], x)
        x = x + position
        replaced = [other + position for other in others.unbind(2)]
        layer: Any
        for layer in self.layers:
            x, keys, values = layer(x)
            replaced = [layer.replaced(other, keys, values) for other in replaced]
        return torch.stack([self.norm(other) for other in replaced], dim=2)


class HistoryNetwork(nn.Module):
    """Tokens, a sequence core and a linear head with ``n_outputs``: K logits for a gate, K² for a kernel.

    It reads φ_t = (s_t, a_{t-1}) ("past"), or the paper's φ_t = (s_t, a_t) ("current"), which sees the action that it
    is scored on; with ``interaction`` also the pair (s_{t-1}, a_{t-1}).
    """

    def __init__(
        self,
        name: NetworkName,
        *,
        n_states: int,
        n_actions: int,
        n_observations: int,
        n_outputs: int,
        embedding: int,
        hidden: int,
        observe: Literal["past", "current"],
        token_scale: float = 1.0,
        head_scale: float = 1.0,
        interaction: bool = False,
    ) -> None:
        super().__init__()
        self.n_states, self.n_actions, self.observe = n_states, n_actions, observe
        self.interaction = interaction
        self.tokens = Tokens(n_states, n_actions, n_observations, embedding, token_scale, interaction)
        self.core = Transformer(embedding) if name == "transformer" else Recurrent(name, embedding, hidden)
        self.head = nn.Linear(self.core.hidden, n_outputs)
        with torch.no_grad():
            self.head.weight.mul_(head_scale)
            self.head.bias.zero_()

    def actions_read(self, batch: Batch) -> Tensor:
        """The action that the network reads at every step, (B, T)."""
        return batch.previous if self.observe == "past" else batch.actions

    def before(self, batch: Batch) -> Tensor | None:
        """The state before every step, (B, T), where the interaction reads it."""
        if not self.interaction:
            return None
        nothing = torch.full_like(batch.states[:, :1], self.n_states)
        return torch.cat([nothing, batch.states[:, :-1]], dim=1)

    def embed(self, batch: Batch) -> Tensor:
        """Inputs x (B, T, d) of a batch."""
        x: Tensor = self.tokens(batch.states, self.actions_read(batch), batch.observations, self.before(batch))
        return x

    def forward(self, batch: Batch) -> Tensor:
        """Outputs (B, T, n_outputs) along the sequences that happened; at padding they mean nothing."""
        core, fine = self.core, use_compiled(batch.mask.device) and self.head.weight.dtype == torch.float32
        if isinstance(core, Recurrent) and core.compiled and fine:
            return recurrence.outputs(core.name, self._projected(batch, core.core), core.core, self.head)
        out: Tensor = self.head(core(self.embed(batch), batch.mask))
        return out

    def _projected(self, batch: Batch, core: Any) -> recurrence.Inputs:
        """Inputs of the fused recurrence: rows of the tables times W_ih, each once; with observations, x W_ih."""
        tokens, lengths = self.tokens, batch.mask.sum(1)
        W: Tensor = core.weight_ih_l0
        # a GRU multiplies its recurrent bias by the reset gate; elsewhere both biases simply add
        bias: Tensor = core.bias_ih_l0 if self.core.name == "gru" else core.bias_ih_l0 + core.bias_hh_l0
        if tokens.observations is not None:
            return recurrence.Inputs(lengths, (), (), nn.functional.linear(self.embed(batch), W, bias))
        actions, before = self.actions_read(batch), self.before(batch)
        of_actions = nn.functional.linear(tokens.actions.weight, W, bias)
        if tokens.states.num_embeddings > batch.states.numel():  # most of a large table is not in a batch
            present, states = torch.unique(batch.states, return_inverse=True)
            of_states = tokens.states(present)
        else:
            states = batch.states
            if int(states.max()) > self.n_states or int(states.min()) < 0:
                raise IndexError("A state is outside the table of the network.")
            known, unknown = tokens.states.weight[:-1], tokens.states.weight[-1:].detach()  # which no gradient moves
            of_states = torch.cat([known, unknown])
        index, tables = (states, actions), (of_states @ W.t(), of_actions)
        if before is None or tokens.state_before is None or tokens.action_before is None:
            return recurrence.Inputs(lengths, index, tables, None)
        U, V = tokens.state_before, tokens.action_before
        if len(U.weight) * len(V.weight) > batch.states.numel():
            return recurrence.Inputs(lengths, index, tables, (U(before) * V(actions)) @ W.t())
        pairs = (U.weight.unsqueeze(1) * V.weight).flatten(0, 1) @ W.t()
        return recurrence.Inputs(lengths, (*index, before * len(V.weight) + actions), (*tables, pairs), None)

    def for_each_action(self, batch: Batch) -> Tensor:
        """Outputs (B, T, A, n_outputs) had the current action been a, from the same past; for observe="current"."""
        every = torch.arange(self.n_actions, device=batch.states.device).expand(*batch.states.shape, -1)
        observations = batch.observations
        if observations is not None:
            observations = observations.unsqueeze(2).expand(-1, -1, self.n_actions, -1)
        others = self.tokens(batch.states.unsqueeze(-1).expand_as(every), every, observations)
        out: Tensor = self.head(self.core.alternatives(self.embed(batch), others, batch.mask))
        return out

    def initial(self, batch: int = 1) -> Carry:
        """Carried state before the first step."""
        return self.core.initial(batch, self.head.weight)

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return self.head.weight.device

    def step(
        self, states: Tensor, actions: Tensor, observations: Tensor | None, carry: Carry, before: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        """One step of a stream; all inputs (B,) or (B, m), the states ``before`` None at the first step."""
        before = torch.full_like(states, self.n_states) if before is None else before
        h, carry = self.core.step(self.tokens(states, actions, observations, before), carry)
        return self.head(h), carry
