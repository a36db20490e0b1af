"""Dates are read in the one order that makes dates of all cells, and asked for where there are two."""

from __future__ import annotations

from datetime import datetime

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.dates import Dates, read_dates
from prism_irl.errors import InputError

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(lambda t: t.replace(microsecond=0))
WRITTEN: dict[Dates, str] = {"day-first": "%d/%m/%Y", "month-first": "%m/%d/%Y"}


def read(*cells: str, dates: Dates | None = None) -> list[str]:
    return [str(moment) for moment in read_dates(pd.Series(cells), dates, "t")]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(MOMENTS, min_size=1, max_size=5),
    st.sampled_from(sorted(WRITTEN)),
    st.sampled_from(["%H:%M:%S", "%I:%M:%S %p"]),
)
def test_what_was_written_is_read_or_asked_for(moments: list[datetime], order: Dates, clock: str) -> None:
    cells = pd.Series([moment.strftime(f"{WRITTEN[order]} {clock}") for moment in moments])
    assert list(read_dates(cells, order, "t")) == moments
    days = [(moment.day, moment.month) for moment in moments]
    if any(day > 12 for day, _ in days) or all(day == month for day, month in days):
        assert list(read_dates(cells, None, "t")) == moments
        return
    with pytest.raises(InputError, match="--dates day-first or --dates month-first"):
        read_dates(cells, None, "t")


def test_iso_is_never_asked_about() -> None:
    assert read("2026-04-03 10:00", "2026/04/04") == ["2026-04-03 10:00:00", "2026-04-04 00:00:00"]


def test_dots_are_day_first() -> None:
    assert read("3.4.2026 9:05", "4.4.2026") == ["2026-04-03 09:05:00", "2026-04-04 00:00:00"]


@pytest.mark.parametrize(
    "cell",
    ["31/02/2026", "3/4/26", "31/12/2025 25:00", "31/12/2025 10:61", "31/12/2025 13:00 PM", "31/12-2025", "soon"],
)
def test_no_such_day_is_no_date(cell: str) -> None:
    assert read("31/12/2025", cell) == ["2025-12-31 00:00:00", "NaT"]


def test_an_order_that_does_not_fit_all_cells_leaves_holes() -> None:
    assert read("31/12/2025", "12/31/2025") == ["2025-12-31 00:00:00", "NaT"]


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(InputError, match="year-first"):
        read("3/4/2026", dates="year-first")  # type: ignore[arg-type]
