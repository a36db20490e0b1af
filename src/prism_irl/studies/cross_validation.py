"""Cross-validation over methods × folds × seeds, in parallel processes here or on a cluster.

Every fit sees its training fold only; choices inside a method (starts, stopping) use validation data taken from that
fold. Results come back as plain rows, one per fit, and as a table with mean and spread per method.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import joblib
import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import clone

from prism_irl import __version__, storage
from prism_irl.arrays import IntArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.metrics import LABEL_METRICS, evaluate, summary
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel
from prism_irl.models.intentions import Intentions
from prism_irl.models.registry import Method, load, save
from prism_irl.scale import fanout, stacked

Extra = Callable[[IntentionModel, Demonstrations], dict[str, Any]]
UNIT_SCORES = "unit_scores"
"""What a fit scored on every animal of its test fold, where that was asked for: in no table."""


@dataclass(frozen=True)
class Fit:
    """One finished fit: its row of numbers, and the model where it was asked for."""

    method: Method
    fold: int
    seed: int
    row: dict[str, Any]
    model: IntentionModel | None = None


OnFit = Callable[[Fit, int], None]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The fits of some methods over the folds (``tested``) and seeds that were run, by method, seed and fold.

    ``test`` are the trajectories of the first fold that was run.
    """

    demos: Demonstrations
    methods: Sequence[Method]
    fits: Sequence[Fit]
    tested: Sequence[int]
    seeds: Sequence[int]
    test: IntArray

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Numbers of every fit."""
        return [{name: value for name, value in fit.row.items() if name != UNIT_SCORES} for fit in self.fits]

    def table(self) -> dict[str, dict[str, Any]]:
        """Mean and spread of every number per method."""
        return table(self.methods, self.rows)

    def models(self) -> dict[str, IntentionModel]:
        """Models that were kept, in the order of the methods."""
        kept = {fit.method.id: fit.model for fit in self.fits if fit.model is not None}
        return {method.id: kept[method.id] for method in self.methods if method.id in kept}


def cross_validate(
    demos: Demonstrations,
    methods: Sequence[Method],
    *,
    folds: int = 5,
    only_folds: Sequence[int] | None = None,
    seeds: Sequence[int] = (0,),
    by: str = "trajectory",
    split_seed: int = 0,
    splits: Sequence[tuple[IntArray, IntArray]] | None = None,
    mdp: MDP | None = None,
    jobs: int = 1,
    extra: Extra | None = None,
    cache: Path | None = None,
    keep_models: bool = False,
    on_fit: OnFit | None = None,
) -> Evaluation:
    """Make every fit.

    Parameters
    ----------
    only_folds : run these folds only (an honest smaller run)
    splits : training and test trajectories of every fold, where somebody else has drawn them
    jobs : fits at the same time on this machine; on a cluster inside `scale.fanout.cluster`
    extra : further numbers of a fitted model on its test fold, picklable
    cache : folder that remembers the rows of finished fits, by configuration and data; an interrupted comparison
        goes on where it stopped
    keep_models : keep the models of the first fold and seed, for figures
    on_fit : called with each fit, as it finishes in any order, and with how many there will be
    """
    if splits is None:
        splits = demos.fold_indices(folds, by=by, seed=split_seed)
    tested = tuple(range(len(splits))) if only_folds is None else tuple(only_folds)
    data = "" if cache is None else data_key(demos, mdp, extra)
    fits: list[Fit] = []

    def finish(fit: Fit) -> None:
        fits.append(fit)
        if on_fit is not None:
            on_fit(fit, len(methods) * len(tested) * len(seeds))

    left: list[Job] = []
    paths: list[Path | None] = []
    for seed, fold, method in itertools.product(seeds, tested, methods):
        job = Job(method, fold, seed, splits[fold], keep_models and (fold, seed) == (tested[0], seeds[0]))
        path = None if cache is None or job.keep else cache / f"{job.key(data)}.json"
        if path is not None and path.exists():
            # Methods without a seed share one file among all seeds, and equal methods among all names.
            own = {"method": method.id, "fold": fold, "seed": seed}
            finish(Fit(method, fold, seed, read_row(path) | own))
        else:
            left.append(job)
            paths.append(path)
    shared = (demos, mdp, extra)
    models = [job.model() for job in left]
    seconds = _together(models, demos, lambda i: demos.subset(left[i].split[0]), mdp)
    tasks = [replace(job, fitted=(models[i], seconds[i])) if i in seconds else job for i, job in enumerate(left)]
    for index, fit in fanout.spread(run_job, tasks, shared, jobs=jobs):
        path = paths[index]
        if path is not None:  # written here, because a worker of a cluster need not see this disk
            write_row(path, fit.row)
        finish(fit)
    fits.sort(key=lambda fit: (fit.method.id, fit.seed, fit.fold))
    return Evaluation(demos, methods, fits, tested, seeds, splits[tested[0]][1] if tested else np.zeros(0, np.int64))


@dataclass(frozen=True)
class Job:
    """One fit that is to be made."""

    method: Method
    fold: int
    seed: int
    split: tuple[IntArray, IntArray]
    keep: bool
    fitted: tuple[IntentionModel, float] | None = None
    """The model and its seconds where it was fitted before, together with others."""

    def model(self) -> IntentionModel:
        """Return the unfitted model, with the seed of the job on top of its own."""
        return with_seed(self.method.model, self.seed)

    def key(self, data: str) -> str:
        """Identify the fit by everything that its numbers depend on."""
        return fit_key(self.model(), data, *(array.tobytes().hex() for array in self.split))[:32]


def with_seed(model: IntentionModel, seed: int) -> IntentionModel:
    """Return an unfitted copy with ``seed`` on top of its own, where it has one."""
    fresh: IntentionModel = clone(model)
    if "seed" in fresh.get_params(deep=False):
        fresh.set_params(seed=fresh.get_params(deep=False)["seed"] + seed)
    return fresh


def fit_key(model: IntentionModel, *data: str) -> str:
    """Identify an unfitted model with its options, and what tells its data, as 64 hexadecimal digits."""
    described = [*data[:1], type(model).__name__, repr(sorted(model.get_params(deep=False).items())), __version__]
    return hashlib.sha256("\n".join([*described, *data[1:]]).encode()).hexdigest()


def _together(
    models: Sequence[IntentionModel], demos: Demonstrations, part_of: Callable[[int], Demonstrations], mdp: MDP | None
) -> dict[int, float]:
    """Where there is a GPU, fit the models that can share it at once (`scale.stacked`); seconds of each by its number.

    ``part_of`` a number are the demonstrations that its model is fitted to.
    """
    chosen = [] if fanout.on_cluster() else [i for i, m in enumerate(models) if stacked.worth_stacking(m, demos)]
    if len(chosen) < 2:
        return {}
    clock = time.perf_counter()
    stacked.fit_together([cast(Intentions, models[i]) for i in chosen], [part_of(i) for i in chosen], mdp)
    return dict.fromkeys(chosen, (time.perf_counter() - clock) / len(chosen))


def data_key(demos: Demonstrations, mdp: MDP | None, extra: Extra | None) -> str:
    """Checksum of the data as evaluation sees it: with labels, dynamics and what the further numbers depend on."""
    digest = hashlib.sha256(demos.checksum().encode())
    if demos.labels is not None:
        digest.update(demos.labels.tobytes())
    if extra is not None:
        digest.update(joblib.hash(extra).encode())
    if mdp is not None:
        digest.update(repr(mdp.discount).encode())
        for part in (mdp.transitions.data, mdp.transitions.indices, mdp.transitions.indptr, mdp.valid_actions):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def run_job(job: Job, demos: Demonstrations, mdp: MDP | None, extra: Extra | None) -> Fit:
    """Fit, and evaluate on the test fold."""
    train, test = demos.subset(job.split[0]), demos.subset(job.split[1])
    if job.fitted is not None:
        model, seconds = job.fitted
    else:
        model = job.model()
        clock = time.perf_counter()
        model.fit(train, mdp)
        seconds = time.perf_counter() - clock
    row = {"method": job.method.id, "fold": job.fold, "seed": job.seed, **evaluate(model, test)}
    row["train_predictive_ll"] = model.score(train)
    row["train_paper_score"] = model.paper_score(train)
    size, fit = model.n_parameters_, -2.0 * train.n_steps * row["train_predictive_ll"]
    row |= {"n_parameters": size, "aic": fit + 2.0 * size, "bic": fit + size * math.log(train.n_steps)}
    row["fit_seconds"] = seconds
    row["agreement"] = model.agreement_
    if extra is not None:
        row |= extra(model, test)
    return Fit(job.method, job.fold, job.seed, row, model if job.keep else None)


def write_row(path: Path, row: dict[str, Any]) -> None:
    """Remember a row as JSON, where a likelihood of −inf (an impossible action) is written as text."""
    plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in row.items()}
    odd = {key: repr(v) for key, v in plain.items() if isinstance(v, float) and not np.isfinite(v)}
    storage.write_sealed(path, plain | odd)


def read_row(path: Path) -> dict[str, Any]:
    """Undo `write_row`."""
    row = storage.read_sealed(path)
    return {key: float(v) if key != "method" and v in ("-inf", "inf", "nan") else v for key, v in row.items()}


def table(methods: Sequence[Method], rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Per method: name, and mean and std over its rows of every number."""
    result: dict[str, dict[str, Any]] = {}
    for method in methods:
        own = [row for row in rows if row["method"] == method.id]
        if not own:
            continue
        entry: dict[str, Any] = {"name": method.name, "leaks": method.leaks, "n_intentions": method.model.n_intentions}
        for key in own[0]:
            if key in ("method", "fold", "seed", "n_steps"):
                continue
            values = [row[key] for row in own if row.get(key) is not None]
            entry[key] = summary(values) if values else None
        if "fit_seconds" in entry:
            entry["fit_seconds"] = entry["fit_seconds"]["mean"]
        if entry["n_intentions"] == 1:  # without intentions there are no labels to be right
            entry |= {key: None for key in LABEL_METRICS if key in entry}
        entry.setdefault("label_accuracy", None)
        result[method.id] = entry
    return result


def compare_best_two(
    methods: Sequence[Method], rows: Sequence[dict[str, Any]], n_folds: int | None = None
) -> dict[str, Any] | None:
    """Paired t-test across folds between the two methods with the highest predictive LL.

    Seeds are averaged within a fold first. The variance is corrected for the overlap of training folds (Nadeau &
    Bengio 2003), without which the test is far too sure of itself. ``n_folds`` is the number of parts that the data
    was cut into, where not all of them were run; only folds that every method has are compared.
    """
    compared = [method.id for method in methods if method.id != "oracle"]
    scores = pd.DataFrame(rows, columns=["method", "fold", "predictive_ll"])
    means = scores.pivot_table("predictive_ll", "fold", "method").reindex(columns=compared)
    means = means.dropna(axis=1, how="all").dropna()
    if means.shape[1] < 2 or not len(means):
        return None
    best, second = means.mean().sort_values(ascending=False, kind="stable").index[:2]
    if not np.isfinite(means[second]).all():  # against a method that met an impossible action there is no test
        return None
    difference, n, p_value = (means[best] - means[second]).to_numpy(), len(means), None
    if n > 1:
        # n_test / n_train is one over the number of other parts, whether or not all of them were run.
        variance = difference.var(ddof=1) * (1.0 / n + 1.0 / (max(n_folds or 0, n) - 1))
        # Without any spread a difference is certain; no difference at all is none.
        spread = float(np.sqrt(variance)) or (0.0 if difference.any() else 1.0)
        with np.errstate(divide="ignore"):
            p_value = float(2.0 * stats.t.sf(np.abs(difference.mean()) / spread, n - 1))
    test = "paired t-test across folds, variance corrected for overlapping training data"
    found = {"best": best, "second": second, "difference": float(difference.mean()), "p_value": p_value}
    return found | {"folds": n, "test": test}


Model = TypeVar("Model", bound=IntentionModel)


def fit_to_all(
    models: Sequence[Model], demos: Demonstrations, mdp: MDP | None, *, jobs: int = 1, folder: Path | None = None
) -> list[tuple[str, Model]]:
    """Return a fitted copy of every model, and the name under which ``folder`` remembers it.

    The name is made of everything that the fit depends on: what an earlier run has saved is not fitted again.
    """
    data = data_key(demos, mdp, None)
    names = [fit_key(model, data)[:24] for model in models]
    done: dict[str, Any] = {}
    missing: dict[str, Model] = {}
    for name, model in zip(names, models, strict=True):
        if folder is not None and is_saved(folder / name):
            done[name] = load(folder / name)
        else:
            missing[name] = clone(model)

    def keep(index: int, fitted: Any) -> None:
        name = list(missing)[index]
        if folder is not None:  # saved here, because a worker of a cluster need not see this disk
            save(fitted, folder / name)
        done[name] = fitted

    left = list(missing.values())
    together = _together(left, demos, lambda _: demos, mdp)
    for index in together:
        keep(index, left[index])
    alone = [i for i in range(len(left)) if i not in together]
    for index, fitted in fanout.spread(_fit, [left[i] for i in alone], (demos, mdp), jobs=jobs):
        keep(alone[index], fitted)
    return [(name, done[name]) for name in names]


def is_saved(folder: Path) -> bool:
    """Whether a folder holds a whole model: config.json is written last."""
    return (folder / "config.json").is_file()


def _fit(model: Any, demos: Demonstrations, mdp: MDP | None) -> Any:
    return model.fit(demos, mdp)
