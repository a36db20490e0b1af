"""A causal Transformer: h_t attends to what came before step t and to nothing later."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from prism_irl.errors import InputError

Carry = tuple[Tensor, ...]


class TransformerLayer(nn.Module):
    """Pre-norm self-attention and feed-forward layer with an explicit causal mask.

    Normalising before each sublayer keeps gradients alive from the first EM iterations on.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (B, heads, T, d / heads)."""
        q, k, v = self.qkv(self.norm_attention(x)).chunk(3, dim=-1)

        def split(u: Tensor) -> Tensor:
            heads: Tensor = u.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            return heads

        return split(q), split(k), split(v)

    def merge(self, x: Tensor, attended: Tensor) -> Tensor:
        """Residual connections around attention and feed-forward."""
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        result: Tensor = x + self.mlp(self.norm_mlp(x))
        return result

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Causal pass over a sequence: (output, keys, values)."""
        q, k, v = self.project(x)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.merge(x, attended), k, v

    def replaced(self, other: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Output at each step t when x_t is replaced by other_t while the past keeps its keys and values."""
        q, k, v = self.project(other)
        T = q.shape[-2]
        scores = q @ keys.transpose(-1, -2)
        scores = torch.where(torch.eye(T, dtype=torch.bool, device=q.device), (q * k).sum(-1, keepdim=True), scores)
        future = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)
        weights = torch.softmax(scores.masked_fill(future, -math.inf) / math.sqrt(q.shape[-1]), dim=-1)
        own = weights.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
        return self.merge(other, weights @ values + own * (v - values))


class Transformer(nn.Module):
    """Causal Transformer encoder with sinusoidal positions; h_t attends to x_1..x_t and to nothing later."""

    def __init__(self, width: int, heads: int = 4, layers: int = 1) -> None:
        super().__init__()
        if width % (2 * heads):
            raise InputError(f"The Transformer's width {width} must be a multiple of {2 * heads}; change `embedding`.")
        self.layers = nn.ModuleList(TransformerLayer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.hidden = width

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
        """No keys and no values yet."""
        layer = self.layers[0]
        heads = layer.heads if isinstance(layer, TransformerLayer) else 1
        empty = like.new_zeros(batch, heads, 0, self.hidden // heads)
        return (empty, empty) * len(self.layers)

    def step(self, x: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """One step with cached keys and values: x (B, d) → h (B, d)."""
        t = carry[0].shape[-2]
        x = x.unsqueeze(1) + self.positions(t, t + 1, x)
        cache: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, TransformerLayer)
            q, k, v = layer.project(x)
            k, v = torch.cat([carry[2 * i], k], -2), torch.cat([carry[2 * i + 1], v], -2)
            x = layer.merge(x, nn.functional.scaled_dot_product_attention(q, k, v))
            cache += [k, v]
        return self.norm(x).squeeze(1), tuple(cache)

    def alternatives(self, x: Tensor, others: Tensor, mask: Tensor) -> Tensor:
        """h_t had x_t been others[:, t, a]: (B, T, A, d); one action at a time keeps memory at (B, heads, T, T)."""
        position = self.positions(0, x.shape[1], x)
        x = x + position
        replaced = [other + position for other in others.unbind(2)]
        for layer in self.layers:
            assert isinstance(layer, TransformerLayer)
            x, keys, values = layer(x)
            replaced = [layer.replaced(other, keys, values) for other in replaced]
        return torch.stack([self.norm(other) for other in replaced], dim=2)
