import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_irl.errors import InputError
from prism_irl.robots.episodes import DamagedEpisodeError, DamagedEpisodeWarning, open_episodes
from prism_irl.robots.lerobot import LeRobotSource
from recordings_on_disk import encode_image, write_lerobot_version
from worlds.lerobot import write_lerobot

pytest.importorskip("av", reason="needs prism-irl[robots]")
VERSIONS = ("v2.1", "v3.0")


@pytest.fixture
def write(episodes, tmp_path):
    """Write a dataset of four episodes."""

    def make(version: str, **options) -> Path:
        return write_lerobot_version(tmp_path / version, episodes(**options), version)

    return make


def change_info(folder: Path, **changes) -> None:
    path = folder / "meta" / "info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("version", VERSIONS)
def test_written_episodes_come_back(write, episodes, same_pictures, version):
    source = open_episodes(write(version), strict=True)
    assert isinstance(source, LeRobotSource)
    assert source.n_episodes == 4
    originals = episodes()
    read = list(source.visit(lambda e: {camera: list(e.frames(camera)) for camera in e.cameras}))
    assert len(read) == 4
    for original, (episode, frames) in zip(originals, read, strict=True):
        np.testing.assert_array_equal(episode.actions, original.actions)
        np.testing.assert_array_equal(episode.states, original.states)
        np.testing.assert_array_equal(episode.phases, original.phases)
        np.testing.assert_allclose(episode.timestamps, np.arange(len(original)) / 10, atol=1e-6)
        assert (episode.language, episode.phase_names) == (original.language, original.phase_names)
        assert list(frames) == list(original.cameras)
        for c, pictures in enumerate(frames.values()):
            assert same_pictures(pictures, episode.index, c)


@pytest.mark.parametrize("version", VERSIONS)
def test_without_cameras_and_phases(write, version):
    for episode in LeRobotSource(write(version, cameras=(), phases=False), strict=True):
        assert not episode.cameras
        assert episode.phases is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_truncated_video_is_named_skipped_and_counted(write, version):
    folder = write(version)
    video = sorted((folder / "videos").rglob("*top*/**/*.mp4"))[-1]
    video.write_bytes(video.read_bytes()[: video.stat().st_size // 2])
    source = LeRobotSource(folder)
    with pytest.warns(DamagedEpisodeWarning, match="Episode 3 is left out"):
        read = [e.index for e, _ in source.visit(lambda e: list(e.frames()))]
    assert read == [0, 1, 2]
    assert [skipped.name for skipped in source.skipped] == ["3"]
    with pytest.raises(DamagedEpisodeError, match="Episode 3"):
        list(LeRobotSource(folder, strict=True).visit(lambda e: list(e.frames())))


def test_a_missing_table_or_video_and_a_wrong_length_are_named(write, episodes):
    folder = write("v2.1")
    (folder / "data/chunk-000/episode_000000.parquet").unlink()
    (folder / "videos/chunk-000/observation.images.top/episode_000001.mp4").unlink()
    lines = (folder / "meta/episodes.jsonl").read_text().splitlines()
    lines[2] = json.dumps(json.loads(lines[2]) | {"length": 99})
    (folder / "meta/episodes.jsonl").write_text("\n".join(lines))
    source = LeRobotSource(folder)
    with pytest.warns(DamagedEpisodeWarning):
        read = [e.index for e, _ in source.visit(lambda e: list(e.frames()))]
    assert read == [3]
    reasons = [skipped.reason for skipped in source.skipped]
    assert "episode_000000.parquet is missing" in reasons[0]
    assert "episode_000001.mp4 is missing" in reasons[1]
    assert "7 rows and its metadata say 99 steps" in reasons[2]


def test_rows_missing_in_a_shared_table_cost_their_episode_only(write):
    folder = write("v3.0")
    path = folder / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.filter(pa.compute.not_equal(table["episode_index"], 1)), path)
    source = LeRobotSource(folder)
    with pytest.warns(DamagedEpisodeWarning, match="Episode 1 is left out: file-000.parquet has no rows of it"):
        assert [e.index for e in source] == [0, 2, 3]


def test_a_video_that_metadata_say_is_too_short(write):
    folder = write("v3.0")
    path = folder / "meta/episodes/chunk-000/file-000.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[2]["videos/observation.images.top/to_timestamp"] -= 0.2
    pq.write_table(pa.Table.from_pylist(rows), path)
    assert [e.index for e in LeRobotSource(folder)] == [0, 1, 2, 3]  # nobody asked for the camera
    with pytest.warns(DamagedEpisodeWarning, match="Episode 2 is left out: camera observation.images.top lasts"):
        assert [e.index for e, _ in LeRobotSource(folder).visit(lambda e: list(e.frames()))] == [0, 1, 3]
    rows[2]["videos/observation.images.top/to_timestamp"] += 0.1  # the last frame's own time: one frame short
    pq.write_table(pa.Table.from_pylist(rows), path)
    assert [e.index for e, _ in LeRobotSource(folder).visit(lambda e: list(e.frames()))] == [0, 1, 2, 3]


def test_pictures_inside_the_table(write, episodes, same_pictures):
    folder = write("v2.1", cameras=())
    info = json.loads((folder / "meta/info.json").read_text())
    info["features"]["observation.image"] = {"dtype": "image", "shape": [32, 48, 3], "names": None}
    (folder / "meta/info.json").write_text(json.dumps(info))
    for original in episodes():
        path = folder / f"data/chunk-000/episode_{original.index:06d}.parquet"
        stored = [{"bytes": encode_image(frame), "path": None} for frame in original.frames()]
        pq.write_table(pq.read_table(path).append_column("observation.image", pa.array(stored)), path)
    for episode in LeRobotSource(folder, strict=True):
        assert same_pictures(list(episode.frames("observation.image")), episode.index)


@pytest.mark.parametrize(
    "template",
    [
        "../outside/episode_{episode_index:06d}.parquet",
        "/etc/passwd",
        "data/{episode_index.__class__}.parquet",
        "data/{episode_index:999999999d}.parquet",
        "data/{nothing}.parquet",
        "data/{}.parquet",
    ],
)
def test_path_templates_are_not_trusted(write, template):
    folder = write("v2.1")
    change_info(folder, data_path=template)
    with pytest.raises(InputError, match="data_path"):
        list(LeRobotSource(folder))


def test_a_camera_name_cannot_leave_the_dataset(write):
    folder = write("v2.1")
    info = json.loads((folder / "meta/info.json").read_text())
    info["features"]["../../../secret"] = {"dtype": "video", "shape": [2, 2, 3]}
    (folder / "meta/info.json").write_text(json.dumps(info))
    with pytest.raises(InputError, match="points outside the dataset"):
        list(LeRobotSource(folder).visit(lambda e: list(e.frames("../../../secret"))))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"codebase_version": "v1.6"}, "version v1.6; prism reads v2.0, v2.1, v3.0"),
        ({"features": None}, "describes no features"),
        ({"fps": "fast"}, "no numbers"),
        ({"chunks_size": 0}, "no numbers above 0"),
    ],
)
def test_unusable_metadata(write, changes, words):
    folder = write("v2.1")
    change_info(folder, **changes)
    with pytest.raises(InputError, match=words):
        LeRobotSource(folder)


def test_writing_refuses_what_does_not_fit(episodes, tmp_path):
    some = episodes()
    with pytest.raises(InputError, match="no episode"):
        write_lerobot(tmp_path / "none", [])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(InputError, match="exists already"):
        write_lerobot(tmp_path / "full", some)
    with pytest.raises(InputError, match="cameras of episode 0 differ"):
        write_lerobot(tmp_path / "mixed", [*some, *episodes(1, cameras=())])
    with pytest.raises(InputError, match="3 names for the 7 dimensions"):
        write_lerobot(tmp_path / "names", some, action_names=["x", "y", "z"])


def test_a_table_that_claims_to_be_huge_is_refused(write):
    folder = write("v2.1", cameras=())
    path = folder / "data/chunk-000/episode_000001.parquet"
    table = pq.read_table(path)
    wide = pa.array([[0.0] * 5000] * len(table))  # a few bytes on disk
    pq.write_table(table.set_column(table.schema.get_field_index("action"), "action", wide), path)
    with pytest.warns(DamagedEpisodeWarning, match=r"Episode 1 is left out: .* claims 30000 numbers"):
        assert [e.index for e in LeRobotSource(folder)] == [0, 2, 3]


def test_rows_of_unequal_width_are_said(write):
    folder = write("v2.1")
    path = sorted(folder.rglob("*.parquet"))[0]
    table = pq.read_table(path)
    ragged = pa.array([[0.0] * (2 + i % 2) for i in range(len(table))])
    pq.write_table(table.set_column(table.schema.get_field_index("action"), "action", ragged), path)
    with pytest.raises(InputError, match="column action has rows of 2 different lengths"):
        list(LeRobotSource(folder, strict=True))


def test_instructions_by_task_number(write, episodes):
    folder = write("v2.1", cameras=())
    path = folder / "meta/episodes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("\n".join(json.dumps({key: row[key] for key in ("episode_index", "length")}) for row in rows))
    assert [e.language for e in LeRobotSource(folder, strict=True)] == [e.language for e in episodes()]


def test_instructions_by_task_number_in_shared_tables(write, episodes):
    folder = write("v3.0", cameras=())
    path = folder / "meta/episodes/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(path).drop_columns("tasks"), path)
    assert [e.language for e in LeRobotSource(folder, strict=True)] == [e.language for e in episodes()]
