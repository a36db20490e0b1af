"""Colours that people can tell apart, and files that are the same each time."""

import csv
import xml.etree.ElementTree as ElementTree
from io import StringIO

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from prism_irl.errors import InputError
from prism_irl.figures import charts, maps, style
from prism_irl.figures.charts import dwell_histogram, em_curves, method_bars, posterior_timeline, segmentation_raster
from prism_irl.figures.maps import layout_map
from prism_irl.figures.style import ink_on, intention_color, new_figure, paper_style, save, to_svg
from prism_irl.report.places import grid


def test_neighbouring_intentions_differ_in_lightness_and_from_white():
    def lightness(k):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(intention_color(k))]
        return 116 * float(np.dot([0.2126, 0.7152, 0.0722], linear)) ** (1 / 3) - 16

    assert len({intention_color(k) for k in range(12)}) == 12
    assert intention_color(12) == intention_color(0)
    assert all(abs(lightness(j) - lightness(k)) > 9 for j in range(3) for k in range(j))
    assert all(lightness(k) < 75 for k in range(6))
    with pytest.raises(InputError, match="-1"):
        intention_color(-1)


def test_style_leaves_the_global_settings_alone():
    before = dict(mpl.rcParams)
    with paper_style():
        assert mpl.rcParams["svg.fonttype"] == "none"
    figure, axes = new_figure(2, 3, width=6.8, height=4)
    assert len(axes) == 6
    assert tuple(figure.get_size_inches()) == (6.8, 4)
    assert dict(mpl.rcParams) == before


def test_save_writes_all_files_with_the_same_bytes_each_time(tmp_path):
    for run in ("a", "b"):
        figure, (ax,) = new_figure()
        posterior_timeline(ax, [[0.2, 0.8], [0.5, 0.5]], true=[0, 1])
        save(figure, tmp_path / run / "history-0.5")
    assert {path.name for path in (tmp_path / "a").iterdir()} == {
        "history-0.5.svg",
        "history-0.5.png",
        "history-0.5.csv",
    }
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    svg = (tmp_path / "a" / "history-0.5.svg").read_text()
    assert ">posterior</text>" in svg  # text stays text
    assert "dc:date" not in svg


@pytest.mark.parametrize("name", ["map", "posterior", "raster", "bars", "em", "dwell"])
def test_every_figure_becomes_well_formed_svg(ax, name):
    rows = [{"name": name, "mean": -1.1, "std": 0.01, "is_likelihood": name == "ours"} for name in ("ours", "paper")]
    history = [{"start": 0, "iteration": i, "train": -1 / (i + 1)} for i in range(3)]
    draw = {
        "map": lambda: layout_map(ax, grid(5, 5), np.arange(25.0), towards=np.arange(25) % 5),
        "posterior": lambda: posterior_timeline(ax, np.full((4, 2), 0.5), true=[0, 1, 1, 0]),
        "raster": lambda: segmentation_raster(ax, [0, 1, 1], [0, 1, 3]),
        "bars": lambda: method_bars(ax, rows, ceiling=-1.0),
        "em": lambda: em_curves(ax, history),
        "dwell": lambda: dwell_histogram(ax, [[1, 2, 90]]),
    }
    with paper_style():
        draw[name]()
    root = ElementTree.fromstring(to_svg(ax.figure))
    assert root.tag.endswith("svg")


def test_ink_is_dark_where_the_colour_is_bright():
    assert ink_on([0.0, 1.0]).tolist() == [False, True]
    assert ink_on([0.0, 0.5, 1.0], "PuOr_r").tolist() == [False, True, False]


finite = st.floats(-1e6, 1e6, allow_nan=False)


def rows(figure, kind):
    return [row for row in csv.DictReader(StringIO(style.to_csv(figure))) if row["kind"] == kind]


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=8))
def test_points_of_a_line_come_back(points):
    figure, (ax,) = style.new_figure()
    ax.plot(*zip(*points, strict=True), label="mine")
    found = [(float(row["x"]), float(row["y"])) for row in rows(figure, "line")]
    np.testing.assert_allclose(found, points, rtol=1e-5, atol=1e-9)
    assert {row["series"] for row in rows(figure, "line")} == {"mine"}


def test_bars_are_called_what_they_are_called_on_the_axis():
    figure, (ax,) = style.new_figure()
    charts.method_bars(ax, [{"name": "ours, new", "mean": -1.1, "std": None, "is_likelihood": True}])
    (bar,) = rows(figure, "bar")
    assert bar["series"] == "ours, new"
    assert float(bar["x"]) == pytest.approx(-1.1)


def test_histograms_rasters_and_maps_have_their_values():
    figure, (one, two, three) = style.new_figure(1, 3)
    charts.dwell_histogram(one, [[1, 1, 3], [2]])
    charts.segmentation_raster(two, [0, 1, 1], [0, 1, 3])
    layout_map(three, grid(3, 2), [1.0, np.nan, 3.0, 4.0, 5.0, 6.0])
    steps = [row for row in rows(figure, "step") if row["series"].startswith("intention 0")]
    assert [float(row["y"]) for row in steps] == pytest.approx([2 / 3, 0, 1 / 3], abs=1e-5)
    raster = {(row["x"], row["y"]): row["value"] for row in rows(figure, "cell") if row["axes"].startswith("traj")}
    assert raster == {("0", "0"): "0", ("0", "1"): "1", ("1", "1"): "1"}
    assert "4" in {row["value"] for row in rows(figure, "place")}


def test_a_huge_picture_stops_at_the_limit(monkeypatch):
    monkeypatch.setattr(style, "MAX_ROWS", 10)
    figure, (ax,) = style.new_figure()
    ax.plot(np.arange(100), np.arange(100))
    assert len(rows(figure, "line")) == 10


def test_scales_and_walls_are_no_data():
    figure, (ax,) = style.new_figure()
    layout = {"kind": "map", "xy": [[0, 0], [1, 0]], "edges": [[0, 1]], "barriers": [], "walls": [[0, 1, 1, 1]]}
    maps.layout_map(ax, layout, [1.0, 2.0])
    maps.add_colorbar(ax, [ax], label="value")
    lines = style.to_csv(figure).splitlines()
    assert [line.split(",")[2] for line in lines] == ["kind", "place", "place"]
