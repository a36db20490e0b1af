"""Weighted-count policies against the same formulas written with dictionaries and loops."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.rewards.tabular import TabularPolicies

S, A, K = 5, 3, 2


class Naive:
    """mathematics: π_l(a|c) = (n_c(a) + m π_{l-1}(a|c')) / (n_c + m); contexts are tuples, oldest state first."""

    def __init__(self, demos, weights, *, history, smoothing, backoff):
        self.history, self.smoothing, self.backoff = history, smoothing, backoff
        all_valid = np.ones((demos.n_states, demos.n_actions), bool)
        self.valid = all_valid if demos.valid_actions is None else demos.valid_actions
        self.counts = defaultdict(lambda: np.zeros(demos.n_actions))
        for context, action, w in zip(self.contexts(demos), demos.actions, weights, strict=True):
            for length in range(1, len(context) + 1):
                for k in range(weights.shape[1]):
                    self.counts[k, context[-length:]][action] += w[k]
        self.known = {context for _, context in self.counts}
        self.n_intentions = weights.shape[1]

    def contexts(self, demos):
        for i in range(len(demos)):
            states = tuple(demos.states[demos.offsets[i] : demos.offsets[i + 1]].tolist())
            for t in range(len(states)):
                yield states[max(t - self.history + 1, 0) : t + 1]

    def policy(self, k, context):
        state = context[-1]
        if len(context) > 1:
            weight = self.counts[k, context] + self.backoff * self.policy(k, context[1:])
        else:
            weight = self.counts[k, context] + self.smoothing * self.valid[state]
            if self.history > 1:
                shared = sum(self.counts[j, context] for j in range(self.n_intentions))
                weight = weight + self.backoff * self.normalised(shared + self.smoothing * self.valid[state], state)
        return self.normalised(weight, state)

    def normalised(self, weight, state):
        if weight.sum() == 0:
            return self.valid[state] / self.valid[state].sum()
        return weight / weight.sum()

    def at(self, demos):
        """π_k(a | longest context that training knew), (n, K, A)."""
        rows = []
        for context in self.contexts(demos):
            while len(context) > 1 and context not in self.known:
                context = context[1:]
            rows.append([self.policy(k, context) for k in range(self.n_intentions)])
        return np.array(rows)


def fitted(demos, weights, *, history=1, smoothing=0.01, backoff=5.0):
    contexts = Contexts.fit(demos, history)
    policies = TabularPolicies(
        weights.shape[1], demos.n_actions, contexts, demos.valid_actions, smoothing=smoothing, backoff=backoff
    )
    policies.m_step(Prepared.of(demos, contexts), weights)
    return policies


def responsibilities(n, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(K), n)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    history=st.integers(1, 4),
    smoothing=st.sampled_from([0.0, 0.01, 2.0]),
    backoff=st.sampled_from([0.0, 0.5, 5.0]),
    masked=st.booleans(),
)
def test_equals_the_formula_with_dictionaries(make_demos, seed, history, smoothing, backoff, masked):
    demos = make_demos(seed, masked=masked)
    unseen = make_demos(seed + 1)
    weights = responsibilities(demos.n_steps, seed)
    parameters = {"history": history, "smoothing": smoothing, "backoff": backoff}
    policies, naive = fitted(demos, weights, **parameters), Naive(demos, weights, **parameters)
    for data in (demos, unseen):
        rows = policies.contexts.encode(data)
        found = policies.policies_at(rows)
        np.testing.assert_allclose(found, naive.at(data), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-12)
        with np.errstate(divide="ignore"):
            expected = np.log(np.take_along_axis(found, data.actions[:, None, None].astype(int), axis=2)[..., 0])
        np.testing.assert_allclose(policies.log_likelihood(Prepared(data, rows)), expected, rtol=1e-12)


@pytest.mark.parametrize("history", [1, 2, 3])
def test_valid_actions_get_all_the_mass(make_demos, history):
    demos = make_demos(masked=True)
    policies = fitted(demos, responsibilities(demos.n_steps), history=history)
    valid = demos.valid_actions[policies.contexts.current_state]
    assert not valid.all()
    assert (policies.policies[:, ~valid] == 0).all()
    assert (policies.policies[:, valid] > 0).all()
    np.testing.assert_allclose(policies.policies.sum(-1), 1, rtol=1e-12)


def test_counts_of_a_state_sum_to_its_visits_at_every_length(make_demos):
    demos = make_demos()
    policies = fitted(demos, responsibilities(demos.n_steps), history=3)
    starts = policies.contexts.starts
    np.testing.assert_allclose(policies.counts[:, : starts[1]].sum(), demos.n_steps)
    for level, too_early in ((1, (demos.step_index >= 1).sum()), (2, (demos.step_index >= 2).sum())):
        np.testing.assert_allclose(policies.counts[:, starts[level] : starts[level + 1]].sum(), too_early)


def test_states_without_visits_are_uniform_over_their_valid_actions():
    valid = np.array([[True, True, True], [True, False, True]])
    demos = Demonstrations.from_arrays([[0, 0]], [[1, 1]], n_states=2, n_actions=3, valid_actions=valid)
    for smoothing in (0.0, 0.01):
        policies = fitted(demos, np.ones((2, 1)), smoothing=smoothing)
        np.testing.assert_allclose(policies.policies[0, 1], [0.5, 0, 0.5])
    np.testing.assert_allclose(policies.policies[0, 0], np.array([0.01, 2.01, 0.01]) / 2.03)


def test_an_unknown_state_is_uniform(make_demos):
    demos = make_demos()
    for history in (1, 3):
        policies = fitted(demos, responsibilities(demos.n_steps), history=history)
        new = Demonstrations.from_arrays([[0, S, 1]], [[0, 2, 1]], n_states=S + 1, n_actions=A)
        rows = policies.contexts.encode(new)
        np.testing.assert_allclose(policies.policies_at(rows)[1], 1 / A)
        np.testing.assert_allclose(policies.log_likelihood(Prepared(new, rows))[1], -np.log(A))
        # after an unknown state, a known one stands alone
        np.testing.assert_array_equal(policies.policies_at(rows)[2], policies.policies[:, 1])


def test_unknown_states_count_for_nothing(make_demos):
    demos = make_demos()
    contexts = Contexts.fit(demos, 1)
    policies = TabularPolicies(K, A, contexts)
    data = Prepared.of(demos, contexts)
    weights = responsibilities(demos.n_steps)
    with_unknown = Prepared(demos, np.where(demos.states == 2, contexts.unknown, data.rows))
    policies.m_step(with_unknown, weights)
    assert (policies.counts[:, 2] == 0).all()
    np.testing.assert_allclose(policies.counts.sum(), (demos.states != 2).sum())


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**31), smoothing=st.sampled_from([0.0, 0.01, 1.0]))
def test_the_m_step_maximises_likelihood_plus_prior(make_demos, seed, smoothing):
    """Without back-off the update is the exact maximum, which is why the objective of EM can never fall."""
    demos = make_demos(seed)
    weights = responsibilities(demos.n_steps, seed)
    policies = fitted(demos, weights, smoothing=smoothing)
    data = Prepared.of(demos, policies.contexts)

    def objective():
        return (weights * policies.log_likelihood(data)).sum() + policies.log_prior()

    best, at_best = objective(), policies.policies
    rng = np.random.default_rng(seed)
    for _ in range(5):
        policies.policies = 0.9 * at_best + 0.1 * rng.dirichlet(np.ones(A), at_best.shape[:2])
        assert objective() < best


def test_only_the_plain_table_is_an_exact_m_step(make_demos):
    demos = make_demos()
    weights = responsibilities(demos.n_steps)
    assert fitted(demos, weights).exact
    assert not fitted(demos, weights, history=2).exact


def test_state_comes_back_and_must_fit(make_demos):
    demos = make_demos()
    policies = fitted(demos, responsibilities(demos.n_steps), history=2)
    other = TabularPolicies(K, A, policies.contexts)
    other.load_state(policies.state())
    np.testing.assert_array_equal(other.policies, policies.policies)
    np.testing.assert_array_equal(other.counts, policies.counts)
    with pytest.raises(InputError, match=r"shape"):
        TabularPolicies(K + 1, A, policies.contexts).load_state(policies.state())
