from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.read import read_data
from prism_irl.data.rows import Dates, read_dates
from prism_irl.errors import InputError
from prism_irl.labels import label_accuracy
from prism_irl.models.hiql import HIQL
from support import assert_same, prism, refused
from worlds.cohort import CohortWorld

# -- trajectories ------------------------------------------------------------------------------------------------------


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
        one = read_data(table, trajectory="animal,bout", **NAMED).demonstrations
        other = read_data(table, trajectory=["animal", "bout"], **NAMED).demonstrations
        assert_same(one, other)
        assert one.trajectory_names is not None
        assert one.trajectory_names.tolist() == ["m0/0", "m0/1", "m1/0", "m1/1", "m2/0", "m2/1"]
        assert one.lengths.tolist() == [30] * 6

    def test_a_column_with_a_comma_in_its_name_is_one_column(self) -> None:
        table = bouts(animals=1).rename(columns={"bout": "animal,bout"})
        assert len(read_data(table, trajectory="animal,bout", **NAMED).demonstrations) == 2

    def test_a_missing_part_is_named(self) -> None:
        refused(bouts(), "no column 'cage' for the trajectory", trajectory="cage,bout", **NAMED)

    @given(st.data())
    @settings(max_examples=30, deadline=None)
    def test_like_grouping_by_all_columns(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(1, 30))
        a, b, s = (data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)) for _ in range(3))
        frame = pd.DataFrame({"a": a, "b": b, "state": s, "action": 0})
        demos = read_data(frame, trajectory="a,b").demonstrations
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
        table = read_data(bouts().drop(columns="animal"), trajectory="bout", **NAMED)
        assert len(table.demonstrations) == 2
        (note,) = table.notes
        assert "3 separate pieces" in note
        assert "row 60" in note

    def test_rows_that_are_mixed_on_purpose_are_fine(self) -> None:
        table = bouts(animals=1, numbers=6, time=np.tile(np.arange(30), 6), rig=np.arange(180))
        mixed = table.sort_values(["time", "bout"]).reset_index(drop=True)
        assert read_data(mixed, trajectory="bout", **NAMED).notes == ()
        in_pieces = pd.concat([table[table["time"] < 15], table[table["time"] >= 15]])
        assert read_data(in_pieces, trajectory="bout", **NAMED).notes == ()


class TestTimes:
    def test_rows_at_the_same_time_are_counted_and_the_first_is_named(self, tmp_path: Path) -> None:
        table = bouts(animals=1, time=np.tile(np.arange(30) // 2, 2))
        table.to_csv(tmp_path / "a.csv", index=False)
        options = {"trajectory": "bout", **NAMED}
        refused(tmp_path / "a.csv", "time 0", "line 2", "line 3", "30 rows", "--ties keep", **options)
        assert read_data(tmp_path / "a.csv", ties="keep", **options).demonstrations.n_steps == 60

    @pytest.mark.parametrize("unit", [1, 0.02, pd.Timedelta("20ms")])
    def test_gaps_of_a_regular_clock_are_noted_and_can_be_cut(self, unit: Any) -> None:
        beats = pd.Series(np.tile(np.r_[np.arange(10), np.arange(15, 35)], 2))
        table = bouts(
            animals=1,
            time=pd.Timestamp("2024-01-01") + beats * unit if isinstance(unit, pd.Timedelta) else beats * unit,
        )
        whole = read_data(table, trajectory="bout", **NAMED)
        (note,) = whole.notes
        assert "2 gaps" in note
        assert "row 10" in note
        seconds = unit.total_seconds() if isinstance(unit, pd.Timedelta) else unit
        assert f"--max-gap {1.5 * seconds:g}" in note
        cut = read_data(table, trajectory="bout", max_gap=1.5 * seconds, **NAMED)
        assert cut.notes == ()
        assert cut.demonstrations.trajectory_names is not None
        assert cut.demonstrations.trajectory_names.tolist() == ["0", "0, part 2", "1", "1, part 2"]
        assert cut.demonstrations.lengths.tolist() == [10, 20, 10, 20]
        np.testing.assert_array_equal(cut.demonstrations.states, whole.demonstrations.states)

    def test_a_clock_of_events_has_no_gaps(self) -> None:
        times = np.cumsum(np.random.default_rng(0).exponential(size=60))
        assert read_data(bouts(animals=1, time=times), trajectory="bout", **NAMED).notes == ()

    def test_a_gap_needs_a_clock(self) -> None:
        refused(bouts(animals=1), "--max-gap", "--time", trajectory="bout", max_gap=3.0, **NAMED)


def test_a_recording_that_is_there_twice_is_noted() -> None:
    table = bouts(animals=1)
    twice = pd.concat([table, table[table["bout"] == 0].assign(bout=7)])
    (note,) = read_data(twice, trajectory="bout", **NAMED).notes
    assert "Trajectories 0 and 7 are the same" in note
    short = read_data(bouts(animals=1, length=3, node=0, move=0), trajectory="bout", **NAMED)
    assert short.notes == ()


class TestColumns:
    def test_numbers_stay_numbers_whatever_their_type(self) -> None:
        table = bouts(animals=1)
        plain = read_data(table, trajectory="bout", **NAMED)
        for kind in ("float64", "Int64", "Float64", "category"):
            same = table.assign(
                bout=table["bout"].astype(kind), node=table["node"].astype(kind), move=table["move"].astype(kind)
            )
            other = read_data(same, trajectory="bout", **NAMED)
            assert_same(other.demonstrations, plain.demonstrations)
            assert other[3:] == plain[3:]

    def test_days_are_names_of_trajectories(self) -> None:
        table = bouts(animals=1, bout=np.repeat(pd.to_datetime(["2024-03-01", "2024-03-02"]), 30))
        names = read_data(table, trajectory="bout", **NAMED).demonstrations.trajectory_names
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
        assert_same(
            read_data(tmp_path / "a.xlsx", **options).demonstrations, read_data(table, **options).demonstrations
        )


# -- rows without state or action --------------------------------------------------------------------------------------


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "trajectory": list("aaaabb"),
            "state": ["x", "y", None, "x", "y", "y"],
            "action": [0, 1, 0, 1, np.nan, 0],
            "group": list("ggggii"),
        }
    )


def test_the_error_names_the_place_and_two_ways_out(frame):
    with pytest.raises(InputError, match=r"row 2 \(trajectory a\) is missing.*skip.*split"):
        read_data(frame)


def test_split_begins_a_new_trajectory_after_each_gap(frame):
    found = read_data(frame, missing="split")
    assert found.demonstrations.trajectory_names.tolist() == ["a/0", "a/1", "b/1"]
    assert found.demonstrations.lengths.tolist() == [2, 1, 1]
    assert found.demonstrations.groups.tolist() == ["g", "g", "i"]
    assert len(found.frame) == 4


def test_split_follows_time_and_not_the_rows(frame):
    found = read_data(frame.iloc[:4].assign(time=[3, 2, 1, 0]), missing="split").demonstrations
    assert found.lengths.tolist() == [2, 1] or found.lengths.tolist() == [1, 2]
    assert found.n_steps == 3


def test_skip_keeps_every_row_and_gives_the_missing_ones_one_thing_to_do(frame):
    found = read_data(frame, missing="skip")
    demos = found.demonstrations
    assert demos.states.tolist() == [0, 1, 2, 0, 2, 1]
    assert demos.actions.tolist() == [0, 1, 0, 1, 0, 0]
    assert demos.valid_actions.tolist() == [[True, True], [True, True], [True, False]]
    again = read_data(frame, missing="skip", states=found.states, actions=found.actions).demonstrations
    np.testing.assert_array_equal(again.states, demos.states)


def test_without_gaps_split_changes_nothing(frame):
    whole = frame.iloc[[0, 1, 3, 5]]
    assert read_data(whole, missing="split").demonstrations.checksum() == read_data(whole).demonstrations.checksum()


def test_nothing_at_all_is_refused(frame):
    with pytest.raises(InputError, match="Every row lacks"):
        read_data(frame.assign(state=None), missing="skip")
    with pytest.raises(InputError, match="choose error, skip or split"):
        read_data(frame, missing="guess")


@pytest.mark.parametrize(("share", "most"), [(0.1, 0.02), (0.3, 0.05)])
def test_labels_survive_missing_actions(share, most):
    whole = CohortWorld(animals=6, trajectories=5, horizon=60).simulate(0).demonstrations.to_pandas()
    gaps = whole.assign(action=whole["action"].mask(np.random.default_rng(0).random(len(whole)) < share))
    accuracy = {}
    for name, table in (("whole", whole), ("gaps", gaps)):
        demos = read_data(table, missing="skip").demonstrations
        model = HIQL(2, n_starts=2).fit(demos)
        accuracy[name] = label_accuracy(demos.labels, model.predict(demos))
        lost = demos.states == demos.n_states - 1
        np.testing.assert_allclose(model.posterior(demos).log_likelihood[lost], 0, atol=1e-12)
    assert accuracy["gaps"] > accuracy["whole"] - most


def test_on_the_command_line_a_run_keeps_its_way_with_gaps(tmp_path):
    frame = CohortWorld(animals=4, trajectories=2, horizon=40).simulate(0).demonstrations.to_pandas()
    frame["drug"] = np.where(frame["group"] < "a04", "saline", "drug")
    gaps = frame.assign(action=frame["action"].mask(np.random.default_rng(0).random(len(frame)) < 0.1))
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    quick = ("--method", "hiql", "--intentions", 2, "--n-starts", 1, "--simulations", 0, "--out", "run")
    refused = prism("fit", "gaps.csv", *quick, cwd=tmp_path)
    assert refused.returncode == 2
    assert "--missing skip" in refused.stderr
    done = prism("fit", "gaps.csv", "--missing", "skip", *quick, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert prism("score", "run", "gaps.csv", cwd=tmp_path).returncode == 0
    done = prism("contrast", "run", "--by", "drug", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(pd.read_parquet(tmp_path / "run" / "segments.parquet")) == len(frame)


# -- dates -------------------------------------------------------------------------------------------------------------

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(lambda t: t.replace(microsecond=0))
WRITTEN: dict[Dates, str] = {"day-first": "%d/%m/%Y", "month-first": "%m/%d/%Y"}


def moments(*cells: str, dates: Dates | None = None) -> list[str]:
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
    assert moments("2026-04-03 10:00", "2026/04/04") == ["2026-04-03 10:00:00", "2026-04-04 00:00:00"]


def test_dots_are_day_first() -> None:
    assert moments("3.4.2026 9:05", "4.4.2026") == ["2026-04-03 09:05:00", "2026-04-04 00:00:00"]


@pytest.mark.parametrize(
    "cell",
    ["31/02/2026", "3/4/26", "31/12/2025 25:00", "31/12/2025 10:61", "31/12/2025 13:00 PM", "31/12-2025", "soon"],
)
def test_no_such_day_is_no_date(cell: str) -> None:
    assert moments("31/12/2025", cell) == ["2025-12-31 00:00:00", "NaT"]


def test_an_order_that_does_not_fit_all_cells_leaves_holes() -> None:
    assert moments("31/12/2025", "12/31/2025") == ["2025-12-31 00:00:00", "NaT"]


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(InputError, match="year-first"):
        moments("3/4/2026", dates="year-first")  # type: ignore[arg-type]
