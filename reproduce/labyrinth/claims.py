"""What the paper says about the labyrinth, tested as it stands: its own model, and SWIRL beside ours.

*published*: PRISM exactly as the paper has it (one random start, 180 iterations, no validation windows), fitted to all
windows with several seeds. Do its intentions have the names that the paper gives them, do they last, and does another
seed find the same ones? *swirl*: the published parameters of SWIRL S-2 and our fits on SWIRL's own split, one change
after the other, so that the difference in likelihood has a reason.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

import harness
from labyrinth.alignment import SHUFFLES
from labyrinth.data import PAPER_SWIRL, Data, Labyrinth
from labyrinth.parts import Work, cross_validated
from labyrinth.published import from_parameters, swirl_score
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.datasets.store import data_folder
from prism_irl.labels import ari, mean_dwell
from prism_irl.models.presets import PRISM
from prism_irl.models.registry import Method, method
from prism_irl.rewards.soft import SoftRewards
from prism_irl.studies.cross_validation import fit_to_all, with_seed

CONVERGED = 1e-3
"""Nats per step: a fit has converged where it comes that close to its last training score."""

SWIRL_CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "swirl-2-plain": (
        "our EM, one random start, invalid actions stay in place",
        {"invalid_actions": "stay", "n_starts": 1, "n_candidates": 1, "warm_up": 0},
    ),
    "swirl-2-masked": (
        "the same, invalid actions are impossible",
        {"n_starts": 1, "n_candidates": 1, "warm_up": 0},
    ),
    "swirl-2-warm": ("the same, from short Markov chains", {"n_starts": 1}),
    "swirl-2": ("the same, the better of two starts", {"n_starts": 2}),
}
"""One change after the other: identifier, what it is, and the options of `SWIRL` that make it."""


def published(settings: Labyrinth, data: Data, work: Work) -> dict[str, Any]:
    """PRISM as published with several seeds: names, alignment, dwell, agreement, iterations to convergence."""
    options = harness.paper_options("labyrinth", max_iterations=settings.paper_iterations)
    size = {"embedding": settings.paper_size, "hidden": settings.paper_size}
    asked = PRISM.paper("labyrinth", **{**options, **size})
    seeds = range(settings.independent_fits)
    fits = fit_to_all(
        [with_seed(asked, seed) for seed in seeds], data.demos, data.mdp, jobs=work.jobs, folder=work.cache / "models"
    )
    rows, found = [], []
    for name, model in fits:
        labels = model.predict(data.demos)
        found.append(labels)
        meaning = data.alignment(model, data.demos, shuffles=SHUFFLES)
        rows.append(
            {
                "seed": getattr(model, "seed", None),
                "paper_score": model.paper_score(data.demos),
                "predictive_ll": model.score(data.demos),
                "mean_dwell": mean_dwell(labels, data.demos.offsets),
                "usage": (np.bincount(labels, minlength=model.n_intentions) / len(labels)).tolist(),
                "iterations": iterations_to_converge([row["train"] for row in model.monitor_]),
                "names": meaning["names"],
                "matched": meaning["matched"],
                "in_named": meaning["in_named"],
                "shuffled": meaning["shuffled"],
                "model": name,
            }
        )
    return {"fits": rows, "ari": [ari(one, other) for one, other in itertools.combinations(found, 2)]}


def iterations_to_converge(scores: list[float]) -> int:
    """First iteration after which the training score stays within `CONVERGED` of the last one."""
    away = np.flatnonzero(np.abs(np.asarray(scores) - scores[-1]) > CONVERGED)
    return int(away[-1]) + 1 if len(away) else 0


def swirl(settings: Labyrinth, data: Data, work: Work) -> dict[str, Any]:
    """SWIRL's split (every 5th window is test data): its published parameters, and our fits change by change."""
    fifth = np.arange(len(data.demos)) % 5 == 0
    demos = replace(data.demos, groups=fifth)
    splits = demos.fold_indices(2, by="group")
    fold = next(i for i, (_, test) in enumerate(splits) if fifth[test].all())
    changes = [changed(identifier) for identifier in settings.swirl_changes]
    found = cross_validated(settings, data, changes, work, demos=demos, folds=2, only_folds=[fold], by="group")
    return {"methods": found, "published": _published_swirl(data, data.demos.subset(fifth)), "reported": PAPER_SWIRL}


def changed(identifier: str) -> Method:
    """SWIRL S-2 up to one of the changes."""
    name, options = SWIRL_CHANGES[identifier]
    return replace(method("swirl-2", 3, **options), id=identifier, name=name)


def _published_swirl(data: Data, test: Demonstrations) -> list[dict[str, Any]]:
    """Likelihood of the published parameters as they are, and with invalid actions made impossible; [] where absent."""
    path = data_folder() / "reference" / "swirl_s2_labyrinth.npz"
    if not path.is_file():
        return []
    with np.load(path, allow_pickle=False) as arrays:
        model = from_parameters(dict(arrays), data.mdp, device="cpu")
    rows = [
        {"name": "published parameters", "predictive_ll": model.score(test), "swirl_score": swirl_score(model, test)}
    ]
    planned = model.rewards_model_
    assert isinstance(planned, SoftRewards)
    possible = planned.policies * data.mdp.valid_actions
    planned.policies = possible / possible.sum(axis=-1, keepdims=True)
    name = "published parameters, invalid actions are impossible"
    return [*rows, {"name": name, "predictive_ll": model.score(test), "swirl_score": swirl_score(model, test)}]
