from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.read import UNKNOWN_NAME, read_data, to_pandas
from prism_irl.data.rows import Dates, Vocabulary, read_dates
from prism_irl.errors import InputError
from prism_irl.labels import label_accuracy
from prism_irl.models.presets import HIQL
from support import assert_same, frame, one_sentence, prism, refused
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
        text = 'trajectory,state,action,note\n\n1,0,0,"two\nlines"\n1,inf,0,\n1,inf,0,\n'
        (tmp_path / "a.csv").write_text(text)
        refused(tmp_path / "a.csv", "The state inf ", "line 5", "(2 such rows in all)")

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
def gappy():
    return pd.DataFrame(
        {
            "trajectory": list("aaaabb"),
            "state": ["x", "y", None, "x", "y", "y"],
            "action": [0, 1, 0, 1, np.nan, 0],
            "group": list("ggggii"),
        }
    )


def test_the_error_names_the_place_and_two_ways_out(gappy):
    with pytest.raises(InputError, match=r"row 2 \(trajectory a\) is missing.*skip.*split"):
        read_data(gappy)


def test_split_begins_a_new_trajectory_after_each_gap(gappy):
    found = read_data(gappy, missing="split")
    assert found.demonstrations.trajectory_names.tolist() == ["a/0", "a/1", "b/1"]
    assert found.demonstrations.lengths.tolist() == [2, 1, 1]
    assert found.demonstrations.groups.tolist() == ["g", "g", "i"]
    assert len(found.frame) == 4


def test_split_follows_time_and_not_the_rows(gappy):
    found = read_data(gappy.iloc[:4].assign(time=[3, 2, 1, 0]), missing="split").demonstrations
    assert found.lengths.tolist() == [2, 1] or found.lengths.tolist() == [1, 2]
    assert found.n_steps == 3


def test_skip_keeps_every_row_and_gives_the_missing_ones_one_thing_to_do(gappy):
    found = read_data(gappy, missing="skip")
    demos = found.demonstrations
    assert demos.states.tolist() == [0, 1, 2, 0, 2, 1]
    assert demos.actions.tolist() == [0, 1, 0, 1, 0, 0]
    assert demos.valid_actions.tolist() == [[True, True], [True, True], [True, False]]
    again = read_data(gappy, missing="skip", states=found.states, actions=found.actions).demonstrations
    np.testing.assert_array_equal(again.states, demos.states)


def test_without_gaps_split_changes_nothing(gappy):
    whole = gappy.iloc[[0, 1, 3, 5]]
    assert read_data(whole, missing="split").demonstrations.checksum() == read_data(whole).demonstrations.checksum()


def test_nothing_at_all_is_refused(gappy):
    with pytest.raises(InputError, match="Every row lacks"):
        read_data(gappy.assign(state=None), missing="skip")
    with pytest.raises(InputError, match="choose error, skip or split"):
        read_data(gappy, missing="guess")


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


# -- vocabulary


class TestVocabulary:
    @pytest.mark.parametrize(
        ("values", "names", "ids"),
        [
            ([0, 3, 1], None, [0, 3, 1]),
            ([0.0, 3.0, 1.0], None, [0, 3, 1]),
            (pd.array([0, 3, 1], dtype="Int64"), None, [0, 3, 1]),
            (np.array([0, 3, 1], dtype=np.uint64), None, [0, 3, 1]),
            (pd.Series([0, 3, 1], dtype=object), None, [0, 3, 1]),
            (["c", "a", "b", "a"], ("a", "b", "c"), [2, 0, 1, 0]),
            (["10", "9"], ("10", "9"), [0, 1]),
            (pd.Categorical(["c", "a"], categories=["z", "c", "a"]), ("a", "c"), [1, 0]),
            ([True, False], ("False", "True"), [1, 0]),
            ([10_000, 9, 10_000], ("9", "10000"), [1, 0, 1]),
            (np.array([2**63 + 5, 7], dtype=np.uint64), ("7", str(2**63 + 5)), [1, 0]),
            ([1e6, 9.0], ("9", "1000000"), [1, 0]),
        ],
    )
    def test_ids_and_labels(self, values: object, names: tuple[str, ...] | None, ids: list[int]) -> None:
        vocabulary = Vocabulary.learn(values)
        assert vocabulary.names == names
        assert vocabulary.size == (max(ids) + 1)
        assert vocabulary.encode(values).tolist() == ids
        assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary

    def test_where_ids_become_labels(self) -> None:
        assert Vocabulary.learn([0, 1003]) == Vocabulary(None, 1004)
        assert Vocabulary.learn([0, 1004]) == Vocabulary(("0", "1004"), 2)

    def test_negative_ids(self) -> None:
        refused(frame(state=[0, 1, 2, -1, 0]), "The state -1 at column 'state', row 3 (trajectory a) is negative")

    @pytest.mark.parametrize(
        ("values", "names"),
        [
            ([-2, 0, 2, -1, 1], ("-2", "-1", "0", "1", "2")),
            ([1, -1, 1, 1, -1], ("-1", "1")),
            ([0.5, 0, 1, 0.5, 0], ("0", "0.5", "1")),
            ([-0.25, 0.125, 1, -1, 1], ("-1", "-0.25", "0.125", "1")),
        ],
    )
    def test_the_levels_of_a_number_are_labels(self, values: list[float], names: tuple[str, ...]) -> None:
        table = read_data(frame(state=values))
        assert table.states.names == names
        assert [names[s] for s in table.demonstrations.states] == [f"{values[i]:g}" for i in (0, 2, 4, 1, 3)]

    def test_many_fractions_are_measurements(self) -> None:
        with pytest.raises(InputError, match="is not a whole number; name continuous columns with --observe"):
            Vocabulary.learn(np.linspace(0, 1, 60), "state")

    @pytest.mark.parametrize("bad", [2.5, np.inf, -np.inf])
    def test_fractions(self, bad: float) -> None:
        refused(frame(action=[0, 1, 0, bad, 1]), f"The action {bad}", "row 3 (trajectory a)", "discretise the actions")

    def test_labels_of_all_kinds_give_names(self) -> None:
        table = read_data(frame(state=list("xyzyx"), action=[True, False, True, True, False], intention=list("qpqpq")))
        demos = table.demonstrations
        assert (demos.state_names, demos.action_names, demos.label_names) == (
            ("x", "y", "z"),
            ("False", "True"),
            ("p", "q"),
        )
        assert table.labels == Vocabulary(("p", "q"), 2)
        assert demos.states.tolist() == [0, 2, 0, 1, 1]

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ({"names": None, "size": 0}, "0 ids"),
            ({"names": ["a"], "size": 2}, "2 ids cannot have 1 names"),
            ({"names": ["a", "a"], "size": 2}, "'a' stands for two"),
            ({"names": [1], "size": 1}, "damaged"),
            ({"size": 1}, "damaged"),
            (None, "damaged"),
        ],
    )
    def test_impossible_vocabularies(self, value: object, message: str) -> None:
        with pytest.raises(InputError, match=message):
            Vocabulary.from_json(value)

    @given(*2 * [st.lists(st.text("aé0 ", min_size=1, max_size=3), min_size=1, max_size=20)])
    @settings(max_examples=30, deadline=None)
    def test_encode_is_a_lookup(self, old: list[str], new: list[str]) -> None:
        vocabulary = Vocabulary.learn(old)
        known = {name: i for i, name in enumerate(sorted(set(old)))}
        assert vocabulary.encode(new, unknown="new").tolist() == [known.get(name, len(known)) for name in new]


class TestNewData:
    names = Vocabulary(("x", "y", "z", "w"), 4)
    ids = Vocabulary(None, 4)

    def test_known_data_keep_the_ids_and_sizes_of_the_model(self) -> None:
        table = read_data(frame(state=list("wyxyw")), states=self.names, actions=Vocabulary(None, 7))
        assert table.demonstrations.states.tolist() == [3, 0, 3, 1, 1]
        assert (table.demonstrations.n_states, table.demonstrations.n_actions) == (4, 7)
        assert table.demonstrations.state_names == self.names.names
        assert table.states is self.names

    def test_unseen_label(self) -> None:
        new = frame(state=["x", "north", "y", "y", "x"])
        refused(
            new,
            "The state north at column 'state', row 1 (trajectory a)",
            "x, y, z, w",
            "--unknown-state",
            states=self.names,
        )

    @pytest.mark.parametrize("bad", [4, 4.0, "north", "1.5"])
    def test_id_out_of_range(self, bad: object) -> None:
        new = frame(state=[0, 1, bad, 1, 0])
        refused(
            new, f"The state {str(bad)[:1]}", "row 2 (trajectory b)", "ids 0 to 3", "--unknown-state", states=self.ids
        )

    @pytest.mark.parametrize(("known", "bad"), [(Vocabulary(("0",), 1), "1"), (Vocabulary(None, 1), "1")])
    def test_unseen_action_is_always_an_error(self, known: Vocabulary, bad: str) -> None:
        with pytest.raises(InputError) as error:
            read_data(frame(), actions=known, states=self.ids, unknown_state=True)
        assert f"The action {bad} at column 'action', row 1" in one_sentence(error)
        assert "--unknown" not in str(error.value)

    def test_unknown_states_share_one_new_id(self) -> None:
        table = read_data(frame(state=["x", "north", "y", "south", "w"]), states=self.names, unknown_state=True)
        demos = table.demonstrations
        assert demos.states.tolist() == [0, 1, 3, 4, 4]
        assert (demos.n_states, demos.unknown_state) == (5, True)
        assert demos.state_names == ("x", "y", "z", "w", UNKNOWN_NAME)
        assert table.states == self.names
        assert to_pandas(demos)["state"].tolist() == ["x", "y", "w", "<unknown>", "<unknown>"]
        numbered = read_data(frame(state=[9, 3, 0, 3, 0]), states=self.ids, unknown_state=True).demonstrations
        assert numbered.states.tolist() == [4, 0, 0, 3, 3]
        assert (numbered.n_states, numbered.state_names) == (5, None)

    def test_room_for_unknown_states_even_when_all_are_known(self) -> None:
        demos = read_data(frame(), states=self.ids, unknown_state=True).demonstrations
        assert (demos.n_states, demos.unknown_state) == (5, True)

    def test_missing_states_stay_an_error(self) -> None:
        refused(frame(state=[0, 1, None, 1, 0]), "missing", states=self.ids, unknown_state=True)

    def test_unknown_to_whom(self) -> None:
        refused(frame(), "fitted model", unknown_state=True)

    def test_labels_that_look_like_numbers_in_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "new.csv"
        path.write_text("trajectory,state,action\n1,01,7\n1,02,7\n")
        assert read_data(path, states=Vocabulary(("01", "02", "a"), 3)).demonstrations.states.tolist() == [0, 1]
        assert read_data(path, states=Vocabulary(("1", "2"), 2)).demonstrations.states.tolist() == [0, 1]
        refused(path, "The state 01", states=Vocabulary(("1", "2", "a"), 3))


def test_ids_beyond_64_bits_signed_are_refused_and_not_cast():
    ids = Vocabulary(None, 3)
    with pytest.raises(InputError, match="state 9223372036854775808 at row 1 is not one of the 3 known"):
        ids.encode(np.array([1, 2**63], dtype=np.uint64), "state")
    assert ids.encode(np.array([2, 0, 7], dtype=np.uint64), "state", unknown="new").tolist() == [2, 0, 3]
