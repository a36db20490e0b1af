"""`prism data map`: tables become mapped files, one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from continuous_worlds import walks
from prism_irl.data.mapped import is_mapped, open_folder
from prism_irl.data.read import read_data
from support import prism

COLUMNS = ("--observe", "x,y", "--act", "vx,vy")


@pytest.fixture
def arm(tmp_path):
    """Two files, whose trajectories have the same numbers."""
    for name, seed in (("monday", 0), ("tuesday", 1)):
        walks(n_trajectories=3, length=10, seed=seed).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def test_files_become_one_folder_that_a_fit_reads(arm):
    done = prism("data", "map", "*day.csv", *COLUMNS, "--out", "mapped", cwd=arm)
    assert (done.returncode, "60 steps in 6 trajectories of 2 files" in done.stdout) == (0, True)
    found = open_folder(arm / "mapped")
    whole = read_data(arm / "*day.csv", trajectory="file,trajectory", observe="x,y", act="vx,vy").demonstrations
    for name in ("observations", "motions", "offsets", "labels", "trajectory_names"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name), err_msg=name)
    assert is_mapped(found.observations)
    assert found.observation_names == ("x", "y")
    assert read_data(arm / "mapped").demonstrations.n_steps == 60  # no columns are named


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "mapped"), "name the columns with --observe and --act"),
        ((*COLUMNS, "--events", "bell", "--out", "mapped"), "leave them"),
        ((*COLUMNS, "--out", "."), "exists already"),
        (("--observe", "x,z", "--act", "vx", "--out", "mapped"), "no column 'z'"),
    ],
)
def test_what_cannot_be_mapped_is_one_sentence_and_leaves_nothing(arm, arguments, said):
    done = prism("data", "map", "*day.csv", *arguments, cwd=arm)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (arm / "mapped").exists()
