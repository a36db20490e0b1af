"""Write LeRobot datasets of version 2.1, one file per episode, episode by episode.

Simulated worlds and tests use it; the columns are ``action``, ``observation.state``, LeRobot's five bookkeeping ones
and, where an episode knows its true phases, ``phase``. Nothing is held but the episode that is being written.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from prism_irl import storage
from prism_irl.checked import BROKEN
from prism_irl.errors import InputError, brief
from prism_irl.robots.episodes import Episode
from prism_irl.robots.lerobot import (
    COLUMN,
    FEATURE,
    NOT_SEGMENTED,
    TYPE,
    LeRobotSource,
    Segment,
    Words,
    in_order,
    language_column,
    read_lines,
    rows_of,
    segments_of,
    timestamps,
    write_stages,
)
from prism_irl.robots.video import VideoWriter

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


def statistics_of(values: npt.NDArray[Any]) -> dict[str, Any]:
    """Range, mean, spread and number of the rows of a column, (T,) or (T, d)."""
    rows = values.reshape(len(values), -1).astype(np.float64)
    found = {"min": rows.min(0), "max": rows.max(0), "mean": rows.mean(0), "std": rows.std(0)}
    return {key: value.tolist() for key, value in found.items()} | {"count": [len(rows)]}


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object per line."""
    storage.write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


# -- a copy with one more column ---------------------------------------------------------------------------------------

Columns = Mapping[str, int]
"""Name of a new column → its value where a step was not segmented."""
SUBTASK = "subtask_index"
UNKNOWN = -1
"""Value of steps that were not segmented: dropped first steps and episodes that were left out."""


def add_column(
    source: str | Path,
    target: str | Path,
    values: Mapping[int, tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.integer[Any]]]],
    *,
    name: str = "intention",
    subtasks: Sequence[str] | None = None,
    words: Words | None = None,
) -> int:
    """Copy a dataset and add an int64 column; returns how many steps have a value.

    Parameters
    ----------
    source : path
        A LeRobot dataset, v2.x or v3.0; never written to.
    target : path
        Folder of the copy, which must not exist.
    values : mapping
        For each episode index the frame indices (n,) and their values (n,); steps that are not named get -1.
    name : str
        Of the column; one that is there already is an error.
    subtasks : K words, optional
        Write the subtasks of LeRobot 0.5 as well. Its reader looks every frame up, so that frames without a value get
        a subtask of their own, "not segmented".
    words : Words, optional
        Write ``language_persistent`` as well, and where every episode passes its phases in the order of their numbers,
        the stages that SARM reads.
    """
    dataset, copy = LeRobotSource(source), Path(target)
    if copy.exists() or copy.is_symlink():
        raise InputError(f"{copy} exists already; choose a new folder for the copy.")
    origin, place = dataset.folder.resolve(), copy.absolute().resolve()
    if origin == place or origin in place.parents:
        raise InputError(f"{copy} lies inside the dataset it copies; choose a folder outside {dataset.folder}.")
    columns = {name: UNKNOWN} if subtasks is None else {name: UNKNOWN, SUBTASK: len(subtasks)}
    for column in (*columns, *([] if words is None else [COLUMN])):
        if column in dataset.features:
            raise InputError(f"{dataset.folder} has a column {column!r} already; give the original dataset.")
    written: dict[int, int] = {}
    segments = {} if words is None else _segments(dataset.folder, values)
    rows = None if words is None else {i: rows_of(own, words) for i, own in segments.items()}
    try:
        with storage.replacing(copy) as unfinished:
            for path in sorted(dataset.folder.rglob("*")):
                relative = path.relative_to(dataset.folder)
                if relative.parts[0] in (".cache", ".git") or not path.is_file():
                    continue
                (unfinished / relative).parent.mkdir(parents=True, exist_ok=True)
                if relative.parts[0] == "data" and path.suffix == ".parquet":
                    _extend(path, unfinished / relative, values, columns, written, rows)
                else:
                    shutil.copyfile(path, unfinished / relative)
            _check_all_found(dataset, values, written)
            _describe(unfinished, values, columns)
            if words is not None:
                info = storage.read_json(unfinished / "meta" / "info.json")
                info["features"][COLUMN] = FEATURE
                storage.write_json(unfinished / "meta" / "info.json", info)
                if in_order(segments):
                    write_stages(unfinished, segments, words.names or words.motions)
            if subtasks is not None:
                _write_subtasks(unfinished, subtasks)
    except (*BROKEN, pa.ArrowException) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"Cannot copy {dataset.folder} to {copy} ({brief(error)}).") from None
    return sum(written.values())


def segments_in_seconds(
    dataset: str | Path, values: Mapping[int, tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.integer[Any]]]]
) -> dict[int, list[Segment]]:
    """Segments of every episode, with the timestamps of the dataset; ``values`` as in `add_column`."""
    return _segments(LeRobotSource(dataset).folder, values)


def _segments(folder: Path, values: Mapping[int, Any]) -> dict[int, list[Segment]]:
    times = timestamps(folder)
    found = {}
    for episode, (known, labels) in values.items():
        if episode in times:
            frames, seconds = times[episode]
            found[episode] = segments_of(frames, _values_at(frames, known, labels), seconds)
    return found


def _extend(
    path: Path,
    target: Path,
    values: Mapping[int, Any],
    columns: Columns,
    written: dict[int, int],
    rows: Mapping[int, Sequence[Mapping[str, Any]]] | None = None,
) -> None:
    """Copy one table with the new columns."""
    with pq.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.schema_arrow.metadata
        for name in columns:
            schema, metadata = schema.append(pa.field(name, pa.int64())), _with_feature(metadata, name)
        if rows is not None:
            schema, metadata = schema.append(pa.field(COLUMN, TYPE)), _without_features(metadata)
        schema = schema.with_metadata(metadata)
        with pq.ParquetWriter(target, schema) as writer:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group)
                episodes, frames = (table[key].to_numpy() for key in ("episode_index", "frame_index"))
                column = np.full(len(frames), UNKNOWN, dtype=np.int64)
                for episode in np.unique(episodes).tolist():
                    if episode in values:
                        here = np.flatnonzero(episodes == episode)
                        found = _values_at(frames[here], *values[episode])
                        column[here] = found
                        written[episode] = written.get(episode, 0) + int((found != UNKNOWN).sum())
                for name, unknown in columns.items():
                    own = np.where(column == UNKNOWN, unknown, column)
                    table = table.append_column(name, pa.array(own))
                if rows is not None:
                    table = table.append_column(pa.field(COLUMN, TYPE), language_column(episodes, rows))
                writer.write_table(table.cast(schema))


def _write_subtasks(copy: Path, words: Sequence[str]) -> None:
    """meta/subtasks.parquet: the words as index, their numbers as column; the last one is for frames without."""
    from collections import Counter

    import pandas as pd

    named = [*words, NOT_SEGMENTED]
    counts = Counter(named)
    unique = [word if counts[word] == 1 else f"{word} ({i})" for i, word in enumerate(named)]
    table = pd.DataFrame({SUBTASK: np.arange(len(unique), dtype=np.int64)}, index=pd.Index(unique, name="subtask"))
    table.to_parquet(copy / "meta" / "subtasks.parquet")


def _values_at(frames: npt.NDArray[Any], known: npt.NDArray[Any], labels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    order = np.argsort(known)
    at = np.minimum(np.searchsorted(known, frames, sorter=order), len(known) - 1)
    matches = known[order][at] == frames
    return np.where(matches, np.asarray(labels)[order][at], UNKNOWN).astype(np.int64)


def _with_feature(metadata: dict[bytes, bytes] | None, name: str) -> dict[bytes, bytes] | None:
    """Schema metadata in which the `datasets` library keeps a second description of the columns."""
    if not metadata or b"huggingface" not in metadata:
        return metadata
    try:
        described = json.loads(metadata[b"huggingface"])
        described["info"]["features"][name] = {"dtype": "int64", "_type": "Value"}
    except (ValueError, KeyError, TypeError):
        return metadata
    return metadata | {b"huggingface": json.dumps(described).encode()}


def _without_features(metadata: dict[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    """Schema metadata without the second description, which the `datasets` library then takes from the columns."""
    return None if metadata is None else {name: value for name, value in metadata.items() if name != b"huggingface"}


def _check_all_found(dataset: LeRobotSource, values: Mapping[int, Any], written: dict[int, int]) -> None:
    for episode, (known, labels) in values.items():
        expected = int((np.asarray(labels) != UNKNOWN).sum())
        if written.get(episode, 0) != expected:
            raise InputError(
                f"Episode {episode} has {len(known)} segmented steps, but {dataset.folder} holds "
                f"{written.get(episode, 0)} of them; give the dataset that was tokenized."
            )


def _describe(copy: Path, values: Mapping[int, Any], columns: Columns) -> None:
    """Tell the metadata of the copy about the columns."""
    path = copy / "meta" / "info.json"
    info = storage.read_json(path)
    for name in columns:
        info["features"][name] = {"dtype": "int64", "shape": [1], "names": None}
    storage.write_json(path, info)
    statistics = copy / "meta" / "episodes_stats.jsonl"
    if not statistics.is_file():
        return
    rows = list(read_lines(statistics))
    for row in rows:
        if row.get("episode_index") in values:
            for name in columns:
                row["stats"][name] = statistics_of(np.asarray(values[row["episode_index"]][1]))
    write_lines(statistics, rows)
