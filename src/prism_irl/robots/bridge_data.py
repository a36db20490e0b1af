"""Raw BridgeData V2: folders ``…/DATE_TIME/raw/traj_group*/traj*`` with pictures and pickled states and actions.

A trajectory has n pictures and n states for n − 1 actions; step t is (picture t, state t, action t). Recordings before
2021-07-23 have a delay of one step between camera and command: there step t is (picture t + 1, state t + 1, action t).
Pickles are read by `prism_irl.robots.safe_pickle`, which runs nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.errors import InputError
from prism_irl.robots.episodes import Episode, EpisodeSource, Frame, damaged
from prism_irl.robots.safe_pickle import load_arrays
from prism_irl.robots.video import decode_image

NO_DELAY_SINCE = datetime(2021, 7, 23)
MAX_FOLDERS = 20_000
"""So many are looked into before the first recording: whoever gives a whole disk is told so."""
_CAMERA = re.compile(r"images(\d+)")
_PICTURE = re.compile(r"im_(\d+)\.(?:jpg|png)")


class BridgeSource(EpisodeSource):
    """Episodes of raw BridgeData V2 folders, at any depth.

    Parameters
    ----------
    folder : path
        Any folder above ``traj_group*``.
    latency_shift : bool, optional
        Pair action t with observation t + 1; by default where the date in the path is before 2021-07-23.
    strict : bool
        A damaged episode is an error instead of a warning.
    """

    files = ("**/traj_group*/traj*/**/*",)

    def __init__(self, folder: str | Path, *, latency_shift: bool | None = None, strict: bool = False) -> None:
        super().__init__(folder, strict=strict)
        self.latency_shift = latency_shift
        if not self.found_in(self.folder):
            raise InputError(f"There is no traj_group*/traj* below {self.folder}; give a folder of raw BridgeData V2.")

    @staticmethod
    def found_in(folder: Path) -> bool:
        """Whether a folder holds raw trajectories."""
        return next(_trajectories(folder), None) is not None

    def _open(self) -> Iterator[Callable[[], Episode]]:
        for index, path in enumerate(_trajectories(self.folder)):
            yield partial(self._read, index, path)

    def _read(self, index: int, path: Path) -> Episode:
        name = f"{index} ({path.relative_to(self.folder).as_posix()})"
        states, times = _observations(path, name)
        actions = _actions(path, name)
        pictures = _pictures(path, name)
        n = len(states)
        if len(actions) != n - 1:
            raise damaged(name, f"it has {len(actions)} actions for {n} states, and not one fewer")
        for camera, files in pictures.items():
            if len(files) != n:
                raise damaged(name, f"{camera} has {len(files)} pictures for {n} states")
        shift = self._shift(path)
        steps = slice(1, n - 1) if shift else slice(0, n - 1)
        if not len(range(n)[steps]):
            raise damaged(name, f"{n} pictures are too few for a step")
        return Episode(
            index=index,
            actions=actions[: n - 2] if shift else actions,
            states=states[steps],
            language=_language(path),
            cameras={camera: partial(_decoded, files[steps], name) for camera, files in pictures.items()},
            timestamps=None if times is None else times[steps],
            name=name,
        )

    def _shift(self, path: Path) -> bool:
        if self.latency_shift is not None:
            return self.latency_shift
        dates = [date for part in path.absolute().parts if (date := _date(part)) is not None]
        return bool(dates) and dates[-1] < NO_DELAY_SINCE


def _trajectories(folder: Path) -> Iterator[Path]:
    """Trajectory folders in a fixed order: traj2 comes before traj10."""

    def numbered(name: str) -> tuple[str, int]:
        stem = name.rstrip("0123456789")
        return stem, int(name[len(stem) :] or 0)

    found = False
    for visited, (place, folders, _) in enumerate(os.walk(folder)):
        if not found and visited == MAX_FOLDERS:
            raise InputError(
                f"There are more than {MAX_FOLDERS:,} folders below {folder}, and none of the first is a recording of "
                "BridgeData; give the folder of the dataset itself."
            )
        folders.sort(key=numbered)
        here = Path(place)
        found = found or here.parent.name.startswith("traj_group")
        if here.name.startswith("traj") and here.parent.name.startswith("traj_group"):
            folders.clear()
            yield here


def _date(part: str) -> datetime | None:
    try:
        return datetime.strptime(part, "%Y-%m-%d_%H-%M-%S")
    except ValueError:
        return None


def _loaded(path: Path, name: str) -> Any:
    try:
        return load_arrays(path)
    except InputError as error:
        raise damaged(name, str(error).rstrip(".")) from None


def _observations(path: Path, name: str) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64] | None]:
    """States (n, m) and times (n,) in seconds from the first."""
    stored = _loaded(path / "obs_dict.pkl", name)
    if not isinstance(stored, dict) or "full_state" not in stored:
        raise damaged(name, "obs_dict.pkl has no full_state")
    states = _vectors(stored["full_state"], name, "full_state")
    if "time_stamp" not in stored:
        return states, None
    times = _vectors(stored["time_stamp"], name, "time_stamp", np.float64).ravel()
    if len(times) != len(states):
        raise damaged(name, f"it has {len(times)} time stamps for {len(states)} states")
    return states, times - times[:1]


def _actions(path: Path, name: str) -> npt.NDArray[np.float32]:
    """Actions (n − 1, d); each is an array, or a dictionary with the array under "actions"."""
    stored = _loaded(path / "policy_out.pkl", name)
    if not isinstance(stored, list | tuple) or not stored:
        raise damaged(name, "policy_out.pkl is not a list of actions")
    values = [step.get("actions") if isinstance(step, dict) else step for step in stored]
    return _vectors(values, name, "actions")


def _vectors(values: Any, name: str, what: str, dtype: type[np.floating[Any]] = np.float32) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values, dtype=dtype)
        return array.reshape(len(array), -1)
    except (TypeError, ValueError):
        raise damaged(name, f"its {what} are not one vector per step") from None


def _pictures(path: Path, name: str) -> dict[str, list[Path]]:
    """Picture files of each camera, numbered from 0 without a gap."""
    found: dict[str, list[Path]] = {}
    cameras = [entry for entry in path.iterdir() if entry.is_dir() and _CAMERA.fullmatch(entry.name)]
    for camera in sorted(cameras, key=lambda entry: int(entry.name.removeprefix("images"))):
        files = {int(match[1]): file for file in camera.iterdir() if (match := _PICTURE.fullmatch(file.name))}
        missing = next((i for i in range(max(files, default=-1) + 1) if i not in files), None)
        if missing is not None:
            raise damaged(name, f"picture {missing} of {camera.name} is missing")
        found[camera.name] = [files[i] for i in range(len(files))]
    return found


def _decoded(files: list[Path], name: str) -> Iterator[Frame]:
    for file in files:
        try:
            data = file.read_bytes()
        except OSError:
            raise damaged(name, f"{file.parent.name}/{file.name} cannot be read") from None
        yield decode_image(data, name, f"{file.parent.name}/{file.name}")


def _language(path: Path) -> str:
    """The first instruction in lang.txt; lines with the annotator's confidence are none."""
    file = path / "lang.txt"
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []
    return next((line.strip() for line in lines if line.strip() and "confidence" not in line), "")
