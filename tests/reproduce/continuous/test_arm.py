"""Simulated arms are kept in the cache of a run, looked at once, and read as a real arm would be."""

from __future__ import annotations

import numpy as np
import pytest

from continuous import arm
from continuous.data import OWN, episodes_of, load, prepare
from continuous.methods import held_out, run_method, shown
from continuous.run import ARM, Continuous, tasks_of
from worlds.manipulation import ACTION_NAMES, STATE_NAMES

SMALL = 0.1
QUICK = {"n_starts": 1, "max_iterations": 3, "warm_up": 1, "n_candidates": 1}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Twenty short episodes of a gripper that closes and opens, in place of a simulator."""
    folder, rng = tmp_path_factory.mktemp("cache"), np.random.default_rng(0)
    n, T = episodes_of(SMALL), 15
    phases = np.tile(np.repeat(np.arange(5), 3), n)
    states = rng.normal(0, 0.01, (n * T, len(STATE_NAMES)))
    for name, value in (("effector_x", 0.4), ("effector_z", 0.2), ("effector_cos_yaw", 1.0), ("block_x", 0.4)):
        states[:, STATE_NAMES.index(name)] += value
    states[:, STATE_NAMES.index("block_y")] += np.repeat(rng.uniform(-0.2, 0.2, n), T)
    opening = np.array([0.0, 0.3, 0.6, 0.4, 0.1])[phases] + rng.normal(0, 0.01, n * T)
    states[:, STATE_NAMES.index("gripper_opening")] = opening
    actions = rng.normal(0, 0.1, (n * T, len(ACTION_NAMES)))
    arrays = {"states": states, "actions": actions.astype(np.float32), "phases": phases.astype(np.int32)}
    np.savez(arm.path_of(folder, n, 7), offsets=np.arange(n + 1) * T, **arrays)
    prepare((7,), SMALL, folder, 1)  # finds the simulation, and looks at it
    return folder


def test_what_the_camera_sees_is_observed_and_the_block_is_not(cache):
    data = load(ARM, 7, size=SMALL, cache=cache)
    assert data.n_intentions == 5
    assert data.demos.observations.shape[1] == OWN + arm.COMPONENTS
    assert data.gripper.shape == (data.demos.n_steps, 3)
    first = data.demos.offsets[:-1]
    assert not data.gripper[first, 2].any()  # no change before the first step
    np.testing.assert_allclose(np.diff(data.gripper[:15, 1]), data.gripper[1:15, 2])
    # The pictures tell where the block lies, which none of the arm's own numbers does.
    place = np.load(arm.path_of(cache, 20, 7))["states"][:, STATE_NAMES.index("block_y")]
    for columns, known in ((slice(-data.n_pictures, None), True), (slice(OWN), False)):
        x = np.column_stack([data.demos.observations[:, columns], np.ones(len(place))]).astype(np.float64)
        rest = place - x @ np.linalg.lstsq(x, place, rcond=None)[0]
        assert (rest.var() < 0.3 * place.var()) == known


def test_the_gripper_alone_tells_the_phases(cache):
    data = load(ARM, 7, size=SMALL, cache=cache)
    assert shown("gripper-ordered", data).observations.shape[1] == 1
    assert shown("gripper-pictures", data).observations.shape[1] == arm.COMPONENTS
    found = run_method("gripper-ordered", data, 0, QUICK).labels
    assert (found == data.demos.labels).mean() > 0.8  # in order, so that nothing has to be matched
    assert np.isfinite(held_out("gripper-pictures", data, 0, QUICK))


def test_a_run_has_the_arm_where_its_files_are(cache, monkeypatch):
    monkeypatch.setattr("continuous.run.can_simulate", lambda: False)
    assert ARM not in Continuous.of(cache=cache).data
    for seed in Continuous.seeds[:2]:
        arm.path_of(cache, 200, seed).touch()
    assert ARM in Continuous.of(cache=cache).data
    tasks = tasks_of(Continuous((ARM, "square-2")))
    assert {task.data for task in tasks if "gripper" in task.method} == {ARM}
    assert {task.seed for task in tasks} == {10, 11}
    assert {task.method for task in tasks if task.part == "new"} >= {"gripper-pictures", "habit"}
