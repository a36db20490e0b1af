"""One file per animal: a pattern is one table, its rows know their file, and bouts of two files stay apart."""

import numpy as np
import pandas as pd
import pytest

from prism_irl.cli.main import main
from prism_irl.data import tables
from prism_irl.errors import InputError

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
    found = tables.read(folder / "m*.csv", **ROLES, group="file")
    parts = [pd.read_csv(folder / f"{name}.csv").assign(file=name) for name in ("m1", "m10", "m2")]  # by name
    by_hand = tables.read(pd.concat(parts, ignore_index=True), **ROLES, group="file")
    assert found.demonstrations.checksum() == by_hand.demonstrations.checksum()
    assert list(found.demonstrations.trajectory_names) == list(by_hand.demonstrations.trajectory_names)
    assert len(found.demonstrations) == 6  # bout 0 of one animal is not bout 0 of another
    assert found.demonstrations.n_groups == 3


def test_one_file_can_be_a_trajectory_and_is_read_like_many(folder):
    whole = tables.read(folder / "m1.csv", **ROLES | {"trajectory": "file"}).demonstrations
    assert (len(whole), whole.n_steps) == (1, 8)
    assert len(tables.read(folder / "m1.csv", **ROLES).demonstrations) == 2
    with pytest.raises(InputError, match="no column 'file'"):
        tables.read(pd.read_csv(folder / "m1.csv"), **ROLES)  # rows without a file have no such name


def test_a_column_of_that_name_stays(folder):
    for name in ("m1", "m2", "m10"):
        animal(folder / f"{name}.csv", 0, file=f"session of {name}")
    names = tables.read(folder / "m*.csv", **ROLES).demonstrations.trajectory_names
    assert {str(name).split("/")[0] for name in names} == {"session of m1", "session of m2", "session of m10"}


def test_commands_are_continuous_in_many_files_too(folder):
    for name in ("m1", "m2", "m10"):
        animal(folder / f"{name}.csv", 0, x=np.linspace(0, 1, 8), v=np.linspace(1, 2, 8))
    found = tables.read(folder / "m*.csv", trajectory="file,bout", observe="x", act="v").demonstrations
    assert (len(found), found.n_steps) == (6, 24)


def test_equal_names_in_two_folders_are_told_apart(folder):
    for name in ("one", "two"):
        (folder / name).mkdir()
        animal(folder / name / "session.csv", 0)
    assert len(tables.read(folder / "*" / "session.csv", **ROLES).demonstrations) == 4


def test_what_is_wrong_is_said_with_its_file(folder):
    with pytest.raises(InputError, match="No file matches"):
        tables.read(folder / "k*.csv", **ROLES)
    with pytest.raises(InputError, match="type --trajectory file,bout, so that equal numbers"):
        tables.read(folder / "m*.csv", **ROLES | {"trajectory": "bout"})
    states = tables.read(folder / "m*.csv", **ROLES).states
    rows = (folder / "m10.csv").read_text().splitlines()
    (folder / "m10.csv").write_text("\n".join([*rows[:2], "0,77,left", *rows[3:]]) + "\n")
    with pytest.raises(InputError, match=r"77 at column 'cell', line 3 of m10\.csv \(trajectory m10/0\)"):
        tables.read(folder / "m*.csv", **ROLES, states=states)
    (folder / "m2.csv").write_text("bout,cell\n0,1\n")
    with pytest.raises(InputError, match=r"m2\.csv has no column 'move', and m1\.csv has"):
        tables.read(folder / "m*.csv", **ROLES)


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
