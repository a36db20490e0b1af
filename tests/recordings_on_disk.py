"""Robot recordings that tests write for the readers: pictures, TFRecord files, RLDS and LeRobot v3.0."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from prism_irl import storage
from prism_irl.optional import need
from prism_irl.robots.episodes import Episode, Frame
from prism_irl.robots.rlds import Values, masked_crc
from prism_irl.robots.vision.encoders import FrameEncoder, Vectors
from worlds.lerobot import CHUNK, LeRobotWriter, VideoWriter, write_lerobot

FRONT = "observation.images.front"


def there_and_back(n: int = 8, length: int = 30, *, seen: bool = False) -> Iterator[Episode]:
    """A hand that goes right and then left, with the phase of every step; ``seen``: a lamp shows which."""
    rng = np.random.default_rng(0)
    for index in range(n):
        phase = (np.arange(length) >= length // 2).astype(np.int32)
        command = np.stack([np.where(phase, -1.0, 1.0), rng.normal(0, 1, length)], axis=1)
        command += rng.normal(0, 0.1, command.shape)
        state = np.c_[np.cumsum(command, axis=0), np.full(length, 7.0)]
        pictures = np.zeros((length, 32, 32, 3), np.uint8)
        pictures[phase == 1, 8:24, 8:24] = 200
        cameras = {FRONT: partial(iter, pictures)} if seen else {}
        yield Episode(index, command, state, phases=phase, phase_names=("right", "left"), cameras=cameras)


def encode_image(frame: Frame, kind: str = "PNG") -> bytes:
    """One picture as PNG (exact) or JPEG bytes."""
    buffer = io.BytesIO()
    options = {"quality": 95} if kind == "JPEG" else {}
    need("PIL.Image", "robots").fromarray(frame).save(buffer, format=kind, **options)
    return buffer.getvalue()


def write_records(file: IO[bytes], records: Iterable[bytes]) -> None:
    """Write records with their checksums."""
    for data in records:
        length = struct.pack("<Q", len(data))
        for part in (length, struct.pack("<I", masked_crc(length)), data, struct.pack("<I", masked_crc(data))):
            file.write(part)


def build_example(features: Mapping[str, Values]) -> bytes:
    """Serialise features as a `tf.train.Example`; undoes `parse_example`."""
    entries = b"".join(
        field(1, field(1, name.encode()) + field(2, _build_feature(values))) for name, values in features.items()
    )
    return field(1, entries)


def _build_feature(values: Values) -> bytes:
    if isinstance(values, list):
        return field(1, b"".join(field(1, item) for item in values))
    if values.dtype.kind == "f":
        return field(2, field(1, values.astype("<f4").tobytes()))
    return field(3, field(1, b"".join(_build_varint(int(value) & 0xFFFFFFFFFFFFFFFF) for value in values)))


def field(number: int, body: bytes) -> bytes:
    return _build_varint(number << 3 | 2) + _build_varint(len(body)) + body


def _build_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_rlds(
    folder: str | Path, episodes: Sequence[Episode], *, name: str = "demonstrations", split: str = "train"
) -> Path:
    """Write a small RLDS dataset of one shard, with JPEG pictures."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    first = episodes[0]

    def tensor(shape: Sequence[int]) -> dict[str, Any]:
        return {"tensor": {"shape": {"dimensions": [str(side) for side in shape]}, "dtype": "float32"}}

    def branch(children: dict[str, Any]) -> dict[str, Any]:
        return {"featuresDict": {"features": children}}

    def example(episode: Episode) -> bytes:
        marks = np.arange(len(episode))
        values: dict[str, Values] = {
            "steps/action": episode.actions.ravel(),
            "steps/is_first": (marks == 0).astype(np.int64),
            "steps/is_last": (marks == len(episode) - 1).astype(np.int64),
            "steps/language_instruction": [episode.language.encode()] * len(episode),
        }
        if episode.states is not None:
            values["steps/observation/state"] = episode.states.ravel()
        for camera in episode.cameras:
            pictures = [encode_image(frame, "JPEG") for frame in episode.frames(camera)]
            values[f"steps/observation/{camera}"] = pictures
        return build_example(values)

    observation: dict[str, Any] = {
        camera: {"image": {"shape": {"dimensions": [str(side) for side in next(first.frames(camera)).shape]}}}
        for camera in first.cameras
    }
    if first.states is not None:
        observation["state"] = tensor(first.states.shape[1:])
    steps = branch({"action": tensor(first.actions.shape[1:]), "observation": branch(observation)})
    storage.write_json(target / "features.json", branch({"steps": {"sequence": {"feature": steps}}}))
    info = {"name": name, "splits": [{"name": split, "shardLengths": [str(len(episodes))]}]}
    storage.write_text(target / "dataset_info.json", json.dumps(info, indent=2))
    shard = target / f"{name}-{split}.tfrecord-00000-of-00001"
    storage.write_file(shard, lambda file: write_records(file, map(example, episodes)))
    return target


DATA_V3 = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_V3 = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_V3 = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"


def write_lerobot_version(folder: Path, episodes: Iterable[Episode], version: str, *, fps: float = 10) -> Path:
    """Write a LeRobot dataset of version v2.1, or of v3.0 with three episodes in a file."""
    if version == "v2.1":
        return write_lerobot(folder, episodes, fps=fps)
    return LeRobot3Writer(folder, float(fps), per_file=3).write(episodes, "unknown", {})


class LeRobot3Writer(LeRobotWriter):
    """LeRobot v3.0: many episodes per parquet file and per video; metadata as parquet."""

    version, data_path, video_path = "v3.0", DATA_V3, VIDEO_V3

    def __init__(self, folder: Path, fps: float, per_file: int) -> None:
        super().__init__(folder, fps)
        self.per_file = per_file
        self.open_files = ExitStack()
        self.table: pq.ParquetWriter | None = None
        self.videos: dict[str, VideoWriter] = {}

    def store(self, index: int, episode: Episode, table: pa.Table) -> None:
        """Append one episode to the files that are open."""
        place = {"chunk_index": index // self.per_file // CHUNK, "file_index": index // self.per_file % CHUNK}
        if index % self.per_file == 0:
            self.open_files.close()
            path = self.folder / DATA_V3.format(**place)
            path.parent.mkdir(parents=True, exist_ok=True)
            self.table = self.open_files.enter_context(pq.ParquetWriter(path, table.schema))
            self.videos = {
                camera: self.open_files.enter_context(
                    VideoWriter(self.folder / VIDEO_V3.format(video_key=camera, **place), self.fps)
                )
                for camera in episode.cameras
            }
        assert self.table is not None
        self.table.write_table(table)
        row = self.rows[index]
        row |= {"dataset_from_index": self.n_frames, "dataset_to_index": self.n_frames + len(episode)}
        row |= {f"data/{key}": value for key, value in place.items()}
        row |= {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}
        for camera, video in self.videos.items():
            row |= {f"videos/{camera}/{key}": value for key, value in place.items()}
            row[f"videos/{camera}/from_timestamp"] = video.count / self.fps
            for frame in episode.frames(camera):
                video.add(frame)
            row[f"videos/{camera}/to_timestamp"] = video.count / self.fps
            self.frame_shapes[camera] = video.shape or (0, 0)

    def metadata(self) -> None:
        """Episodes and tasks as parquet."""
        self.open_files.close()
        path = self.folder / EPISODES_V3.format(chunk_index=0, file_index=0)
        path.parent.mkdir(parents=True, exist_ok=True)
        flat = [
            row | {f"stats/{key}/{name}": value for key, stats in found.items() for name, value in stats.items()}
            for row, found in zip(self.rows, self.statistics, strict=True)
        ]
        pq.write_table(pa.Table.from_pylist(flat), path)
        # LeRobot looks instructions up in the index of a pandas table.
        tasks = pd.DataFrame({"task_index": list(self.tasks.values())}, index=pd.Index(list(self.tasks), name="task"))
        tasks.to_parquet(self.folder / "meta" / "tasks.parquet")


class CallableEncoder(FrameEncoder):
    """Any deterministic function from a batch of frames, (n, height, width, 3) bytes, to vectors (n, m).

    The ``name`` identifies it in the cache: another function needs another name.
    """

    def __init__(
        self, function: Callable[[Frame], npt.ArrayLike], name: str, camera: str | None = None, batch_size: int = 64
    ) -> None:
        super().__init__(camera, batch_size)
        self.function, self.name = function, name

    def describe(self) -> dict[str, Any]:
        """Name and camera."""
        return {"encoder": "callable", "name": self.name, "camera": self.camera}

    def batch(self, frames: list[Frame]) -> Vectors:
        """What the function makes of the frames."""
        return np.asarray(self.function(np.stack(frames)), dtype=np.float32)
