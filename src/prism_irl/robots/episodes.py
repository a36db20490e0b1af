"""Robot demonstrations as a stream of episodes: what every reader yields, and what happens to a damaged one.

An episode holds its actions and proprioceptive states in memory and opens its frames only while somebody iterates over
them, so that a dataset of any size passes through a few megabytes. Readers for LeRobot, RLDS/TFDS, HDF5 and
zarr subclass `EpisodeSource`; `open_episodes` picks the reader from what lies in the folder.
"""

from __future__ import annotations

import hashlib
import io
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from prism_irl.checked import BROKEN
from prism_irl.errors import InputError, brief
from prism_irl.optional import need

Frame = npt.NDArray[np.uint8]
"""One picture, (height, width, 3), RGB."""
Frames = Callable[[], Iterator[Frame]]
"""Opens a camera's recording and yields one frame per step."""
STATE, ACTION = "observation.state", "action"
"""What the robot's own state and its commands are called in every dataset."""
T = TypeVar("T")
WHOLE = 64 << 20
"""Bytes up to which a file is read whole to tell whether it has changed."""
SAMPLES, SAMPLE = 64, 1 << 16
"""Places, and bytes at each, that are looked at in larger files."""


class Skipped(NamedTuple):
    """An episode that was left out."""

    name: str
    reason: str


class DamagedEpisodeError(InputError):
    """One episode cannot be read; the message says which one and why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"Episode {name} is damaged: {reason}; restore it or leave it out.")
        self.skipped = Skipped(name, reason)


damaged = DamagedEpisodeError


class DamagedEpisodeWarning(UserWarning):
    """One episode was skipped; the message says which one and why."""


@dataclass(frozen=True, eq=False)
class Episode:
    """One demonstration of T steps.

    Parameters
    ----------
    index : int
        Number within its dataset.
    actions : (T, d) float32
        Commands, one per step.
    states : (T, m) float32, optional
        Proprioception (joints, effector pose, gripper).
    language : str
        The instruction, empty where there is none.
    cameras : mapping of str to a function
        Opens the frames of each camera; nothing is decoded before `frames` is iterated.
    timestamps : (T,) float64, optional
        Seconds since the beginning.
    phases : (T,) int32, optional
        True phase of every step, with ``phase_names``: for evaluation only.
    name : str
        What the dataset calls the episode, for messages; its number by default.
    columns : mapping of str to (T,) object
        What was asked for beside all of this (`EpisodeSource.ask_for`): words and numbers, None in empty cells.
    vectors : mapping of str to (T, d) float32
        Further measurements and commands that were asked for (`EpisodeSource.ask_for_vectors`).
    """

    index: int
    actions: npt.NDArray[np.float32]
    states: npt.NDArray[np.float32] | None = None
    language: str = ""
    cameras: Mapping[str, Frames] = field(default_factory=dict, repr=False)
    timestamps: npt.NDArray[np.float64] | None = None
    phases: npt.NDArray[np.int32] | None = None
    phase_names: tuple[str, ...] = ()
    name: str = ""
    columns: Mapping[str, npt.NDArray[np.object_]] = field(default_factory=dict, repr=False)
    vectors: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Check lengths and numbers, so that no later stage has to."""
        object.__setattr__(self, "name", self.name or str(self.index))
        dtypes = {"actions": np.float32, "states": np.float32, "timestamps": np.float64, "phases": np.int32}
        for key, dtype in dtypes.items():
            if getattr(self, key) is None:
                continue
            values = np.asarray(getattr(self, key), dtype=dtype)
            object.__setattr__(self, key, values)
            ndim = 2 if key in ("actions", "states") else 1
            if values.ndim != ndim or (key != "actions" and len(values) != len(self)):
                raise damaged(self.name, f"its {key} have shape {values.shape} for {len(self)} steps")
            if not np.isfinite(values).all():
                step = int(np.argmin(np.isfinite(values).reshape(len(values), -1).all(axis=1)))
                raise damaged(self.name, f"its {key} are not finite at step {step}")
        for key, values in self.vectors.items():
            if not (finite := np.isfinite(values).all(axis=1)).all():
                raise damaged(self.name, f"its {key} are not finite at step {int(np.argmin(finite))}")
        if len(self) == 0:
            raise damaged(self.name, "it has no steps")

    def __len__(self) -> int:
        return len(self.actions)

    def frames(self, camera: str | None = None) -> Iterator[Frame]:
        """Yield one frame per step of a camera (the first); fewer, more or broken ones are damage."""
        count = 0
        for frame in islice(self.cameras[self.camera(camera)](), len(self) + 1):
            count += 1
            if count <= len(self):
                yield frame
        if count != len(self):
            found = f"only {count}" if count < len(self) else f"more than {len(self)}"
            raise damaged(self.name, f"camera {self.camera(camera)} has {found} frames for {len(self)} steps")

    def camera(self, name: str | None = None) -> str:
        """Name of a camera that exists: the one asked for, or the first."""
        if not self.cameras:
            raise InputError(f"Episode {self.name} has no camera; use an encoder that reads states, such as proprio.")
        if name is not None and name not in self.cameras:
            raise InputError(f"Episode {self.name} has no camera {name!r}; choose {', '.join(self.cameras)}.")
        return next(iter(self.cameras)) if name is None else name

    def __repr__(self) -> str:
        return (
            f"Episode({self.name}: {len(self)} steps, cameras {', '.join(self.cameras) or 'none'}, {self.language!r})"
        )


class EpisodeSource(ABC):
    """A dataset on disk, read one episode at a time.

    A damaged episode stops the reading where it is ``strict``; else a warning names it, and it is in ``skipped``.
    """

    files: ClassVar[tuple[str, ...]] = ()
    """Patterns of the files that the episodes are read from."""
    one_file: ClassVar[bool] = False
    """Whether a file may take the place of the folder."""
    fps: float | None = None
    """Steps per second; None where the dataset does not say."""
    n_episodes: int | None = None
    """How many episodes the dataset says it has, for progress bars; None where it does not say."""

    def __init__(self, folder: str | Path, *, strict: bool = False) -> None:
        self.folder = Path(folder)
        self.strict = strict
        self.skipped: list[Skipped] = []
        self.position = 0
        self.wanted: tuple[str, ...] = ()
        self.wanted_vectors: tuple[str, ...] = ()
        if not (self.folder.is_dir() or (self.one_file and self.folder.is_file())):
            raise InputError(f"There is no folder {self.folder}; give the folder of a dataset.")

    @abstractmethod
    def _open(self) -> Iterator[Callable[[], Episode]]:
        """Yield one function per episode, which reads it; a damaged one raises `DamagedEpisodeError` when called."""

    def has(self, column: str) -> bool:
        """Whether the recordings have a column with a word or a number per step under this name."""
        return False

    def has_words(self, column: str) -> bool:
        """Whether that column holds words instead of numbers."""
        return False

    def ask_for(self, *columns: str) -> None:
        """Read further columns with every episode."""
        for name in columns:
            if not self.has(name):
                raise InputError(
                    f"{self.folder} has no column {name!r}{self._columns_in_words()}; name one of its own, or give "
                    "labels as a table with episode, start, end and label (--labels FILE.csv)."
                )
        self.wanted = columns

    def dimension_names(self, vector: str) -> tuple[str, ...]:
        """What the numbers of a vector are called, where the recordings say it."""
        return ()

    def usual_vectors(self) -> tuple[str | None, str | None]:
        """What the robot's own state and its commands are called; None where there are none."""
        return STATE, ACTION

    def further_vectors(self) -> tuple[str, ...]:
        """Names of what else was measured or commanded, beside the states and actions that every episode has."""
        return ()

    def ask_for_vectors(self, *names: str) -> None:
        """Read those of the further vectors with every episode that are among the names."""
        self.wanted_vectors = tuple(name for name in self.further_vectors() if name in names)

    def _columns_in_words(self) -> str:
        return ""

    def __iter__(self) -> Iterator[Episode]:
        return (episode for episode, _ in self.visit(lambda episode: None))

    def describe(self) -> dict[str, Any]:
        """What tells this dataset from another, as JSON; not where it lies, so that it may be moved."""
        return {"kind": type(self).__name__, "name": self.folder.absolute().name, "n_episodes": self.n_episodes}

    def content(self) -> str:
        """SHA-256 of the files: of all bytes of tables and metadata, and of samples of what is larger."""
        total = hashlib.sha256()
        found = {path for pattern in self.files for path in self.folder.glob(pattern) if path.is_file()}
        for path in sorted(found) if self.folder.is_dir() else [self.folder]:
            size, name = path.stat().st_size, path.relative_to(self.folder).as_posix()
            total.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
            places = [0] if size <= WHOLE else [size * i // SAMPLES for i in range(SAMPLES)] + [size - SAMPLE]
            with path.open("rb") as file:
                for place in places:
                    file.seek(place)
                    total.update(file.read(WHOLE if size <= WHOLE else SAMPLE))
        return total.hexdigest()

    def visit(self, work: Callable[[Episode], T], start: int = 0) -> Iterator[tuple[Episode, T]]:
        """Yield each episode with what ``work`` made of it, leaving out those that turn out to be damaged.

        Damage in a video shows only when its frames are decoded, so whoever needs frames decodes them in ``work``.
        ``start`` passes over the first episodes; ``position`` says how many are behind, damaged ones included.
        """
        self.skipped.clear()
        self.position = start
        for read in islice(self._opened(), start, None):
            self.position += 1
            try:
                episode = self._parsed(read)
                result = work(episode)
            except DamagedEpisodeError as error:
                if self.strict:
                    raise
                name, reason = error.skipped
                self.skipped.append(error.skipped)
                warnings.warn(f"Episode {name} is left out: {reason}.", DamagedEpisodeWarning, stacklevel=2)
                continue
            yield episode, result

    def _opened(self) -> Iterator[Callable[[], Episode]]:
        """`_open`, for which metadata that are not what they should be are the dataset's fault."""
        episodes = self._open()
        while True:
            with of_dataset(self.folder):
                read = next(episodes, None)
            if read is None:
                return
            yield read

    def _parsed(self, read: Callable[[], Episode]) -> Episode:
        """One episode; bytes that are not what they should be can fail in any way, and all of them mean damage."""
        try:
            return read()
        except InputError:
            raise
        except (*BROKEN, zlib.error) as error:
            raise damaged(str(self.position - 1), f"it cannot be read ({brief(error)})") from None


@contextmanager
def of_dataset(folder: Path) -> Iterator[None]:
    """Turn what foreign metadata can make a reader stumble over into one sentence."""
    try:
        yield
    except InputError:
        raise
    except BROKEN as error:
        raise InputError(f"The dataset in {folder} is damaged ({brief(error)}); restore it from its source.") from None


def open_episodes(folder: str | Path, *, split: str | None = None, strict: bool = False) -> EpisodeSource:
    """Open a LeRobot dataset, TFRecord shards, HDF5 or zarr, whichever lies in ``folder``.

    ``split`` names one of the splits of TFRecord shards ("train", "val", …), or "all" of them; where there are several,
    the default is "train", because an episode of one split may be repeated in another.
    """
    from prism_irl.robots.arrays import HDF5Source, ZarrSource
    from prism_irl.robots.lerobot import LeRobotSource
    from prism_irl.robots.rlds import open_rlds

    path = Path(folder)
    if path.is_file() and HDF5Source.found_in(path) and split is None:
        return HDF5Source(path, strict=strict)
    if not path.is_dir():
        raise InputError(f"There is no folder {path}; give the folder of a dataset.")
    with of_dataset(path):
        if next(path.glob("*.tfrecord*"), None) is not None and not (path / "meta" / "info.json").is_file():
            return open_rlds(path, split, strict=strict)
        if split is not None:
            raise InputError(f"{path} has no splits; leave out --split, which belongs to TFRecord shards (RLDS).")
        if (path / "meta" / "info.json").is_file():
            return LeRobotSource(path, strict=strict)
        if HDF5Source.found_in(path):
            return HDF5Source(path, strict=strict)
        if ZarrSource.found_in(path):
            return ZarrSource(path, strict=strict)
    raise InputError(
        f"{path} is no dataset that prism reads; give a LeRobot folder (meta/info.json), a folder with TFRecord shards "
        "and features.json, HDF5 (robomimic, ALOHA), or zarr (Diffusion Policy); raw BridgeData V2 is read by "
        "prism reproduce bridge."
    )


def inside(folder: Path, relative: str, what: str) -> Path:
    """Path below ``folder``; metadata that point elsewhere are refused.

    The check is on the words of the path and not on where links lead: download caches are full of links.
    """
    parts = Path(relative).parts
    if not parts or Path(relative).is_absolute() or ".." in parts or "\\" in relative or "\0" in relative:
        raise InputError(f"The {what} {relative!r} in {folder} points outside the dataset; it is not read.")
    return folder / relative


# -- frames of video files, through PyAV; a file that ends too early is damaged, never a shorter recording -------------

MAX_PIXELS = 64_000_000
"""A larger picture is refused before it is decoded: a few bytes can claim to be gigabytes of pixels."""


def read_video(path: Path, episode: str, *, start: float = 0.0, n_frames: int | None = None) -> Iterator[Frame]:
    """Yield the frames of a video, or ``n_frames`` of them from ``start`` seconds on.

    ``episode`` is named in the error when the video is missing or broken.
    """
    av = need("av", "robots")
    if not path.is_file():
        raise damaged(episode, f"its video {path.name} is missing")
    count = 0
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise damaged(episode, f"{path.name} holds no video")
            stream = container.streams.video[0]
            _check_size(stream.codec_context.width, stream.codec_context.height, episode, path.name)
            stream.thread_type = "AUTO"
            rate = float(stream.average_rate or 1)
            if start > 0:  # to the key frame before; what lies between is decoded and thrown away
                container.seek(max(int((start - 0.5 / rate) / stream.time_base), 0), stream=stream, backward=True)
            for frame in container.decode(stream):
                if n_frames is not None and count >= n_frames:
                    return
                if start > 0 and frame.time is not None and frame.time < start - 0.5 / rate:
                    continue
                count += 1
                yield frame.to_ndarray(format="rgb24")
    except DamagedEpisodeError:
        raise
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise damaged(episode, f"its video {path.name} breaks off after {count} frames ({brief(error)})") from None


def decode_image(data: bytes, episode: str, what: str) -> Frame:
    """One JPEG or PNG picture, (height, width, 3)."""
    image_module = need("PIL.Image", "robots")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's warning about large pictures: ours are refused below
            with image_module.open(io.BytesIO(data), formats=("JPEG", "PNG")) as image:
                _check_size(image.width, image.height, episode, what)
                return np.asarray(image.convert("RGB"), dtype=np.uint8)
    except DamagedEpisodeError:
        raise
    except (OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        raise damaged(episode, f"{what} cannot be decoded ({brief(error)})") from None


def _check_size(width: int, height: int, episode: str, what: str) -> None:
    if width * height > MAX_PIXELS:
        raise damaged(episode, f"{what} claims {width} × {height} pixels, more than any camera here has")
