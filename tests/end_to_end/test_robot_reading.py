"""What people have: any feature names, joints by name, words as phases, cameras that nobody asked for."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_irl.cli.main import main
from prism_irl.cli.study import recognise
from prism_irl.errors import InputError
from prism_irl.robots.continuous import read_dataset
from worlds.lerobot import write_lerobot
from worlds.scripted import episodes

JOINTS = [*(f"joint_{i}.pos" for i in range(7)), "gripper.pos"]


@pytest.fixture
def dataset(tmp_path):
    found = [
        replace(one, language="pour tea" if one.index == 1 else "open the drawer") for one in episodes("drawer", 3)
    ]
    return write_lerobot(tmp_path / "arm", found, fps=15, state_names=JOINTS, action_names=JOINTS)


def changed(folder, rename=None, **features):
    """The dataset with other names of features, in its description and in its tables."""
    path = folder / "meta" / "info.json"
    info = json.loads(path.read_text())
    info["features"] = {(rename or {}).get(key, key): value for key, value in info["features"].items()} | features
    path.write_text(json.dumps(info))
    for file in (folder / "data").rglob("*.parquet"):
        table = pq.read_table(file, partitioning=None)
        pq.write_table(table.rename_columns([(rename or {}).get(name, name) for name in table.column_names]), file)


def test_any_feature_names(dataset):
    changed(dataset, {"action": "actions", "observation.state": "state"})
    demos = read_dataset(dataset, "state", "actions").demonstrations
    assert demos.observations.shape[1] == demos.motions.shape[1] == 8
    assert demos.observation_names[-1] == "state[gripper.pos]"


def test_commands_under_another_name(dataset):
    changed(dataset, {"action": "leader.joints", "observation.state": "follower.joints"})
    demos = read_dataset(dataset, "follower.joints", "leader.joints[gripper.pos]").demonstrations
    assert demos.motion_names == ("leader.joints[gripper.pos]",)


@pytest.mark.parametrize(
    ("rename", "observe", "act"),
    [
        ({}, "observation.state", "action"),
        ({"action": "actions", "observation.state": "state"}, "state", "actions"),
        ({"action": "action.joints", "observation.state": "observation.joints"}, "observation.joints", "action.joints"),
        ({"action": "observation.environment_state"}, "observation.state", "observation.state"),
        ({"observation.state": "speed"}, "action", "action"),
    ],
)
def test_what_is_observed_is_recognised(dataset, rename, observe, act):
    changed(dataset, rename)
    assert recognise(dataset, {}).columns == {"observe": observe, "act": act}


def test_nothing_is_recognised(dataset):
    changed(dataset, {"action": "leader", "observation.state": "follower"})
    with pytest.raises(InputError, match=r"nothing called a state, .* \(--observe, --act\) among leader, follower"):
        recognise(dataset, {})
    assert recognise(dataset, {"observe": "follower"}).columns == {"observe": "follower"}


def test_no_run_but_data(dataset, capsys):
    assert main(["segment", str(dataset)]) == 2
    assert f"fit a model first (prism analyze {dataset})" in capsys.readouterr().err


def test_joints_by_name(dataset):
    demos = read_dataset(dataset, "observation.state[gripper.pos],observation.state[0:2]", "action").demonstrations
    assert demos.observation_names == tuple(f"observation.state[{JOINTS[i]}]" for i in (7, 0, 1))
    whole = read_dataset(dataset, "observation.state", "action").demonstrations
    np.testing.assert_array_equal(demos.observations, whole.observations[:, [7, 0, 1]])
    with pytest.raises(InputError, match=r"no number 'wrist': its numbers are joint_0.pos"):
        read_dataset(dataset, "observation.state[wrist]", "action")


def test_episodes_and_tasks(dataset):
    def read(**chosen):
        return read_dataset(dataset, "observation.state", "action", **chosen).demonstrations.trajectory_names.tolist()

    assert read(episodes="0,2") == [0, 2]
    assert read(episodes="1:3") == [1, 2]
    assert read(task="POUR") == [1]
    with pytest.raises(InputError, match="their tasks are 'open the drawer', 'pour tea'"):
        read(task="juggle")
    with pytest.raises(InputError, match="write numbers and ranges"):
        read(episodes="first")


def test_words_in_the_phase_column(dataset):
    names = {}
    for file in sorted((dataset / "data").rglob("*.parquet")):
        table = pq.read_table(file, partitioning=None)
        words = pa.array([f"stage {cell}" for cell in table["phase"].to_pylist()])
        names[file] = words
        pq.write_table(table.set_column(table.column_names.index("phase"), "phase", words), file)
    changed(dataset, phase={"dtype": "string", "shape": [1], "names": None})
    demos = read_dataset(dataset, "observation.state", "action").demonstrations
    words = np.concatenate([own.to_pylist() for own in names.values()])
    np.testing.assert_array_equal(np.array(demos.label_names)[demos.labels], words)


def test_a_camera_that_nobody_asked_for_never_matters(dataset):
    video = {"dtype": "video", "shape": [48, 64, 3], "names": ["height", "width", "channels"]}
    changed(dataset, **{"observation.images.top": video})
    assert len(read_dataset(dataset, "observation.state", "action").demonstrations) == 3
    with pytest.raises(InputError, match="no video_path"):
        read_dataset(dataset, "observation.images.top", "action")
