"""Maps of a grid draw the numbers that they are given."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from matplotlib.quiver import Quiver

from prism_irl.errors import InputError
from prism_irl.figures import style
from prism_irl.figures.maps import DIRECTIONS, add_colorbar, grid_heatmap
from prism_irl.figures.style import new_figure, to_svg
from prism_irl.worlds.frustration import ACTIONS, FrustrationWorld

UP, DOWN, LEFT, RIGHT, STAY = range(5)


def mesh(ax):
    (found,) = [artist for artist in ax.collections if isinstance(artist, QuadMesh)]
    return found


def test_heatmap_draws_values_with_state_zero_at_the_lower_left(ax):
    values = np.arange(6.0)
    assert grid_heatmap(ax, values, width=3, height=2, title="values", limits=(-1, 9)) is ax
    np.testing.assert_array_equal(mesh(ax).get_array(), values.reshape(2, 3))
    corners = mesh(ax).get_coordinates()
    np.testing.assert_array_equal(corners[0, 0], [-0.5, -0.5])
    np.testing.assert_array_equal(corners[-1, -1], [2.5, 1.5])
    low, high = ax.get_ylim()
    assert low < high  # y grows upwards on the page
    assert mesh(ax).get_clim() == (-1, 9)
    assert ax.get_title(loc="left") + ax.get_title() == "values"


def test_arrows_point_where_the_world_moves():
    world = FrustrationWorld()
    moves = np.array(DIRECTIONS)
    middle = world.state((2, 2))
    for action, name in enumerate(ACTIONS):
        target = int(FrustrationWorld(barriers=(), success=1.0).transitions[middle, action].argmax())
        assert (target % 5 - 2, target // 5 - 2) == tuple(moves[action]), name


def test_greedy_actions_become_arrows_and_dots(ax):
    greedy = [UP, DOWN, LEFT, RIGHT, STAY, -1]
    grid_heatmap(ax, np.arange(6.0), width=3, height=2, greedy=greedy)
    (arrows,) = [artist for artist in ax.collections if isinstance(artist, Quiver)]
    np.testing.assert_array_equal(arrows.XY, [[0, 0], [1, 0], [2, 0], [0, 1]])
    np.testing.assert_array_equal(np.stack([arrows.U, arrows.V], axis=1), [[0, 1], [0, -1], [-1, 0], [1, 0]])
    dots = ax.collections[-1]
    np.testing.assert_array_equal(dots.get_offsets(), [[1, 1]])


def test_barriers_unvisited_and_nan_cells_hide_value_and_action(ax):
    values = np.array([100.0, 1, 2, np.nan, 4, -50])
    unvisited = np.array([True, False, False, False, False, False])
    grid_heatmap(
        ax, values, width=3, height=2, greedy=[UP] * 6, barriers=[(2, 1)], unvisited=unvisited, mark=[(1, 0), (0, 0)]
    )
    np.testing.assert_array_equal(np.ma.getmaskarray(mesh(ax).get_array()).ravel(), [1, 0, 0, 1, 0, 1])
    assert mesh(ax).get_clim() == (1, 4)  # hidden cells do not stretch the scale
    (arrows,) = [artist for artist in ax.collections if isinstance(artist, Quiver)]
    assert len(arrows.XY) == 3
    patches = {(patch.get_x(), patch.get_y()): patch for patch in ax.patches if isinstance(patch, Rectangle)}
    assert set(patches) == {(-0.5, -0.5), (-0.5, 0.5), (1.5, 0.5)}
    assert to_hex(patches[1.5, 0.5].get_facecolor()) == style.BARRIER
    assert to_hex(patches[-0.5, -0.5].get_facecolor()) == style.UNVISITED
    assert [line.get_marker() for line in ax.lines] == ["*", "*"]


def test_heatmap_of_equal_values_and_colorbar_can_be_drawn():
    figure, (left, right) = new_figure(1, 2)
    for ax in (left, right):
        grid_heatmap(ax, np.zeros(4), width=2, height=2, greedy=[0, 1, 2, 3])
    bar = add_colorbar(left, [left, right], label="value")
    assert bar.ax.get_ylabel() == "value"
    ElementTree.fromstring(to_svg(figure))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": np.zeros(5)}, "values has shape"),
        ({"greedy": [0]}, "greedy has shape"),
        ({"greedy": [5] * 4}, "action 5"),
        ({"barriers": [(2, 0)]}, "outside"),
        ({"mark": [(0, -1)]}, "outside"),
    ],
)
def test_heatmap_says_what_is_wrong(ax, arguments, message):
    with pytest.raises(InputError, match=message):
        grid_heatmap(ax, **({"values": np.zeros(4), "width": 2, "height": 2} | arguments))
