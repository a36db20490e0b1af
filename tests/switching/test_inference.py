"""Expected counts without beliefs about single steps: the sums of what the reference says about each of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl import em
from prism_irl.data.batching import Parts, Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.ordered import OrderedChain

lanes = pytest.importorskip("prism_irl.switching.inference_kernel")
K, S, A = 2, 5, 3


def problem(lengths, seed=0, kind=MarkovChain, history=1):
    """A chain and policies with random parameters, and random steps."""
    rng = np.random.default_rng(seed)
    states, actions = ([rng.integers(size, size=n) for n in lengths] for size in (S, A))
    demos = Demonstrations.from_arrays(states, actions, n_states=S, n_actions=A)
    contexts = Contexts.fit(demos, history)
    data, chain, policies = Prepared.of(demos, contexts), kind(K), TabularPolicies(K, A, contexts)
    policies.policies = rng.dirichlet(np.ones(A), policies.policies.shape[:2])
    return chain, policies, data


def counted(chain, policies, data):
    """Expected counts alone, or None."""
    table = policies.action_table(data.n_steps)
    return None if table is None else chain.counted(data, table.policies)


def assert_same(chain, policies, data, power=1.0):
    """Both E-steps lead to the same likelihood and the same M-step."""
    step = em.e_step(chain, policies, Parts(data), power=power)
    posterior = chain.expectation(data, em.emissions(chain, policies, data, power=power), online=False)
    assert counted(chain, policies, data) is not None
    assert step.log_likelihood == pytest.approx(posterior.log_likelihood.sum(), rel=1e-12)
    expected = policies.weighted_counts(data, posterior.responsibilities)
    np.testing.assert_allclose(step.rewards["counts"], expected, atol=1e-9)
    np.testing.assert_allclose(step.rewards["counts"].sum(), data.n_steps)
    chain.update(chain.statistics(data, posterior))
    kernel, initial = chain.kernel.clone(), chain.initial.clone()
    policies.m_step(data, posterior.responsibilities)
    table = policies.policies.copy()
    em.m_step(chain, policies, step)
    np.testing.assert_allclose(chain.kernel, kernel, atol=1e-10)
    np.testing.assert_allclose(chain.initial, initial, atol=1e-10)
    np.testing.assert_allclose(policies.policies, table, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 2 * lanes.BLOCK + 1), min_size=(S + 1) * A, max_size=40), st.integers(0, 1000))
def test_counts_are_the_sums_of_beliefs(lengths, seed):
    assert_same(*problem(lengths, seed))


@pytest.mark.parametrize("kind", [MarkovChain, OrderedChain])
@pytest.mark.parametrize("history", [1, 2])
def test_of_every_constant_chain_and_memory_to_any_power(kind, history):
    assert_same(*problem([30] * 20, 1, kind, history), power=0.3)


def test_threads_do_not_change_a_bit():
    numba = pytest.importorskip("numba")
    given, found, before = problem(np.arange(1, 300)), [], numba.get_num_threads()
    try:
        for threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(threads)
            found.append(counted(*given))
    finally:
        numba.set_num_threads(before)
    one, other = found
    for name, value in one.switching.items():
        np.testing.assert_array_equal(value, other.switching[name])
    np.testing.assert_array_equal(one.pairs, other.pairs)
    assert one.log_likelihood == other.log_likelihood


def test_very_improbable_steps_keep_their_likelihood():
    chain, policies, data = problem([40] * 16)
    policies.policies[:, :, 0], policies.policies[:, :, 1:] = 1e-60, 0.5  # a block's product is below any number
    assert_same(chain, policies, data)


def test_what_counts_cannot_say_is_left_to_beliefs(monkeypatch):
    few, many = problem([40] * 15), problem([40] * 16)
    assert counted(*few) is None  # lanes would stay empty
    assert counted(*problem([1] * 16)) is None  # fewer steps than pairs
    many[1].policies[:, 0, 0] = 0.0  # an action that nobody takes: its likelihood is zero, and not an error
    assert counted(*many) is None
    chain, policies, data = many
    assert em.e_step(chain, policies, Parts(data)).log_likelihood == -np.inf
    many = problem([40] * 16)
    monkeypatch.setenv("PRISM_BACKEND", "torch")
    assert counted(*many) is None
