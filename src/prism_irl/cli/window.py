"""Seconds as steps (`--window 0.5s`), by `--hz`, the times of a table or the frames per second of a dataset."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism_irl.errors import InputError

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.models.base import IntentionModel


def with_window(model: IntentionModel, table: Path, demos: Demonstrations, hz: float | None = None) -> IntentionModel:
    """The model with its window in steps, which is what its run folder then says."""
    from prism_irl.rewards.options import RewardOptions

    rewards: Any = model.get_params(deep=False).get("rewards")
    if isinstance(rewards, RewardOptions):
        found = rewards.in_steps(demos, lambda: steps_per_second(table, hz))
        if found != rewards:
            model.set_params(rewards=found)
    return model


def steps_per_second(table: Path, hz: float | None = None) -> float | None:
    """What was said (``--hz``), or that of a LeRobot dataset; None of everything else, whose times must say it."""
    if hz is not None:
        if not 0 < hz < math.inf:
            raise InputError(f"--hz is {hz:g}; give the steps per second, a number above 0.")
        return hz
    if not (table / "meta" / "info.json").is_file():
        return None
    from prism_irl.robots.lerobot import LeRobotSource

    return LeRobotSource(table).fps
