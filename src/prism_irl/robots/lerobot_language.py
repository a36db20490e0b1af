"""Phases as LeRobot 0.6 and later read language: rows of the column ``language_persistent``.

Every frame of an episode holds the same list of rows, each active from its ``timestamp``, which is one of a frame,
until the next row of its style:

    role string, content string, style string, timestamp float32, camera string, tool_calls list of JSON

``motion`` says what a phase does in terms of the robot, ``subtask`` what it is called, where somebody has named it;
neither belongs to a camera. SARM, a reward model of stages, reads the same phases per episode (`stages`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from prism_irl import storage
from prism_irl.checked import BROKEN
from prism_irl.errors import InputError, brief

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
    cuts = np.r_[0, np.flatnonzero(np.diff(labels)) + 1, len(labels)]
    runs = zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
    return [
        Segment(int(labels[a]), int(frames[a]), int(frames[b - 1]), float(times[a]), float(times[b - 1]))
        for a, b in runs
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
    """Frame numbers and timestamps of every episode of a LeRobot dataset."""
    found: dict[int, list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]] = {}
    for path in sorted((folder / "data").rglob("*.parquet")):
        try:
            with pq.ParquetFile(path) as file:
                table = file.read(columns=["episode_index", "frame_index", "timestamp"])
            episode, frame, time = (np.ravel(table[name].to_numpy()) for name in table.column_names)
        except (*BROKEN, pa.ArrowException) as error:
            raise InputError(f"{path} is damaged and cannot be copied ({brief(error)}); restore it.") from None
        for index in np.unique(episode).tolist():
            here = episode == index
            found.setdefault(index, []).append((frame[here], time[here]))
    whole = {}
    for index, parts in found.items():
        frames, times = (np.concatenate([part[i] for part in parts]) for i in range(2))
        order = np.argsort(frames, kind="stable")
        whole[index] = frames[order].astype(np.int64), times[order].astype(np.float32)
    return whole


def in_order(segments: Mapping[int, Sequence[Segment]]) -> bool:
    """Whether every episode passes its phases in the order of their numbers, so that they are stages."""
    return all(one.phase < other.phase for own in segments.values() for one, other in pairwise(own))


def write_stages(folder: Path, segments: Mapping[int, Sequence[Segment]], names: Sequence[str]) -> None:
    """Put stages into the episodes' metadata and the typical share of each beside them, as SARM reads both."""
    columns: dict[int, dict[str, Any]] = {}
    shares: list[list[float]] = [[] for _ in names]
    for episode, own in segments.items():
        total = sum(one.end - one.start + 1 for one in own)
        for k, share in enumerate(shares):
            share.append(sum(one.end - one.start + 1 for one in own if one.phase == k) / max(total, 1))
        columns[episode] = {
            f"{DENSE}names": [names[one.phase] for one in own],
            f"{DENSE}start_times": [one.start_time for one in own],
            f"{DENSE}end_times": [one.end_time for one in own],
            f"{DENSE}start_frames": [one.start for one in own],
            f"{DENSE}end_frames": [one.end for one in own],
        }
    mean = np.array([np.mean(share) if share else 0.0 for share in shares])
    mean = mean / max(mean.sum(), 1e-12)
    (folder / "meta" / PROPORTIONS).write_text(
        json.dumps(dict(zip(names, mean.tolist(), strict=True)), indent=2), encoding="utf-8"
    )
    lines = folder / "meta" / "episodes.jsonl"
    if lines.is_file():
        rows = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines() if line.strip()]
        rows = [row | columns.get(row.get("episode_index"), {}) for row in rows]
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
    """Segments with seconds: .json, a list per episode, or .vtt, subtitles of one episode or of all in a row.

    JSON: ``{"0": [{"start_sec", "end_sec", "subtask"}, …], …}``. A segment ends where the next one begins.
    """
    ends = {
        episode: [*(one.start_time for one in own[1:]), own[-1].end_time if own else 0.0]
        for episode, own in segments.items()
    }
    if path.suffix.lower() == ".json":
        found = {
            str(episode): [
                {"start_sec": one.start_time, "end_sec": end, "subtask": names[one.phase]}
                for one, end in zip(own, ends[episode], strict=True)
            ]
            for episode, own in segments.items()
        }
        storage.write_json(path, found)
        return
    lines, begun = ["WEBVTT", ""], 0.0
    for episode, own in segments.items():
        for one, end in zip(own, ends[episode], strict=True):
            lines += [f"{_clock(begun + one.start_time)} --> {_clock(begun + end)}", names[one.phase], ""]
        begun += ends[episode][-1] if own else 0.0
    storage.write_text(path, "\n".join(lines))


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds as WebVTT writes them."""
    whole = round(seconds * 1000)
    return f"{whole // 3_600_000:02d}:{whole // 60_000 % 60:02d}:{whole // 1000 % 60:02d}.{whole % 1000:03d}"
