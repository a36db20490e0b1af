"""Raw BridgeData V2: folders ``…/DATE_TIME/raw/traj_group*/traj*`` with pictures and pickled states and actions.

A trajectory has n pictures and n states for n − 1 actions; step t is (picture t, state t, action t). Recordings before
2021-07-23 have a delay of one step between camera and command: there step t is (picture t + 1, state t + 1, action t).
Pickles are read by `load_arrays`, which runs nothing.
"""

from __future__ import annotations

import os
import pickle
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.errors import InputError, brief
from prism_irl.robots.episodes import Episode, EpisodeSource, Frame, damaged, decode_image

NO_DELAY_SINCE = "2021-07-23"
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)_\d\d-\d\d-\d\d")
MAX_FOLDERS = 20_000
"""So many are looked into before the first recording: whoever gives a whole disk is told so."""
_CAMERA = re.compile(r"images(\d+)")
_PICTURE = re.compile(r"im_(\d+)\.(?:jpg|png)")


class BridgeSource(EpisodeSource):
    """Episodes of raw BridgeData V2 folders, at any depth above ``traj_group*``.

    ``latency_shift`` pairs action t with observation t + 1; by default where the date in the path is before 2021-07-23.
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
        actions, pictures, said = _actions(path, name), _pictures(path, name), path / "lang.txt"
        lines = said.read_text(encoding="utf-8", errors="replace").splitlines() if said.is_file() else []
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
            # The first instruction; lines with the annotator's confidence are none.
            language=next((line.strip() for line in lines if line.strip() and "confidence" not in line), ""),
            cameras={camera: partial(_decoded, files[steps], name) for camera, files in pictures.items()},
            timestamps=None if times is None else times[steps],
            name=name,
        )

    def _shift(self, path: Path) -> bool:
        if self.latency_shift is not None:
            return self.latency_shift
        dates = [found[1] for part in path.absolute().parts if (found := _DATE.fullmatch(part)) is not None]
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


# -- pickles: every name in the file is looked up in a short list of stand-ins, which remember what they were given ----

MAX_BYTES = 1 << 30
MAX_ITEMS = 1 << 28
_PLAIN = re.compile(r"[<>=|]?([biufcSU]\d+|\?)")


class RefusedPickleError(InputError):
    """The file asks for something other than arrays, numbers, text and containers."""


def load_arrays(path: Path) -> Any:
    """What a pickle of arrays, numbers, text, lists, tuples and dictionaries holds.

    A file that names a function or class that is no part of an array is a `RefusedPickleError`, and nothing of it has
    been run; one that is missing, too large or damaged is an `InputError`.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing.")
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"{path} has {path.stat().st_size} bytes, far more than a recording's arrays; it is not read.")
    try:
        with path.open("rb") as file:
            made = _real(_Unpickler(file, path).load(), {})
        _size(made, {})
        return made
    except InputError:
        raise
    except Exception as error:  # foreign bytes can fail in any way
        raise InputError(f"{path} is damaged or holds more than plain arrays ({brief(error)}).") from None


class _Name:
    """Stands for a name in the file: it can be called, but a file cannot change it."""

    __slots__ = ("_make",)
    _make: Callable[..., Any]

    def __init__(self, make: Callable[..., Any]) -> None:
        object.__setattr__(self, "_make", make)

    def __call__(self, *arguments: Any) -> Any:
        return self._make(*arguments)

    def __setattr__(self, name: str, value: Any) -> None:
        raise ValueError(f"a change of {name}")


class _Dtype:
    """Stands for a `numpy.dtype`: only its code and byte order are believed."""

    def __init__(self, code: Any, *_: Any) -> None:
        if code != "O8" and not (isinstance(code, str) and _PLAIN.fullmatch(code)):
            raise ValueError(f"array type {code!r}")
        self.code, self.order = code, ""

    def __setstate__(self, state: Any) -> None:
        order = state[1]
        if order not in ("<", ">", "|", "="):
            raise ValueError(f"byte order {order!r}")
        self.order = "" if order == "|" else order

    def real(self) -> np.dtype[Any]:
        """The dtype itself."""
        return np.dtype(object) if self.code == "O8" else np.dtype(self.order + self.code.lstrip("<>=|"))


class _Array:
    """Stands for an array until its bytes are known."""

    def __init__(self, *_: Any) -> None:
        self.shape: tuple[int, ...] = (0,)
        self.dtype: Any = _Dtype("u1")
        self.fortran: Any = False
        self.content: Any = b""

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.dtype, self.fortran, self.content = state

    def real(self, seen: dict[int, Any]) -> npt.NDArray[Any]:
        """The array itself; its content must have the size that its shape says."""
        if not isinstance(self.dtype, _Dtype) or not all(isinstance(n, int) and n >= 0 for n in self.shape):
            raise ValueError(f"array of shape {self.shape!r}")
        if isinstance(self.content, list):  # an array of objects
            values = np.empty(len(self.content), dtype=object)
            values[:] = [_real(item, seen) for item in self.content]
        else:
            if not isinstance(self.content, bytes | bytearray | str):  # of a number bytes() makes as many zeros
                raise ValueError(f"an array made of {type(self.content).__name__}")
            content = self.content.encode("latin1") if isinstance(self.content, str) else bytes(self.content)
            dtype = self.dtype.real()
            if dtype.hasobject:
                raise ValueError("an array of objects made of bytes")
            values = np.frombuffer(content, dtype=dtype)
        return values.reshape(self.shape, order="F" if self.fortran else "C").copy()


def _array_type(*_: Any) -> Any:
    """Stand-in for the class `numpy.ndarray`, which is named in pickles but never called."""
    raise ValueError("an array made without content")


def _scalar(dtype: Any, content: Any = b"") -> Any:
    """Stand-in for numpy's scalars."""
    content = content.encode("latin1") if isinstance(content, str) else content
    if not isinstance(dtype, _Dtype) or dtype.code == "O8" or len(content) != dtype.real().itemsize:
        raise ValueError("a scalar whose bytes do not fit its type")
    return np.frombuffer(content, dtype=dtype.real())[0]


def _from_buffer(content: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    """Stand-in for how protocol 5 stores arrays."""
    array = _Array()
    array.__setstate__((1, shape, dtype, order == "F", content))
    return array


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Stand-in for how old protocols store bytes."""
    if encoding != "latin1" or not isinstance(text, str):
        raise ValueError(f"text in the encoding {encoding!r}")
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _array_type,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): OrderedDict,
}
for _core in ("numpy.core", "numpy._core"):
    _ALLOWED |= {
        (f"{_core}.multiarray", "_reconstruct"): _Array,
        (f"{_core}.multiarray", "scalar"): _scalar,
        (f"{_core}.numeric", "_frombuffer"): _from_buffer,
    }
for _module in ("builtins", "__builtin__"):
    _ALLOWED |= {(_module, made.__name__): made for made in (list, dict, tuple, set, frozenset)}


class _Unpickler(pickle.Unpickler):
    """Finds stand-ins and nothing else."""

    def __init__(self, file: Any, path: Path) -> None:
        super().__init__(file, encoding="latin1")
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in of a name, or refuse the file."""
        if (module, name) not in _ALLOWED:
            raise RefusedPickleError(
                f"{self._path} asks to load {module}.{name}, which is not part of an array; it was refused and nothing "
                "in it was run."
            )
        return _Name(_ALLOWED[module, name])


def _size(value: Any, seen: dict[int, int]) -> int:
    """Numbers in nested containers, each as often as it is referred to: a list of lists of lists may be endless."""
    if id(value) in seen:
        return seen[id(value)]
    size = 1
    if isinstance(value, np.ndarray):
        size = value.size if value.dtype != object else sum(_size(item, seen) for item in value.ravel().tolist())
    elif isinstance(value, dict):
        size += sum(_size(item, seen) for item in value.values())
    elif isinstance(value, list | tuple):
        size += sum(_size(item, seen) for item in value)
    if size > MAX_ITEMS:
        raise ValueError(f"more than {MAX_ITEMS} numbers in lists of lists")
    seen[id(value)] = size
    return size


def _real(value: Any, seen: dict[int, Any]) -> Any:
    """Replace stand-ins by arrays, once per object: references shared a million times stay shared."""
    if id(value) in seen:
        return seen[id(value)]
    made: Any = value
    if isinstance(value, _Array):
        made = value.real(seen)
    elif isinstance(value, dict):
        made = {key: _real(item, seen) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        made = type(value)(_real(item, seen) for item in value)
    seen[id(value)] = made
    return made
