"""Robot manipulation (paper §5.3, appendix E): from demonstrations to phases, and how right they are.

On a dataset of your own: tokens from frames or states, likelihood against K and network, granularity of the tokens,
filmstrips. Without one: simulated pick-and-place with the true phase of every step, where the paper's token pipeline,
policies on features and simple baselines are judged by the same label metrics. Densities of commands and likelihoods
of tokens have columns of their own.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bridge.data import PAPER_GRANULARITY, Bridge, Data, IntArray, encoder_of, fitted_tokenizer, load
from bridge.likelihoods import likelihood_table, n_fits
from bridge.methods import HABITS, Contestant, Outcome, contestants
from prism_irl import storage
from prism_irl.cli.options import FitsOptions
from prism_irl.cli.printing import print_experiment, print_table
from prism_irl.cli.progress import counting
from prism_irl.cli.reproduce import RobotOptions
from prism_irl.cli.runs import RunFolder
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import limit_threads
from prism_irl.errors import InputError
from prism_irl.evaluation.metrics import label_metrics, summary
from prism_irl.labels import match, mean_dwell
from prism_irl.models.registry import save
from prism_irl.robots.rlds import RLDSSource
from prism_irl.robots.vision.embeddings import embed
from prism_irl.robots.vision.encoders import make_encoder
from prism_irl.robots.vision.tokenizer import demonstrations, granularity
from prism_irl.scale import fanout
from prism_irl.studies import results

OnMethod = Callable[[str, int, int], None]


def run(
    settings: Bridge,
    folder: Path,
    *,
    jobs: int = 1,
    on_method: OnMethod | None = None,
    chosen: tuple[str, ...] | None = None,
    title: str = "Robot manipulation (paper §5.3)",
) -> dict[str, Any]:
    """Fit every method, write metrics.json, CSV tables and figures; return the metrics.

    Models are fitted on four fifths of the episodes; likelihoods and densities are those of the last fifth. Labels
    are given to all episodes and compared with the true phases, which no method sees. The fits of the likelihood table,
    which take longest, are remembered in ``folder``/cache; ``jobs`` of them, and of the methods, are made at a time.
    """
    from bridge import figures as bridge_figures

    data = load(settings, folder)
    train, test = data.splits[0]
    methods = [one for one in contestants(settings, data) if chosen is None or one.id in chosen]
    if all(one.family == HABITS for one in methods):
        raise InputError("None of the chosen methods with intentions exists for this dataset; see a full run's table.")
    encoders = 1 + len(settings.granularity_encoders)
    total = len(methods) + n_fits(settings) + len(settings.granularity_states) * encoders
    done = itertools.count()

    def begin(name: str) -> None:
        if on_method is not None:
            on_method(name, next(done), total)

    made: dict[int, tuple[Outcome, float]] = {}
    for index, own in fanout.spread(_timed, methods, (train, test, fanout.side_by_side(jobs)), jobs=jobs):
        begin(methods[index].name)
        made[index] = own
    outcomes = {method.id: made[index][0] for index, method in enumerate(methods)}
    table = {method.id: _entry(method, *made[index], data) for index, method in enumerate(methods)}
    likelihoods = likelihood_table(settings, data, folder / "cache", begin, jobs=jobs)
    sizes = granularity_table(settings, data, folder, begin)
    result = {
        # Methods are fitted once; how many fits are behind a row of the likelihood table stands in the row.
        **results.heading(title, data.tokens, experiment="bridge", quick=settings.quick, folds=1),
        "simulated": settings.dataset is None,
        "dataset": data.source.describe(),
        "n_intentions": settings.n_intentions,
        "encoder": settings.encoder or encoder_of(settings),
        "repeated": [str(data.cache.episodes[i]["index"]) for i in data.repeated],
        "skipped": [{"episode": entry.name, "reason": entry.reason} for entry in data.cache.skipped],
        "notes": _notes(settings, data),
        "methods": table,
        "likelihood_by_k": likelihoods,
        "granularity": sizes,
    }
    main = main_method(outcomes)
    shown = outcomes[main].labels
    assert shown is not None
    if data.tokens.labels is not None:
        result["confusion"] = confusion(data.tokens, shown, main)
    storage.write_json(folder / "metrics.json", result)
    results.write_methods(folder / "table.csv", table)
    results.write_rows(folder / "likelihood_by_k.csv", likelihoods)
    results.write_rows(folder / "granularity.csv", sizes)
    write_labels(folder, data, outcomes)
    bridge_figures.write_all(folder / "figures", settings, data, result, outcomes, main)
    return result


def main_method(outcomes: dict[str, Outcome]) -> str:
    """The method that figures show: the last policy on features in the table, or what there is."""
    preferred = ("features-ordered-recurrent", "features-ordered", "features-recurrent", "features-markov")
    labelled = (name for name, outcome in outcomes.items() if outcome.labels is not None)
    return next((name for name in preferred if name in outcomes), next(labelled))


def _timed(method: Contestant, train: IntArray, test: IntArray, parallel: bool) -> tuple[Outcome, float]:
    if parallel:
        limit_threads(1)
    clock = time.perf_counter()
    return method.run(train, test), time.perf_counter() - clock


def _entry(method: Contestant, outcome: Outcome, seconds: float, data: Data) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": method.name, "family": method.family, "leaks": method.leaks}
    for key in ("predictive_ll", "paper_score", "log_density"):
        score = outcome.scores.get(key)
        entry[key] = None if score is None else summary([score])
    entry |= {"mean_dwell": None, "label_accuracy": None}
    if outcome.labels is not None:
        demos = data.tokens if len(outcome.labels) == data.tokens.n_steps else data.motions
        entry["mean_dwell"] = mean_dwell(outcome.labels, demos.offsets)
        entry |= {name: summary([value]) for name, value in label_metrics(outcome.labels, demos).items()}
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


def granularity_table(settings: Bridge, data: Data, folder: Path, begin: Callable[[str], None]) -> list[dict[str, Any]]:
    """Coverage, revisits and singletons for each encoder and size of the state codebook (Table state_granularity)."""
    rows = []
    caches = {settings.encoder or encoder_of(settings): data.cache}
    for name in settings.granularity_encoders:
        caches[name] = embed(data.source, make_encoder(name), folder / "embeddings" / name.replace("/", "-"))
    train = data.splits[0][0]
    for (encoder, cache), size in itertools.product(caches.items(), settings.granularity_states):
        if size > np.diff(cache.offsets)[train].sum():  # fewer steps than clusters
            continue
        begin(f"granularity, {encoder}, {size} states")
        tokenizer = fitted_tokenizer(settings, cache, train, size)
        reported = PAPER_GRANULARITY.get((encoder, size))
        row = {"encoder": encoder, "n_states": size, **granularity(demonstrations(cache, tokenizer))}
        rows.append(row | {"reported": None if reported is None else list(reported)})
    return rows


def write_labels(folder: Path, data: Data, outcomes: dict[str, Outcome]) -> None:
    """Write segments.csv, the intention of every step by every method that labels all of them; and save the models."""
    demos = data.tokens
    assert demos.trajectory_names is not None
    columns: dict[str, Any] = {"episode": demos.trajectory_names[demos.trajectory_index], "step": demos.times}
    for name, outcome in outcomes.items():
        if outcome.labels is not None and len(outcome.labels) == demos.n_steps:
            columns[name] = outcome.labels
        if outcome.model is not None:
            save(outcome.model, folder / "models" / name)
    storage.write_rows(folder / "segments.csv", pd.DataFrame(columns))


def _notes(settings: Bridge, data: Data) -> list[str]:
    notes = [
        "Methods are fitted once, on four fifths of the episodes, and scored on the last fifth; codebooks are those of "
        "the training episodes. Every step of every episode gets an intention; only the metrics read true phases.",
        "The log density of policies over continuous commands is no likelihood of tokens: compare it within its column "
        "alone. The paper's score of its gate is not a likelihood either, because the gate has seen the action.",
        "A habit has no intentions and no phases: it predicts the next token from the last ones, or the next command "
        "from what the policies on features see and the last three steps. What it predicts as well is no evidence of "
        "intentions, however right the phases are.",
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
    if len(data.repeated):
        notes.append(
            f"{len(data.repeated)} of {len(data.cache.episodes)} episodes repeat the commands of an earlier one, and "
            "are neither trained on nor tested: held out, they would have been seen."
        )
    if isinstance(data.source, RLDSSource):
        notes.append(f"Read were the episodes of the split {', '.join(data.source.splits)}; --split chooses another.")
    if settings.quick:
        notes.insert(0, "A quick run: fewer episodes, starts, iterations and settings than the full one.")
    return notes


def command(
    folder: RunFolder, fits: FitsOptions, *, quick: bool, dataset: Path | None = None, robots: RobotOptions
) -> None:
    """`prism reproduce bridge`."""
    further = tuple(name.strip() for name in (robots.encoders or "").split(",") if name.strip())
    settings = Bridge.of(
        dataset,
        quick=quick,
        split=robots.split,
        encoder=robots.encoder,
        weights=robots.weights,
        granularity_encoders=further or None,
    )

    def work(path: Path, report: Any) -> dict[str, Any]:
        return run(
            settings, path, jobs=fits.jobs, on_method=lambda name, done, total: report("fits", done, total, name)
        )

    def show(metrics: dict[str, Any]) -> None:
        where = "simulated pick-and-place" if metrics["simulated"] else str(dataset)
        print(f"{metrics['n_trajectories']} episodes, {metrics['n_steps']} steps: {where}")
        print_experiment(metrics)
        print_phases(metrics)
        print_tokens(metrics)

    folder.make(
        work,
        show,
        progress=lambda: counting("fits"),
        config=lambda metrics: {"dataset": metrics["dataset"], "settings": asdict(settings)},
    )


def print_phases(metrics: dict[str, Any]) -> None:
    """Label metrics and, in a column of its own, the density of commands."""
    entries = metrics["methods"].values()
    if all(entry["label_accuracy"] is None for entry in entries):
        return
    keys = ("label_accuracy", "ari", "nmi", "edit_score", "f1_at_10", "f1_at_25", "f1_at_50", "log_density")
    columns = {key.replace("_", " "): (key, 1 if key.startswith(("edit", "f1")) else 3) for key in keys}
    title = "Phases against the truth (log density: of commands, not of tokens)"
    print_table(title, entries, {"method": ("name", 0), **columns}, 140)


def print_tokens(metrics: dict[str, Any]) -> None:
    """Likelihood against K and network, and granularity, with the paper's numbers of BridgeData V2 beside them."""
    columns = {"K": ("K", 0), "network": ("network", 0), "predictive LL": ("predictive_ll", 3)}
    columns |= {"paper score": ("paper_score", 3), "log K": ("log_k", 3), "mean dwell": ("mean_dwell", 1)}
    title = "Paper's model on tokens, held-out episodes (paper score: not a likelihood)"
    print_table(title, metrics["likelihood_by_k"], {**columns, "paper, BridgeData V2": ("reported", 3)})
    keys = ("coverage", "revisits", "singletons")
    rows = []
    for row in metrics["granularity"]:
        paper = row.get("reported") or [None] * len(keys)
        rows.append(row | {f"paper_{key}": value for key, value in zip(keys, paper, strict=True)})
    columns = {"encoder": ("encoder", 0), "states": ("n_states", 0), "coverage %": ("coverage", 2)}
    columns |= {"revisits": ("revisits", 2), "singletons %": ("singletons", 2)}
    columns |= {f"paper: {key}": (f"paper_{key}", 2) for key in keys}
    print_table("Granularity of the state tokens, mean ± std over episodes", rows, columns, 140)
    if metrics.get("simulated"):
        print("The paper's tables of BridgeData V2 are not run here: prism reproduce bridge DATASET --weights FOLDER")
