"""What is fitted where nobody names a pair: which states are places, and goals that are found by the bare estimator."""

from __future__ import annotations

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


@pytest.mark.parametrize(("family", "seed"), [("arrival", 66), ("last-visited", 5), ("stays", 7), ("needs", 67)])
def test_the_bare_estimator_finds_how_many_goals_there_are(family: str, seed: int) -> None:
    world = draw(seed, family)
    model = Intentions(validation_fraction=0.0).fit(world.train)
    assert model.n_intentions == world.n_intentions
    assert model.default_ is not None
    assert model.default_["pair"] == model.pair == "arrival+places"
    found = {tuple(np.unique(world.place[goal])) for goal in map(list, model.goals_)}
    assert found == {tuple(goal) for goal in world.goals}
