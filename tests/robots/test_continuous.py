"""Robot datasets without tokens: what is read, what is refused, and the way back with LeRobot's own subtasks."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from prism_irl.cli.main import main
from prism_irl.cli.robots import with_local_copies
from prism_irl.errors import InputError
from prism_irl.robots.continuous import read_dataset
from prism_irl.robots.episodes import DamagedEpisodeWarning
from prism_irl.robots.lerobot import LeRobotSource
from recordings_on_disk import FRONT, there_and_back
from support import one_sentence, prism
from worlds.lerobot import write_lerobot


@pytest.fixture
def dataset(tmp_path):
    write_lerobot(tmp_path / "arm", there_and_back(), fps=10, robot_type="test")
    return tmp_path / "arm"


def test_vectors_and_parts_of_them(dataset):
    table = read_dataset(dataset, "observation.state[0:2]", "action")
    demos = table.demonstrations
    assert demos.observation_names == ("observation.state[0]", "observation.state[1]")
    assert demos.motion_names == ("action[0]", "action[1]")
    first = next(iter(LeRobotSource(dataset)))
    np.testing.assert_allclose(demos.observations[:30], first.states[:, :2])
    np.testing.assert_allclose(demos.motions[:30], first.actions)
    np.testing.assert_array_equal(demos.labels[:30], first.phases)
    assert demos.label_names == ("right", "left")
    assert read_dataset(dataset, "observation.state[2]", "action[1]").demonstrations.observations.shape == (240, 1)


def test_a_camera_is_observed_as_numbers_that_are_the_same_in_every_recording(tmp_path):
    write_lerobot(tmp_path / "arm", there_and_back(seen=True), fps=10, robot_type="test")
    write_lerobot(tmp_path / "few", there_and_back(2, seen=True), fps=10, robot_type="test")
    demos = read_dataset(tmp_path / "arm", f"observation.state,{FRONT}", "action").demonstrations
    assert demos.observations.shape == (240, 3 + 16)
    assert demos.observation_names[3:5] == (f"{FRONT}[0]", f"{FRONT}[1]")
    few = read_dataset(tmp_path / "few", f"{FRONT}[0:4]", "action").demonstrations
    np.testing.assert_allclose(few.observations, demos.observations[:60, 3:7])
    lamp = demos.observations[:, 3:]
    on, off = (lamp[demos.labels == phase] for phase in (1, 0))
    apart = np.linalg.norm(on.mean(axis=0) - off.mean(axis=0))
    assert apart > 5 * max(on.std(axis=0).max(), off.std(axis=0).max())  # what a video leaves of a picture
    with pytest.raises(InputError, match="is a camera") as error:
        read_dataset(tmp_path / "few", "observation.state", FRONT)
    one_sentence(error)


def test_other_vectors_of_a_dataset_are_read_by_their_names(dataset):
    expected = []
    for path in sorted((dataset / "data").rglob("*.parquet")):
        table = pd.read_parquet(path)
        expected.append(np.stack(table["observation.state"])[:, :2] * 2)
        table.assign(**{"observation.velocity": list(expected[-1]), "gripper": expected[-1][:, 0]}).to_parquet(path)
    info = json.loads((dataset / "meta" / "info.json").read_text())
    features = {
        "observation.velocity": {"dtype": "float64", "shape": [2]},
        "gripper": {"dtype": "float64", "shape": [1]},
    }
    info["features"] |= features | {"observation.effort": {"dtype": "float32", "shape": [2]}}
    (dataset / "meta" / "info.json").write_text(json.dumps(info))
    demos = read_dataset(dataset, "observation.state[2],observation.velocity", "action,gripper").demonstrations
    assert demos.observation_names == ("observation.state[2]", "observation.velocity[0]", "observation.velocity[1]")
    np.testing.assert_allclose(demos.observations[:, 1:], np.concatenate(expected), rtol=1e-6)
    np.testing.assert_allclose(demos.motions[:, 2], np.concatenate(expected)[:, 0], rtol=1e-6)
    with pytest.raises(
        InputError, match=r"name observation.state, observation.velocity, gripper, .* or action"
    ) as error:
        read_dataset(dataset, "observation.speed", "action")
    one_sentence(error)
    with pytest.warns(DamagedEpisodeWarning, match="no column 'observation.effort'"), pytest.raises(InputError):
        read_dataset(dataset, "observation.effort", "action")  # which only the description of the dataset has


def test_episodes_that_are_left_out_are_named_in_one_sentence(dataset, capsys):
    for path in sorted((dataset / "data").rglob("*.parquet"))[1:4]:
        table = pd.read_parquet(path)
        table.at[5, "observation.state"] = np.array([0.0, np.nan, 0.0], np.float32)
        table.to_parquet(path)
    small = "--intentions 2 --n-starts 1 --max-iterations 2 --switching markov --rewards features".split()
    out = str(dataset.parent / "run")
    assert main(["fit", str(dataset), *"--observe observation.state --act action".split(), *small, "--out", out]) == 0
    said = "3 episodes are left out (1, 2, 3), the first because its states are not finite at step 5."
    assert capsys.readouterr().err.splitlines()[0] == f"prism: {said}"
    assert said in (dataset.parent / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("observe", "act", "words"),
    [
        ("gripper", "action", "no vector 'gripper'"),
        ("observation.state[9:]", "action", "are 0 to 2, and --observe asks for none"),
        ("observation.state[", "action", "no vector of the dataset"),
        ("observation.state", "", "what is done"),
    ],
)
def test_wrong_names_are_refused(dataset, observe, act, words):
    with pytest.raises(InputError) as error:
        read_dataset(dataset, observe, act)
    assert words in one_sentence(error)


def test_from_a_lerobot_folder_to_its_own_subtasks(dataset, tmp_path):
    vectors = ("--observe", "observation.state", "--act", "action")
    small = ("--intentions", 2, "--n-starts", 2, "--max-iterations", 10)
    done = prism("fit", "arm", *vectors, *small, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["label_accuracy"] > 0.9
    assert {"equal parts", "k-means on commands", "change points", "left-to-right HMM"} <= set(metrics["baselines"])
    assert "label accuracy (ARI) of equal parts" in done.stdout
    assert "Without intentions: equal parts" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    done = prism("score", "run", "arm", cwd=tmp_path)
    assert "compare it with densities alone" in done.stdout
    done = prism("segment", "run", "arm", "--write-back", "arm", "--subtask-index", "--out", "copy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    words = pd.read_parquet(tmp_path / "copy" / "meta" / "subtasks.parquet")
    assert words.index.name == "subtask"
    assert words["subtask_index"].tolist() == [0, 1, 2]
    info = json.loads((tmp_path / "copy" / "meta" / "info.json").read_text())
    assert info["features"]["subtask_index"] == {"dtype": "int64", "shape": [1], "names": None}
    rows = pd.read_parquet(next((tmp_path / "copy" / "data").rglob("*.parquet")))
    assert rows["subtask_index"].dtype == np.int64
    np.testing.assert_array_equal(rows["subtask_index"], rows["intention"])
    assert len(list(LeRobotSource(tmp_path / "copy"))) == 8


def test_of_more_frames_per_second_every_nth_is_read(dataset):
    whole = read_dataset(dataset, "observation.state", "action").demonstrations
    some = read_dataset(dataset, "observation.state", "action", hz=5).demonstrations
    steps = [np.arange(0, n, 2) + start for n, start in zip(whole.lengths, whole.offsets, strict=False)]
    rows = np.concatenate(steps)
    np.testing.assert_array_equal(some.observations, whole.observations[rows])
    np.testing.assert_array_equal(some.labels, whole.labels[rows])
    np.testing.assert_array_equal(some.times, whole.times[rows])
    with pytest.raises(InputError, match="at most the 10 of the recording"):
        read_dataset(dataset, "observation.state", "action", hz=20)


def test_ids_of_the_hub_are_found_where_lerobot_keeps_them(dataset, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    for name in ("HF_LEROBOT_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    own = tmp_path / "hf" / "lerobot" / "me" / "arm"
    shutil.copytree(dataset, own)
    stored = tmp_path / "hf" / "hub" / "datasets--you--arm"
    shutil.copytree(dataset, stored / "snapshots" / "abc")
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text("abc")
    command = ["fit", "me/arm", "--observe", "observation.state", "--act", "action", "--out", "runs/arm"]
    assert with_local_copies(command) == [command[0], str(own), *command[2:]]
    words = ["segment", "runs/arm", "you/arm", "--write-back", "you/arm", "--out", "copies/arm"]
    snapshot = str(stored / "snapshots" / "abc")
    assert with_local_copies(words) == [*words[:2], snapshot, words[3], snapshot, *words[5:]]
    with pytest.raises(InputError, match="no copy of a dataset of that name"):
        with_local_copies(["triage", "nobody/none", "--run", "runs/arm"])
