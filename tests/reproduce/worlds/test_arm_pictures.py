"""Pictures of simulated pick-and-place: the cube is where it is, fingers close, and the target is nowhere."""

from __future__ import annotations

import numpy as np

from worlds.arm_pictures import CUBE, pictures
from worlds.manipulation import STATE_NAMES


def state(**values: float) -> np.ndarray:
    found = np.zeros(len(STATE_NAMES))
    known = {"effector_x": 0.4, "effector_z": 0.3, "effector_cos_yaw": 1.0, "block_x": 0.4, "block_z": 0.02}
    for name, value in (known | values).items():
        found[STATE_NAMES.index(name)] = value
    return found


def red(picture: np.ndarray) -> np.ndarray:
    """Middle of the pixels that have the colour of the cube, row and column."""
    return np.argwhere(np.abs(picture.astype(int) - CUBE).sum(axis=-1) < 60).mean(axis=0)


def test_the_cube_is_seen_where_it_lies():
    here, right, near, high = pictures([state(), state(block_y=0.1), state(block_x=0.5), state(block_z=0.1)])
    assert here.shape == (64, 64, 3)
    assert here.dtype == np.uint8
    assert red(right)[1] > red(here)[1] + 3  # the camera looks back along x: y grows to its right
    assert red(near)[0] > red(here)[0] + 2
    assert red(high)[0] < red(here)[0] - 3


def test_fingers_close_and_hide_nothing_else():
    opened, closed, elsewhere = pictures([state(), state(gripper_opening=0.6), state(target_x=0.5, target_y=0.2)])
    assert (opened != closed).any()
    np.testing.assert_array_equal(opened, elsewhere)


def test_a_picture_does_not_depend_on_its_neighbours():
    steps = [state(), state(effector_y=0.2, block_y=-0.2), state(effector_z=0.05)]
    np.testing.assert_array_equal(pictures(steps)[1], pictures(steps[1:2])[0])
