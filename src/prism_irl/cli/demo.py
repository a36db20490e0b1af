"""`prism demo`: a simulated agent, from data to report."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from prism_irl.cli.options import CommonOptions, FitsOptions
from prism_irl.cli.reproduce import run_world
from prism_irl.cli.run_folder import RunFolder


def demo(
    *,
    world: Literal["gridworld", "labyrinth"] = "gridworld",
    out: Path = Path("runs/demo"),
    jobs: int = 2,
    overwrite: bool = True,
    common: CommonOptions = CommonOptions(),
) -> None:
    """Simulate an agent with hidden intentions and recover them, in a minute or three.

    Example: prism demo

    Parameters
    ----------
    world
        gridworld: an expert with two goals that gives up in front of barriers; labyrinth: a mouse in a maze that wants
        water, home or to explore.
    out
        Folder of the results.
    jobs
        Fits that run at the same time.
    overwrite
        Replace the results of an earlier demo.
    """
    FitsOptions(jobs)  # refuses what is no number of processes
    folder = RunFolder(out, overwrite=overwrite, common=common)
    if world == "gridworld":
        from prism_irl.experiments.gridworld.run import Gridworld, run

        run_world(folder, run, Gridworld.demo(), jobs, "Frustration gridworld: a demonstration")
    else:
        from prism_irl.experiments.labyrinth import demo as labyrinth

        run_world(folder, labyrinth.run, labyrinth.LabyrinthDemo(), jobs, "Simulated labyrinth: a demonstration")
