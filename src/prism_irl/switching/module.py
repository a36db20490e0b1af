"""Switching models that are made of tensors: parameters and tables are module state of torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from prism_irl.switching.base import Switching


class SwitchingModule(nn.Module, Switching):
    """A `Switching` that is a module, too, so that saving and devices come for free."""

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Parameters and buffers."""
        return {name: value.detach().cpu().numpy() for name, value in self.state_dict().items()}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`."""
        self.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})

    def reads(self, values: npt.NDArray[Any], device: torch.device | str = "cpu") -> Tensor:
        """Tensors."""
        return torch.from_numpy(values).to(device)
