"""Embeddings of a whole dataset, cached on disk in shards, so that an interrupted run goes on where it stopped.

A shard is two files: ``embeddings-00000.npy`` (n, m) float32 and ``steps-00000.safetensors`` with actions, states,
phases and which episodes they belong to. The second is written last: a shard without it does not exist. `Rows` are the
vectors of all shards, which may not fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl import storage
from prism_irl.data.mapped import chunks
from prism_irl.errors import InputError, brief
from prism_irl.robots.episodes import Episode, EpisodeSource, Skipped
from prism_irl.robots.vision.encoders import Encoder

Vectors = npt.NDArray[np.float32]


class Rows:
    """n vectors of m numbers: arrays (n_i, m) or npy files, one after the other, or the rows of them that are kept."""

    def __init__(self, parts: Sequence[Any], kept: npt.NDArray[np.bool_] | None = None) -> None:
        self._parts = [_mapped(Path(part)) if isinstance(part, str | Path) else np.asarray(part) for part in parts]
        for part in self._parts:
            if part.ndim != 2 or part.dtype.kind not in "biuf":
                raise InputError(f"Vectors have shape {part.shape} and type {part.dtype}; give numbers, (n, m).")
        widths = {int(part.shape[1]) for part in self._parts}
        if len(widths) != 1:
            raise InputError(f"The vectors have {sorted(widths)} dimensions; give parts of one width.")
        self._starts, (self._width,) = np.cumsum([0, *map(len, self._parts)]), widths
        n = int(self._starts[-1])
        if kept is not None and kept.shape != (n,):
            raise InputError(f"The mask has shape {kept.shape} for {n} rows.")
        self._index = np.arange(n) if kept is None else np.flatnonzero(kept)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return len(self._index), self._width

    def chunks(self, size: int) -> Iterator[Vectors]:
        """Yield all rows in order, at most ``size`` at a time, (≤ size, m) float32."""
        return (self.take(np.arange(rows.start, rows.stop)) for rows in chunks(len(self._index), size))

    def take(self, index: npt.NDArray[np.int64]) -> Vectors:
        """Rows by increasing index, (len(index), m) float32."""
        at = self._index[index]
        cuts = np.searchsorted(at, self._starts)
        pairs = zip(self._parts, self._starts, pairwise(cuts), strict=False)
        return np.concatenate([part[at[low:high] - first] for part, first, (low, high) in pairs]).astype(np.float32)


def _mapped(path: Path) -> npt.NDArray[Any]:
    """The array of an npy file, which stays on disk; nothing is unpickled."""
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} is missing, damaged or not an npy file ({brief(error)}); make it again.") from None


def as_rows(source: Any) -> Rows:
    """Rows of an array or of an npy file, or rows as they are."""
    return source if isinstance(source, Rows) else Rows([source])


STEPS_PER_SHARD = 50_000
OnEpisode = Callable[[int, int | None, int], None]


class EmbeddingCache:
    """A finished cache, which `embed` wrote: vectors on disk, everything else of the steps in memory."""

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
        self.states, self.phases = joined("states"), joined("phases")
        self.offsets = np.concatenate([[0], np.cumsum([entry["length"] for entry in self.episodes])]).astype(np.int64)

    def rows(self, kept: npt.NDArray[np.bool_] | None = None) -> Rows:
        """All vectors, or those that are kept, streamed from disk, (n, m)."""
        return Rows([_vectors_of(path) for path in _finished(self.folder)], kept)


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

    Damaged episodes are left out (an error where the source is strict); an encoder that needs a sample is fitted once,
    or used as it was fitted for another cache (``like``). A ``folder`` of another dataset or encoder is refused. After
    every episode ``on_episode`` gets episodes done, episodes promised (or None) and frames done in this run.
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
        for name in ("actions", "states", "phases"):
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
