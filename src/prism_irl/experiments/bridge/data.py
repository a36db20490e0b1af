"""The dataset of the robot experiment as its methods read it: tokens, commands with features, and embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.experiments.bridge import features as manipulation_features
from prism_irl.experiments.bridge.settings import Bridge
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

    ``tokens`` demonstrations of tokens; ``motions`` the same with commands and features, a sample of the trajectories
    where there are very many; ``vectors`` embeddings of the latter's steps; ``actions`` (n, m) and ``states`` (n, d')
    as recorded; ``physical``: the states are those of the simulation.
    """

    source: EpisodeSource
    cache: EmbeddingCache
    tokens: Demonstrations
    motions: Demonstrations
    vectors: FloatArray
    actions: FloatArray
    states: FloatArray | None
    physical: bool


def load(settings: Bridge, folder: Path) -> Data:
    """Open or simulate the dataset, encode it into ``folder``/embeddings, tokenize."""
    simulated = settings.dataset is None
    path = settings.dataset
    if path is None:
        path = PickAndPlace().dataset(settings.n_episodes, seed=settings.simulation_seed, frames=settings.frames)
    source = open_episodes(path)
    encoder = settings.encoder or ("proprio" if simulated and not settings.frames else "pixels")
    cache = embed(source, make_encoder(encoder), folder / "embeddings")
    tokenizer = Tokenizer(settings.n_states, settings.n_actions, drop_still_start=not simulated)
    pipeline.fit_tokenizer(cache, tokenizer)
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
    return Data(source, cache, tokens, motions, vectors, actions, states, physical)


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
