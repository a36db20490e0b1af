"""Every figure gives its numbers back."""

import csv
from io import StringIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_scales_and_walls_are_no_data():
    figure, (ax,) = style.new_figure()
    layout = {"kind": "map", "xy": [[0, 0], [1, 0]], "edges": [[0, 1]], "barriers": [], "walls": [[0, 1, 1, 1]]}
    layouts.layout_map(ax, layout, [1.0, 2.0])
    maps.add_colorbar(ax, [ax], label="value")
    lines = data.to_csv(figure).splitlines()
    assert [line.split(",")[2] for line in lines] == ["kind", "place", "place"]
