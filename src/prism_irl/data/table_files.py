"""Files of tables: CSV, TSV, Excel and Parquet into pandas and back; lines of a text file as an editor counts them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO
from zipfile import BadZipFile

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from prism_irl import storage
from prism_irl.errors import InputError, brief
from prism_irl.optional import need

READABLE = (".csv", ".tsv", ".parquet", ".npz", ".xlsx", ".nwb")
WRITABLE = (".csv", ".tsv", ".parquet")
NWB = ".nwb"


def read_frame(path: Path, text: Mapping[str, type[str]], wanted: Sequence[str] = ()) -> pd.DataFrame:
    """Read a table of any of these formats but npz.

    Columns named in ``text`` stay text whatever they look like; ``wanted`` ones tell which table of an NWB file it is.
    """
    if path.suffix.lower() == NWB:
        from prism_irl.data.nwb import read_nwb

        return read_nwb(path, wanted)
    try:
        if path.suffix.lower() == ".parquet":
            stored = pd.read_parquet(path)
            return stored if stored.index.names == [None] else stored.reset_index()
        if path.suffix.lower() == ".xlsx":
            need("openpyxl", "excel")
            return pd.read_excel(path, dtype=dict(text), engine="openpyxl")
        separator = "\t" if path.suffix.lower() == ".tsv" else ","
        # The whole column decides its type (low_memory), not the part of it that one chunk happens to hold.
        frame = pd.read_csv(path, sep=separator, skipinitialspace=True, dtype=dict(text), low_memory=False)
    except pd.errors.EmptyDataError:
        raise InputError(f"{path} is empty; give a header and at least one row.") from None
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, BadZipFile, pa.ArrowException) as error:
        raise InputError(f"{path} is damaged or not a {path.suffix} file ({brief(error)}).") from None
    if not isinstance(frame.index, pd.RangeIndex):  # pandas would shift every column by one without a word
        raise InputError(f"The rows of {path} have more cells than its header; name every column or drop the others.")
    return frame


def column_names(source: str | Path) -> list[str] | None:
    """Columns of a table on disk, read from its beginning; None where it is none, or cannot be read."""
    path = Path(source)
    try:
        if path.suffix.lower() == ".parquet":
            return [str(name) for name in pq.read_schema(path).names]
        if path.suffix.lower() == ".xlsx":
            return [str(name) for name in pd.read_excel(path, nrows=0, engine="openpyxl").columns]
        if path.suffix.lower() in (".csv", ".tsv"):
            separator = "\t" if path.suffix.lower() == ".tsv" else ","
            return [str(name) for name in pd.read_csv(path, sep=separator, skipinitialspace=True, nrows=0).columns]
    except (OSError, ImportError, ValueError, KeyError, TypeError, BadZipFile, pa.ArrowException):
        return None  # `read` says what is wrong
    return None


def line_of(path: Path, row: int) -> int:
    """Line of a row in a text file, counted as an editor does; of other files the row as a spreadsheet numbers it."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        return row + (2 if path.suffix.lower() == ".xlsx" else 0)
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        line, met = 1, -1  # cells may hold line ends, and empty lines are no rows
        for cells in rows:
            met += bool(cells)
            if cells and met == row + 1:
                return line
            line = rows.line_num + 1
    return row + 2


def check_writable(path: str | Path) -> None:
    """Say before the work begins that `write_table` does not know a format."""
    if Path(path).suffix.lower() not in WRITABLE:
        raise InputError(f"Cannot write {path}: the name must end in one of {', '.join(WRITABLE)}.")


def write_table(frame: pd.DataFrame, path: str | Path) -> None:
    """Write .csv, .tsv or .parquet without the index; the file appears whole or not at all."""
    check_writable(path)
    suffix = Path(path).suffix.lower()

    def write(file: IO[bytes]) -> None:
        if suffix != ".parquet":
            frame.to_csv(file, index=False, sep="\t" if suffix == ".tsv" else ",")
            return
        try:
            frame.to_parquet(file, index=False)
        except pa.ArrowException as error:
            raise ValueError(brief(error)) from None

    storage.write_file(Path(path), write)
