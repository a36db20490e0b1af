"""CSV, TSV and Parquet files as pandas tables: parsed, bounded, and refused in one sentence where they are damaged.

What a parser would let pass without a word is looked for here: a quote that is never closed and swallows rows, bytes
that are no text, a column that is there twice, a table that is far larger than its file.
"""

from __future__ import annotations

import csv
import mmap
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from prism_irl import limits
from prism_irl.checked import BROKEN
from prism_irl.errors import InputError, brief

LOOKED_AT = 2**16  # bytes of a file that say how its cells and decimals are written
DECIMAL_COMMA = re.compile(rb";\s*-?\d+,\d+\s*(?=[;\r\n])")
PER_CSV_BYTE = 12
"""Bytes of memory per byte of a CSV file, at most: a cell of one digit and its comma become eight bytes."""


def read_frame(path: Path, text: Mapping[str, type[str]], doubled: str) -> pd.DataFrame:
    """Read a table whose name ends in .csv, .tsv or .parquet.

    Parameters
    ----------
    text : columns of a CSV file that stay text, whatever they look like
    doubled : attribute of the frame that gets the columns which a CSV file has more than once, and how often
    """
    try:
        if path.suffix.lower() == ".parquet":
            return _read_parquet(path)
        return _read_csv(path, text, doubled)
    except pd.errors.EmptyDataError:
        raise InputError(f"{path} is empty; give a header and at least one row.") from None
    except UnicodeDecodeError:
        raise InputError(
            f"{path} is not UTF-8 text at line {_undecodable_line(path)}; save it as “CSV UTF-8”, or convert it "
            "with iconv -f latin1 -t utf-8."
        ) from None
    except (*BROKEN, pa.ArrowException) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged or not a {path.suffix} file ({brief(error)}).") from None


def _read_parquet(path: Path) -> pd.DataFrame:
    with pq.ParquetFile(path) as file:
        described = file.metadata
        groups = (described.row_group(i) for i in range(described.num_row_groups))
        cells = 8 * described.num_rows * max(described.num_columns, 1)  # few bytes may stand for many equal cells
        limits.check_bytes(f"{path}", 2 * max(cells, sum(group.total_byte_size for group in groups)), "give fewer rows")
    stored = pd.read_parquet(path)
    return stored if stored.index.names == [None] else stored.reset_index()


def _read_csv(path: Path, text: Mapping[str, type[str]], doubled: str) -> pd.DataFrame:
    separator, decimal = separators(path)
    limits.check_bytes(f"{path}", PER_CSV_BYTE * path.stat().st_size, "give fewer rows, or a Parquet file")
    quoted = _check_bytes_of(path)
    # The whole column decides its type (low_memory), not the part of it that one chunk happens to hold.
    frame = pd.read_csv(path, sep=separator, skipinitialspace=True, dtype=dict(text), low_memory=False, decimal=decimal)
    if not isinstance(frame.index, pd.RangeIndex):  # pandas would shift every column by one without a word
        raise InputError(f"The rows of {path} have more cells than its header; name every column or drop the others.")
    names = [name.rstrip() for name in _header(path, separator)]
    bare = frame.columns.map(lambda name: str(name).rstrip())
    if bare.is_unique:  # a space that nobody sees is no part of a name
        frame.columns = bare
    frame.attrs[doubled] = {name: names.count(name) for name in names if names.count(name) > 1}
    if quoted:
        _check_quotes(path, frame, separator)
    return frame


def separators(path: Path) -> tuple[str, str]:
    """What stands between the cells of a text file, and before the decimals of its numbers.

    Where commas mark decimals, spreadsheets write .csv files with semicolons; some write tabs. The header decides.
    """
    with path.open("rb") as file:
        head = file.read(LOOKED_AT)
    header = next((line for line in head.splitlines() if line.strip()), b"")
    if path.suffix.lower() == ".tsv" or (b"," not in header and b";" not in header and b"\t" in header):
        return "\t", "."
    if b"," in header or b";" not in header:
        return ",", "."
    return ";", "," if DECIMAL_COMMA.search(head) else "."


def _undecodable_line(path: Path) -> int:
    """Line of the first byte that is not UTF-8."""
    content = path.read_bytes()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        return content[: error.start].count(b"\n") + 1
    return 1


def _check_bytes_of(path: Path) -> bool:
    """Refuse bytes that no text has; return whether there are quotes."""
    if not path.stat().st_size:
        raise pd.errors.EmptyDataError
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if (at := content.find(b"\0")) >= 0:
            line = content[:at].count(b"\n") + 1
            raise InputError(f"Line {line} of {path} holds a NUL byte, which no text has; save it in UTF-8 again.")
        return content.find(b'"') >= 0


def _header(path: Path, separator: str) -> list[str]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file, delimiter=separator, skipinitialspace=True)
        return next((row for row in rows if row), [])


def _check_quotes(path: Path, frame: pd.DataFrame, separator: str) -> None:
    """Refuse a cell that holds a whole row: its quote was never closed, or is closed many rows later."""
    for name, column in frame.items():
        if column.dtype.kind in "biufmM":
            continue
        broken = column.astype(str).str.contains("\n", regex=False).to_numpy(dtype=bool)
        for row in broken.nonzero()[0].tolist():
            cell = str(column.iloc[row])
            if cell.count(separator) >= (frame.shape[1] - 1) * cell.count("\n"):
                raise InputError(
                    f"Column {str(name)!r}, row {row} of {path} holds several rows, because a quote is not closed; "
                    "close or remove it."
                )


def storable_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with columns that Parquet cannot hold, integers beyond 64 bits or mixed kinds, as text."""
    changed: dict[Any, Any] = {}
    for i, name in enumerate(frame.columns):
        column = frame.iloc[:, i]
        if column.dtype != object:
            continue
        try:
            pa.Array.from_pandas(column)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            changed[name] = column.astype(str).where(column.notna(), None)
    return frame.assign(**changed) if changed else frame
