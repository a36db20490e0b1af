"""The data stands among its surrogates where its number says, and the budget shows every row."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from prism_irl.errors import InputError
from prism_irl.figures.evidence import budget, data_among_surrogates, power
from prism_irl.figures.style import PALETTE

ROWS = [
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
    with pytest.raises(InputError, match="no surrogates to draw"):
        data_among_surrogates(ax, 0.1, [], "gain")


def test_many_equal_surrogates_stay_within_the_axes(ax):
    data_among_surrogates(ax, 1.0, [1.0] * 19, "agreement")
    heights = ax.lines[0].get_ydata()
    assert sorted(heights) == list(range(19))
    assert ax.get_ylim()[1] > 18


def test_the_budget_has_a_bar_an_interval_and_words_per_row(ax):
    assert budget(ax, ROWS) is ax
    ends = [bar.get_x() + bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(ends, [-1.0, -0.7, -0.6])
    assert all(bar.get_width() > 0 for bar in ax.patches)
    centres = [bar.get_y() + bar.get_height() / 2 for bar in ax.patches]
    assert centres == sorted(centres, reverse=True)
    assert [label.get_text() for label in ax.get_yticklabels()] == [row["name"] for row in ROWS]
    (intervals,) = (c.get_segments() for c in ax.collections)
    np.testing.assert_allclose([segment[:, 0] for segment in intervals], [(r["low"], r["high"]) for r in ROWS])
    assert [text.get_text() for text in ax.texts] == ["-1.0000", "-0.7000   (+0.3000)", "-0.6000   (+0.1000)"]
    assert to_hex(ax.patches[2].get_facecolor()) != to_hex(ax.patches[1].get_facecolor())
    assert ax.get_xlim()[1] > -0.5  # room for words, beyond the longest interval
    wide = [row | {"low": row["predictive_ll"] - 0.5} for row in ROWS]
    assert budget(ax, wide).get_xlim()[0] < -1.5  # an interval is seen to its end
    with pytest.raises(InputError, match="no rows"):
        budget(ax, [])


def test_power_has_a_line_per_world_and_a_band_for_what_is_wrong(ax):
    found = {
        f"{world} {n}": {"world": world, "n": n, "share": share, "low": share - 0.1, "high": min(share + 0.1, 1.0)}
        for world, shares in {"errands": (0.9, 0.5), "mice": (1.0, 0.7)}.items()
        for n, share in zip((200, 50), shares, strict=True)
    }
    power(ax, found, {"share": 0.04, "low": 0.01, "high": 0.12}, level=0.05)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["no intentions", "level 0.05", "errands", "mice"]
    ax.figure.draw_without_rendering()
    assert ax.get_legend().get_window_extent().x0 >= ax.get_window_extent().x1  # beside the axes, and over no bar
    lines = [container.lines[0] for container in ax.containers]
    for line, shares in zip(lines, ([0.5, 0.9], [0.7, 1.0]), strict=True):
        np.testing.assert_allclose(line.get_ydata(), shares)  # from few trajectories to many
        np.testing.assert_allclose(line.get_xdata(), [50, 200], rtol=0.05)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["50", "200"]
    assert [list(line.get_ydata()) for line in ax.lines[:2]] == [[0.04, 0.04], [0.05, 0.05]]
    band = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    np.testing.assert_allclose([band.y0, band.y1], [0.01, 0.12])
