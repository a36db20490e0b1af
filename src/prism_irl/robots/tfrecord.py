"""TFRecord files and the `tf.train.Example` messages in them, read without TensorFlow.

A record is: length (uint64), masked CRC-32C of the length, payload, masked CRC-32C of the payload, all little-endian.
Every checksum is verified; a length is believed only after its checksum and only as far as the file reaches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.errors import InputError

Values = list[bytes] | npt.NDArray[np.float32] | npt.NDArray[np.int64]
MAX_RECORD = 2 << 30
"""Bytes of the largest record that is read; protobuf messages end here."""
_WORD = npt.NDArray[np.uint32]


class Record(NamedTuple):
    """One record: its number in the file, its bytes, and what is wrong with it (None when nothing is)."""

    number: int
    data: bytes
    problem: str | None


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file one at a time.

    A record with a wrong checksum is yielded with its problem and reading goes on behind it; where a length cannot be
    trusted, or the file ends too early, the record says so and is the last.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        number = 0
        while header := file.read(12):
            problem = _header_problem(header, size - file.tell())
            if problem is not None:
                yield Record(number, b"", problem)
                return
            length = struct.unpack_from("<Q", header)[0]
            data = file.read(length)
            wrong = struct.unpack("<I", file.read(4))[0] != masked_crc(data)
            yield Record(number, data, "its checksum is wrong" if wrong else None)
            number += 1


def _header_problem(header: bytes, left: int) -> str | None:
    if len(header) < 12:
        return "the file ends inside a record's header"
    length, checksum = struct.unpack("<QI", header)
    if masked_crc(header[:8]) != checksum:
        return "the checksum of its length is wrong, so the rest of the file cannot be read"
    if length > MAX_RECORD:
        return f"it claims {length} bytes, more than a record can have"
    if length + 4 > left:
        return f"it claims {length} bytes and the file has {max(left - 4, 0)} left"
    return None


# -- CRC-32C -----------------------------------------------------------------------------------------------------------


def masked_crc(data: bytes) -> int:
    """Checksum as TFRecord stores it: rotated and shifted, so that a checksum of checksums stays useful."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) of some bytes.

    The remainder is linear over GF(2), so the bytes are laid out in lanes that are reduced side by side, two bytes of
    every lane at a time, and then folded: crc(ab) = shift(crc(a), |b|) ⊕ crc(b). In NumPy this is some hundred times
    faster than a loop over bytes.
    """
    if len(data) < 64:
        crc = 0xFFFFFFFF
        for byte in data:
            crc = int(_byte_table()[(crc ^ byte) & 0xFF]) ^ (crc >> 8)
        return crc ^ 0xFFFFFFFF
    lanes = 1 << min(max(len(data).bit_length() - 7, 1), 14)
    width = -(-len(data) // (2 * lanes))
    # Leading zeros do not change a remainder that starts at 0; starting at all ones equals inverting four bytes.
    padded = np.zeros(2 * lanes * width, dtype=np.uint8)
    padded[-len(data) :] = np.frombuffer(data, dtype=np.uint8)
    first = len(padded) - len(data)
    padded[first : first + 4] ^= 0xFF
    columns = np.ascontiguousarray(padded.view("<u2").reshape(lanes, width).T)
    table, state = _pair_table(), np.zeros(lanes, dtype=np.uint32)
    for column in columns:
        state = table[(state & 0xFFFF) ^ column] ^ (state >> 16)
    width *= 2
    while len(state) > 1:
        state = _shifted(state[0::2], width) ^ state[1::2]
        width *= 2
    return int(state[0]) ^ 0xFFFFFFFF


@cache
def _pair_table() -> _WORD:
    """Remainder of every two bytes, (65536,)."""
    table, pairs = _byte_table(), np.arange(65536, dtype=np.uint32)
    once = table[pairs & 0xFF] ^ (pairs >> 8)
    twice: _WORD = table[once & 0xFF] ^ (once >> 8)
    return twice


@cache
def _byte_table() -> _WORD:
    """Remainder of every byte, (256,), for the reflected polynomial."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    return table.astype(np.uint32)


def _shifted(crc: _WORD, zeros: int) -> _WORD:
    """Remainders after as many zero bytes: one GF(2) matrix per power of two."""
    for power in range(zeros.bit_length()):
        if zeros >> power & 1:
            crc = _applied(_zero_tables(power), crc)
    return crc


def _applied(tables: list[_WORD], crc: _WORD) -> _WORD:
    """A GF(2) matrix, as four tables of 256, times remainders."""
    product: _WORD = (
        tables[0][crc & 0xFF] ^ tables[1][crc >> 8 & 0xFF] ^ tables[2][crc >> 16 & 0xFF] ^ tables[3][crc >> 24]
    )
    return product


@cache
def _zero_tables(power: int) -> list[_WORD]:
    """What 2^power zero bytes make of each byte of a remainder, four arrays (256,)."""
    words = [np.arange(256, dtype=np.uint32) << np.uint32(8 * position) for position in range(4)]
    if power == 0:
        return [(_byte_table()[word & 0xFF] ^ (word >> 8)).astype(np.uint32) for word in words]
    half = _zero_tables(power - 1)
    return [_applied(half, _applied(half, word)) for word in words]


# -- protobuf ----------------------------------------------------------------------------------------------------------


def parse_example(data: bytes) -> dict[str, Values]:
    """Features of a `tf.train.Example` by name: lists of bytes, float32 (n,) or int64 (n,) arrays."""
    features: dict[str, Values] = {}
    try:
        for body in _messages(memoryview(data)):
            for entry in _messages(body):
                parts = dict(_fields(entry))
                key, value = parts[1], parts.get(2, memoryview(b""))
                if isinstance(key, memoryview) and isinstance(value, memoryview):
                    features[bytes(key).decode()] = _feature(value)
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise InputError(f"A record is not a tf.train.Example ({error}); give TFDS shards.") from None
    return features


def _feature(view: memoryview) -> Values:
    """One `Feature`: whichever of the three lists it holds."""
    for kind, body in _fields(view):
        if not isinstance(body, memoryview):
            break
        if kind == 1:
            return [bytes(item) for item in _messages(body)]
        if kind == 2:  # packed, or one by one
            return np.frombuffer(b"".join(_messages(body)), dtype="<f4").astype(np.float32)
        if kind == 3:
            items = [item for number, item in _fields(body) if number == 1]
            numbers = [n for item in items for n in ([item] if isinstance(item, int) else _varints(item))]
            return np.array(numbers, dtype=np.uint64).astype(np.int64)
    return []


def _messages(view: memoryview) -> Iterator[memoryview]:
    """Contents of the fields with the number 1, but for plain numbers."""
    return (item for number, item in _fields(view) if number == 1 and isinstance(item, memoryview))


def _fields(view: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """Field numbers and contents of a message; the wire types that Example uses, and no others."""
    position = 0
    while position < len(view):
        tag, position = _varint(view, position)
        kind = tag & 7
        if kind == 0:
            value, position = _varint(view, position)
            yield tag >> 3, value
            continue
        if kind not in (1, 2, 5):
            raise ValueError(f"wire type {kind}")
        if kind == 2:
            length, position = _varint(view, position)
        else:
            length = 8 if kind == 1 else 4
        if length > len(view) - position:
            raise ValueError("a field reaches beyond its message")
        yield tag >> 3, view[position : position + length]
        position += length


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _varints(view: memoryview) -> Iterator[int]:
    position = 0
    while position < len(view):
        value, position = _varint(view, position)
        yield value
