"""Finite answers where data say next to nothing, or say it in enormous numbers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from continuous_worlds import walks
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.read import read_data
from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.rewards.options import Landmarks, Windows
from prism_irl.switching import SWITCHING

SMALL: dict[str, Any] = {"n_starts": 1, "max_iterations": 2, "device": "cpu", "hidden": 4, "warm_up": 2}
DISCRETE = ("tabular", "iql", "soft-1", "soft-2")
TINY = {
    "one state": ([[0] * 6, [0] * 4], [[0, 1, 0, 1, 1, 0], [1, 0, 0, 1]]),
    "one trajectory of as many steps as intentions": ([[0, 1]], [[1, 0]]),
    "single steps": ([[0], [1], [0]], [[1], [0], [0]]),
}
SCALES = {"constant commands": (1.0, 0.0), "enormous": (1e30, 1e30), "tiny": (1e-30, 1e-30), "far away": (1.0, 1.0)}


LANDMARKS = Landmarks(landmarks=6)


def in_a_plane(table: pd.DataFrame) -> Demonstrations:
    return read_data(table, observe="x,y", act="vx,vy").demonstrations


def assert_finite(model: Intentions, demos: Demonstrations) -> None:
    """Beliefs are distributions, and a likelihood is a number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(demos)
    beliefs = model.predict_proba(demos)
    np.testing.assert_allclose(beliefs.sum(axis=1), 1.0, atol=1e-6)
    assert np.isfinite(model.score(demos))


@pytest.mark.parametrize("data", TINY)
@pytest.mark.parametrize(
    "pair", [*((name, "tabular") for name in SWITCHING if name != "arrival"), *(("markov", name) for name in DISCRETE)]
)
def test_data_that_say_next_to_nothing(pair: tuple[str, str], data: str) -> None:
    switching, rewards = pair
    demos = Demonstrations.from_arrays(*TINY[data], n_states=3, n_actions=2)
    K = 1 if switching == "single" else 2
    assert_finite(Intentions(K, switching=switching, rewards=rewards, **SMALL), demos)


def test_a_million_steps_of_one_trajectory() -> None:
    generator = np.random.default_rng(0)
    states, actions = generator.integers(5, size=10**6), generator.integers(3, size=10**6)
    assert_finite(Intentions(2, switching="markov", **SMALL), Demonstrations.from_arrays([states], [actions]))


def test_more_intentions_than_steps_are_refused() -> None:
    demos = Demonstrations.from_arrays([[0, 1]], [[1, 0]], n_states=3, n_actions=2)
    with pytest.raises(InputError, match="ask for fewer intentions"):
        Intentions(5, **SMALL).fit(demos)


def test_landmarks_of_intentions_that_stay_in_one_place_are_refused() -> None:
    table = walks(n_trajectories=4, length=30).assign(x=1.0, y=1.0)
    with pytest.raises(InputError, match="at 1 different places, and 2 intentions"):
        Intentions(2, switching="markov", rewards=LANDMARKS, **SMALL).fit(in_a_plane(table))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("rewards", [LANDMARKS, Windows(window=3)], ids=["landmarks", "windows"])
@pytest.mark.parametrize("switching", ["markov", "state", "recurrent"])
def test_columns_that_are_constant_or_enormous(switching: str, rewards: Any, scale: str) -> None:
    table = walks(n_trajectories=4, length=30)
    observed, commanded = SCALES[scale]
    table[["x", "y"]] *= observed
    table[["vx", "vy"]] *= commanded
    if scale == "far away":
        table[["x", "y"]] += 1e5
    assert_finite(Intentions(2, switching=switching, rewards=rewards, **SMALL), in_a_plane(table))
