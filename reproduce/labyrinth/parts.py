"""The parts of the labyrinth experiment, each a function from settings and data to plain numbers.

Fits that are scored on held-out windows go through `cross_validate` and its cache; fits to all data, whose maps and
labels are looked at, are saved as models in ``cache/models`` under a key made of everything they depend on.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import harness
from consensus import consensus
from labyrinth.alignment import SHUFFLES
from labyrinth.data import (
    PAPER_MODEL_TYPE,
    PAPER_NUM_LATENTS,
    PAPER_SWIRL,
    PAPER_TIMING,
    PAPER_VALIDATION,
    PENALTY_SETTINGS,
    TRANSFORMER_PENALTIES,
    Data,
    Labyrinth,
)
from prism_irl.data.batching import Parts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.labels import ari, mean_dwell
from prism_irl.models.base import IntentionModel
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import PAPER
from prism_irl.models.registry import Method, method
from prism_irl.rewards.iavi import IAVI
from prism_irl.studies.cross_validation import OnFit, cross_validate, fit_to_all, with_seed

TIMED_ITERATIONS = 5


@dataclass(frozen=True)
class Work:
    """How a part runs: where finished fits are remembered, how many at a time, and who is told of each."""

    cache: Path
    jobs: int = 1
    on_fit: OnFit | None = None


Runner = Callable[[Labyrinth, Data, Work], dict[str, Any]]


# -- methods -----------------------------------------------------------------------------------------------------------


def honest_method(identifier: str, settings: Labyrinth) -> Method:
    """A method of the honest comparison; policies with memory choose their back-off on validation data."""
    known = harness.build_method(identifier, settings.n_intentions, settings.options())
    accepted = known.model.get_params(deep=False)
    if accepted.get("history", 1) != 1:
        chosen = {"backoff": "auto", "recount": True}
        known.model.set_params(**{name: value for name, value in chosen.items() if name in accepted})
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
    size = {"embedding": settings.paper_size, "hidden": settings.paper_size}
    options = harness.paper_options("labyrinth", max_iterations=iterations, **size)
    if n_intentions > 1:
        options["validation_fraction"] = PAPER_VALIDATION
    options["n_starts"] = settings.paper_starts if n_intentions > 1 and network == "rnn" else 1
    name = f"PRISM, paper gate, {network.upper()}, K={n_intentions}"
    if network == "transformer":
        # As the paper has it, it collapses to one intention; see TRANSFORMER_PENALTIES.
        options |= {penalty: options[penalty] * TRANSFORMER_PENALTIES for penalty in ("l1", "kl")}
        options["epochs_per_m_step"] = 1
        name += f", {TRANSFORMER_PENALTIES:g} of the penalties"
    return replace(method(f"prism-paper{suffix}", 3, **options), name=name)


def cross_validated(
    settings: Labyrinth,
    data: Data,
    methods: Sequence[Method],
    work: Work,
    *,
    demos: Demonstrations | None = None,
    **folds: Any,
) -> dict[str, Any]:
    """Table of some methods over the folds of the settings, or over others of other data."""
    chosen: dict[str, Any] = {"folds": settings.folds, "only_folds": settings.tested_folds, "seeds": settings.seeds}
    shared = {"mdp": data.mdp, "extra": data.meaning, "cache": work.cache, "jobs": work.jobs, "on_fit": work.on_fit}
    return cross_validate(data.demos if demos is None else demos, methods, **(chosen | shared | folds)).table()


# -- the paper's protocol ----------------------------------------------------------------------------------------------


def paper(settings: Labyrinth, data: Data, work: Work) -> dict[str, Any]:
    """Tables num_latents, model_type and timing and figure (b), both scores, the paper's numbers beside ours."""
    cases = [(network, k) for network in settings.networks if network != "rnn" for k in {3, *settings.network_ks}]
    cases += [("rnn", k) for k in {3, *settings.paper_ks}]
    asked = {case: paper_method(case[1], case[0], settings) for case in cases}
    # Longest first, so that no process is left alone with a Transformer at the end.
    order = sorted(asked, key=lambda case: ("transformer" not in case, "lstm" not in case))
    first = [case for case in order if case[0] != "rnn" and case[1] != 3]
    found = cross_validated(settings, data, [asked[case] for case in first], work, seeds=settings.seeds[:1])
    found |= cross_validated(settings, data, [asked[case] for case in order if case not in first], work)
    rows = []
    for (network, k), known in sorted(
        asked.items(), key=lambda item: (settings.networks.index(item[0][0]), item[0][1])
    ):
        reported = PAPER_NUM_LATENTS[k] if network == "rnn" else PAPER_MODEL_TYPE[network] if k == 3 else None
        if reported is not None:
            found[known.id]["paper_reported"] = reported[1]
        rows.append(_paper_row({"network": network, "K": k}, found[known.id], reported))
    return {
        "methods": {asked[case].id: found[asked[case].id] for case in sorted(asked, key=lambda case: case[1])},
        "num_latents": [row for row in rows if row["network"] == "rnn" and row["K"] in settings.paper_ks],
        "model_type": [row for row in rows if row["K"] == 3],
        "networks": rows,
        "timing": [timing(settings, data)],
    }


def _paper_row(first: dict[str, Any], entry: dict[str, Any], reported: tuple[float, float] | None) -> dict[str, Any]:
    """Train and test, both scores; what the paper reports, where it has a number."""
    return {
        **first,
        "paper_score_train": entry["train_paper_score"]["mean"],
        "paper_score_test": entry["paper_score"]["mean"],
        "paper_score_test_std": entry["paper_score"]["std"],
        "reported_train": None if reported is None else reported[0],
        "reported_test": None if reported is None else reported[1],
        "predictive_train": entry["train_predictive_ll"]["mean"],
        "predictive_test": entry["predictive_ll"]["mean"],
        "mean_dwell": entry["mean_dwell"]["mean"],
    }


def timing(settings: Labyrinth, data: Data) -> dict[str, Any]:
    """Table timing: seconds per EM iteration of the paper's model, K = 3, on all windows, beside the paper's."""
    model = paper_method(3, "rnn", settings).model
    assert isinstance(model, Intentions)
    model.set_params(max_iterations=min(settings.paper_iterations, 3 * TIMED_ITERATIONS))
    clock = time.perf_counter()
    model.fit(data.demos, data.mdp)
    total = (time.perf_counter() - clock) / max(len(model.monitor_) - 1, 1)
    prepared = model._prepare(data.demos)
    emission = torch.from_numpy(model.rewards_model_.log_likelihood(prepared))
    e_step = _seconds(lambda: model.switching_.expectation(prepared, emission))
    network = _seconds(lambda: list(model.switching_.visit(Parts(prepared), lambda part: emission, 0)))
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


def honest(settings: Labyrinth, data: Data, work: Work) -> dict[str, Any]:
    """Every method by predictive likelihood; every switching family with every history, and with the chosen one."""
    memory = [f"-h{length}" if length > 1 else "" for length in settings.histories]
    crossed = [family + suffix for family in settings.families for suffix in (*memory, "-hauto")]
    methods = [honest_method(name, settings) for name in dict.fromkeys((*settings.others, *crossed))]
    found = cross_validated(settings, data, methods, work)
    if "swirl-2" in found:
        found["swirl-2"]["paper_reported"] = PAPER_SWIRL
    return {"methods": found, "every_fifth": every_fifth(settings, data, methods, work)}


def every_fifth(settings: Labyrinth, data: Data, methods: Sequence[Method], work: Work) -> dict[str, Any]:
    """SWIRL's own split: every 5th window is test data."""
    compared = [m for m in methods if m.id in ("iavi", "ngram", "bc", "hiql", "hiql-hauto")]
    if settings.quick or not compared:
        return {}
    fifth = np.arange(len(data.demos)) % 5 == 0
    demos = replace(data.demos, groups=fifth)
    splits = demos.fold_indices(2, by="group")
    fold = next(i for i, (_, test) in enumerate(splits) if fifth[test].all())
    return cross_validated(settings, data, compared, work, demos=demos, folds=2, only_folds=[fold], by="group")


def frontier(settings: Labyrinth, data: Data, work: Work) -> dict[str, Any]:
    """Likelihood against dwell: recurrent switching and the past gate under growing penalties."""
    methods, points = [], {}

    def add(identifier: str, penalty: float, words: str, **penalties: float) -> None:
        known = honest_method(identifier, settings)
        known.model.set_params(**penalties)
        made = replace(known, id=f"{known.id}-penalty{penalty:g}", name=f"{known.name}, {words}")
        methods.append(made)
        points[made.id] = {"family": known.name, "penalty": penalty}

    for penalty, suffix in itertools.product(settings.penalties, settings.frontier_histories):
        add(f"prism-recurrent{suffix}", penalty, f"penalty {penalty:g}", switch_penalty=penalty)
    gate, largest = PAPER["labyrinth"], max(settings.penalties) or 1.0
    for share in (penalty / largest for penalty in settings.penalties):
        # The gate's two penalties keep the paper's ratio, and reach the paper's values.
        add("prism-past", share, f"{share:g} of the paper's penalties", l1=gate["l1"] * share, kl=gate["kl"] * share)
    folds = [fold for fold in settings.frontier_folds if fold in settings.tested_folds]
    found = cross_validated(settings, data, methods, work, only_folds=folds)
    return {"methods": {name: {**entry, **points[name]} for name, entry in found.items()}, "folds": len(folds)}


def animals(settings: Labyrinth, data: Data, work: Work) -> dict[str, Any]:
    """Leave one animal out, without the windows that splice two."""
    if data.animals is None or data.animals.groups is None:
        return {"methods": {}, "n_animals": 0}
    known = len(np.unique(data.animals.groups))
    chosen = tuple(range(known)) if settings.only_animals is None else settings.only_animals
    chosen = tuple(animal for animal in chosen if animal < known)
    methods = [honest_method(name, settings) for name in settings.animals]
    found = cross_validated(
        settings, data, methods, work, demos=data.animals, folds=known, only_folds=chosen, by="group"
    )
    return {"methods": found, "n_animals": len(chosen)}


# -- meaning -----------------------------------------------------------------------------------------------------------


def alignment(settings: Labyrinth, data: Data, work: Work) -> dict[str, Any]:
    """Fits to all data: what the intentions of the best one mean, and whether independent fits find the same ones."""
    methods = [honest_method(name, settings) for name in settings.explained]
    seeds = range(settings.independent_fits)
    unfitted = [with_seed(m.model, 1000 * seed) for m in methods for seed in seeds]
    segmented = {label: paper_method(3, "rnn", settings).model for label in PENALTY_SETTINGS}
    for label, model in segmented.items():
        l1, kl = PENALTY_SETTINGS[label]
        unfitted.append(model.set_params(l1=l1, kl=kl))
    fits = iter(fit_to_all(unfitted, data.demos, data.mdp, jobs=work.jobs, folder=work.cache / "models"))
    result: dict[str, Any] = {}
    for m in methods:
        names, models = zip(*(next(fits) for _ in seeds), strict=True)
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
            "model": names[best],
            **data.alignment(models[best], data.demos, shuffles=SHUFFLES),
        }
    return {"methods": result, "segmentation": {label: next(fits)[0] for label in segmented}}


def _consensus(
    models: Sequence[IntentionModel], likelihoods: Sequence[float], demos: Demonstrations
) -> dict[str, Any] | None:
    """Share of the steps on which all independent fits that are equally good agree; None where only one is good."""
    found = consensus([model.predict_proba(demos) for model in models], likelihoods)
    if len(found.members) < 2:
        return None
    return {"members": len(found.members), "unanimous": found.unanimous, "support": found.support}
