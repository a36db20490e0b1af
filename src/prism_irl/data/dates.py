"""Dates as people write them, 31/12/2025 10:00: read where the column leaves no doubt, and refused where it does.

ISO dates need no rule. Of others the first two numbers may be day and month or month and day; over a whole column one
number above 12 decides. Where none does, nobody guesses: `--dates` says it. Dots (31.12.2025) are day first everywhere.
"""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd

from prism_irl.errors import InputError

Dates = Literal["day-first", "month-first"]
ORDERS: tuple[Dates, ...] = ("day-first", "month-first")
WRITTEN = (
    r"^\s*(?P<first>\d{1,2})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4})"
    r"(?:,?[ T]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<sec>\d{2}(?:[.,]\d{1,9})?))?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?)?\s*$"
)
"""Day and month in either order, a year of four digits and, if there is one, a time of 24 hours or of AM and PM."""


def read_dates(values: pd.Series[Any], dates: Dates | None, column: str) -> pd.Series[Any]:
    """Moments (n,), of ISO dates in UTC; NaT where a cell is no date.

    Parameters
    ----------
    values : (n,)
    dates : {"day-first", "month-first"}, optional
        What comes first in dates that are not ISO; by default the order in which every cell is a date.
    column : str
        Named where the order cannot be told.
    """
    if dates is not None and dates not in ORDERS:
        raise InputError(f"Dates are read {' or '.join(ORDERS)}, not {dates!r}.")
    iso = pd.to_datetime(values, errors="coerce", format="ISO8601", utc=True).dt.tz_localize(None)
    if iso.notna().any():
        return iso
    codes, cells = pd.factorize(values.astype(str))
    parts = pd.Series(cells).str.extract(WRITTEN)
    read: dict[Dates, pd.Series[Any]] = {order: _moments(parts, order) for order in ORDERS}
    if dates is None:
        possible = [order for order in ORDERS if read[order].notna().all()]
        if len(possible) == 2 and not read[ORDERS[0]].equals(read[ORDERS[1]]) and not (parts["mark"] == ".").all():
            raise InputError(
                f"The times in column {column!r} ({cells[0]}, …) may begin with the day or with the month, and no "
                "number above 12 tells; say it with --dates day-first or --dates month-first."
            )
        return read[max(ORDERS, key=lambda order: int(read[order].notna().sum()))].iloc[codes].reset_index(drop=True)
    return read[dates].iloc[codes].reset_index(drop=True)


def _moments(parts: pd.DataFrame, order: Dates) -> pd.Series[Any]:
    """Moments of cells that were taken apart by `WRITTEN`; NaT where there is no such day or hour."""
    day, month = ("first", "second") if order == "day-first" else ("second", "first")
    date = {"year": parts["year"], "month": parts[month], "day": parts[day]}
    days = pd.to_datetime(pd.DataFrame(date).astype(float), errors="coerce")
    hour, minute = (parts[name].astype(float).fillna(0.0) for name in ("hour", "minute"))
    half = parts["half"].str.lower().str[0]
    hour = hour.where(half.isna(), hour % 12 + 12 * (half == "p"))
    second = parts["sec"].str.replace(",", ".").astype(float).fillna(0.0)
    clock = pd.to_timedelta(hour * 3600 + minute * 60 + second, unit="s")
    exists = (hour < 24) & (minute < 60) & (second < 61) & (half.isna() | parts["hour"].astype(float).between(1, 12))
    return (days + clock).where(exists)
