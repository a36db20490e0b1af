"""Padded batches of ragged demonstrations: the only place where padding exists.

Trajectories of similar length share a batch, so that memory grows with the data and not with the longest
trajectory. Padding is on the right and always comes with its mask; `scatter` brings results back to the flat layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl.contexts import Contexts
from prism_irl.demonstrations import Demonstrations

EVALUATION_STEPS = 2**17
"""Padded steps of one evaluation batch: large enough for full speed, small enough for any laptop."""


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


def make_batches(
    demos: Demonstrations,
    batch_size: int,
    *,
    generator: np.random.Generator | None = None,
    device: torch.device | str = "cpu",
) -> list[Batch]:
    """Cut the trajectories into batches of about equal length; shuffled when a generator is given."""
    order = np.arange(len(demos)) if generator is None else generator.permutation(len(demos))
    lengths = demos.lengths[order].astype(np.float64)
    if generator is not None:  # a little noise, or trajectories of distinct lengths would always meet the same mates
        lengths *= generator.uniform(0.9, 1.1, len(lengths))
    order = order[np.argsort(lengths, kind="stable")]
    parts: Sequence[npt.NDArray[np.int64]] = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    if generator is not None:
        parts = [parts[i] for i in generator.permutation(len(parts))]
    return [_pad(demos, part, device) for part in parts]


def _pad(demos: Demonstrations, trajectories: npt.NDArray[np.int64], device: torch.device | str) -> Batch:
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


@dataclass(frozen=True, eq=False)
class Prepared:
    """Demonstrations as the two halves of EM read them: context rows for policies, batches for networks.

    Parameters
    ----------
    demos : Demonstrations
    rows : (n,) int64
        Context of every step; one past the last row for a state that the fit never named.
    device : torch device of the batches
    """

    demos: Demonstrations
    rows: npt.NDArray[np.int64]
    device: torch.device | str = "cpu"

    @classmethod
    def of(cls, demos: Demonstrations, contexts: Contexts, device: torch.device | str = "cpu") -> Prepared:
        """Encode the contexts once."""
        return cls(demos, contexts.encode(demos), device)

    @cached_property
    def pairs(self) -> npt.NDArray[np.int64]:
        """Context and action of every step as one index, row * A + action, (n,)."""
        return self.rows * self.demos.n_actions + self.demos.actions

    @cached_property
    def batches(self) -> list[Batch]:
        """Batches for evaluation, in a fixed order, longest trajectories first."""
        order = np.argsort(-self.demos.lengths, kind="stable")
        batches = []
        while len(order):  # as many as fit, so that one long trajectory does not leave the short ones alone
            size = max(EVALUATION_STEPS // int(self.demos.lengths[order[0]]), 1)
            batches.append(_pad(self.demos, order[:size], self.device))
            order = order[size:]
        return batches

    def shuffled(self, batch_size: int, generator: np.random.Generator) -> list[Batch]:
        """Batches for training, in a random order."""
        return make_batches(self.demos, batch_size, generator=generator, device=self.device)

    def gather(self, batch: Batch, flat: Tensor) -> Tensor:
        """Values of a flat tensor at the steps of a batch, on the batch's device."""
        return gather(batch._replace(steps=batch.steps.to(flat.device)), flat).to(batch.mask.device)
