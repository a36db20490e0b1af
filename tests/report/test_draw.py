"""Figures of a segmentation: the maps show what the sentences say, and where a reward is earned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.report.draw import write_pictures
from prism_irl.report.explorer import write_explorer
from prism_irl.report.places import layout_of


def test_a_dead_end_that_is_hardly_entered_earns_hardly_anything(tmp_path: Path) -> None:
    """The friction: a reward of 9 after two visits painted a dead end, and drowned what the agent lives on."""
    states = [0, 1, 2, 1] * 24 + [0, 3, 0, 1]
    demos = Demonstrations.from_arrays([states], [[0] * 100], n_states=4)
    place = layout_of("map", [[0, 0], [1, 0], [2, 0], [-1, 0]], [[0, 1], [1, 2], [0, 3]], "A line.")
    rewards = [[0.0, -1.0, 2.0, 9.0]]
    explorer = write_explorer(tmp_path, demos, np.ones((100, 1)), layout=place, rewards=rewards)
    captions = write_pictures(tmp_path, explorer)
    drawn = pd.read_csv(tmp_path / "maps.csv")
    earned = drawn[(drawn["kind"] == "place") & drawn["axes"].str.endswith(": reward")]
    visits = np.bincount(states)
    assert dict(zip(earned["x"].round(6), earned["value"], strict=True)) == pytest.approx(
        {0: 0.0, 1: -1.0 * visits[1], 2: 2.0 * visits[2], -1: 9.0 * visits[3]}
    )
    assert earned["value"].idxmax() == earned.index[earned["x"].round(6) == 2][0]
    assert "where it earns its reward" in captions["maps"]
