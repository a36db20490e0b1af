"""How many numbers a Parquet file claims to hold, read from its footer before a library decodes anything.

pyarrow has the same numbers, but aborts the process where some statistics of a damaged column do not fit together.
The footer is a Thrift structure in the compact protocol (parquet-format, parquet.thrift); fields by their ids:
FileMetaData 4: row groups; RowGroup 1: columns, 3: rows; ColumnChunk 3: metadata; ColumnMetaData 3: path, 5: values.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEEPEST = 32
MAGIC = b"PAR1"


class Claimed:
    """A column chunk's path in the schema, how many values it claims, and the rows of its group."""

    def __init__(self, path: str, values: int, rows: int) -> None:
        self.path, self.values, self.rows = path, values, rows


def claimed_columns(path: Path) -> Iterator[Claimed]:
    """Every column chunk of a file; ValueError where the footer cannot be read."""
    with path.open("rb") as file:
        file.seek(0, 2)
        size = file.tell()
        file.seek(max(0, size - 8))
        end = file.read(8)
        if size < 12 or end[4:] != MAGIC:
            raise ValueError("it has no Parquet footer")
        length = struct.unpack("<I", end[:4])[0]
        if length > size - 8:
            raise ValueError("its footer is longer than the file")
        file.seek(size - 8 - length)
        footer = _Reader(file.read(length)).struct(0)
    for group in _list(footer.get(4)):
        rows = _integer(_struct(group).get(3))
        for column in _list(_struct(group).get(1)):
            found = _struct(_struct(column).get(3))
            parts = [part for part in _list(found.get(3)) if isinstance(part, bytes)]
            yield Claimed(b".".join(parts).decode("utf-8", "replace"), _integer(found.get(5)), rows)


class _Reader:
    """Thrift's compact protocol: structures as {field id: value}, numbers, bytes and lists."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise ValueError("its footer ends too soon")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number in its footer has more than 64 bits")

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def take(self, n: int) -> bytes:
        if n > len(self.data) - self.at:
            raise ValueError("its footer ends too soon")
        self.at += n
        return self.data[self.at - n : self.at]

    def struct(self, depth: int) -> dict[int, Any]:
        """Fields by their ids, until the one that stops."""
        fields: dict[int, Any] = {}
        last = 0
        while (head := self.byte()) != 0:
            last = last + (head >> 4) if head >> 4 else self.integer()
            kind = head & 0x0F
            fields[last] = kind == 1 if kind in (1, 2) else self.value(kind, depth + 1)
        return fields

    def value(self, kind: int, depth: int) -> Any:
        """A value of a type of the protocol."""
        if depth > DEEPEST:
            raise ValueError("its footer is nested too deep")
        if kind in (1, 2, 3):
            return self.byte()
        if kind in (4, 5, 6):
            return self.integer()
        if kind == 7:
            return self.take(8)
        if kind == 8:
            return self.take(self.varint())
        if kind in (9, 10):
            head = self.byte()
            n = self.varint() if head >> 4 == 15 else head >> 4
            if n > len(self.data) - self.at:  # an element takes a byte or more
                raise ValueError("a list in its footer is longer than the footer")
            return [self.value(head & 0x0F, depth + 1) for _ in range(n)]
        if kind == 11:
            n = self.varint()
            if n == 0:
                return {}
            if n > len(self.data) - self.at:
                raise ValueError("a map in its footer is longer than the footer")
            kinds = self.byte()
            return [(self.value(kinds >> 4, depth + 1), self.value(kinds & 0x0F, depth + 1)) for _ in range(n)]
        if kind == 12:
            return self.struct(depth)
        raise ValueError("its footer is damaged")


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError("its footer is damaged")
    return value


def _struct(value: Any) -> dict[int, Any]:
    if not isinstance(value, dict):
        raise ValueError("its footer is damaged")
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError("its footer is damaged")
    return value
