"""An empty Axes to draw on."""

import pytest
from matplotlib.axes import Axes

from prism_irl.figures.style import new_figure


@pytest.fixture
def ax() -> Axes:
    return new_figure()[1][0]
