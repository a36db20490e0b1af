"""Write LeRobot datasets of version 2.1, one file per episode, episode by episode.

Simulated worlds and tests use it; the columns are ``action``, ``observation.state``, LeRobot's five bookkeeping ones
and, where an episode knows its true phases, ``phase``. Nothing is held but the episode that is being written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from prism_irl import storage
from prism_irl.errors import InputError
from prism_irl.optional import need
from prism_irl.robots.episodes import Episode, Frame
from prism_irl.robots.lerobot_writing import statistics_of, write_lines

CHUNK = 1000
DATA = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
VIDEO = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"


def write_lerobot(
    folder: str | Path,
    episodes: Iterable[Episode],
    *,
    fps: float = 10,
    robot_type: str = "unknown",
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
) -> Path:
    """Write episodes as a LeRobot dataset into a new folder and return it.

    Episodes are numbered in the order they come, whatever their own index says.

    Parameters
    ----------
    folder : path
        Must not exist or be empty.
    episodes : iterable of Episode
        Consumed one at a time; frames are encoded as they come. All have the same cameras and dimensions.
    fps : float
        Steps per second; timestamps are step / fps.
    robot_type : str
        Kept in the metadata.
    state_names, action_names : sequence of str, optional
        Names of the dimensions.
    """
    return LeRobotWriter(Path(folder), float(fps)).write(
        episodes, robot_type, {"observation.state": state_names, "action": action_names}
    )


class LeRobotWriter:
    """One parquet file and one video per episode; metadata as JSON lines."""

    version, data_path, video_path = "v2.1", DATA, VIDEO

    def __init__(self, folder: Path, fps: float) -> None:
        self.folder, self.fps = folder, fps
        self.tasks: dict[str, int] = {}
        self.n_frames = 0
        self.first: Episode | None = None
        self.frame_shapes: dict[str, tuple[int, int]] = {}
        self.rows: list[dict[str, Any]] = []
        self.statistics: list[dict[str, Any]] = []

    def write(self, episodes: Iterable[Episode], robot_type: str, names: dict[str, Sequence[str] | None]) -> Path:
        """Write all episodes into the folder, which must not exist or be empty, and return it."""
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise InputError(f"{self.folder} exists already; choose a new folder for the dataset.")
        (self.folder / "meta").mkdir(parents=True, exist_ok=True)
        for episode in episodes:
            self.add(episode)
        if not self.rows:
            raise InputError(f"There is no episode to write into {self.folder}; give at least one.")
        self.finish(robot_type, names)
        return self.folder

    def add(self, episode: Episode) -> None:
        """Append one episode."""
        self.first = self.first or episode
        _check_same(self.first, episode)
        index, task = len(self.rows), self.tasks.setdefault(episode.language, len(self.tasks))
        columns = self.columns(episode, index, task)
        self.statistics.append({key: statistics_of(values) for key, values in columns.items()})
        self.rows.append({"episode_index": index, "tasks": [episode.language], "length": len(episode)})
        self.store(index, episode, pa.table({key: _column(values) for key, values in columns.items()}))
        self.n_frames += len(episode)

    def columns(self, episode: Episode, index: int, task: int) -> dict[str, npt.NDArray[Any]]:
        """Every column of one episode, (T,) or (T, d)."""
        steps, n = np.arange(len(episode)), len(episode)
        columns: dict[str, npt.NDArray[Any]] = {"action": episode.actions}
        if episode.states is not None:
            columns["observation.state"] = episode.states
        if episode.phases is not None:
            columns["phase"] = episode.phases.astype(np.int64)
        return columns | {
            "timestamp": (steps / self.fps).astype(np.float32),
            "frame_index": steps,
            "episode_index": np.full(n, index),
            "index": steps + self.n_frames,
            "task_index": np.full(n, task),
        }

    def store(self, index: int, episode: Episode, table: pa.Table) -> None:
        """Write the files of one episode."""
        place = {"episode_chunk": index // CHUNK, "episode_index": index}
        path = self.folder / DATA.format(**place)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        for camera in episode.cameras:
            video = self.folder / VIDEO.format(video_key=camera, **place)
            with VideoWriter(video, self.fps) as writer:
                for frame in episode.frames(camera):
                    writer.add(frame)
            self.frame_shapes[camera] = writer.shape or (0, 0)

    def metadata(self) -> None:
        """Episodes, tasks and statistics."""
        meta = self.folder / "meta"
        statistics = ({"episode_index": i, "stats": stats} for i, stats in enumerate(self.statistics))
        write_lines(meta / "episodes.jsonl", self.rows)
        write_lines(meta / "tasks.jsonl", ({"task_index": i, "task": task} for task, i in self.tasks.items()))
        write_lines(meta / "episodes_stats.jsonl", statistics)

    def finish(self, robot_type: str, names: dict[str, Sequence[str] | None]) -> None:
        """Write the metadata, the description last: without it the folder is no dataset."""
        assert self.first is not None
        self.metadata()
        n, cameras = len(self.rows), len(self.frame_shapes)
        info = {
            "codebase_version": self.version,
            "robot_type": robot_type,
            "total_episodes": n,
            "total_frames": self.n_frames,
            "total_tasks": len(self.tasks),
            "total_videos": n * cameras,
            "total_chunks": -(-n // CHUNK),
            "chunks_size": CHUNK,
            "fps": int(self.fps) if self.fps.is_integer() else self.fps,
            "splits": {"train": f"0:{n}"},
            "data_path": self.data_path,
            "video_path": self.video_path if cameras else None,
            "features": self.features(names),
        }
        storage.write_json(self.folder / "meta" / "info.json", info)

    def features(self, names: dict[str, Sequence[str] | None]) -> dict[str, Any]:
        """Description of every column and camera."""
        assert self.first is not None
        features: dict[str, Any] = {}
        for key, (height, width) in self.frame_shapes.items():
            features[key] = {
                "dtype": "video",
                "shape": [height, width, 3],
                "names": ["height", "width", "channels"],
                "info": {"video.fps": self.fps, "video.codec": "h264", "video.pix_fmt": "yuv420p", "has_audio": False},
            }
        for key, values in self.columns(self.first, 0, 0).items():
            given = names.get(key)
            shape = [1] if values.ndim == 1 else list(values.shape[1:])
            features[key] = {
                "dtype": str(values.dtype),
                "shape": shape,
                "names": None if given is None else list(given),
            }
            if given is not None and len(given) != shape[0]:
                raise InputError(f"There are {len(given)} names for the {shape[0]} dimensions of {key}.")
        if self.first.phases is not None:
            features["phase"]["values"] = list(self.first.phase_names)
        return features


def _check_same(first: Episode, episode: Episode) -> None:
    """Every episode of a dataset has the columns of the first."""

    def shape(values: npt.NDArray[Any] | None) -> object:
        return None if values is None else values.shape[1:]

    for key in ("actions", "states", "phases"):
        if shape(getattr(first, key)) != shape(getattr(episode, key)):
            raise InputError(f"The {key} of episode {episode.name} differ in shape from those of the first episode.")
    if list(first.cameras) != list(episode.cameras):
        raise InputError(f"The cameras of episode {episode.name} differ from those of the first episode.")


def _column(values: npt.NDArray[Any]) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).ravel()), values.shape[1])


class VideoWriter:
    """A video that grows frame by frame (H.264, 4:2:0, a key frame every second frame as LeRobot has it)."""

    def __init__(self, path: Path, fps: float) -> None:
        self._path, self._rate = path, Fraction(fps).limit_denominator(1001)
        self._container: Any = None
        self._stream: Any = None
        self.count = 0
        self.shape: tuple[int, int] | None = None

    def __enter__(self) -> VideoWriter:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._container = need("av", "robots").open(str(self._path), mode="w")
        return self

    def add(self, frame: Frame) -> None:
        """Append one frame, (height, width, 3) of bytes; sides must be even, as 4:2:0 has it."""
        height, width = frame.shape[:2]
        if self.shape is None:
            if frame.dtype != np.uint8 or frame.shape[2:] != (3,) or height % 2 or width % 2:
                raise InputError(
                    f"A frame has shape {frame.shape} and type {frame.dtype}; give (height, width, 3) of uint8 with "
                    "even height and width."
                )
            self.shape = (height, width)
            self._stream = self._container.add_stream("libx264", rate=self._rate, options={"crf": "18", "g": "2"})
            self._stream.width, self._stream.height, self._stream.pix_fmt = width, height, "yuv420p"
        elif (height, width) != self.shape:
            raise InputError(
                f"Frame {self.count} has shape {frame.shape}, the first one {self.shape}; make them equal."
            )
        picture = need("av", "robots").VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
        self._container.mux(self._stream.encode(picture))
        self.count += 1

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._container.mux(self._stream.encode(None))
        self._container.close()
