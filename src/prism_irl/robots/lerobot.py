"""LeRobot datasets, v2.0/v2.1 (one file per episode) and v3.0 (many episodes per file): parquet tables and mp4 videos.

Metadata are data, not trusted: path templates may hold plain numbers and names only and must stay inside the dataset.
Use `LeRobotSource` to stream episodes, and `lerobot_writing.add_column` to put a result back beside the data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prism_irl import storage
from prism_irl.checked import BROKEN
from prism_irl.data.continuous import column_names, short_names, signals
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError, brief
from prism_irl.optional import need
from prism_irl.robots.episodes import Episode, EpisodeSource, Frame, damaged, decode_image, inside, read_video

COLUMN = "language_persistent"
FEATURE = {"dtype": "language", "shape": [1], "names": None}
MOTION, SUBTASK = "motion", "subtask"
STYLES = (SUBTASK, MOTION)
ROLE = "assistant"
JSON = pa.json_() if hasattr(pa, "json_") else pa.string()
ROW = pa.struct(
    [
        pa.field("role", pa.string(), nullable=False),
        pa.field("content", pa.string()),
        pa.field("style", pa.string()),
        pa.field("timestamp", pa.float32(), nullable=False),
        pa.field("camera", pa.string()),
        pa.field("tool_calls", pa.list_(JSON)),
    ]
)
TYPE = pa.list_(ROW)
DENSE = "dense_subtask_"
PROPORTIONS = "temporal_proportions_dense.json"


class Segment(NamedTuple):
    """A run of one phase in an episode: its number, its first and last frame and their timestamps in seconds."""

    phase: int
    start: int
    end: int
    start_time: float
    end_time: float


class Words(NamedTuple):
    """What is said of K phases: ``motions``, and ``names`` where somebody has given any."""

    motions: Sequence[str]
    names: Sequence[str] | None = None


def segments_of(frames: npt.NDArray[Any], labels: npt.NDArray[Any], times: npt.NDArray[Any]) -> list[Segment]:
    """Runs of one label in an episode; ``times`` are the timestamps of the frames, (n,), −1 marks frames without."""
    cuts = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
    return [
        Segment(int(labels[a]), int(frames[a]), int(frames[b - 1]), float(times[a]), float(times[b - 1]))
        for a, b in pairwise(cuts)
        if b > a and labels[a] >= 0
    ]


def rows_of(segments: Sequence[Segment], words: Words) -> list[dict[str, Any]]:
    """Rows of an episode in the order of their time."""
    found: list[dict[str, Any]] = []
    for one in segments:
        for style, content in ((SUBTASK, words.names), (MOTION, words.motions)):
            if content is not None:
                row = {"role": ROLE, "content": content[one.phase], "style": style, "timestamp": one.start_time}
                found.append(row | {"camera": None, "tool_calls": None})
    return found


def language_column(episodes: npt.NDArray[Any], rows: Mapping[int, Sequence[Mapping[str, Any]]]) -> pa.ListArray:
    """The column for frames of these episodes, (n,): on every frame the rows of its episode, where there are any."""
    order = sorted(rows)
    flat = [row for episode in order for row in rows[episode]]
    begin = dict(zip(order, np.cumsum([0, *(len(rows[episode]) for episode in order)])[:-1].tolist(), strict=True))
    sizes = np.array([len(rows.get(int(episode), ())) for episode in episodes], dtype=np.int64)
    starts = np.array([begin.get(int(episode), 0) for episode in episodes], dtype=np.int64)
    offsets = np.concatenate([[0], sizes.cumsum()])
    index = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    types = {field.name: field.type for field in ROW}
    columns = [
        pa.array([row[name] for row in flat], type=types[name]).take(pa.array(index))
        for name in ("role", "content", "style", "timestamp")
    ]
    nothing = [pa.nulls(len(index), types[name]) for name in ("camera", "tool_calls")]
    values = pa.StructArray.from_arrays([*columns, *nothing], fields=list(ROW))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=TYPE)


def active(rows: Sequence[Mapping[str, Any]], style: str, times: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
    """Content of the row of a style that is active at each time, (n,); None before the first one."""
    own = sorted((float(row["timestamp"]), row["content"]) for row in rows if row["style"] == style)
    found = np.empty(len(times), dtype=object)
    if own:
        at = np.searchsorted(np.array([time for time, _ in own], np.float32), times.astype(np.float32), side="right")
        found[:] = [own[i - 1][1] if i else None for i in at]
    return found


def timestamps(folder: Path) -> dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
    """Frame numbers and timestamps of every episode of a LeRobot dataset, in the order of the frames."""
    keys = ["episode_index", "frame_index", "timestamp"]
    parts = []
    for path in sorted((folder / "data").rglob("*.parquet")):
        try:
            parts.append(pq.read_table(path, columns=keys, partitioning=None).to_pandas())
        except (*BROKEN, pa.ArrowException) as error:
            raise InputError(f"{path} is damaged and cannot be copied ({brief(error)}); restore it.") from None
    if not parts:
        return {}
    frames = pd.concat(parts).sort_values(keys[:2], kind="stable").groupby("episode_index")
    return {int(i): (own["frame_index"].to_numpy(np.int64), own["timestamp"].to_numpy(np.float32)) for i, own in frames}


def in_order(segments: Mapping[int, Sequence[Segment]]) -> bool:
    """Whether every episode passes its phases in the order of their numbers, so that they are stages."""
    return all(one.phase < other.phase for own in segments.values() for one, other in pairwise(own))


def write_stages(folder: Path, segments: Mapping[int, Sequence[Segment]], names: Sequence[str]) -> None:
    """Put stages into the episodes' metadata and the typical share of each beside them, as SARM reads both."""
    columns: dict[int, dict[str, Any]] = {}
    shares = np.zeros(len(names))
    for episode, own in segments.items():
        steps = np.bincount([one.phase for one in own], [one.end - one.start + 1 for one in own], minlength=len(names))
        shares += steps / max(steps.sum(), 1)
        phases, first, last, begin, end = zip(*own, strict=True) if own else ((),) * 5
        values = {"names": [names[k] for k in phases], "start_times": begin, "end_times": end}
        values |= {"start_frames": first, "end_frames": last}
        columns[episode] = {f"{DENSE}{name}": list(own) for name, own in values.items()}
    mean = shares / max(shares.sum(), 1e-12)
    storage.write_json(folder / "meta" / PROPORTIONS, dict(zip(names, mean.tolist(), strict=True)))
    lines = folder / "meta" / "episodes.jsonl"
    if lines.is_file():
        rows = [row | columns.get(row.get("episode_index", -1), {}) for row in read_lines(lines)]
        storage.write_text(lines, "".join(json.dumps(row) + "\n" for row in rows))
    types = {"names": pa.string(), "start_times": pa.float64(), "end_times": pa.float64()}
    types |= {"start_frames": pa.int64(), "end_frames": pa.int64()}
    for path in sorted((folder / "meta" / "episodes").rglob("*.parquet")):
        table = pq.read_table(path, partitioning=None)
        index = table["episode_index"].to_pylist()
        for name, kind in types.items():
            cells = [columns.get(i, {}).get(f"{DENSE}{name}") for i in index]
            table = table.append_column(f"{DENSE}{name}", pa.array(cells, type=pa.list_(kind)))
        pq.write_table(table, path)


def write_seconds(path: Path, segments: Mapping[int, Sequence[Segment]], names: Sequence[str]) -> None:
    """Segments with seconds, which end where the next begins: .json, a list per episode, or .vtt, subtitles of all."""
    found: dict[str, list[dict[str, Any]]] = {}
    lines, begun = ["WEBVTT", ""], 0.0
    for episode, own in segments.items():
        ends = [*(one.start_time for one in own[1:]), own[-1].end_time if own else 0.0]
        found[str(episode)] = []
        for one, end in zip(own, ends, strict=False):
            found[str(episode)].append({"start_sec": one.start_time, "end_sec": end, "subtask": names[one.phase]})
            lines += [f"{_clock(begun + one.start_time)} --> {_clock(begun + end)}", names[one.phase], ""]
        begun += ends[-1]
    if path.suffix.lower() == ".json":
        storage.write_json(path, found)
    else:
        storage.write_text(path, "\n".join(lines))


def write_rerun(
    path: Path, demos: Demonstrations, labels: npt.NDArray[Any], names: Sequence[str], rate: float | None
) -> None:
    """A recording of Rerun: per episode every number over time, the phase as a number, and its name where it begins.

    ``rate`` is how many frames a second has; without it time is counted in steps.
    """
    rr, values, columns = need("rerun", "rerun"), signals(demos)[0], short_names(column_names(demos))
    stream = rr.RecordingStream("prism")
    stream.save(str(path))
    for i, (a, b) in enumerate(pairwise(demos.offsets.tolist())):
        steps = demos.step_index[a:b] if demos.times is None else np.asarray(demos.times[a:b])
        clock = {"sequence": steps} if rate is None else {"duration": steps / rate}
        name = "step" if rate is None else "time"
        times, place = [rr.TimeColumn(name, **clock)], f"episode_{demos.name_of(i)}"
        for j, column in enumerate(columns):
            group = "observed" if j < values.shape[1] - demos.action_space.size else "commanded"
            own = rr.Scalars.columns(scalars=values[a:b, j])
            stream.send_columns(f"{place}/{group}/{column}", indexes=times, columns=own)
        stream.send_columns(f"{place}/phase", indexes=times, columns=rr.Scalars.columns(scalars=labels[a:b]))
        first = np.flatnonzero(np.r_[True, np.diff(labels[a:b]) != 0])
        begin = [rr.TimeColumn(name, **{word: own[first] for word, own in clock.items()})]
        words = rr.TextLog.columns(text=[names[k] for k in labels[a:b][first]])
        stream.send_columns(f"{place}/phase/name", indexes=begin, columns=words)
    stream.flush()
    stream.disconnect()


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds as WebVTT writes them."""
    whole = round(seconds * 1000)
    return f"{whole // 3_600_000:02d}:{whole // 60_000 % 60:02d}:{whole // 1000 % 60:02d}.{whole % 1000:03d}"


VERSIONS = ("v2.0", "v2.1", "v3.0")
ROWS_AT_ONCE = 4096
NUMERIC = ("float", "int", "uint", "bool")
COLUMNS = ("action", "observation.state", "timestamp", "phase", "task_index", "episode_index")
"""What an episode needs of its table: never the pictures, which are opened when they are asked for."""
ACTIONS, STATES = ("action", "actions"), ("observation.state", "observations.state", "state", "states")
"""What datasets call the commands that were given and the robot's own state, the usual name first."""
NOT_SEGMENTED = "not segmented"
"""The subtask of frames that have none (`lerobot_writing`)."""
MAX_ROWS, MAX_WIDTH = 50_000_000, 4096
_BROKEN = (pa.ArrowException, *BROKEN)


class LeRobotSource(EpisodeSource):
    """Episodes of a LeRobot dataset, a folder with ``meta/info.json``."""

    files = ("meta/**/*", "data/**/*", "videos/**/*", "images/**/*")

    def __init__(self, folder: str | Path, *, strict: bool = False) -> None:
        super().__init__(folder, strict=strict)
        self.info = _read_info(self.folder)
        self.version = str(self.info.get("codebase_version"))
        if self.version not in VERSIONS:
            raise InputError(
                f"{self.folder} is a LeRobot dataset of version {self.version}; prism reads {', '.join(VERSIONS)}."
            )
        self.features: dict[str, Any] = self.info["features"]
        self.action_key, self.state_key = (
            next((key for key in keys if self._is_vector(key)), None) for keys in (ACTIONS, STATES)
        )
        try:
            self.fps, self.chunk = float(self.info["fps"]), int(self.info.get("chunks_size", 1000))
            self.n_episodes = int(self.info["total_episodes"])
        except (KeyError, TypeError, ValueError, OverflowError):
            self.fps = self.chunk = 0
        if not (self.fps > 0 and self.chunk > 0):
            needed = "fps, chunks_size or total_episodes, or they are no numbers above 0"
            raise InputError(f"{self.folder}/meta/info.json lacks {needed}.")

    @property
    def cameras(self) -> list[str]:
        """Names of the cameras."""
        return [key for key, feature in self.features.items() if feature.get("dtype") in ("video", "image")]

    def _is_vector(self, key: str) -> bool:
        return str(self.features.get(key, {}).get("dtype")).startswith(NUMERIC)

    def dimension_names(self, vector: str) -> tuple[str, ...]:
        """What the numbers of a vector are called (joints), where the dataset says it for each of them."""
        given: Any = self.features.get(vector, {}).get("names")
        while isinstance(given, dict) and len(given) == 1:  # {"motors": [...]}
            given = next(iter(given.values()))
        while isinstance(given, list) and len(given) == 1 and isinstance(given[0], list):
            given = given[0]
        shape = self.features.get(vector, {}).get("shape") or [0]
        whole = isinstance(given, list) and len(given) == shape[0] == len(set(map(str, given)))
        return tuple(map(str, given)) if whole else ()

    def has(self, column: str) -> bool:
        """Whether the tables have a column."""
        return (column in self.features and column not in self.cameras) or self._is_style(column)

    def _is_style(self, column: str) -> bool:
        """Whether a column is a style of language rows instead of one of the tables'."""
        return column in STYLES and column not in self.features and COLUMN in self.features

    def has_words(self, column: str) -> bool:
        """Whether the description calls the column one of words."""
        return str(self.features.get(column, {}).get("dtype")).startswith(("string", "large_string"))

    def usual_vectors(self) -> tuple[str | None, str | None]:
        """Their features."""
        return self.state_key, self.action_key

    def further_vectors(self) -> tuple[str, ...]:
        """Features that are numbers and do not count frames, such as ``observation.velocity``."""
        others = (key for key in self.features if key not in (*COLUMNS, "intention") and not key.endswith("index"))
        return tuple(filter(self._is_vector, others))

    def _columns_in_words(self) -> str:
        return f" among {', '.join(filter(self.has, self.features))}"

    def _words(self, column: str) -> dict[int, str]:
        """Words behind the numbers of a column, where the dataset has any."""
        if column in ("task_index", "subtask_index"):
            return _numbered(self.folder, column.removesuffix("_index"))
        return dict(enumerate(map(str, self.features[column].get("values") or ())))

    def _open(self) -> Iterator[Callable[[], Episode]]:
        keys = [key for key in (self.action_key, self.state_key) if key is not None]
        wanted = [COLUMN if self._is_style(column) else column for column in self.wanted]
        tables, names = _OpenFile((*keys, *wanted, *self.wanted_vectors)), _numbered(self.folder, "task")
        words = {column: {} if self._is_style(column) else self._words(column) for column in self.wanted}
        for row in _episode_rows(self.folder, self.version):
            try:
                index, length = int(row["episode_index"]), int(row["length"])
            except (KeyError, TypeError, ValueError, OverflowError):
                raise InputError(f"An entry of the episodes in {self.folder}/meta has no index or length.") from None
            yield partial(self._read, index, length, row, tables, names, words)

    def _read(
        self,
        index: int,
        length: int,
        row: dict[str, Any],
        tables: _OpenFile,
        names: dict[int, str],
        words: dict[str, dict[int, str]],
    ) -> Episode:
        name, path = str(index), self._path("data_path", self._place(index, row, "data"))
        table = tables.rows(path, index)
        if table.num_rows != length:
            raise damaged(name, f"its table has {table.num_rows} rows and its metadata say {length} steps")
        for key in (self.action_key, *self.wanted_vectors, *self.wanted):
            if key is not None and (COLUMN if self._is_style(key) else key) not in table.column_names:
                raise damaged(name, f"it has no column {key!r}")
        numeric = {key for key in (*COLUMNS, self.action_key, self.state_key) if key in table.column_names}
        if "phase" in numeric and not pa.types.is_integer(table.schema.field("phase").type):
            numeric.discard("phase")  # words, which are a column like others
        columns = {key: _numbers(table[key], name, key) for key in table.column_names if key in numeric}
        done = np.zeros((length, 1)) if self.action_key is None else columns[self.action_key]
        tasks = [str(task) for task in row.get("tasks") or []]
        if not tasks and "task_index" in columns:
            tasks = [names.get(int(task), "") for task in np.unique(columns["task_index"])]
        phases = columns.get("phase")
        return Episode(
            index=index,
            actions=_rows(done),
            states=_rows(columns[self.state_key]) if self.state_key in columns else None,
            language="; ".join(tasks),
            cameras={camera: partial(self._frames, camera, index, length, row, path) for camera in self.cameras},
            timestamps=columns.get("timestamp"),
            phases=None if phases is None else phases.reshape(length).astype(np.int32),
            phase_names=tuple(str(value) for value in self.features.get("phase", {}).get("values") or ()),
            columns={
                key: active(table[COLUMN][0].as_py() or [], key, np.ravel(table["timestamp"].to_numpy()))
                if self._is_style(key)
                else _cells(table[key], name, key, words[key])
                for key in self.wanted
            },
            vectors={key: _rows(_numbers(table[key], name, key)) for key in self.wanted_vectors},
        )

    def _frames(self, camera: str, index: int, length: int, row: dict[str, Any], table: Path) -> Iterator[Frame]:
        """Pictures of one camera: in the table itself, in the episode's video, or in a stretch of one."""
        if self.features[camera]["dtype"] == "image":
            return _images(table, camera, index)
        place = self._place(index, row, f"videos/{camera}") | {"video_key": camera}
        video = partial(read_video, self._path("video_path", place), str(index))
        if self.version != "v3.0":
            return video()
        start, end = (row.get(f"videos/{camera}/{side}_timestamp") for side in ("from", "to"))
        # the end may be that of the last frame, one frame short
        if start is None or end is None or not -1.5 < (end - start) * self.fps - length < 0.5:
            raise damaged(str(index), f"camera {camera} lasts from {start} to {end} s, which is not {length} steps")
        return video(start=float(start), n_frames=length)

    def _place(self, index: int, row: dict[str, Any], prefix: str) -> dict[str, Any]:
        """What the path templates ask for: the number of the episode, or the file that holds it among others."""
        if self.version != "v3.0":
            return {"episode_chunk": index // self.chunk, "episode_index": index}
        place = {key: row.get(f"{prefix}/{key}") for key in ("chunk_index", "file_index")}
        if missing := [key for key, value in place.items() if not isinstance(value, int)]:
            raise damaged(str(index), f"its metadata have no {prefix}/{missing[0]}")
        return place

    def _path(self, key: str, values: dict[str, Any]) -> Path:
        return inside(self.folder, _filled(self.folder, key, self.info.get(key), values), key)


class _OpenFile:
    """The parquet file of one or many episodes that is being read, in order, an episode at a time."""

    def __init__(self, wanted: Sequence[str] = ()) -> None:
        self._wanted = wanted
        self._path: Path | None = None
        self._groups: Iterator[tuple[int, pa.Table]] = iter(())
        self._next: tuple[int, pa.Table] | None = None

    def rows(self, path: Path, index: int) -> pa.Table:
        """Return the rows of one episode; episodes are asked for in the order of the file."""
        try:
            if path != self._path:
                self._path, self._groups, self._next = path, _episode_tables(path, self._wanted), None
            while self._next is None or self._next[0] < index:
                self._next = next(self._groups)
        except StopIteration:
            raise damaged(str(index), f"{path.name} ends before its rows") from None
        except FileNotFoundError:
            raise damaged(str(index), f"its table {path.name} is missing") from None
        except _BROKEN as error:
            raise damaged(str(index), f"its table {path.name} cannot be read ({brief(error)})") from None
        if self._next[0] != index:
            raise damaged(str(index), f"{path.name} has no rows of it")
        return self._next[1]


def _episode_tables(path: Path, wanted: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
    """Yield (episode index, rows) for each run of equal ``episode_index``."""
    with pq.ParquetFile(path) as file:
        names = [key for key in dict.fromkeys((*COLUMNS, *wanted)) if key in file.schema_arrow.names]
        if file.metadata.num_rows > MAX_ROWS:
            raise ValueError(f"it claims {file.metadata.num_rows} rows")
        _check_width(path, names)
        current, parts = -1, list[pa.Table]()
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=names):
            table = pa.Table.from_batches([batch])
            index = table["episode_index"].to_numpy()
            cuts = [0, *(np.flatnonzero(np.diff(index)) + 1).tolist(), len(index)]
            for start, end in pairwise(cuts):
                if end == start:
                    continue
                if int(index[start]) != current and parts:
                    yield current, pa.concat_tables(parts)
                    parts = []
                current = int(index[start])
                parts.append(table.slice(start, end - start))
        if parts:
            yield current, pa.concat_tables(parts)


def _check_width(path: Path, columns: list[str]) -> None:
    """Refuse a table whose few bytes claim to be gigabytes of numbers."""
    with pq.ParquetFile(path) as file:
        wanted = [i for i, name in enumerate(file.schema) if name.path.split(".list.")[0] in columns]
        for i in wanted:  # reads the column and keeps nothing: on damaged metadata, asking for the chunk would abort
            file.scan_contents([i], ROWS_AT_ONCE)
        for group in (file.metadata.row_group(i) for i in range(file.num_row_groups)):
            for column in (group.column(i) for i in wanted):
                if column.num_values > MAX_WIDTH * group.num_rows:
                    raise ValueError(f"column {column.path_in_schema} claims {column.num_values} numbers")


def _images(path: Path, camera: str, index: int) -> Iterator[Frame]:
    """Pictures that are stored in the table itself, as structs of bytes and a name."""
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(64, columns=[camera, "episode_index"]):
                table = pa.Table.from_batches([batch])
                for step in table.filter(pc.equal(table["episode_index"], index))[camera].to_pylist():
                    data = step.get("bytes") if isinstance(step, dict) else step
                    if not isinstance(data, bytes):
                        raise damaged(str(index), f"a picture of camera {camera} is missing")
                    yield decode_image(data, str(index), f"a picture of camera {camera}")
    except _BROKEN as error:
        if isinstance(error, InputError):
            raise
        raise damaged(str(index), f"camera {camera} cannot be read from {path.name} ({brief(error)})") from None


def _read_info(folder: Path) -> dict[str, Any]:
    path = folder / "meta" / "info.json"
    if not path.is_file():
        raise InputError(f"{folder} is no LeRobot dataset: there is no meta/info.json in it.")
    info = storage.read_json(path)
    features = info.get("features") if isinstance(info, dict) else None
    if not isinstance(features, dict) or not all(isinstance(feature, dict) for feature in features.values()):
        raise InputError(f"{path} describes no features; restore it from the dataset's source.")
    return info  # type: ignore[no-any-return]


def _episode_rows(folder: Path, version: str) -> Iterator[dict[str, Any]]:
    """Metadata of each episode, streamed, in the order of the dataset."""
    if version == "v3.0":
        files = sorted((folder / "meta" / "episodes").glob("**/*.parquet"))
        if not files:
            raise InputError(f"There is no parquet file in {folder}/meta/episodes; restore it from its source.")
        for path in files:
            try:
                with pq.ParquetFile(path) as file:
                    names = [name for name in file.schema_arrow.names if not name.startswith("stats/")]
                    for batch in file.iter_batches(ROWS_AT_ONCE, columns=names):
                        yield from batch.to_pylist()
            except _BROKEN as error:
                raise InputError(f"{path} cannot be read ({brief(error)}); restore it from its source.") from None
    else:
        yield from read_lines(folder / "meta" / "episodes.jsonl")


def _numbered(folder: Path, what: str) -> dict[int, str]:
    """Words of each number of a task or subtask."""
    table, lines = folder / "meta" / f"{what}s.parquet", folder / "meta" / f"{what}s.jsonl"
    number = f"{what}_index"
    try:
        if table.is_file():  # pandas keeps the words as the index, whatever that is called
            columns = pq.read_table(table).to_pydict()
            text = next(values for key, values in columns.items() if key != number)
            return dict(zip(columns[number], map(str, text), strict=True))
        return {int(row[number]): str(row[what]) for row in read_lines(lines)} if lines.is_file() else {}
    except (*_BROKEN, StopIteration) as error:
        raise InputError(f"The {what}s in {folder}/meta cannot be read ({brief(error)}); restore them.") from None


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file, one per line."""
    if not path.is_file():
        raise InputError(f"{path} is missing; restore it from the dataset's source.")
    with path.open("rb") as file:  # bytes that are no text make one line unreadable, and it is named
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise InputError(f"Line {number} of {path} is not a JSON object; restore it from its source.")
            yield row


def _filled(folder: Path, key: str, template: Any, values: dict[str, Any]) -> str:
    """Fill a path template; fields are plain names, so that no attribute of an object can be reached."""
    if not isinstance(template, str):
        raise InputError(f"{folder}/meta/info.json has no {key}; restore it from the dataset's source.")
    try:
        filled = re.sub(r"\{(\w+)(?::(0?\d?d))?\}", lambda one: format(values[one[1]], one[2] or ""), template)
        if "{" in filled or "}" in filled:
            raise ValueError("unusual fields")
        return filled
    except (ValueError, KeyError) as error:
        raise InputError(f"The {key} {template!r} in {folder}/meta/info.json is not usable ({brief(error)}).") from None


def _numbers(column: pa.ChunkedArray, name: str, key: str) -> npt.NDArray[Any]:
    """One column as (T,) or (T, d)."""
    flat, width = column.combine_chunks(), 0
    if column.null_count:
        raise damaged(name, f"its column {key} has empty cells")
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type):
        widths = np.unique(pc.list_value_length(flat).to_numpy(zero_copy_only=False))
        if len(widths) != 1:
            raise damaged(name, f"its column {key} has rows of {len(widths)} different lengths")
        flat, width = flat.flatten(), int(widths[0])
    if not (pa.types.is_integer(flat.type) or pa.types.is_floating(flat.type) or pa.types.is_boolean(flat.type)):
        raise damaged(name, f"its column {key} holds {flat.type} instead of numbers")
    values: npt.NDArray[Any] = flat.to_numpy(zero_copy_only=False)
    return values.reshape(-1, width) if width else values


def _rows(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    return values.reshape(len(values), -1).astype(np.float32)


def _cells(column: pa.ChunkedArray, name: str, key: str, words: dict[int, str]) -> npt.NDArray[np.object_]:
    """One column as words or numbers, (T,), None in cells that are empty or say that nobody knows."""
    cells = np.empty(len(column), dtype=object)
    for step, cell in enumerate(column.to_pylist()):
        value = cell[0] if isinstance(cell, list) and len(cell) == 1 else cell
        if value is not None and not isinstance(value, int | float | str):
            raise InputError(f"The column {key!r} of episode {name}, step {step}, holds neither a word nor a number.")
        value = words.get(value, value) if isinstance(value, int) else value
        cells[step] = None if value == NOT_SEGMENTED else value
    return cells
