from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl import HIQL, Demonstrations, InputError
from prism_irl.data.interop import (
    from_pynapple,
    interval_table,
    session_clock,
    to_boris,
    to_pynapple,
    to_xarray,
)
from prism_irl.data.labels import with_labels


def test_pandas_in_and_out(make_demos: Callable[..., Demonstrations]) -> None:
    demos = make_demos(1, groups=list("aabbccdd"))
    again = Demonstrations.from_table(demos.to_pandas())
    for name in ("states", "actions", "offsets"):
        np.testing.assert_array_equal(getattr(again, name), getattr(demos, name))
    np.testing.assert_array_equal(again.groups, demos.groups)


def test_posterior_as_xarray(make_demos: Callable[..., Demonstrations], tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray", reason="needs the extra interop")
    table = make_demos(2, groups=list("aabbccdd")).to_pandas()
    table["state"] = "room " + table["state"].astype(str)
    demos = Demonstrations.from_table(table)
    model = HIQL(2, n_starts=1, max_iterations=3, device="cpu").fit(demos)
    found = to_xarray(model, demos)
    np.testing.assert_array_equal(found.posterior, model.predict_proba(demos))
    np.testing.assert_array_equal(found.segmentation, model.predict(demos))
    assert float(found.log_likelihood.mean()) == pytest.approx(model.score(demos))
    assert found.sizes == {"step": demos.n_steps, "intention": 2}
    lengths = found.log_likelihood.groupby("trajectory").count()
    np.testing.assert_array_equal(lengths, demos.lengths)
    assert found.state.dtype.kind == "U"
    assert all(variable.dtype.kind != "O" for variable in found.variables.values())
    restored = xarray.Dataset.from_dict(found.to_dict())
    assert restored.identical(found)
    found.to_netcdf(tmp_path / "posterior.nc", engine="scipy")
    with xarray.open_dataset(tmp_path / "posterior.nc", engine="scipy") as stored:
        np.testing.assert_array_equal(stored.posterior, found.posterior)
        again = Demonstrations.from_table(stored.drop_dims("intention").to_dataframe().reset_index(drop=True))
    for name in ("states", "actions", "offsets", "groups"):
        np.testing.assert_array_equal(getattr(again, name), getattr(demos, name))
    assert model.score(again) == model.score(demos)


# -- intervals of time: one row per stretch of an intention ------------------------------------------------------------


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


# -- pynapple and BORIS ------------------------------------------------------------------------------------------------


def series(values: Any, columns: Any = None) -> Any:
    """What a Tsd or a TsdFrame is read by: times, values, and the interval in which it was recorded."""
    times = np.arange(len(values)) / 2
    whole = SimpleNamespace(start=times[:1], end=times[-1:])
    return SimpleNamespace(t=times, d=np.asarray(values), columns=columns, time_support=whole)


def test_time_series_become_a_trajectory_per_interval() -> None:
    state, action = series(np.arange(20) % 4), series(np.arange(20) % 2)
    demos = from_pynapple(state, action, SimpleNamespace(start=np.array([0.0, 5.0]), end=np.array([4.0, 9.0])))
    assert demos.lengths.tolist() == [9, 9]
    assert demos.states[9:].tolist() == [(10 + i) % 4 for i in range(9)]
    assert demos.times is not None
    assert demos.times[9] == 5.0
    assert from_pynapple(state, action).lengths.tolist() == [20]
    numbers = series(np.random.default_rng(0).normal(size=(20, 2)), ["x", "y"])
    assert from_pynapple(numbers, numbers).observation_names == ("state x", "state y")
    for wrong, said in (((state, series([0, 1])), "20 times and the actions 2"), ((numbers, action), "One of states")):
        with pytest.raises(InputError, match=said):
            from_pynapple(*wrong)
    with pytest.raises(InputError, match="as Tsd or TsdFrame"):
        from_pynapple([0, 1], [1, 0])


def test_intentions_go_to_pynapple_and_back(make_demos: Callable[..., Demonstrations]) -> None:
    pynapple = pytest.importorskip("pynapple", reason="needs pynapple")
    demos = make_demos(2, lengths=(5, 4))
    labels = np.array([0, 0, 1, 1, 1, 0, 1, 1, 1])
    found = to_pynapple(demos, labels, ["water", "home"])
    assert list(found["intention_name"]) == ["water", "home", "water", "home"]
    beliefs = to_pynapple(demos, np.eye(2)[labels], ["water", "home"])
    assert isinstance(beliefs, pynapple.TsdFrame)
    again = from_pynapple(pynapple.Tsd(beliefs.t, demos.states), pynapple.Tsd(beliefs.t, demos.actions))
    assert again.states.tolist() == demos.states.tolist()


AGGREGATED = """Observation id,Observation date,Description,Observation type,Source,Media duration (s),FPS (frame/s),\
Subject,Observation duration by subject by observation,Behavior,Behavioral category,Modifier #1,Behavior type,\
Start (s),Stop (s),Duration (s),Media file name,Comment start,Comment stop
0,2026-01-01 10:00:00,,Media file,player #1:a.mp4,60.0,25.0,m1,9.0,groom,,,STATE,0.0,2.0,2.0,a.mp4,,
0,2026-01-01 10:00:00,,Media file,player #1:a.mp4,60.0,25.0,m1,9.0,rear,,,STATE,2.0,4.0,2.0,a.mp4,,
0,2026-01-01 10:00:00,,Media file,player #1:a.mp4,60.0,25.0,m1,9.0,sniff,,,POINT,1.0,1.0,0,a.mp4,,
""".replace("\\\n", "")


def test_events_of_boris_are_labels(tmp_path: Path) -> None:
    demos = replace(Demonstrations.from_arrays([[0] * 10], [[0] * 10]), times=np.arange(10) / 2.0)
    (tmp_path / "events.csv").write_text(AGGREGATED)
    told = with_labels(demos, tmp_path / "events.csv")
    assert told.partial_labels is not None
    assert told.partial_labels.tolist() == [0] * 4 + [1] * 4 + [-1] * 2
    assert told.partial_label_names == ("groom", "rear")
    bouts = interval_table(demos, np.maximum(told.partial_labels, 0), told.partial_label_names)
    to_boris(bouts).to_csv(tmp_path / "t.csv", index=False)
    again = with_labels(demos, tmp_path / "t.csv")
    assert again.partial_labels is not None
    assert again.partial_labels.tolist() == [0] * 4 + [1] * 4 + [0] * 2
    lines = (tmp_path / "t.csv").read_text().splitlines()
    (tmp_path / "t.csv").write_text("\n".join(lines[:2] + lines[3:]))
    with pytest.raises(InputError, match=r"groom at line 2 of .* is not followed by its STOP"):
        with_labels(demos, tmp_path / "t.csv")
