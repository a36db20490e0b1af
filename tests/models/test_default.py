"""What is fitted where nobody names a pair: which states are places, and goals that are found by the bare estimator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models.default import are_places, default_pair
from prism_irl.models.intentions import Intentions
from prism_irl.models.phases import Phases
from worlds.scripted import episodes
from zoo.worlds import draw


@pytest.mark.parametrize(("family", "places"), [("arrival", True), ("habit-states", True), ("sticky-choices", False)])
def test_states_that_actions_connect_are_places(family: str, places: bool) -> None:
    assert are_places(draw(4, family).train) == places


def test_demonstrations_of_an_arm_have_phases_unless_something_else_was_asked_for() -> None:
    found = list(episodes("pick-place", 8, seed=3))
    demos = Demonstrations.continuous([one.states for one in found], [one.actions for one in found])
    model = Intentions(6)
    assert model.fit(demos) is model
    assert isinstance(model, Phases)
    np.testing.assert_array_equal(model.predict(demos), Phases(n_intentions=6).fit(demos).predict(demos))
    assert Intentions(2, switching="ordered", max_iterations=1, n_starts=1).fit(demos).pair == "ordered+features"
    assert Intentions(2, patience=1, max_iterations=1, n_starts=1).fit(demos).pair == "markov+features"


def test_trials_are_no_places() -> None:
    rng = np.random.default_rng(0)
    demos = Demonstrations.from_arrays(rng.integers(8, size=(20, 50)), rng.integers(2, size=(20, 50)))
    assert default_pair(demos)[:2] == ("markov", "tabular")


def test_covariates_are_read_by_the_default() -> None:
    demos = draw(4, "arrival").train
    assert default_pair(replace(demos, observations=np.zeros((demos.n_steps, 1))))[:2] == ("recurrent", "places")


def moods(n: int) -> Demonstrations:
    """Choices between two options by a cue: sometimes by the cue, sometimes always the one or the other."""
    rng = np.random.default_rng(0)
    policy = np.array([[0.05, 0.2, 0.8, 0.95], [0.9] * 4, [0.1] * 4])
    cues, choices, mood = (np.zeros((n, 200), int) for _ in range(3))
    for i in range(n):
        z = rng.integers(3)
        for t in range(200):
            z = z if rng.random() < 0.97 else rng.integers(3)
            cues[i, t], mood[i, t] = rng.integers(4), z
            choices[i, t] = rng.random() < policy[z, cues[i, t]]
    return Demonstrations.from_arrays(cues, choices, labels=mood, n_states=4, n_actions=2)


def test_as_many_policies_as_left_out_trials_ask_for() -> None:
    demos = moods(20)
    model = Intentions().fit(demos)
    assert model.n_intentions == 3
    assert "ask for 3" in model.default_["why"]
    assert Intentions(2).fit(demos).n_intentions == 2


def test_choices_that_repeat_earlier_ones_are_one_intention() -> None:
    model = Intentions().fit(draw(5, "sticky-choices").train)
    assert model.n_intentions == 1
    assert "habit with a memory" in model.default_["why"]


@pytest.mark.parametrize(("family", "seed"), [("arrival", 66), ("last-visited", 5), ("stays", 7), ("needs", 67)])
def test_the_bare_estimator_finds_how_many_goals_there_are(family: str, seed: int) -> None:
    world = draw(seed, family)
    model = Intentions(validation_fraction=0.0).fit(world.train)
    assert model.n_intentions == world.n_intentions
    assert model.default_ is not None
    assert model.default_["pair"] == model.pair == "arrival+places"
    found = {tuple(np.unique(world.place[goal])) for goal in map(list, model.goals_)}
    assert found == {tuple(goal) for goal in world.goals}
