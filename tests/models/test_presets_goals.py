"""Goals on a habit: the goals of the frustration gridworld are found by name, and stay after saving."""

from __future__ import annotations

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.labels import label_accuracy
from prism_irl.models.presets import GoalPRISM
from prism_irl.worlds.frustration import FrustrationWorld


def simulated(n: int, seed: int) -> Demonstrations:
    return FrustrationWorld().simulate(n, seed=seed)[0]


@pytest.fixture(scope="module")
def fitted() -> GoalPRISM:
    demos = simulated(120, 3)
    return GoalPRISM(3, history=2, backoff=16.0, n_starts=2, max_iterations=5, device="cpu").fit(demos)


def test_the_true_goals_are_found(fitted: GoalPRISM) -> None:
    assert {goals[0] for goals in fitted.goals_[:-1]} == {0, 24}  # (0, 0) and (4, 4)
    assert fitted.goals_[-1] == []
    test = simulated(60, 4)
    assert test.labels is not None
    assert label_accuracy(test.labels, fitted.predict(test)) > 0.7


@pytest.mark.parametrize("switching", ["recurrent", "independent"])
def test_any_switching_family(switching: str) -> None:
    demos = simulated(40, 1)
    model = GoalPRISM(
        3,
        switching=switching,
        history=1,
        backoff=8.0,
        n_starts=1,
        max_iterations=2,
        hidden=8,
        embedding=8,
        device="cpu",
    )
    model.fit(demos)
    assert np.isfinite(model.score(demos))
    assert model.rewards_.shape == (3, 25, 5)


def test_pure_goals_and_wrong_parameters() -> None:
    demos = simulated(40, 1)
    pure = GoalPRISM(3, habit=False, history=1, backoff=8.0, n_starts=1, max_iterations=1, device="cpu").fit(demos)
    q = pure.q_ - pure.q_.max(-1, keepdims=True)
    np.testing.assert_allclose(pure.policies_, np.exp(q) / np.exp(q).sum(-1, keepdims=True), atol=1e-8)
    with pytest.raises(InputError, match="goal_discount"):
        GoalPRISM(goal_discount=1.0).fit(demos)
