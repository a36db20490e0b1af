"""Put a result back beside the data: a copy of a LeRobot dataset with one more column.

The original is only read. Videos and metadata are copied byte for byte, tables row group by row group with the new
column behind the others; the copy is made beside its target and renamed when it is whole.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from prism_irl import storage
from prism_irl.errors import InputError
from prism_irl.robots.lerobot import LeRobotSource, read_lines
from prism_irl.robots.lerobot_writing import statistics_of, write_lines

UNKNOWN = -1
"""Value of steps that were not segmented: dropped first steps and episodes that were left out."""


def add_column(
    source: str | Path,
    target: str | Path,
    values: Mapping[int, tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.integer[Any]]]],
    *,
    name: str = "intention",
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
    """
    dataset, copy = LeRobotSource(source), Path(target)
    if copy.exists() or copy.is_symlink():
        raise InputError(f"{copy} exists already; choose a new folder for the copy.")
    origin, place = dataset.folder.resolve(), copy.absolute().resolve()
    if origin == place or origin in place.parents:
        raise InputError(f"{copy} lies inside the dataset it copies; choose a folder outside {dataset.folder}.")
    if name in dataset.features:
        raise InputError(f"{dataset.folder} has a column {name!r} already; give the original dataset.")
    written: dict[int, int] = {}
    try:
        with storage.replacing(copy) as unfinished:
            for path in sorted(dataset.folder.rglob("*")):
                relative = path.relative_to(dataset.folder)
                if relative.parts[0] in (".cache", ".git") or not path.is_file():
                    continue
                (unfinished / relative).parent.mkdir(parents=True, exist_ok=True)
                if relative.parts[0] == "data" and path.suffix == ".parquet":
                    _extend(path, unfinished / relative, values, name, written)
                else:
                    shutil.copyfile(path, unfinished / relative)
            _check_all_found(dataset, values, written)
            _describe(unfinished, values, name)
    except (OSError, KeyError, pa.ArrowException) as error:
        raise InputError(f"Cannot copy {dataset.folder} to {copy} ({error}).") from None
    return sum(written.values())


def _extend(path: Path, target: Path, values: Mapping[int, Any], name: str, written: dict[int, int]) -> None:
    """Copy one table with the new column."""
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow.append(pa.field(name, pa.int64()))
        schema = schema.with_metadata(_with_feature(file.schema_arrow.metadata, name))
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
                writer.write_table(table.append_column(name, pa.array(column)).cast(schema))


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


def _check_all_found(dataset: LeRobotSource, values: Mapping[int, Any], written: dict[int, int]) -> None:
    for episode, (known, labels) in values.items():
        expected = int((np.asarray(labels) != UNKNOWN).sum())
        if written.get(episode, 0) != expected:
            raise InputError(
                f"Episode {episode} has {len(known)} segmented steps, but {dataset.folder} holds "
                f"{written.get(episode, 0)} of them; give the dataset that was tokenized."
            )


def _describe(copy: Path, values: Mapping[int, Any], name: str) -> None:
    """Tell the metadata of the copy about the column."""
    path = copy / "meta" / "info.json"
    info = storage.read_json(path)
    info["features"][name] = {"dtype": "int64", "shape": [1], "names": None}
    storage.write_json(path, info)
    statistics = copy / "meta" / "episodes_stats.jsonl"
    if not statistics.is_file():
        return
    rows = list(read_lines(statistics))
    for row in rows:
        if row.get("episode_index") in values:
            row["stats"][name] = statistics_of(np.asarray(values[row["episode_index"]][1]))
    write_lines(statistics, rows)
