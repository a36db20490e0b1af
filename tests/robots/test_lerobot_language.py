"""Language rows field by field as LeRobot 0.6 defines them, SARM's stages, and segments in seconds."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_irl.errors import InputError
from prism_irl.robots.continuous import read_dataset
from prism_irl.robots.lerobot import Words, active, write_rerun, write_seconds
from prism_irl.robots.lerobot_writing import add_column, segments_in_seconds
from recordings_on_disk import write_lerobot_version
from worlds.scripted import episodes

MOTIONS = ("gripper goes low", "tool_z rises", "stays in place")
NAMES = ("grasp", "lift", "wait")


@pytest.fixture(params=["v2.1", "v3.0"])
def written(request, tmp_path):
    """A dataset, its copy with three stages per episode, and the labels."""
    source = write_lerobot_version(tmp_path / "arm", list(episodes("pick-place", 3)), request.param)
    lengths = [len(one) for one in episodes("pick-place", 3)]
    values = {i: (np.arange(n), np.arange(n) * 3 // n) for i, n in enumerate(lengths)}
    add_column(source, tmp_path / "copy", values, Words(MOTIONS, NAMES))
    return source, tmp_path / "copy", values


def tables(folder):
    found = [pq.read_table(path, partitioning=None) for path in sorted((folder / "data").rglob("*.parquet"))]
    return pa.concat_tables(found)


def test_rows_are_those_of_the_format(written):
    _, copy, values = written
    table = tables(copy)
    kind = table.schema.field("language_persistent").type
    assert pa.types.is_list(kind)
    row = kind.value_type
    assert [field.name for field in row] == ["role", "content", "style", "timestamp", "camera", "tool_calls"]
    assert [field.type for field in row][:5] == [pa.string(), pa.string(), pa.string(), pa.float32(), pa.string()]
    assert pa.types.is_list(row.field("tool_calls").type)
    info = json.loads((copy / "meta" / "info.json").read_text())
    assert info["features"]["language_persistent"] == {"dtype": "language", "shape": [1], "names": None}
    frames = table.select(["episode_index", "frame_index", "timestamp", "language_persistent"]).to_pylist()
    for episode, (_, labels) in values.items():
        own = [frame for frame in frames if frame["episode_index"] == episode]
        rows = own[0]["language_persistent"]
        assert all(frame["language_persistent"] == rows for frame in own)  # the same on every frame
        times = {np.float32(np.ravel(frame["timestamp"])[0]) for frame in own}
        for one in rows:
            assert one["role"] == "assistant"
            assert one["style"] in {"motion", "subtask"}
            assert one["camera"] is None
            assert one["tool_calls"] is None
            assert np.float32(one["timestamp"]) in times  # on a frame's own
        said = active(rows, "subtask", np.array([np.ravel(frame["timestamp"])[0] for frame in own]))
        assert said.tolist() == [NAMES[k] for k in labels]
        assert {one["content"] for one in rows if one["style"] == "motion"} == set(MOTIONS)


def test_they_are_read_back_as_labels(written):
    _, copy, values = written
    for style, words in (("subtask", NAMES), ("motion", MOTIONS)):
        demos = read_dataset(copy, "observation.state", "action", labels=style).demonstrations
        assert demos.partial_label_names == words
        np.testing.assert_array_equal(demos.partial_labels, np.concatenate([labels for _, labels in values.values()]))


def test_phases_without_names_have_motions_alone(written, tmp_path):
    source, _, values = written
    add_column(source, tmp_path / "plain", values, Words(MOTIONS))
    rows = tables(tmp_path / "plain")["language_persistent"][0].as_py()
    assert {one["style"] for one in rows} == {"motion"}


def test_stages_as_sarm_reads_them(written, tmp_path):
    source, copy, values = written
    shares = json.loads((copy / "meta" / "temporal_proportions_dense.json").read_text())
    assert list(shares) == list(NAMES)
    assert sum(shares.values()) == pytest.approx(1.0)
    if (copy / "meta" / "episodes.jsonl").is_file():
        rows = [json.loads(line) for line in (copy / "meta" / "episodes.jsonl").read_text().splitlines()]
    else:
        rows = pq.read_table(next((copy / "meta" / "episodes").rglob("*.parquet")), partitioning=None).to_pylist()
    for row in rows:
        labels = values[row["episode_index"]][1]
        assert row["dense_subtask_names"] == list(NAMES)
        assert row["dense_subtask_start_frames"] == [int(np.argmax(labels == k)) for k in range(3)]
        assert row["dense_subtask_end_frames"][-1] == len(labels) - 1
    back = {i: (frames, np.where(labels == 2, 0, labels)) for i, (frames, labels) in values.items()}
    add_column(source, tmp_path / "back", back, Words(MOTIONS, NAMES))  # no stages: the first comes again
    assert not (tmp_path / "back" / "meta" / "temporal_proportions_dense.json").exists()


def test_segments_in_seconds(written, tmp_path):
    source, _, values = written
    segments = segments_in_seconds(source, values)
    write_seconds(tmp_path / "found.json", segments, NAMES)
    found = json.loads((tmp_path / "found.json").read_text())
    assert [one["subtask"] for one in found["0"]] == list(NAMES)
    assert all(one["end_sec"] > one["start_sec"] for own in found.values() for one in own)
    assert [one["end_sec"] for one in found["1"]][:-1] == [one["start_sec"] for one in found["1"]][1:]
    write_seconds(tmp_path / "found.vtt", {0: segments[0]}, NAMES)
    lines = (tmp_path / "found.vtt").read_text().splitlines()
    assert lines[0] == "WEBVTT"
    assert lines[2].startswith("00:00:00.000 --> 00:00:0")
    assert lines[3] == "grasp"


def test_rerun_is_an_extra(written, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "rerun", None)
    demos = read_dataset(written[0], "observation.state", "action").demonstrations
    with pytest.raises(InputError, match=r"rerun is not installed.*prism-irl\[rerun\]"):
        write_rerun(tmp_path / "arm.rrd", demos, np.zeros(demos.n_steps, int), NAMES, 10.0)


def test_curves_and_phases_for_rerun(written, tmp_path):
    pytest.importorskip("rerun")
    demos = read_dataset(written[0], "observation.state", "action").demonstrations
    write_rerun(tmp_path / "arm.rrd", demos, np.zeros(demos.n_steps, int), NAMES, 10.0)
    assert (tmp_path / "arm.rrd").read_bytes()[:3] == b"RRF"


@pytest.mark.skipif("PRISM_LEROBOT" not in os.environ, reason="PRISM_LEROBOT: a Python that has lerobot 0.6 or later")
def test_lerobot_itself_opens_the_copy(tmp_path):
    source = write_lerobot_version(tmp_path / "arm", list(episodes("pick-place", 3)), "v3.0")
    lengths = [len(one) for one in episodes("pick-place", 3)]
    values = {i: (np.arange(n), np.arange(n) * 3 // n) for i, n in enumerate(lengths)}
    add_column(source, tmp_path / "copy", values, Words(MOTIONS, NAMES))
    script = """
import sys
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.datasets.language_render import active_at
found = LeRobotDataset("local/copy", root=sys.argv[1])
for i in range(len(found)):
    frame = found[i]
    row = active_at(float(frame["timestamp"]), persistent=frame["language_persistent"], style="subtask")
    print(int(frame["intention"]), row["content"])
"""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}
    words = [os.environ["PRISM_LEROBOT"], "-c", script, tmp_path / "copy"]
    done = subprocess.run(words, capture_output=True, text=True, env=clean, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stdout.splitlines() if line[:1].isdigit()]
    assert lines == [f"{k} {NAMES[k]}" for _, labels in values.values() for k in labels]
