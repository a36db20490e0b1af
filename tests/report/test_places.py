"""A grid is drawn as a grid, whatever its states are called; what has no shape gets no map, and never a ring."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from continuous_worlds import walking
from prism_irl.data.continuous import Units
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.figures import maps, style
from prism_irl.report.places import cells_of, find_layout
from prism_irl.worlds.frustration import FrustrationWorld


@pytest.fixture(scope="module")
def demos() -> Demonstrations:
    return FrustrationWorld(horizon=30).simulate(40, seed=2).demonstrations


@pytest.mark.parametrize(
    "name",
    [
        lambda x, y: f"x{x}y{y}",
        lambda x, y: f"({x}, {y})",
        lambda x, y: f"cell_x{x}_y{y}",
        lambda x, y: f"r{4 - y}c{x}",
        lambda x, y: f"row {4 - y} col {x}",
    ],
)
def test_names_of_cells_make_a_grid(demos: Demonstrations, name: Callable[[int, int], str]) -> None:
    found = find_layout(replace(demos, state_names=tuple(name(s % 5, s // 5) for s in range(25))))
    assert found is not None
    assert found["kind"] == "grid"
    xy = np.array(found["xy"])
    np.testing.assert_array_equal(xy - xy.min(axis=0), [(s % 5, s // 5) for s in range(25)])


def test_a_grid_is_found_by_its_moves_whatever_its_states_are_called(demos: Demonstrations) -> None:
    order = np.random.default_rng(0).permutation(25)
    names = tuple(f"place {i}" for i in range(25))
    found = find_layout(replace(demos, states=order[demos.states], state_names=names))
    assert found is not None
    assert found["kind"] == "grid"
    own = np.array([found["xy"][order[s]] or (np.nan, np.nan) for s in range(25)], float)
    true = np.array([(s % 5, s // 5) for s in range(25)], float)
    there = np.isfinite(own).all(axis=1)
    assert there.sum() >= 20
    apart = [np.abs(xy[there][:, None] - xy[there]).sum(axis=-1) for xy in (own, true)]
    np.testing.assert_array_equal(*apart)  # the same grid up to turning and mirroring
    with style.paper_style():
        _, (ax,) = style.new_figure()
        values = np.arange(25.0)
        maps.layout_map(ax, found, values)
    corners = [path.vertices[0] + 0.5 for path in ax.collections[0].get_paths()]
    placed = [point for point in found["xy"] if point is not None]
    np.testing.assert_array_equal(corners, placed)


def test_cues_have_no_map_and_a_track_has() -> None:
    rng = np.random.default_rng(0)
    cues = Demonstrations.from_arrays(rng.integers(6, size=(20, 50)), rng.integers(2, size=(20, 50)))
    assert find_layout(cues) is None
    track = Demonstrations.from_arrays([np.arange(60) % 12], [[0] * 60])
    found = find_layout(track)
    assert found is not None
    assert found["kind"] == "graph"


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
