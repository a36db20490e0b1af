"""What the test for intentions found: the statistics of the data and of every surrogate, and their ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models.base import IntentionModel
from prism_irl.studies.analysis import Analysis, independent

HALVES = -1
"""The part of an analysis that is no fold: two fits to disjoint halves."""
FloatArray = npt.NDArray[np.float64]


class Task(NamedTuple):
    """One part of the analysis of one data set: 0 is the data itself, 1 and up are surrogates."""

    data: int
    part: int


@dataclass
class Tested:
    """What came out.

    Attributes
    ----------
    demos : Demonstrations
    analysis : Analysis
    habit : IntentionModel
        Fitted to all data; what the surrogates were simulated from.
    rows : {Task: numbers of this part}
    """

    demos: Demonstrations
    analysis: Analysis
    habit: IntentionModel
    rows: dict[Task, dict[str, Any]] = field(default_factory=dict)

    @property
    def memory(self) -> int:
        """States that the habit of all data sees."""
        return int(getattr(self.habit, "length_", 0) or getattr(self.habit, "history_length_", 1))

    @property
    def several(self) -> bool:
        """Whether several habits, which some folds of the data preferred, predict its test folds better than one."""
        return self.reference(0) == "habit"

    @property
    def surrogates(self) -> list[int]:
        """Numbers of the surrogates."""
        return sorted({task.data for task in self.rows} - {0})

    def folds(self, data: int) -> list[dict[str, Any]]:
        """Rows of the folds of one data set."""
        return [self.rows[task] for task in sorted(self.rows) if task.data == data and task.part != HALVES]

    def gain(self, data: int) -> float:
        """Nats per step that intentions predict better than the habit, over all folds."""
        return self._likelihood(data, "intentions") - self._likelihood(data, self.reference(data))

    def reference(self, data: int) -> str:
        """What intentions are compared with: one habit, "plain", or several, "habit", if those predict better.

        Validation trajectories may prefer several by chance; a habit that predicts test folds worse flatters the gain.
        """
        return max(("plain", "habit"), key=lambda name: self._likelihood(data, name))

    def _likelihood(self, data: int, name: str) -> float:
        """Log-likelihood per step on all test folds."""
        steps, scores = np.array([(row["n_steps"], row[name]) for row in self.folds(data)]).T
        return float(steps @ scores / steps.sum())

    def favourite(self, data: int) -> str:
        """The chain that validation trajectories liked best over all folds."""
        folds = [{chain_kind(name): score for name, score in row["validation"].items()} for row in self.folds(data)]
        kinds = dict.fromkeys(kind for fold in folds for kind in fold)
        return max(kinds, key=lambda kind: sum(_of_kind(fold, kind) for fold in folds))

    def agreement(self, data: int) -> float:
        """Agreement between labellings from disjoint halves, by the favourite chain."""
        return _of_kind(self.rows[Task(data, HALVES)]["agreement"], self.favourite(data))

    @property
    def events(self) -> tuple[str, ...]:
        """Names of the events that intentions are aligned with."""
        return tuple(self.rows.get(Task(0, HALVES), {}).get("alignment", {}))

    def alignment(self, event: str, data: int) -> float:
        """Nats per step that the intention says about an event, by the favourite chain of either half."""
        return _of_kind(self.rows[Task(data, HALVES)]["alignment"][event], self.favourite(data))

    def p_value(self, statistic: Callable[[int], float]) -> float:
        """Rank of the data among the surrogates."""
        value = statistic(0)
        return (1 + sum(statistic(b) >= value for b in self.surrogates)) / (1 + len(self.surrogates))


def chain_kind(name: str) -> str:
    """Name of a chain without the length of its memory, which differs from fold to fold."""
    return name.partition(",")[0] + (" with memory" if "memory" in name else "")


def _of_kind(found: dict[str, float], kind: str) -> float:
    """Number of this kind of chain; where the habit has no memory, a chain with its memory is the one without."""
    return float(found[kind if kind in found else kind.removesuffix(" with memory")])


def units(tested: Tested) -> Iterator[tuple[str, FloatArray, FloatArray]]:
    """Rows of the budget: name, log-likelihood and steps of every unit (animal, else trajectory) of all folds."""
    demos, analysis = tested.demos, tested.analysis
    order = np.concatenate([test for _, test in demos.fold_indices(analysis.folds, by=analysis.by)])
    unit = demos.units("group")[order] if independent(demos) == "group" else np.arange(len(order))
    steps = np.bincount(unit, demos.lengths[order])
    rows = [row["per_trajectory"] for row in tested.folds(0)]
    for name in (name for name in rows[0] if all(name in row for row in rows)):
        found = np.bincount(unit, np.concatenate([np.asarray(row[name], np.float64) for row in rows]))
        yield name, found.astype(np.float64), steps.astype(np.float64)
