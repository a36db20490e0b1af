"""Columns of recordings are recognised from their values."""

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.movement import CONSTANT, DIFFERENCE, PLACE, TARGET, TWO_VALUED, Movement, share_by_time
from prism_irl.errors import InputError


def recordings(n=6, seed=0, same=True):
    """Two joints, a lamp that is always on, a gripper; targets, differences and the gripper's command."""
    rng = np.random.default_rng(seed)
    seen, done = [], []
    for _ in range(n):
        T = int(rng.integers(60, 90))
        u = np.linspace(0, 1, T) if same else (np.linspace(0, 1, T) * 3 + rng.random()) % 1
        joints = np.stack([np.sin(5 * u), np.cos(4 * u)], 1) + rng.normal(0, 0.01, (T, 2))
        shut = (u > 0.5).astype(float)
        seen.append(np.column_stack([joints, np.full(T, 3.0), shut]))
        step = np.gradient(joints[:, 0])
        done.append(np.column_stack([joints[:, 1], step + rng.normal(0, 0.01, T), shut]))
    return Demonstrations.continuous(seen, done)


def test_every_column_is_recognised():
    movement = Movement.fit(recordings())
    assert movement.kinds.tolist() == [PLACE, PLACE, CONSTANT, TWO_VALUED, TARGET, DIFFERENCE, TWO_VALUED]
    assert set(movement(recordings(seed=1)).switch.ravel()) == {0.0, 1.0}


def test_a_gripper_is_two_valued_by_its_name():
    rng = np.random.default_rng(0)
    width = [np.repeat(rng.uniform(0.2, 0.9, 8), 10)[:, None] + rng.normal(0, 0.02, (80, 1)) for _ in range(5)]
    joint = [np.sin(np.linspace(0, 3, 80))[:, None] for _ in range(5)]
    seen = [np.column_stack(parts) for parts in zip(joint, width, strict=True)]
    plain = Demonstrations.continuous(seen, joint, observation_names=("a", "b"), motion_names=("c",))
    named = Demonstrations.continuous(seen, joint, observation_names=("a", "gripper.pos"), motion_names=("c",))
    assert Movement.fit(plain).kinds[1] == PLACE
    assert Movement.fit(named).kinds[1] == TWO_VALUED


def test_many_joints_come_as_whitened_components():
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(2, 26))
    seen = [np.stack([np.sin(6 * u), np.cos(5 * u)], 1) @ mix for u in (np.linspace(0, 1, 90) for _ in range(5))]
    moved = Movement.fit(demos := Demonstrations.continuous(seen, seen))(demos)
    assert moved.place.shape[1] <= 3
    np.testing.assert_allclose(moved.place.std(0), 1.0, atol=0.15)


def test_time_tells_of_stages_and_not_of_gestures_in_any_order():
    demos = recordings()
    assert share_by_time(Movement.fit(demos)(demos), demos.offsets) > 0.5
    other = recordings(same=False)
    assert share_by_time(Movement.fit(other)(other), other.offsets) < 0.15


def test_units_survive_being_saved_and_other_columns_are_refused():
    demos = recordings()
    movement = Movement.fit(demos)
    again = Movement.from_state(movement.state())
    for one, two in zip(movement(demos), again(demos), strict=True):
        np.testing.assert_array_equal(one, two)
    short = Demonstrations.continuous([np.zeros((5, 2))], [np.zeros((5, 1))])
    with pytest.raises(InputError, match="name the same columns"):
        movement(short)
