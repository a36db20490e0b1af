"""A robot dataset through the real command line: tokenize, fit, segment with write-back."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP
from prism_irl.robots.episodes import DamagedEpisodeWarning, Episode
from prism_irl.robots.lerobot import LeRobotSource
from prism_irl.robots.vision.tokenizer import Tokenizer
from support import prism
from worlds.lerobot import write_lerobot

pytest.importorskip("av", reason="needs prism-irl[robots]")
SMALL = (
    "--switching recurrent --intentions 2 --hidden 8 --embedding 8 "
    "--n-starts 1 --max-iterations 3 --warm-up 2 --device cpu"
).split()


def checksum(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return digest.hexdigest()


def frames(places: np.ndarray):
    for place in places:
        frame = np.full((32, 32, 3), 30, np.uint8)
        frame[8:24, int(place) : int(place) + 8] = 220
        yield frame


def there_and_back(i: int) -> Episode:
    """A block that moves right, then left; the first command is still."""
    rng = np.random.default_rng(i)
    moves = np.concatenate([[0], np.full(10, 2), np.full(10, -2)])
    places = np.clip(np.concatenate([[1], 1 + np.cumsum(moves[:-1])]), 0, 24)
    actions = np.column_stack([moves / 2 + 0.05 * (moves != 0) * rng.normal(size=21), moves > 0])
    return Episode(
        i,
        actions,
        places[:, None] + 0.1 * rng.normal(size=(21, 1)),
        "move the block",
        {"observation.images.top": partial(frames, places)},
        phases=(np.arange(21) > 10).astype(int),
        phase_names=("out", "back"),
    )


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lerobot(tmp_path_factory.mktemp("robots") / "blocks", map(there_and_back, range(6)))


@pytest.fixture(scope="module")
def tokens(dataset: Path) -> Path:
    out = dataset.parent / "tokens"
    done = prism(
        *f"tokenize blocks --encoder pixels --states 8 --actions 3 --out {out} --json".split(), cwd=dataset.parent
    )
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)
    assert metrics == json.loads((out / "metrics.json").read_text())
    assert (metrics["n_episodes"], metrics["n_steps"], metrics["skipped"]) == (6, 120, [])
    assert metrics["granularity"]["revisits"]["mean"] > 1
    return out


def test_tokens_are_demonstrations_with_their_dynamics(tokens: Path, dataset: Path):
    demos = Demonstrations.from_table(tokens / "demonstrations.npz")
    assert (demos.n_trajectories, demos.n_states, demos.n_actions) == (6, 8, 3)
    assert demos.label_names[:2] == ("out", "back")
    tokenizer = Tokenizer.load(tokens / "tokenizer")
    actions = np.concatenate([episode.actions[1:] for episode in LeRobotSource(dataset)])
    np.testing.assert_array_equal(demos.actions, tokenizer.encode_actions(actions))
    counted = MDP.from_demonstrations(demos)
    tensors, sizes = storage.load_tensors(tokens / "mdp.safetensors")
    written = MDP.from_state(**sizes, state={name: tensor.numpy() for name, tensor in tensors.items()})
    np.testing.assert_array_equal(written.transitions.toarray(), counted.transitions.toarray())


def test_fit_and_write_back(tokens: Path, dataset: Path):
    before, here = checksum(dataset), dataset.parent
    done = prism("fit", tokens / "demonstrations.npz", *SMALL, "--out", "run", cwd=here)
    assert done.returncode == 0, done.stderr
    page = (here / "run" / "report.html").read_text()
    assert "Frames are kept of every step of 6 trajectories" in page
    assert page.count('<div class="exemplars">') >= 1  # what an intention looks like
    assert "What the camera saw: state " in page
    assert not (here / "run" / "figures" / "maps.svg").exists()  # tokens have no place: no string of loose dots
    assert json.loads((tokens / "config.json").read_text())["source"]["folder"] == str(dataset)
    command = ("segment", "run", tokens / "demonstrations.npz", "--write-back", "blocks", "--out", "copy")
    done = prism(*command, cwd=here)
    assert (done.returncode, done.stdout) == (0, "120 steps segmented: copy\n"), done.stderr
    assert checksum(dataset) == before
    prism("segment", "run", tokens / "demonstrations.npz", "--out", "labels.parquet", cwd=here)
    labels = pq.read_table(here / "labels.parquet").to_pandas()
    original = LeRobotSource(dataset, strict=True).visit(lambda e: list(e.frames()))
    copied = LeRobotSource(here / "copy", strict=True).visit(lambda e: list(e.frames()))
    files = sorted((here / "copy" / "data").rglob("*.parquet"))
    for (first, pictures), (second, same), path in zip(original, copied, files, strict=True):
        np.testing.assert_array_equal(first.actions, second.actions)
        np.testing.assert_array_equal(pictures, same)
        column = pq.read_table(path, partitioning=None)["intention"].to_numpy()
        expected = labels.loc[labels["trajectory"].astype(int) == first.index]
        name = "predicted_intention" if "predicted_intention" in expected else "intention"
        np.testing.assert_array_equal(column, [-1, *expected[name]])
    again = prism(*command, cwd=here)
    assert (again.returncode, "copy exists already" in again.stderr) == (2, True)


def test_other_data_cannot_be_written_back(tokens: Path, dataset: Path, tmp_path: Path):
    Demonstrations.from_arrays([[0, 1, 2]], [[0, 1, 2]], n_states=8, n_actions=3).save(tmp_path / "plain.npz")
    if not (dataset.parent / "run").exists():
        prism("fit", tokens / "demonstrations.npz", *SMALL, "--out", "run", cwd=dataset.parent)
    done = prism(
        "segment", "run", tmp_path / "plain.npz", "--write-back", "blocks", "--out", tmp_path / "c", cwd=dataset.parent
    )
    assert done.returncode == 2
    assert "do not say which episodes" in done.stderr


def test_damaged_episodes_are_left_out_or_stop_the_command(dataset: Path, tmp_path: Path):
    write_lerobot(tmp_path / "blocks", map(there_and_back, range(3)))
    video = tmp_path / "blocks/videos/chunk-000/observation.images.top/episode_000001.mp4"
    video.write_bytes(video.read_bytes()[:300])
    command = "tokenize blocks --encoder pixels --states 4 --actions 2 --out tokens"
    with pytest.warns(DamagedEpisodeWarning, match="Episode 1"):
        done = prism(*command.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 episodes, 40 steps; 1 damaged episode left out" in done.stdout
    strict = prism(*command.replace("tokens", "strict").split(), "--strict", cwd=tmp_path)
    assert strict.returncode == 2
    assert "Episode 1 is damaged" in strict.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("absent --out x", "There is no folder absent"),
        ("blocks --encoder resnet --out x", "no encoder 'resnet'"),
        ("blocks --encoder proprio --states 5000 --actions 2 --out x", "5000 state tokens"),
        ("blocks --encoder pixels --camera left --out x", "no camera 'left'"),
        ("blocks --gripper hand --out x", "The gripper is 'hand'"),
        ("blocks --out blocks", "is not empty"),
    ],
)
def test_wrong_requests_are_one_sentence(dataset: Path, arguments: str, words: str, tmp_path: Path):
    done = prism("tokenize", *arguments.replace("--out x", f"--out {tmp_path / 'x'}").split(), cwd=dataset.parent)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_new_episodes_in_the_language_of_a_fit(tokens: Path, dataset: Path, tmp_path: Path):
    write_lerobot(tmp_path / "new", map(there_and_back, range(10, 12)))
    done = prism("tokenize", "new", "--like", tokens, "--out", "tokens", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    old, new = (Tokenizer.load(folder / "tokenizer") for folder in (tokens, tmp_path / "tokens"))
    np.testing.assert_array_equal(old.state_centroids_, new.state_centroids_)
    demos = Demonstrations.from_table(tmp_path / "tokens/demonstrations.npz")
    assert (demos.n_states, demos.n_steps) == (8, 40)
    first = Demonstrations.from_table(tokens / "demonstrations.npz")
    # Pictures of the same places: the same tokens, in the same order.
    np.testing.assert_array_equal(demos.states[:20], first.states[:20])
    other = prism("tokenize", "new", "--encoder", "proprio", "--like", tokens, "--out", "other", cwd=tmp_path)
    assert (other.returncode, "come from another encoder" in other.stderr) == (2, True)
