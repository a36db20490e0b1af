"""The data of the experiment: simulated worlds, simulated pick-and-place, and surgery where its files are.

Surgical recordings (JIGSAWS) are given out on request and no part of this package: put `suturing.npz` and
`knot_tying.npz` into the folder `surgery` of PRISM_DATA. Labels are for evaluation, and for the rows that say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from continuous import arm
from gaussian import smoothed
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.files import read_arrays
from prism_irl.datasets.store import data_folder
from prism_irl.errors import InputError
from prism_irl.scale import fanout
from worlds.goals2d import GoalsSquare
from worlds.manipulation import ACTION_NAMES, STATE_NAMES, PickAndPlace
from worlds.point_maze import PointMaze

SMOOTHING = 5
"""Steps (half a second) over which velocities of the instruments are averaged."""
OWN = 19
"""Numbers of a simulated arm that a real one has, too: joints, effector, gripper; not where the block is."""
SURGERY = ("suturing", "knot_tying")


class Data(NamedTuple):
    """Demonstrations, how many intentions are asked for, the world that made them (None: nobody knows), their names.

    Of an arm, also what its gripper does, (n, 3): command, opening and change of the opening; the last ``n_pictures``
    observations are embeddings of a camera.
    """

    demos: Demonstrations
    n_intentions: int
    world: Any = None
    names: tuple[str, ...] = ()
    gripper: npt.NDArray[np.float64] | None = None
    n_pictures: int = 0


def load(name: str, seed: int, *, size: float = 1.0, cache: Path | None = None) -> Data:
    """The data set behind a name such as square-5, maze-0.1, pick-and-place, suturing.

    ``size`` shrinks simulations; ``cache`` is where simulated arms were kept (`prepare`).
    """
    kind, _, rest = name.partition("-")
    if kind == "square":
        world: Any = GoalsSquare(n_goals=int(rest))
        return Data(world.simulate(max(8, round(60 * size)), seed=seed), world.n_goals, world)
    if kind == "maze":
        world = PointMaze(noise=float(rest))
        return Data(world.simulate(max(8, round(36 * size)), seed=seed), world.n_goals, world)
    if name == "pick-and-place":
        assert cache is not None
        return _pick_and_place(arm.recorded(arm.path_of(cache, episodes_of(size), seed)))
    if name in SURGERY:
        return _surgery(name)
    raise InputError(f"There is no continuous world {name!r}.")


def has_surgery() -> bool:
    """Whether both files are there."""
    return all((data_folder() / "surgery" / f"{task}.npz").is_file() for task in SURGERY)


def episodes_of(size: float) -> int:
    """Episodes of a simulated arm."""
    return max(20, round(200 * size))


def prepare(seeds: Sequence[int], size: float, cache: Path, jobs: int) -> None:
    """Simulate the arms that are not in the cache yet, several side by side."""
    n = episodes_of(size)
    tasks = [(arm.path_of(cache, n, seed), n, seed) for seed in seeds]
    for _ in fanout.spread(_recorded, tasks, (), jobs=jobs):
        pass


def _recorded(task: tuple[Path, int, int]) -> dict[str, Any]:
    if not task[0].is_file():
        arm.simulate(*task)
    arm.recorded(task[0])
    return {}


def _pick_and_place(arrays: arm.Arrays) -> Data:
    """Own state and gripper of the arm, and what its camera sees; phases are known to nobody but the metrics."""
    names, offsets = PickAndPlace().phase_names, arrays["offsets"]
    own = np.asarray(arrays["states"][:, :OWN], dtype=np.float64)
    seen = np.concatenate([own, arrays["embeddings"]], axis=1)
    parts = [np.split(arrays[key], offsets[1:-1]) for key in ("actions", "phases")]
    demos = Demonstrations.continuous(
        np.split(seen, offsets[1:-1]), parts[0], labels=[part.astype(np.int64) for part in parts[1]], label_names=names
    )
    opening = own[:, STATE_NAMES.index("gripper_opening"), None]
    command = arrays["actions"][:, ACTION_NAMES.index("gripper"), None]
    gripper = np.concatenate([command, opening, _differences(opening, offsets)], axis=1)
    return Data(demos, len(names), gripper=gripper, n_pictures=arrays["embeddings"].shape[1])


def _surgery(task: str) -> Data:
    """Positions, orientations and gripper angles observed; smoothed velocities and turning of the grippers done."""
    stored = read_arrays(data_folder() / "surgery" / f"{task}.npz")
    kinematics, offsets = stored["kinematics"].astype(np.float64), stored["offsets"]
    velocity = np.array(["vel" in str(name).lower() for name in stored["channels"]])
    grip = np.array(["grip" in str(name).lower() or "angle" in str(name).lower() for name in stored["channels"]])
    turning = _differences(kinematics[:, grip], offsets)
    commands = smoothed(np.concatenate([kinematics[:, velocity], turning], axis=1), offsets, SMOOTHING)
    parts = np.split(np.arange(len(kinematics)), offsets[1:-1])
    labels = stored["labels"].astype(np.int64)
    labels = np.where(
        labels < 0, labels.max() + 1, labels
    )  # what nobody labelled is a class of its own for the metrics
    demos = Demonstrations.continuous(
        [kinematics[steps][:, ~velocity] for steps in parts],
        [commands[steps] for steps in parts],
        labels=[labels[steps] for steps in parts],
        groups=stored["subject"].astype(str),
    )
    names = tuple(str(name) for name in stored["label_names"])
    return Data(demos, len(names), names=names)


def _differences(values: npt.NDArray[np.float64], offsets: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    found = np.diff(values, axis=0, prepend=values[:1])
    found[offsets[:-1]] = 0.0
    return found
