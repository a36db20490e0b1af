"""The experiment on continuous worlds: every fit once, a table per world, surgery read as its README says."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from continuous import data as worlds
from continuous.methods import PAIRS, blind, fit, leading, run_method, transfer, windows
from continuous.run import Continuous, run, tasks_of
from continuous.told import TOLD, told
from prism_irl.labels import ari
from prism_irl.rewards.options import Windows
from worlds.point_maze import PointMaze

SMALL = {"n_starts": 1, "max_iterations": 2, "warm_up": 1, "n_candidates": 1}


@pytest.fixture
def surgery(tmp_path, monkeypatch):
    """Files of the shape that the README of the data describes: three surgeons, two trials each, three gestures."""
    rng = np.random.default_rng(0)
    sides = ("PSML", "PSMR")
    parts = [*(f"position_{a}" for a in "xyz"), *(f"velocity_{a}" for a in "xyz")]
    parts += [*(f"orientation_{a}" for a in "xyzw"), "gripper_angle"]
    channels = np.array([f"{side}_{part}" for side in sides for part in parts])
    labels = np.tile(np.repeat([-1, 0, 1, 2], 15), 6)
    kinematics = rng.normal(0, 0.3, (len(labels), 22)) + labels[:, None]
    (tmp_path / "surgery").mkdir()
    for task in worlds.SURGERY:
        np.savez(
            tmp_path / "surgery" / f"{task}.npz",
            kinematics=kinematics.astype(np.float32),
            channels=channels,
            labels=labels.astype(np.int16),
            label_names=np.array(["G1", "G2", "G3"]),
            offsets=np.arange(7) * 60,
            subject=np.array(["02", "02", "03", "03", "04", "04"]),
        )
    monkeypatch.setenv("PRISM_DATA", str(tmp_path))
    monkeypatch.setattr("prism_irl.rewards.windows.POWERS", (0.3,))  # one choice of each is quick
    monkeypatch.setattr("prism_irl.rewards.windows.SHRINKAGES", (0.3,))
    return tmp_path


def test_a_world_is_fitted_once_and_has_a_report(tmp_path):
    settings = Continuous(("square-2",), (3,), 0.15, SMALL, quick=True)
    metrics = run(settings, tmp_path)
    entries = metrics["data"]["square-2"]
    assert entries["oracle"]["label_accuracy"]["mean"] > 0.95
    assert entries["landmarks-state"]["goal_distance"]["mean"] >= 0
    assert -0.5 <= entries["landmarks-state"]["halves_agreement"]["mean"] <= 1
    assert entries["habit"]["label_accuracy"] is None
    assert np.isfinite(entries["habit"]["predictive_ll"]["mean"])
    assert entries["chain-all"]["predictive_ll"] is None  # its density is of observations, too
    assert np.isfinite(entries["chain-all"]["other_ll"]["mean"])
    assert entries["tokens"]["predictive_ll"] is None  # a probability of tokens is no density
    assert (tmp_path / "square-2" / "report.html").is_file()
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}
    assert len(stamps) == len(tasks_of(settings))
    assert json.loads(json.dumps(run(settings, tmp_path)["data"])) == json.loads(json.dumps(metrics["data"]))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()} == stamps


def test_surgery_has_velocities_as_commands_and_surgeons_as_groups(surgery):
    data = worlds.load("suturing", 0)
    assert data.n_intentions == 3
    assert data.demos.observations.shape[1] == 16
    assert data.demos.motions.shape[1] == 8  # six velocities, two grippers
    assert len(data.demos) == 6
    assert windows(data.demos).motions.shape == (360, 24 * 9)
    assert leading(windows(data.demos)).motions.shape == (360, 12)
    everything = blind(data.demos, everything=True)
    assert everything.motions.shape[1] == 24
    assert everything.observations.shape[1] == 1
    assert worlds.has_surgery()
    assert {task.subject for task in tasks_of(Continuous(("suturing",)))} == {"", "02", "03", "04"}


def test_one_labelled_trial_of_each_other_surgeon_names_the_gestures(surgery):
    data = worlds.load("suturing", 0)
    for method in ("told", "told-decided", "told-chosen", "told-chosen-alone"):
        true, labels, chosen = told(data, "03", 0, {**SMALL, "max_iterations": 10}, TOLD[method])
        assert len(true) == 120
        assert (true == labels)[true < 3].mean() > 0.9
        assert ("window" in chosen) == (method != "told")
        assert ("em_accuracy" in chosen) == (method == "told-decided")


def test_labels_of_the_surgeon_left_out_choose_nothing(surgery):
    data = worlds.load("suturing", 0)
    own = data.demos.groups[data.demos.trajectory_index] == "03"
    other = data._replace(demos=replace(data.demos, labels=np.where(own, 2, data.demos.labels)))
    found = [told(one, "03", 0, SMALL, TOLD["told-decided"]) for one in (data, other)]
    np.testing.assert_array_equal(found[0].found, found[1].found)
    assert found[0].chosen == found[1].chosen


def test_a_consensus_of_one_is_that_one_and_of_several_all_count(surgery, monkeypatch):
    pair = {"switching": "markov", "rewards": Windows(window=3)}
    monkeypatch.setitem(PAIRS, "windows-consensus", ("", pair))
    data = worlds.load("suturing", 0)._replace(n_intentions=4)
    members = [fit(data.demos, 4, pair, 1000 + i, SMALL).predict(data.demos) for i in range(3)]
    for n in (1, 3):
        monkeypatch.setattr("continuous.methods.MEMBERS", n)
        found = run_method("windows-consensus", data, 1, SMALL).labels
        assert min(ari(found, labels) for labels in members[:n]) > (0.999 if n == 1 else 0.3)


def test_true_goals_lose_nothing_behind_moved_walls_and_wrong_ones_do():
    world = PointMaze(noise=0.1)
    assert transfer(world, world.goals[::-1], 0) == pytest.approx(1.0)
    near = transfer(world, world.goals + 0.1, 0)
    assert 0.9 < near <= 1.05
    assert transfer(world, world.goals + np.array([0.0, 1.5]), 0) < near - 0.2
