"""Tables of continuous states and actions: read, carried through every store, and refused in one sentence."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from continuous_worlds import walking, walks
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.tables import read, to_pandas
from support import assert_same, prism, refused


def test_columns_become_observations_and_commands():
    table = walks(n_trajectories=2, length=4)
    demos = read(table.sample(frac=1.0, random_state=0).sort_values("trajectory"), observe=["x", "y"], act="vx, vy")
    found = demos.demonstrations
    assert found.observation_names == ("x", "y")
    assert found.motion_names == ("vx", "vy")
    rows = demos.frame.iloc[demos.order]
    np.testing.assert_allclose(found.observations, rows[["x", "y"]].to_numpy(np.float32))
    np.testing.assert_allclose(found.motions, rows[["vx", "vy"]])
    np.testing.assert_array_equal(found.labels, rows["intention"])


def test_lists_of_numbers_are_taken_apart():
    table = walks(n_trajectories=2, length=3)
    nested = pd.DataFrame({"trajectory": table["trajectory"], "seen": table[["x", "y"]].to_numpy().tolist()})
    nested["done"] = table["vx"]
    demos = read(nested, observe="seen", act="done").demonstrations
    assert demos.observation_names == ("seen[0]", "seen[1]")
    np.testing.assert_allclose(demos.observations[:, 1], table["y"], rtol=1e-6)


def test_bad_columns_are_refused():
    table = walks(n_trajectories=2, length=3)
    refused(table, "no column 'z' to --observe", observe="x,z", act="vx")
    refused(table, "none to --act", observe="x")
    refused(table.assign(y=[1, 2, "high", 4, 5, 6]), "high", "'y', row 2", observe="x,y", act="vx")
    refused(table.assign(vx=np.nan), "'vx', row 0", observe="x,y", act="vx")
    ragged = pd.DataFrame({"trajectory": 0, "o": [[1, 2], [1]], "a": [0.0, 1.0]})
    refused(ragged, "'o', row 1", "2 numbers", observe="o", act="a")
    refused("some.npz", "belong to a table", observe="x", act="y")


@pytest.mark.parametrize("name", ["walk.npz", "walk"])
def test_nothing_is_lost_on_the_way_to_disk_and_back(name, tmp_path):
    demos = walking(n_trajectories=3, length=5)
    demos.save(tmp_path / name)
    back = Demonstrations.open(tmp_path / name)
    assert_same(back, demos)
    np.testing.assert_array_equal(back.motions, demos.motions)
    assert (back.motion_names, back.observation_names) == (demos.motion_names, demos.observation_names)
    assert back.checksum() == demos.checksum()
    part = back.subset([2])
    np.testing.assert_array_equal(part.motions, demos.motions[10:])
    for train, test in back.folds(3):
        assert len(train.motions) + len(test.motions) == demos.n_steps


def test_a_table_comes_back_with_its_columns():
    table = to_pandas(walking(n_trajectories=2, length=3))
    assert list(table.columns) == ["trajectory", "intention", "x", "y", "vx", "vy"]


def test_from_the_table_to_phases_on_the_command_line(tmp_path):
    table = walks(n_trajectories=16, length=70)
    table.to_parquet(tmp_path / "arm.parquet")
    columns = ("--observe", "x,y", "--act", "vx,vy")
    done = prism("fit", "arm.parquet", *columns, "--intentions", 3, "--n-starts", 3, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "log density" in done.stdout
    assert {"segments.parquet", "report.html", "model.safetensors"} <= {p.name for p in (tmp_path / "run").iterdir()}
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["density"]
    assert metrics["predictive_ll"]["train"] > metrics["references"]["linear"]["predictive_ll"]["train"]
    walks(n_trajectories=8, length=70, seed=5).to_csv(tmp_path / "new.csv", index=False)
    scored = prism("score", "run", "new.csv", "--json", cwd=tmp_path)
    assert json.loads(scored.stdout)["label_accuracy"] > 0.95
    cut = prism("segment", "run", "new.csv", "--out", "labels.csv", cwd=tmp_path)
    assert cut.returncode == 0, cut.stderr
    assert {"predicted_intention", "p_0", "p_2"} <= set(pd.read_csv(tmp_path / "labels.csv").columns)
    walking(n_trajectories=4, length=20).save(tmp_path / "walk.npz")
    small = ("--intentions", 2, "--n-starts", 1, "--max-iterations", 2)
    assert prism("fit", "walk.npz", *small, "--out", "again", cwd=tmp_path).returncode == 0
