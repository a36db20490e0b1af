import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from bridge import raw
from bridge.raw import BridgeSource
from prism_irl.errors import InputError
from prism_irl.robots.episodes import DamagedEpisodeError, DamagedEpisodeWarning, Episode
from recordings_on_disk import encode_image

pytest.importorskip("PIL", reason="needs prism-irl[robots]")
OLD, NEW = "2021-07-22_23-59-59", "2021-07-23_00-00-00"


def write_trajectory(folder: Path, episode: Episode, as_dicts: bool = True) -> None:
    """One more picture and state than actions, as the robot recorded them."""
    (folder / "images0").mkdir(parents=True)
    assert episode.states is not None
    for step, frame in enumerate(episode.frames()):
        (folder / "images0" / f"im_{step}.jpg").write_bytes(encode_image(frame, "JPEG"))
    times = 100 + np.arange(len(episode)) / 5
    observations = {"full_state": episode.states, "time_stamp": times.tolist()}
    actions = list(episode.actions[:-1])
    (folder / "obs_dict.pkl").write_bytes(pickle.dumps(observations))
    (folder / "policy_out.pkl").write_bytes(pickle.dumps([{"actions": a} for a in actions] if as_dicts else actions))
    (folder / "lang.txt").write_text(f"{episode.language}\nconfidence: 1\n")


@pytest.fixture
def write(episodes, tmp_path):
    def make(date: str) -> Path:
        for episode, number in zip(episodes(cameras=("images0",)), (0, 1, 2, 10), strict=True):
            folder = tmp_path / "raw_data" / "toykitchen" / "00" / date / "raw" / "traj_group0" / f"traj{number}"
            write_trajectory(folder, episode, as_dicts=number != 2)
        return tmp_path / "raw_data"

    return make


def test_written_episodes_come_back_in_order(write, episodes, same_pictures):
    source = BridgeSource(write(NEW), strict=True)
    for original, (episode, frames) in zip(episodes(), source.visit(lambda e: list(e.frames())), strict=True):
        np.testing.assert_array_equal(episode.actions, original.actions[:-1])
        np.testing.assert_array_equal(episode.states, original.states[:-1])
        np.testing.assert_allclose(episode.timestamps, np.arange(len(original) - 1) / 5)
        assert episode.language == original.language
        assert same_pictures(frames, original.index)


def test_recordings_before_the_date_are_shifted_by_one_step(write, episodes):
    for original, episode in zip(episodes(), BridgeSource(write(OLD), strict=True), strict=True):
        np.testing.assert_array_equal(episode.actions, original.actions[:-2])
        np.testing.assert_array_equal(episode.states, original.states[1:-1])
        frames = list(episode.frames())
        assert len(frames) == len(original) - 2
        assert abs(int(frames[0][0, 0, 1]) - (12 + 20)) <= 6  # the picture of step 1


def test_the_shift_can_be_decided_by_hand(write, episodes):
    first = next(iter(BridgeSource(write(OLD), latency_shift=False)))
    assert len(first) == len(episodes()[0]) - 1


def test_a_malicious_pickle_is_refused_by_name(write, tmp_path):
    folder = write(NEW)

    class Attack:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'ran'}",)

    victim = next(path for path in folder.rglob("obs_dict.pkl") if path.parent.name == "traj1")
    victim.write_bytes(pickle.dumps({"full_state": Attack()}))
    source = BridgeSource(folder)
    with pytest.warns(DamagedEpisodeWarning, match=r"traj1.*obs_dict\.pkl asks to load .*system.*refused"):
        assert [e.index for e in source] == [0, 2, 3]
    assert len(source.skipped) == 1
    with pytest.raises(DamagedEpisodeError, match=r"obs_dict\.pkl asks to load"):
        list(BridgeSource(folder, strict=True))
    assert not (tmp_path / "ran").exists()


def test_damage_is_named(write):
    folder = write(NEW)
    group = next(folder.rglob("traj_group0"))
    (group / "traj0/images0/im_2.jpg").unlink()
    picture = group / "traj1/images0/im_3.jpg"
    picture.write_bytes(picture.read_bytes()[:200])
    (group / "traj2/policy_out.pkl").write_bytes(pickle.dumps([np.zeros(7)] * 3))
    (group / "traj10/obs_dict.pkl").unlink()
    source = BridgeSource(folder)
    with pytest.warns(DamagedEpisodeWarning):
        assert not list(source.visit(lambda e: list(e.frames())))
    reasons = [entry.reason for entry in source.skipped]
    assert "picture 2 of images0 is missing" in reasons[0]
    assert "images0/im_3.jpg cannot be decoded" in reasons[1]
    assert "3 actions for 7 states" in reasons[2]
    assert "obs_dict.pkl is missing" in reasons[3]


def test_a_whole_disk_is_not_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(raw, "MAX_FOLDERS", 3)
    for i in range(4):
        (tmp_path / str(i)).mkdir()
    with pytest.raises(InputError, match=r"more than 3 folders below .*; give the folder of the dataset itself"):
        BridgeSource(tmp_path)


def test_a_folder_without_trajectories(tmp_path):
    with pytest.raises(InputError, match=r"no traj_group\*/traj\*"):
        BridgeSource(tmp_path)
