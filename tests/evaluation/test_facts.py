"""What the report says of a model comes from its public attributes, and only from those that it has."""

from types import SimpleNamespace

import numpy as np
import pytest

from prism_irl.evaluation.facts import MAX_STATES, fit_facts, state_rewards


def test_facts_of_a_model_that_says_little():
    facts = fit_facts(SimpleNamespace(n_intentions=3), [0, 0, 1, 1], [0, 4])
    assert facts.keys() == {"n_intentions", "usage", "mean_dwell", "dwell_per_intention"}
    np.testing.assert_array_equal(facts["usage"], [0.5, 0.5, 0.0])
    assert facts["mean_dwell"] == 2


def test_facts_of_em_are_those_of_the_best_start():
    starts = [{"iterations": 9}, {"iterations": 5, "best": True}]
    model = SimpleNamespace(n_intentions=2, converged_=True, starts_=starts, patience=None, agreement_=0.9)
    model.n_iterations_ = 3
    facts = fit_facts(model, [0, 1], [0, 2])
    assert facts["em"] == {"converged": True, "fixed": True, "iterations": 5, "kept": 3, "starts": 2}
    assert facts["agreement"] == 0.9


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
