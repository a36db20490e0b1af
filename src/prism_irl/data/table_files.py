"""Files of tables: CSV, TSV, Excel and Parquet into pandas and back; lines of a text file as an editor counts them."""

from __future__ import annotations

import csv
import lzma
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile

import numpy as np
import pandas as pd

from prism_irl import checked, limits, storage
from prism_irl.checked import BROKEN
from prism_irl.data.frames import read_frame, separators, storable_frame
from prism_irl.data.mapped import PLAIN
from prism_irl.data.roles import DOUBLED
from prism_irl.data.vocabulary import Array
from prism_irl.errors import InputError, brief
from prism_irl.optional import need

READABLE = (".csv", ".tsv", ".parquet", ".npz", ".xlsx", ".nwb")
WRITABLE = (".csv", ".tsv", ".parquet")
NWB = ".nwb"
PER_EXCEL_BYTE = 4
"""Bytes of memory per byte of the XML in an .xlsx file: a cell of some thirty bytes becomes an object of Python."""


def read_table_file(path: Path, text: Mapping[str, type[str]], wanted: Sequence[str] = ()) -> pd.DataFrame:
    """Read a table of any of these formats but npz.

    Columns named in ``text`` stay text whatever they look like; ``wanted`` ones tell which table of an NWB file it is.
    """
    if path.suffix.lower() == NWB:
        from prism_irl.data.nwb import read_nwb

        return read_nwb(path, wanted)
    if path.suffix.lower() != ".xlsx":
        return read_frame(path, text, DOUBLED)
    need("openpyxl", "excel")
    try:
        return _read_excel(path, text)
    except (*BROKEN, BadZipFile, zlib.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged or not an .xlsx file ({brief(error)}).") from None


def _read_excel(path: Path, text: Mapping[str, type[str]]) -> pd.DataFrame:
    """The first sheet of a workbook, with the columns that it has more than once as `frames.read_frame` counts them."""
    with ZipFile(path) as archive:
        unpacked = sum(info.file_size for info in archive.infolist())
    limits.check_bytes(f"{path}", PER_EXCEL_BYTE * unpacked, "give a Parquet or CSV file")
    with pd.ExcelFile(path, engine="openpyxl") as book:
        frame: pd.DataFrame = pd.read_excel(book, dtype=dict(text))
        header = pd.read_excel(book, header=None, nrows=1)
    names = [] if header.empty else header.iloc[0].dropna().astype(str).tolist()
    frame.attrs[DOUBLED] = {name: names.count(name) for name in names if names.count(name) > 1}
    return frame


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
        if suffix != ".parquet":
            frame.to_csv(file, index=False, sep="\t" if suffix == ".tsv" else ",")
            return
        storable_frame(frame).to_parquet(file, index=False)

    storage.write_file(Path(path), write)


def read_arrays(path: Path, only: Sequence[str] | None = None) -> dict[str, Array]:
    """Arrays of an npz file by name, all of them or those of ``only``.

    Nothing is taken on trust: an array is as large as its bytes, not as its header says, all of them together fit into
    memory, none is there twice, and none holds Python objects.
    """
    if not path.is_file():
        raise InputError(f"There is no file {path}; check the path.")
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            members = [info for info in archive.infolist() if only is None or info.filename[:-4] in only]
            names = [info.filename for info in members]
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise ValueError(f"the array {twice[:-4]!r} is there twice")
            total = sum(info.file_size for info in members)
            limits.check_bytes(f"{path}", 2 * total, "give a smaller file, or a folder of prism_irl.data.archive")
            return {info.filename[:-4]: _member(archive, info) for info in members if info.filename.endswith(".npy")}
    except (*BROKEN, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, InputError):
            raise
        if "Object arrays" in str(error):
            raise InputError(f"{path} holds Python objects, which are never unpickled; save plain arrays.") from None
        raise InputError(f"{path} is damaged or not an npz file ({brief(error)}).") from None


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
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
    return flat.reshape(shape, order="F" if fortran_order else "C")
