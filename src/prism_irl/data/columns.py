"""Single columns of a table as arrays: known labels, groups, times and numbers, each checked cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.data.dates import Dates, read_dates
from prism_irl.data.mapped import storable
from prism_irl.data.vocabulary import Array, Where, factorize, in_all, missing
from prism_irl.errors import InputError


def read_groups(
    codes: Array, names: pd.Series[Any], key: Sequence[str], values: pd.Series[Any], role: str, where: Where
) -> Array:
    """Group of each trajectory, (N,); it may not change within one."""
    group, group_names = factorize(values, role, where)
    first = group[np.unique(codes, return_index=True)[1]]
    if (group != first[codes]).any():
        row = int(np.argmax(group != first[codes]))
        raise InputError(
            f"Trajectory {names[codes[row]]} belongs to two groups, {group_names[first[codes[row]]]} and "
            f"{group_names[group[row]]} ({where(row)}); give it one group, or, if its numbers restart with every "
            f"group, name both columns: --trajectory {values.name},{','.join(key)}."
        )
    return storable(group_names[first])


def read_times(values: pd.Series[Any], role: str, where: Where, dates: Dates | None = None) -> Array:
    """Times (n,) that sort: numbers and durations as they are, anything else read as dates; see `dates.read_dates`."""
    if values.isna().any():
        raise missing(role, where(int(np.argmax(values.isna()))), int(values.isna().sum()))
    plain = pd.Series(np.asarray(values)).infer_objects()
    if plain.dtype.kind in "biufm":
        return plain.to_numpy()
    moments = read_dates(plain, dates, str(values.name))
    if moments.isna().any():
        row = int(np.argmax(moments.isna()))
        raise InputError(
            f"The time {plain[row]} at {where(row)} is neither a number nor a date (ISO, 2025-12-31 10:00:00, or "
            "31/12/2025 10:00 in all cells); convert the column, or rename it to keep the rows in the order they have"
            f"{in_all(int(moments.isna().sum()))}."
        )
    return moments.to_numpy()


def read_numbers(values: pd.Series[Any], role: str, where: Where) -> npt.NDArray[np.float32]:
    """One column of observations, (n,)."""
    with np.errstate(over="ignore"):
        numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float32, na_value=np.nan)
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        count = in_all(int((~np.isfinite(numbers)).sum()))
        raise InputError(
            f"The {role} {values.iloc[row]} at {where(row)} is not a finite number; repair or remove it{count}."
        )
    return numbers
