"""Robot recordings that tests write for the readers: pictures, TFRecord files and a small RLDS dataset."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from prism_irl import storage
from prism_irl.optional import need
from prism_irl.robots.episodes import Episode, Frame
from prism_irl.robots.tfrecord import Values, masked_crc


def encode_image(frame: Frame, kind: str = "PNG") -> bytes:
    """One picture as PNG (exact) or JPEG bytes."""
    buffer = io.BytesIO()
    options = {"quality": 95} if kind == "JPEG" else {}
    need("PIL.Image", "robots").fromarray(frame).save(buffer, format=kind, **options)
    return buffer.getvalue()


def write_records(file: IO[bytes], records: Iterable[bytes]) -> None:
    """Write records with their checksums."""
    for data in records:
        length = struct.pack("<Q", len(data))
        for part in (length, struct.pack("<I", masked_crc(length)), data, struct.pack("<I", masked_crc(data))):
            file.write(part)


def build_example(features: Mapping[str, Values]) -> bytes:
    """Serialise features as a `tf.train.Example`; undoes `parse_example`."""
    entries = b"".join(
        field(1, field(1, name.encode()) + field(2, _build_feature(values))) for name, values in features.items()
    )
    return field(1, entries)


def _build_feature(values: Values) -> bytes:
    if isinstance(values, list):
        return field(1, b"".join(field(1, item) for item in values))
    if values.dtype.kind == "f":
        return field(2, field(1, values.astype("<f4").tobytes()))
    return field(3, field(1, b"".join(_build_varint(int(value) & 0xFFFFFFFFFFFFFFFF) for value in values)))


def field(number: int, body: bytes) -> bytes:
    return _build_varint(number << 3 | 2) + _build_varint(len(body)) + body


def _build_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_rlds(
    folder: str | Path, episodes: Sequence[Episode], *, name: str = "demonstrations", split: str = "train"
) -> Path:
    """Write a small RLDS dataset of one shard, with JPEG pictures."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    first = episodes[0]

    def tensor(shape: Sequence[int]) -> dict[str, Any]:
        return {"tensor": {"shape": {"dimensions": [str(side) for side in shape]}, "dtype": "float32"}}

    def branch(children: dict[str, Any]) -> dict[str, Any]:
        return {"featuresDict": {"features": children}}

    def example(episode: Episode) -> bytes:
        marks = np.arange(len(episode))
        values: dict[str, Values] = {
            "steps/action": episode.actions.ravel(),
            "steps/is_first": (marks == 0).astype(np.int64),
            "steps/is_last": (marks == len(episode) - 1).astype(np.int64),
            "steps/language_instruction": [episode.language.encode()] * len(episode),
        }
        if episode.states is not None:
            values["steps/observation/state"] = episode.states.ravel()
        for camera in episode.cameras:
            pictures = [encode_image(frame, "JPEG") for frame in episode.frames(camera)]
            values[f"steps/observation/{camera}"] = pictures
        return build_example(values)

    observation: dict[str, Any] = {
        camera: {"image": {"shape": {"dimensions": [str(side) for side in next(first.frames(camera)).shape]}}}
        for camera in first.cameras
    }
    if first.states is not None:
        observation["state"] = tensor(first.states.shape[1:])
    steps = branch({"action": tensor(first.actions.shape[1:]), "observation": branch(observation)})
    storage.write_json(target / "features.json", branch({"steps": {"sequence": {"feature": steps}}}))
    info = {"name": name, "splits": [{"name": split, "shardLengths": [str(len(episodes))]}]}
    storage.write_text(target / "dataset_info.json", json.dumps(info, indent=2))
    shard = target / f"{name}-{split}.tfrecord-00000-of-00001"
    storage.write_file(shard, lambda file: write_records(file, map(example, episodes)))
    return target
