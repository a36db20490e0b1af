"""Samples are tables as people have them, and what the agents are after can be seen in what they do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from prism_irl.data.read import read_data
from prism_irl.errors import InputError
from prism_irl.worlds import samples

COLUMNS = {
    "mouse": {"trajectory": "animal,bout", "state": "cell", "action": "move", "group": "animal"},
    "choices": {"trajectory": "animal,session", "state": "stimulus", "action": "choice", "group": "animal"},
    "two-goals": {"trajectory": "walk", "observe": "x,y", "act": "vx,vy"},
    "arm": {"trajectory": "demo", "observe": "x,y,z,grip", "act": "vx,vy,vz,vgrip"},
}


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_a_sample_is_read_without_a_note(name: str, tmp_path) -> None:
    frame = pd.DataFrame(samples.sample(name, truth=True))
    frame.to_csv(tmp_path / "table.csv", index=False)
    demos = read_data(tmp_path / "table.csv", **COLUMNS[name]).demonstrations
    assert demos.n_steps == len(frame) > 2000
    assert frame["intention"].nunique() >= 2
    assert frame["intention"].value_counts(normalize=True).min() > 0.05
    plain = samples.sample(name)
    assert plain == samples.sample(name, seed=0) != samples.sample(name, seed=1)
    assert "intention" not in plain[0]


def test_who_wants_water_gets_there_more_often_than_chance() -> None:
    frame = pd.DataFrame(samples.sample("mouse", truth=True))
    reached = frame.groupby("intention")["cell"].apply(lambda cells: (cells == "x5y4").mean())
    assert reached["water"] > 2 / 36
    assert frame["water"].sum() > 100


def test_trials_depend_on_the_stimulus_while_the_mouse_is_engaged() -> None:
    frame = pd.DataFrame(samples.sample("choices", truth=True))
    right = (frame["choice"] == "right") == frame["stimulus"].str.startswith("right")
    share = right.groupby(frame["intention"]).mean()
    assert share["engaged"] > 0.85 > 0.7 > share["left"]
    assert np.isclose(frame.loc[frame["intention"] == "left", "choice"].eq("left").mean(), 0.9, atol=0.06)


def test_other_names_are_refused() -> None:
    with pytest.raises(InputError, match="no sample 'rat'; choose mouse, two-goals, choices, arm"):
        samples.sample("rat")
