"""Segments as intervals: they cover the steps, in order, without overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl import Demonstrations
from prism_irl.data.intervals import interval_table, session_clock


def demos(lengths: list[int], times: Any = None) -> Demonstrations:
    n = sum(lengths)
    return Demonstrations(
        states=np.zeros(n, int), actions=np.zeros(n, int), offsets=np.cumsum([0, *lengths]), n_states=1, n_actions=1,
        times=None if times is None else np.asarray(times),
    )  # fmt: skip


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=5), st.sampled_from(["none", "own", "session"]), st.integers(0, 9)
)
def test_intervals_cover_all_steps_once(lengths: list[int], clock: str, seed: int) -> None:
    n = sum(lengths)
    own = np.concatenate([np.arange(length) * 0.5 for length in lengths])
    there = demos(lengths, {"none": None, "own": own, "session": np.arange(n) * 0.5 + 3}[clock])
    labels = np.random.default_rng(seed).integers(3, size=n)
    table = interval_table(there, labels, ["a", "b", "c"])
    assert (table["start"] < table["end"]).all()
    assert (table["start"].to_numpy()[1:] >= table["end"].to_numpy()[:-1] - 1e-9).all()
    assert table["steps"].sum() == n
    assert (table["end"] - table["start"]).sum() == pytest.approx(n * (1 if clock == "none" else 0.5), abs=0.5 * n)
    begin, _, _ = session_clock(there)
    for row in table.itertuples():
        inside = (begin >= row.start) & (begin < row.end)
        assert inside.sum() == row.steps
        assert (labels[inside] == row.intention).all()
        assert row.intention_name == "abc"[row.intention]


def test_dates_count_from_the_first() -> None:
    dates = np.array(["2024-01-01T00:00:00", "2024-01-01T00:00:02", "2024-01-01T00:00:04"], dtype="datetime64[ns]")
    begin, end, note = session_clock(demos([3], dates))
    assert begin.tolist() == [0, 2, 4]
    assert end.tolist() == [2, 4, 6]
    assert "of the table" in note
