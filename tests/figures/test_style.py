"""Colours that people can tell apart, and files that are the same each time."""

import xml.etree.ElementTree as ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from prism_irl.errors import InputError
from prism_irl.figures.curves import dwell_histogram, em_curves, method_bars
from prism_irl.figures.maps import grid_heatmap
from prism_irl.figures.style import ink_on, intention_color, new_figure, paper_style, save, to_svg
from prism_irl.figures.timelines import posterior_timeline, segmentation_raster


def test_neighbouring_intentions_differ_in_lightness_and_from_white():
    def lightness(k):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(intention_color(k))]
        return 116 * float(np.dot([0.2126, 0.7152, 0.0722], linear)) ** (1 / 3) - 16

    assert len({intention_color(k) for k in range(8)}) == 8
    assert intention_color(8) == intention_color(0)
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
        "map": lambda: grid_heatmap(ax, np.arange(25.0), width=5, height=5, greedy=np.arange(25) % 5),
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
