"""Cross-validation over methods × folds × seeds, in parallel processes.

Every fit sees its training fold only; choices inside a method (starts, stopping) use validation data taken from that
fold. Results come back as plain rows, one per fit, and as a table with mean and spread per method.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from joblib import Parallel, delayed
from sklearn.base import clone

from prism_irl.demonstrations import Demonstrations
from prism_irl.evaluation.likelihood import evaluate, summary
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel
from prism_irl.threads import limit_threads

Extra = Callable[[IntentionModel, Demonstrations], dict[str, float]]


@dataclass(frozen=True)
class Method:
    """A named method: an unfitted model that is cloned for every fit.

    Parameters
    ----------
    id : str
        Identifier in metrics.json and on the command line.
    name : str
        What people read.
    model : IntentionModel
    leaks : bool
        Its paper score is not a likelihood, because the gate sees the action.
    """

    id: str
    name: str
    model: IntentionModel
    leaks: bool = False


@dataclass(frozen=True)
class Fit:
    """One finished fit: its row of numbers, and the model where it was asked for."""

    method: Method
    fold: int
    seed: int
    row: dict[str, Any]
    model: IntentionModel | None = None


def cross_validate(
    demos: Demonstrations,
    methods: Sequence[Method],
    *,
    folds: int = 5,
    seeds: Sequence[int] = (0,),
    by: str = "trajectory",
    split_seed: int = 0,
    only_folds: Sequence[int] | None = None,
    mdp: MDP | None = None,
    jobs: int = 1,
    extra: Extra | None = None,
    keep: Callable[[int, int], bool] = lambda fold, seed: False,
) -> Iterator[Fit]:
    """Yield fits as they finish, in any order.

    Parameters
    ----------
    only_folds : run these folds only (an honest smaller run)
    extra : further numbers of a fitted model on its test fold, picklable
    keep : whether to return the fitted model of (fold, seed)
    """
    splits = demos.fold_indices(folds, by=by, seed=split_seed)
    wanted = range(folds) if only_folds is None else only_folds
    work = [(method, fold, seed) for seed in seeds for fold in wanted for method in methods]
    tasks = [
        delayed(_fit)(demos, method, fold, seed, splits[fold], mdp, extra, keep(fold, seed), jobs > 1)
        for method, fold, seed in work
    ]
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks)


def _fit(
    demos: Demonstrations,
    method: Method,
    fold: int,
    seed: int,
    split: tuple[Any, Any],
    mdp: MDP | None,
    extra: Extra | None,
    keep: bool,
    parallel: bool,
) -> Fit:
    if parallel:
        limit_threads(1)  # one process per core: threads inside would only fight each other
    train, test = demos.subset(split[0]), demos.subset(split[1])
    model = clone(method.model)
    if "seed" in model.get_params():
        model.set_params(seed=model.seed + seed)
    clock = time.perf_counter()
    model.fit(train, mdp)
    seconds = time.perf_counter() - clock
    row = {"method": method.id, "fold": fold, "seed": seed, **evaluate(model, test)}
    row["train_predictive_ll"] = model.score(train)
    row["train_paper_score"] = model.paper_score(train)
    row["fit_seconds"] = seconds
    row["agreement"] = getattr(model, "agreement_", None)
    if extra is not None:
        row |= extra(model, test)
    return Fit(method, fold, seed, row, model if keep else None)


def table(methods: Sequence[Method], rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Per method: name, and mean and std over its rows of every number."""
    result: dict[str, dict[str, Any]] = {}
    for method in methods:
        own = [row for row in rows if row["method"] == method.id]
        if not own:
            continue
        entry: dict[str, Any] = {"name": method.name, "leaks": method.leaks}
        for key in own[0]:
            if key in ("method", "fold", "seed", "n_steps"):
                continue
            values = [row[key] for row in own if row.get(key) is not None]
            entry[key] = summary(values) if values else None
        if "fit_seconds" in entry:
            entry["fit_seconds"] = entry["fit_seconds"]["mean"]
        result[method.id] = entry
    return result
