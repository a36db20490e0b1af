"""What a fit found, as arrays and numbers: made once by `models.describe`, read by whoever writes, draws or prints it.

Nothing behind a `FitResult` fits, solves or asks a model. Its JSON is metrics.json of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from prism_irl.arrays import BoolArray, FloatArray, IntArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.read import Table
from prism_irl.evaluation.checks import Checks
from prism_irl.evaluation.metrics import Inference

GRID = np.linspace(-2.0, 2.0, 17)
"""Standard deviations of a covariate at which its effect is shown."""


class Shown(NamedTuple):
    """What a page shows: demonstrations over places, their posterior (n, K), marks (n,) bool, and where states lie.

    Of large continuous data they are some trajectories, which ``notes`` say; continuous data are shown by their cells.
    """

    demos: Demonstrations
    probabilities: FloatArray
    marks: dict[str, BoolArray]
    layout: Mapping[str, Any] | None
    notes: list[str]

    @property
    def labels(self) -> IntArray:
        """(n,) likeliest intention of every step."""
        return np.asarray(self.probabilities.argmax(axis=1), np.int64)


class Dwell(NamedTuple):
    """How long intentions last: mean number of steps of their segments, over all and by intention (None: never used).

    A segment is a run of one intention within a trajectory, so that no dwell is longer than a trajectory. ``expected``
    (K, longest) is the probability of each length that the model expects of a visit that nothing cuts short.
    """

    mean: float
    per_intention: list[float | None]
    expected: FloatArray | None = None


class Effects(NamedTuple):
    """Probability of leaving each intention over each covariate, (K, d, G), at ``at`` (d, G), with its interval."""

    names: list[str]
    at: FloatArray
    leaving: FloatArray
    interval: FloatArray | None


@dataclass(frozen=True, eq=False)
class FitResult:
    """One fit, described.

    Attributes
    ----------
    method, pair : name of the class and of the pair, None where it is none
    table : rows and demonstrations that were fitted
    posterior : labels (n,), probabilities (n, K), log_likelihood (n,) and paper score (n,) of every step
    scores : {"predictive_ll", "paper_score"} → {"train", "validation"}
    references : scores of what has no intentions, on the same steps
    leaks, density, looks_ahead : what the scores are, see `models.base.IntentionModel`
    usage : (K,) share of the steps
    dwell : `Dwell`
    transitions : (K, K) number of steps from one intention to another, over the labels
    rewards, values : (K, S) as a map shows them; None without rewards over states
    goals : one row per intention, the place that it goes to; None where intentions are no places
    em : iterations, convergence, seconds, starts; None of a method without EM, and then ``monitor`` is None, too
    monitor : one row per iteration of EM and start
    agreement, n_equal_starts : mean ARI of the best start with those that came as far, and how many these were
    choices : what validation trajectories chose (options, history, free policies)
    labelled : label metrics, baselines and number of steps with partial labels
    tables : name of a file → its rows, None for one that there is nothing to say in
    shown : what the page shows
    movement : what a robot does in every phase (`report.movement`); None of data that are no demonstrations
    checks, intervals, effects, evidence : what was asked for beside the fit; None where it was not
    notes, data_notes : sentences about the run and about the table
    places : a state of every place where each intention ends; None where intentions are no places
    step_seconds : how long a step takes; None where steps differ or nobody knows
    """

    method: str
    pair: str | None
    n_intentions: int
    table: Table
    posterior: Inference
    scores: dict[str, dict[str, float | None]]
    references: dict[str, dict[str, Any]]
    leaks: bool
    density: bool
    looks_ahead: bool
    usage: FloatArray
    dwell: Dwell
    transitions: IntArray
    rewards: FloatArray | None
    values: FloatArray | None
    goals: pd.DataFrame | None
    em: dict[str, Any] | None
    monitor: list[dict[str, float]] | None
    agreement: float | None
    n_equal_starts: int | None
    choices: dict[str, Any]
    labelled: dict[str, Any]
    tables: dict[str, pd.DataFrame | None]
    shown: Shown
    movement: dict[str, Any] | None = None
    checks: Checks | None = None
    intervals: Mapping[str, Any] | None = None
    effects: Effects | None = None
    evidence: Mapping[str, Any] | None = None
    tokens: bool = False
    notes: tuple[str, ...] = ()
    data_notes: tuple[str, ...] | None = None
    step_seconds: float | None = None
    places: list[list[int]] | None = None

    @property
    def demos(self) -> Demonstrations:
        """The demonstrations that were fitted."""
        return self.table.demonstrations

    def to_json(self) -> dict[str, Any]:
        """metrics.json, but for the numbers of intervals, of which the long ones stand in a table."""
        found: dict[str, Any] = {
            **{name: getattr(self, name) for name in ("method", "pair", "n_intentions")},
            "n_trajectories": self.demos.n_trajectories,
            "n_steps": self.demos.n_steps,
            **self.scores,
            **{name: getattr(self, name) for name in ("references", "leaks", "density", "looks_ahead")},
            **self.choices,
            "mean_dwell": self.dwell.mean,
            **({} if self.step_seconds is None else {"step_seconds": self.step_seconds}),
            **{name: getattr(self, name) for name in ("agreement", "n_equal_starts", "em", "usage")},
            "dwell_per_intention": self.dwell.per_intention,
            **self.labelled,
        }
        if self.goals is not None:
            places = self.goals.drop(columns="intention")
            found["goals"] = {"names": list(places.columns), "places": places.to_numpy().tolist()}
        found |= {"tokens": True} if self.tokens else {}
        found |= {} if self.evidence is None else {"evidence": dict(self.evidence)}
        found |= {} if self.data_notes is None else {"data_notes": list(self.data_notes)}
        return found | ({"notes": list(self.notes)} if self.notes else {})
