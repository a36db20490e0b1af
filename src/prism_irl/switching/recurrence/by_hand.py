"""One training pass of a recurrent network without autograd; `switching.networks` is the reference (tested)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from prism_irl.data.batching import Batch
from prism_irl.switching.recurrence import fused

if TYPE_CHECKING:
    from prism_irl.switching.networks import HistoryNetwork


class ByHand:
    """One fused pass of a network over states and actions, and the gradients of all its parameters without a graph.

    For small minibatches building and walking autograd's graph takes longer than the arithmetic. With z = P_s[s] +
    P_a[a], P_s = E_s W^T and P_a = E_a W^T + b, the gradients of the tables P come from the fused pass, and those of
    E, W and b are products with them.
    """

    @torch.no_grad()
    def __init__(self, network: HistoryNetwork, batch: Batch) -> None:
        self.network, core = network, cast(Any, network.core.core)
        self.kind = cast(str, network.core.name)
        W, tokens = core.weight_ih_l0, network.tokens
        bias = core.bias_ih_l0 if self.kind == "gru" else core.bias_ih_l0 + core.bias_hh_l0
        self.present, states = network._present(batch)
        self.states = tokens.states.weight if self.present is None else tokens.states.weight[self.present]
        tables = (self.states @ W.t(), torch.addmm(bias, tokens.actions.weight, W.t()))
        inputs = fused.Inputs(batch.mask.sum(1), (states, network.actions_read(batch)), tables, None)
        weights = (core.weight_hh_l0, core.bias_hh_l0, network.head.weight, network.head.bias)
        self.forward_pass = fused.Pass(self.kind, inputs, *weights)
        self.logits = self.forward_pass.logits()

    @torch.no_grad()
    def backward(self, dlogits: Tensor) -> None:
        """Set the gradient of every parameter, from that of the outputs, (B, T, O), zero at padding."""
        core, tokens, head = cast(Any, self.network.core.core), self.network.tokens, self.network.head
        found, W = self.forward_pass.gradients(dlogits), core.weight_ih_l0
        of_states, of_actions, _ = found.tables
        assert of_states is not None
        assert of_actions is not None
        core.weight_ih_l0.grad = torch.addmm(of_actions.t() @ tokens.actions.weight, of_states.t(), self.states)
        core.weight_hh_l0.grad = found.weight
        core.bias_ih_l0.grad = of_actions.sum(0)
        core.bias_hh_l0.grad = core.bias_ih_l0.grad.clone() if found.bias is None else found.bias
        head.weight.grad, head.bias.grad = found.head, found.head_bias
        tokens.actions.weight.grad = of_actions @ W
        if self.present is None:
            states = of_states @ W
        else:
            states = torch.zeros_like(tokens.states.weight).index_copy_(0, self.present, of_states @ W)
        states[-1] = 0.0  # the row of unknown states stays at zero
        tokens.states.weight.grad = states
