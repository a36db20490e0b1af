"""`prism demo`: a simulated agent, from data to report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

from prism_irl.cli.options import CommonOptions, FitsOptions
from prism_irl.cli.reproduce import run_world
from prism_irl.cli.run_folder import RunFolder


def demo(
    *,
    world: Literal["gridworld", "labyrinth", "robot"] = "gridworld",
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
        water, home or to explore; robot: an arm that picks up a block and places it (needs the extra sim).
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
    elif world == "robot":
        _robot(folder)
    else:
        from prism_irl.experiments.labyrinth import demo as labyrinth

        run_world(folder, labyrinth.run, labyrinth.LabyrinthDemo(), jobs, "Simulated labyrinth: a demonstration")


ROBOT_EPISODES = 40
HAND, GRIPPER = "observation.state[0:3]", "action[4],observation.state[17]"
"""Where the hand is; the command to the gripper, and how far it is open."""


def _robot(folder: RunFolder) -> None:
    """Simulate a LeRobot dataset, fit what a real arm has (hand, gripper), and print simple baselines beside."""
    from prism_irl.cli.fit import fit
    from prism_irl.cli.options import ColumnOptions, ModelOptions
    from prism_irl.experiments.continuous.data import OWN, Data
    from prism_irl.experiments.continuous.methods import BASELINES, OF_ARMS, run_method
    from prism_irl.labels import ari, label_accuracy
    from prism_irl.robots.continuous import read_dataset
    from prism_irl.worlds.manipulation import PickAndPlace

    world = PickAndPlace()
    dataset = world.dataset(ROBOT_EPISODES, seed=0)
    phases = len(world.phase_names)
    model = ModelOptions(switching="ordered", rewards="features", n_intentions=phases)
    # Stages of picking and placing show in the gripper, which is why it is what is done here.
    fit(dataset, folder=folder, columns=ColumnOptions(observe=HAND, act=GRIPPER), model=model)
    whole = f"observation.state[0:{OWN}]"
    demos = read_dataset(dataset, whole, "action").demonstrations
    if folder.common.json or demos.labels is None:
        return
    gripper = read_dataset(dataset, HAND, GRIPPER).demonstrations.motions
    data = Data(demos, phases, gripper=gripper)
    print(f"\nThe true phases are known here. Simple baselines, {ROBOT_EPISODES} episodes (accuracy, ARI):")
    for method, name in (BASELINES | OF_ARMS).items():
        if method == "kmeans-pictures":
            continue  # nothing was filmed
        labels = run_method(method, data, 0, {}).labels
        print(f"  {name:<42} {label_accuracy(demos.labels, labels):.3f}  {ari(demos.labels, labels):.3f}")
    print(f"\nThe dataset is {dataset}; look at docs/guide/robots.md for the five commands that begin there.")
    print("Commands of the whole arm tell less about its phases than the gripper does; see for yourself:")
    words = f"--observe '{whole}' --act action --switching ordered --intentions {phases} --out runs/arm"
    print(f"  prism fit {shlex.quote(str(dataset))} {words}")
