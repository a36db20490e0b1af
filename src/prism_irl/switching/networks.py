"""Networks that summarise the past: RNN, LSTM, GRU and a causal Transformer over (state, action) tokens.

Each reads x_t = E_s(s_t) + E_a(a) (+ W o_t for observation vectors) and returns h_t, which depends on x_1..x_t only.
Besides the whole-sequence `forward` there is `step`, which carries a hidden state through a stream, and
`alternatives`, which answers "what would h_t be had x_t been different?" from the same carried state: a gate that
reads the current action needs it to be normalised over actions.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from prism_irl.data.batching import Batch
from prism_irl.errors import InputError
from prism_irl.switching import NetworkName
from prism_irl.switching.attention import Carry, Transformer
from prism_irl.switching.inference.dispatch import use_compiled
from prism_irl.switching.recurrence import fused


class Tokens(nn.Module):
    """Embedding of one step: x_t = E_s(s_t) + E_a(a) + W o_t, (B, T, d).

    With ``interaction`` it adds U(s_{t-1}) ⊙ V(a_{t-1}): what the last action met where it was taken (a blocked
    move, a collected reward) is a property of the pair, and a small tanh network learns it slowly from the sum. The
    action table has one row more than there are actions, for "no action yet"; the state table has one row more
    than there are states, kept at zero, for states that the fit never saw.
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
        """Embed states and actions of equal shape (…), and observation vectors (…, m) where there are any.

        ``previous_states`` (…) is read by the interaction only.
        """
        x: Tensor = self.states(states) + self.actions(actions)
        if self.state_before is not None and self.action_before is not None:
            x = x + self.state_before(previous_states) * self.action_before(actions)
        if self.observations is not None:
            if observations is None:
                raise InputError("The model was fitted with observation vectors; the new data has none.")
            width = self.observations.in_features
            if observations.shape[-1] != width:
                raise InputError(
                    f"The model was fitted with observation vectors of {width} numbers; the new ones have "
                    f"{observations.shape[-1]}."
                )
            x = x + self.observations(observations)
        return x


class Recurrent(nn.Module):
    """One layer of a vanilla (tanh) RNN, an LSTM or a GRU."""

    def __init__(self, name: str, width: int, hidden: int) -> None:
        super().__init__()
        kinds: dict[str, Any] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
        self.core = kinds[name](width, hidden, batch_first=True)
        self.name = name
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


class HistoryNetwork(nn.Module):
    """Tokens, a sequence core and a linear head: the part that all learned switching models share.

    Parameters
    ----------
    interaction : bool
        Also read the pair (s_{t-1}, a_{t-1}); for networks that observe the past.
    observe : "past" or "current"
        φ_t = (s_t, a_{t-1}), or the paper's φ_t = (s_t, a_t), which sees the action that it is scored on.
    n_outputs : int
        K logits for a gate, K² for a kernel.
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
        if isinstance(self.core, Recurrent) and self._can_fuse(batch):
            return fused.outputs(self.core.name, self._projected(batch, self.core.core), self.core.core, self.head)
        out: Tensor = self.head(self.core(self.embed(batch), batch.mask))
        return out

    def _can_fuse(self, batch: Batch) -> bool:
        return fused.AVAILABLE and use_compiled(batch.mask.device) and self.head.weight.dtype == torch.float32

    def _projected(self, batch: Batch, core: Any) -> fused.Inputs:
        """Inputs of the fused recurrence: rows of the tables times W_ih, each once; with observations, x W_ih."""
        tokens, lengths = self.tokens, batch.mask.sum(1)
        W: Tensor = core.weight_ih_l0
        # a GRU multiplies its recurrent bias by the reset gate; elsewhere both biases simply add
        bias: Tensor = core.bias_ih_l0 if self.core.name == "gru" else core.bias_ih_l0 + core.bias_hh_l0
        if tokens.observations is not None:
            return fused.Inputs(lengths, (), (), nn.functional.linear(self.embed(batch), W, bias))
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
            return fused.Inputs(lengths, index, tables, None)
        U, V = tokens.state_before, tokens.action_before
        if len(U.weight) * len(V.weight) > batch.states.numel():
            return fused.Inputs(lengths, index, tables, (U(before) * V(actions)) @ W.t())
        pairs = (U.weight.unsqueeze(1) * V.weight).flatten(0, 1) @ W.t()
        return fused.Inputs(lengths, (*index, before * len(V.weight) + actions), (*tables, pairs), None)

    def for_each_action(self, batch: Batch) -> Tensor:
        """Outputs (B, T, A, n_outputs) had the current action been a, from the same past; for observe="current"."""
        every = torch.arange(self.n_actions, device=batch.states.device).expand(*batch.states.shape, -1)
        observations = (
            None if batch.observations is None else batch.observations.unsqueeze(2).expand(-1, -1, self.n_actions, -1)
        )
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
        self,
        states: Tensor,
        actions: Tensor,
        observations: Tensor | None,
        carry: Carry,
        previous_states: Tensor | None = None,
    ) -> tuple[Tensor, Carry]:
        """One step of a stream; all inputs (B,) or (B, m), ``previous_states`` None at the first step."""
        before = torch.full_like(states, self.n_states) if previous_states is None else previous_states
        h, carry = self.core.step(self.tokens(states, actions, observations, before), carry)
        return self.head(h), carry
