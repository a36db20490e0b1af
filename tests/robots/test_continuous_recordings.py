"""From tokens back to frames: the dataset is found where it was, or beside its tokens, and no other is taken for it."""

import shutil

import numpy as np
import pytest

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.read import read_data, write_npz
from prism_irl.errors import InputError
from prism_irl.robots import continuous
from prism_irl.robots.continuous import (
    TOKENIZE,
    come_from_tokens,
    frames_of,
    kept_frames,
    place,
    read_dataset,
    recordings_of,
)
from prism_irl.robots.episodes import open_episodes
from prism_irl.robots.rlds import RLDSSource
from worlds.lerobot import write_lerobot

pytest.importorskip("av", reason="needs prism-irl[robots]")


@pytest.fixture
def project(tmp_path, episodes):
    """A dataset and a folder of tokens beside it, as `prism tokenize` leaves it."""
    dataset, tokens = tmp_path / "project" / "dataset", tmp_path / "project" / "tokens"
    write_lerobot(dataset, episodes(3))
    tokens.mkdir()
    states = [np.arange(length) for length in (4, 6, 7)]  # the first step of the first episode was dropped
    demos = Demonstrations.from_arrays(states, states, n_states=8, n_actions=8)
    demos = Demonstrations(
        **{**vars(demos), "times": np.concatenate([[1, 2, 3, 4], np.arange(6), np.arange(7)])}
        | {"trajectory_names": np.array(["0", "1", "2"])}
    )
    write_npz(demos, tokens / "demonstrations.npz")
    config = {
        "dataset": open_episodes(dataset).describe(),
        "source": place(dataset, tokens),
        "options": {"camera": "observation.images.wrist"},
        "data": {"sha256": demos.checksum()},
    }
    storage.write_json(tokens / "config.json", config)
    return tmp_path / "project", demos


def test_tokens_are_known_by_their_own_word_or_by_the_config_beside_them(project, tmp_path):
    folder, demos = project
    tokens = folder / "tokens" / "demonstrations.npz"
    assert come_from_tokens(tokens, demos)  # as earlier versions left them
    shutil.rmtree(folder / "dataset")
    assert come_from_tokens(tokens, demos)
    moved = tmp_path / "moved.npz"
    shutil.copy(tokens, moved)
    assert not come_from_tokens(moved, demos)
    write_npz(demos, moved, made_by=TOKENIZE)
    assert come_from_tokens(moved, demos)
    assert read_data(moved).demonstrations.checksum() == demos.checksum()
    assert not come_from_tokens(tmp_path / "mouse.csv", demos)


def test_frames_are_of_the_camera_that_was_observed(project):
    folder, _ = project
    for observe, camera in (
        ("observation.state", None),
        ("observation.state[0:2],observation.images.wrist", "observation.images.wrist"),
    ):
        demos = read_dataset(folder / "dataset", observe, "action").demonstrations
        found = recordings_of(folder / "dataset", demos)
        assert found is not None
        assert found.camera == camera


def test_the_dataset_is_found_with_its_camera(project, same_pictures):
    folder, demos = project
    found = recordings_of(folder / "tokens" / "demonstrations.npz", demos)
    assert found.source.folder == folder / "dataset"
    frames = list(frames_of(found.source, 2, found.camera))
    assert len(frames) == 7
    assert same_pictures(frames, 2, 1)


def test_frames_are_those_of_the_kept_steps(project):
    _, demos = project
    numbered = (np.full((2, 2, 3), number, np.uint8) for number in range(9))
    assert [int(frame[0, 0, 0]) for frame in kept_frames(numbered, demos, 0)] == [1, 2, 3, 4]


def test_a_project_may_be_moved_as_a_whole(project, tmp_path):
    folder, demos = project
    folder.rename(tmp_path / "elsewhere")
    found = recordings_of(tmp_path / "elsewhere" / "tokens" / "demonstrations.npz", demos)
    assert found.source.folder.resolve() == tmp_path / "elsewhere" / "dataset"


def test_a_dataset_that_is_gone_or_another_is_said_so(project, episodes):
    folder, demos = project
    table = folder / "tokens" / "demonstrations.npz"
    shutil.rmtree(folder / "dataset")
    with pytest.raises(InputError, match="no longer at"):
        recordings_of(table, demos)
    write_lerobot(folder / "dataset", episodes(2))
    with pytest.raises(InputError, match="not the one"):
        recordings_of(table, demos)


def test_other_tables_have_no_recordings(project, tmp_path):
    folder, demos = project
    table = folder / "tokens" / "demonstrations.npz"
    assert recordings_of(table, demos.subset([0])) is None  # other steps than those that were tokenized
    assert recordings_of(folder / "tokens" / "table.csv", demos) is None
    assert recordings_of(tmp_path / "own.npz", demos) is None
    (folder / "tokens" / "config.json").write_text("{")
    assert recordings_of(table, demos) is None


def test_of_shards_only_the_first_episodes_are_looked_for(project, tmp_path, monkeypatch):
    folder, demos = project
    monkeypatch.setattr(continuous, "MOST_PASSED", 2)
    assert continuous.reachable(open_episodes(folder / "dataset"), demos) == [0, 1, 2]
    assert continuous.reachable(RLDSSource.__new__(RLDSSource), demos) == [0, 1]


def test_an_episode_that_is_not_there_is_an_error(project):
    folder, _ = project
    with pytest.raises(InputError, match="Episode 7 is not in"):
        frames_of(open_episodes(folder / "dataset"), 7)
