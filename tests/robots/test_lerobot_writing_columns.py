import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_irl.errors import InputError
from prism_irl.robots.lerobot import LeRobotSource, Words
from prism_irl.robots.lerobot_writing import add_column
from recordings_on_disk import write_lerobot_version
from worlds.lerobot import write_lerobot

pytest.importorskip("av", reason="needs prism-irl[robots]")
WORDS = Words(("moves", "rests", "turns"))


def checksum(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def column(folder: Path) -> dict[int, list[int]]:
    tables = [pq.read_table(path, partitioning=None) for path in sorted((Path(folder) / "data").glob("**/*.parquet"))]
    rows = pa.concat_tables(tables).select(["episode_index", "frame_index", "intention"]).to_pylist()
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(row["episode_index"], []).append(row["intention"])
    return found


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_the_copy_has_everything_and_the_column(episodes, tmp_path, version):
    source = write_lerobot_version(tmp_path / "source", episodes(), version)
    before = checksum(source)
    # Episode 0: the first step was dropped; episode 2 was left out altogether.
    values = {i: (np.arange(i == 0, 5 + i), np.arange(5 + i - (i == 0)) % 3) for i in (0, 1, 3)}
    assert add_column(source, tmp_path / "copy", values, WORDS) == 4 + 6 + 8
    assert checksum(source) == before
    assert column(tmp_path / "copy") == {
        0: [-1, 0, 1, 2, 0],
        1: [0, 1, 2, 0, 1, 2],
        2: [-1] * 7,
        3: [0, 1, 2, 0, 1, 2, 0, 1],
    }
    read = [
        list(LeRobotSource(folder, strict=True).visit(lambda e: list(e.frames())))
        for folder in (source, tmp_path / "copy")
    ]
    for (original, frames), (copied, same_frames) in zip(*read, strict=True):
        np.testing.assert_array_equal(original.actions, copied.actions)
        np.testing.assert_array_equal(original.states, copied.states)
        np.testing.assert_array_equal(frames, same_frames)
    feature = json.loads((tmp_path / "copy/meta/info.json").read_text())["features"]["intention"]
    assert feature == {"dtype": "int64", "shape": [1], "names": None}
    assert not list(tmp_path.glob(".*tmp"))


@pytest.mark.parametrize("line", [b'{"episode_index": 0, "stats": "\xff"}', b'{"episode_index": 0, "stats": 3}', b"[]"])
def test_a_damaged_line_of_the_metadata_leaves_no_copy(episodes, tmp_path, line):
    source = write_lerobot(tmp_path / "source", episodes(1, cameras=()))
    (source / "meta" / "episodes_stats.jsonl").write_bytes(line)
    with pytest.raises(InputError):
        add_column(source, tmp_path / "copy", {0: (np.arange(5), np.zeros(5, int))}, WORDS)
    assert not (tmp_path / "copy").exists()


def test_refusals(episodes, tmp_path):
    source = write_lerobot(tmp_path / "source", episodes(2, cameras=()))
    good = {0: (np.arange(5), np.zeros(5, int))}
    with pytest.raises(InputError, match="lies inside the dataset"):
        add_column(source, source / "copy", good, WORDS)
    with pytest.raises(InputError, match="exists already"):
        add_column(source, source, good, WORDS)
    with pytest.raises(InputError, match="Episode 7 has 5 segmented steps"):
        add_column(source, tmp_path / "copy", {7: good[0]}, WORDS)
    with pytest.raises(InputError, match="Episode 0 has 9 segmented steps"):
        add_column(source, tmp_path / "copy", {0: (np.arange(9), np.zeros(9, int))}, WORDS)
    assert not (tmp_path / "copy").exists()
    assert not list(tmp_path.glob(".*tmp"))
    add_column(source, tmp_path / "copy", good, WORDS)
    with pytest.raises(InputError, match="has a column 'intention' already"):
        add_column(tmp_path / "copy", tmp_path / "again", good, WORDS)
