"""robomimic, ALOHA and Diffusion Policy: small files in the real layout."""

import numpy as np
import pytest

from prism_irl.cli.study import recognise
from prism_irl.errors import InputError
from prism_irl.robots import episodes
from prism_irl.robots.arrays import HDF5Source
from prism_irl.robots.continuous import is_dataset, read_dataset
from prism_irl.robots.episodes import open_episodes

LENGTHS = (6, 9, 7, 5, 5, 5, 5, 5, 5, 5, 8)
"""Eleven episodes: the tenth comes after the ninth, not after the first."""


def moves(i, n, d=4):
    return np.random.default_rng(i).normal(size=(n, d))


@pytest.fixture
def robomimic(tmp_path):
    h5py = pytest.importorskip("h5py", reason="needs the extra hdf5")
    with h5py.File(tmp_path / "lift.hdf5", "w") as store:
        data = store.create_group("data")
        data.attrs["env_args"] = "{}"
        for i, n in enumerate(LENGTHS):
            demo = data.create_group(f"demo_{i}")
            demo["actions"] = moves(i, n, 7)
            demo["dones"] = (np.arange(n) == n - 1).astype(int)
            demo["states"] = moves(i, n, 20)
            for part in ("obs", "next_obs"):
                demo[f"{part}/robot0_eef_pos"] = moves(i, n, 3)
                demo[f"{part}/agentview_image"] = np.full((n, 8, 8, 3), i, dtype=np.uint8)
        store["mask/train"] = np.array([b"demo_0"])
    return tmp_path / "lift.hdf5"


@pytest.fixture
def aloha(tmp_path):
    h5py = pytest.importorskip("h5py", reason="needs the extra hdf5")
    folder = tmp_path / "aloha"
    folder.mkdir()
    for i, n in enumerate(LENGTHS):
        with h5py.File(folder / f"episode_{i}.hdf5", "w") as store:
            store.attrs["sim"] = True
            store["action"] = moves(i, n, 14)
            store["observations/qpos"] = moves(i, n, 14) + 1
            store["observations/qvel"] = moves(i, n, 14)
            store["observations/images/top"] = np.full((n, 8, 8, 3), i, dtype=np.uint8)
    return folder


def test_robomimic(robomimic):
    assert is_dataset(robomimic)
    demos = read_dataset(robomimic, "obs/robot0_eef_pos", "actions").demonstrations
    assert demos.lengths.tolist() == list(LENGTHS)
    np.testing.assert_allclose(demos.observations[:6], moves(0, 6, 3), rtol=1e-6)
    np.testing.assert_allclose(demos.motions[-8:], moves(10, 8, 7), rtol=1e-6)
    assert demos.observation_names[0] == "obs/robot0_eef_pos[0]"
    last = read_dataset(robomimic, "obs/robot0_eef_pos[2]", "action[6]", episodes="10").demonstrations
    np.testing.assert_array_equal(last.motions[:, 0], demos.motions[-8:, 6])
    marked = read_dataset(robomimic, "obs/robot0_eef_pos", "actions", intention="dones").demonstrations
    assert marked.labels.tolist() == [int(t == n - 1) for n in LENGTHS for t in range(n)]
    with pytest.raises(
        InputError, match=r"has no observation.state; name what the recording has, with --observe: actions"
    ):
        read_dataset(robomimic, "observation.state", "actions")
    with pytest.raises(InputError, match=r"no vector 'obs/joint'; name observation.state, actions, dones"):
        read_dataset(robomimic, "obs/joint", "actions")


def test_what_is_observed_is_recognised(robomimic, aloha):
    assert recognise(robomimic, {}).columns == {"observe": "obs/robot0_eef_pos", "act": "actions"}
    assert recognise(aloha, {}).columns == {"observe": "observations/qpos", "act": "action"}


def test_recordings_without_commands(aloha):
    h5py = pytest.importorskip("h5py", reason="needs the extra hdf5")
    for path in aloha.iterdir():
        with h5py.File(path, "a") as store:
            del store["action"]
    assert recognise(aloha, {}).columns["act"] == "observations/qpos"
    demos = read_dataset(aloha, "observations/qpos", "observations/qpos").demonstrations
    np.testing.assert_array_equal(demos.motions, demos.observations)
    with pytest.raises(InputError, match=r"no commands called action; .* --act observations/qpos, observations/qvel"):
        read_dataset(aloha, "observations/qpos", "action")


def test_aloha(aloha):
    demos = read_dataset(aloha, "observation.state,observations/qvel", "action").demonstrations
    assert demos.lengths.tolist() == list(LENGTHS)
    np.testing.assert_allclose(demos.observations[:6, :14], moves(0, 6, 14) + 1, rtol=1e-6)
    assert demos.observations.shape[1] == 28


def test_pictures_are_cameras(aloha):
    source = open_episodes(aloha)
    assert isinstance(source, HDF5Source)
    frames = [list(episode.frames("observations/images/top")) for episode in source]
    assert [len(own) for own in frames] == list(LENGTHS)
    assert frames[3][0][0, 0].tolist() == [3, 3, 3]


@pytest.mark.parametrize("whole", [1 << 26, 1 << 10])
def test_what_tells_a_file_from_another(robomimic, monkeypatch, whole):
    monkeypatch.setattr(episodes, "WHOLE", whole)  # a larger file is read in places, its end among them
    monkeypatch.setattr(episodes, "SAMPLE", 1 << 6)
    before = open_episodes(robomimic).content()
    assert before == open_episodes(robomimic).content()
    content = robomimic.read_bytes()
    robomimic.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert open_episodes(robomimic).content() != before


def test_damage_is_named(aloha):
    import h5py

    (aloha / "episode_1.hdf5").write_bytes(b"no HDF5")
    with h5py.File(aloha / "episode_2.hdf5", "a") as store:
        del store["action"]
    with h5py.File(aloha / "episode_3.hdf5", "a") as store:
        del store["observations/qpos"]
        store["observations/qpos"] = moves(0, 3, 14)
    with pytest.warns(UserWarning, match="is left out"):
        table = read_dataset(aloha, "observation.state", "action")
    assert table.demonstrations.trajectory_names.tolist() == [0, *range(4, 11)]
    assert table.notes[0].startswith(
        "3 episodes are left out (episode_1.hdf5, episode_2.hdf5, episode_3.hdf5), the first because its file cannot"
    )
    with pytest.raises(InputError, match=r"episode_1.hdf5 is damaged: its file cannot be read"):
        read_dataset(aloha, "observation.state", "action", strict=True)


def test_a_file_that_is_no_hdf5_is_said(robomimic):
    robomimic.write_bytes(b"something else")
    with pytest.raises(InputError, match="is no HDF5 file"):
        read_dataset(robomimic, "obs/robot0_eef_pos", "actions")


def test_other_files_are_not_reached_by_links(robomimic, aloha):
    import h5py

    with h5py.File(robomimic, "a") as store:
        store["data/demo_0/obs/elsewhere"] = h5py.ExternalLink(str(aloha / "episode_0.hdf5"), "action")
    with pytest.raises(InputError, match="no vector 'obs/elsewhere'"):
        read_dataset(robomimic, "obs/elsewhere", "actions")


@pytest.fixture
def buffer(tmp_path):
    folder = tmp_path / "pusht.zarr"
    for name in ("data/action", "data/state", "meta/episode_ends"):
        (folder / name).mkdir(parents=True)
    return folder


def test_zarr_needs_its_extra(buffer, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "zarr", None)
    with pytest.raises(InputError, match=r'zarr is not installed; get it with: pip install "prism-irl\[zarr\]"'):
        read_dataset(buffer, "state", "action")


@pytest.mark.parametrize("form", [2, 3])
def test_diffusion_policy(tmp_path, form):
    zarr = pytest.importorskip("zarr", reason="needs the extra zarr")
    folder = tmp_path / "pusht.zarr"
    store = zarr.open_group(str(folder), mode="w", zarr_format=form)
    values = {
        "data/action": np.concatenate([moves(i, n, 2) for i, n in enumerate(LENGTHS)]),
        "data/img": np.concatenate([np.full((n, 8, 8, 3), i, dtype=np.uint8) for i, n in enumerate(LENGTHS)]),
        "data/state": np.concatenate([moves(i, n, 5) for i, n in enumerate(LENGTHS)]),
        "meta/episode_ends": np.cumsum(LENGTHS),
    }
    for name, array in values.items():
        store.create_array(name, shape=array.shape, dtype=array.dtype)[:] = array
    demos = read_dataset(folder, "state", "action").demonstrations
    assert demos.lengths.tolist() == list(LENGTHS)
    np.testing.assert_allclose(demos.observations[6:15], moves(1, 9, 5), rtol=1e-6)
    whole = read_dataset(folder, "observation.state", "action[1]", episodes="10").demonstrations
    np.testing.assert_allclose(whole.motions[:, 0], moves(10, 8, 2)[:, 1], rtol=1e-6)
    pictures = [next(episode.frames("img"))[0, 0, 0] for episode in open_episodes(folder)]
    assert pictures == list(range(len(LENGTHS)))
    store["meta/episode_ends"][0] = 99
    with pytest.raises(InputError, match="does not rise from episode to episode"):
        read_dataset(folder, "state", "action")


def test_pickled_arrays_are_refused(buffer):
    pytest.importorskip("zarr", reason="needs the extra zarr")
    (buffer / "data/action/.zarray").write_text('{"filters": [{"id": "pickle"}]}')
    with pytest.raises(InputError, match="stores pickled objects"):
        read_dataset(buffer, "state", "action")
