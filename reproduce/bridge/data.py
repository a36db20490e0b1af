"""The dataset of the robot experiment as its methods read it: tokens, commands with features, and embeddings."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bridge import features as manipulation_features
from bridge.settings import Bridge
from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.robots.episodes import EpisodeSource, open_episodes
from prism_irl.robots.vision import pipeline
from prism_irl.robots.vision.embeddings import EmbeddingCache, embed
from prism_irl.robots.vision.encoders import make_encoder
from prism_irl.robots.vision.rows import KeptRows
from prism_irl.robots.vision.tokenizer import Tokenizer
from prism_irl.worlds.manipulation import STATE_NAMES, PickAndPlace

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
MOST_FEATURE_STEPS = 200_000


class Data(NamedTuple):
    """A dataset as the methods read it, all aligned by step.

    ``tokens`` demonstrations of tokens, whose codebooks are those of the training episodes of the first split;
    ``motions`` the same with commands and features, a sample of the trajectories where there are very many;
    ``vectors`` embeddings of the latter's steps; ``actions`` (n, m) and ``states`` (n, d') as recorded; ``physical``:
    the states are those of the simulation; ``splits`` training and test episodes of every fold, without
    ``repeated`` ones.
    """

    source: EpisodeSource
    cache: EmbeddingCache
    tokens: Demonstrations
    motions: Demonstrations
    vectors: FloatArray
    actions: FloatArray
    states: FloatArray | None
    physical: bool
    splits: list[tuple[IntArray, IntArray]]
    repeated: IntArray


def load(settings: Bridge, folder: Path) -> Data:
    """Open or simulate the dataset, encode it into ``folder``/embeddings, tokenize."""
    path = settings.dataset
    if path is None:
        path = PickAndPlace().dataset(settings.n_episodes, seed=settings.simulation_seed, frames=settings.frames)
    source = open_episodes(path, split=settings.split)
    cache = embed(source, make_encoder(encoder_of(settings)), folder / "embeddings")
    repeated = repeated_episodes(cache)
    splits = split_episodes(np.setdiff1d(np.arange(len(cache.episodes)), repeated), settings.folds)
    tokenizer = fitted_tokenizer(settings, cache, splits[0][0])
    tokens = pipeline.demonstrations(cache, tokenizer)
    keep = pipeline.kept(cache, tokenizer)
    few = _few_trajectories(tokens, MOST_FEATURE_STEPS)
    steps = np.flatnonzero(np.isin(tokens.trajectory_index, few))
    vectors = KeptRows(cache.rows(), keep).take(steps).astype(np.float64)
    actions = cache.actions[keep].astype(np.float64)
    states = None if cache.states is None else cache.states[keep].astype(np.float64)
    physical = states is not None and _state_names(path) == list(STATE_NAMES)
    if physical and states is not None:
        motions: Demonstrations = manipulation_features.pick_and_place(tokens, states, actions)
    else:
        motions = manipulation_features.unknown_robot(tokens.subset(few), vectors, actions[steps])
    return Data(source, cache, tokens, motions, vectors, actions, states, physical, splits, repeated)


def encoder_of(settings: Bridge) -> str:
    """Name of the encoder, or the folder of its weights."""
    if settings.weights is not None:
        return str(settings.weights.absolute())
    seen = settings.dataset is not None or settings.frames
    return settings.encoder or ("pixels" if seen else "proprio")


def repeated_episodes(cache: EmbeddingCache) -> IntArray:
    """Episodes whose commands are those of an earlier one, step by step: held out they would have been seen."""
    seen: set[bytes] = set()
    found = []
    for i, part in enumerate(np.split(np.asarray(cache.actions), cache.offsets[1:-1])):
        digest = hashlib.sha256(np.ascontiguousarray(part).tobytes()).digest()
        if digest in seen:
            found.append(i)
        seen.add(digest)
    return np.array(found, dtype=np.int64)


def split_episodes(episodes: IntArray, folds: int) -> list[tuple[IntArray, IntArray]]:
    """Training and test episodes of every fold, seeded."""
    if len(episodes) < folds:
        raise InputError(f"The dataset has {len(episodes)} different episodes; {folds} are needed to hold some out.")
    parts = np.array_split(np.random.default_rng(0).permutation(episodes), folds)
    return [(np.sort(np.concatenate([*parts[:i], *parts[i + 1 :]])), np.sort(part)) for i, part in enumerate(parts)]


def fitted_tokenizer(
    settings: Bridge, cache: EmbeddingCache, train: IntArray, n_states: int | None = None
) -> Tokenizer:
    """Codebooks of the training episodes: what is held out has no say in where clusters lie."""
    tokenizer = Tokenizer(
        n_states or settings.n_states,
        settings.n_actions,
        action_scaling=settings.action_scaling,
        drop_still_start=settings.dataset is not None,
    )
    return pipeline.fit_tokenizer(cache, tokenizer, episodes=train)


def _state_names(path: Path) -> list[str] | None:
    """Names of the state dimensions that a LeRobot dataset gives."""
    info = path / "meta" / "info.json"
    if not info.is_file():
        return None
    names = storage.read_json(info).get("features", {}).get("observation.state", {}).get("names")
    return [str(name) for name in names] if isinstance(names, list) else None


def _few_trajectories(demos: Demonstrations, most: int) -> IntArray:
    """Trajectories of at most ``most`` steps together, drawn at random, in their order."""
    order = np.random.default_rng(0).permutation(demos.n_trajectories)
    inside = demos.lengths[order].cumsum() <= most
    inside[0] = True
    return np.sort(order[inside])
