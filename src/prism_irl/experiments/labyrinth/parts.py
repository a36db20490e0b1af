"""The parts of the labyrinth experiment, each a function from settings and data to plain numbers.

Fits that are scored on held-out windows go through `cross_validate` and its cache; fits to all data, whose maps and
labels are looked at, are saved as models in ``cache/models`` under a key made of everything they depend on.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import limit_threads
from prism_irl.errors import InputError
from prism_irl.evaluation.consensus import consensus
from prism_irl.experiments.labyrinth.run import (
    PAPER_MODEL_TYPE,
    PAPER_NUM_LATENTS,
    PAPER_SWIRL,
    PAPER_TIMING,
    Data,
    Labyrinth,
    OnFit,
)
from prism_irl.labels import ari, mean_dwell
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel
from prism_irl.models.goals import GoalPRISM
from prism_irl.models.persistence import load, save
from prism_irl.models.prism import PAPER, PRISM
from prism_irl.models.registry import NAMED, method
from prism_irl.rewards.iavi import IAVI
from prism_irl.scale import fanout
from prism_irl.studies.cross_validation import Fit, Method, cross_validate, fit_key, table

Runner = Callable[[Labyrinth, Data, Path, int, OnFit | None], dict[str, Any]]
SHUFFLES = 20
TIMED_ITERATIONS = 5
PAPER_VALIDATION = 0.1
"""Share of the training windows that choose the iteration and the start in the paper's protocol."""
TRANSFORMER_PENALTIES = 0.3
"""Share of the paper's penalties that the Transformer gets, with one epoch per M-step as the other networks.

At the start the policies hardly differ, so that responsibilities are little more than the gate itself and Eq. (loss)
is mostly its penalties. A gate that reaches their optimum within one M-step (8 epochs; any network does) is nearly
constant, the next policies are nearly equal, and EM ends in the fixed point of one intention, -0.871: the paper's
number. Single epochs let the policies come apart first, and at 0.3 of the penalties the Transformer, which learns
faster per epoch than the RNN, does not overtake them. docs/labyrinth.md has the measurements.
"""


# -- methods -----------------------------------------------------------------------------------------------------------


def learned(settings: Labyrinth) -> dict[str, Any]:
    """Options of the learned methods: a smaller network than the paper's, which overfits here less quickly."""
    return {
        "n_starts": settings.starts,
        "max_iterations": settings.max_iterations,
        "embedding": 32,
        "hidden": 32,
        "learning_rate": 3e-3,
        "network": "gru",
    }


def honest_method(identifier: str, settings: Labyrinth) -> Method:
    """A method of the honest comparison; policies with memory choose their back-off on validation data."""
    known = method(identifier, settings.n_intentions)
    accepted = known.model.get_params(deep=False)
    options: dict[str, Any] = {}
    if isinstance(known.model, GoalPRISM):  # has settings of its own
        options = {"n_starts": settings.starts}
    elif accepted.get("switching") == "markov":  # no network, and its annealed starts are its point
        options = {}
    elif isinstance(known.model, PRISM):
        options = learned(settings)
    elif "n_starts" in accepted:
        options = {"n_starts": settings.chain_starts if identifier.startswith("hiql") else settings.starts}
    if accepted.get("history", 1) != 1:
        options |= {"backoff": "auto", "recount": True}
    known.model.set_params(**{name: value for name, value in options.items() if name in accepted})
    return known


def paper_method(n_intentions: int, network: str, settings: Labyrinth) -> Method:
    """The paper's model with its hyperparameters; validation windows choose the iteration and one of a few starts.

    The paper has one start and 180 iterations. At K = 2 one in three random starts stays at the score of one intention
    all the while, and an LSTM begins to overfit the training windows after about 100 iterations.
    """
    suffix = ("" if n_intentions == 3 else f"-k{n_intentions}") + ("" if network == "rnn" else f"-{network}")
    iterations = settings.transformer_iterations if network == "transformer" else settings.paper_iterations
    if n_intentions == 1:
        iterations = 1  # the gate has nothing to say, and the counts are exact at once
    options: dict[str, Any] = {"embedding": settings.paper_size, "hidden": settings.paper_size}
    if n_intentions > 1:
        options["validation_fraction"] = PAPER_VALIDATION
    options["n_starts"] = 1 if n_intentions == 1 or network == "transformer" else settings.paper_starts
    if network == "transformer":
        # As the paper has it, it collapses to one intention; see TRANSFORMER_PENALTIES.
        options |= {name: PAPER["labyrinth"][name] * TRANSFORMER_PENALTIES for name in ("l1", "kl")}
        options["epochs_per_m_step"] = 1
    model = PRISM.paper("labyrinth", n_intentions=n_intentions, network=network, max_iterations=iterations, **options)
    name = f"PRISM, paper gate, {network.upper()}, K={n_intentions}"
    if network == "transformer":
        name += f", {TRANSFORMER_PENALTIES:g} of the penalties"
    return Method(f"prism-paper{suffix}", name, model, leaks=True)


def _cross_validate(
    settings: Labyrinth,
    data: Data,
    methods: Sequence[Method],
    cache: Path,
    jobs: int,
    on_fit: OnFit | None,
    *,
    demos: Demonstrations | None = None,
    folds: int | None = None,
    only_folds: Sequence[int] | None = None,
    by: str = "trajectory",
) -> dict[str, Any]:
    """Table of some methods over some folds."""
    chosen = settings.tested_folds if only_folds is None else tuple(only_folds)
    rows = []
    fits: Iterator[Fit] = cross_validate(
        data.demos if demos is None else demos,
        methods,
        folds=settings.folds if folds is None else folds,
        only_folds=chosen,
        seeds=settings.seeds,
        by=by,
        mdp=data.mdp,
        jobs=jobs,
        extra=data.judge,
        cache=cache,
    )
    for fit in fits:
        rows.append(fit.row)
        if on_fit is not None:
            on_fit(fit, len(methods) * len(chosen) * len(settings.seeds))
    return table(methods, sorted(rows, key=lambda row: (row["method"], row["seed"], row["fold"])))


# -- the paper's protocol ----------------------------------------------------------------------------------------------


def paper(settings: Labyrinth, data: Data, cache: Path, jobs: int, on_fit: OnFit | None) -> dict[str, Any]:
    """Tables num_latents, model_type and timing, both scores, the paper's numbers beside ours."""
    by_k = {k: paper_method(k, "rnn", settings) for k in settings.paper_ks}
    by_network = {network: paper_method(3, network, settings) for network in settings.networks}
    methods = list({m.id: m for m in (*by_k.values(), *by_network.values())}.values())
    # Longest first, so that no process is left alone with a Transformer at the end.
    order = sorted(methods, key=lambda m: ("transformer" not in m.id, "lstm" not in m.id))
    found = _cross_validate(settings, data, order, cache, jobs, on_fit)
    found = {m.id: found[m.id] for m in methods}
    for k, m in by_k.items():
        found[m.id]["paper_reported"] = PAPER_NUM_LATENTS[k][1]
    for network, m in by_network.items():
        found[m.id]["paper_reported"] = PAPER_MODEL_TYPE[network][1]
    return {
        "methods": found,
        "num_latents": [_paper_row({"K": k}, found[m.id], PAPER_NUM_LATENTS[k]) for k, m in sorted(by_k.items())],
        "model_type": [
            _paper_row({"network": network}, found[m.id], PAPER_MODEL_TYPE[network])
            for network, m in by_network.items()
        ],
        "timing": [timing(settings, data)],
    }


def _paper_row(first: dict[str, Any], entry: dict[str, Any], reported: tuple[float, float]) -> dict[str, Any]:
    return {
        **first,
        "paper_score_train": entry["train_paper_score"]["mean"],
        "paper_score_test": entry["paper_score"]["mean"],
        "paper_score_test_std": entry["paper_score"]["std"],
        "reported_train": reported[0],
        "reported_test": reported[1],
        "predictive_train": entry["train_predictive_ll"]["mean"],
        "predictive_test": entry["predictive_ll"]["mean"],
        "mean_dwell": entry["mean_dwell"]["mean"],
    }


def timing(settings: Labyrinth, data: Data) -> dict[str, Any]:
    """Table timing: seconds per EM iteration of the paper's model, K = 3, on all windows, beside the paper's."""
    model = paper_method(3, "rnn", settings).model
    assert isinstance(model, PRISM)
    model.set_params(max_iterations=min(settings.paper_iterations, 3 * TIMED_ITERATIONS))
    clock = time.perf_counter()
    model.fit(data.demos, data.mdp)
    total = (time.perf_counter() - clock) / max(len(model.history_) - 1, 1)
    prepared = model._prepare(data.demos)
    emission = torch.from_numpy(model.rewards_model_.log_likelihood(prepared))
    e_step = _seconds(lambda: model.switching_.expectation(prepared, emission))
    posterior = model.switching_.expectation(prepared, emission)
    network = _seconds(lambda: model.switching_.maximise(prepared, emission, posterior, 0))
    solver = IAVI(data.mdp)
    log_policies = np.log(np.maximum(model.policies_, 1e-12))
    rewards = _seconds(lambda: solver.solve(log_policies))
    K = model.n_intentions
    return {
        "device": str(model.device_),
        "threads": torch.get_num_threads(),
        "e_step": e_step,
        "rewards_per_intention": rewards / K,
        "network_per_intention": network / K,
        "total": total,
        **{f"reported_{name}": value for name, value in PAPER_TIMING.items()},
        "reported_device": "RTX 3060 mobile",
    }


def _seconds(work: Callable[[], Any]) -> float:
    """Median of a few runs, after one that warms caches and compilers up."""
    work()
    seconds = []
    for _ in range(TIMED_ITERATIONS):
        clock = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - clock)
    return float(np.median(seconds))


# -- the honest protocol -----------------------------------------------------------------------------------------------


def honest(settings: Labyrinth, data: Data, cache: Path, jobs: int, on_fit: OnFit | None) -> dict[str, Any]:
    """Every method by predictive likelihood; every switching family with every history, and with the chosen one."""
    memory = [f"-h{length}" if length > 1 else "" for length in settings.histories]
    crossed = [family + suffix for family in settings.families for suffix in (*memory, "-hauto")]
    names = [name for name in dict.fromkeys((*settings.others, *crossed)) if _exists(name)]
    methods = [honest_method(name, settings) for name in names]
    found = _cross_validate(settings, data, methods, cache, jobs, on_fit)
    if "swirl-2" in found:
        found["swirl-2"]["paper_reported"] = PAPER_SWIRL
    return {"methods": found, "every_fifth": every_fifth(settings, data, methods, cache, jobs, on_fit)}


def every_fifth(
    settings: Labyrinth, data: Data, methods: Sequence[Method], cache: Path, jobs: int, on_fit: OnFit | None
) -> dict[str, Any]:
    """SWIRL's own split: every 5th window is test data."""
    compared = [m for m in methods if m.id in ("iavi", "ngram", "swirl-2", "hiql", "hiql-hauto")]
    if settings.quick or not compared:
        return {}
    fifth = np.arange(len(data.demos)) % 5 == 0
    demos = replace(data.demos, groups=fifth)
    splits = demos.fold_indices(2, by="group")
    fold = next(i for i, (_, test) in enumerate(splits) if fifth[test].all())
    return _cross_validate(
        settings, data, compared, cache, jobs, on_fit, demos=demos, folds=2, only_folds=[fold], by="group"
    )


def _exists(identifier: str) -> bool:
    """Planned rewards are a method of their own room; the comparison takes them where they are known."""
    try:
        method(identifier, 3)
    except InputError:
        if identifier.split("-h")[0] not in NAMED:
            return False
        raise
    return True


def frontier(settings: Labyrinth, data: Data, cache: Path, jobs: int, on_fit: OnFit | None) -> dict[str, Any]:
    """Likelihood against dwell: recurrent switching and the past gate under growing penalties."""
    methods, points = [], {}
    for penalty, suffix in itertools.product(settings.penalties, settings.frontier_histories):
        known = honest_method(f"prism-recurrent{suffix}", settings)
        known.model.set_params(switch_penalty=penalty)
        made = replace(known, id=f"{known.id}-penalty{penalty:g}", name=f"{known.name}, penalty {penalty:g}")
        methods.append(made)
        points[made.id] = {"family": known.name, "penalty": penalty}
    largest = max(settings.penalties) or 1.0
    for penalty in settings.penalties:  # the gate's two penalties keep the paper's ratio, and reach the paper's values
        known = honest_method("prism", settings)
        share = penalty / largest
        known.model.set_params(l1=PAPER["labyrinth"]["l1"] * share, kl=PAPER["labyrinth"]["kl"] * share)
        made = replace(known, id=f"prism-penalty{share:g}", name=f"{known.name}, {share:g} of the paper's penalties")
        methods.append(made)
        points[made.id] = {"family": known.name, "penalty": share}
    folds = [fold for fold in settings.frontier_folds if fold in settings.tested_folds]
    found = _cross_validate(settings, data, methods, cache, jobs, on_fit, only_folds=folds)
    return {"methods": {name: {**entry, **points[name]} for name, entry in found.items()}, "folds": len(folds)}


def animals(settings: Labyrinth, data: Data, cache: Path, jobs: int, on_fit: OnFit | None) -> dict[str, Any]:
    """Leave one animal out, without the windows that splice two."""
    if data.animals is None or data.animals.groups is None:
        return {"methods": {}, "n_animals": 0}
    known = len(np.unique(data.animals.groups))
    chosen = tuple(range(known)) if settings.only_animals is None else settings.only_animals
    chosen = tuple(animal for animal in chosen if animal < known)
    methods = [honest_method(name, settings) for name in settings.animals if _exists(name)]
    found = _cross_validate(
        settings, data, methods, cache, jobs, on_fit, demos=data.animals, folds=known, only_folds=chosen, by="group"
    )
    return {"methods": found, "n_animals": len(chosen)}


# -- meaning -----------------------------------------------------------------------------------------------------------


def alignment(settings: Labyrinth, data: Data, cache: Path, jobs: int, on_fit: OnFit | None) -> dict[str, Any]:
    """Fits to all data: what the intentions of the best one mean, and whether independent fits find the same ones."""
    methods = [honest_method(name, settings) for name in settings.explained if _exists(name)]
    tasks = [(m, seed) for m in methods for seed in range(settings.independent_fits)]
    shown = {label: _segmented(settings, l1, kl) for label, (l1, kl) in PENALTY_SETTINGS.items()}
    tasks += [(m, 0) for m in shown.values()]
    keys = fit_to_everything(tasks, data.demos, data.mdp, cache / "models", jobs)
    result: dict[str, Any] = {}
    for m in methods:
        own = [keys[m.id, seed] for seed in range(settings.independent_fits)]
        models = [load(cache / "models" / key) for key in own]
        likelihoods = [model.score(data.demos) for model in models]
        labels = [model.predict(data.demos) for model in models]
        best = int(np.argmax(likelihoods))
        pairs = [ari(a, b) for a, b in itertools.combinations(labels, 2)]
        result[m.id] = {
            "name": m.name,
            "leaks": m.leaks,
            "predictive_ll": {"mean": likelihoods[best], "std": 0.0},
            "paper_score": None,
            "mean_dwell": mean_dwell(labels[best], data.demos.offsets),
            "agreement": float(np.mean(pairs)) if pairs else None,
            "consensus": _consensus(models, likelihoods, data.demos),
            "n_intentions": models[best].n_intentions,
            "model": own[best],
            **data.judge.alignment(models[best], data.demos, shuffles=SHUFFLES),
        }
    return {"methods": result, "segmentation": {label: keys[m.id, 0] for label, m in shown.items()}}


def _consensus(
    models: Sequence[IntentionModel], likelihoods: Sequence[float], demos: Demonstrations
) -> dict[str, Any] | None:
    """Share of the steps on which all independent fits that are equally good agree; None where only one is good."""
    found = consensus([model.predict_proba(demos) for model in models], likelihoods)
    if len(found.members) < 2:
        return None
    return {"members": len(found.members), "unanimous": found.unanimous, "support": found.support}


PENALTY_SETTINGS = {
    "no penalty": (0.0, 0.0),
    "L1": (PAPER["labyrinth"]["l1"], 0.0),
    "KL": (0.0, PAPER["labyrinth"]["kl"]),
    "L1 and KL (paper)": (PAPER["labyrinth"]["l1"], PAPER["labyrinth"]["kl"]),
}
"""Figure labyrinth (d): from unconstrained to fully penalised."""


def _segmented(settings: Labyrinth, l1: float, kl: float) -> Method:
    known = paper_method(3, "rnn", settings)
    known.model.set_params(l1=l1, kl=kl)
    return replace(known, id=f"prism-paper-l1{l1:g}-kl{kl:g}")


def fit_to_everything(
    tasks: Sequence[tuple[Method, int]], demos: Demonstrations, mdp: MDP, folder: Path, jobs: int
) -> dict[tuple[str, int], str]:
    """Fit each (method, seed) to all data, or find the saved model; return the names of their folders."""
    keys: dict[tuple[str, int], str] = {}
    missing: dict[str, IntentionModel] = {}
    data = demos.checksum()
    for known, seed in tasks:
        model = clone(known.model)
        if "seed" in model.get_params(deep=False):
            model.set_params(seed=model.get_params()["seed"] + 1000 * seed)
        key = keys[known.id, seed] = fit_key(model, data)[:24]
        if not (folder / key / "config.json").is_file():  # written last
            missing[key] = model
    names, shared = list(missing), (demos, mdp, fanout.side_by_side(jobs))
    for index, fitted in fanout.spread(_fit_alone, [missing[name] for name in names], shared, jobs=jobs):
        save(fitted, folder / names[index])  # here, because a worker of a cluster need not see this disk
    return keys


def _fit_alone(model: Any, demos: Demonstrations, mdp: MDP, parallel: bool) -> Any:
    if parallel:
        limit_threads(1)
    return model.fit(demos, mdp)


RUNNERS: dict[str, Runner] = {
    "paper": paper,
    "honest": honest,
    "frontier": frontier,
    "animals": animals,
    "alignment": alignment,
}
