"""Adam with minibatches and epochs, as every learned switching model uses it; its state can be saved as tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


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

    def step(self, loss: Tensor) -> None:
        """One update."""
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
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
            self.adam.state[parameter][key] = value.clone() if key == "step" else value.clone().to(parameter.device)
