"""Recordings as named arrays: HDF5 of robomimic and ALOHA, zarr of Diffusion Policy.

- robomimic: one file, ``data/demo_3/actions`` and ``data/demo_3/obs/robot0_eef_pos``;
- ALOHA: a file per episode, ``action`` and ``observations/qpos``;
- Diffusion Policy: ``data/action``, ``data/state`` of all episodes, one after the other, and ``meta/episode_ends``.

An array goes by its path in the recording (``obs/robot0_eef_pos``, ``observations/qpos``, ``keypoint``), that of
commands by ``action``, too, and measured joints (``observations/qpos``, ``state``) by ``observation.state``. Pictures
are arrays (T, height, width, 3) of bytes. Links to other files are not followed, and nothing is unpickled.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl import limits
from prism_irl.checked import BROKEN
from prism_irl.errors import InputError, brief
from prism_irl.optional import need
from prism_irl.robots.episodes import Episode, EpisodeSource, Frame, damaged

SUFFIXES = (".hdf5", ".h5")
ACTIONS, STATES = ("actions", "action"), ("observations/qpos", "state")
"""Arrays that hold commands, and those that hold measured joints; the first that is there."""
DESCRIPTIONS = (".zarray", ".zmetadata", "zarr.json")
"""Where zarr says how its arrays are encoded."""


class Claims:
    """What the arrays of a recording say that they hold, beside the bytes that are there: a shape takes no room."""

    def __init__(self, folder: Path) -> None:
        files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else [folder]
        self.folder, self.there = folder, sum(path.stat().st_size for path in files)
        self.bytes = self.steps = 0

    def add(self, name: str, one: Any) -> None:
        """Count an array of numbers; pictures are read one by one. Refused where all of them claim too much."""
        if not hasattr(one, "dtype") or not one.shape or not Stretch(one, 0, 0).is_vector:
            return
        self.bytes += 8 * max(math.prod(one.shape), math.prod(one.chunks or ()))  # a chunk is read whole
        self.steps += int(one.shape[0]) if name.rpartition("/")[2] in ACTIONS else 0
        limits.check_growth(f"{self.folder}", self.bytes, self.there, self.steps)


class Stretch(NamedTuple):
    """Rows start to stop of an array on disk."""

    array: Any
    start: int
    stop: int

    @property
    def is_picture(self) -> bool:
        """Whether every row is a picture."""
        return self.array.dtype == np.uint8 and len(self.array.shape) == 4 and self.array.shape[-1] == 3

    @property
    def is_vector(self) -> bool:
        """Whether every row is a number or a vector of them; bytes are compressed pictures."""
        return self.array.dtype.kind in "fib" and len(self.array.shape) in (1, 2)

    def read(self) -> npt.NDArray[Any]:
        """The rows, (T, …)."""
        size = math.prod((self.stop - self.start, *self.array.shape[1:]))
        limits.check_bytes("An array of the recording", 8.0 * size, "leave its episode out")
        return np.asarray(self.array[self.start : self.stop])


Opened = Callable[[], AbstractContextManager[Mapping[str, Stretch]]]
"""Opens the arrays of one episode."""


class ArraySource(EpisodeSource):
    """Episodes whose arrays have names; subclasses say where each episode's arrays are."""

    @abstractmethod
    def _episodes(self) -> Iterator[tuple[str, Opened]]:
        """Name of each episode and how to open its arrays, in order."""

    @cached_property
    def _named(self) -> dict[str, bool]:
        """Arrays of numbers of the first episode that can be read, and whether each has one number per step."""
        for _, opened in self._episodes():
            try:
                with opened() as arrays:
                    return {key: len(one.array.shape) == 1 for key, one in arrays.items() if one.is_vector}
            except BROKEN:
                continue  # said when the episodes are read
        return {}

    def has(self, column: str) -> bool:
        """Whether there is an array with one number per step."""
        return self._named.get(column, False)

    def usual_vectors(self) -> tuple[str | None, str | None]:
        """Their arrays."""
        state, action = (next((key for key in keys if key in self._named), None) for keys in (STATES, ACTIONS))
        return state, action

    def further_vectors(self) -> tuple[str, ...]:
        """Every array of numbers."""
        return tuple(self._named)

    def _open(self) -> Iterator[Callable[[], Episode]]:
        for index, (name, opened) in enumerate(self._episodes()):
            yield partial(self._read, index, name, opened)

    def _read(self, index: int, name: str, opened: Opened) -> Episode:
        try:
            with opened() as arrays:
                commands = next((key for key in ACTIONS if key in arrays), "")
                done = arrays.get(commands)
                first = done or next((one for one in arrays.values() if one.is_vector), None)
                if first is None or (done is None and self.usual_vectors()[1] is not None):
                    raise damaged(name, f"it has no {' or '.join(ACTIONS)}, but {', '.join(arrays) or 'nothing'}")
                steps = first.stop - first.start

                def rows(key: str) -> npt.NDArray[np.float32]:
                    if key not in arrays or not arrays[key].is_vector:
                        raise damaged(name, f"it has no numbers called {key}")
                    if arrays[key].stop - arrays[key].start != steps:
                        raise damaged(name, f"its {key} does not have the {steps} rows of its commands")
                    return arrays[key].read().reshape(steps, -1).astype(np.float32)

                state = next((key for key in STATES if key in arrays), None)
                return Episode(
                    index=index,
                    actions=np.zeros((steps, 1), np.float32) if done is None else rows(commands),
                    states=None if state is None else rows(state),
                    cameras={key: partial(_frames, opened, key) for key, one in arrays.items() if one.is_picture},
                    name=name,
                    columns={key: np.array([_plain(one) for one in rows(key)[:, 0]], object) for key in self.wanted},
                    vectors={key: rows(key) for key in self.wanted_vectors},
                )
        except OSError as error:
            raise damaged(name, f"its file cannot be read ({brief(error)})") from None


class HDF5Source(ArraySource):
    """A robomimic file, or a folder of files with an episode or with demonstrations each."""

    files = tuple(f"*{suffix}" for suffix in SUFFIXES)
    one_file = True

    def __init__(self, folder: str | Path, *, strict: bool = False) -> None:
        need("h5py", "hdf5")
        super().__init__(folder, strict=strict)

    @staticmethod
    def found_in(path: Path) -> bool:
        """Whether a path is such a file, or a folder of them."""
        return path.suffix.lower() in SUFFIXES if path.is_file() else bool(_files(path))

    def _episodes(self) -> Iterator[tuple[str, Opened]]:
        claims = Claims(self.folder)
        for path in _files(self.folder) if self.folder.is_dir() else [self.folder]:
            groups = [""]
            try:
                with need("h5py", "hdf5").File(path, "r") as store:
                    store.visititems(claims.add)
                    if "data" in store and hasattr(store["data"], "keys"):
                        groups = [f"data/{name}" for name in sorted(store["data"], key=_numbered)]
            except InputError:
                raise
            except BROKEN as error:
                if self.folder.is_file():
                    raise InputError(f"{path} is no HDF5 file ({brief(error)}); restore it from its source.") from None
            for group in groups:
                yield (group or path.name).removeprefix("data/"), partial(_hdf5, path, group)


class ZarrSource(ArraySource):
    """The replay buffer of Diffusion Policy: all episodes in one array of each name."""

    files = ("meta/**/*", "data/**/*")

    def __init__(self, folder: str | Path, *, strict: bool = False) -> None:
        need("zarr", "zarr")
        super().__init__(folder, strict=strict)
        described = (self.folder.glob(f"{depth}{name}") for depth in ("", "*/", "*/*/") for name in DESCRIPTIONS)
        for path in (path for found in described for path in found):
            if '"pickle"' in path.read_text(encoding="utf-8", errors="replace"):
                raise InputError(f"{path} stores pickled objects, which could run anything; it is not read.")
        claims = Claims(self.folder)
        with _zarr_arrays(self.folder, claims) as (data, ends):
            for name, one in data.arrays():
                claims.add(name, one)
            self.n_episodes = len(ends)

    @staticmethod
    def found_in(path: Path) -> bool:
        """Whether a folder is a replay buffer."""
        return (path / "data").is_dir() and (path / "meta" / "episode_ends").is_dir()

    def _episodes(self) -> Iterator[tuple[str, Opened]]:
        for index in range(self.n_episodes or 0):
            yield str(index), partial(_zarr, self.folder, index)


def _files(folder: Path) -> list[Path]:
    """HDF5 files of a folder: episode_2 comes before episode_10."""
    found = [path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file()]
    return sorted(found, key=lambda path: _numbered(path.name))


def _numbered(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


@contextmanager
def _hdf5(path: Path, group: str) -> Iterator[dict[str, Stretch]]:
    with need("h5py", "hdf5").File(path, "r") as store:
        found: dict[str, Stretch] = {}

        def visit(name: str, one: Any) -> None:  # links are not visited
            if hasattr(one, "dtype") and one.shape:
                found[name] = Stretch(one, 0, int(one.shape[0]))

        (store[group] if group else store).visititems(visit)
        yield found


@contextmanager
def _zarr_arrays(folder: Path, claims: Claims | None = None) -> Iterator[tuple[Any, npt.NDArray[np.int64]]]:
    store = need("zarr", "zarr").open(str(folder), mode="r")
    if claims is not None:
        claims.add("episode_ends", store["meta"]["episode_ends"])
    ends = np.asarray(store["meta"]["episode_ends"][:], dtype=np.int64)
    if ends.ndim != 1 or (np.diff(ends, prepend=0) <= 0).any():
        raise InputError(f"meta/episode_ends of {folder} does not rise from episode to episode; restore the dataset.")
    yield store["data"], ends


@contextmanager
def _zarr(folder: Path, index: int) -> Iterator[dict[str, Stretch]]:
    with _zarr_arrays(folder) as (data, ends):
        start, stop = int(ends[index - 1]) if index else 0, int(ends[index])
        arrays = sorted(data.arrays(), key=lambda named: str(named[0]))
        yield {name: Stretch(one, start, min(stop, int(one.shape[0]))) for name, one in arrays if one.shape}


def _frames(opened: Opened, key: str) -> Iterator[Frame]:
    with opened() as arrays:
        one = arrays[key]
        for step in range(one.start, one.stop):
            yield np.asarray(one.array[step], dtype=np.uint8)


def _plain(value: np.float32) -> int | float:
    """A whole number as such."""
    return int(value) if value == int(value) else float(value)
