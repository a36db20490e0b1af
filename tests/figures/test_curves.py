"""Curves and bars end where the numbers do."""

import numpy as np
import pytest

from prism_irl.errors import InputError
from prism_irl.figures.curves import NOT_A_LIKELIHOOD, dwell_histogram, em_curves, method_bars


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
    with pytest.raises(InputError, match="no method"):
        method_bars(ax, [])


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
    with pytest.raises(InputError, match="nothing to draw"):
        dwell_histogram(ax, [[], []])


def test_dwell_histogram_of_long_segments_loses_none(ax):
    lengths = np.random.default_rng(0).geometric(0.01, 500)
    dwell_histogram(ax, [lengths])
    assert ax.get_xscale() == "log"
    assert ax.patches[0].get_data().values.sum() == pytest.approx(1)
