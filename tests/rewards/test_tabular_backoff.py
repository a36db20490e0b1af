"""Back-off over long memories: the compiled passes against those in NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.rewards import tabular
from prism_irl.rewards.tabular import TabularPolicies


def fitted(demos, history, strength, smoothing):
    contexts = Contexts.fit(demos, history)
    table = TabularPolicies(3, demos.n_actions, contexts, backoff=strength, smoothing=smoothing)
    weights = np.random.default_rng(0).dirichlet(np.ones(3), demos.n_steps)
    table.m_step(Prepared.of(demos, contexts), weights)
    return table


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**31),
    history=st.integers(1, 5),
    strength=st.sampled_from([0.0, 0.5, 8.0]),
    smoothing=st.sampled_from([0.0, 0.01]),
    n_actions=st.sampled_from([1, 3, 9]),
)
def test_compiled_passes_give_the_same_tables(make_demos, seed, history, strength, smoothing, n_actions):
    demos = make_demos(seed, n_actions=n_actions)
    expected = fitted(demos, history, strength, smoothing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tabular, "LARGE", 0)
        patch.delenv("PRISM_BACKEND", raising=False)
        found = fitted(demos, history, strength, smoothing)
    np.testing.assert_allclose(found.counts, expected.counts, rtol=1e-13)
    np.testing.assert_allclose(found.policies, expected.policies, rtol=1e-13)


def test_only_large_tables_are_compiled_and_the_reference_can_be_asked_for(monkeypatch):
    monkeypatch.delenv("PRISM_BACKEND", raising=False)
    monkeypatch.setattr(tabular, "LARGE", 8)
    assert not tabular._is_large(np.zeros((1, 1, 7)))
    assert tabular._is_large(np.zeros((1, 1, 8)))
    monkeypatch.setenv("PRISM_BACKEND", "torch")
    assert not tabular._is_large(np.zeros((1, 1, 8)))
