from __future__ import annotations

import json
import os
import warnings
import zipfile
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from continuous_worlds import walking, walks
from prism_irl.cli.main import main
from prism_irl.cli.options import ColumnOptions
from prism_irl.cli.sources import read_inputs, read_table
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.files import line_of, read_table_file, write_table
from prism_irl.data.read import Columns, Table, read_data, to_pandas, with_posterior, write_npz, write_segments
from prism_irl.data.rows import Vocabulary
from prism_irl.errors import InputError
from support import assert_same, frame, prism, refused


class TestOrder:
    def test_scattered_rows_keep_their_order_and_trajectories_that_of_their_first_row(self) -> None:
        table = read_data(frame())
        demos = table.demonstrations
        assert demos.trajectory_names is not None
        assert demos.trajectory_names.tolist() == ["b", "a"]
        assert demos.offsets.tolist() == [0, 3, 5]
        assert demos.states.tolist() == [0, 2, 0, 1, 1]
        assert demos.actions.tolist() == [0, 0, 1, 1, 0]
        assert table.order.tolist() == [0, 2, 4, 1, 3]

    def test_time_sorts_within_trajectories_and_ties_keep_their_order(self) -> None:
        table = read_data(frame(time=[3, 1, 1, 0, 1]), ties="keep")
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
        table = read_data(frame(time=times))
        assert table.order.tolist() == [4, 2, 0, 3, 1]
        write_npz(table.demonstrations, tmp_path / "a.npz")
        assert_same(read_data(tmp_path / "a.npz").demonstrations, table.demonstrations)

    @given(st.data())
    @settings(max_examples=30, deadline=None)
    def test_like_a_stable_group_by(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(1, 30))
        draw = [data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)) for _ in range(4)]
        given_frame = pd.DataFrame(dict(zip(("trajectory", "state", "action", "time"), draw, strict=True)))
        table = read_data(given_frame, ties="keep")
        rows: list[int] = []
        for name in dict.fromkeys(draw[0]):
            rows += sorted((i for i in range(n) if draw[0][i] == name), key=lambda i: draw[3][i])
        assert table.order.tolist() == rows
        assert table.demonstrations.states.tolist() == [draw[1][i] for i in rows]


class TestColumns:
    def test_usual_names_of_optional_columns_are_found(self) -> None:
        extra = {"group": ["g", "h", "g", "h", "g"], "intention": [1, 0, 1, 1, 0], "time": [1, 2, 3, 4, 5]}
        demos = read_data(frame(**extra)).demonstrations
        assert demos.groups is not None
        assert demos.groups.tolist() == ["g", "h"]
        assert demos.labels is not None
        assert demos.labels.tolist() == [1, 1, 0, 0, 1]
        bare = read_data(frame()).demonstrations
        assert (bare.groups, bare.labels, bare.times, bare.observations) == (None, None, None, None)

    def test_other_names(self) -> None:
        renamed = frame(group=["g", "h", "g", "h", "g"], intention=0, time=[5, 4, 3, 2, 1]).rename(columns=str.upper)
        roles = ("trajectory", "state", "action", "time", "group", "intention")
        names: dict[str, Any] = {role: role.upper() for role in roles}
        given_names = read_data(renamed, **names)
        assert_same(given_names.demonstrations, read_data(renamed.rename(columns=str.lower)).demonstrations)

    def test_columns_that_name_a_state_together(self) -> None:
        frame = pd.DataFrame({"trajectory": 0, "x": [0, 1, 10, np.nan], "y": [2, 0, 1, 1], "action": [0, 1, 0, 1]})
        with pytest.raises(InputError, match=r"The state at .*row 3.* is missing"):
            read_data(frame, state="x,y")
        read = read_data(frame[:3], state="x,y")
        assert [read.states.names[s] for s in read.demonstrations.states] == ["x0y2", "x1y0", "x10y1"]
        assert read.frame is not None
        assert read.frame["x,y"].tolist() == ["x0y2", "x1y0", "x10y1"]
        words = read_data(frame[:3].assign(x=["left", "go", "go"]), state="x, y")
        assert [words.states.names[s] for s in words.demonstrations.states] == ["left/2", "go/0", "go/1"]

    def test_measurements_are_no_state_together_and_what_is_seen_is_not_done(self) -> None:
        x = np.random.default_rng(0).normal(size=(200, 2))
        frame = pd.DataFrame({"trajectory": 0, "x": x[:, 0], "y": x[:, 1], "action": 0})
        with pytest.raises(InputError, match=r"of column 'x' is not a whole number; name continuous columns"):
            read_data(frame, state="x,y")
        assert "x is observed and done" in read_data(frame, observe="x,y", act="x").notes[0]
        assert not read_data(frame, observe="x", act="y").notes

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
        demos = read_data(values, observations=["x", "y"]).demonstrations
        assert demos.observations is not None
        assert demos.observations.dtype == np.float32
        assert demos.observations.tolist() == [[0.5, 1], [2, 3], [4, 5], [1, 2], [3, 4]]
        single = read_data(values, observations="x").demonstrations
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
        table = read_data(str(tmp_path / f"a{suffix}"))
        assert_same(table.demonstrations, read_data(given_frame).demonstrations)
        assert table.frame is not None
        pd.testing.assert_frame_equal(table.frame, given_frame)

    def test_a_named_index_is_a_column(self, tmp_path: Path) -> None:
        frame().set_index(["trajectory", "state"]).to_parquet(tmp_path / "a.parquet")
        assert_same(read_data(tmp_path / "a.parquet").demonstrations, read_data(frame()).demonstrations)

    def test_csv_as_people_write_it(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_bytes("\ufefftrajectory, state, action\r\n1, 0, left\r\n1, 2, right\r\n".encode())
        table = read_data(path)
        assert table.demonstrations.states.tolist() == [0, 2]
        assert table.actions.names == ("left", "right")

    def test_a_late_word_makes_a_whole_column_labels(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        # Longer than what pandas would read, and give a type, at a time: 2²⁰ cells.
        path.write_text("state,trajectory,action\n" + "01,0,0\n" * 300_000 + "exit,0,0\n")
        assert read_data(path).states.names == ("01", "exit")

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
                write_npz(read_data(source).demonstrations, tmp_path / name)
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
            write_npz(read_data(frame()).demonstrations, tmp_path / "a.csv")
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
        out = with_posterior(read_data(given_frame), self.labels, self.probabilities)
        pd.testing.assert_frame_equal(out[list(given_frame.columns)], given_frame)
        assert list(out.columns[-3:]) == ["intention", "p_0", "p_1"]
        assert out["intention"].tolist() == [0, 1, 1, 1, 0]
        assert out["p_1"].tolist() == [0.0, 0.3, 0.1, 0.4, 0.2]
        assert "intention" not in given_frame

    def test_existing_columns_stay(self) -> None:
        once = with_posterior(read_data(frame(intention=5)), self.labels, self.probabilities)
        assert list(once.columns[3:]) == ["intention", "predicted_intention", "p_0", "p_1"]
        assert (once["intention"] == 5).all()
        twice = with_posterior(read_data(once), 1 - self.labels, self.probabilities)
        assert list(twice.columns[7:]) == ["predicted_predicted_intention", "predicted_p_0", "predicted_p_1"]

    def test_npz_gets_a_frame(self, tmp_path: Path) -> None:
        write_npz(read_data(frame(state=list("xyzyx"))).demonstrations, tmp_path / "a.npz")
        table = read_data(tmp_path / "a.npz")
        assert table.frame is None
        out = with_posterior(table, self.labels, self.probabilities)
        assert out["trajectory"].tolist() == list("bbbaa")
        assert out["state"].tolist() == list("xzxyy")
        assert out["intention"].tolist() == self.labels.tolist()

    def test_sizes_must_match(self) -> None:
        with pytest.raises(InputError, match="4 values of intention for 5 steps"):
            with_posterior(read_data(frame()), self.labels[:4], self.probabilities)
        with pytest.raises(InputError, match="4 values of p_0 for 5 steps"):
            with_posterior(read_data(frame()), self.labels, self.probabilities[:4])


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
    names = read_data(frame(trajectory=[20, 10, 20, 10, 20])).demonstrations.trajectory_names
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
    assert read_data(big).demonstrations.n_steps == n
    assert process_time() - start < 3, "a loop over rows or trajectories takes far longer"


# -- continuous states and actions -------------------------------------------------------------------------------------


def test_columns_become_observations_and_commands():
    table = walks(n_trajectories=2, length=4)
    demos = read_data(
        table.sample(frac=1.0, random_state=0).sort_values("trajectory"), observe=["x", "y"], act="vx, vy"
    )
    found = demos.demonstrations
    assert found.observation_names == ("x", "y")
    assert found.motion_names == ("vx", "vy")
    rows = demos.frame.iloc[demos.order]
    np.testing.assert_allclose(found.observations, rows[["x", "y"]].to_numpy(np.float32))
    np.testing.assert_allclose(found.motions, rows[["vx", "vy"]])
    np.testing.assert_array_equal(found.labels, rows["intention"])


def test_lists_of_numbers_are_taken_apart():
    table = walks(n_trajectories=2, length=3)
    nested = pd.DataFrame({"trajectory": table["trajectory"], "seen": table[["x", "y"]].to_numpy().tolist()})
    nested["done"] = table["vx"]
    demos = read_data(nested, observe="seen", act="done").demonstrations
    assert demos.observation_names == ("seen[0]", "seen[1]")
    np.testing.assert_allclose(demos.observations[:, 1], table["y"], rtol=1e-6)


def test_bad_columns_are_refused():
    table = walks(n_trajectories=2, length=3)
    refused(table, "no column 'z' for --observe", observe="x,z", act="vx")
    refused(table, "none to --act", observe="x")
    refused(table.assign(y=[1, 2, "high", 4, 5, 6]), "high", "'y', row 2", observe="x,y", act="vx")
    refused(table.assign(vx=np.nan), "'vx', row 0", observe="x,y", act="vx")
    ragged = pd.DataFrame({"trajectory": 0, "o": [[1, 2], [1]], "a": [0.0, 1.0]})
    refused(ragged, "'o', row 1", "2 numbers", observe="o", act="a")
    refused("some.npz", "belong to a table", observe="x", act="y")


def test_npz_of_numbers_needs_no_tokens(tmp_path: Path) -> None:
    done = np.random.default_rng(0).normal(size=(9, 2))
    np.savez(tmp_path / "a.npz", observations=done + 1, motions=done, lengths=[4, 4, 1])
    table = read_data(tmp_path / "a.npz")
    np.testing.assert_array_equal(table.demonstrations.motions, done)
    rows = walks(n_trajectories=2, length=3)
    assert table.notes == read_data(rows, observe="x,y", act="vx,vy").notes == (), "equal lengths repeat nothing"


@pytest.mark.parametrize("name", ["walk.npz", "walk"])
def test_nothing_is_lost_on_the_way_to_disk_and_back(name, tmp_path):
    demos = walking(n_trajectories=3, length=5)
    demos.save(tmp_path / name)
    back = Demonstrations.open(tmp_path / name)
    assert_same(back, demos)
    np.testing.assert_array_equal(back.motions, demos.motions)
    assert (back.motion_names, back.observation_names) == (demos.motion_names, demos.observation_names)
    assert back.checksum() == demos.checksum()
    part = back.subset([2])
    np.testing.assert_array_equal(part.motions, demos.motions[10:])
    for train, test in back.folds(3):
        assert len(train.motions) + len(test.motions) == demos.n_steps


def test_a_table_comes_back_with_its_columns():
    table = to_pandas(walking(n_trajectories=2, length=3))
    assert list(table.columns) == ["trajectory", "intention", "x", "y", "vx", "vy"]


def test_from_the_table_to_phases_on_the_command_line(tmp_path):
    table = walks(n_trajectories=16, length=70)
    table.to_parquet(tmp_path / "arm.parquet")
    columns = ("--observe", "x,y", "--act", "vx,vy")
    done = prism("fit", "arm.parquet", *columns, "--intentions", 3, "--n-starts", 3, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "log density" in done.stdout
    assert {"segments.parquet", "report.html", "model.safetensors"} <= {p.name for p in (tmp_path / "run").iterdir()}
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["density"]
    assert metrics["predictive_ll"]["train"] > metrics["references"]["linear"]["predictive_ll"]["train"]
    walks(n_trajectories=8, length=70, seed=5).to_csv(tmp_path / "new.csv", index=False)
    scored = prism("score", "run", "new.csv", "--json", cwd=tmp_path)
    assert json.loads(scored.stdout)["label_accuracy"] > 0.95
    cut = prism("segment", "run", "new.csv", "--out", "labels.csv", cwd=tmp_path)
    assert cut.returncode == 0, cut.stderr
    assert {"predicted_intention", "p_0", "p_2"} <= set(pd.read_csv(tmp_path / "labels.csv").columns)
    walking(n_trajectories=4, length=20).save(tmp_path / "walk.npz")
    assert read_data(tmp_path / "walk.npz").demonstrations.action_space.continuous


# -- npz files, without pickle -----------------------------------------------------------------------------------------

FULL = Demonstrations(
    states=np.array([0, 299, 2, 1, 2]),
    actions=np.array([0, 1, 0, 2, 1]),
    offsets=np.array([0, 2, 5]),
    n_states=300,
    n_actions=4,
    observations=(np.arange(10) / 3).astype(np.float32).reshape(5, 2),
    labels=np.array([0, 5000, 1, 1, 0]),
    times=np.array([3.0, 1.0, 2.0, 2.0, 1.0]),
    groups=np.array(["mouse", "rat"]),
    valid_actions=np.arange(1200).reshape(300, 4) % 7 != 3,
    trajectory_names=np.array([7, 7]),
)


class TestNpz:
    def save(self, path: Path, **arrays: Any) -> Path:
        arrays = {"states": np.array([[0, 1], [2, 0]]), "actions": np.array([[1, 1], [0, 1]])} | arrays
        given_arrays: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items() if value is not None}
        np.savez(path / "a.npz", **given_arrays)
        return path / "a.npz"

    def test_everything_comes_back(self, tmp_path: Path) -> None:
        FULL.save(tmp_path / "a.npz")
        assert_same(Demonstrations.from_table(tmp_path / "a.npz"), FULL)

    def test_names_come_back(self, tmp_path: Path) -> None:
        labelled = frame(state=list("xyzyx"), action=list("lrrll"), intention=list("pqqpp"))
        choices: list[dict[str, Any]] = [{}, {"states": Vocabulary(("z", "y"), 2), "unknown_state": True}]
        for options in choices:
            table = read_data(labelled, **options)
            write_npz(table.demonstrations, tmp_path / "a.npz")
            again = read_data(tmp_path / "a.npz")
            assert_same(again.demonstrations, table.demonstrations)
            assert again[3:] == table[3:]

    @given(data=st.data())
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_round_trip(self, data: st.DataObject, tmp_path: Path) -> None:
        lengths = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        n, n_states, n_actions = sum(lengths), data.draw(st.integers(1, 400)), data.draw(st.integers(1, 300))
        optional: dict[str, Any] = {
            "observations": rng.normal(size=(n, 2)).astype(np.float32),
            "labels": rng.integers(3000, size=n).astype(np.int32),
            "times": rng.integers(9, size=n),
            "groups": rng.integers(3, size=len(lengths)),
            "state_names": tuple(f"s{i}" for i in rng.permutation(n_states)),
            "action_names": tuple(f"a{i}" for i in rng.permutation(n_actions)),
            "valid_actions": np.ones((n_states, n_actions), dtype=bool),
            "trajectory_names": np.array([f"t{i}" for i in range(len(lengths))]),
            "unknown_state": n_states > 1,
        }
        names = data.draw(st.sets(st.sampled_from(sorted(optional))))
        demos = Demonstrations(
            states=rng.integers(n_states, size=n),
            actions=rng.integers(n_actions, size=n),
            offsets=np.cumsum([0, *lengths]),
            n_states=n_states,
            n_actions=n_actions,
            **{name: optional[name] for name in names},
        )
        write_npz(demos, tmp_path / "a.npz")
        assert_same(read_data(tmp_path / "a.npz").demonstrations, demos)
        vocabularies: dict[str, Any] = {
            "states": Vocabulary(demos.state_names, n_states),
            "actions": Vocabulary(demos.action_names, n_actions),
        }
        through_pandas = read_data(
            to_pandas(demos),
            observations=to_pandas(demos).filter(like="obs").columns.tolist(),
            ties="keep",
            **vocabularies,
        )
        if "times" not in names:
            np.testing.assert_array_equal(through_pandas.demonstrations.states, demos.states)
            np.testing.assert_array_equal(through_pandas.demonstrations.offsets, demos.offsets)

    def test_rectangular_and_flat(self, tmp_path: Path) -> None:
        square = read_data(self.save(tmp_path, labels=[[0, 0], [1, 1]], observations=np.ones((2, 2, 3)))).demonstrations
        flat = {"states": [0, 1, 2, 0], "actions": [1, 1, 0, 1], "lengths": [2, 2], "labels": [0, 0, 1, 1]}
        assert_same(read_data(self.save(tmp_path, **flat, observations=np.ones((4, 3)))).demonstrations, square)
        assert (square.n_states, square.n_actions) == (3, 2)
        assert square.offsets.tolist() == [0, 2, 4]

    def test_text_and_given_sizes(self, tmp_path: Path) -> None:
        table = read_data(self.save(tmp_path, states=[["x", "y"], ["y", "x"]], n_actions=5))
        assert table.states.names == ("x", "y")
        assert table.demonstrations.n_actions == 5

    def test_order_is_kept_whatever_the_times(self, tmp_path: Path) -> None:
        table = read_data(self.save(tmp_path, times=[[2, 1], [0, 0]]))
        assert table.demonstrations.states.tolist() == [0, 1, 2, 0]
        assert table.order.tolist() == [0, 1, 2, 3]

    @pytest.mark.parametrize(
        ("arrays", "parts"),
        [
            ({"states": None}, ("states and actions", "holds actions")),
            ({"actions": None}, ("states and actions", "holds states")),
            ({"states": [0, 1], "actions": [0, 1]}, ("shape (2,)", "lengths")),
            ({"lengths": [2, 2]}, ("shape (2, 2)", "lengths")),
            ({"states": [0, 1], "actions": [0, 1], "lengths": [1, 2]}, ("lengths", "add up")),
            ({"states": [0, 1], "actions": [0, 1], "lengths": [2.0]}, ("lengths",)),
            ({"states": [0, 1], "actions": [0, 1], "lengths": [2, 0]}, ("empty",)),
            ({"states": np.zeros((0, 3), int), "actions": np.zeros((0, 3), int)}, ("no trajectory",)),
            ({"actions": [[0, 1, 1, 1]]}, ("'actions'", "(1, 4)", "(2, 2)")),
            ({"labels": [0, 1]}, ("'labels'", "(2,)")),
            ({"times": [0, 1, 2]}, ("'times'",)),
            ({"groups": [0, 1, 2]}, ("'groups'", "2 trajectories")),
            ({"trajectory_names": ["a"]}, ("'trajectory_names'",)),
            ({"observations": [[0, 1], [1, 2]]}, ("'observations'",)),
            ({"observations": [[["a"], ["b"]], [["c"], ["d"]]]}, ("'observations'",)),
            ({"observations": [[[0.0], [np.nan]], [[0.0], [0.0]]]}, ("trajectory 0, step 1", "finite")),
            ({"n_states": 2}, ("The state 2", "step 2", "ids 0 to 1")),
            ({"n_states": "many"}, ("'n_states'",)),
            ({"n_states": [3, 3]}, ("'n_states'",)),
            ({"states": [[0, -1], [0, 0]]}, ("The state -1", "step 1", "negative")),
            ({"states": [[0, 2.5], [0, 0]]}, ("The state 2.5", "discretise")),
            ({"state_names": ["a", "b"]}, ("The state 2", "step 2")),
            ({"state_names": ["a", "b", "c"], "n_states": 4}, ("4 ids cannot have 3 names",)),
            ({"valid_actions": np.ones((2, 2))}, ("mask", "(2, 2)")),
            ({"valid_actions": [[True, False]] * 3}, ("Action 1 in state 0", "trajectory 0, step 0")),
            ({"groups": np.array([{}, {}], dtype=object)}, ("Python objects", "never unpickled")),
        ],
    )
    def test_wrong_arrays(self, arrays: dict[str, Any], parts: tuple[str, ...], tmp_path: Path) -> None:
        refused(self.save(tmp_path, **arrays), *parts)

    def test_damage_is_an_input_error_or_harmless(self, tmp_path: Path) -> None:
        FULL.save(tmp_path / "a.npz")
        content = (tmp_path / "a.npz").read_bytes()
        rng = np.random.default_rng(0)
        caught = 0
        for _ in range(150):
            damaged = bytearray(content)
            for at in rng.integers(len(content), size=3):
                damaged[at] = rng.integers(256)
            cut = len(damaged) if rng.random() < 0.7 else int(rng.integers(len(damaged)))
            (tmp_path / "b.npz").write_bytes(damaged[:cut])
            try:
                read_data(tmp_path / "b.npz")
            except InputError:
                caught += 1
        assert caught > 75

    def test_array_file_with_the_wrong_name(self, tmp_path: Path) -> None:
        with (tmp_path / "a.npz").open("wb") as file:
            np.save(file, np.zeros(3))
        refused(tmp_path / "a.npz", "not an npz file")


class TestNpzWithAModel:
    def test_names_are_translated(self, tmp_path: Path) -> None:
        write_npz(read_data(frame(state=list("xyzyx"))).demonstrations, tmp_path / "a.npz")
        model = Vocabulary(("z", "y", "x", "w"), 4)
        assert read_data(tmp_path / "a.npz", states=model).demonstrations.states.tolist() == [2, 0, 2, 1, 1]
        refused(tmp_path / "a.npz", "The state x", "trajectory b", states=Vocabulary(("z", "y"), 2))
        unknown = read_data(tmp_path / "a.npz", states=Vocabulary(("z", "y"), 2), unknown_state=True).demonstrations
        assert unknown.states.tolist() == [2, 0, 2, 1, 1]
        assert unknown.unknown_state

    def test_ids_and_sizes_are_checked(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "a.npz", states=[[0, 3]], actions=[[0, 1]])
        assert read_data(tmp_path / "a.npz", states=Vocabulary(None, 9)).demonstrations.n_states == 9
        refused(tmp_path / "a.npz", "The state 3", "trajectory 0", "ids 0 to 2", states=Vocabulary(None, 3))
        refused(tmp_path / "a.npz", "The action 1", states=Vocabulary(None, 4), actions=Vocabulary(None, 1))
        refused(tmp_path / "a.npz", "The state 0", "x, y", states=Vocabulary(("x", "y"), 2))
        np.savez(tmp_path / "b.npz", states=[[0, 3]], actions=[[0, 1]], n_states=100)
        refused(tmp_path / "b.npz", "100 states and the model 50", states=Vocabulary(None, 50))

    def test_mask_is_kept_only_for_the_same_ids(self, tmp_path: Path) -> None:
        mask = np.array([[True, True], [True, False]])
        np.savez(tmp_path / "a.npz", states=[[0, 1]], actions=[[1, 0]], n_states=2, n_actions=2, valid_actions=mask)
        two = Vocabulary(None, 2)
        same = read_data(tmp_path / "a.npz", states=two, actions=two).demonstrations
        assert same.valid_actions is not None
        np.testing.assert_array_equal(same.valid_actions, mask)
        assert read_data(tmp_path / "a.npz", states=Vocabulary(None, 3)).demonstrations.valid_actions is None
        assert read_data(tmp_path / "a.npz", states=two, unknown_state=True).demonstrations.valid_actions is None


class TestNothingIsTakenOnTrust:
    def member(self, tmp_path: Path, name: str, content: bytes) -> Path:
        path = tmp_path / "x.npz"
        np.savez(path, states=np.zeros((2, 3), int), actions=np.zeros((2, 3), int))
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # which zipfile says about a name that is there already
            archive.writestr(name, content)
        return path

    def header(self, shape: str, kind: str = "<i8") -> bytes:
        text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()

    def test_an_array_that_is_there_twice(self, tmp_path: Path) -> None:
        refused(self.member(tmp_path, "states.npy", self.header("(1,)") + bytes(8)), "'states' is there twice")

    def test_a_shape_that_the_bytes_do_not_have(self, tmp_path: Path) -> None:
        refused(
            self.member(tmp_path, "labels.npy", self.header("(10000000000,)")), "'labels'", "does not fit its bytes"
        )

    def test_more_than_fits_into_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = self.member(tmp_path, "labels.npy", self.header("(10000000,)") + bytes(80_000_000))
        assert path.stat().st_size < 1_000_000
        monkeypatch.setenv("PRISM_MAX_MEMORY", "0.01")
        refused(path, "160 MB of memory", "10 MB are allowed")

    @pytest.mark.parametrize(
        "text", ["(", "{'descr': ", "{'descr': '<i8', 'fortran_order': 3, 'shape': (1,)}", "\0" * 9]
    )
    def test_headers_that_are_none(self, tmp_path: Path, text: str) -> None:
        header = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
        refused(self.member(tmp_path, "labels.npy", header), "damaged or not an npz file")


# -- segments.parquet, in parts where the data are large ---------------------------------------------------------------


@pytest.mark.parametrize("named", [False, True])
def test_parts_make_the_same_file(tmp_path, monkeypatch, named):
    demos = walking(n_trajectories=7, length=20)
    known = np.full(demos.n_steps, -1)
    known[-3:] = 1  # nobody knows anything about the first parts
    names = np.array(list("abcdefg")) if named else np.array(["twice"] * 7)
    demos = replace(demos, partial_labels=known, partial_label_names=("go", "stay"), trajectory_names=names)
    one = Vocabulary(None, 1)
    table = Table(demos, None, np.arange(demos.n_steps), one, one, None)
    rng = np.random.default_rng(0)
    labels, beliefs = rng.integers(3, size=demos.n_steps), rng.random((demos.n_steps, 3))
    write_segments(table, labels, beliefs, tmp_path / "whole.parquet")
    monkeypatch.setattr("prism_irl.data.read.ROWS", 45)
    write_segments(table, labels, beliefs, tmp_path / "parts.parquet")
    whole, parts = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("whole", "parts"))
    pd.testing.assert_frame_equal(parts, whole)
    assert parts["labels"].dropna().tolist() == ["stay"] * 3


# -- arrays of other machines, and sizes that nobody means

STATES, ACTIONS = np.arange(12).reshape(3, 4) % 3, np.arange(12).reshape(3, 4) % 2


def test_arrays_of_another_byte_order_and_long_doubles_are_read(tmp_path):
    times = np.tile(np.arange(4.0), (3, 1))
    expected = Demonstrations.from_arrays(STATES, ACTIONS, observations=times[..., None], times=times)
    for number, order in ((np.dtype(">f8"), ">i8"), (np.dtype(np.longdouble), "<i4"), (np.dtype(">f4"), ">u2")):
        kept = {"times": times.astype(number), "observations": times[..., None].astype(number)}
        states, actions = STATES.astype(order), ACTIONS.astype(order)
        np.savez(tmp_path / "a.npz", states=states, actions=actions, **kept)
        rows = pd.DataFrame({"trajectory": np.repeat(range(3), 4), "state": states.ravel(), "action": actions.ravel()})
        found = [
            read_data(tmp_path / "a.npz").demonstrations,
            Demonstrations.from_arrays(states, actions, **kept),
            read_data(
                rows.assign(time=kept["times"].ravel(), x=kept["times"].ravel()), observations="x"
            ).demonstrations,
        ]
        for one in found:
            assert one.checksum() == expected.checksum()
            assert one.times.dtype.isnative
            assert one.times.dtype.itemsize <= 8
            assert to_pandas(one)["time"].tolist() == times.ravel().tolist()


def test_times_without_a_unit_are_refused(tmp_path):
    times = np.tile(np.arange(4), (3, 1)).astype("m8")
    np.savez(tmp_path / "a.npz", states=STATES, actions=ACTIONS, times=times)
    refused(tmp_path / "a.npz", "times without a unit")
    with pytest.raises(InputError, match="times without a unit"):
        Demonstrations.from_arrays(STATES, ACTIONS, times=times)


@pytest.mark.parametrize("size", [10**9, 2**62, np.uint64(2**64 - 1)])
def test_sizes_that_nobody_means_are_refused_before_an_array_is_made(tmp_path, size):
    for name in ("states", "actions"):
        np.savez(tmp_path / "a.npz", states=STATES, actions=ACTIONS, **{f"n_{name}": np.array(size)})
        refused(tmp_path / "a.npz", f"There are {size} {name}")
        with pytest.raises(InputError, match=f"There are {size} {name}"):
            Demonstrations.from_arrays(STATES, ACTIONS, **{f"n_{name}": int(size)})


def test_lengths_whose_sum_is_no_number_of_64_bits_are_refused(tmp_path):
    np.savez(
        tmp_path / "a.npz", states=np.zeros(12, int), actions=np.zeros(12, int), lengths=[2**62] * 3 + [2**62 + 12]
    )
    refused(tmp_path / "a.npz", "add up to its length")


def test_an_array_under_two_names_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", states=STATES, actions=ACTIONS)
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("states", archive.read("states.npy"))
    refused(tmp_path / "a.npz", "'states' is there twice")


def test_a_small_file_of_wide_text_is_refused_unless_somebody_allows_it(tmp_path, monkeypatch):
    n = 8_000
    note = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array(["x" * 100_000]))
    columns = {"trajectory": np.repeat(range(80), 100), "state": np.arange(n) % 3, "action": np.arange(n) % 2}
    pq.write_table(pa.table({**columns, "note": note}), tmp_path / "wide.parquet", store_schema=False)
    refused(tmp_path / "wide.parquet", "would become 1.6 GB", "PRISM_MAX_MEMORY")
    monkeypatch.setenv("PRISM_MAX_MEMORY", "1")
    refused(tmp_path / "wide.parquet", "would take about 1.6 GB")


# -- files


# -- text and Parquet --------------------------------------------------------------------------------------------------

HEADER = "trajectory,state,action\n"


def csv(tmp_path, text):
    path = tmp_path / "x.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_column_that_is_there_twice_is_refused_where_it_is_used(tmp_path):
    doubled = csv(tmp_path, "trajectory,state,action,state,note,note\na,0,0,1,x,y\na,1,0,0,x,y\n")
    refused(doubled, "column 'state' appears 2 times")
    assert read_data(doubled, state="note.1").demonstrations.n_steps == 2, "what is not used may be there twice"


@pytest.mark.parametrize(
    "said",
    [
        {"inputs": "thirst"},
        {"since": "water"},
        {"events": ("water",)},
        {"observations": ("thirst",)},
        {"observe": "thirst", "act": "water"},
    ],
    ids=str,
)
@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_whatever_a_column_is_used_for_it_is_there_once(tmp_path, said, suffix):
    rows = [["trajectory", "state", "action", "thirst", "water", "thirst", "water"]]
    rows += [["a", i % 2, 0, i, i % 2, -i, 0] for i in range(4)]
    path, table = tmp_path / f"x.{suffix}", pd.DataFrame(rows)
    if suffix == "csv":
        table.to_csv(path, index=False, header=False)
    else:
        pytest.importorskip("openpyxl")
        if "observe" in said:
            pytest.skip("columns to observe are those of text or Parquet")
        table.to_excel(path, index=False, header=False)
    columns = ColumnOptions(**said)
    with pytest.raises(InputError, match="appears 2 times"):
        read_inputs(read_table(path, columns).rows, columns)


def test_a_trajectory_may_be_called_infinite(tmp_path):
    found = read_data(csv(tmp_path, HEADER + "inf,0,0\ninf,1,0\n3,0,0\n3,1,0\n"))
    assert found.demonstrations.n_steps == 4


def test_damaged_spreadsheets_are_refused(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    path = tmp_path / "x.xlsx"
    frame().to_excel(path, index=False)
    good = path.read_bytes()
    with ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content[:-9] if name.endswith("sheet1.xml") else content)
    refused(path, "damaged or not an .xlsx file")
    path.write_bytes(good[: len(good) // 2])
    refused(path, "damaged or not an .xlsx file")
    path.write_bytes(good)
    monkeypatch.setenv("PRISM_MAX_MEMORY", "0.00001")
    refused(path, "of memory", "PRISM_MAX_MEMORY=GB")


@pytest.mark.parametrize("name", ["state", "note"])
def test_a_quote_that_is_not_closed_loses_no_rows(tmp_path, name):
    rows = [["a", "0", "0", "x"], ["a", "1", "0", "x"], ["a", "0", "1", "x"], ["a", "1", "1", "x"]]
    at = ["trajectory", "state", "action", "note"].index(name)
    rows[0][at], rows[2][at] = '"' + rows[0][at], rows[2][at] + '"'
    text = "trajectory,state,action,note\n" + "".join(",".join(row) + "\n" for row in rows)
    refused(csv(tmp_path, text), "row 0", "a quote is not closed")


def test_text_of_several_lines_is_fine(tmp_path):
    text = 'trajectory,state,action,note\na,0,0,"first, and\nsecond"\na,1,0,x\n'
    assert read_data(csv(tmp_path, text)).demonstrations.n_steps == 2


def test_bytes_that_no_text_has_are_refused(tmp_path):
    refused(csv(tmp_path, HEADER + "a,0,0\na,\0001,0\n"), "Line 3", "NUL byte")
    refused(csv(tmp_path, b"\xff\xfe" + (HEADER + "a,0,0\n").encode("utf-16-le")), "NUL byte")


def test_a_table_larger_than_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    n = 2_000_000
    path = tmp_path / "bomb.parquet"
    column = pa.array(np.zeros(n, dtype=np.int64))
    pq.write_table(pa.table({"trajectory": column, "state": column, "action": column}), path, compression="zstd")
    assert path.stat().st_size < 50_000
    monkeypatch.setenv("PRISM_MAX_MEMORY", "0.05")
    refused(path, "96 MB of memory", "50 MB are allowed", "PRISM_MAX_MEMORY=GB")


@pytest.mark.parametrize("number", [2**63, 2**64, 10**30, -(10**30)])
def test_integers_beyond_64_bits_are_kept_as_text_where_nobody_counts_with_them(tmp_path, number):
    path = csv(tmp_path, f"trajectory,state,action,serial\na,0,0,{number}\na,1,0,1\n")
    table = read_data(path)
    assert table.frame is not None
    write_table(table.frame, tmp_path / "out.parquet")
    assert str(pd.read_parquet(tmp_path / "out.parquet")["serial"].iloc[0]).removesuffix(".0") == str(number)


def test_an_ordinary_frame_is_written_as_it_is(tmp_path):
    write_table(frame(x=[0.5] * 5), tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "a.parquet"), frame(x=[0.5] * 5))


def test_a_spreadsheet_that_marks_decimals_with_commas(tmp_path: Path) -> None:
    """The friction: cells between semicolons shifted every column, or were one."""
    path = tmp_path / "steps.csv"
    path.write_text("Tier;Ort ;Aktion;Gewicht\nZoë;a,b;1;0,5\n\nZoë;c;2;1,25\n", encoding="utf-8-sig")
    found = read_table_file(path, {})
    assert list(found.columns) == ["Tier", "Ort", "Aktion", "Gewicht"]  # a space that nobody sees is no part of a name
    assert found["Ort"].tolist() == ["a,b", "c"]
    assert found["Gewicht"].tolist() == [0.5, 1.25]
    assert line_of(path, 1) == 4
    path.write_text("a;b\n1;0.5\n")
    assert read_table_file(path, {})["b"].tolist() == [0.5]
    path.write_text("a,b;c\n1,x;y\n")  # a comma in the header: cells are between commas
    assert list(read_table_file(path, {}).columns) == ["a", "b;c"]
    path.write_text("a\tb\n1\t2\n")
    assert list(read_table_file(path, {}).columns) == ["a", "b"]


def test_text_that_is_not_utf_8_says_how_to_save_it(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_bytes("Tier,Ort\nMaus,Nest\nMäuschen,Nest\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"not UTF-8 text at line 3; save it as “CSV UTF-8”"):
        read_table_file(path, {})


def test_a_column_that_is_nearly_there_is_named() -> None:
    steps = pd.DataFrame({"Bout": [0], "state": [0], "action": [0]})
    with pytest.raises(InputError, match=r"no column 'bout' for the trajectory \(do you mean 'Bout'\?\)"):
        Demonstrations.from_table(steps, trajectory="bout")
    with pytest.raises(InputError, match="one trajectory needs a column with the same value"):
        Demonstrations.from_table(steps[["state", "action"]])


def test_all_columns_that_are_missing_are_named_at_once() -> None:
    steps = pd.DataFrame({"animal": [0], "place": [0], "move": [0]})
    words = r"'trajectory', none 'state', none 'action'; .* animal, place, move; .* --trajectory, --state, --action"
    with pytest.raises(InputError, match=words):
        Demonstrations.from_table(steps)


# -- one file per animal -----------------------------------------------------------------------------------------------

ROLES = {"trajectory": "file,bout", "state": "cell", "action": "move"}


def animal(path, seed, **columns):
    rng = np.random.default_rng(seed)
    rows = {"bout": np.repeat([0, 1], 4), "cell": rng.integers(3, size=8), "move": rng.choice(["left", "right"], 8)}
    pd.DataFrame(rows | columns).to_csv(path, index=False)
    return pd.DataFrame(rows | columns)


@pytest.fixture
def folder(tmp_path):
    for seed, name in enumerate(("m1", "m2", "m10")):
        animal(tmp_path / f"{name}.csv", seed)
    (tmp_path / "notes.txt").write_text("not a table")
    return tmp_path


def test_a_pattern_is_the_table_of_all_files(folder):
    found = read_data(folder / "m*.csv", **ROLES, group="file")
    parts = [pd.read_csv(folder / f"{name}.csv").assign(file=name) for name in ("m1", "m10", "m2")]  # by name
    by_hand = read_data(pd.concat(parts, ignore_index=True), **ROLES, group="file")
    assert found.demonstrations.checksum() == by_hand.demonstrations.checksum()
    assert list(found.demonstrations.trajectory_names) == list(by_hand.demonstrations.trajectory_names)
    assert len(found.demonstrations) == 6  # bout 0 of one animal is not bout 0 of another
    assert found.demonstrations.n_groups == 3


def test_one_file_can_be_a_trajectory_and_is_read_like_many(folder):
    whole = read_data(folder / "m1.csv", **ROLES | {"trajectory": "file"}).demonstrations
    assert (len(whole), whole.n_steps) == (1, 8)
    assert len(read_data(folder / "m1.csv", **ROLES).demonstrations) == 2
    with pytest.raises(InputError, match="no column 'file'"):
        read_data(pd.read_csv(folder / "m1.csv"), **ROLES)  # rows without a file have no such name


def test_a_column_of_that_name_stays(folder):
    for name in ("m1", "m2", "m10"):
        animal(folder / f"{name}.csv", 0, file=f"session of {name}")
    names = read_data(folder / "m*.csv", **ROLES).demonstrations.trajectory_names
    assert {str(name).split("/")[0] for name in names} == {"session of m1", "session of m2", "session of m10"}


def test_commands_are_continuous_in_many_files_too(folder):
    for name in ("m1", "m2", "m10"):
        animal(folder / f"{name}.csv", 0, x=np.linspace(0, 1, 8), v=np.linspace(1, 2, 8))
    found = read_data(folder / "m*.csv", trajectory="file,bout", observe="x", act="v").demonstrations
    assert (len(found), found.n_steps) == (6, 24)


def test_equal_names_in_two_folders_are_told_apart(folder):
    for name in ("one", "two"):
        (folder / name).mkdir()
        animal(folder / name / "session.csv", 0)
    assert len(read_data(folder / "*" / "session.csv", **ROLES).demonstrations) == 4


def test_what_is_wrong_is_said_with_its_file(folder):
    with pytest.raises(InputError, match="No file matches"):
        read_data(folder / "k*.csv", **ROLES)
    with pytest.raises(InputError, match="type --trajectory file,bout, so that equal numbers"):
        read_data(folder / "m*.csv", **ROLES | {"trajectory": "bout"})
    states = read_data(folder / "m*.csv", **ROLES).states
    rows = (folder / "m10.csv").read_text().splitlines()
    (folder / "m10.csv").write_text("\n".join([*rows[:2], "0,77,left", *rows[3:]]) + "\n")
    with pytest.raises(InputError, match=r"77 at column 'cell', line 3 of m10\.csv \(trajectory m10/0\)"):
        read_data(folder / "m*.csv", **ROLES, states=states)
    (folder / "m2.csv").write_text("bout,cell\n0,1\n")
    with pytest.raises(InputError, match=r"m2\.csv has no column 'move', and m1\.csv has"):
        read_data(folder / "m*.csv", **ROLES)


def test_a_pattern_without_quotes_is_explained(folder, capsys):
    files = [str(path) for path in sorted(folder.glob("m*.csv"))]
    assert main(["fit", *files, "--trajectory", "bout", "--out", str(folder / "run")]) == 2
    assert 'several as one pattern in quotes: fit "*.csv"' in capsys.readouterr().err


def test_a_run_of_many_files_reads_new_ones(folder, capsys):
    columns = ["--trajectory", "file,bout", "--state", "cell", "--action", "move", "--group", "file"]
    small = ["--switching", "markov", "--intentions", "2", "--max-iterations", "2"]
    assert main(["fit", str(folder / "m*.csv"), *columns, *small, "--out", str(folder / "run")]) == 0
    assert main(["segment", str(folder / "run"), str(folder / "m2.csv"), "--out", str(folder / "new.csv")]) == 0
    assert set(pd.read_csv(folder / "new.csv")["file"]) == {"m2"}
    assert main(["segment", str(folder / "run"), str(folder / "m*.csv"), "--out", str(folder / "all.csv")]) == 0
    assert pd.read_csv(folder / "all.csv").groupby("file").size().to_dict() == {"m1": 8, "m10": 8, "m2": 8}
