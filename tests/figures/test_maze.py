"""Maps of the maze show what they were given."""

import numpy as np
import pytest
from matplotlib.collections import PolyCollection

from prism_irl import maze
from prism_irl.errors import InputError
from prism_irl.figures import maps, style
from prism_irl.figures import maze as drawing
from prism_irl.figures.selection import agreement_by_intentions, likelihood_by_intentions


@pytest.fixture
def ax():
    figure, (axes,) = style.new_figure(height=3.2)
    yield axes
    figure.clear()


def polygons(ax):
    return [c for c in ax.collections if isinstance(c, PolyCollection)]


def test_corridors_take_the_colours_between_their_ends(ax):
    values = np.arange(127.0)
    drawing.maze_map(ax, values)
    shown = np.ma.getdata(polygons(ax)[0].get_array())
    np.testing.assert_array_equal(shown[:127], values)
    cells = maze.cells()
    halfway = (cells.ends == (0, 1)).all(axis=1) & (cells.share == 0.5)
    np.testing.assert_allclose(shown[halfway], 0.5)


def test_nodes_without_a_number_are_grey(ax):
    values = np.ones(127)
    values[[5, 100]] = np.nan
    drawing.maze_map(ax, values)
    mask = np.ma.getmaskarray(polygons(ax)[0].get_array())
    assert mask[[5, 100]].all()
    assert not mask[[0, 1, 99]].any()


def test_arrows_point_along_the_policy_and_grow_with_confidence(ax):
    policy = maze.valid_actions() / maze.valid_actions().sum(axis=1, keepdims=True)  # no choice is ahead: no arrow
    policy[0] = (0.9, 0.05, 0, 0.05)
    policy[2] = (0.4, 0.3, 0, 0.3)
    drawing.maze_map(ax, np.zeros(127), policy=policy)
    arrows = polygons(ax)[1].get_paths()
    assert len(arrows) == 2
    up, east = (path.vertices[:-1] for path in arrows)
    np.testing.assert_allclose(up[3] - maze.layout()[0], (0, -0.4))  # the tip: node 1 lies above
    np.testing.assert_allclose(east[3] - maze.layout()[2], (0.4, 0))  # in-left at node 2 leads east, to node 6
    assert np.ptp(up[:, 0]) > np.ptp(east[:, 1])
    alphas = polygons(ax)[1].get_facecolors()[:, 3]
    assert alphas[0] > alphas[1]


def test_leaving_the_maze_points_to_the_entrance(ax):
    policy = maze.valid_actions() / maze.valid_actions().sum(axis=1, keepdims=True)
    policy[0] = (0, 0, 0, 1)
    drawing.maze_map(ax, np.zeros(127), policy=policy)
    tip = polygons(ax)[1].get_paths()[0].vertices[3]
    assert tip[0] < maze.layout()[0, 0]
    assert tip[1] == maze.layout()[0, 1]


def test_occupancy_counts_weighted_steps(ax):
    drawing.occupancy_map(ax, np.array([0, 0, 116, 5]), weights=np.array([1.0, 1.0, 2.0, 0.0]))
    shown = polygons(ax)[0].get_array()
    assert shown[0] == shown[116] == 0.5
    assert np.ma.getmaskarray(shown)[5]
    maps.add_colorbar(ax, label="share")
    with pytest.raises(InputError, match="nodes"):
        drawing.occupancy_map(ax, [127])
    with pytest.raises(InputError, match="weights"):
        drawing.occupancy_map(ax, [1, 2], weights=[0, 0])


def test_any_graph_can_be_drawn(ax, tmp_path):
    drawing.graph_map(
        ax,
        [0.0, 1.0, np.nan],
        layout=[(0, 0), (1, 0), (1, 1)],
        edges=[(0, 1), (1, 2)],
        towards=[1, 1, 0],
        confidence=[0.5, 1.0, 1.0],
        title="graph",
    )
    nodes, arrows = polygons(ax)
    assert np.ma.getmaskarray(nodes.get_array()).tolist() == [False, False, True]
    assert len(arrows.get_paths()) == 1  # node 1 stays, node 2 is grey
    assert arrows.get_paths()[0].vertices[3][0] > 0
    style.save(ax.figure, tmp_path / "graph")
    assert (tmp_path / "graph.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda ax: drawing.maze_map(ax, np.zeros(5)), "one number per node"),
        (lambda ax: drawing.maze_map(ax, np.zeros(127), policy=np.ones((127, 2))), "policy"),
        (lambda ax: drawing.graph_map(ax, [1.0], layout=[(0, 0)], edges=[(0, 3)]), "edge"),
        (lambda ax: drawing.graph_map(ax, [1.0], layout=[0.0], edges=[]), "layout"),
        (lambda ax: drawing.graph_map(ax, [1.0], layout=[(0, 0)], edges=[], towards=[4]), "arrows"),
        (lambda ax: likelihood_by_intentions(ax, []), "at least one row"),
    ],
)
def test_wrong_shapes_are_refused(ax, call, word):
    with pytest.raises(InputError, match=word):
        call(ax)


def test_selection_panels_mark_the_choice(ax):
    rows = [
        {"n_intentions": 1, "predictive_ll": -0.9, "standard_error": 0.01, "agreement": None},
        {"n_intentions": 2, "predictive_ll": -0.7, "standard_error": 0.01, "agreement": 0.9},
    ]
    agreement_by_intentions(ax, rows, 2)
    drawn = {tuple(point) for line in ax.lines for point in line.get_xydata() if line.get_marker() == "s"}
    assert drawn == {(2.0, 0.9)}
    with pytest.raises(InputError, match="none of the rows"):
        likelihood_by_intentions(ax, rows, 7)
