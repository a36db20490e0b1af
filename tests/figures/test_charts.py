"""Curves and bars end where the numbers do."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from prism_irl.errors import InputError
from prism_irl.figures import charts, style
from prism_irl.figures.charts import (
    NOT_A_LIKELIHOOD,
    budget,
    data_among_surrogates,
    dwell_histogram,
    em_curves,
    method_bars,
    occupancy_scatter,
    simulated_bands,
)
from prism_irl.figures.style import PALETTE


def texts(ax):
    return [text.get_text() for text in ax.texts]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


ROWS = [
    {"name": "recurrent", "mean": -1.10, "std": 0.01, "is_likelihood": True},
    {"name": "paper gate", "mean": -0.72, "std": 0.02, "is_likelihood": False, "reference": -0.8},
    {"name": "IAVI", "mean": -1.31, "std": None, "is_likelihood": True},
]


def test_method_bars_end_at_the_mean_and_mark_what_is_no_likelihood(ax):
    assert method_bars(ax, ROWS, ceiling=-1.088) is ax
    assert [bar.get_x() + bar.get_width() for bar in ax.patches] == pytest.approx([-1.10, -0.72, -1.31])
    assert [bool(bar.get_hatch()) for bar in ax.patches] == [False, True, False]
    assert texts(ax).count(NOT_A_LIKELIHOOD) == 1
    assert [label.get_text() for label in ax.get_yticklabels()] == ["recurrent", "paper gate", "IAVI"]
    low, high = ax.get_ylim()
    assert low > high  # the first method is on top
    whiskers = ax.containers[1].lines[2][0].get_segments()[0]
    np.testing.assert_allclose(whiskers[:, 0], [-1.11, -1.09])
    assert "−1.100" in texts(ax)
    diamonds = [line for line in ax.lines if line.get_marker() == "D" and len(line.get_xdata())]
    assert [float(line.get_xdata()[0]) for line in diamonds] == [-0.8]
    ceilings = [line for line in ax.lines if list(line.get_xdata()) == [-1.088, -1.088]]
    assert len(ceilings) == 1
    assert "oracle" in texts(ax)


def test_method_bars_without_ceiling_or_reference_have_neither(ax):
    method_bars(ax, ROWS[:1])
    assert "oracle" not in texts(ax)
    assert ax.get_legend() is None


def history(validation=True):
    rows = []
    for start, offset in enumerate((-0.2, 0.0, -0.1)):
        for iteration in range(5):
            row = {"start": start, "iteration": iteration, "train": offset - 1 / (iteration + 1)}
            rows.append(row | ({"validation": row["train"] - 0.1 * (iteration == 4)} if validation else {}))
    return rows


def test_em_curves_have_a_line_per_start_and_emphasise_the_best(ax):
    assert em_curves(ax, history()[::-1]) is ax  # rows in any order
    lines = {line.get_label(): line for line in ax.lines}
    assert {"train, 2 others", "train, start 1", "validation, start 1", "kept"} <= set(lines)
    assert len(ax.lines) == 3 + 1 + 1
    best = lines["train, start 1"]
    np.testing.assert_allclose(best.get_ydata(), [-1 / (i + 1) for i in range(5)])
    assert best.get_linewidth() > lines["train, 2 others"].get_linewidth()
    assert (lines["kept"].get_xdata()[0], lines["kept"].get_ydata()[0]) == pytest.approx((3, -0.25))


def test_em_curves_keep_the_iteration_that_was_monitored(ax):
    rows = [{**row, "monitored": row["train"] - 1e-3} for row in history()]  # the objective, not validation
    em_curves(ax, rows)
    kept = next(line for line in ax.lines if line.get_label() == "kept")
    top = max(rows, key=lambda row: row["monitored"])
    assert (kept.get_xdata()[0], kept.get_ydata()[0]) == (top["iteration"], top["train"])


def test_em_curves_take_training_where_nothing_was_held_out(ax):
    em_curves(ax, history(validation=False))
    assert not any("validation" in str(line.get_label()) for line in ax.lines)
    kept = next(line for line in ax.lines if line.get_label() == "kept")
    assert kept.get_xdata()[0] == 4
    with pytest.raises(InputError, match="empty"):
        em_curves(ax, [])
    with pytest.raises(InputError, match="without any training"):
        em_curves(ax, [{"start": 0, "iteration": 0, "train": None}])


def test_dwell_histogram_shows_shares_and_means(ax):
    assert dwell_histogram(ax, [[1, 1, 3, 5], [2, 2], []]) is ax
    shares = ax.patches[0].get_data()
    np.testing.assert_allclose(shares.values, [0.5, 0, 0.25, 0, 0.25])
    np.testing.assert_allclose(shares.edges, np.arange(0.5, 6))
    assert legend(ax) == ["intention 0: mean 2.5", "intention 1: mean 2.0", "intention 2: never"]
    dwell_histogram(ax, [[1, 1, 3, 5]], np.full((1, 5), 0.2), ["reach"])
    assert legend(ax)[-2:] == ["reach: mean 2.5", "model"]


def test_dwell_histogram_of_long_segments_loses_none(ax):
    lengths = np.random.default_rng(0).geometric(0.01, 500)
    dwell_histogram(ax, [lengths])
    assert ax.get_xscale() == "log"
    assert ax.patches[0].get_data().values.sum() == pytest.approx(1)


STEPS = [
    {"id": "uniform", "name": "uniform", "predictive_ll": -1.0, "low": -1.0, "high": -1.0, "gain": None},
    {"id": "memory", "name": "+ memory", "predictive_ll": -0.7, "low": -0.8, "high": -0.65, "gain": 0.3},
    {"id": "intentions", "name": "+ intentions", "predictive_ll": -0.6, "low": -0.7, "high": -0.5, "gain": 0.1},
]


def test_every_surrogate_is_a_dot_and_the_data_a_line(ax):
    found = [0.3, -0.1, 0.0, 0.0, 0.001]
    assert data_among_surrogates(ax, 0.2, found, "gain") is ax
    dots, line = ax.lines
    np.testing.assert_array_equal(np.sort(dots.get_xdata()), np.sort(found))
    assert list(line.get_xdata()) == [0.2, 0.2]
    assert ax.get_xlabel() == "gain"
    places = set(zip(dots.get_xdata(), dots.get_ydata(), strict=True))
    assert len(places) == len(found)  # equal ones stand above one another
    heights = dict.fromkeys(dots.get_ydata()[1:4])
    assert sorted(heights) == [0, 1, 2]  # and so do those too close to be told apart
    low, high = ax.get_ylim()
    assert low < 0
    assert high > 2


def test_data_beyond_all_surrogates_has_a_colour_of_its_own(ax):
    data_among_surrogates(ax, 0.4, [0.3, 0.1], "gain")
    data_among_surrogates(ax, 0.3, [0.3, 0.1], "gain")  # one that is level reaches the data
    colors = [to_hex(line.get_color()) for line in ax.lines[1::2]]
    assert colors == [to_hex(PALETTE[3]), to_hex(PALETTE[0])]


def test_one_surrogate_can_be_drawn_and_none_cannot(ax):
    data_among_surrogates(ax, 0.1, [0.1], "gain")


def test_many_equal_surrogates_stay_within_the_axes(ax):
    data_among_surrogates(ax, 1.0, [1.0] * 19, "agreement")
    heights = ax.lines[0].get_ydata()
    assert sorted(heights) == list(range(19))
    assert ax.get_ylim()[1] > 18


def test_the_budget_has_a_bar_an_interval_and_words_per_row(ax):
    assert budget(ax, STEPS) is ax
    ends = [bar.get_x() + bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(ends, [-1.0, -0.7, -0.6])
    assert all(bar.get_width() > 0 for bar in ax.patches)
    centres = [bar.get_y() + bar.get_height() / 2 for bar in ax.patches]
    assert centres == sorted(centres, reverse=True)
    assert [label.get_text() for label in ax.get_yticklabels()] == [row["name"] for row in STEPS]
    (intervals,) = (c.get_segments() for c in ax.collections)
    np.testing.assert_allclose([segment[:, 0] for segment in intervals], [(r["low"], r["high"]) for r in STEPS])
    assert [text.get_text() for text in ax.texts] == ["-1.0000", "-0.7000   (+0.3000)", "-0.6000   (+0.1000)"]
    assert to_hex(ax.patches[2].get_facecolor()) != to_hex(ax.patches[1].get_facecolor())
    assert ax.get_xlim()[1] > -0.5  # room for words, beyond the longest interval
    wide = [row | {"low": row["predictive_ll"] - 0.5} for row in STEPS]
    assert budget(ax, wide).get_xlim()[0] < -1.5  # an interval is seen to its end


def test_the_line_of_an_animal_ends_in_its_two_dots():
    _figure, (ax,) = style.new_figure()
    first, second = {"a": 0.2, "b": 0.3, "c": 0.1}, {"a": 0.5, "b": 0.1}
    charts.unit_dots(ax, (first, second), (0.2, 0.3), ("saline", "drug"))
    dots = {(x, y) for line in ax.lines if line.get_marker() == "o" for x, y in zip(*line.get_data(), strict=True)}
    joins = [np.transpose(line.get_data()) for line in ax.lines if line.get_marker() != "o"]
    assert len(dots) == 5
    assert len(joins) == 2
    assert all(tuple(end) in dots for join in joins for end in join)


def test_no_row_of_a_forest_lies_on_the_frame():
    _figure, (ax,) = style.new_figure()
    rows = [{"difference": x, "interval": (x - 1, x + 1), "p_adjusted": 0.5} for x in (0.0, 1.0)]
    charts.difference_forest(ax, rows, ["one", "two"])
    bottom, top = ax.get_ylim()
    assert bottom > 1.3
    assert top < -0.3


@pytest.mark.parametrize("order", [(0.05, 0.4), (0.4, 0.05)])
def test_every_curve_and_its_band_is_inside(order):
    _figure, (ax,) = style.new_figure()
    x = np.linspace(-2, 2, 5)
    for height in order:
        charts.effect(ax, x, np.full(5, height), (np.full(5, 0.9 * height), np.full(5, 1.2 * height)), "one", "black")
    low, high = ax.get_ylim()
    assert low == 0
    assert 1.2 * 0.4 < high < 0.6


CURVE = {"x": [1, 2, 4], "data": [1.0, 0.5, 0.1], "low": [0.9, 0.3, 0.0], "high": [1.0, 0.4, 0.2]}


def test_a_line_for_the_data_and_a_band_for_the_simulations(ax):
    assert simulated_bands(ax, [CURVE, CURVE], ["one", "two"], ["#0072B2", "#E69F00"]) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), CURVE["data"])
    corners = ax.collections[0].get_paths()[0].vertices
    assert {tuple(point) for point in zip(CURVE["x"], CURVE["low"], strict=True)} <= {tuple(v) for v in corners}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "two"]
    assert ax.get_xscale() == "log"


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
