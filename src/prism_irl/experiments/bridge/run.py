"""Robot manipulation (paper §5.3, appendix E): from demonstrations to phases, and how right they are.

On a dataset of your own: tokens from frames or states, likelihood against K and network, granularity of the tokens,
filmstrips. Without one: simulated pick-and-place with the true phase of every step, where the paper's token pipeline,
policies on features and simple baselines are judged by the same label metrics. Densities of commands and likelihoods
of tokens have columns of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation import metrics
from prism_irl.evaluation.likelihood import LABEL_METRICS, summary
from prism_irl.experiments.bridge import features as manipulation_features
from prism_irl.experiments.bridge.methods import Contestant, Outcome, contestants
from prism_irl.labels import match, mean_dwell
from prism_irl.models.prism import PRISM
from prism_irl.robots.episodes import EpisodeSource, open_episodes
from prism_irl.robots.vision import pipeline
from prism_irl.robots.vision.embeddings import EmbeddingCache, embed
from prism_irl.robots.vision.encoders import make_encoder
from prism_irl.robots.vision.granularity import granularity
from prism_irl.robots.vision.rows import KeptRows
from prism_irl.robots.vision.tokenizer import Tokenizer
from prism_irl.worlds.manipulation import STATE_NAMES, PickAndPlace

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
OnMethod = Callable[[str, int, int], None]
MOST_FEATURE_STEPS = 200_000


@dataclass(frozen=True)
class Bridge:
    """Settings of the experiment.

    Parameters
    ----------
    dataset : folder of a LeRobot, RLDS or raw BridgeData dataset; simulated pick-and-place when None
    n_episodes, simulation_seed, frames : of the simulation
    n_intentions : K of the method table
    n_states, n_actions : sizes of the codebooks
    encoder : "proprio", "pixels", or a vision model; by default states where simulated, pixels elsewhere
    granularity_states : |S| of the granularity table
    starts, network_starts : starts of cheap models and of those with a network
    paper_iterations : EM iterations of the paper's model
    sweep, networks : numbers of intentions, and networks, of the likelihood table
    """

    dataset: Path | None = None
    n_episodes: int = 200
    simulation_seed: int = 0
    frames: bool = False
    n_intentions: int = 5
    n_states: int = 128
    n_actions: int = 32
    encoder: str | None = None
    granularity_states: tuple[int, ...] = (32, 128, 512, 1024)
    starts: int = 8
    network_starts: int = 4
    paper_iterations: int = 150
    sweep: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    networks: tuple[str, ...] = ("rnn", "lstm", "transformer")
    quick: bool = False

    @classmethod
    def of(cls, dataset: Path | None, *, quick: bool = False) -> Bridge:
        """Paper's sizes on a real dataset, small ones on the simulation; ``quick`` is a smaller honest run."""
        settings: dict[str, Any] = {"dataset": dataset, "quick": quick}
        if dataset is not None:
            settings |= {"n_intentions": 4, "n_states": 2048, "granularity_states": (1024, 2048, 3072, 4096)}
        if quick:
            settings |= {"n_episodes": 40, "starts": 3, "network_starts": 2, "paper_iterations": 20}
            settings |= {"sweep": (2, settings.get("n_intentions", 5)), "networks": ("rnn",)}
            settings |= {"n_states": 64, "granularity_states": (32, 64, 128)}
        return cls(**settings)


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


# -- data --------------------------------------------------------------------------------------------------------------


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


# -- the experiment ----------------------------------------------------------------------------------------------------


def run(
    settings: Bridge,
    folder: Path,
    *,
    on_method: OnMethod | None = None,
    chosen: tuple[str, ...] | None = None,
    title: str = "Robot manipulation (paper §5.3)",
) -> dict[str, Any]:
    """Fit every method, write metrics.json, CSV tables and figures; return the metrics.

    Models are fitted on four fifths of the episodes; likelihoods and densities are those of the last fifth. Labels
    are given to all episodes and compared with the true phases, which no method sees.
    """
    from prism_irl.experiments.bridge import figures as bridge_figures

    data = load(settings, folder)
    train, test = data.tokens.split_indices(0.8, seed=0)
    methods = [one for one in contestants(settings, data) if chosen is None or one.id in chosen]
    if not methods:
        raise InputError("None of the chosen methods exists for this dataset; see the table of a full run.")
    total = len(methods) + len(settings.sweep) + len(settings.networks) + len(settings.granularity_states)
    outcomes: dict[str, Outcome] = {}
    table: dict[str, dict[str, Any]] = {}
    for done, method in enumerate(methods):
        if on_method is not None:
            on_method(method.name, done, total)
        clock = time.perf_counter()
        outcomes[method.id] = method.run(data, train, test)
        table[method.id] = _entry(method, outcomes[method.id], data, time.perf_counter() - clock)
    likelihoods = likelihood_table(settings, data, train, test, on_method, len(methods), total)
    sizes = granularity_table(settings, data, on_method, total)
    result = {
        "title": title,
        "experiment": "bridge",
        "simulated": settings.dataset is None,
        "dataset": data.source.describe(),
        "quick": settings.quick,
        "folds": 1,
        "seeds": 1,
        "n_intentions": settings.n_intentions,
        "n_trajectories": len(data.tokens),
        "n_steps": data.tokens.n_steps,
        "skipped": [{"episode": entry.name, "reason": entry.reason} for entry in data.cache.skipped],
        "notes": _notes(settings, data),
        "methods": table,
        "likelihood_by_k": likelihoods,
        "granularity": sizes,
    }
    main = main_method(outcomes)
    if data.tokens.labels is not None:
        result["confusion"] = confusion(data.tokens, outcomes[main].labels, main)
    storage.write_json(folder / "metrics.json", result)
    flat = pd.json_normalize([{"method": name, **entry} for name, entry in table.items()])
    storage.write_text(folder / "table.csv", flat.to_csv(index=False))
    storage.write_text(folder / "likelihood_by_k.csv", pd.DataFrame(likelihoods).to_csv(index=False))
    storage.write_text(folder / "granularity.csv", pd.json_normalize(sizes).to_csv(index=False))
    bridge_figures.write_all(folder / "figures", settings, data, result, outcomes, main)
    return result


def main_method(outcomes: dict[str, Outcome]) -> str:
    """The method that figures show: the last policy on features in the table, or what there is."""
    preferred = ("features-ordered-recurrent", "features-ordered", "features-recurrent", "features-markov")
    return next((name for name in preferred if name in outcomes), next(iter(outcomes)))


def _entry(method: Contestant, outcome: Outcome, data: Data, seconds: float) -> dict[str, Any]:
    demos = data.tokens if len(outcome.labels) == data.tokens.n_steps else data.motions
    entry: dict[str, Any] = {"name": method.name, "family": method.family, "leaks": method.leaks}
    for key in ("predictive_ll", "paper_score", "log_density"):
        score = outcome.scores.get(key)
        entry[key] = None if score is None else summary([score])
    entry["mean_dwell"] = mean_dwell(outcome.labels, demos.offsets)
    entry["label_accuracy"] = None
    if demos.labels is not None:
        found = metrics.segmentation_metrics(demos.labels, outcome.labels, demos.offsets)
        entry |= {name: summary([found[name]]) for name in LABEL_METRICS}
    entry["agreement"] = outcome.agreement
    entry["fit_seconds"] = seconds
    return entry


def confusion(demos: Demonstrations, labels: IntArray, method: str) -> dict[str, Any]:
    """Steps per true phase (rows) and matched intention (columns)."""
    assert demos.labels is not None
    matched = match(demos.labels, labels).labels
    names = list(demos.label_names or [str(phase) for phase in range(int(demos.labels.max()) + 1)])
    counts = np.zeros((len(names), max(len(names), int(matched.max()) + 1)), dtype=np.int64)
    np.add.at(counts, (demos.labels, matched), 1)
    return {"method": method, "phases": names, "steps": counts.tolist()}


def likelihood_table(
    settings: Bridge,
    data: Data,
    train: IntArray,
    test: IntArray,
    on_method: OnMethod | None = None,
    done: int = 0,
    total: int = 0,
) -> list[dict[str, Any]]:
    """Both scores of the paper's model on tokens, against the number of intentions and against the network."""
    rows = []
    cases = [(K, "rnn") for K in settings.sweep]
    cases += [(settings.n_intentions, network) for network in settings.networks if network != "rnn"]
    part, held_out = data.tokens.subset(train), data.tokens.subset(test)
    for number, (K, network) in enumerate(cases):
        if on_method is not None:
            on_method(f"likelihood, K = {K}, {network}", done + number, total)
        options: dict[str, Any] = {"n_intentions": K, "network": network, "max_iterations": settings.paper_iterations}
        model = PRISM.paper("bridge", **options).fit(part)
        rows.append(
            {
                "K": K,
                "network": network,
                "predictive_ll": model.score(held_out),
                "paper_score": model.paper_score(held_out),
                "log_k": float(np.log(K)),
                "mean_dwell": mean_dwell(model.predict(held_out), held_out.offsets),
            }
        )
    return rows


def granularity_table(
    settings: Bridge, data: Data, on_method: OnMethod | None = None, total: int = 0
) -> list[dict[str, Any]]:
    """Coverage, revisits and singletons for each size of the state codebook (Table state_granularity)."""
    rows = []
    sizes = [size for size in settings.granularity_states if size <= data.tokens.n_steps]
    for number, size in enumerate(sizes):
        if on_method is not None:
            on_method(f"granularity, {size} states", total - len(sizes) + number, total)
        tokenizer = Tokenizer(size, settings.n_actions, drop_still_start=settings.dataset is not None)
        pipeline.fit_tokenizer(data.cache, tokenizer)
        rows.append({"n_states": size, **granularity(pipeline.demonstrations(data.cache, tokenizer))})
    return rows


def _notes(settings: Bridge, data: Data) -> list[str]:
    notes = [
        "Models are fitted on four fifths of the episodes and scored on the last fifth. Every step of every episode "
        "gets an intention; true phases are read by the metrics only.",
        "The log density of policies over continuous commands is no likelihood of tokens: compare it within its column "
        "alone. The paper's score of its gate is not a likelihood either, because the gate has seen the action.",
    ]
    if settings.dataset is None:
        notes.insert(
            0,
            f"No dataset was given: these are {len(data.tokens)} simulated pick-and-place episodes (OGBench "
            f"cube-single, scripted planner, seed {settings.simulation_seed}), not robot recordings.",
        )
        notes += [
            "The features (pull towards block and target; gripper command and measured opening), the windows of the "
            "starts and the prior on the order of stages were chosen on other simulated episodes (seed 1), where label "
            "accuracy was seen; starts and stopping by the density of validation episodes. A higher density was no "
            "guide to better phases: linear policies on more features had higher densities and worse phases.",
            '"Ordered" methods know that an episode passes through its stages once, in order. That prior is worth more '
            "than most features, so the chains on commands have it too.",
        ]
    if settings.quick:
        notes.insert(0, "A quick run: fewer episodes, starts, iterations and settings than the full one.")
    return notes
