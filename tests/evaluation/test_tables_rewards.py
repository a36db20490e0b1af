"""What tables and maps call the reward is the same for every explanation of a policy, and nothing where nothing is
chosen."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl import Demonstrations
from prism_irl.evaluation.tables import (
    MAX_STATES,
    RARE,
    choice_counts,
    explanation,
    intention_table,
    on_map,
    state_rewards,
)
from prism_irl.mdp import MDP
from prism_irl.models import registry
from prism_irl.rewards.iavi import solve_iavi

# A corridor 0 – 1 – 2 – 3 whose ends leave one action; actions are left and right.
VALID = np.array([[False, True], [True, True], [True, True], [True, False]])
QUICK = {"n_starts": 1, "max_iterations": 3, "device": "cpu"}


@pytest.fixture(scope="module")
def corridor() -> Demonstrations:
    rng = np.random.default_rng(0)
    states, actions = [], []
    for _ in range(30):
        s, to_the_right = int(rng.integers(4)), rng.random() < 0.5
        for _ in range(20):
            likely = rng.random() < (0.9 if to_the_right else 0.2)
            a = int(likely) if VALID[s].all() else int(VALID[s, 1])
            states.append(s)
            actions.append(a)
            s += 1 if a else -1
    return Demonstrations(np.array(states), np.array(actions), np.arange(0, 601, 20), 4, 2, valid_actions=VALID)


@pytest.mark.parametrize("method", ["swirl-1", "swirl-2", "hiql", "maxcausalent"])
def test_no_reward_where_there_is_no_choice(corridor: Demonstrations, method: str) -> None:
    """The friction: rewards on states book what entering a dead end is worth inside, where nothing is chosen."""
    model = registry.method(method, 2, **(QUICK if method != "maxcausalent" else {})).model.fit(corridor)
    table = intention_table(model, corridor, model.predict_proba(corridor))
    assert table is not None
    ends = table["state"].isin([0, 3])
    assert (table.loc[ends, "reward"] == 0).all()
    assert not table.loc[ends, "identified"].any()
    assert table.loc[~ends, "identified"].all()
    assert (table.loc[~ends].groupby(["intention", "state"])["reward"].mean().abs() < 1e-9).all()
    chosen = table["q"].notna()
    advantage = (table["q"] - table["value"])[chosen]
    np.testing.assert_allclose(advantage, (model.q_[:, VALID].ravel() - _wide(model.values_))[chosen], atol=1e-9)
    rewards, _ = on_map(model, corridor, model.predict_proba(corridor))
    assert rewards is not None
    assert (np.nan_to_num(rewards[:, [0, 3]]) == 0).all()  # grey where it never is
    own = state_rewards(model, own=True)
    assert own is not None
    if method in ("swirl-1", "maxcausalent"):
        assert np.abs(own[:, [0, 3]]).max() > 0.1


def _wide(values: np.ndarray) -> np.ndarray:
    return np.repeat(values[..., None], 2, axis=2)[:, VALID].ravel()


def test_goals_stay_places(corridor: Demonstrations) -> None:
    model = registry.method("prism-goals", 2, **QUICK).model.fit(corridor)
    found = explanation(model)
    assert found is not None
    np.testing.assert_array_equal(found.rewards, model.rewards_)


def test_few_choices_identify_nothing(corridor: Demonstrations) -> None:
    p = np.ones((600, 1))
    assert choice_counts(corridor, p).sum() == 600
    policies = np.full((1, 4, 2), 0.5)
    model = SimpleNamespace(n_intentions=1, n_states_=4, n_actions_=2, rewards_=np.zeros((1, 4, 2)), policies_=policies)
    p[corridor.states == 1] = (RARE - 0.1) / (corridor.states == 1).sum()
    found = intention_table(model, corridor, p)
    assert found is not None
    assert found.groupby("state").identified.first().tolist() == [False, False, True, False]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_every_shaping_has_the_same_level_reward(seed: int) -> None:
    rng = np.random.default_rng(seed)
    valid = rng.random((5, 3)) < 0.7
    valid[np.arange(5), rng.integers(3, size=5)] = True
    mdp = MDP.from_dense(rng.dirichlet(np.ones(5), (5, 3)), 0.9, valid)
    reward, potential = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5)) * 3
    level, ahead = mdp.level(reward)
    shaped = reward + 0.9 * mdp.expected_values(potential) - potential[..., None]
    np.testing.assert_allclose(mdp.level(shaped)[0], level, atol=1e-9)
    np.testing.assert_allclose(level.sum(axis=-1), 0, atol=1e-9)
    assert (level[:, valid.sum(axis=1) == 1] == 0).all()
    q, v = mdp.soft_value_iteration(reward)
    again, u = mdp.soft_value_iteration(level)
    np.testing.assert_allclose(u, v - ahead, atol=1e-6)
    np.testing.assert_allclose(again[:, valid], (q - ahead[..., None])[:, valid], atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_iavi_gives_the_level_reward_itself(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = MDP.from_dense(rng.dirichlet(np.ones(5), (5, 3)), 0.9)
    found = solve_iavi(mdp, rng.dirichlet(np.ones(3), (2, 5)))
    level, ahead = mdp.level(found.rewards)
    np.testing.assert_allclose(level, found.rewards, atol=1e-8)
    np.testing.assert_allclose(ahead, 0, atol=1e-8)


def test_state_rewards_are_expected_under_the_policy():
    model = SimpleNamespace(
        n_intentions=1,
        n_states_=2,
        rewards_=np.array([[[1.0, 3.0], [-np.inf, 2.0]]]),
        policies_=np.array([[[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]]]),  # the last row is a history
    )
    np.testing.assert_array_equal(state_rewards(model), [[2.0, 2.0]])
    model.unvisited_ = np.array([[False, True]])
    np.testing.assert_array_equal(state_rewards(model), [[2.0, np.nan]])


@pytest.mark.parametrize("lacks", ["rewards_", "policies_", "n_states_"])
def test_without_rewards_over_states_there_are_none(lacks):
    model = SimpleNamespace(n_intentions=1, n_states_=1, rewards_=np.ones((1, 1, 1)), policies_=np.ones((1, 1, 1)))
    delattr(model, lacks)
    assert state_rewards(model) is None


def test_more_states_than_a_map_can_show():
    assert state_rewards(SimpleNamespace(n_states_=MAX_STATES + 1)) is None
