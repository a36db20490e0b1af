"""A barrier moves: predicted visits, with their intervals, beside what the simulator's animals do in the changed world.

Animals know the barriers. Those of "barrier" plan as the model says that they do (soft values); those of "barrier-hard"
plan for a future without noise, which is not what the model assumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.experiments.study.settings import MOVED, Settings, Study
from prism_irl.labels import label_accuracy
from prism_irl.models.prism import PRISM
from prism_irl.studies.imagine import Change, imagine
from prism_irl.worlds.cohort import Cohort, CohortWorld


def barrier_study(world: CohortWorld, cohort: Cohort, settings: Settings, study: Study) -> dict[str, Any]:
    """Fit where the barrier was, predict where it went, and ask the simulator."""
    demos = cohort.demonstrations
    assert demos.labels is not None
    moved = replace(world, barriers=MOVED)
    options: dict[str, Any] = {"n_starts": 2, "device": "cpu", "seed": study.seed, "discount": world.discount}
    model = PRISM(2, switching="markov", rewards="soft-1", **options).fit(demos, world.mdp)
    closed = [world.size * y + x for x, y in MOVED]
    change = Change(moved.mdp)
    found = imagine(model, demos, change, closed=closed, resamples=settings.imagined, seed=study.seed)
    unaware = imagine(model, demos, change._replace(aware=False), closed=closed, simulations=20, seed=study.seed)
    begin = demos.states[demos.offsets[:-1]].astype(np.int64)
    begin = np.where(np.isin(begin, closed), -1, begin)
    other, again = (
        _visits(moved.simulate(seed + study.seed, begin).demonstrations, begin) for seed in (10**6, 2 * 10**6)
    )
    low, high = found["visits"]["after"]["interval"]
    free = ~np.isin(np.arange(world.n_states), closed)
    predicted = found["visits"]["after"]["mean"]
    return {
        "found": False,
        "p_adjusted": {},
        "covers": {},
        "label_accuracy": label_accuracy(demos.labels, model.predict(demos)),
        "what_if": {
            "inside": float(((low <= other) & (other <= high))[free].mean()),
            "width": float((high - low)[free].mean()),
            "prediction": _apart(predicted, other),
            "unaware": _apart(unaware["visits"]["after"]["mean"], other),
            "unchanged": _apart(found["recorded"], other),
            "another_cohort": _apart(again, other),
        },
    }


def _visits(demos: Demonstrations, begin: Any) -> Any:
    """Share of time in every state, (S,), over trajectories that can begin as those of the data did."""
    kept = demos.subset(np.flatnonzero(begin >= 0))
    return np.bincount(kept.states, minlength=demos.n_states) / kept.n_steps


def _apart(one: Any, other: Any) -> float:
    """Total variation: the share of time that would have to be spent elsewhere."""
    return 0.5 * float(np.abs(np.asarray(one) - np.asarray(other)).sum())


def what_if(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over studies of one kind."""
    return {
        "of": len(rows),
        **{name: float(np.mean([row["what_if"][name] for row in rows])) for name in rows[0]["what_if"]},
        "least_inside": float(min(row["what_if"]["inside"] for row in rows)),
    }
