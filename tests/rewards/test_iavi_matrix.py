"""IAVI on contexts: the augmented MDP step by step, and softmax(Q) = π for policies that remember."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from prism_irl.data.contexts import Contexts
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.presets import HIQL
from prism_irl.rewards.iavi import augmented_mdp, average_per_state, context_windows, own_visits, solve_iavi


def longest_known_suffix(window: list[int], known: dict[tuple[int, ...], int]) -> int:
    """Row of the longest suffix of (oldest, …, newest) whose every shorter suffix is known too."""
    row = known[(window[-1],)]
    for length in range(2, len(window) + 1):
        if tuple(window[-length:]) not in known:
            break
        row = known[tuple(window[-length:])]
    return row


@pytest.mark.parametrize("length", [1, 2, 3])
def test_augmented_transitions_append_the_next_state(length, make_demos):
    demos = make_demos(masked=True)
    contexts, mdp = demos.with_history(length), MDP.from_demonstrations(demos)
    windows = [[s for s in row[::-1] if s >= 0] for row in context_windows(contexts).tolist()]
    known = {tuple(window): row for row, window in enumerate(windows)}
    assert len(known) == contexts.n_contexts
    expected = np.zeros((contexts.n_contexts, mdp.n_actions, contexts.n_contexts))
    P = mdp.transitions.toarray().reshape(mdp.n_states, mdp.n_actions, mdp.n_states)
    for row, window in enumerate(windows):
        for action in range(mdp.n_actions):
            for successor in np.flatnonzero(P[window[-1], action]):
                to = longest_known_suffix([*window, int(successor)][-length:], known)
                expected[row, action, to] += P[window[-1], action, successor]
    found = augmented_mdp(mdp, contexts)
    np.testing.assert_allclose(found.transitions.toarray().reshape(expected.shape), expected, atol=1e-12)
    np.testing.assert_array_equal(found.valid_actions, mdp.valid_actions[contexts.current_state])
    assert found.discount == mdp.discount


def test_without_memory_the_augmented_mdp_is_the_mdp(make_demos):
    mdp = MDP.from_demonstrations(make_demos())
    found = augmented_mdp(mdp, Contexts(mdp.n_states))
    np.testing.assert_array_equal(found.transitions.toarray(), mdp.transitions.toarray())


def test_contexts_of_other_states_are_refused(make_demos):
    with pytest.raises(InputError, match="5 states and the contexts are made of 7"):
        augmented_mdp(MDP.from_demonstrations(make_demos()), Contexts(7))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 4),
    discount=st.floats(0.0, 0.95),
    variant=st.sampled_from(["hard", "soft"]),
)
def test_softmax_of_q_is_the_policy_of_every_context(make_demos, seed, length, discount, variant):
    demos = make_demos(seed, masked=True)
    contexts = demos.with_history(length)
    mdp = augmented_mdp(MDP.from_demonstrations(demos, discount), contexts)
    weights = np.random.default_rng(seed).random((2, mdp.n_states, mdp.n_actions)) * mdp.valid_actions
    policies = weights / weights.sum(-1, keepdims=True)
    solution = solve_iavi(mdp, policies, variant=variant)
    np.testing.assert_allclose(softmax(solution.q, axis=-1), policies, atol=1e-9)
    # Q satisfies its Bellman equation on the contexts: r + γPV with V = max Q or log Σ exp Q.
    np.testing.assert_allclose(
        solution.q[:, mdp.valid_actions],
        mdp.action_values(solution.rewards, solution.values)[:, mdp.valid_actions],
        atol=1e-8,
    )


def test_a_model_with_memory_has_rewards_per_context_and_averages_per_state(make_demos):
    demos = make_demos()
    model = HIQL(2, history=3, n_starts=2, validation_fraction=0.0, max_iterations=20).fit(demos)
    C = model.contexts_.n_contexts
    assert model.context_rewards_.shape == (2, C, 3)
    assert model.context_values_.shape == (2, C)
    np.testing.assert_allclose(softmax(model.context_q_, axis=-1), model.policies_, atol=1e-9)
    # By hand: the mean over the steps of each state, every step with its own longest context.
    rows, weights = model.contexts_.encode(demos), model.predict_proba(demos)
    model.rewards_model_.m_step(model._prepare(demos), weights)  # counts of exactly these responsibilities
    for name in ("solution_", "context_solution_"):
        delattr(model, name) if hasattr(model, name) else None
    for k in range(2):
        for state in np.unique(demos.states):
            at = demos.states == state
            expected = np.average(model.context_rewards_[k, rows[at]], axis=0, weights=weights[at, k])
            np.testing.assert_allclose(model.rewards_[k, state], expected, atol=1e-8)
    np.testing.assert_allclose(model.rewards_.mean(-1), 0, atol=1e-9)


def test_with_history_one_rewards_are_those_of_the_states(make_demos):
    model = HIQL(2, n_starts=1, validation_fraction=0.0, max_iterations=5).fit(make_demos())
    assert model.rewards_ is model.context_rewards_
    np.testing.assert_array_equal(model.rewards_, solve_iavi(model.mdp_, model.policies_).rewards)


def test_own_visits_undo_the_sums_over_longer_contexts(make_demos):
    demos = make_demos()
    contexts = demos.with_history(3)
    rows = contexts.encode(demos)
    own = np.bincount(rows, minlength=contexts.n_contexts).astype(float)
    summed = own.copy()
    for level in (2, 1):
        part = slice(contexts.starts[level], contexts.starts[level + 1])
        summed += np.bincount(contexts.parents[level - 1], weights=summed[part], minlength=contexts.n_contexts)
    np.testing.assert_allclose(own_visits(contexts, summed[None, :, None])[0], own, atol=1e-12)


def test_a_state_without_visits_takes_its_own_context():
    contexts = Contexts(2, (np.array([0, 0]),), (np.array([0, 1]),))
    values = np.array([[[5.0, -np.inf], [7.0, -np.inf], [1.0, -np.inf], [3.0, -np.inf]]])
    average = average_per_state(contexts, values, np.array([[0.0, 0.0, 1.0, 3.0]]))
    np.testing.assert_array_equal(average, [[[2.5, -np.inf], [7.0, -np.inf]]])
