"""One fit over several processes, as the data see it: each rank holds some trajectories, sums go over all of them.

EM sees data through sums: weighted counts (K, C, A), transitions (K, K), first steps (K,), log-likelihoods, and the
gradient of a minibatch. Each is the sum of what the ranks find on their own trajectories (`Shard`), so that one sum
over ranks makes the fit that one process would have made, up to rounding. Models ask `current()` which processes there
are, never how they talk to each other: `scale.distributed` knows, and makes a `World` of several the current one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.batching import Batch, Prepared, compact_index, minibatches, pad_batch
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Array = npt.NDArray[Any]


class World:
    """The processes of one fit; this one is alone."""

    rank = 0
    size = 1

    @property
    def writes(self) -> bool:
        """Whether this rank is the one that writes files and talks to people."""
        return self.rank == 0

    def total_(self, tensor: Tensor) -> None:
        """Sum over ranks, in place; every rank gets the same bits."""

    def total(self, values: Array) -> Array:
        """Sum over ranks."""
        return values

    def broadcast(self, values: Array) -> Array:
        """Values of the writing rank, for all; the others give an array of the same shape and type."""
        return values

    def prepare(
        self,
        demos: Demonstrations,
        trajectories: npt.NDArray[np.int64] | None,
        contexts: Contexts,
        device: torch.device | str,
    ) -> Prepared:
        """Some trajectories (None for all) as EM reads them: of several ranks each gets its shard.

        Where there are fewer trajectories than ranks, every rank gets all of them: the same numbers need no sum.
        """
        n = len(demos) if trajectories is None else len(trajectories)
        if self.size > 1 and n >= self.size:
            chosen = np.arange(n) if trajectories is None else trajectories
            return Shard.of_trajectories(self, demos, chosen, contexts, device)
        return Prepared.of(demos if trajectories is None else demos.subset(trajectories), contexts, device)

    @contextmanager
    def fetched(self, path: Path | None) -> Iterator[Path | None]:
        """A file that the writing rank may have, as a file that every rank can read; None where there is none."""
        yield path if path is not None and path.exists() else None


@dataclass(frozen=True, eq=False, kw_only=True)
class Shard(Prepared):
    """The trajectories of one rank, and how to come from sums over them to sums over all.

    Parameters
    ----------
    world : World
    mine : (N_rank,) int64
        Which of all trajectories are here, in increasing order.
    lengths : (N,) int64
        Steps of all trajectories.
    source, trajectories : Demonstrations, (N,) int64
        Where all trajectories come from, and which of its own they are.
    contexts : Contexts
    """

    world: World
    mine: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    source: Demonstrations
    trajectories: npt.NDArray[np.int64]
    contexts: Contexts

    @classmethod
    def of_trajectories(
        cls,
        world: World,
        source: Demonstrations,
        trajectories: npt.NDArray[np.int64],
        contexts: Contexts,
        device: torch.device | str = "cpu",
        mine: npt.NDArray[np.int64] | None = None,
    ) -> Shard:
        """The shard ``mine``; None shards by length, so that all ranks get about as many steps."""
        lengths = source.lengths[trajectories]
        if mine is None:
            mine = np.sort(np.argsort(-lengths, kind="stable")[world.rank :: world.size])
        here = source.subset(trajectories[mine])
        rows = compact_index(contexts.encode(here), contexts.n_contexts)
        return cls(
            here,
            rows,
            device,
            world=world,
            mine=mine,
            lengths=lengths,
            source=source,
            trajectories=trajectories,
            contexts=contexts,
        )

    def reshard(self, batch_size: int, generator: np.random.Generator) -> Shard:
        """The same data, sharded anew: of every minibatch of the coming epoch each rank gets an equal share.

        Ranks wait for each other in every minibatch; with shares left to chance, the larger one decides.
        """
        parts = minibatches(self.lengths, batch_size, generator)
        mine = np.sort(np.concatenate([part[self.world.rank :: self.world.size] for part in parts]))
        return self.of_trajectories(self.world, self.source, self.trajectories, self.contexts, self.device, mine)

    @property
    def is_whole(self) -> bool:
        """Other ranks have the rest."""
        return False

    @property
    def n_steps(self) -> int:
        """Number of steps of all ranks together."""
        return int(self.lengths.sum())

    @property
    def whole(self) -> Demonstrations:
        """Demonstrations of all ranks together."""
        return self.source.subset(self.trajectories)

    def _steps(self) -> npt.NDArray[np.int64]:
        """Position among all steps of every step here."""
        first = np.cumsum(self.lengths) - self.lengths
        return np.arange(self.demos.n_steps) + np.repeat(first[self.mine] - self.demos.offsets[:-1], self.demos.lengths)

    def share(self, flat: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Rows of the steps here; all ranks take those that the writing one has computed."""
        return self.world.broadcast(flat)[self._steps()]

    def collect(self, flat: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Values of all steps."""
        values = np.zeros((self.n_steps, *flat.shape[1:]), dtype=flat.dtype)
        values[self._steps()] = flat
        return self.world.total(values)

    def total(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sum over ranks."""
        return self.world.total(values)

    def mean(self, values: npt.NDArray[np.float64]) -> float:
        """Mean over the steps of all ranks."""
        return float(self.world.total(np.array([values.sum()]))[0] / self.n_steps)

    def shuffled(self, batch_size: int, generator: np.random.Generator) -> Iterable[Batch | None]:
        """The part that this rank has of every minibatch that one process would make."""
        local = np.full(len(self.lengths), -1)
        local[self.mine] = np.arange(len(self.mine))
        parts = minibatches(self.lengths, batch_size, generator)
        own = (local[part][local[part] >= 0] for part in parts)
        return (pad_batch(self.demos, part, self.device) if len(part) else None for part in own)

    def combine(self, parameters: Iterable[Tensor], size: int) -> None:
        """Gradients weighted by the items they are a mean over, summed over ranks, divided by all items."""
        import torch

        owned = [parameter for parameter in parameters if parameter.requires_grad]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in owned]
        flat = torch.cat([*(g.reshape(-1) for g in gradients), gradients[0].new_ones(1)]).mul_(size)
        self.world.total_(flat)
        flat /= flat[-1].clone()
        for parameter, gradient in zip(owned, flat[:-1].split([p.numel() for p in owned]), strict=True):
            parameter.grad = gradient.view(parameter.shape)


SOLO = World()
_current: ContextVar[World] = ContextVar("world", default=SOLO)


def current() -> World:
    """The world that fits are to be spread over: this process alone, unless it has joined others."""
    return _current.get()


@contextmanager
def spread_over(world: World) -> Iterator[World]:
    """Make these processes the ones that fits are spread over."""
    token = _current.set(world)
    try:
        yield world
    finally:
        _current.reset(token)
