"""Every figure gives its numbers back."""

import csv
from io import StringIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_irl import maze
from prism_irl.errors import InputError
from prism_irl.figures import curves, data, layouts, maps, style, timelines

finite = st.floats(-1e6, 1e6, allow_nan=False)


def rows(figure, kind):
    return [row for row in csv.DictReader(StringIO(data.to_csv(figure))) if row["kind"] == kind]


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=8))
def test_points_of_a_line_come_back(points):
    figure, (ax,) = style.new_figure()
    ax.plot(*zip(*points, strict=True), label="mine")
    found = [(float(row["x"]), float(row["y"])) for row in rows(figure, "line")]
    np.testing.assert_allclose(found, points, rtol=1e-5, atol=1e-9)
    assert {row["series"] for row in rows(figure, "line")} == {"mine"}


def test_bars_are_called_what_they_are_called_on_the_axis():
    figure, (ax,) = style.new_figure()
    curves.method_bars(ax, [{"name": "ours, new", "mean": -1.1, "std": None, "is_likelihood": True}])
    (bar,) = rows(figure, "bar")
    assert bar["series"] == "ours, new"
    assert float(bar["x"]) == pytest.approx(-1.1)


def test_histograms_rasters_and_maps_have_their_values():
    figure, (one, two, three) = style.new_figure(1, 3)
    curves.dwell_histogram(one, [[1, 1, 3], [2]])
    timelines.segmentation_raster(two, [0, 1, 1], [0, 1, 3])
    maps.grid_heatmap(three, [1.0, np.nan, 3.0, 4.0, 5.0, 6.0], width=3, height=2)
    steps = [row for row in rows(figure, "step") if row["series"].startswith("intention 0")]
    assert [float(row["y"]) for row in steps] == pytest.approx([2 / 3, 0, 1 / 3], abs=1e-5)
    raster = {(row["x"], row["y"]): row["value"] for row in rows(figure, "cell") if row["axes"].startswith("traj")}
    assert raster == {("0", "0"): "0", ("0", "1"): "1", ("1", "1"): "1"}
    assert "4" in {row["value"] for row in rows(figure, "cell") if not row["axes"].startswith("traj")}


def test_a_huge_picture_stops_at_the_limit(monkeypatch):
    monkeypatch.setattr(data, "MAX_ROWS", 10)
    figure, (ax,) = style.new_figure()
    ax.plot(np.arange(100), np.arange(100))
    assert len(rows(figure, "line")) == 10


def test_events_are_marked_above_the_posterior():
    _, (ax,) = style.new_figure()
    timelines.posterior_timeline(ax, np.full((5, 2), 0.5), events={"water": [1, 4], "home": []})
    (water,) = [line for line in ax.lines if line.get_label() == "water"]
    np.testing.assert_array_equal(water.get_xdata(), [1, 4])
    assert water.get_ydata()[0] > 1
    with pytest.raises(InputError, match="step 5"):
        timelines.posterior_timeline(ax, np.full((5, 2), 0.5), events={"water": [5]})


def test_the_average_around_switches_is_drawn_as_given():
    _, (ax,) = style.new_figure()
    around = np.array([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9]])
    assert timelines.switch_average(ax, around, into=1, names=("a", "b")) is ax
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(lines["b"].get_xdata(), [-1, 0, 1])
    np.testing.assert_array_equal(lines["b"].get_ydata(), around[:, 1])
    assert lines["b"].get_linewidth() > lines["a"].get_linewidth()
    for wrong in (around[:2], around[:, 0]):
        with pytest.raises(InputError, match="around"):
            timelines.switch_average(ax, wrong, into=0)


def test_layout_maps_choose_the_drawing():
    grid = {"kind": "grid", "xy": [[s % 3, s // 3] for s in range(6)], "edges": [], "barriers": [4]}
    figure, (one, two) = style.new_figure(1, 2)
    layouts.layout_map(one, grid, np.arange(6.0), towards=[1, 4, 5, 3, -1, 2])
    assert layouts._directions(np.array([1, 4, 5, 3, -1, 2]), 3).tolist() == [3, 0, 0, 4, -1, 1]
    graph = {"kind": "graph", "xy": [[0, 0], None, [1, 0]], "edges": [[0, 2], [0, 1]], "barriers": []}
    layouts.layout_map(two, graph, [1.0, 2.0, 3.0], towards=[2, 0, -1], confidence=[0.5, 1, 1])
    places = [row["value"] for row in rows(figure, "place") if row["value"]]
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
