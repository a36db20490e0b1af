"""The five commands of the guide to robots, typed as they stand on a small LeRobot dataset."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pandas as pd

from prism_irl.robots.episodes import Episode
from prism_irl.robots.lerobot_writing import write_lerobot
from support import prism

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "robots.md"


def episodes(n: int = 8, length: int = 40):
    """An arm that goes through five commands in order."""
    rng = np.random.default_rng(0)
    means = rng.normal(0.0, 2.0, (5, 3))
    for index in range(n):
        phase = np.repeat(np.arange(5), length // 5)
        command = means[phase] + rng.normal(0.0, 0.3, (length, 3))
        yield Episode(
            index, command, np.cumsum(command, axis=0), phases=phase.astype(np.int32), phase_names=tuple("abcde")
        )


def test_from_a_lerobot_folder_to_phases_in_five_commands(tmp_path):
    block = PAGE.read_text(encoding="utf-8").split("```")[1]
    commands = [line for line in block.splitlines() if line.startswith("prism ")]
    assert len(commands) == 5
    write_lerobot(tmp_path / "arm_lerobot", episodes(), fps=10, robot_type="test")
    for command in commands:
        done = prism(*shlex.split(command)[1:], cwd=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
    phases = pd.read_parquet(tmp_path / "phases.parquet")
    assert phases["predicted_intention"].nunique() == 5
    frames = pd.read_parquet(next((tmp_path / "arm_with_phases" / "data").rglob("*.parquet")))
    assert [row["style"] for row in frames["language_persistent"][0]] == ["motion"] * 5
    assert (tmp_path / "runs" / "arm" / "report.html").is_file()
