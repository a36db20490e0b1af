"""One file per animal: a pattern ("animals/*.csv") is one table, with the names of the files in a column ``file``.

The column is made where a trajectory or a group is called ``file`` and the table has no such column, so that a single
file can be a trajectory, too, and new data are read as the old ones were.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from prism_irl.data.roles import Columns
from prism_irl.data.table_files import WRITABLE, line_of, read_table_file
from prism_irl.data.vocabulary import Where
from prism_irl.errors import InputError

FILE = "file"


def matching(path: Path) -> list[Path]:
    """The files behind a pattern with ``*``, ``?`` or ``[…]``, in the order of their names; a plain path is itself."""
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True)) if Path(name).is_file()]
    if not found:
        raise InputError(f"No file matches {path}; check the pattern.")
    wrong = [name for name in found if name.suffix.lower() not in WRITABLE]
    if wrong and len(found) > 1:
        raise InputError(
            f"Several files must be tables ({', '.join(WRITABLE)}), and {wrong[0]} is none; narrow {path}."
        )
    return found


def read_files(
    paths: Sequence[Path], columns: Columns, text: Mapping[str, type[str]], wanted: Sequence[str] = ()
) -> tuple[pd.DataFrame, Where]:
    """Rows of one file or of several, one below the other, and how to name the place of a row."""
    frames = [read_table_file(path, text, wanted) for path in paths]
    key = columns.trajectory.split(",") if isinstance(columns.trajectory, str) else columns.trajectory
    asked = FILE in [*(name.strip() for name in key), columns.group]
    if asked and not any(FILE in frame.columns for frame in frames):
        for frame, name in zip(frames, _names(paths), strict=True):
            frame[FILE] = name
    if len(paths) == 1:
        return frames[0], lambda row: f"line {line_of(paths[0], row)}"
    for path, frame in zip(paths, frames, strict=True):
        _check_columns(path, frame, paths[0], frames[0])
    if FILE not in (name.strip() for name in key):
        raise InputError(
            f"{paths[0].name} and {len(paths) - 1} more files are read as one table with their names in the column "
            f"'file'; type --trajectory file,{','.join(key)}, so that equal numbers in two files stay apart."
        )
    starts = np.cumsum([0, *(len(frame) for frame in frames)])

    def where(row: int) -> str:
        index = int(np.searchsorted(starts, row, side="right")) - 1
        return f"line {line_of(paths[index], int(row - starts[index]))} of {paths[index].name}"

    return pd.concat(frames, ignore_index=True), where


def _names(paths: Sequence[Path]) -> list[str]:
    """Names without their endings where these differ, paths elsewhere."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [path.as_posix() for path in paths]


def _check_columns(path: Path, frame: pd.DataFrame, first: Path, model: pd.DataFrame) -> None:
    for one, other, names in ((path, first, set(model) - set(frame)), (first, path, set(frame) - set(model))):
        if names:
            raise InputError(
                f"{one.name} has no column {sorted(map(str, names))[0]!r}, and {other.name} has; give files with the "
                "same columns."
            )
