"""Policies of animals are distributions between their own and the shared one, and who chooses otherwise is named."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.mdp import MDP
from prism_irl.studies.individual_choices import own_choices, rows_of

S, A, K = 4, 3, 2
RNG = np.random.default_rng(0)
WORLD = MDP.from_dense(RNG.dirichlet(np.ones(S), (S, A)), 0.9)


def counts_of(policies, who, steps, seed=0):
    """Counts (N, K, S, A) of trajectories whose animals follow policies (G, K, S, A)."""
    rng = np.random.default_rng(seed)
    return np.stack([[[rng.multinomial(steps, p) for p in own] for own in policies[g]] for g in who]).astype(float)


@pytest.fixture(scope="module")
def odd():
    """Four animals, of which the last does other things."""
    common = np.random.default_rng(1).dirichlet(np.full(A, 2.0), (K, S))
    policies = np.stack([common, common, common, np.roll(common, 1, axis=-1)])
    who = np.repeat(np.arange(4), 5)
    return own_choices(counts_of(policies, who, 20), who, np.ones((S, A), bool), WORLD, 0), policies


def test_the_animal_that_chooses_otherwise_is_found_and_so_are_its_policies_and_rewards(odd):
    found, policies = odd
    assert (found.p_adjusted[3] <= 0.05).all()
    assert np.isfinite(found.strength)
    wrong_own = np.abs(found.policies[3] - policies[3]).mean()
    assert wrong_own < 0.5 * np.abs(found.shared - policies[3]).mean()
    assert (found.distance[3] > found.distance[:3].max(axis=0)).all()


def test_alike_animals_are_given_nearly_the_shared_policies():
    common = np.random.default_rng(1).dirichlet(np.full(A, 2.0), (K, S))
    who = np.repeat(np.arange(4), 5)
    counts = counts_of(np.stack([common] * 4), who, 20)
    found = own_choices(counts, who, np.ones((S, A), bool), WORLD, 0)
    assert (found.p_adjusted > 0.05).all()
    assert found.strength >= 100
    assert found.distance.max() < 0.2


@given(seed=st.integers(0, 50))
@settings(max_examples=10, deadline=None)
def test_policies_are_distributions_between_the_animal_and_all(seed):
    rng = np.random.default_rng(seed)
    counts = rng.gamma(0.5, 2.0, (6, K, S, A))
    valid = np.ones((S, A), bool)
    valid[0, 2] = False
    counts[:, :, ~valid] = 0
    found = own_choices(counts, np.repeat(np.arange(3), 2), valid, None, seed)
    np.testing.assert_allclose(found.policies.sum(axis=-1), 1.0)
    assert (found.policies[:, :, 0, 2] == 0).all()
    alone = found.steps / found.steps.sum(axis=-1, keepdims=True)
    low, high = np.minimum(alone, found.shared), np.maximum(alone, found.shared)
    assert ((found.policies >= low - 1e-9) & (found.policies <= high + 1e-9)).all()
    assert found.rewards is None


def test_rows_name_animals_states_and_actions(odd):
    found, _ = odd
    rows = rows_of(found, ["a", "b", "c", "d"], range(S), ["x", "y", "z"])
    assert len(rows) == 4 * K * S * A
    assert {"policy", "shared_policy", "reward", "shared_reward"} <= set(rows[0])
