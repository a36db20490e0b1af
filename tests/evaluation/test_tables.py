"""Tables with names say what the arrays say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from continuous_worlds import walking
from prism_irl import Demonstrations, Intentions
from prism_irl.evaluation.tables import (
    RARE,
    cell_table,
    goal_table,
    intention_table,
    move_table,
    seen_in_words,
    trips,
)
from prism_irl.models import registry
from prism_irl.rewards.options import Landmarks


@pytest.fixture
def demos() -> Demonstrations:
    return Demonstrations(
        states=np.array([0, 1, 2, 0, 1]),
        actions=np.array([0, 1, 0, 0, 0]),
        offsets=np.array([0, 3, 5]),
        n_states=3,
        n_actions=2,
        state_names=("bed", "door", "food"),
        action_names=("go", "stay"),
    )


def test_moves_are_counted_within_trajectories(demos: Demonstrations) -> None:
    table = move_table(demos).fillna({"next_state": "-"})
    seen = {(row.state, row.action): (row.next_state, row.seen) for row in table.itertuples()}
    assert seen["bed", "go"] == ("door", 2)
    assert seen["door", "stay"] == ("food", 1)
    assert seen["food", "go"] == ("-", 0)  # the end of a trajectory has no successor
    assert len(table) == 6
    assert "4 of 6 pairs" in seen_in_words(demos)


def test_policies_sum_to_one_and_advantages_are_their_logarithms(demos: Demonstrations) -> None:
    model = registry.method("hiql", 2, n_starts=1, max_iterations=2, device="cpu").model.fit(demos)
    table = intention_table(model, demos, model.predict_proba(demos))
    assert table is not None
    assert table.groupby(["intention", "state"])["policy"].sum().to_numpy() == pytest.approx(1)
    np.testing.assert_allclose(np.exp(table["advantage"]), table["policy"])
    assert table["steps"].sum() == pytest.approx(5)
    one = table[(table["intention"] == 1) & (table["state"] == "door") & (table["action"] == "stay")]
    assert one["policy"].item() == pytest.approx(model.policies_[1, 1, 1])


def test_no_policy_per_intention_no_table(demos: Demonstrations) -> None:
    class Clone:
        n_intentions = 1

    assert intention_table(Clone(), demos, np.ones((5, 1))) is None


def test_cells_of_a_continuous_world_and_their_goals():
    demos = walking()
    few = {"n_starts": 1, "max_iterations": 2, "device": "cpu"}
    model = Intentions(3, switching="markov", rewards=Landmarks(landmarks=12), **few).fit(demos)
    p = model.predict_proba(demos)
    table = cell_table(model, demos, p)
    S = len(model.units_.cells)
    assert list(table.columns) == ["intention", "cell", "x", "y", "steps", "reward", "value"]
    assert len(table) == 3 * S
    np.testing.assert_allclose(table.groupby("intention")["steps"].sum(), p.sum(axis=0))
    np.testing.assert_array_equal(table["reward"].isna(), table["steps"] < RARE)
    k = int(p.sum(axis=0).argmax())
    own = table[(table["intention"] == k) & table["reward"].notna()]
    reward = model.reward_at(own[["x", "y"]])[:, k]
    np.testing.assert_allclose(own["reward"] - own["reward"].mean(), reward - reward.mean(), atol=1e-6)
    goals = goal_table(model, demos)
    np.testing.assert_allclose(goals[["x", "y"]], model.places_)
    named = replace(demos, observation_names=("steps", "y"))
    assert "observation steps" in cell_table(model, named, p).columns  # a quantity of that name does not hide ours
    free = Intentions(2, switching="markov", rewards="features", **few).fit(demos)
    assert goal_table(free, demos) is None


def test_trips_begin_and_end_with_an_intention():
    demos = Demonstrations.from_arrays([[0, 1, 2, 3, 2, 1], [1, 1]], [[0] * 6, [0] * 2], n_states=4, n_actions=1)
    line = np.arange(4.0)
    distances = np.stack([3 - line, line])  # to state 3, and to state 0
    p = np.array([0.9, 0.8, 0.7, 0.6, 0.1, 0.2, 0.4, 0.3])
    found = trips(demos, np.stack([p, 1 - p], axis=1), distances)
    assert list(found.columns) == "trajectory intention from to first last length shortest arrived probability".split()
    assert found["to"].tolist() == [3, 0, 0]
    assert found["from"].tolist() == [0, 2, 1]
    assert found["first"].tolist() == [0, 4, 0]
    assert found["last"].tolist() == [3, 5, 1]
    assert found["arrived"].tolist() == [True, False, False]
    assert found["length"].tolist() == [3, 2, 2]
    assert found["shortest"].tolist() == [3, 2, 1]
    np.testing.assert_allclose(found["probability"], [0.75, 0.85, 0.65])
