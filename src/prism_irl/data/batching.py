"""How an iteration of EM reads the data: padded batches, parts, and statistics that add up over parts.

Trajectories of similar length share a batch, so that memory grows with the data and not with the longest
trajectory. Padding is on the right and always comes with its mask; `scatter` brings results back to the flat layout.

An M-step reads nothing but `Stats`. Those of a minibatch, of a part of a mapped file and of a worker's share are added
up to those of all data, so that data in memory, on disk and on workers differ only in what `Parts` yields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations, between, cuts, steps_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

FloatArray = npt.NDArray[np.float64]
EVALUATION_STEPS = 2**17
"""Padded steps of one evaluation batch: large enough for full speed, small enough for any laptop."""
KEPT_STEPS = 2**20
"""Data of more steps are padded anew whenever they are read: forty bytes per step are too many to keep."""


class Batch(NamedTuple):
    """B trajectories padded to the longest of them, T steps.

    ``states``, ``actions``, ``previous`` (B, T) int64, where ``previous`` is the action before (A at the first
    step); ``mask`` (B, T) bool, true at real steps; ``steps`` (B, T) int64 positions in the flat arrays; ``real``
    (m,) int64 positions of the real steps in the flattened batch; ``observations`` (B, T, m) float32 or None.
    """

    states: Tensor
    actions: Tensor
    previous: Tensor
    mask: Tensor
    steps: Tensor
    real: Tensor
    observations: Tensor | None

    @property
    def n_steps(self) -> int:
        """Number of real steps."""
        return int(self.mask.sum())


def gather(batch: Batch, flat: Tensor) -> Tensor:
    """Values of a flat (n, …) tensor at the steps of the batch, (B, T, …); padding repeats a real step."""
    return flat.index_select(0, batch.steps.reshape(-1)).reshape(*batch.steps.shape, *flat.shape[1:])


def scatter(batch: Batch, values: Tensor, flat: Tensor) -> None:
    """Write (B, T, …) values of the real steps into a flat (n, …) tensor."""
    steps = batch.steps.reshape(-1).index_select(0, batch.real)
    real = values.reshape(-1, *values.shape[2:]).index_select(0, batch.real)
    flat.index_copy_(0, steps.to(flat.device), real.to(flat))


def minibatches(
    lengths: npt.NDArray[np.int64], batch_size: int, generator: np.random.Generator
) -> list[npt.NDArray[np.int64]]:
    """Trajectories of each batch, of about equal ``lengths`` (N,), shuffled."""
    order = generator.permutation(len(lengths))
    # A little noise, or trajectories of distinct lengths would always meet the same mates.
    about = lengths[order] * generator.uniform(0.9, 1.1, len(order))
    order = order[np.argsort(about, kind="stable")]
    parts = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    return [parts[i] for i in generator.permutation(len(parts))]


def pad_batch(demos: Demonstrations, trajectories: npt.NDArray[np.int64], device: torch.device | str = "cpu") -> Batch:
    """Some trajectories, padded on the right to the longest of them."""
    import torch  # here, because data that are only counted are never padded

    lengths = demos.lengths[trajectories]
    position = np.arange(int(lengths.max()))
    mask = position < lengths[:, None]
    steps = demos.offsets[trajectories][:, None] + np.minimum(position, lengths[:, None] - 1)
    actions = demos.actions[steps].astype(np.int64)
    previous = np.concatenate([np.full((len(steps), 1), demos.n_actions), actions[:, :-1]], axis=1)

    def tensor(values: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)

    return Batch(
        states=tensor(demos.states[steps].astype(np.int64)),
        actions=tensor(actions),
        previous=tensor(previous),
        mask=tensor(mask),
        steps=tensor(steps),
        real=tensor(np.flatnonzero(mask)),
        observations=None if demos.observations is None else tensor(demos.observations[steps]),
    )


def compact_index(index: npt.NDArray[np.int64], largest: int) -> npt.NDArray[np.integer]:
    """Row numbers up to ``largest`` in half the memory, where the numbers allow it."""
    return index.astype(np.int32) if largest < 2**31 else index


@dataclass(frozen=True, eq=False)
class Prepared:
    """Demonstrations as the two halves of EM read them: context rows for policies, batches for networks.

    ``rows`` (n,) is the context of every step, one past the last row for a state that the fit never named.
    """

    demos: Demonstrations
    rows: npt.NDArray[np.integer]
    device: torch.device | str = "cpu"

    @classmethod
    def of(cls, demos: Demonstrations, contexts: Contexts, device: torch.device | str = "cpu") -> Prepared:
        """Encode the contexts once."""
        return cls(demos, compact_index(contexts.encode(demos), contexts.n_contexts), device)

    @cached_property
    def pairs(self) -> npt.NDArray[np.integer]:
        """Context and action of every step as one index, row * A + action, (n,)."""
        A, rows = self.demos.n_actions, self.rows.astype(np.int64)
        return compact_index(rows * A + self.demos.actions, (int(rows.max(initial=0)) + 1) * A)

    @cached_property
    def last_pair(self) -> int:
        """The largest of `pairs`: what a table must hold before compiled code looks it up."""
        return int(self.pairs.max(initial=-1))

    @cached_property
    def longest_first(self) -> npt.NDArray[np.int64]:
        """Trajectories by falling length, (N,)."""
        return np.argsort(-self.demos.lengths, kind="stable")

    @property
    def batches(self) -> Iterable[Batch]:
        """Batches for evaluation, in a fixed order, longest trajectories first; kept unless the data are large."""
        return self._kept if self.demos.n_steps <= KEPT_STEPS else self._evaluation()

    @cached_property
    def _kept(self) -> list[Batch]:
        return list(self._evaluation())

    def _evaluation(self) -> Iterator[Batch]:
        order = self.longest_first
        while len(order):  # as many as fit, so that one long trajectory does not leave the short ones alone
            size = max(EVALUATION_STEPS // int(self.demos.lengths[order[0]]), 1)
            yield pad_batch(self.demos, order[:size], self.device)
            order = order[size:]

    def shuffled(self, batch_size: int, generator: np.random.Generator) -> Iterable[Batch]:
        """Batches for training, in a random order, padded one by one."""
        return (
            pad_batch(self.demos, part, self.device) for part in minibatches(self.demos.lengths, batch_size, generator)
        )

    def parts(self, most: int) -> Iterator[Prepared]:
        """Consecutive trajectories, at most so many steps at a time (or one trajectory), not copied."""
        offsets = self.demos.offsets
        for first, last in cuts(offsets, most):
            rows = self.rows[offsets[first] : offsets[last]]
            yield Prepared(between(self.demos, first, last), rows, self.device)

    def subset(self, trajectories: npt.NDArray[np.int64]) -> Prepared:
        """Some trajectories, in the order given."""
        rows = self.rows[steps_of(self.demos.offsets, trajectories)]
        return Prepared(self.demos.subset(trajectories), rows, self.device)

    def gather(self, batch: Batch, flat: Any) -> Tensor:
        """Values of a flat tensor or array at the steps of a batch, on the batch's device."""
        import torch

        flat = torch.as_tensor(flat)
        return gather(batch._replace(steps=batch.steps.to(flat.device)), flat).to(batch.mask.device)

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return self.demos.n_steps


class Stats(dict[str, Any]):
    """Named statistics: arrays, whose sum is that of their entries, and `Rows`, whose sum is their concatenation."""

    def __add__(self, other: Mapping[str, Any]) -> Stats:
        """Statistics of both; a name that only one side has is taken from there."""
        both = {name: value + other[name] if name in other else value for name, value in self.items()}
        return Stats({**other, **both})

    def __sub__(self, other: Mapping[str, Any]) -> Stats:
        """What is left of these sums without those of a part."""
        return Stats({name: value - other[name] for name, value in self.items()})


class Rows:
    """What an iterative M-step reads of every step: arrays of m rows each, one after the other when added."""

    def __init__(self, *arrays: npt.NDArray[Any]) -> None:
        self.parts = [arrays]

    def __add__(self, other: Rows) -> Rows:
        """Rows of both."""
        both = Rows()
        both.parts = [*self.parts, *other.parts]
        return both

    def joined(self) -> tuple[npt.NDArray[Any], ...]:
        """Each array over all parts, (n, …), not copied where there is a single part."""
        if len(self.parts) == 1:
            return self.parts[0]
        return tuple(np.concatenate(columns) for columns in zip(*self.parts, strict=True))


class Parts:
    """Data as an iteration of EM reads them: all at once, or ``most`` steps (or one trajectory) at a time."""

    def __init__(self, data: Prepared, most: int | None = None) -> None:
        self.data, self.most = data, most

    def __iter__(self) -> Iterator[Prepared]:
        """Yield the parts, in order."""
        return iter([self.data]) if self.most is None else self.data.parts(self.most)
