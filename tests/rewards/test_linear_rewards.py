"""Rewards without a model: where an agent solves its Bellman equation exactly, least squares gives the reward back."""

from __future__ import annotations

import numpy as np

from continuous_worlds import GOALS, walking
from prism_irl.models.intentions import Intentions
from prism_irl.rewards.linear import StateReward


def test_a_reward_that_satisfies_the_equation_is_recovered():
    """log π made from a known g, V and effort: the solve returns them where the data are."""
    rng = np.random.default_rng(0)
    n, discount = 4000, 0.8
    x, y = rng.standard_normal((n, 1)), rng.standard_normal((n, 1))
    first = np.zeros(n, dtype=bool)
    first[::100] = True

    def g(z):
        return np.exp(-((z[:, 0] - 1.0) ** 2))

    def v(z):
        return np.sin(z[:, 0])

    after = np.roll(x, -1, axis=0)
    log_policy = g(after) + discount * v(after) - v(x) - 0.3 * (y**2).sum(1) + 0.1
    found = StateReward.solve(log_policy[:, None], x, y, first, np.ones((n, 1)), discount=discount, ridge=1e-6)
    places = np.linspace(-1.5, 1.5, 30)[:, None]
    true = g(places)
    np.testing.assert_allclose(found.at(places)[:, 0] - found.at(places).mean(), true - true.mean(), atol=0.02)
    np.testing.assert_allclose(found.efforts[0, 0], -0.3, atol=1e-3)


def test_the_best_visited_place_of_each_intention_is_near_a_goal():
    demos = walking(n_trajectories=30)
    model = Intentions(3, switching="markov", rewards="features", n_starts=3, device="cpu").fit(demos)
    visited = np.where(model.predict_proba(demos) > 0.5, model.reward_at(demos.observations), -np.inf)
    best = demos.observations[visited.argmax(axis=0)]
    distance = np.linalg.norm(best[:, None] - GOALS[None], axis=2)
    assert sorted(distance.argmin(axis=1)) == [0, 1, 2]  # each intention another goal
    assert distance.min(axis=1).max() < 1.0
    assert model.rewards_.shape == (3, 64, 16)
