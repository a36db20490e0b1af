"""How sure are the numbers of a fit: a bootstrap of whole animals, each resample fitted again from the fit.

Animals (trajectories, where there are no groups) are drawn with replacement; EM goes on from the fit on each draw
(`subject_models.refit`); intentions are matched with those of the fit by their labels of all steps; and an interval is
the estimate ± Student's t times the spread of what the draws found, on a scale without ends
(`evaluation.units.centred_interval`). Animals that were not drawn are predicted by a fit that has not seen them:
``new_units`` is what a new animal would score.

Intervals of the likelihoods of a comparison do not fit again: the animals that are predicted are resampled, the same
ones for all methods, so that differences between methods are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prism_irl import limits, storage
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation import units
from prism_irl.evaluation.metrics import infer_once
from prism_irl.evaluation.result import GRID
from prism_irl.evaluation.tables import state_rewards
from prism_irl.evaluation.units import count_units, ratio
from prism_irl.labels import ari, match
from prism_irl.models.base import IntentionModel
from prism_irl.models.intentions import Intentions
from prism_irl.models.subject_models import refit
from prism_irl.scale import fanout
from prism_irl.studies import results
from prism_irl.studies.cross_validation import UNIT_SCORES, Evaluation, Extra
from prism_irl.switching.base import Switching

FEWEST = 20
FEW_UNITS = 5

SCALE = {"dwell": "log", "usage": "logit", "switch_rate": "logit", "kernel": "logit", "leaving": "logit"}
"""Number → the scale of its interval, where it is not plain."""
OnPart = Callable[[int, int], None]
Draw = dict[str, FloatArray]


def check_intervals(n: int, model: Any, demos: Demonstrations) -> None:
    """Raise an `InputError` where there can be no intervals, before anything is fitted."""
    if n and not isinstance(model, Intentions):
        raise InputError(f"{type(model).__name__} is not fitted by EM and has no warm starts; leave out --intervals.")
    scoring(demos, n)


def units_of(demos: Demonstrations) -> tuple[IntArray, int, str]:
    """Number of each trajectory's unit, (N,), how many there are, and what they are: groups, else trajectories."""
    by = "trajectory" if demos.groups is None or len(np.unique(demos.groups.astype(str))) < 2 else "group"
    unit = demos.units(by)
    return unit, int(unit.max()) + 1, by


def draw_units(n_units: int, seed: int, index: int) -> IntArray:
    """How often each unit is in resample ``index``, (n_units,)."""
    generator = np.random.default_rng([seed, 7, index])
    return np.asarray(generator.multinomial(n_units, np.full(n_units, 1 / n_units)), dtype=np.int64)


def numbers_of(model: Intentions, demos: Demonstrations) -> Draw:
    """Usage (K,), dwell (K,), switch rate, kernel (K, K) of a model on data, and its rewards and values (K, S)."""
    K = model.n_intentions
    counts = count_units(model, demos, np.zeros(len(demos), np.int64))
    values = ratio(np.ones((1, 1)), counts)[0]
    found: Draw = {"usage": values[:K]}
    if K > 1:
        kernel = np.zeros((K, K))
        kernel[~np.eye(K, dtype=bool)] = values[2 * K + 1 :]
        kernel[np.eye(K, dtype=bool)] = 1 - kernel.sum(axis=1)
        found |= {"dwell": values[K : 2 * K], "switch_rate": values[2 * K], "kernel": kernel}
    if model.switching_.n_inputs and K > 1:
        chain = model.switching_
        found |= {"coefficients": chain.effects(), "leaving": leaving_curves(chain)}
    rewards = state_rewards(model)
    if rewards is not None:
        found |= {"rewards": rewards, "values": model.values_}
    return found


def leaving_curves(chain: Switching) -> FloatArray:
    """Probability of leaving each intention where one input goes over `GRID`, the others at their mean, (K, d, G)."""
    d = chain.n_inputs
    inputs = np.zeros((d, len(GRID), d))
    inputs[np.arange(d), :, np.arange(d)] = GRID
    return np.moveaxis(chain.leaving(inputs.reshape(-1, d)).reshape(d, len(GRID), -1), -1, 0)


def one_draw(model: Intentions, demos: Demonstrations, labels: IntArray, seed: int, index: int) -> Draw:
    """Numbers of one resample, its intentions in the order of the fit's."""
    unit, n_units, _ = units_of(demos)
    times = draw_units(n_units, seed, index)[unit]
    again = refit(model, demos, times)
    inferred = infer_once(again, demos)
    own = inferred.labels
    K = model.n_intentions
    # `match` names ours by theirs; the draw's arrays come in the order of the fit's names.
    order = np.argsort(match(labels, own, K, K).mapping)
    found = numbers_of(again, demos.subset(np.repeat(np.arange(len(demos)), times)))
    for name in found.keys() - {"switch_rate"}:
        both = name in ("kernel", "coefficients")
        found[name] = found[name][np.ix_(order, order)] if both else found[name][order]
    out = np.repeat(times == 0, demos.lengths)
    found["new_units"] = np.array(inferred.log_likelihood[out].mean() if out.any() else np.nan)
    found["agreement"] = np.array(ari(labels, own))
    return found


def bootstrap(
    model: Intentions,
    demos: Demonstrations,
    n: int,
    *,
    seed: int = 0,
    jobs: int = 1,
    folder: Path | None = None,
    on_part: OnPart | None = None,
) -> dict[str, FloatArray]:
    """Numbers of ``n`` resamples, each name (n, …); what ``folder`` remembers of the same fit is not made again."""
    labels = model.predict(demos)
    chunks = [tuple(range(i, min(i + fanout.CHUNK, n))) for i in range(0, n, fanout.CHUNK)]
    kept = Path() if folder is None else folder
    paths = [kept / f"draws_{i:03d}_{len(chunk)}_{seed}.safetensors" for i, chunk in enumerate(chunks)]
    there = [i for i, path in enumerate(paths) if folder is not None and path.exists()]
    done = {i: {name: value.numpy() for name, value in storage.load_tensors(paths[i])[0].items()} for i in there}
    left = [i for i in range(len(chunks)) if i not in done]
    shared = (model, demos, labels, seed)
    for index, found in fanout.spread(_chunk, [chunks[i] for i in left], shared, jobs=jobs):
        i = left[index]
        done[i] = found
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            storage.save_tensors(paths[i], found, {})
        if on_part is not None:
            on_part(sum(len(chunks[j]) for j in done), n)
    return {name: np.concatenate([done[i][name] for i in range(len(chunks))]) for name in done[0]}


def _chunk(
    indices: Sequence[int], model: Intentions, demos: Demonstrations, labels: IntArray, seed: int
) -> dict[str, FloatArray]:
    draws = [one_draw(model, demos, labels, seed, index) for index in indices]
    return {name: np.stack([draw[name] for draw in draws]) for name in draws[0]}


def intervals(model: Intentions, demos: Demonstrations, n: int, **work: Any) -> dict[str, Any]:
    """Every number of a fit with its 95% interval from a `bootstrap`: ``estimate`` (…) and ``interval`` (2, …) of each.

    ``agreement`` is the mean ARI of the draws' labels with the fit's, the number ``new_units`` the log-likelihood per
    step of units that a draw left out.
    """
    draws = bootstrap(model, demos, n, **work)
    _, n_units, by = units_of(demos)
    estimates = numbers_of(model, demos)
    numbers: dict[str, dict[str, Any]] = {}
    for name, value in estimates.items():
        ends = units.centred_interval(draws[name], value, n_units, SCALE.get(name, "plain"))
        numbers[name] = {"estimate": value, "interval": ends}
    if "dwell" in numbers and numbers["dwell"]["interval"] is not None:  # which no trajectory could show beyond its end
        numbers["dwell"]["interval"] = np.clip(numbers["dwell"]["interval"], 1.0, float(demos.lengths.max()))
    likelihood = np.asarray(draws["new_units"], dtype=np.float64)
    numbers["new_units"] = {
        "estimate": np.nanmean(likelihood) if np.isfinite(likelihood).any() else None,
        "interval": units.interval(likelihood, n_units) if np.isfinite(likelihood).any() else None,
    }
    return {
        "n": n,
        "unit": by,
        "n_units": n_units,
        "few_units": n_units < FEW_UNITS,
        "agreement": float(np.mean(draws["agreement"])),
        "numbers": numbers,
    }


TABLE = "score_intervals.csv"


@dataclass(frozen=True)
class UnitScores:
    """Sum of the log-likelihood, and steps, of every unit of a test fold, beside what else is asked of a fit."""

    by: str
    further: Extra | None = None

    def __call__(self, model: IntentionModel, test: Demonstrations) -> dict[str, Any]:
        """Numbers of one fit."""
        everyone = range(len(test))
        names = np.asarray(test.groups if self.by == "group" else [test.name_of(i) for i in everyone]).astype(str)
        found, place = np.unique(np.repeat(names, test.lengths), return_inverse=True)
        total, n = np.bincount(place, model.log_likelihood(test)), np.bincount(place)
        own = {str(name): [float(total[i]), int(n[i])] for i, name in enumerate(found)}
        return {UNIT_SCORES: own, **({} if self.further is None else self.further(model, test))}


def scoring(demos: Demonstrations, n: int, further: Extra | None = None) -> Extra | None:
    """What a cross-validation has to keep of every fit for ``n`` resamples."""
    limits.check_option("intervals", n)
    if n == 0:
        return further
    if n < FEWEST:
        raise InputError(f"--intervals is {n}; give {FEWEST} or more resamples (200 is usual), or 0 for none.")
    if units_of(demos)[1] < 2:
        raise InputError("Intervals need at least two animals, or trajectories, to resample; leave out --intervals.")
    return UnitScores(units_of(demos)[2], further)


def score_intervals(done: Evaluation, n: int) -> dict[str, Any]:
    """Likelihood per step of every method over all test folds, and its difference to the best, with 95% intervals."""
    by, scores = units_of(done.demos)[2], dict[str, dict[str, FloatArray]]()
    for fit in done.fits:  # log-likelihood and steps of every method and unit, over its folds
        own = scores.setdefault(fit.method.id, {})
        for unit, pair in fit.row[UNIT_SCORES].items():
            own[unit] = own.get(unit, 0.0) + np.array(pair) / len(done.seeds)
    names = sorted(set.union(*(set(own) for own in scores.values())))
    sums = {name: np.array([own.get(unit, np.zeros(2)) for unit in names]) for name, own in scores.items()}
    weights = np.random.default_rng([0, 9]).multinomial(len(names), np.full(len(names), 1 / len(names)), size=n)
    estimates = {name: float(values[:, 0].sum() / values[:, 1].sum()) for name, values in sums.items()}
    with np.errstate(invalid="ignore", divide="ignore"):
        draws = {name: (weights @ v[:, 0]) / (weights @ v[:, 1]) for name, v in sums.items()}
    best = max(estimates, key=lambda name: estimates[name])

    def ends(keys: Sequence[str], drawn: FloatArray, estimate: float) -> dict[str, float | None]:
        found = units.centred_interval(drawn, estimate, len(names))
        return {key: float(end) if np.isfinite(end) else None for key, end in zip(keys, found, strict=True)}

    rows = []
    for name in scores:
        row: dict[str, Any] = {"method": name, "predictive_ll": estimates[name], "below_best": None}
        row |= ends(("low", "high"), draws[name], estimates[name])
        if name != best and np.isfinite(estimates[name]):
            row["below_best"] = estimates[best] - estimates[name]
            row |= ends(("below_low", "below_high"), draws[best] - draws[name], row["below_best"])
        rows.append(row)
    return {"n": n, "unit": by, "n_units": len(names), "few_units": len(names) < FEW_UNITS, "best": best, "rows": rows}


def scores_in_words(found: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Which methods are not clearly worse than the best, in one sentence."""
    unit = "animals" if found["unit"] == "group" else "trajectories"
    close: Sequence[str] = [
        names[row["method"]] for row in found["rows"] if row["below_best"] is not None and (row["below_low"] or 0) <= 0
    ]
    text = (
        f"{names[found['best']]} predicts best; not clearly worse: {', '.join(close)}."
        if close
        else f"{names[found['best']]} predicts better than every other, beyond its interval."
    )
    few = f" With {found['n_units']} {unit} such intervals are rough." if found["few_units"] else ""
    return f"{text} Intervals (95%) are over {found['n']} resamples of the {found['n_units']} held-out {unit}.{few}"


def write_score_intervals(folder: Path, result: dict[str, Any], done: Evaluation, n: int) -> None:
    """Put intervals into the metrics of a comparison, and their table beside it; without, drop an earlier table."""
    if n == 0:
        (folder / TABLE).unlink(missing_ok=True)
        return
    found = score_intervals(done, n)
    result["score_intervals"] = found
    result["notes"].append(scores_in_words(found, {method.id: method.name for method in done.methods}))
    results.write_rows(folder / TABLE, found["rows"])
