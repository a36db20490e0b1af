"""The five commands of the guide to robots, typed as they stand on a small LeRobot dataset."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pandas as pd

from support import prism
from worlds.lerobot import write_lerobot
from worlds.scripted import episodes

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "robots.md"
JOINTS = [*(f"joint_{i}.pos" for i in range(7)), "gripper.pos"]


def test_from_a_lerobot_folder_to_named_phases_in_five_commands(tmp_path):
    blocks = PAGE.read_text(encoding="utf-8").split("```")
    commands = [line for line in blocks[1].splitlines() if line.startswith("prism ")]
    assert len(commands) == 5
    write_lerobot(
        tmp_path / "arm_lerobot", episodes("drawer", 8, seed=5), fps=15, state_names=JOINTS, action_names=JOINTS
    )
    printed = ""
    for command in commands:
        done = prism(*shlex.split(command)[1:], cwd=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
        printed += done.stdout
    for line in (blocks[3] + blocks[5]).splitlines()[1:]:  # what the page shows, but for its numbers
        for word in re.findall(r"[A-Za-z]{4,}", line.partition("…")[0]):
            assert word in printed or word in ("text",), word
    names = shlex.split(commands[1])[3].split(",")
    frames = pd.read_parquet(next((tmp_path / "arm_with_phases" / "data").rglob("*.parquet")))
    rows = frames["language_persistent"][0]
    assert [row["content"] for row in rows if row["style"] == "subtask"] == names
    assert sum(row["style"] == "motion" for row in rows) == 8
    assert "reach handle" in (tmp_path / "phases.vtt").read_text(encoding="utf-8")
    page = (tmp_path / "runs" / "arm" / "report.html").read_text(encoding="utf-8")
    assert "what the robot does" in page
    assert "gripper.pos goes" in page
    assert (tmp_path / "runs" / "arm" / "baselines.csv").is_file()
