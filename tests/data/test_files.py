from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_irl.cli.main import main
from prism_irl.cli.options import ColumnOptions
from prism_irl.cli.sources import read_inputs, read_table
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.files import line_of, read_table_file, write_table
from prism_irl.data.read import read_data
from prism_irl.errors import InputError
from support import frame, refused

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
