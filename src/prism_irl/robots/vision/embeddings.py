"""Embeddings of a whole dataset, cached on disk in shards, so that an interrupted run goes on where it stopped.

A shard is two files: ``embeddings-00000.npy`` (n, m) float32 and ``steps-00000.safetensors`` with actions, states,
phases and which episodes they belong to. The second is written last: a shard without it does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from prism_irl import storage
from prism_irl.errors import InputError
from prism_irl.robots.episodes import Episode, EpisodeSource, Skipped
from prism_irl.robots.vision.encoders import Encoder

Vectors = npt.NDArray[np.float32]


class Rows(Protocol):
    """n vectors of m numbers, read in order or picked."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""

    def chunks(self, size: int) -> Iterator[Vectors]:
        """Yield all rows in order, at most ``size`` at a time, (≤ size, m) float32."""

    def take(self, index: npt.NDArray[np.int64]) -> Vectors:
        """Rows by increasing index, (len(index), m) float32."""


class ArrayRows:
    """Rows of an array in memory."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        if array.ndim != 2 or array.dtype.kind not in "biuf":
            raise InputError(f"Vectors have shape {array.shape} and type {array.dtype}; give numbers of shape (n, m).")
        self._array = array

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        n, m = self._array.shape
        return int(n), int(m)

    def chunks(self, size: int) -> Iterator[Vectors]:
        """Yield views or converted copies of consecutive rows."""
        for start in range(0, len(self._array), size):
            yield np.ascontiguousarray(self._array[start : start + size], dtype=np.float32)

    def take(self, index: npt.NDArray[np.int64]) -> Vectors:
        """Rows by index."""
        return np.ascontiguousarray(self._array[index], dtype=np.float32)


class _File(NamedTuple):
    path: Path
    begin: int
    rows: int
    dtype: np.dtype[Any]


class NpyRows:
    """Rows of one or several npy files, one after the other.

    Parameters
    ----------
    paths : sequence of paths
        Files with (n_i, m) numbers in C order.
    """

    def __init__(self, paths: Sequence[str | Path]) -> None:
        if not paths:
            raise InputError("There are no files with vectors; give at least one.")
        described = [_header(Path(path)) for path in paths]
        widths = {width for _, width in described}
        if len(widths) != 1:
            raise InputError(
                f"The vectors in {Path(paths[0]).parent} have {sorted(widths)} dimensions; make them equal."
            )
        self._files = [file for file, _ in described]
        self._width = widths.pop()
        self._starts = np.concatenate([[0], np.cumsum([file.rows for file in self._files])]).astype(np.int64)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return int(self._starts[-1]), self._width

    def _read(self, file: _File, start: int, count: int) -> Vectors:
        offset = file.begin + start * self._width * file.dtype.itemsize
        values = np.fromfile(file.path, dtype=file.dtype, count=count * self._width, offset=offset)
        if len(values) != count * self._width:
            raise InputError(f"{file.path} ends before its last row; make it again.")
        return values.reshape(count, self._width).astype(np.float32, copy=False)

    def chunks(self, size: int) -> Iterator[Vectors]:
        """Yield consecutive rows, never across two files."""
        for file in self._files:
            for start in range(0, file.rows, size):
                yield self._read(file, start, min(size, file.rows - start))

    def take(self, index: npt.NDArray[np.int64]) -> Vectors:
        """Rows by increasing index, read in one pass over the files."""
        out = np.empty((len(index), self._width), dtype=np.float32)
        size, filled = 65536, 0
        for file, first in zip(self._files, self._starts, strict=False):
            for start in range(0, file.rows, size):
                count = min(size, file.rows - start)
                low, high = np.searchsorted(index, (first + start, first + start + count))
                if high > low:
                    out[low:high] = self._read(file, start, count)[index[low:high] - first - start]
                    filled += high - low
        if filled != len(index):
            raise InputError(
                "Rows were asked for that are not there; give increasing indices below the number of rows."
            )
        return out


class KeptRows:
    """Some rows of others, by a mask (n,), without copying what is large."""

    def __init__(self, rows: Rows, mask: npt.NDArray[np.bool_]) -> None:
        if mask.shape != (rows.shape[0],):
            raise InputError(f"The mask has shape {mask.shape} for {rows.shape[0]} rows.")
        self._rows, self._mask, self._index = rows, mask, np.flatnonzero(mask)

    @property
    def shape(self) -> tuple[int, int]:
        """(number kept, m)."""
        return len(self._index), self._rows.shape[1]

    def chunks(self, size: int) -> Iterator[Vectors]:
        """Yield the kept rows in order."""
        start = 0
        for chunk in self._rows.chunks(size):
            kept = self._mask[start : start + len(chunk)]
            start += len(chunk)
            if kept.any():
                yield chunk if kept.all() else chunk[kept]

    def take(self, index: npt.NDArray[np.int64]) -> Vectors:
        """Kept rows by increasing index."""
        return self._rows.take(self._index[index])


def _header(path: Path) -> tuple[_File, int]:
    """Where the numbers of an npy file begin, and their width; nothing is unpickled."""
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(file)
            begin = file.tell()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is missing, damaged or not an npy file ({error}).") from None
    if len(shape) != 2 or fortran or dtype.kind not in "biuf":
        raise InputError(f"{path} holds {dtype} of shape {shape}; give numbers of shape (n, m) in C order.")
    if path.stat().st_size != begin + shape[0] * shape[1] * dtype.itemsize:
        raise InputError(f"{path} is shorter or longer than its header says; make it again.")
    return _File(path, begin, int(shape[0]), dtype), int(shape[1])


def as_rows(source: Any) -> Rows:
    """Rows of an array, of an npy file, or of several, or rows as they are."""
    if isinstance(source, str | Path):
        return NpyRows([source])
    if hasattr(source, "chunks") and hasattr(source, "take") and not isinstance(source, np.ndarray):
        return source  # type: ignore[no-any-return]
    return ArrayRows(np.asarray(source))


STEPS_PER_SHARD = 50_000
OnEpisode = Callable[[int, int | None, int], None]


class EmbeddingCache:
    """A finished cache: vectors on disk, everything else of the steps in memory.

    Parameters
    ----------
    folder : path
        Where `embed` wrote.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.description: dict[str, Any] = storage.read_json(self.folder / "cache.json")
        if not self.description.get("complete"):
            raise InputError(f"The embeddings in {self.folder} are not finished; run the same command again.")
        shards = [storage.load_tensors(path) for path in _finished(self.folder)]
        if not shards:
            raise InputError(f"{self.folder} holds no embeddings; not one episode of the dataset was readable.")
        self.episodes: list[dict[str, Any]] = [entry for _, header in shards for entry in header["episodes"]]
        self.skipped = [Skipped(*entry) for entry in self.description["skipped"]]
        self.phase_names: tuple[str, ...] = tuple(shards[0][1]["phase_names"])

        def joined(name: str) -> npt.NDArray[Any] | None:
            parts = [tensors[name].numpy() for tensors, _ in shards if name in tensors]
            return np.concatenate(parts) if len(parts) == len(shards) else None

        actions = joined("actions")
        assert actions is not None
        self.actions: npt.NDArray[np.float32] = actions
        self.states, self.phases, self.timestamps = joined("states"), joined("phases"), joined("timestamps")
        self.offsets = np.concatenate([[0], np.cumsum([entry["length"] for entry in self.episodes])]).astype(np.int64)

    def rows(self) -> NpyRows:
        """All vectors, streamed from disk, (n, m)."""
        return NpyRows([_vectors_of(path) for path in _finished(self.folder)])

    def __repr__(self) -> str:
        n, m = self.rows().shape
        return f"EmbeddingCache({len(self.episodes)} episodes, {n} steps of {m} numbers, {len(self.skipped)} left out)"


def embed(
    source: EpisodeSource,
    encoder: Encoder,
    folder: str | Path,
    *,
    like: str | Path | None = None,
    steps_per_shard: int = STEPS_PER_SHARD,
    on_episode: OnEpisode | None = None,
) -> EmbeddingCache:
    """Encode every episode that is not in the cache yet, and return the cache.

    Parameters
    ----------
    source : EpisodeSource
        Episodes; those that turn out to be damaged are left out (an error where the source is strict).
    encoder : Encoder
        Fitted on a sample if it needs that, once.
    folder : path
        Of the cache; one of another dataset or encoder is refused.
    like : path, optional
        Cache of another dataset whose encoder is used as it was fitted there, so that vectors mean the same.
    steps_per_shard : int
        Vectors that are held in memory before they are written.
    on_episode : function, optional
        Called with episodes done, episodes promised (or None) and frames done in this run.
    """
    path = Path(folder)
    wanted = storage.read_plain(
        {"source": source.describe(), "encoder": encoder.describe(), "content": source.content()}
    )
    description = path / "cache.json"
    if description.exists():
        found = storage.read_object(description)
        found.setdefault("content", wanted["content"])  # earlier versions did not look
        if {key: found.get(key) for key in wanted} != wanted:
            raise InputError(
                f"{path} holds embeddings of another dataset or encoder, or the dataset has changed since; begin again "
                "with --overwrite or choose another folder."
            )
        if found.get("complete"):
            return EmbeddingCache(path)
        _restore(encoder, path)
    else:
        path.mkdir(parents=True, exist_ok=True)
        if like is None:
            encoder.fit(source)
        elif storage.read_json(Path(like) / "cache.json").get("encoder") != wanted["encoder"]:
            raise InputError(f"The embeddings in {like} come from another encoder; give the same one.")
        else:
            _restore(encoder, Path(like))
        storage.save_tensors(path / "encoder.safetensors", encoder.state, {})
        storage.write_json(description, {**wanted, "complete": False})
    skipped = _encode_rest(source, encoder, path, steps_per_shard, on_episode)
    storage.write_json(description, {**wanted, "complete": True, "skipped": [list(entry) for entry in skipped]})
    return EmbeddingCache(path)


def _restore(encoder: Encoder, folder: Path) -> None:
    learned, _ = storage.load_tensors(folder / "encoder.safetensors")
    encoder.state = {name: tensor.numpy() for name, tensor in learned.items()}


def _encode_rest(
    source: EpisodeSource, encoder: Encoder, folder: Path, steps_per_shard: int, on_episode: OnEpisode | None
) -> list[Skipped]:
    done = _finished(folder)
    last: dict[str, Any] = storage.load_tensors(done[-1])[1] if done else {"position": 0, "skipped": []}
    before = [Skipped(*entry) for entry in last["skipped"]]
    shard = _Shard(folder, len(done))
    frames = 0
    try:
        for episode, vectors in source.visit(encoder.encode, start=int(last["position"])):
            shard.add(episode, vectors, source.position, [*before, *source.skipped])
            frames += len(episode)
            if on_episode is not None:
                on_episode(source.position, source.n_episodes, frames)
            if shard.n_steps >= steps_per_shard:
                shard.write()
    finally:  # also when interrupted: what is encoded is kept
        shard.write()
    return [*before, *source.skipped]


class _Shard:
    """Steps that are collected until there are enough for a file."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder, self._number = folder, number
        self._clear()

    def _clear(self) -> None:
        self._vectors: list[npt.NDArray[np.float32]] = []
        self._episodes: list[Episode] = []
        self.n_steps = 0

    def add(self, episode: Episode, vectors: npt.NDArray[np.float32], position: int, skipped: list[Skipped]) -> None:
        """Append one episode; ``position`` is where reading would go on after it."""
        self._vectors.append(vectors)
        self._episodes.append(episode)
        self._position, self._skipped = position, list(skipped)
        self.n_steps += len(episode)

    def write(self) -> None:
        """Write what is there as the next shard."""
        if not self._episodes:
            return
        path = self._folder / f"steps-{self._number:05d}.safetensors"
        vectors = np.concatenate(self._vectors).astype(np.float32)
        storage.write_file(_vectors_of(path), lambda file: np.save(file, vectors, allow_pickle=False))
        tensors: dict[str, npt.NDArray[Any]] = {}
        for name in ("actions", "states", "phases", "timestamps"):
            values = [getattr(episode, name) for episode in self._episodes]
            if all(value is not None for value in values):
                tensors[name] = np.concatenate(values)
        header = {
            "episodes": [
                {"index": e.index, "name": e.name, "language": e.language, "length": len(e)} for e in self._episodes
            ],
            "phase_names": list(self._episodes[0].phase_names),
            "position": self._position,
            "skipped": [list(entry) for entry in self._skipped],
        }
        storage.save_tensors(path, tensors, header)
        self._number += 1
        self._clear()


def _finished(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("steps-*.safetensors") if _vectors_of(path).is_file())


def _vectors_of(steps: Path) -> Path:
    return steps.with_name(steps.name.replace("steps-", "embeddings-")).with_suffix(".npy")
