"""Data of many fits on one device: flat arrays, from which every fit takes minibatches of its own order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from prism_irl.data.batching import Prepared, minibatches
from prism_irl.data.demonstrations import Demonstrations

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
    """Data of F fits as flat arrays on the device: table rows and context rows of every step, one fit after the other.

    Attributes
    ----------
    left, right : int32, rows of the two token tables; pairs : int64, context · A + action
    longest, most : steps of the longest trajectory, and the largest number of trajectories
    """

    def __init__(
        self,
        data: Sequence[Prepared],
        device: torch.device,
        indices: Callable[[Demonstrations], Pair] | None = None,
    ) -> None:
        self.data, self.device = data, device

        def join(parts: Iterable[np.ndarray], dtype: torch.dtype) -> Tensor:
            return torch.cat(
                [torch.from_numpy(np.ascontiguousarray(part).astype(np.int64)).to(dtype) for part in parts]
            ).to(device)

        if indices is not None:  # a chain without network reads no tokens
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
        there = self._sent(both)
        return Rows(there[0], there[1].int(), n_steps)

    def _sent(self, values: np.ndarray) -> Tensor:
        """A copy on the device; a GPU that is at work fetches it in its turn, and nobody waits for it here."""
        own = torch.from_numpy(values)
        return own.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else own

    def in_order(self, width: int) -> Iterator[Rows]:
        """All trajectories of every fit, ``width`` of each at a time."""
        for first in range(0, self.most, width):
            yield self.rows([np.arange(first, min(first + width, len(own))) for own in self.lengths], width)

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
