import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_irl.errors import InputError
from prism_irl.robots.episodes import DamagedEpisodeError, DamagedEpisodeWarning, Episode, open_episodes
from prism_irl.robots.vision.embeddings import EmbeddingCache, as_rows, embed
from prism_irl.robots.vision.encoders import PixelEncoder, ProprioEncoder
from prism_irl.robots.vision.tokenizer import Tokenizer, demonstrations, fit_tokenizer, kept
from recordings_on_disk import CallableEncoder
from worlds.lerobot import write_lerobot


def corner(frames: np.ndarray) -> np.ndarray:
    return frames.reshape(len(frames), -1)[:, 300:305]


def everything(cache: EmbeddingCache) -> np.ndarray:
    return np.concatenate(list(cache.rows().chunks(7)))


def test_shards_hold_every_episode_once(source, tmp_path):
    seen = []
    cache = embed(
        source(),
        CallableEncoder(corner, "corner"),
        tmp_path / "cache",
        steps_per_shard=20,
        on_episode=lambda *args: seen.append(args),
    )
    assert len(list((tmp_path / "cache").glob("embeddings-*.npy"))) == 3
    assert seen[-1] == (6, 6, 63)
    episodes = list(source())
    np.testing.assert_array_equal(cache.actions, np.concatenate([e.actions for e in episodes]))
    np.testing.assert_array_equal(cache.phases, np.concatenate([e.phases for e in episodes]))
    np.testing.assert_array_equal(np.diff(cache.offsets), [len(e) for e in episodes])
    expected = np.concatenate([corner(np.stack(list(e.frames()))) for e in episodes])
    np.testing.assert_array_equal(everything(cache), expected)
    assert cache.phase_names == ("a", "b", "c", "d")


def test_an_interrupted_run_goes_on(source, tmp_path):
    calls = []

    class Interrupted(PixelEncoder):
        def encode(self, episode):
            calls.append(episode.index)
            if len(calls) == 4:
                raise KeyboardInterrupt
            return super().encode(episode)

    with pytest.raises(KeyboardInterrupt):
        embed(source(), Interrupted(components=4), tmp_path / "cache", steps_per_shard=10)
    with pytest.raises(InputError, match="not finished"):
        EmbeddingCache(tmp_path / "cache")
    calls.clear()
    calls.extend(range(10))
    resumed = embed(source(), Interrupted(components=4), tmp_path / "cache", steps_per_shard=10)
    assert calls[10:] == [3, 4, 5]  # the first three are not encoded again
    whole = embed(source(), PixelEncoder(components=4), tmp_path / "other", steps_per_shard=10)
    np.testing.assert_array_equal(everything(resumed), everything(whole))
    np.testing.assert_array_equal(resumed.actions, whole.actions)


def test_a_finished_cache_is_not_made_again(source, tmp_path):
    embed(source(), ProprioEncoder(), tmp_path / "cache")
    unread = source()
    embed(unread, ProprioEncoder(), tmp_path / "cache")
    assert unread.reads == 0
    with pytest.raises(InputError, match="another dataset or encoder"):
        embed(source(), ProprioEncoder(sample=7), tmp_path / "cache")


@pytest.mark.parametrize("broken", [(0,), (2, 3), (5,)])
def test_damaged_episodes_are_counted_even_when_resumed(source, tmp_path, broken):
    encoder = CallableEncoder(corner, "corner")
    with pytest.warns(DamagedEpisodeWarning, match=r"Episode \d is left out: its video breaks off"):
        cache = embed(source(broken=broken), encoder, tmp_path / "cache", steps_per_shard=10)
    assert [entry.name for entry in cache.skipped] == [str(i) for i in broken]
    assert [e["index"] for e in cache.episodes] == [i for i in range(6) if i not in broken]
    # Forget the last shard, as if the run had been killed before it was written.
    last = sorted((tmp_path / "cache").glob("steps-*"))[-1]
    last.unlink()
    description = json.loads((tmp_path / "cache/cache.json").read_text())
    (tmp_path / "cache/cache.json").write_text(json.dumps({**description, "complete": False}))
    if broken == (5,):
        with pytest.warns(DamagedEpisodeWarning):
            again = embed(source(broken=broken), encoder, tmp_path / "cache", steps_per_shard=10)
    else:
        again = embed(source(broken=broken), encoder, tmp_path / "cache", steps_per_shard=10)
    assert again.skipped == cache.skipped
    np.testing.assert_array_equal(everything(again), everything(cache))
    with pytest.raises(DamagedEpisodeError):
        embed(source(broken=broken, strict=True), encoder, tmp_path / "strict")


def test_no_readable_episode_is_an_error(source, tmp_path):
    with (
        pytest.warns(DamagedEpisodeWarning),
        pytest.raises(InputError, match="not one episode of the dataset was readable"),
    ):
        embed(source(broken=tuple(range(6))), CallableEncoder(corner, "corner"), tmp_path / "cache")


def test_demonstrations_know_where_they_come_from(source, tmp_path):
    cache = embed(source(), ProprioEncoder(), tmp_path / "cache", steps_per_shard=10)
    tokenizer = fit_tokenizer(cache, Tokenizer(6, 4))
    demos = demonstrations(cache, tokenizer, observations="proprio")
    episodes = list(source())
    assert demos.trajectory_names.tolist() == [str(e.index) for e in episodes]
    assert demos.lengths.tolist() == [len(e) - 1 for e in episodes]  # the still first step is gone
    for i, episode in enumerate(episodes):
        here = slice(demos.offsets[i], demos.offsets[i + 1])
        np.testing.assert_array_equal(demos.times[here], np.arange(1, len(episode)))
        np.testing.assert_array_equal(demos.labels[here], episode.phases[1:])
        np.testing.assert_array_equal(demos.observations[here], episode.states[1:])
        np.testing.assert_array_equal(demos.actions[here], tokenizer.encode_actions(episode.actions[1:]))
    rows = as_rows(everything(cache)[kept(cache, tokenizer)])
    np.testing.assert_array_equal(demos.states, tokenizer.encode_states(rows))


def test_a_tokenizer_of_the_training_part_sees_nothing_else(source, tmp_path):
    cache = embed(source(), ProprioEncoder(), tmp_path / "cache")
    part = fit_tokenizer(cache, Tokenizer(6, 4), episodes=[0, 3])
    keep = kept(cache, part)
    keep &= np.isin(np.repeat(np.arange(6), np.diff(cache.offsets)), [0, 3])
    alone = Tokenizer(6, 4).fit(everything(cache)[keep], cache.actions[keep])
    np.testing.assert_array_equal(part.state_centroids_, alone.state_centroids_)
    np.testing.assert_array_equal(part.action_centroids_, alone.action_centroids_)


def test_a_dataset_that_has_changed_since_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    episodes = [
        Episode(i, rng.normal(size=(5, 2)).astype("f4"), rng.normal(size=(5, 3)).astype("f4")) for i in range(2)
    ]
    dataset = write_lerobot(tmp_path / "dataset", episodes, fps=10)
    embed(open_episodes(dataset), ProprioEncoder(), tmp_path / "cache")
    embed(open_episodes(dataset), ProprioEncoder(), tmp_path / "cache")
    table = next(dataset.glob("data/**/*.parquet"))
    columns = pq.read_table(table)
    at = columns.column_names.index("action")
    other = pa.array([[1.0, 2.0]] * columns.num_rows, columns.schema.field("action").type)
    pq.write_table(columns.set_column(at, columns.schema.field("action"), other), table)
    with pytest.raises(InputError, match="the dataset has changed since; begin again with --overwrite"):
        embed(open_episodes(dataset), ProprioEncoder(), tmp_path / "cache")
