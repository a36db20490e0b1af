"""Covariates of a stream, row by row, as `data.covariates` reads them from a table.

A row's own action is not known before it is sent, nor is what came with it: inputs with a lag are those of the row
before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prism_irl.errors import InputError

if TYPE_CHECKING:
    from prism_irl.data.covariates import Input, Inputs

EVENT = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False, "": False}

Number = Callable[[list[str], int, int], float]
"""Cells of a row, a place in them and the row's number → the finite number there, or an `InputError`."""


class StreamedInputs:
    """Inputs of one row after another; `reset` where a trajectory begins.

    Parameters
    ----------
    inputs : those of the fit
    places : callable
        Names of columns → their places in a row; an `InputError` where one is missing.
    number : see `Number`
    time : str, optional
        Column of the times that events are counted in, where it has numbers; else steps are.
    """

    def __init__(self, inputs: Inputs, places: Callable[[list[str]], list[int]], number: Number, time: str | None):
        self.inputs, self.number = inputs.inputs, number
        self.at = places([one.column for one in self.inputs])
        events = any(one.kind == "since" for one in self.inputs)
        self.clock = places([time])[0] if events and time is not None else None
        self.reset()

    def reset(self) -> None:
        """Begin a trajectory, as an event does."""
        self.last: dict[str, float] = {}
        self.before: list[float] = [math.nan] * len(self.inputs)
        self.step = 0

    def read(self, cells: list[str], row: int) -> list[float]:
        """Standardised inputs of a row."""
        if self.clock is not None and row == 0 and not is_number(cells[self.clock]):
            self.clock = None  # dates: steps are counted, as in the fit
        now = float(self.step) if self.clock is None else self.number(cells, self.clock, row)
        self.step += 1
        own = [self._raw(one, cells, at, row) for one, at in zip(self.inputs, self.at, strict=True)]
        read = [before if one.lag else value for one, value, before in zip(self.inputs, own, self.before, strict=True)]
        for i, one in enumerate(self.inputs):
            if one.kind == "since":
                read[i] = self._since(one, bool(self.before[i] == 1.0 if one.lag else own[i]), now)
        self.before = own
        return [
            0.0 if math.isnan(value) else (value - one.mean) / one.spread
            for one, value in zip(self.inputs, read, strict=True)
        ]

    def _since(self, one: Input, happened: bool, now: float) -> float:
        if happened or one.column not in self.last:
            self.last[one.column] = now
        return math.log1p(max(now - self.last[one.column], 0.0))

    def _raw(self, one: Input, cells: list[str], at: int, row: int) -> float:
        if one.kind == "since":
            mark: Any = EVENT.get(cells[at].strip().lower())
            if mark is None:
                raise InputError(
                    f"Row {row} of the stream has {cells[at]!r} in column {one.column!r}; send 1 at an event, else 0."
                )
            return float(mark)
        if one.level is None:
            return self.number(cells, at, row)
        if not cells[at].strip():
            raise InputError(f"Row {row} of the stream has nothing in column {one.column!r}; send a word.")
        return float(cells[at] == one.level)


def is_number(text: str) -> bool:
    """Whether a cell is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
