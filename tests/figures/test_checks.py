"""Bands and lines end where the numbers do."""

import numpy as np
import pytest

from prism_irl.errors import InputError
from prism_irl.figures.checks import occupancy_scatter, simulated_bands

CURVE = {"x": [1, 2, 4], "data": [1.0, 0.5, 0.1], "low": [0.9, 0.3, 0.0], "high": [1.0, 0.4, 0.2]}


def test_a_line_for_the_data_and_a_band_for_the_simulations(ax):
    assert simulated_bands(ax, [CURVE, CURVE], ["one", "two"], ["#0072B2", "#E69F00"]) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), CURVE["data"])
    corners = ax.collections[0].get_paths()[0].vertices
    assert {tuple(point) for point in zip(CURVE["x"], CURVE["low"], strict=True)} <= {tuple(v) for v in corners}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "two"]
    assert ax.get_xscale() == "log"
    with pytest.raises(InputError, match="no curve"):
        simulated_bands(ax, [], [], [])


def test_around_a_switch_the_axis_is_linear_and_the_switch_marked(ax):
    simulated_bands(ax, [{**CURVE, "x": [-1, 0, 1]}], ["one"], ["#0072B2"], around=True)
    assert ax.get_xscale() == "linear"
    assert [list(line.get_xdata()) for line in ax.lines][1] == [-0.5, -0.5]


def test_states_that_both_visit_are_points(ax):
    occupancy_scatter(ax, [0.5, 0.3, 0.2, 0.0], [0.4, 0.0, 0.5, 0.1])
    np.testing.assert_array_equal(ax.lines[1].get_xdata(), [0.4, 0.5])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [0.5, 0.2])
    with pytest.raises(InputError, match="nothing to draw"):
        occupancy_scatter(ax, [1.0, 0.0], [0.0, 1.0])


@pytest.mark.parametrize(
    ("most", "ticks"),
    [(2, ["1", "2"]), (16, ["1", "2", "5", "10"]), (400, ["1", "3", "10", "30", "100", "300"]), (10**5, ["1", "100"])],
)
def test_a_logarithmic_axis_has_a_few_plain_numbers(ax, most, ticks):
    simulated_bands(ax, [{**CURVE, "x": [1, 2, most]}], ["one"], ["#0072B2"])
    low, high = ax.get_xlim()
    labels = ax.xaxis.get_major_formatter().format_ticks(ax.get_xticks())
    shown = [label for at, label in zip(ax.get_xticks(), labels, strict=True) if low <= at <= high]
    assert set(ticks) <= set(shown)
    assert len(shown) <= 7
    assert not len(ax.xaxis.get_minorticklocs())
