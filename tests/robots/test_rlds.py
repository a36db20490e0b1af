import os
from pathlib import Path

import numpy as np
import pytest

from prism_irl.errors import InputError
from prism_irl.robots.episodes import DamagedEpisodeError, DamagedEpisodeWarning, open_episodes
from prism_irl.robots.rlds import RLDSSource, parse_example, read_records
from recordings_on_disk import build_example, write_records, write_rlds

pytest.importorskip("PIL", reason="needs prism-irl[robots]")


@pytest.fixture
def dataset(episodes, tmp_path) -> Path:
    return write_rlds(tmp_path / "rlds", episodes(cameras=("image_0", "image_1")))


def test_written_episodes_come_back(dataset, episodes, same_pictures):
    source = open_episodes(dataset, strict=True)
    assert isinstance(source, RLDSSource)
    assert source.n_episodes == 4
    for original, (episode, frames) in zip(episodes(), source.visit(lambda e: list(e.frames("image_1"))), strict=True):
        np.testing.assert_array_equal(episode.actions, original.actions)
        np.testing.assert_array_equal(episode.states, original.states)
        assert episode.language == original.language
        assert list(episode.cameras) == ["image_0", "image_1"]
        assert same_pictures(frames, original.index, 1)


def rewrite(dataset: Path, change) -> None:
    """Change the features of the records of the shard."""
    shard = next(dataset.glob("*.tfrecord*"))
    examples = [parse_example(record.data) for record in read_records(shard)]
    for number, example in enumerate(examples):
        change(number, example)
    with shard.open("wb") as file:
        write_records(file, map(build_example, examples))


def test_a_changed_byte_costs_one_episode(dataset):
    shard = next(dataset.glob("*.tfrecord*"))
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.write_bytes(data)
    source = RLDSSource(dataset)
    with pytest.warns(DamagedEpisodeWarning, match=r"Episode 0 \(record 0 of .*\) is left out: its checksum is wrong"):
        assert [e.index for e in source] == [1, 2, 3]
    assert len(source.skipped) == 1
    with pytest.raises(DamagedEpisodeError, match="checksum"):
        list(RLDSSource(dataset, strict=True))


def test_a_truncated_shard_names_the_episode(dataset):
    shard = next(dataset.glob("*.tfrecord*"))
    shard.write_bytes(shard.read_bytes()[:-10])
    with pytest.warns(DamagedEpisodeWarning, match="Episode 3"):
        assert [e.index for e in RLDSSource(dataset)] == [0, 1, 2]


def test_missing_pictures_and_wrong_lengths(dataset):
    def change(number, example):
        if number == 0:
            example["steps/observation/image_0"].pop()
        if number == 1:
            example["steps/action"] = example["steps/action"][:-1]
        if number == 2:
            example["steps/observation/image_0"][3] = b"not a picture"

    rewrite(dataset, change)
    source = RLDSSource(dataset)
    with pytest.warns(DamagedEpisodeWarning):
        read = [e.index for e, _ in source.visit(lambda e: list(e.frames()))]
    assert read == [3]
    reasons = [entry.reason for entry in source.skipped]
    assert "4 pictures for 5 steps" in reasons[0]
    assert "41 numbers for 6 steps of 7" in reasons[1]
    assert "image_0 at step 3 cannot be decoded" in reasons[2]


def test_a_missing_shard_is_named(dataset):
    shard = next(dataset.glob("*.tfrecord*"))
    shard.rename(shard.with_name(shard.name.replace("00000-of-00001", "00001-of-00002")))
    with pytest.raises(InputError, match="Shard 0 of 2"):
        RLDSSource(dataset)


def test_splits(dataset):
    with pytest.raises(InputError, match=r"no TFRecord shards of split test .* splits there: train"):
        RLDSSource(dataset, split="test")


def test_several_splits_are_never_merged_silently(dataset, episodes):
    own = episodes(cameras=("image_0", "image_1"))
    write_rlds(dataset, own[:1], split="val")
    assert open_episodes(dataset).splits == ["train"]
    assert open_episodes(dataset).describe()["split"] == "train"
    everything = open_episodes(dataset, split="all")
    assert everything.splits == ["train", "val"]
    assert len(list(everything)) == len(own) + 1
    assert len(list(open_episodes(dataset, split="val"))) == 1
    for path in dataset.glob("*-train.*"):
        path.rename(path.with_name(path.name.replace("-train.", "-test.")))
    with pytest.raises(InputError, match="splits test, val; choose one with --split, or all"):
        open_episodes(dataset)


# -- real bytes --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bridge_sample() -> Path:
    beside_the_repository = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("PRISM_DATA", beside_the_repository)) / "bridge_sample"
    if not folder.is_dir():
        pytest.skip("bridge_sample is absent; set PRISM_DATA to the folder that holds it")
    return folder


def test_the_real_sample_reads_completely(bridge_sample):
    source = RLDSSource(bridge_sample, strict=True)
    assert source.n_episodes == 50
    read = list(source.visit(lambda e: np.stack(list(e.frames()))))
    assert len(read) == 50
    for episode, frames in read:
        assert frames.shape == (10, 64, 64, 3)
        assert episode.actions.shape == episode.states.shape == (10, 7)
        assert list(episode.cameras) == ["image_0", "image_1", "image_2", "image_3"]
    assert {e.language for e, _ in read} > {"put carrot on plate"}
    actions = np.stack([e.actions for e, _ in read])
    assert np.abs(actions[..., :6]).max() < 0.3
    assert actions[..., 6].min() == 0
    assert actions[..., 6].max() == 1
    # No motion in the first step, up to rounding; the gripper, which tells a position, is open.
    assert np.abs(actions[:, 0, :6]).max() < 1e-6
    assert (actions[:, 0, 6] == 1).all()
    assert np.ptp([frames.mean() for _, frames in read]) > 1  # not all the same picture


def test_the_gripper_is_nearly_all_the_variance_of_real_actions(bridge_sample):
    actions = np.concatenate([e.actions for e in RLDSSource(bridge_sample, split="train", strict=True)])
    share = actions.var(axis=0)[6] / actions.var(axis=0).sum()
    assert share > 0.95
