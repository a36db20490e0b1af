"""Pictures with a palette."""

from io import BytesIO

import matplotlib as mpl
import numpy as np

from prism_irl.figures.maps import grid_heatmap
from prism_irl.figures.style import new_figure, save
from prism_irl.report.palette import fewer_colours


def test_a_palette_makes_a_picture_lighter_and_nobody_sees_it(tmp_path):
    figure, (ax,) = new_figure()
    grid_heatmap(ax, np.sin(np.arange(400.0)), width=20, height=20)
    save(figure, tmp_path / "map")
    whole = (tmp_path / "map.png").read_bytes()
    light = fewer_colours(whole)
    assert len(light) < 0.6 * len(whole)
    before, after = (mpl.image.imread(BytesIO(png), format="png")[..., :3] for png in (whole, light))
    assert np.abs(before - after).mean() < 0.01
    assert fewer_colours(b"\x89PNG broken") == b"\x89PNG broken"
