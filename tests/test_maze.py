"""The maze follows from the binary tree, and equals the published files where they are."""

import os
from pathlib import Path

import numpy as np
import pytest

from prism_irl import maze


@pytest.fixture(scope="module")
def published() -> Path:
    beside_the_repository = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("PRISM_DATA", beside_the_repository)) / "labyrinth"
    for name in ("trans_probs.npy", "annotations.npz"):
        if not (folder / name).is_file():
            pytest.skip(f"labyrinth/{name} is absent; set PRISM_DATA to the folder that holds labyrinth/")
    return folder


def test_layout_and_actions_equal_the_annotations(published):
    with np.load(published / "annotations.npz", allow_pickle=False) as notes:
        np.testing.assert_array_equal(maze.layout(), notes["node_xy"])
        np.testing.assert_array_equal(maze.valid_actions(), notes["valid_action"])
        np.testing.assert_array_equal(maze.parents()[1:], notes["node_parent"][1:])
        np.testing.assert_array_equal(maze.levels(), notes["node_level"])


def test_dynamics_equal_the_published_ones(published):
    np.testing.assert_array_equal(maze.transitions(), np.load(published / "trans_probs.npy", allow_pickle=False))


def test_every_node_has_one_way_out_and_dead_ends_nothing_else():
    valid = maze.valid_actions()
    assert (valid[:, 2:].sum(axis=1) == 1).all()
    assert valid[: maze.FIRST_END, :2].all()
    assert not valid[maze.FIRST_END :, :2].any()
    assert valid[maze.EXIT]
    assert maze.successors()[maze.EXIT] == maze.HOME


def test_actions_lead_along_corridors_and_back():
    for n in range(1, maze.N_NODES):
        out = int(np.flatnonzero(maze.valid_actions()[n, 2:])[0]) + 2
        assert maze.successors()[n, out] == (n - 1) // 2
        assert maze.successors()[(n - 1) // 2, out - 2] == n  # out-left leads out of what in-left leads into


def test_left_is_left_of_the_way_in():
    # Into node 1 one walks upwards (y falls), so that its left branch lies to the west; into node 2 downwards.
    x = maze.layout()[:, 0]
    assert x[maze.successors()[1, 0]] < x[1] < x[maze.successors()[1, 1]]
    assert x[maze.successors()[2, 1]] < x[2] < x[maze.successors()[2, 0]]


def test_nodes_are_apart_inside_the_grid():
    assert len({tuple(xy) for xy in maze.layout()}) == 127
    assert maze.layout().min() == 0
    assert maze.layout().max() == maze.SIZE - 1


def test_geometry_cannot_be_changed():
    for array in (maze.layout(), maze.successors(), maze.parents()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_mdp_has_the_discount_and_the_valid_actions():
    mdp = maze.maze_mdp(0.9)
    assert mdp.discount == 0.9
    np.testing.assert_array_equal(mdp.valid_actions, maze.valid_actions())
