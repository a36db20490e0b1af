"""The dataset of the robot experiment as its methods read it: tokens, commands with features, and embeddings."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bridge import features as manipulation_features
from bridge.raw import BridgeSource
from harness import NETWORK, paper_options
from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.robots.episodes import EpisodeSource, open_episodes
from prism_irl.robots.vision.embeddings import EmbeddingCache, embed
from prism_irl.robots.vision.encoders import make_encoder
from prism_irl.robots.vision.tokenizer import Tokenizer, demonstrations, fit_tokenizer, kept
from worlds.manipulation import STATE_NAMES, PickAndPlace

PAPER_BY_K = {1: -2.52187, 2: -1.81282, 3: -1.43000, 4: -1.16584, 5: -0.96912, 6: -0.82373}
"""Table num_latents of the paper, Bridge V2: test score of the RNN for each K; not likelihoods above K = 1."""
PAPER_MODEL_TYPE = {"rnn": -1.16584, "lstm": -1.16839, "transformer": -1.18638}
"""Table model_type of the paper, Bridge V2, K = 4: test score."""
_SIZES = (1024, 2048, 3072, 4096)
_GRANULARITY = {
    "dinov2-small": ((0.64, 8.0, 21.7), (0.37, 7.1, 25.5), (0.26, 6.8, 27.6), (0.21, 6.5, 28.9)),
    "dinov2-base": ((0.69, 7.6, 23.4), (0.40, 6.6, 27.4), (0.28, 6.3, 29.6), (0.22, 6.0, 30.9)),
    "dinov2-large": ((0.69, 7.4, 23.4), (0.40, 6.5, 27.1), (0.29, 6.2, 29.2), (0.23, 5.9, 30.8)),
    "siglip2-base": ((0.38, 13.3, 14.7), (0.22, 11.8, 17.5), (0.16, 11.0, 19.0), (0.13, 10.5, 20.0)),
}
PAPER_GRANULARITY = {
    (encoder, size): row for encoder, rows in _GRANULARITY.items() for size, row in zip(_SIZES, rows, strict=True)
}
"""Table state_granularity of the paper: coverage (%), revisits and singletons (%) by encoder and number of states."""


@dataclass(frozen=True)
class Bridge:
    """Settings of the experiment.

    Parameters
    ----------
    dataset : folder of a LeRobot, RLDS or raw BridgeData dataset; simulated pick-and-place when None
    split : split of an RLDS dataset, or "all"; its training split when None
    n_episodes, simulation_seed, frames : of the simulation
    n_intentions : K of the method table
    n_states, n_actions : sizes of the codebooks
    encoder : "proprio", "pixels", or a vision model; by default states where simulated, pixels elsewhere
    weights : local folder of the vision model
    action_scaling : "standardised", or "none": raw commands, as in the paper
    granularity_states : |S| of the granularity table
    granularity_encoders : further encoders of that table
    starts, network_starts : starts of cheap models and of those with a network
    paper_iterations : EM iterations of the paper's model
    sweep, networks : numbers of intentions, and networks, of the likelihood table
    folds, tested_folds : parts of the episodes, and how many of them the likelihood table is tested on
    seeds : of the RNN in the likelihood table, on top of the paper's 42; other networks have the first
    """

    dataset: Path | None = None
    split: str | None = None
    n_episodes: int = 200
    simulation_seed: int = 0
    frames: bool = False
    n_intentions: int = 5
    n_states: int = 128
    n_actions: int = 32
    encoder: str | None = None
    weights: Path | None = None
    action_scaling: Literal["standardised", "none"] = "standardised"
    granularity_states: tuple[int, ...] = (32, 128, 512, 1024)
    granularity_encoders: tuple[str, ...] = ()
    starts: int = 8
    network_starts: int = 4
    paper_iterations: int = 150
    sweep: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    networks: tuple[str, ...] = ("rnn", "lstm", "transformer")
    folds: int = 5
    tested_folds: int = 5
    seeds: tuple[int, ...] = (0, 1, 2)
    quick: bool = False

    @classmethod
    def of(cls, dataset: Path | None, *, quick: bool = False, **asked: Any) -> Bridge:
        """Paper's protocol on a real dataset, small sizes on the simulation; ``quick`` is a smaller honest run.

        ``asked`` are further settings; with weights and no name of an encoder it is the paper's DINOv2-S.
        """
        settings: dict[str, Any] = {"dataset": dataset, "quick": quick}
        if dataset is not None:
            settings |= {"n_intentions": 4, "n_states": 2048, "granularity_states": _SIZES, "action_scaling": "none"}
        if quick:
            settings |= {"n_episodes": 40, "starts": 3, "network_starts": 2, "paper_iterations": 20}
            settings |= {"sweep": (2, settings.get("n_intentions", 5)), "networks": ("rnn",)}
            settings |= {"tested_folds": 1, "seeds": (0,)}
            settings |= {"n_states": 64, "granularity_states": (32, 64, 128)}
        if asked.get("weights") is not None and asked.get("encoder") is None:
            asked["encoder"] = "dinov2-small"
        return cls(**settings, **{key: value for key, value in asked.items() if value is not None})

    def options(self) -> dict[str, dict[str, Any]]:
        """Options of the registered methods, all of which read tokens."""
        return {
            "prism-paper": paper_options("bridge", max_iterations=self.paper_iterations),
            "hiql": {"n_starts": self.starts},
            "prism-recurrent": {"n_starts": self.network_starts, "max_iterations": 60, "device": "cpu", **NETWORK},
        }


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
    raw = settings.split is None and not (path / "meta").is_dir() and BridgeSource.found_in(path)
    source = BridgeSource(path) if raw else open_episodes(path, split=settings.split)
    cache = embed(source, make_encoder(encoder_of(settings)), folder / "embeddings")
    repeated = repeated_episodes(cache)
    splits = split_episodes(np.setdiff1d(np.arange(len(cache.episodes)), repeated), settings.folds)
    tokenizer = fitted_tokenizer(settings, cache, splits[0][0])
    tokens = demonstrations(cache, tokenizer)
    keep = kept(cache, tokenizer)
    few = _few_trajectories(tokens, MOST_FEATURE_STEPS)
    steps = np.flatnonzero(np.isin(tokens.trajectory_index, few))
    vectors = cache.rows(keep).take(steps).astype(np.float64)
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
    return fit_tokenizer(cache, tokenizer, episodes=train)


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
