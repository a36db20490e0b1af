"""Effects of inputs: no curve leaves the frame, whichever is drawn first."""

import numpy as np
import pytest

from prism_irl.figures import intervals, style


@pytest.mark.parametrize("order", [(0.05, 0.4), (0.4, 0.05)])
def test_every_curve_and_its_band_is_inside(order):
    _figure, (ax,) = style.new_figure()
    x = np.linspace(-2, 2, 5)
    for height in order:
        intervals.effect(
            ax, x, np.full(5, height), (np.full(5, 0.9 * height), np.full(5, 1.2 * height)), "one", "black"
        )
    low, high = ax.get_ylim()
    assert low == 0
    assert 1.2 * 0.4 < high < 0.6
