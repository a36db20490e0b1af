"""Simulated pick-and-place with the true phase of every step: OGBench `cube-single-v0` and its scripted planner.

The planner interpolates between keyframes (above the block, at the block, gripper closed, …) and adds noise; the phase
of a step is the stretch between keyframes that it lies in. Use it wherever the segmentation of robot demonstrations
must be judged against a truth: no recording of real robots has one. Needs the extra `sim`; neither a GPU nor a screen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl import storage
from prism_irl.datasets.store import cache_folder
from prism_irl.errors import InputError
from prism_irl.optional import missing
from prism_irl.robots.episodes import Episode, Frame

FloatArray = npt.NDArray[np.float64]

PHASES = ("approach", "grasp", "carry", "release", "depart", "idle")
"""Idle steps exist only where a simulation asks for them."""

PHASE_UNTIL = {
    "pick": "approach",
    "pick_start": "approach",
    "pick_end": "grasp",
    "postpick": "carry",
    "clearance": "carry",
    "place": "carry",
    "place_start": "carry",
    "place_end": "release",
    "postplace": "depart",
    "final": "depart",
}
"""Phase of the stretch that ends with a keyframe of the planner: the gripper closes towards `pick_end`, opens towards
`place_end`."""

STATE_NAMES = (
    *(f"joint_position_{i}" for i in range(6)),
    *(f"joint_velocity_{i}" for i in range(6)),
    *(f"effector_{axis}" for axis in "xyz"),
    "effector_cos_yaw",
    "effector_sin_yaw",
    "gripper_opening",
    "gripper_contact",
    *(f"block_{axis}" for axis in "xyz"),
    *(f"block_quaternion_{axis}" for axis in "wxyz"),
    "block_cos_yaw",
    "block_sin_yaw",
    *(f"target_{axis}" for axis in "xyz"),
)
"""Low-dimensional observation: OGBench's 28 numbers in physical units, and where the block is to go. OGBench's
`gripper_opening` is 0 when open and grows as the gripper closes."""

ACTION_NAMES = ("move_x", "move_y", "move_z", "turn", "gripper")
"""Relative commands in −1..1: 5 cm, 0.3 rad and the whole travel of the gripper at most."""

INSTRUCTION = "pick up the cube and put it on the target"
CAMERA = "observation.images.front"
PACKAGES = 'install Mesa ("apt-get install libegl1 libgl1-mesa-dri", or "libosmesa6"), or simulate without frames'


@dataclass(frozen=True)
class PickAndPlace:
    """A robot arm that picks up a cube and places it on a target, with random poses and a noisy planner.

    Parameters
    ----------
    seconds_between_keyframes : float
        About 0.4 s in OGBench's own data; an episode has some 88 steps of 50 ms then.
    noise, noise_smoothing : float
        Size of the planner's noise and its width in steps, OGBench's 0.1 and 0.5.
    idle_steps : int
        Steps of rest at the end of an episode (the sixth phase); none by default.
    frame_size : int
        Height and width of rendered frames.
    """

    seconds_between_keyframes: float = 0.4
    noise: float = 0.1
    noise_smoothing: float = 0.5
    idle_steps: int = 0
    frame_size: int = 64

    def __post_init__(self) -> None:
        """Refuse what the planner cannot follow."""
        for name, low in (("seconds_between_keyframes", 0.1), ("noise", 0), ("noise_smoothing", 0), ("idle_steps", 0)):
            if not getattr(self, name) >= low:
                raise InputError(f"{name} must be at least {low}, not {getattr(self, name)}.")
        if not 16 <= self.frame_size <= 1024:
            raise InputError(f"frame_size must lie between 16 and 1024 pixels, not {self.frame_size}.")

    @property
    def phase_names(self) -> tuple[str, ...]:
        """Names of the phases that occur."""
        return PHASES if self.idle_steps else PHASES[:-1]

    def episodes(self, n_episodes: int, *, seed: int = 0, frames: bool = False, first: int = 0) -> Iterator[Episode]:
        """Simulate episodes one at a time; episode i depends on the seed and on i only.

        Parameters
        ----------
        n_episodes : int
        seed : int
        frames : bool
            Render a camera as well: tens of milliseconds per step without a GPU.
        first : int
            Number of the first episode.
        """
        if n_episodes < 1 or first < 0:
            raise InputError(f"Cannot simulate {n_episodes} episodes from number {first} on; ask for at least one.")
        with closing(_Simulator(self, frames=frames)) as simulator:
            for index in range(first, first + n_episodes):
                yield simulator.episode(index, seed)

    def dataset(self, n_episodes: int, *, seed: int = 0, frames: bool = False) -> Path:
        """Simulate into a LeRobot v2.1 dataset and return its folder; one that is complete already is used again.

        It is named after the settings, in the user's cache: PRISM_DATA is for data that people put there.
        """
        from worlds.lerobot import write_lerobot

        target = cache_folder() / "simulated" / self._name(n_episodes, seed, frames)
        if (target / "meta" / "info.json").is_file():  # the writer's last file
            return target
        # Replacing refuses a folder that holds anything.
        with storage.writing(target), storage.replacing(target) as unfinished:
            write_lerobot(
                unfinished,
                self.episodes(n_episodes, seed=seed, frames=frames),
                fps=20,
                robot_type="ur5e",
                state_names=STATE_NAMES,
                action_names=ACTION_NAMES,
            )
        return target

    def _name(self, n_episodes: int, seed: int, frames: bool) -> str:
        name = f"pick-and-place-n{n_episodes}-s{seed}-dt{self.seconds_between_keyframes:g}-noise{self.noise:g}"
        name += f"-{self.noise_smoothing:g}" + (f"-idle{self.idle_steps}" if self.idle_steps else "")
        return name + (f"-frames{self.frame_size}" if frames else "")


def phases_of(keyframe_times: dict[str, float], times: FloatArray) -> npt.NDArray[np.int32]:
    """Phase of each moment, (n,): the stretch between two keyframes that it lies in.

    Parameters
    ----------
    keyframe_times : dict of str to float
        Seconds at which the plan passes each keyframe, in increasing order, the first one at the beginning.
    times : (n,)
        Seconds since the beginning; moments after the last keyframe belong to its stretch.
    """
    names, moments = list(keyframe_times), np.array(list(keyframe_times.values()))
    if any(later <= earlier for earlier, later in pairwise(moments)):
        raise InputError("The keyframes of a plan must follow one another in time.")
    phase_of_stretch = np.array([PHASES.index(PHASE_UNTIL[name]) for name in names[1:]], dtype=np.int32)
    stretch = np.searchsorted(moments, times, side="right") - 1
    return phase_of_stretch[np.clip(stretch, 0, len(phase_of_stretch) - 1)]


class _Simulator:
    """The environment, its planner and, where frames are wanted, a renderer; closed when left."""

    def __init__(self, settings: PickAndPlace, *, frames: bool) -> None:
        self.settings, self.frames = settings, frames
        self.renderer: Any = None
        self.env = _make_environment(frames)

    def close(self) -> None:
        """End what was started."""
        if self.renderer is not None:
            self.renderer.close()
        self.env.close()

    def episode(self, index: int, seed: int) -> Episode:
        """Plan and follow the plan."""
        environment_seed, planner_seed = np.random.SeedSequence([seed, index]).generate_state(2)
        _, info = self.env.reset(seed=int(environment_seed))
        planner, keyframe_times = self._plan(info, int(planner_seed))
        observations, actions, pictures = [], [], []
        idle = self.settings.idle_steps
        while not planner.done or idle > 0:
            idle -= planner.done
            action = planner.select_action(None, info)
            observations.append(_observation(info))
            actions.append(action)
            if self.frames:
                pictures.append(self._picture())
            info = self.env.step(action)[-1]
        n, step = len(actions), float(self.env.unwrapped._control_timestep)
        times = np.arange(n, dtype=np.float64) * step
        phases = phases_of(keyframe_times, times)
        if self.settings.idle_steps:
            phases[-self.settings.idle_steps :] = PHASES.index("idle")

        def recording() -> Iterator[Frame]:
            yield from pictures

        return Episode(
            index,
            np.array(actions, dtype=np.float32),
            np.array(observations, dtype=np.float32),
            language=INSTRUCTION,
            cameras={CAMERA: recording} if self.frames else {},
            timestamps=times,
            phases=phases,
            phase_names=self.settings.phase_names,
        )

    def _plan(self, info: dict[str, Any], seed: int) -> tuple[Any, dict[str, float]]:
        """OGBench's planner after planning, and the times of its keyframes."""
        module = import_module("ogbench.manipspace.oracles.plan.cube_plan")
        settings, times = self.settings, dict[str, float]()
        planner = module.CubePlanOracle(
            env=self.env,
            segment_dt=settings.seconds_between_keyframes,
            noise=settings.noise,
            noise_smoothing=settings.noise_smoothing,
        )
        compute_keyframes = planner.compute_keyframes

        def recorded(plan_input: Any) -> Any:
            result = compute_keyframes(plan_input)
            times.update(result[0])
            return result

        planner.compute_keyframes = recorded
        # The planner draws from NumPy's global generator: give it our seed, and give the caller's state back.
        before = np.random.get_state()  # noqa: NPY002
        np.random.seed(seed)  # noqa: NPY002
        try:
            planner.reset(None, info)
        finally:
            np.random.set_state(before)  # noqa: NPY002
        return planner, times

    def _picture(self) -> Frame:
        world = self.env.unwrapped
        if self.renderer is None:
            self.renderer = _make_renderer(world._model, self.settings.frame_size)
        self.renderer.update_scene(world._data, camera="front_pixels", scene_option=world._scene_option)
        return np.array(self.renderer.render(), dtype=np.uint8)


def _observation(info: dict[str, Any]) -> FloatArray:
    """The numbers of STATE_NAMES."""
    yaw, block_yaw = info["proprio/effector_yaw"], info["privileged/block_0_yaw"]
    return np.concatenate(
        [
            info["proprio/joint_pos"],
            info["proprio/joint_vel"],
            info["proprio/effector_pos"],
            np.cos(yaw),
            np.sin(yaw),
            info["proprio/gripper_opening"],
            info["proprio/gripper_contact"],
            info["privileged/block_0_pos"],
            info["privileged/block_0_quat"],
            np.cos(block_yaw),
            np.sin(block_yaw),
            info["privileged/target_block_pos"],
        ]
    )


def _make_environment(frames: bool) -> Any:
    for package in ("ogbench", "mujoco", "dm_control"):
        if find_spec(package) is None:
            raise missing(package, "sim")
    if "mujoco" not in sys.modules:  # its choice of OpenGL is made once, when it is imported
        os.environ["MUJOCO_GL"] = render_backend() or "disabled"
    if frames and os.environ.get("MUJOCO_GL", "") in ("", "disabled"):
        raise InputError(f"Frames cannot be rendered: neither EGL nor OSMesa works here; {PACKAGES}.")
    with warnings.catch_warnings():  # of the packages about themselves
        warnings.simplefilter("ignore")
        import_module("ogbench.manipspace")  # registers the environment
        return import_module("gymnasium").make(
            "cube-single-v0",
            mode="data_collection",
            terminate_at_goal=False,
            visualize_info=False,
            max_episode_steps=100_000,
            disable_env_checker=True,
        )


def _make_renderer(model: Any, size: int) -> Any:
    """A renderer without shadows, reflections and multisampling: in software they cost 20 times the picture."""
    mujoco = import_module("mujoco")
    model.vis.quality.shadowsize = model.vis.quality.offsamples = 0
    try:
        renderer = mujoco.Renderer(model, height=size, width=size)
    except Exception as error:  # each OpenGL binding has errors of its own
        raise InputError(f"Frames cannot be rendered ({error}); {PACKAGES}.") from error
    for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
        renderer.scene.flags[flag] = 0
    return renderer


@cache
def render_backend() -> str | None:
    """Return the value of MUJOCO_GL that works here without a screen, or None; tried in a process of its own."""
    given = os.environ.get("MUJOCO_GL", "").lower()
    program = "import mujoco; context = mujoco.GLContext(16, 16); context.make_current(); context.free()"
    for backend in (given,) if given else ("egl", "osmesa"):
        environment = os.environ | {"MUJOCO_GL": backend}
        try:
            tried = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if tried.returncode == 0:
            return backend
    return None
