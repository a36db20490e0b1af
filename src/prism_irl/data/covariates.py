"""Covariates of switching: columns of a table as standardised numbers, in the same way for new data.

A column of numbers becomes one input, (x − mean) / standard deviation; a column of words one input per level but the
first, 0 or 1, standardised too. *Since* turns a column of events into the time since the last one: log(1 + steps), or
log(1 + seconds) where the table has numeric times; before the first event of a trajectory the time since it began.

Whatever a kernel reads at a step is older than the action of that step, which a column might tell: the value is that of
the row before (the mean at the first step), and the time since an event counts from the step after it. Two kinds of
columns are read from their own row: those that are constant in every trajectory, and those that are declared to be
known before the action (a cue, a dose), by ``:now`` behind the name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.read import Table
from prism_irl.data.rows import column_of, finite_numbers, missing
from prism_irl.errors import InputError

FloatArray = npt.NDArray[np.float64]
MOST_LEVELS = 20
NOW = ":now"
"""Behind the name of a column that is known before the action of its row."""


@dataclass(frozen=True)
class Input:
    """One input: a column, how it is read ("number", "since", or the level that is 1), its mean and its spread.

    ``lag`` is 1 where the value comes from the row before, 0 where it is known before the action of its own row.
    """

    column: str
    kind: str
    level: str | None = None
    mean: float = 0.0
    spread: float = 1.0
    lag: int = 0

    @property
    def name(self) -> str:
        """What a figure calls it."""
        if self.kind == "since":
            return f"time since {self.column}"
        return self.column if self.level is None else f"{self.column} = {self.level}"

    def raw(self, table: Table) -> FloatArray:
        """Values (n,) that every flat step reads, before they are standardised; NaN where there is no row before."""
        column, demos = column_of(table.frame, self.column, "the inputs"), table.demonstrations
        if self.kind == "since":
            happened = event_marks(column, self.column)[table.order]
            return since(demos, _one_row_later(happened, demos, False) if self.lag else happened)
        if self.level is None:
            values = _numbers(column, self.column)[table.order]
        else:
            _complete(column, self.column)
            values = np.asarray(column.astype(str).to_numpy() == self.level, dtype=np.float64)[table.order]
        return _one_row_later(values, demos, np.nan) if self.lag else values

    def standardised(self, table: Table) -> FloatArray:
        """The same in standard deviations from the mean, 0 where there is no row before."""
        return np.asarray(np.nan_to_num((self.raw(table) - self.mean) / self.spread))


@dataclass(frozen=True)
class Inputs:
    """All inputs of a fit, in their order."""

    inputs: tuple[Input, ...]

    @classmethod
    def learn(cls, table: Table, columns: Sequence[str], events: Sequence[str]) -> Self:
        """Read which columns are numbers and which are words, and standardise them."""
        found: list[Input] = []
        for text in columns:
            name, lag = _declared(table, text)
            column = column_of(table.frame, name, "the inputs")
            if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
                found.append(Input(name, "number", lag=lag))
                continue
            _complete(column, name)
            levels = sorted(set(column.astype(str)))
            if len(levels) > MOST_LEVELS:
                raise InputError(f"The input {name!r} has {len(levels)} different words; give numbers, or fewer words.")
            found += [Input(name, "level", level, lag=lag) for level in levels[1:]]
        found += [Input(name, "since", lag=1) for name in events]
        scaled = []
        for one in found:
            values = one.raw(table)
            values = values[np.isfinite(values)]
            if not len(values) or np.ptp(values) == 0:
                raise InputError(f"The input {one.name!r} is the same at every step; leave it out.")
            scaled.append(replace(one, mean=float(values.mean()), spread=float(values.std())))
        if not scaled:
            raise InputError(f"The input {columns[0]!r} is the same at every step; leave it out.")
        return cls(tuple(scaled))

    def apply(self, table: Table) -> Table:
        """The table with its inputs as observations, after those that it has already."""
        values = np.stack([one.standardised(table) for one in self.inputs], axis=1)
        demos = table.demonstrations
        before = [] if demos.observations is None else [demos.observations]
        together = np.concatenate([*before, values.astype(np.float32)], axis=1)
        return table._replace(demonstrations=replace(demos, observations=together))

    def to_json(self) -> list[dict[str, Any]]:
        """Return what `from_json` reads."""
        return [vars(one).copy() for one in self.inputs]

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Rebuild what `to_json` returned."""
        try:
            return cls(tuple(Input(**one) for one in value))
        except TypeError:
            raise InputError("The inputs in config.json are damaged; restore the file or fit again.") from None


def since(demos: Demonstrations, happened: npt.NDArray[np.bool_]) -> FloatArray:
    """Log(1 + time since the last event) of every step, (n,); the event's own row is 0 from it."""
    steps = np.arange(demos.n_steps)
    begin = np.repeat(demos.offsets[:-1], demos.lengths)
    last = np.maximum.accumulate(np.where(happened | demos.first_steps, steps, 0))
    last = np.maximum(last, begin)
    times = demos.times
    if times is not None and np.asarray(times).dtype.kind in "iuf":
        clock = np.asarray(times, dtype=np.float64)
        return np.asarray(np.log1p(np.maximum(clock - clock[last], 0.0)))
    return np.asarray(np.log1p(steps - last))


def _one_row_later(values: npt.NDArray[Any], demos: Demonstrations, first: Any) -> npt.NDArray[Any]:
    """The value of the row before every step, ``first`` at the first steps."""
    return np.asarray(np.where(demos.first_steps, first, np.r_[values[:1], values[:-1]]))


def _declared(table: Table, text: str) -> tuple[str, int]:
    """Name of a column, and how many rows it is read later: none where it is known before the action of its row."""
    if text.endswith(NOW) and (table.frame is None or text not in table.frame.columns):
        return text.removesuffix(NOW), 0
    column, trajectory = column_of(table.frame, text, "the inputs"), table.demonstrations.trajectory_index
    values = column.astype(str).to_numpy()[table.order]
    changes = (values[1:] != values[:-1]) & (trajectory[1:] == trajectory[:-1])
    return text, int(changes.any())


def _complete(column: pd.Series[Any], name: str) -> None:
    if column.isna().any():
        raise missing("input", f"column {name!r}, row {int(np.argmax(column.isna()))}")


def _numbers(column: pd.Series[Any], name: str) -> FloatArray:
    _complete(column, name)
    return finite_numbers(column, "input", lambda row: f"column {name!r}, row {row}", "repair it")


def event_marks(column: pd.Series[Any], name: str) -> npt.NDArray[np.bool_]:
    """Rows at which something happened, (n,): 1 or true there, 0, false or empty elsewhere."""
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    wrong = ~np.isin(numbers, (0.0, 1.0)) & column.notna().to_numpy()
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"The event in column {name!r}, row {row} is {column.iloc[row]}; write 1 where it happens, else 0."
        )
    return np.asarray(numbers == 1.0)
