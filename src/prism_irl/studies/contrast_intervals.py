"""Intervals of a contrast that count the fit's own uncertainty: animals are drawn, and the model is fitted again.

Without this the intervals of `studies.contrast` keep the fit as it is, and only say how much animals differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import limit_threads
from prism_irl.evaluation import resampling, units
from prism_irl.labels import match
from prism_irl.models.intentions import Intentions
from prism_irl.models.subject_models import ConditionModels, refit
from prism_irl.scale import fanout
from prism_irl.studies.contrast import Design, design
from prism_irl.studies.intervals import CHUNK, OnPart
from prism_irl.switching.base import Posterior

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Renamed:
    """A fitted model whose intentions come in another order."""

    def __init__(self, model: Intentions, order: IntArray) -> None:
        self.model, self.order, self.n_intentions = model, order, model.n_intentions

    def posterior(self, demos: Demonstrations) -> Posterior:
        """Beliefs, in that order."""
        found = self.model.posterior(demos)
        pairs = found.transitions
        if pairs is not None:
            pairs = pairs[np.ix_(self.order, self.order)]
        return found._replace(responsibilities=found.responsibilities[:, self.order], transitions=pairs)


def refitted(
    found: dict[str, Any],
    model: Intentions,
    demos: Demonstrations,
    unit: npt.NDArray[Any],
    condition: npt.NDArray[Any],
    n: int,
    *,
    seed: int = 0,
    jobs: int = 1,
    on_part: OnPart | None = None,
) -> dict[str, Any]:
    """The same contrast, its intervals from ``n`` resamples of the animals that the model was fitted to again."""
    levels = found["levels"][0], found["levels"][1]
    plan = design(unit, condition, levels)
    weights = resampling.bootstrap_weights(plan.cells, n, seed)
    labels = model.predict(demos)
    chunks = [weights[i : i + CHUNK] for i in range(0, n, CHUNK)]
    draws: list[FloatArray | None] = [None] * len(chunks)
    shared = (plan, model, demos, labels, fanout.side_by_side(jobs))
    for index, result in fanout.spread(_differences, chunks, shared, jobs=jobs):
        draws[index] = result
        if on_part is not None:
            on_part(sum(len(chunk) for chunk, draw in zip(chunks, draws, strict=True) if draw is not None), n)
    made = np.concatenate([draw for draw in draws if draw is not None])
    ends = resampling.interval(made, plan.cells.n_smaller, 1 if plan.cells.paired else 2)
    tests = [dict(test) for test in found["tests"]]
    signed = (test for test in tests if test["interval"] is not None)
    for test, low, high in zip(signed, *ends, strict=True):
        test["interval"] = [float(low), float(high)]
    return found | {"tests": tests, "refitted": n}


def _differences(
    weights: Sequence[FloatArray], plan: Design, model: Intentions, demos: Demonstrations, labels: IntArray, alone: bool
) -> FloatArray:
    """Difference of every measure in some resamples, (m, M)."""
    if alone:
        limit_threads(1)
    return np.stack([_difference(np.asarray(one), plan, model, demos, labels) for one in weights])


def _difference(
    weights: FloatArray, plan: Design, model: Intentions, demos: Demonstrations, labels: IntArray
) -> FloatArray:
    chosen = plan.cell >= 0
    times = np.where(chosen, weights[np.maximum(plan.cell, 0)], 0).astype(np.int64)
    again = refit(model, demos, times)
    own, K = again.predict(demos), model.n_intentions
    order = np.argsort(match(labels, own, K, K).mapping)

    used, cell = demos.subset(chosen), plan.cell[chosen]
    owner = ConditionModels(again, used, cell, plan.cells.second, times[chosen])

    def renamed(u: int, part: Demonstrations) -> Renamed:
        return Renamed(owner(u, part), order)

    counts = units.count_units(Renamed(again, order), used, cell, renamed)
    groups = np.stack([weights * ~plan.cells.second, weights * plan.cells.second])
    first, second = units.ratio(groups, counts)
    return np.asarray(second - first)
