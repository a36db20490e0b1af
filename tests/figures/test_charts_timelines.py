"""Timelines draw the posterior and the segments that they are given."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from prism_irl.errors import InputError
from prism_irl.figures.charts import posterior_timeline, segmentation_raster, switch_average
from prism_irl.figures.style import intention_color


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_posterior_bands_fill_the_unit_interval(ax):
    p = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    assert posterior_timeline(ax, p, names=("water", "home", "explore")) is ax
    assert len(ax.collections) == 3
    assert [to_hex(band.get_facecolor()[0]).upper() for band in ax.collections] == [
        intention_color(k) for k in range(3)
    ]
    middle = ax.collections[1].get_paths()[0].vertices
    first = middle[(middle[:, 0] > -0.51) & (middle[:, 0] < 0.49), 1]
    assert (first.min(), first.max()) == pytest.approx((0.2, 0.5))
    assert ax.get_xlim() == (-0.5, 1.5)
    assert legend(ax) == ["water", "home", "explore"]


def test_true_labels_are_a_strip_of_runs_below(ax):
    posterior_timeline(ax, np.full((6, 2), 0.5), true=[0, 0, 1, 1, 1, 0])
    boxes = [bar.get_paths()[0].get_extents() for bar in ax.collections[2:]]
    assert [(box.x0, box.x1) for box in boxes] == [(-0.5, 1.5), (1.5, 4.5), (4.5, 5.5)]
    assert all(box.y1 < 0 for box in boxes)
    colours = [to_hex(bar.get_facecolor()[0]).upper() for bar in ax.collections[2:]]
    assert colours == [intention_color(k) for k in (0, 1, 0)]
    assert "truth" in [label.get_text() for label in ax.get_yticklabels()]


def test_posterior_says_what_is_wrong(ax):
    with pytest.raises(InputError, match="shape"):
        posterior_timeline(ax, [0.1, 0.9])
    with pytest.raises(InputError, match="2 steps"):
        posterior_timeline(ax, np.full((2, 2), 0.5), true=[0])
    with pytest.raises(InputError, match="1 names"):
        posterior_timeline(ax, np.full((2, 2), 0.5), names=["goal"])


def test_raster_has_a_row_per_trajectory_and_masks_the_ragged_end(ax):
    assert segmentation_raster(ax, [0, 1, 1, 2, 0], [0, 3, 5]) is ax
    picture = ax.images[0].get_array()
    np.testing.assert_array_equal(picture.filled(-1), [[0, 1, 1], [2, 0, -1]])
    low, high = ax.get_ylim()
    assert low > high  # the first trajectory is on top
    drawn = ax.images[0].to_rgba(picture)[0, 1]
    assert to_hex(drawn).upper() == intention_color(1)
    assert legend(ax) == ["intention 0", "intention 1", "intention 2"]


def test_raster_calls_intentions_by_their_names(ax):
    segmentation_raster(ax, [0, 1, 1], [0, 3], names=["_reach", "a name that is longer than a legend", "never"])
    assert legend(ax) == [" _reach", "a name that is longer than…", "never"]
    with pytest.raises(InputError, match="1 names were given, and there is an intention 1"):
        segmentation_raster(ax, [0, 1], [0, 2], names=["one"])


def test_raster_says_that_it_left_trajectories_out(ax):
    segmentation_raster(ax, np.zeros(200, int), np.arange(0, 201, 2), max_trajectories=7)
    assert ax.images[0].get_array().shape == (7, 2)
    assert ax.get_ylabel() == "trajectory (first 7 of 100)"
    with pytest.raises(InputError, match="belong together"):
        segmentation_raster(ax, [0, 1], [0, 3])


def test_the_average_around_switches_is_drawn_as_given(ax):
    around = np.array([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9]])
    assert switch_average(ax, around, into=1, names=("a", "b")) is ax
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(lines["b"].get_xdata(), [-1, 0, 1])
    np.testing.assert_array_equal(lines["b"].get_ydata(), around[:, 1])
    assert lines["b"].get_linewidth() > lines["a"].get_linewidth()
