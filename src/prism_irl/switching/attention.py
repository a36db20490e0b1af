"""A causal Transformer: h_t attends to the steps before t and to nothing later.

It looks back at most `SPAN` steps. Attention to everything before takes time with the square of a trajectory's length;
within a window time grows with the data, and trajectories up to the span are seen whole. The window moves in blocks of
its own length: queries of a block meet the keys of theirs and of the one before, and a mask leaves the last SPAN.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from prism_irl.errors import InputError

Carry = tuple[Tensor, ...]
SPAN = 1024
"""Steps that attention looks back over, the present one included."""
QUERIES = 128
"""Steps whose alternatives are compared with the past at once: bounds memory, whatever the length."""


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
    parts = [
        attention(
            q[..., first:last, :],
            k[..., key:last, :],
            v[..., key:last, :],
            attn_mask=in_view(first, last, key, span, q.device),
        )
        for first, last, key in windows(length, span, span)
    ]
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
        """No keys and no values yet, and no step."""
        layer = self.layers[0]
        heads = layer.heads if isinstance(layer, TransformerLayer) else 1
        empty = like.new_zeros(batch, heads, 0, self.hidden // heads)
        return (*(empty, empty) * len(self.layers), torch.zeros((), dtype=torch.int64))

    def step(self, x: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """One step with the keys and values that are still in view: x (B, d) → h (B, d)."""
        t = int(carry[-1])
        x = x.unsqueeze(1) + self.positions(t, t + 1, x)
        cache: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, TransformerLayer)
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
        for layer in self.layers:
            assert isinstance(layer, TransformerLayer)
            x, keys, values = layer(x)
            replaced = [layer.replaced(other, keys, values) for other in replaced]
        return torch.stack([self.norm(other) for other in replaced], dim=2)
