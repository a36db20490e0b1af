"""Put a result back beside the data: a copy of a LeRobot dataset with a column of intentions and with language rows.

The original is only read. Videos and metadata are copied byte for byte, tables row group by row group with the new
columns behind the others; the copy is made beside its target and renamed when it is whole. Words are written as LeRobot
reads them from 0.6 on; with ``subtasks`` as 0.5 did, too: a column ``subtask_index`` in every frame, and
``meta/subtasks.parquet``, whose index ``subtask`` holds the words and whose column ``subtask_index`` their numbers.
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
from prism_irl.robots import lerobot
from prism_irl.robots.lerobot import COLUMN, LeRobotSource, Segment, Words


def statistics_of(values: npt.NDArray[Any]) -> dict[str, Any]:
    """Range, mean, spread and number of the rows of a column, (T,) or (T, d)."""
    rows = values.reshape(len(values), -1).astype(np.float64)
    found = {"min": rows.min(0), "max": rows.max(0), "mean": rows.mean(0), "std": rows.std(0)}
    return {key: value.tolist() for key, value in found.items()} | {"count": [len(rows)]}


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object per line."""
    storage.write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


Columns = Mapping[str, int]
"""Name of a new column → its value where a step was not segmented."""
Values = Mapping[int, tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.integer[Any]]]]
INTENTION, SUBTASK = "intention", "subtask_index"
UNKNOWN = -1
"""Value of steps that were not segmented: dropped first steps and episodes that were left out."""


def add_column(
    source: str | Path,
    target: str | Path,
    values: Values,
    words: Words,
    *,
    subtasks: Sequence[str] | None = None,
) -> int:
    """Copy a dataset into a new folder and add the column ``intention``; returns how many steps have a value.

    Parameters
    ----------
    values : mapping
        For each episode index the frame indices (n,) and their values (n,); steps that are not named get -1.
    words : Words
        Of ``language_persistent``, and where every episode passes its phases in the order of their numbers, of the
        stages that SARM reads.
    subtasks : K words, optional
        Write the subtasks of LeRobot 0.5 as well. Its reader looks every frame up, so that frames without a value get
        a subtask of their own, "not segmented".
    """
    dataset, copy = LeRobotSource(source), Path(target)
    if copy.exists() or copy.is_symlink():
        raise InputError(f"{copy} exists already; choose a new folder for the copy.")
    origin, place = dataset.folder.resolve(), copy.absolute().resolve()
    if origin == place or origin in place.parents:
        raise InputError(f"{copy} lies inside the dataset it copies; choose a folder outside {dataset.folder}.")
    columns = {INTENTION: UNKNOWN} | ({} if subtasks is None else {SUBTASK: len(subtasks)})
    for column in (*columns, COLUMN):
        if column in dataset.features:
            raise InputError(f"{dataset.folder} has a column {column!r} already; give the original dataset.")
    written: dict[int, int] = {}
    segments = _segments(dataset.folder, values)
    rows = {i: lerobot.rows_of(own, words) for i, own in segments.items()}
    try:
        storage.sweep(copy.parent)
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
            if lerobot.in_order(segments):
                lerobot.write_stages(unfinished, segments, words.names or words.motions)
            if subtasks is not None:
                _write_subtasks(unfinished, subtasks)
    except (*BROKEN, pa.ArrowException) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"Cannot copy {dataset.folder} to {copy} ({brief(error)}).") from None
    return sum(written.values())


def segments_in_seconds(dataset: str | Path, values: Values) -> dict[int, list[Segment]]:
    """Segments of every episode, with the timestamps of the dataset; ``values`` as in `add_column`."""
    return _segments(LeRobotSource(dataset).folder, values)


def _segments(folder: Path, values: Values) -> dict[int, list[Segment]]:
    times = lerobot.timestamps(folder)
    found = {}
    for episode, (known, labels) in values.items():
        if episode in times:
            frames, seconds = times[episode]
            found[episode] = lerobot.segments_of(frames, _values_at(frames, known, labels), seconds)
    return found


def _extend(
    path: Path,
    target: Path,
    values: Values,
    columns: Columns,
    written: dict[int, int],
    rows: Mapping[int, Sequence[Mapping[str, Any]]],
) -> None:
    """Copy one table with the new columns."""
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        # Without the second description of the columns, which the `datasets` library then takes from themselves.
        metadata = {name: value for name, value in (schema.metadata or {}).items() if name != b"huggingface"}
        for field in (*(pa.field(name, pa.int64()) for name in columns), pa.field(COLUMN, lerobot.TYPE)):
            schema = schema.append(field)
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
                    table = table.append_column(name, pa.array(np.where(column == UNKNOWN, unknown, column)))
                table = table.append_column(pa.field(COLUMN, lerobot.TYPE), lerobot.language_column(episodes, rows))
                writer.write_table(table.cast(schema))


def _write_subtasks(copy: Path, words: Sequence[str]) -> None:
    """meta/subtasks.parquet: the words as index, their numbers as column; the last one is for frames without."""
    import pandas as pd

    named = [*words, lerobot.NOT_SEGMENTED]
    unique = [word if named.count(word) == 1 else f"{word} ({i})" for i, word in enumerate(named)]
    table = pd.DataFrame({SUBTASK: np.arange(len(unique), dtype=np.int64)}, index=pd.Index(unique, name="subtask"))
    table.to_parquet(copy / "meta" / "subtasks.parquet")


def _values_at(frames: npt.NDArray[Any], known: npt.NDArray[Any], labels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    order = np.argsort(known)
    at = np.minimum(np.searchsorted(known, frames, sorter=order), len(known) - 1)
    matches = known[order][at] == frames
    return np.where(matches, np.asarray(labels)[order][at], UNKNOWN).astype(np.int64)


def _check_all_found(dataset: LeRobotSource, values: Values, written: dict[int, int]) -> None:
    for episode, (known, labels) in values.items():
        expected = int((np.asarray(labels) != UNKNOWN).sum())
        if written.get(episode, 0) != expected:
            raise InputError(
                f"Episode {episode} has {len(known)} segmented steps, but {dataset.folder} holds "
                f"{written.get(episode, 0)} of them; give the dataset that was tokenized."
            )


def _describe(copy: Path, values: Values, columns: Columns) -> None:
    """Tell the metadata of the copy about the columns."""
    path = copy / "meta" / "info.json"
    info = storage.read_json(path)
    for name in columns:
        info["features"][name] = {"dtype": "int64", "shape": [1], "names": None}
    info["features"][COLUMN] = lerobot.FEATURE
    storage.write_json(path, info)
    statistics = copy / "meta" / "episodes_stats.jsonl"
    if not statistics.is_file():
        return
    rows = list(lerobot.read_lines(statistics))
    for row in rows:
        if row.get("episode_index") in values:
            for name in columns:
                row["stats"][name] = statistics_of(np.asarray(values[row["episode_index"]][1]))
    write_lines(statistics, rows)
