"""Small chains: the same beliefs as the models, one pass for kernels that follow states, mixtures that never switch."""

import numpy as np
import pytest

from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.studies.chains import SMOOTHING, Encoded, TableChain, _passes, fit_chain
from prism_irl.studies.gains import grouping
from prism_irl.switching.markov import MarkovChain


@pytest.mark.parametrize(("length", "reads"), [(1, "states"), (3, "states"), (3, "both")])
def test_policies_back_off_as_those_of_the_models_do(make_demos, length, reads):
    demos = make_demos(0, lengths=(40, 30, 5), masked=True)
    contexts = Contexts.fit(demos, length, reads)
    weights = np.random.default_rng(0).dirichlet(np.ones(2), demos.n_steps)
    chain = TableChain(2, contexts, demos, 4.0)
    chain.learn_policies(Encoded.of(demos, contexts), weights)
    model = TabularPolicies(2, demos.n_actions, contexts, demos.valid_actions, smoothing=SMOOTHING, backoff=4.0)
    model.m_step(Prepared.of(demos, contexts), weights)
    found = chain.table.reshape(-1, demos.n_actions, 2)[:-1].transpose(2, 0, 1)
    np.testing.assert_allclose(found, model.policies, atol=1e-12)


def test_beliefs_are_those_of_a_markov_chain(make_demos):
    demos = make_demos(1, lengths=(20, 7))
    contexts = Contexts(demos.n_states)
    chain, data = TableChain(2, contexts, demos, 1.0), Encoded.of(demos, contexts)
    chain.learn_policies(data, np.random.default_rng(0).dirichlet(np.ones(2), demos.n_steps))
    other = MarkovChain(2)
    other.moves[...], other.begin[...] = chain.kernels[0], chain.initial
    expected = other.expectation(Prepared.of(demos, contexts), np.log(chain.table[data.pairs]))
    predicted, smoothed, likelihood, begun, moves = _passes(
        data.pairs, data.groups, data.offsets, chain.initial, chain.kernels, chain.table, True
    )
    np.testing.assert_allclose(predicted, expected.predicted, atol=1e-9)
    np.testing.assert_allclose(smoothed, expected.responsibilities, atol=1e-9)
    np.testing.assert_allclose(likelihood, expected.log_likelihood, atol=1e-9)
    np.testing.assert_allclose(moves[0], expected.transitions, atol=1e-9)
    assert begun.sum() == pytest.approx(2)


def test_likelihood_rises_and_ratios_predict(make_demos):
    demos = make_demos(2, lengths=(60,) * 8)
    contexts = Contexts(demos.n_states)
    for follows, switches in (("", True), ("state", True), ("", False)):
        groups, n_groups = grouping(follows, demos)
        data = Encoded.of(demos, contexts, groups(demos))
        chain = TableChain(2, contexts, demos, 1.0, n_groups=n_groups, switches=switches)
        chain.learn_policies(data, np.random.default_rng(0).dirichlet(np.ones(2), demos.n_steps))
        before = chain.likelihood(data)
        for _ in range(10):
            chain.step(data)
        assert chain.likelihood(data) > before
        whole = np.exp(chain.ratio(data)) * chain.one.reshape(-1, demos.n_actions)[data.rows]
        np.testing.assert_allclose(whole.sum(1), 1.0)
        if not switches:
            np.testing.assert_array_equal(chain.kernels[0], np.eye(2))


def test_the_best_look_is_kept(make_demos):
    demos, other = make_demos(3, lengths=(50,) * 4), make_demos(4, lengths=(50,))
    contexts = Contexts(demos.n_states)
    data, held_out = Encoded.of(demos, contexts), Encoded.of(other, contexts)
    chain = TableChain(2, contexts, demos, 1.0)
    best = fit_chain(chain, data, held_out, np.random.default_rng(0).dirichlet(np.ones(2), demos.n_steps), 20)
    assert chain.likelihood(held_out) == pytest.approx(best)
