"""One number per state on the map that the states have."""

import csv
import xml.etree.ElementTree as ElementTree
from io import StringIO

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

from prism_irl.errors import InputError
from prism_irl.figures import maps, style
from prism_irl.figures.charts import agreement_by_intentions
from prism_irl.figures.maps import add_colorbar, layout_map
from prism_irl.figures.style import new_figure, to_svg
from prism_irl.report.places import grid


def test_layout_maps_choose_the_drawing():
    cells = {"kind": "grid", "xy": [[s % 3, s // 3] for s in range(6)], "edges": [], "barriers": [4]}
    figure, (one, two) = style.new_figure(1, 2)
    maps.layout_map(one, cells, np.arange(6.0), towards=[1, 4, 5, 3, -1, 2])
    arrows = polygons(one)[-1].get_paths()
    tips = [path.vertices[3] - (s % 3, s // 3) for s, path in zip((0, 1, 2, 5), arrows, strict=True)]
    np.testing.assert_allclose(tips, [(0.3, 0), (0, 0.3), (0, 0.3), (0, -0.3)], atol=1e-12)
    graph = {"kind": "graph", "xy": [[0, 0], None, [1, 0]], "edges": [[0, 2], [0, 1]], "barriers": []}
    maps.layout_map(two, graph, [1.0, 2.0, 3.0], towards=[2, 0, -1], confidence=[0.5, 1, 1])
    rows = csv.DictReader(StringIO(style.to_csv(figure)))
    places = [row["value"] for row in rows if row["kind"] == "place" and row["value"]]
    assert places == ["0", "1", "2", "3", "5", "1", "3"]  # neither a barrier nor a state without a place
    with pytest.raises(InputError, match="6 states"):
        maps.layout_map(one, cells, [1.0])


@pytest.mark.parametrize("kind", ["grid", "graph"])
def test_zero_is_in_the_middle_of_signed_colours(kind):
    n, xy = 6, [[s % 3, s // 3] for s in range(6)]
    _, (ax,) = style.new_figure()
    values = np.where(np.arange(n) == 3, -2.0, 0.5)
    maps.layout_map(ax, {"kind": kind, "xy": xy, "edges": [], "barriers": []}, values, signed=True)
    assert ax.collections[0].get_clim() == (-2.0, 2.0)
    assert ax.collections[0].get_cmap().name == style.SIGNED_MAP


def test_names_of_neighbours_do_not_lie_on_one_another():
    figure, (ax,) = style.new_figure(width=2.2, height=2.0)
    xy = [[x, y] for y in range(15) for x in range(15)]
    layout = {"kind": "graph", "xy": xy, "edges": [], "barriers": []}
    maps.layout_map(ax, layout, np.zeros(225))
    maps.label_places(ax, layout, {100: "57", 101: "116", 102: "water"})
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def cells(ax):
    """Faces of a map, those that have a number."""
    return polygons(ax)[0]


def on_grid(ax, values, width, height, barriers=(), **look):
    return layout_map(ax, grid(width, height, barriers), values, **look)


def test_a_grid_draws_values_with_state_zero_at_the_lower_left(ax):
    values = np.arange(6.0)
    assert on_grid(ax, values, 3, 2, title="values", limits=(-1, 9)) is ax
    np.testing.assert_array_equal(cells(ax).get_array(), values)
    np.testing.assert_array_equal(cells(ax).get_paths()[0].vertices[0], [-0.5, -0.5])
    np.testing.assert_array_equal(cells(ax).get_paths()[-1].vertices[2], [2.5, 1.5])
    low, high = ax.get_ylim()
    assert low < high  # y grows upwards on the page
    assert cells(ax).get_clim() == (-1, 9)
    assert ax.get_title(loc="left") + ax.get_title() == "values"


def test_places_become_arrows_and_dots(ax):
    xy = np.array([(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)], float)
    steps = [(0, 1), (0, -1), (-1, 0), (1, 0), (0, 0), (np.nan, np.nan)]
    on_grid(ax, np.arange(6.0), 3, 2, towards=xy + steps)
    arrows = [path.vertices[3] - (s % 3, s // 3) for s, path in enumerate(polygons(ax)[-1].get_paths())]
    np.testing.assert_allclose(arrows, [[0, 0.3], [0, -0.3], [-0.3, 0], [0.3, 0]], atol=1e-12)
    np.testing.assert_array_equal(ax.collections[-1].get_offsets(), [[1, 1]])


def test_barriers_and_nan_cells_hide_value_and_arrow(ax):
    values = np.array([np.nan, 1, 2, np.nan, 4, -50])
    on_grid(ax, values, 3, 2, barriers=[(2, 1)], towards=[3, 4, 5, 0, 1, 2])
    np.testing.assert_array_equal(np.ma.getmaskarray(cells(ax).get_array()), [1, 0, 0, 1, 0, 1])
    assert cells(ax).get_clim() == (1, 4)  # hidden cells do not stretch the scale
    closed, grey, arrows = polygons(ax)[1:]
    assert len(arrows.get_paths()) == 3
    assert [tuple(path.vertices[0]) for path in closed.get_paths()] == [(1.5, 0.5)]
    assert [tuple(path.vertices[0]) for path in grey.get_paths()] == [(-0.5, -0.5), (-0.5, 0.5)]
    assert to_hex(closed.get_facecolor()[0]) == style.BARRIER
    assert to_hex(grey.get_facecolor()[0]) == style.UNVISITED


def test_a_grid_of_equal_values_and_colorbar_can_be_drawn():
    figure, (left, right) = new_figure(1, 2)
    for ax in (left, right):
        on_grid(ax, np.zeros(4), 2, 2, towards=[0, 1, 2, 3])
    bar = add_colorbar(left, [left, right], label="value")
    assert bar.ax.get_ylabel() == "value"
    ElementTree.fromstring(to_svg(figure))


@pytest.fixture
def ax():
    figure, (axes,) = style.new_figure(height=3.2)
    yield axes
    figure.clear()


def polygons(ax):
    return [c for c in ax.collections if isinstance(c, PolyCollection)]


def test_any_graph_can_be_drawn(ax, tmp_path):
    graph = {"kind": "graph", "xy": [[0, 0], [1, 0], [1, 1]], "edges": [[0, 1], [1, 2]], "barriers": []}
    values, sure = [0.0, 1.0, np.nan], [0.5, 1.0, 1.0]
    maps.layout_map(ax, graph, values, towards=[1, 1, 0], confidence=sure, title="graph")
    nodes, arrows = polygons(ax)
    assert np.ma.getmaskarray(nodes.get_array()).tolist() == [False, False, True]
    assert len(arrows.get_paths()) == 1  # node 1 stays, node 2 is grey
    assert arrows.get_paths()[0].vertices[3][0] > 0
    style.save(ax.figure, tmp_path / "graph")
    assert (tmp_path / "graph.png").stat().st_size > 1000


GRAPH = {"kind": "graph", "xy": [[0, 0]], "edges": [], "barriers": []}


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda ax: maps.layout_map(ax, GRAPH | {"edges": [[0, 3]]}, [1.0]), "edge"),
        (lambda ax: maps.layout_map(ax, GRAPH, [1.0], towards=[4]), "arrows"),
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
