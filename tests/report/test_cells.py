"""Cells of continuous data on a map."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from continuous_worlds import walking
from prism_irl.data.units import Units
from prism_irl.report.cells import cells_of


def test_two_observations_are_the_axes():
    demos = walking(n_trajectories=3, length=30)
    units = Units.fit(demos, n_cells=9)
    shown, layout = cells_of(demos, units)
    np.testing.assert_allclose(layout["xy"], units.places(), atol=1e-3)
    assert "x to the right, y upwards" in layout["note"]
    assert layout["edges"]
    assert shown.state_names[0].startswith("cell 0 (x ")
    vector = replace(demos, observation_names=("observation.state[0]", "observation.state[1]"))
    name = cells_of(vector, units)[0].state_names[0]
    assert re.fullmatch(r"cell 0 \(state -?[0-9.]+, -?[0-9.]+\)", name)  # the name of a vector stands once
    np.testing.assert_array_equal(shown.labels, demos.labels)
    still = replace(demos, observations=np.c_[demos.observations, np.full(demos.n_steps, 7.0, np.float32)])
    names = cells_of(replace(still, observation_names=("x", "y", "lamp")), Units.fit(still, n_cells=9))[0].state_names
    assert all(name.endswith("lamp 7)") for name in names)  # and not 7.000000


def test_many_observations_are_shown_by_what_most_steps_do():
    demos = walking(n_trajectories=3, length=30)
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, (demos.n_steps, 2)).astype(np.float32)
    noise[0] = 1e3  # one step far out
    wide = replace(demos, observations=np.c_[demos.observations, noise], observation_names=("x", "y", "u", "v"))
    _, layout = cells_of(wide, Units.fit(wide, n_cells=12))
    xy = np.array(layout["xy"])
    assert xy.shape == (12, 2)
    assert 0 < len(layout["edges"]) <= 12  # from every cell the move that is made most often
    assert np.ptp(xy, axis=0).max() < 10.0  # in spreads: the far cell is drawn at the margin
