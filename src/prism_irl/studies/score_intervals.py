"""How sure are the likelihoods of a comparison: a bootstrap of animals over what each of them scored when held out.

Every animal (trajectory, where there are no groups) is scored by fits that have not seen the trajectory; animals are
drawn with replacement, the same ones for all methods, so that differences between methods are paired. The fits are not
made again: what is resampled are the animals that are predicted, not those that were learned from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl import limits
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation import resampling
from prism_irl.models.base import IntentionModel
from prism_irl.studies import results
from prism_irl.studies.cross_validation import UNIT_SCORES, Evaluation, Extra
from prism_irl.studies.intervals import FEW_UNITS, FEWEST, units_of

FloatArray = npt.NDArray[np.float64]
TABLE = "score_intervals.csv"


@dataclass(frozen=True)
class UnitScores:
    """Sum of the log-likelihood, and steps, of every unit of a test fold, beside what else is asked of a fit."""

    by: str
    further: Extra | None = None

    def __call__(self, model: IntentionModel, test: Demonstrations) -> dict[str, Any]:
        """Numbers of one fit."""
        names = _names(test, self.by)
        steps = np.repeat(names, test.lengths)
        found, place = np.unique(steps, return_inverse=True)
        total, n = np.bincount(place, model.log_likelihood(test)), np.bincount(place)
        own = {str(name): [float(total[i]), int(n[i])] for i, name in enumerate(found)}
        return {UNIT_SCORES: own, **({} if self.further is None else self.further(model, test))}


def _names(demos: Demonstrations, by: str) -> Any:
    if by == "group":
        return np.asarray(demos.groups).astype(str)
    return np.array([demos.name_of(i) for i in range(len(demos))])


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


def score_intervals(done: Evaluation, n: int, seed: int = 0) -> dict[str, Any]:
    """Likelihood per step of every method over all test folds, and its difference to the best, with 95% intervals."""
    by, scores = units_of(done.demos)[2], _collected(done)
    units = sorted(set.union(*(set(own) for own in scores.values())))
    sums = {name: np.array([own.get(unit, (0.0, 0)) for unit in units]) for name, own in scores.items()}
    weights = np.random.default_rng([seed, 9]).multinomial(len(units), np.full(len(units), 1 / len(units)), size=n)
    estimates = {name: float(values[:, 0].sum() / values[:, 1].sum()) for name, values in sums.items()}
    draws = {name: _per_step(weights, values) for name, values in sums.items()}
    best = max(estimates, key=lambda name: estimates[name])
    rows = []
    for name in scores:
        row: dict[str, Any] = {"method": name, "predictive_ll": estimates[name], "below_best": None}
        row |= dict(zip(("low", "high"), _ends(draws[name], estimates[name], len(units)), strict=True))
        if name != best and np.isfinite(estimates[name]):
            row["below_best"] = estimates[best] - estimates[name]
            ends = _ends(draws[best] - draws[name], row["below_best"], len(units))
            row |= dict(zip(("below_low", "below_high"), ends, strict=True))
        rows.append(row)
    return {"n": n, "unit": by, "n_units": len(units), "few_units": len(units) < FEW_UNITS, "best": best, "rows": rows}


def _collected(done: Evaluation) -> dict[str, dict[str, tuple[float, float]]]:
    """Per method and unit: log-likelihood and steps over its folds, the mean over seeds."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for fit in done.fits:
        own = found.setdefault(fit.method.id, {})
        for unit, (total, steps) in fit.row[UNIT_SCORES].items():
            before = own.get(unit, (0.0, 0.0))
            own[unit] = before[0] + total / len(done.seeds), before[1] + steps / len(done.seeds)
    return found


def _per_step(weights: npt.NDArray[np.int64], values: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((weights @ values[:, 0]) / (weights @ values[:, 1]))


def _ends(draws: FloatArray, estimate: float, n_units: int) -> list[float | None]:
    ends = resampling.centred_interval(draws, estimate, n_units)
    return [float(end) if np.isfinite(end) else None for end in ends]


def in_words(found: Mapping[str, Any], names: Mapping[str, str]) -> str:
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
    result["notes"].append(in_words(found, {method.id: method.name for method in done.methods}))
    results.write_rows(folder / TABLE, found["rows"])
