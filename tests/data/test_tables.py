import os
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.npz import write_npz
from prism_irl.data.table_files import write_table
from prism_irl.data.tables import Columns, read, to_pandas, with_posterior
from prism_irl.errors import InputError
from support import assert_same, frame, refused


class TestOrder:
    def test_scattered_rows_keep_their_order_and_trajectories_that_of_their_first_row(self) -> None:
        table = read(frame())
        demos = table.demonstrations
        assert demos.trajectory_names is not None
        assert demos.trajectory_names.tolist() == ["b", "a"]
        assert demos.offsets.tolist() == [0, 3, 5]
        assert demos.states.tolist() == [0, 2, 0, 1, 1]
        assert demos.actions.tolist() == [0, 0, 1, 1, 0]
        assert table.order.tolist() == [0, 2, 4, 1, 3]

    def test_time_sorts_within_trajectories_and_ties_keep_their_order(self) -> None:
        table = read(frame(time=[3, 1, 1, 0, 1]), ties="keep")
        assert table.order.tolist() == [2, 4, 0, 3, 1]
        assert table.demonstrations.times is not None
        assert table.demonstrations.times.tolist() == [1, 1, 3, 0, 1]

    @pytest.mark.parametrize(
        "times",
        [
            ["2024-01-10", "2024-01-02", "2024-01-03", "2024-01-01", "2023-12-31"],
            pd.to_datetime(["2024-01-10", "2024-01-02", "2024-01-03", "2024-01-01", "2023-12-31"], utc=True),
            [date(2024, 1, 10), date(2024, 1, 2), date(2024, 1, 3), date(2024, 1, 1), date(2023, 12, 31)],
            pd.to_timedelta([10, 2, 3, 1, 0], unit="h"),
            pd.array([10, 2, 3, 1, 0], dtype="Int64"),
            pd.Categorical(["2024-01-10", "2024-01-02", "2024-01-03", "2024-01-01", "2023-12-31"]),
        ],
    )
    def test_times_may_be_dates_or_durations(self, times: object, tmp_path: Path) -> None:
        table = read(frame(time=times))
        assert table.order.tolist() == [4, 2, 0, 3, 1]
        write_npz(table.demonstrations, tmp_path / "a.npz")
        assert_same(read(tmp_path / "a.npz").demonstrations, table.demonstrations)

    @given(st.data())
    @settings(max_examples=30, deadline=None)
    def test_like_a_stable_group_by(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(1, 30))
        draw = [data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)) for _ in range(4)]
        given_frame = pd.DataFrame(dict(zip(("trajectory", "state", "action", "time"), draw, strict=True)))
        table = read(given_frame, ties="keep")
        rows: list[int] = []
        for name in dict.fromkeys(draw[0]):
            rows += sorted((i for i in range(n) if draw[0][i] == name), key=lambda i: draw[3][i])
        assert table.order.tolist() == rows
        assert table.demonstrations.states.tolist() == [draw[1][i] for i in rows]


class TestColumns:
    def test_usual_names_of_optional_columns_are_found(self) -> None:
        extra = {"group": ["g", "h", "g", "h", "g"], "intention": [1, 0, 1, 1, 0], "time": [1, 2, 3, 4, 5]}
        demos = read(frame(**extra)).demonstrations
        assert demos.groups is not None
        assert demos.groups.tolist() == ["g", "h"]
        assert demos.labels is not None
        assert demos.labels.tolist() == [1, 1, 0, 0, 1]
        bare = read(frame()).demonstrations
        assert (bare.groups, bare.labels, bare.times, bare.observations) == (None, None, None, None)

    def test_other_names(self) -> None:
        renamed = frame(group=["g", "h", "g", "h", "g"], intention=0, time=[5, 4, 3, 2, 1]).rename(columns=str.upper)
        roles = ("trajectory", "state", "action", "time", "group", "intention")
        names: dict[str, Any] = {role: role.upper() for role in roles}
        given_names = read(renamed, **names)
        assert_same(given_names.demonstrations, read(renamed.rename(columns=str.lower)).demonstrations)

    @pytest.mark.parametrize("role", ["trajectory", "state", "action"])
    def test_missing_required_column(self, role: str) -> None:
        refused(frame(extra=1).drop(columns=role), f"no column '{role}'", "extra", f"--{role}", f"{role}=")

    @pytest.mark.parametrize("role", ["trajectory", "state", "action", "time", "group", "intention"])
    def test_missing_named_column(self, role: str) -> None:
        refused(frame(), "no column 'x'", role, "trajectory, state, action", **{role: "x"})

    def test_missing_observation_column(self) -> None:
        refused(frame(), "no column 'speed'", "observations", observations=("speed",))

    def test_column_that_appears_twice(self) -> None:
        twice = pd.concat([frame(), frame()[["state"]]], axis=1)
        refused(twice, "'state' appears 2 times")

    def test_observations(self) -> None:
        values = frame(x=[0.5, 1.0, 2.0, 3.0, 4.0], y=pd.array([1, 2, 3, 4, 5], dtype="Int64"))
        demos = read(values, observations=["x", "y"]).demonstrations
        assert demos.observations is not None
        assert demos.observations.dtype == np.float32
        assert demos.observations.tolist() == [[0.5, 1], [2, 3], [4, 5], [1, 2], [3, 4]]
        single = read(values, observations="x").demonstrations
        assert single.observations is not None
        assert single.observations.shape == (5, 1)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300, "fast", None])
    def test_observations_that_are_no_numbers(self, bad: Any) -> None:
        column = pd.Series([0.0, 1.0, 2.0, bad, 4.0], dtype=object)
        refused(frame(x=column), "column 'x'", "row 3", "trajectory a", "finite", observations=("x",))

    def test_group_must_be_constant_within_a_trajectory(self) -> None:
        refused(frame(group=["g", "h", "g", "i", "g"]), "Trajectory a", "h and i", "row 3")

    @pytest.mark.parametrize("role", ["trajectory", "state", "action", "time", "group", "intention"])
    @pytest.mark.parametrize("kind", ["number", "text"])
    def test_missing_cells(self, role: str, kind: str) -> None:
        cells = [1.0, 2.0, 1.0, np.nan, 1.0] if kind == "number" else ["u", "v", "u", None, "u"]
        place = "" if role == "trajectory" else "(trajectory a)"
        refused(frame(**{role: cells}), f"The {role} at column '{role}', row 3", "missing", place)

    def test_times_that_do_not_sort(self) -> None:
        refused(frame(time=["2024-01-01", "noon", "x", "y", "z"]), "The time noon", "row 1 (trajectory a)", "ISO")

    def test_cells_that_are_lists(self) -> None:
        refused(frame(state=[[1], [2], [3], [4], [5]]), "The state at column 'state'", "list")

    def test_columns_resolve_without_reading(self) -> None:
        assert Columns(state="action").resolve(frame(time=1)) == {
            "time": "time",
            "trajectory": "trajectory",
            "state": "action",
            "action": "action",
        }


class TestFiles:
    @pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".CSV"])
    def test_formats_agree(self, suffix: str, tmp_path: Path) -> None:
        given_frame = frame(group=["g", "h", "g", "h", "g"], time=[0.1, 0.2, 0.3, 1e-17, 1 / 3], state=list("xyzyx"))
        write_table(given_frame, tmp_path / f"a{suffix}")
        table = read(str(tmp_path / f"a{suffix}"))
        assert_same(table.demonstrations, read(given_frame).demonstrations)
        assert table.frame is not None
        pd.testing.assert_frame_equal(table.frame, given_frame)

    def test_a_named_index_is_a_column(self, tmp_path: Path) -> None:
        frame().set_index(["trajectory", "state"]).to_parquet(tmp_path / "a.parquet")
        assert_same(read(tmp_path / "a.parquet").demonstrations, read(frame()).demonstrations)

    def test_csv_as_people_write_it(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_bytes("\ufefftrajectory, state, action\r\n1, 0, left\r\n1, 2, right\r\n".encode())
        table = read(path)
        assert table.demonstrations.states.tolist() == [0, 2]
        assert table.actions.names == ("left", "right")

    def test_a_late_word_makes_a_whole_column_labels(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        # Longer than what pandas would read, and give a type, at a time: 2²⁰ cells.
        path.write_text("state,trajectory,action\n" + "01,0,0\n" * 300_000 + "exit,0,0\n")
        assert read(path).states.names == ("01", "exit")

    @pytest.mark.parametrize("word", ["NA", "None", "nan", ""])
    def test_words_for_missing(self, word: str, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text(f"trajectory,state,action\nt,x,0\nt,{word},0\n")
        refused(tmp_path / "a.csv", "The state at column 'state', line 3 (trajectory t) is missing")

    @pytest.mark.parametrize(
        ("name", "content", "parts"),
        [
            ("a.csv", b"", ("is empty",)),
            ("a.csv", b"trajectory,state,action\n", ("no rows",)),
            ("a.csv", b"trajectory,state,action\n1,2,3\n1,2,3,4,5\n", ("damaged", "line 3")),
            ("a.csv", b"trajectory,state,action\n1,2,3,4\n", ("more cells than its header",)),
            ("a.csv", b"trajectory,state,action\n1,\xff\xfe,3\n", ("not UTF-8 text at line 2", "iconv")),
            ("a.csv", b"trajectory|state|action\n1|2|3\n", ("trajectory|state|action",)),
            ("a.parquet", b"", ("damaged or not a .parquet file",)),
            ("a.parquet", b"PAR1 nonsense PAR1", ("damaged or not a .parquet file",)),
            ("a.npz", b"", ("damaged or not an npz file",)),
            ("a.npz", b"PK\x03\x04 nonsense", ("damaged or not an npz file",)),
            ("a.npz", b"plain text", ("damaged or not an npz file",)),
            ("a.ods", b"", (".csv, .tsv, .parquet, .npz",)),
            ("a", b"", (".csv, .tsv, .parquet, .npz",)),
        ],
    )
    def test_files_that_cannot_be_read(self, name: str, content: bytes, parts: tuple[str, ...], tmp_path: Path) -> None:
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name, *parts)

    @pytest.mark.parametrize("name", ["none.csv", "none.parquet", "none.npz", "folder.csv"])
    def test_files_that_are_not_there(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "folder.csv").mkdir()
        refused(tmp_path / name, "There is no file", name)

    def test_empty_frame(self) -> None:
        refused(frame().iloc[:0], "no rows")

    @pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.npz"])
    def test_interrupted_writing_leaves_the_old_file(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def write(source: pd.DataFrame) -> None:
            if name == "a.npz":
                write_npz(read(source).demonstrations, tmp_path / name)
            else:
                write_table(source, tmp_path / name)

        write(frame())
        before = (tmp_path / name).read_bytes()

        def full(*_: object) -> None:
            raise OSError("No space left on device")

        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(InputError, match=r"Cannot write .*No space left"):
            write(frame(state=3))
        assert (tmp_path / name).read_bytes() == before
        assert [path.name for path in tmp_path.iterdir()] == [name]

    def test_writing_makes_the_folder_and_knows_its_formats(self, tmp_path: Path) -> None:
        write_table(frame(), tmp_path / "new" / "a.csv")
        assert (tmp_path / "new" / "a.csv").read_text().splitlines()[0] == "trajectory,state,action"
        for bad in ("a.npz", "a.xlsx", "a"):
            with pytest.raises(InputError, match=r"\.csv, \.tsv, \.parquet"):
                write_table(frame(), tmp_path / bad)
        with pytest.raises(InputError, match=r"\.npz"):
            write_npz(read(frame()).demonstrations, tmp_path / "a.csv")
        with pytest.raises(InputError, match="Cannot write"):
            write_table(frame(), tmp_path / "new" / "a.csv" / "b.csv")
        mixed = pd.Series([1, "a", None, 10**30, {}], dtype=object)  # what Parquet cannot hold is kept as text
        write_table(frame(mixed=mixed), tmp_path / "a.parquet")
        kept = pd.read_parquet(tmp_path / "a.parquet")["mixed"].fillna("missing")
        assert kept.tolist() == ["1", "a", "missing", str(10**30), "{}"]


class TestPosterior:
    labels = np.array([0, 1, 0, 1, 1])
    probabilities = np.stack([1 - np.arange(5) / 10, np.arange(5) / 10], axis=1)

    def test_every_row_gets_what_its_step_got(self) -> None:
        given_frame = frame(note=list("vwxyz")).set_index(pd.Index([5, 5, 7, 8, 9]))
        out = with_posterior(read(given_frame), self.labels, self.probabilities)
        pd.testing.assert_frame_equal(out[list(given_frame.columns)], given_frame)
        assert list(out.columns[-3:]) == ["intention", "p_0", "p_1"]
        assert out["intention"].tolist() == [0, 1, 1, 1, 0]
        assert out["p_1"].tolist() == [0.0, 0.3, 0.1, 0.4, 0.2]
        assert "intention" not in given_frame

    def test_existing_columns_stay(self) -> None:
        once = with_posterior(read(frame(intention=5)), self.labels, self.probabilities)
        assert list(once.columns[3:]) == ["intention", "predicted_intention", "p_0", "p_1"]
        assert (once["intention"] == 5).all()
        twice = with_posterior(read(once), 1 - self.labels, self.probabilities)
        assert list(twice.columns[7:]) == ["predicted_predicted_intention", "predicted_p_0", "predicted_p_1"]

    def test_npz_gets_a_frame(self, tmp_path: Path) -> None:
        write_npz(read(frame(state=list("xyzyx"))).demonstrations, tmp_path / "a.npz")
        table = read(tmp_path / "a.npz")
        assert table.frame is None
        out = with_posterior(table, self.labels, self.probabilities)
        assert out["trajectory"].tolist() == list("bbbaa")
        assert out["state"].tolist() == list("xzxyy")
        assert out["intention"].tolist() == self.labels.tolist()

    def test_sizes_must_match(self) -> None:
        with pytest.raises(InputError, match="4 values of intention for 5 steps"):
            with_posterior(read(frame()), self.labels[:4], self.probabilities)
        with pytest.raises(InputError, match="4 values of p_0 for 5 steps"):
            with_posterior(read(frame()), self.labels, self.probabilities[:4])


def test_to_pandas_numbers_trajectories_that_share_a_name() -> None:
    demos = Demonstrations(
        states=np.array([0, 299, 2, 1, 2]),
        actions=np.array([0, 1, 0, 2, 1]),
        offsets=np.array([0, 2, 5]),
        n_states=300,
        n_actions=4,
        observations=(np.arange(10) / 3).astype(np.float32).reshape(5, 2),
        labels=np.array([0, 5000, 1, 1, 0]),
        times=np.array([3.0, 1.0, 2.0, 2.0, 1.0]),
        groups=np.array(["mouse", "rat"]),
        trajectory_names=np.array([7, 7]),
    )
    out = to_pandas(demos)
    assert list(out.columns) == [
        *("trajectory", "state", "action", "time", "group", "intention", "observation_0", "observation_1"),
    ]
    assert out["trajectory"].tolist() == [0, 0, 1, 1, 1]
    assert out["group"].tolist() == ["mouse", "mouse", "rat", "rat", "rat"]
    assert out["intention"].tolist() == [0, 5000, 1, 1, 0]


def test_trajectories_keep_integer_names() -> None:
    names = read(frame(trajectory=[20, 10, 20, 10, 20])).demonstrations.trajectory_names
    assert names is not None
    assert names.dtype.kind == "i"
    assert names.tolist() == [20, 10]


def test_many_rows_are_fast() -> None:
    from time import process_time

    n = 300_000
    rng = np.random.default_rng(0)
    big = pd.DataFrame(
        {
            "trajectory": rng.integers(20_000, size=n),
            "state": rng.integers(500, size=n),
            "action": rng.choice(["left", "right"], size=n),
            "time": rng.random(n),
        }
    )
    start = process_time()
    assert read(big).demonstrations.n_steps == n
    assert process_time() - start < 3, "a loop over rows or trajectories takes far longer"
