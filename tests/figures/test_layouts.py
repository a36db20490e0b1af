"""One number per state on the map that the states have."""

import csv
from io import StringIO

import numpy as np
import pytest

from prism_irl import maze
from prism_irl.errors import InputError
from prism_irl.figures import data, layouts, style


def test_layout_maps_choose_the_drawing():
    grid = {"kind": "grid", "xy": [[s % 3, s // 3] for s in range(6)], "edges": [], "barriers": [4]}
    figure, (one, two) = style.new_figure(1, 2)
    layouts.layout_map(one, grid, np.arange(6.0), towards=[1, 4, 5, 3, -1, 2])
    assert layouts._directions(np.array([1, 4, 5, 3, -1, 2]), 3).tolist() == [3, 0, 0, 4, -1, 1]
    graph = {"kind": "graph", "xy": [[0, 0], None, [1, 0]], "edges": [[0, 2], [0, 1]], "barriers": []}
    layouts.layout_map(two, graph, [1.0, 2.0, 3.0], towards=[2, 0, -1], confidence=[0.5, 1, 1])
    rows = csv.DictReader(StringIO(data.to_csv(figure)))
    places = [row["value"] for row in rows if row["kind"] == "place" and row["value"]]
    assert places == ["1", "3"]  # the state without a place is left out
    with pytest.raises(InputError, match="6 states"):
        layouts.layout_map(one, grid, [1.0])


def test_arrows_on_the_maze_lead_where_they_should():
    towards = np.where(np.arange(127) < 63, 2 * np.arange(127) + 1, -1)  # always the odd branch
    policy = layouts._step_types(towards, np.full(127, 0.8))
    np.testing.assert_allclose(policy.sum(axis=1), 1)
    assert not policy[~maze.valid_actions()].any()
    inner = np.arange(63)
    np.testing.assert_array_equal(maze.successors()[inner, policy[inner].argmax(axis=1)], towards[inner])
    _, (ax,) = style.new_figure()
    layout = {"kind": "maze", "xy": maze.layout().tolist(), "edges": [], "barriers": []}
    assert layouts.layout_map(ax, layout, np.arange(127.0), towards=towards) is ax


@pytest.mark.parametrize("kind", ["grid", "graph", "maze"])
def test_zero_is_in_the_middle_of_signed_colours(kind):
    n = 127 if kind == "maze" else 6
    xy = maze.layout().tolist() if kind == "maze" else [[s % 3, s // 3] for s in range(n)]
    _, (ax,) = style.new_figure()
    values = np.where(np.arange(n) == 3, -2.0, 0.5)
    layouts.layout_map(ax, {"kind": kind, "xy": xy, "edges": [], "barriers": []}, values, signed=True)
    assert ax.collections[0].get_clim() == (-2.0, 2.0)
    assert ax.collections[0].get_cmap().name == style.SIGNED_MAP


def test_names_of_neighbours_do_not_lie_on_one_another():
    figure, (ax,) = style.new_figure(width=2.2, height=2.0)
    xy = [[x, y] for y in range(15) for x in range(15)]
    layout = {"kind": "graph", "xy": xy, "edges": [], "barriers": []}
    layouts.layout_map(ax, layout, np.zeros(225))
    layouts.label_places(ax, layout, {100: "57", 101: "116", 102: "water"})
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
