"""Adam with minibatches and epochs, as every learned switching model uses it; its state can be saved as tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from prism_irl import checked
from prism_irl.data.batching import Batch, Prepared, minibatches


@dataclass
class Optimiser:
    """Settings of the M-step of a network, and the bound Adam instance.

    Parameters
    ----------
    learning_rate : float
    batch_size : int
        Trajectories per minibatch.
    epochs : int
        Passes over the data per M-step.
    """

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
        return {
            f"{name}/{key}": value
            for name, parameter in self.parameters.items()
            for key, value in self.adam.state.get(parameter, {}).items()
        }

    def load(self, state: dict[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self.adam.state.clear()
        for name, value in state.items():
            parameter_name, key = name.rsplit("/", 1)
            parameter = self.parameters[parameter_name]
            checked.shape(name, value.numpy(), () if key == "step" else tuple(parameter.shape))
            checked.finite(name, value.numpy())
            self.adam.state[parameter][key] = value.clone() if key == "step" else value.clone().to(parameter.device)
