"""Two conditions side by side: lines join the two dots of an animal, and rows of a forest keep off the frame."""

import numpy as np

from prism_irl.figures import contrast, style


def test_the_line_of_an_animal_ends_in_its_two_dots():
    _figure, (ax,) = style.new_figure()
    first, second = {"a": 0.2, "b": 0.3, "c": 0.1}, {"a": 0.5, "b": 0.1}
    contrast.unit_dots(ax, first, second, (0.2, 0.3), ("saline", "drug"))
    dots = {(x, y) for line in ax.lines if line.get_marker() == "o" for x, y in zip(*line.get_data(), strict=True)}
    joins = [np.transpose(line.get_data()) for line in ax.lines if line.get_marker() != "o"]
    assert len(dots) == 5
    assert len(joins) == 2
    assert all(tuple(end) in dots for join in joins for end in join)


def test_no_row_of_a_forest_lies_on_the_frame():
    _figure, (ax,) = style.new_figure()
    rows = [{"difference": x, "interval": (x - 1, x + 1), "p_adjusted": 0.5} for x in (0.0, 1.0)]
    contrast.difference_forest(ax, rows, ["one", "two"])
    bottom, top = ax.get_ylim()
    assert bottom > 1.3
    assert top < -0.3
