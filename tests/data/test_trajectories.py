"""Rows become trajectories as a person expects, and what cannot be meant is refused with the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.tables import read
from support import assert_same, refused


def bouts(animals: int = 3, numbers: int = 2, length: int = 30, **columns: Any) -> pd.DataFrame:
    """Bouts whose numbers restart with every animal."""
    rng = np.random.default_rng(0)
    n = animals * numbers * length
    base = {
        "animal": np.repeat([f"m{i}" for i in range(animals)], numbers * length),
        "bout": np.tile(np.repeat(np.arange(numbers), length), animals),
        "node": rng.integers(5, size=n),
        "move": rng.integers(3, size=n),
    }
    return pd.DataFrame(base | columns)


NAMED: dict[str, Any] = {"state": "node", "action": "move"}


class TestKeys:
    def test_several_columns_name_a_trajectory(self) -> None:
        table = bouts()
        one = read(table, trajectory="animal,bout", **NAMED).demonstrations
        other = read(table, trajectory=["animal", "bout"], **NAMED).demonstrations
        assert_same(one, other)
        assert one.trajectory_names is not None
        assert one.trajectory_names.tolist() == ["m0/0", "m0/1", "m1/0", "m1/1", "m2/0", "m2/1"]
        assert one.lengths.tolist() == [30] * 6

    def test_a_column_with_a_comma_in_its_name_is_one_column(self) -> None:
        table = bouts(animals=1).rename(columns={"bout": "animal,bout"})
        assert len(read(table, trajectory="animal,bout", **NAMED).demonstrations) == 2

    def test_a_missing_part_is_named(self) -> None:
        refused(bouts(), "no column 'cage' for the trajectory", trajectory="cage,bout", **NAMED)

    @given(st.data())
    @settings(max_examples=30, deadline=None)
    def test_like_grouping_by_all_columns(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(1, 30))
        a, b, s = (data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)) for _ in range(3))
        frame = pd.DataFrame({"a": a, "b": b, "state": s, "action": 0})
        demos = read(frame, trajectory="a,b").demonstrations
        keys = list(dict.fromkeys(zip(a, b, strict=True)))
        expected = [[s[i] for i in range(n) if (a[i], b[i]) == key] for key in keys]
        assert [part.tolist() for part in np.split(demos.states, demos.offsets[1:-1])] == expected


class TestRestarts:
    @pytest.mark.parametrize("clock", [None, "own", "apart"])
    def test_numbers_that_restart_name_both_columns(self, clock: str | None) -> None:
        n = 30
        times = {
            None: {},
            "own": {"time": np.tile(np.arange(n), 6)},
            "apart": {"time": np.tile(np.arange(2 * n), 3) + np.repeat([0, 0.3, 0.6], 2 * n)},
        }[clock]
        refused(
            bouts(**times), "Trajectory 0", "row 60", "'animal'", "--trajectory animal,bout", trajectory="bout", **NAMED
        )

    def test_a_single_bout_per_animal_restarts_its_clock(self) -> None:
        table = bouts(numbers=1, time=np.tile(np.arange(30), 3))
        refused(table, "row 30", "--trajectory animal,bout", trajectory="bout", **NAMED)

    def test_with_groups_the_way_out_is_named(self) -> None:
        refused(bouts(), "--trajectory animal,bout", trajectory="bout", group="animal", **NAMED)

    def test_pieces_that_no_column_tells_apart_are_noted(self) -> None:
        table = read(bouts().drop(columns="animal"), trajectory="bout", **NAMED)
        assert len(table.demonstrations) == 2
        (note,) = table.notes
        assert "3 separate pieces" in note
        assert "row 60" in note

    def test_rows_that_are_mixed_on_purpose_are_fine(self) -> None:
        table = bouts(animals=1, numbers=6, time=np.tile(np.arange(30), 6), rig=np.arange(180))
        mixed = table.sort_values(["time", "bout"]).reset_index(drop=True)
        assert read(mixed, trajectory="bout", **NAMED).notes == ()
        in_pieces = pd.concat([table[table["time"] < 15], table[table["time"] >= 15]])
        assert read(in_pieces, trajectory="bout", **NAMED).notes == ()


class TestTimes:
    def test_rows_at_the_same_time_are_counted_and_the_first_is_named(self, tmp_path: Path) -> None:
        table = bouts(animals=1, time=np.tile(np.arange(30) // 2, 2))
        table.to_csv(tmp_path / "a.csv", index=False)
        options = {"trajectory": "bout", **NAMED}
        refused(tmp_path / "a.csv", "time 0", "line 2", "line 3", "30 rows", "--ties keep", **options)
        assert read(tmp_path / "a.csv", ties="keep", **options).demonstrations.n_steps == 60

    @pytest.mark.parametrize("unit", [1, 0.02, pd.Timedelta("20ms")])
    def test_gaps_of_a_regular_clock_are_noted_and_can_be_cut(self, unit: Any) -> None:
        beats = pd.Series(np.tile(np.r_[np.arange(10), np.arange(15, 35)], 2))
        table = bouts(
            animals=1,
            time=pd.Timestamp("2024-01-01") + beats * unit if isinstance(unit, pd.Timedelta) else beats * unit,
        )
        whole = read(table, trajectory="bout", **NAMED)
        (note,) = whole.notes
        assert "2 gaps" in note
        assert "row 10" in note
        seconds = unit.total_seconds() if isinstance(unit, pd.Timedelta) else unit
        assert f"--max-gap {1.5 * seconds:g}" in note
        cut = read(table, trajectory="bout", max_gap=1.5 * seconds, **NAMED)
        assert cut.notes == ()
        assert cut.demonstrations.trajectory_names is not None
        assert cut.demonstrations.trajectory_names.tolist() == ["0", "0, part 2", "1", "1, part 2"]
        assert cut.demonstrations.lengths.tolist() == [10, 20, 10, 20]
        np.testing.assert_array_equal(cut.demonstrations.states, whole.demonstrations.states)

    def test_a_clock_of_events_has_no_gaps(self) -> None:
        times = np.cumsum(np.random.default_rng(0).exponential(size=60))
        assert read(bouts(animals=1, time=times), trajectory="bout", **NAMED).notes == ()

    def test_a_gap_needs_a_clock(self) -> None:
        refused(bouts(animals=1), "--max-gap", "--time", trajectory="bout", max_gap=3.0, **NAMED)


def test_a_recording_that_is_there_twice_is_noted() -> None:
    table = bouts(animals=1)
    twice = pd.concat([table, table[table["bout"] == 0].assign(bout=7)])
    (note,) = read(twice, trajectory="bout", **NAMED).notes
    assert "Trajectories 0 and 7 are the same" in note
    short = read(bouts(animals=1, length=3, node=0, move=0), trajectory="bout", **NAMED)
    assert short.notes == ()


class TestColumns:
    def test_numbers_stay_numbers_whatever_their_type(self) -> None:
        table = bouts(animals=1)
        plain = read(table, trajectory="bout", **NAMED)
        for kind in ("float64", "Int64", "Float64", "category"):
            same = table.assign(
                bout=table["bout"].astype(kind), node=table["node"].astype(kind), move=table["move"].astype(kind)
            )
            other = read(same, trajectory="bout", **NAMED)
            assert_same(other.demonstrations, plain.demonstrations)
            assert other[3:] == plain[3:]

    def test_days_are_names_of_trajectories(self) -> None:
        table = bouts(animals=1, bout=np.repeat(pd.to_datetime(["2024-03-01", "2024-03-02"]), 30))
        names = read(table, trajectory="bout", **NAMED).demonstrations.trajectory_names
        assert names is not None
        assert [str(name)[:10] for name in names] == ["2024-03-01", "2024-03-02"]

    def test_bad_rows_are_counted_and_the_first_is_named_by_its_line(self, tmp_path: Path) -> None:
        text = 'trajectory,state,action,note\n\n1,0,0,"two\nlines"\n1,-3,0,\n1,-4,0,\n'
        (tmp_path / "a.csv").write_text(text)
        refused(tmp_path / "a.csv", "The state -3 ", "line 5", "(2 such rows in all)")

    def test_excel_files_by_extra(self, tmp_path: Path) -> None:
        pytest.importorskip("openpyxl")
        table = bouts(animals=1)
        table.to_excel(tmp_path / "a.xlsx", index=False)
        options = {"trajectory": "bout", **NAMED}
        assert_same(read(tmp_path / "a.xlsx", **options).demonstrations, read(table, **options).demonstrations)
