"""`--window 0.5s`: seconds as steps, by the times of a table or the frames per second of a dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.models.base import IntentionModel


def with_window(model: IntentionModel, table: Path, demos: Demonstrations) -> IntentionModel:
    """The model with its window in steps, which is what its run folder then says."""
    from prism_irl.data.windows import in_steps
    from prism_irl.rewards.windows import Windows

    rewards: Any = model.get_params(deep=False).get("rewards")
    if isinstance(rewards, Windows) and str(rewards.window).strip().endswith("s"):
        steps = in_steps(rewards.window, demos, frames_per_second(table))
        model.set_params(rewards=replace(rewards, window=steps))
    return model


def frames_per_second(table: Path) -> float | None:
    """Of a LeRobot dataset; None of everything else, whose times must say it."""
    if not (table / "meta" / "info.json").is_file():
        return None
    from prism_irl.robots.lerobot import LeRobotSource

    return LeRobotSource(table).fps
