"""Tables of continuous states and actions: columns that are observed, and columns that are done.

    prism fit arm.parquet --observe x,y,z,grip --act vx,vy,vz --intentions 5 --out runs/arm

A column may hold a number per row, or a list of numbers of one length (as LeRobot's tables do), which becomes as many
columns. What comes out are demonstrations in the units of the table; a fit standardises them with its
training data (`data.units`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.roles import check_single
from prism_irl.errors import InputError

if TYPE_CHECKING:
    from prism_irl.data.tables import Table

STATE, ACTION = "(no state)", "(no action)"
"""Columns that stand for tokens while a table without any is read."""


def column_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Names of columns, from a sequence or from one string with commas between them."""
    names = tuple(part.strip() for part in given.split(",")) if isinstance(given, str) else tuple(given)
    return tuple(name for name in names if name)


def read_measured(
    frame: pd.DataFrame,
    observe: str | Sequence[str],
    act: str | Sequence[str],
    read: Callable[[pd.DataFrame, str, str], Table],
) -> Table:
    """Read a frame whose states and actions are numbers; ``read`` does so for tokens in the columns named to it."""
    seen, done = column_names(observe), column_names(act)
    for names, role, other in ((seen, "observe", "act"), (done, "act", "observe")):
        if not names:
            raise InputError(f"Columns to --{other} are named and none to --{role}; name both.")
    for role, name in [*(("observe", name) for name in seen), *(("act", name) for name in done)]:
        if name not in frame.columns:
            there = ", ".join(map(str, frame.columns[:50]))
            raise InputError(f"There is no column {name!r} to --{role}; the table has the columns {there}.")
        check_single(frame, name)
    table = read(frame.assign(**{STATE: 0, ACTION: 0}), STATE, ACTION)
    order = table.order
    x, x_names = _matrix(frame, seen, "observation")
    y, y_names = _matrix(frame, done, "command")
    demos = replace(table.demonstrations, observations=x[order].astype(np.float32)).with_commands(
        y[order],
        motion_names=y_names,
        observation_names=x_names,
    )
    return table._replace(demonstrations=demos, frame=frame)


def _matrix(frame: pd.DataFrame, names: Sequence[str], what: str) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    """Columns as numbers (n, d), lists taken apart, and the names of the d columns."""
    parts, found = [], []
    for name in names:
        values = _numbers(frame[name], name, what)
        parts.append(values)
        found += [name] if values.shape[1] == 1 else [f"{name}[{i}]" for i in range(values.shape[1])]
    return np.concatenate(parts, axis=1), tuple(found)


def _numbers(column: pd.Series[Any], name: str, what: str) -> npt.NDArray[np.float64]:
    """One column as numbers, (n, width)."""
    first = column.iloc[0]
    if isinstance(first, list | tuple | np.ndarray):
        width = len(first)
        lengths = column.map(lambda value: len(value) if isinstance(value, list | tuple | np.ndarray) else -1)
        if width == 0 or (lengths != width).any():
            row = int(np.argmax(lengths != width)) if width else 0
            raise InputError(f"The {what} in column {name!r}, row {row} is no list of {width} numbers as in row 0.")
        try:
            values = np.stack([np.asarray(value, dtype=np.float64) for value in column])
        except (TypeError, ValueError):
            raise InputError(f"The column {name!r} holds lists that are not all numbers; give numbers.") from None
    else:
        values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)[:, None]
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise InputError(
            f"The {what} {column.iloc[row]} in column {name!r}, row {row} is not a finite number; repair or remove it."
        )
    return values


def commands_frame(demos: Demonstrations) -> dict[str, npt.NDArray[Any]]:
    """Columns of observations and commands under their names, for a table."""
    columns: dict[str, npt.NDArray[Any]] = {}
    for values, names, usual in (
        (demos.observations, demos.observation_names, "observation"),
        (demos.motions, demos.motion_names, "command"),
    ):
        if values is not None:
            given = names or tuple(f"{usual}_{i}" for i in range(values.shape[1]))
            columns |= {name: values[:, i] for i, name in enumerate(given)}
    return columns
