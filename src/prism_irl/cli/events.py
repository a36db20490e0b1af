"""`--events`: columns of a table that mark what happened, for people to look at; no fit ever reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.data import tables
from prism_irl.errors import InputError


def read_events(table: tables.Table, names: Sequence[str]) -> dict[str, npt.NDArray[np.bool_]]:
    """Columns that mark steps at which something happened, {name: (n,) bool}: true or false, 1 or 0, or empty."""
    found: dict[str, npt.NDArray[np.bool_]] = {}
    for name in names:
        if table.frame is None:
            raise InputError(f"Events ({name!r}) are columns of a table, and an npz file has none; give a .csv file.")
        if name not in table.frame.columns:
            there = ", ".join(map(str, table.frame.columns[:50]))
            raise InputError(f"There is no column {name!r} for the events; the table has the columns {there}.")
        column = table.frame[name]
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        wrong = ~np.isin(numbers, (0.0, 1.0)) & column.notna().to_numpy()
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"The event in column {name!r}, row {row} is {column.iloc[row]}; write 1 where it happens, else 0."
            )
        found[name] = (numbers == 1.0)[table.order]
    return found


def refuse_events(dataset: str, names: Sequence[str]) -> None:
    """A named data set has no further columns."""
    if names:
        raise InputError(f"Events ({names[0]!r}) are columns of a table of your own; {dataset} has none.")
