"""Embeddings of a whole dataset, cached on disk in shards, so that an interrupted run goes on where it stopped.

A shard is two files: ``embeddings-00000.npy`` (n, m) float32 and ``steps-00000.safetensors`` with actions, states,
phases and which episodes they belong to. The second is written last: a shard without it does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl import storage
from prism_irl.errors import InputError
from prism_irl.robots.episodes import Episode, EpisodeSource, Skipped
from prism_irl.robots.vision.encoders import Encoder
from prism_irl.robots.vision.rows import NpyRows

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
