"""Files of tables and of arrays: what a parser would let pass without a word is looked for here.

A header that names a column twice, a quote that is never closed, bytes that are no text, a few bytes that claim to be
gigabytes: each is one sentence that says where. Nothing is unpickled.
"""

from __future__ import annotations

import csv
import glob
import lzma
import math
import mmap
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prism_irl import checked, limits, storage
from prism_irl.checked import BROKEN
from prism_irl.data.mapped import PLAIN, native
from prism_irl.data.rows import DOUBLED, Array, Columns, Where
from prism_irl.errors import InputError, brief
from prism_irl.optional import need

READABLE = (".csv", ".tsv", ".parquet", ".npz", ".xlsx", ".nwb")
WRITABLE = (".csv", ".tsv", ".parquet")
NWB = ".nwb"
EXCEL_ROWS, PER_CELL = 2**20, 64
"""Rows of a sheet at most, and bytes of memory per cell between the first and the last, empty ones included."""
PER_EXCEL_BYTE = 4
"""Bytes of memory per byte of the XML in an .xlsx file: a cell of some thirty bytes becomes an object of Python."""


def read_table_file(path: Path, text: Mapping[str, type[str]] = {}, wanted: Sequence[str] = ()) -> pd.DataFrame:
    """Rows and columns of a table of any format but npz, as they are.

    Columns named in ``text`` stay text whatever they look like; ``wanted`` ones tell which table of an NWB file it is.
    The attribute `rows.DOUBLED` of the frame says which columns the file has more than once.
    """
    if not path.is_file():
        raise InputError(f"There is no file {path}; check the path.")
    suffix = path.suffix.lower()
    try:
        if suffix == NWB:
            from prism_irl.data.interop import read_nwb

            return read_nwb(path, wanted)
        if suffix == ".parquet":
            return _read_parquet(path)
        return _read_excel(path, text) if suffix == ".xlsx" else _read_csv(path, text)
    except pd.errors.EmptyDataError:
        raise InputError(f"{path} is empty; give a header and at least one row.") from None
    except UnicodeDecodeError:
        text_of = path.read_bytes().decode("utf-8", "replace")  # a mark in the place of what is no text
        line = text_of[: text_of.find("\ufffd")].count("\n") + 1
        raise InputError(
            f"{path} is not UTF-8 text at line {line}; save it as “CSV UTF-8”, or convert it with iconv -f latin1 -t "
            "utf-8."
        ) from None
    except InputError:
        raise
    except (*BROKEN, pa.ArrowException, BadZipFile, zlib.error) as error:
        kind = "an .xlsx" if suffix == ".xlsx" else f"a {suffix}"
        raise InputError(f"{path} is damaged or not {kind} file ({brief(error)}).") from None


def _read_excel(path: Path, text: Mapping[str, type[str]]) -> pd.DataFrame:
    """The first sheet of a workbook."""
    need("openpyxl", "excel")
    with ZipFile(path) as archive:
        _check_size(path, PER_EXCEL_BYTE * sum(info.file_size for info in archive.infolist()))
        for name in archive.namelist():
            if name.startswith("xl/worksheets/"):
                _check_sheet(path, archive.read(name))
    with pd.ExcelFile(path, engine="openpyxl") as book:
        frame: pd.DataFrame = pd.read_excel(book, dtype=dict(text))
        header = pd.read_excel(book, header=None, nrows=1)
    names = [] if header.empty else header.iloc[0].dropna().astype(str).tolist()
    frame.attrs[DOUBLED] = {name: times for name, times in Counter(names).items() if times > 1}
    return frame


def _check_sheet(path: Path, sheet: bytes) -> None:
    """Refuse cells that lie so far out that the table between them, most of it empty, takes gigabytes."""
    rows = re.split(rb"<(?:\w+:)?row\b", sheet)[1:]
    last = max((int(found[1]) for part in rows if (found := re.match(rb'[^>]*\br="(\d{1,18})"', part))), default=0)
    wide = max((len(re.findall(rb"<(?:\w+:)?c\b", part)) for part in rows), default=0)
    for letters in set(re.findall(rb'\br="([A-Z]{1,6})\d', sheet)):
        wide = max(wide, reduce(lambda number, letter: 26 * number + letter - 64, letters, 0))
    if max(last, len(rows)) > EXCEL_ROWS:
        raise InputError(f"{path} has more rows than a spreadsheet can have ({EXCEL_ROWS:,}); give a .csv file.")
    _check_size(path, PER_CELL * max(last, len(rows)) * wide)


def line_of(path: Path, row: int) -> int:
    """Line of a row in a text file, counted as an editor does; of other files the row as a spreadsheet numbers it."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        return row + (2 if path.suffix.lower() == ".xlsx" else 0)
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = csv.reader(file, delimiter=separators(path)[0])
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
    suffix, frame = Path(path).suffix.lower(), frame.copy(deep=False)
    frame.attrs = {}  # what was noticed when a table was read is no part of it

    def write(file: IO[bytes]) -> None:
        if suffix == ".parquet":
            storable_frame(frame).to_parquet(file, index=False)
        else:
            frame.to_csv(file, index=False, sep="\t" if suffix == ".tsv" else ",")

    storage.write_file(Path(path), write)


def read_arrays(path: Path, only: Sequence[str] | None = None) -> dict[str, Array]:
    """Arrays of an npz file by name, all of them or those of ``only``.

    Nothing is taken on trust: an array is as large as its bytes, not as its header says, all of them together fit into
    memory, none is there twice, and none holds Python objects.
    """
    if not path.is_file():
        raise InputError(f"There is no file {path}; check the path.")
    try:
        with path.open("rb") as file, ZipFile(file) as archive:
            members = [info for info in archive.infolist() if only is None or info.filename[:-4] in only]
            names = [info.filename.removesuffix(".npy") for info in members]
            if len(set(names)) < len(names):
                twice = next(name for name, times in Counter(names).items() if times > 1)
                raise ValueError(f"the array {twice!r} is there twice")
            total = sum(info.file_size for info in members)
            _check_size(path, 2 * total, "give a smaller file, or a folder of prism_irl.data.mapped")
            return {info.filename[:-4]: _member(archive, info) for info in members if info.filename.endswith(".npy")}
    except InputError:
        raise
    except (*BROKEN, BadZipFile, zlib.error, lzma.LZMAError) as error:
        if "Object arrays" in str(error):
            raise InputError(f"{path} holds Python objects, which are never unpickled; save plain arrays.") from None
        raise InputError(f"{path} is damaged or not an npz file ({brief(error)}).") from None


def _member(archive: ZipFile, info: ZipInfo) -> Array:
    """One array; its header is compared with the bytes that are there before anything is allocated."""
    name = info.filename[:-4]
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"the array {name!r} is of version {version}")
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran_order, dtype = header(file)
        if dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded")
        if dtype.kind not in PLAIN:
            raise ValueError(f"the array {name!r} is of type {dtype} and holds neither numbers nor times nor text")
        if math.prod(shape) * dtype.itemsize != info.file_size - file.tell():
            raise ValueError(f"the array {name!r} of type {dtype} and shape {shape} does not fit its bytes")
        content = bytearray(file.read())
    flat = np.frombuffer(content, dtype=dtype, count=math.prod(shape)) if content else np.empty(math.prod(shape), dtype)
    if dtype.kind == "U":
        checked.text(name, flat)
    return native(name, flat).reshape(shape, order="F" if fortran_order else "C")


# -- text and Parquet --------------------------------------------------------------------------------------------------

LOOKED_AT = 2**16  # bytes of a file that say how its cells and decimals are written
DECIMAL_COMMA = re.compile(rb";\s*-?\d+,\d+\s*(?=[;\r\n])")
PER_CSV_BYTE = 12
"""Bytes of memory per byte of a CSV file, at most: a cell of one digit and its comma become eight bytes."""


def _read_parquet(path: Path) -> pd.DataFrame:
    with pq.ParquetFile(path) as file:
        described = file.metadata
        groups = (described.row_group(i) for i in range(described.num_row_groups))
        cells = 8 * described.num_rows * max(described.num_columns, 1)  # few bytes may stand for many equal cells
        encoded = sum(group.total_byte_size for group in groups)
        texts = [field.name for field in file.schema_arrow if _is_text(field.type)]
    limits.check_growth(f"{path}", 0, path.stat().st_size, described.num_rows)
    _check_size(path, 2 * max(cells, encoded))
    if texts and 2 * described.num_rows * encoded > limits.GROWN:  # else no text can be long enough to matter
        _check_size(path, 2 * (cells + _decoded(path, texts)))
    stored = pd.read_parquet(path)
    return stored if stored.index.names == [None] else stored.reset_index()


def _check_size(path: Path, n_bytes: int, advice: str = "give fewer rows") -> None:
    limits.check_growth(f"{path}", n_bytes, path.stat().st_size)
    limits.check_bytes(f"{path}", n_bytes, advice)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))


def _decoded(path: Path, columns: list[str]) -> int:
    """Bytes of the text in some columns of a Parquet file, counted by its dictionaries and never written out."""
    total = 0
    with pq.ParquetFile(path, read_dictionary=columns) as file:
        for batch in file.iter_batches(4096, columns=columns):
            for cells in batch.columns:
                if isinstance(cells, pa.DictionaryArray):
                    lengths = pc.fill_null(pc.binary_length(cells.dictionary), 0)
                    total += pc.sum(lengths.take(cells.indices.drop_null())).as_py() or 0
                else:
                    total += cells.nbytes
    return total


def _read_csv(path: Path, text: Mapping[str, type[str]]) -> pd.DataFrame:
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
    frame.attrs[DOUBLED] = {name: times for name, times in Counter(names).items() if times > 1}
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
    mark = next((mark for mark in (",", ";", "\t") if mark.encode() in header), ",")
    mark = "\t" if path.suffix.lower() == ".tsv" else mark
    return mark, "," if mark == ";" and DECIMAL_COMMA.search(head) else "."


def _check_bytes_of(path: Path) -> bool:
    """Refuse bytes that no text has; return whether there are quotes."""
    if not path.stat().st_size:
        raise pd.errors.EmptyDataError
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if (at := content.find(b"\0")) >= 0:
            line = content[:at].count(b"\n") + 1
            raise InputError(f"Line {line} of {path} holds a NUL byte, which no text has; save it in UTF-8 again.")
        return content.find(b'"') >= 0


def headings(path: Path) -> list[str]:
    """Names of a table's columns, without reading its rows; none where they cannot be read."""
    try:
        return pq.read_schema(path).names if path.suffix.lower() == ".parquet" else _header(path, separators(path)[0])
    except (OSError, ValueError, csv.Error, pa.ArrowException):
        return []


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


# -- one file per animal -----------------------------------------------------------------------------------------------

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
        same = len({path.stem for path in paths}) < len(paths)
        for frame, path in zip(frames, paths, strict=True):
            frame[FILE] = path.as_posix() if same else path.stem
    if len(paths) == 1:
        return frames[0], lambda row: f"line {line_of(paths[0], row)}"
    for path, frame in zip(paths, frames, strict=True):
        for lacks, has, names in (
            (path, paths[0], set(frames[0]) - set(frame)),
            (paths[0], path, set(frame) - set(frames[0])),
        ):
            if names:
                raise InputError(
                    f"{lacks.name} has no column {min(map(str, names))!r}, and {has.name} has; give files with the "
                    "same columns."
                )
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
