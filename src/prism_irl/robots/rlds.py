"""RLDS datasets as TFDS stores them: TFRecord shards, one episode per record, described by ``features.json``.

Each step feature of an episode is one flat list in the record, such as ``steps/observation/image_0`` (T encoded
pictures) or ``steps/action`` (T·d floats). Checksums are verified, and no TensorFlow is needed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl import storage
from prism_irl.errors import InputError
from prism_irl.optional import compiled
from prism_irl.robots.episodes import Episode, EpisodeSource, Frame, damaged, decode_image

STATE = "steps/observation/state"
LANGUAGE = ("steps/language_instruction", "steps/observation/natural_language_instruction")
SHARD = re.compile(r"(?P<name>.+)-(?P<split>[^-]+)\.tfrecord-(?P<part>\d+)-of-(?P<parts>\d+)$")


class RLDSSource(EpisodeSource):
    """Episodes of the TFRecord shards in a folder, which as TFDS writes it has a ``features.json``, too.

    With a ``split`` ("train", "val", …) only of its shards.
    """

    files = ("*.tfrecord*", "*.json")

    def __init__(self, folder: str | Path, *, split: str | None = None, strict: bool = False) -> None:
        super().__init__(folder, strict=strict)
        self.features = _step_features(self.folder)
        self.split, self.shards = split, _shards(self.folder, split)
        path = self.folder / "dataset_info.json"
        wanted = {_parts(shard)["split"] for shard in self.shards}
        splits = storage.read_object(path).get("splits", []) if path.is_file() else []
        with suppress(KeyError, TypeError, ValueError, OverflowError):
            counts = [int(n) for one in splits if one["name"] in wanted for n in one["shardLengths"]]
            self.n_episodes = sum(counts) or None

    @property
    def splits(self) -> list[str]:
        """Names of the splits that are read."""
        return sorted({_parts(shard)["split"] for shard in self.shards})

    def describe(self) -> dict[str, Any]:
        """With the split, where one was asked for."""
        return super().describe() | ({} if self.split is None else {"split": self.split})

    def has(self, column: str) -> bool:
        """Whether there is a step feature, such as ``phase`` for steps/phase; without features.json nobody knows."""
        return not self.features or any(path in self.features for path in _paths(column))

    def _columns_in_words(self) -> str:
        return f" among {', '.join(sorted(path.removeprefix('steps/') for path in self.features))}"

    def _open(self) -> Iterator[Callable[[], Episode]]:
        index = 0
        for shard in self.shards:
            for record in read_records(shard):
                yield partial(self._read, index, shard, record)
                index += 1

    def _read(self, index: int, shard: Path, record: Record) -> Episode:
        name = f"{index} (record {record.number} of {shard.name})"
        if record.problem is not None:
            raise damaged(name, record.problem)
        try:
            values = parse_example(record.data)
        except InputError as error:
            raise damaged(name, str(error)) from None
        if "steps/action" not in values:
            raise damaged(name, "it has no feature steps/action")
        width = max(self._width("steps/action") or 1, 1)
        steps = len(values.get("steps/is_first", ())) or len(values["steps/action"]) // width
        cameras = {}
        for key, pictures in values.items():
            if not self._is_picture(key):
                continue
            if len(pictures) != steps:
                raise damaged(name, f"{key} has {len(pictures)} pictures for {steps} steps")
            if isinstance(pictures, list):
                cameras[key.removeprefix("steps/observation/")] = partial(_pictures, pictures, name, key)
        texts = next((values[key] for key in LANGUAGE if isinstance(values.get(key), list)), None)
        return Episode(
            index=index,
            actions=self._vectors(values, "steps/action", steps, name),
            states=self._vectors(values, STATE, steps, name) if STATE in values else None,
            language=texts[0].decode("utf-8", errors="replace") if texts else "",
            cameras=dict(sorted(cameras.items())),
            name=name,
            columns={key: _cells(values, key, steps, name) for key in self.wanted},
        )

    def _is_picture(self, key: str) -> bool:
        usual = "image" if key.rsplit("/", 1)[-1].startswith("image") else ""
        return bool(self.features.get(key, {}).get("kind", usual) == "image")

    def _width(self, key: str) -> int | None:
        shape = self.features.get(key, {}).get("shape")
        return None if shape is None else int(np.prod(shape))

    def _vectors(self, values: dict[str, Values], key: str, steps: int, name: str) -> npt.NDArray[np.float32]:
        """One vector per step, (T, d), from the flat list."""
        flat = values[key]
        if isinstance(flat, list):
            raise damaged(name, f"it has no numbers under {key}")
        width = self._width(key) or (len(flat) // steps if steps else 0)
        if len(flat) != steps * width or not width:
            raise damaged(name, f"{key} has {len(flat)} numbers for {steps} steps of {width}")
        return flat.reshape(steps, width).astype(np.float32)


def _parts(shard: Path) -> dict[str, str]:
    return {"split": ""} if (found := SHARD.match(shard.name)) is None else found.groupdict()


def open_rlds(folder: Path, split: str | None, *, strict: bool = False) -> RLDSSource:
    """Open one split, or "all" of them; where there are several, the default is that for training."""
    every = RLDSSource(folder, strict=strict)
    if split == "all" or (split is None and len(every.splits) == 1):
        return every
    if split is None and "train" not in every.splits:
        raise InputError(f"{folder} has the splits {', '.join(every.splits)}; choose one with --split, or all.")
    return RLDSSource(folder, split=split or "train", strict=strict)


def _paths(column: str) -> tuple[str, ...]:
    return f"steps/{column}", f"steps/observation/{column}"


def _cells(values: dict[str, Values], key: str, steps: int, name: str) -> npt.NDArray[np.object_]:
    """A step feature of one word or number per step, (T,)."""
    feature = next((path for path in _paths(key) if path in values), None)
    if feature is None:
        there = ", ".join(sorted(path.removeprefix("steps/") for path in values if path.startswith("steps/")))
        raise InputError(f"Episode {name} has no step feature {key!r}; it has {there}.")
    found = values[feature]
    if len(found) != steps:
        raise InputError(f"{feature} of episode {name} has {len(found)} values for {steps} steps; name one per step.")
    cells = np.empty(steps, dtype=object)
    cells[:] = [one.decode("utf-8", errors="replace") if isinstance(one, bytes) else one.item() for one in found]
    return cells


def _pictures(pictures: list[bytes], name: str, key: str) -> Iterator[Frame]:
    for step, data in enumerate(pictures):
        if not data:
            raise damaged(name, f"{key} has no picture at step {step}")
        yield decode_image(data, name, f"{key} at step {step}")


def _shards(folder: Path, split: str | None) -> list[Path]:
    """All shards of a split, none missing."""
    every = sorted(path for path in folder.glob("*.tfrecord*") if path.is_file())
    shards = [shard for shard in every if split is None or _parts(shard)["split"] == split]
    if not shards:
        there = ", ".join(sorted({_parts(shard)["split"] for shard in every})) or "none"
        raise InputError(f"There are no TFRecord shards of split {split or 'any'} in {folder}; splits there: {there}.")
    groups: dict[tuple[str, ...], set[int]] = {}
    for parts in (_parts(shard) for shard in shards):
        if "part" in parts:
            groups.setdefault((parts["name"], parts["split"], parts["parts"]), set()).add(int(parts["part"]))
    for (name, part, n), present in groups.items():
        missing = next((i for i in range(min(int(n), len(present) + 1)) if i not in present), None)
        if missing is not None:
            raise InputError(f"Shard {missing} of {int(n)} of {name}-{part} is missing in {folder}; download it again.")
    return shards


def _step_features(folder: Path) -> dict[str, dict[str, Any]]:
    """Kind and shape of each step feature, by the name it has in a record; empty without ``features.json``."""
    path = folder / "features.json"
    found: dict[str, dict[str, Any]] = {}

    def walk(node: Any, prefix: str) -> None:
        if "featuresDict" in node:
            for key, child in node["featuresDict"]["features"].items():
                walk(child, f"{prefix}/{key}" if prefix else key)
        elif "sequence" in node:
            walk(node["sequence"]["feature"], prefix)
        else:
            body = node.get("image") or node.get("tensor") or {}
            shape = body.get("shape", {}).get("dimensions")
            kind = next((kind for kind in ("image", "tensor", "text") if kind in node), "")
            found[prefix] = {"kind": kind, "shape": None if shape is None else [int(side) for side in shape]}

    if path.is_file():
        try:
            walk(storage.read_json(path), "")
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            raise InputError(f"{path} is not a TFDS description of features; restore it from its source.") from None
    return found


# -- TFRecord: length, masked CRC-32C of the length, payload, masked CRC-32C of the payload, all little-endian ---------

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
        for number in count():
            if not (header := file.read(12)):
                return
            if (problem := _header_problem(header, size - file.tell())) is not None:
                yield Record(number, b"", problem)
                return
            data = file.read(struct.unpack_from("<Q", header)[0])
            wrong = struct.unpack("<I", file.read(4))[0] != masked_crc(data)
            yield Record(number, data, "its checksum is wrong" if wrong else None)


def _header_problem(header: bytes, left: int) -> str | None:
    if len(header) < 12:
        return "the file ends inside a record's header"
    length, checksum = struct.unpack("<QI", header)
    if masked_crc(header[:8]) != checksum:
        return "the checksum of its length is wrong, so the rest of the file cannot be read"
    if length > MAX_RECORD:
        return f"it claims {length} bytes, more than a record can have"
    return None if length + 4 <= left else f"it claims {length} bytes and the file has {max(left - 4, 0)} left"


# -- CRC-32C -----------------------------------------------------------------------------------------------------------


def masked_crc(data: bytes) -> int:
    """Checksum as TFRecord stores it: rotated and shifted, so that a checksum of checksums stays useful."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) of some bytes."""
    return int(_remainder(np.frombuffer(data, np.uint8), _table()))


@cache
def _table() -> _WORD:
    """Remainder of every byte, (256,), for the reflected polynomial."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1).astype(np.uint32)
    return table


@compiled()
def _remainder(data: npt.NDArray[np.uint8], table: _WORD) -> Any:
    crc = np.uint32(0xFFFFFFFF)
    for byte in data:
        crc = table[(crc ^ byte) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    return crc ^ np.uint32(0xFFFFFFFF)


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
            numbers: list[int] = []
            for item in (item for number, item in _fields(body) if number == 1):
                position, packed = 0, memoryview(b"") if isinstance(item, int) else item
                numbers += [item] if isinstance(item, int) else []
                while position < len(packed):
                    value, position = _varint(packed, position)
                    numbers.append(value)
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
