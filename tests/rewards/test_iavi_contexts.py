"""The iterative solution over contexts is what factoring their matrix gives."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP
from prism_irl.rewards import iavi
from prism_irl.rewards.iavi import IAVI, ContextIAVI, augmented_mdp


def world(seed, n_states, n_actions, length, discount=0.95, masked=False):
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.full(n_states, 0.3), size=(n_states, n_actions))
    valid = np.ones((n_states, n_actions), dtype=bool)
    if masked:
        valid = rng.random(valid.shape) < 0.6
        valid[:, 0] = True
    states = rng.integers(0, n_states, size=(4, 12))
    demos = Demonstrations.from_arrays(states, np.zeros_like(states), n_states=n_states, n_actions=n_actions)
    return MDP.from_dense(transitions, discount, valid), Contexts.fit(demos, length), rng


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_states=st.integers(2, 6),
    n_actions=st.integers(1, 3),
    length=st.integers(2, 4),
    discount=st.sampled_from([0.0, 0.5, 0.97, 0.999]),
    masked=st.booleans(),
)
def test_rewards_are_those_of_the_matrix(seed, n_states, n_actions, length, discount, masked):
    mdp, contexts, rng = world(seed, n_states, n_actions, length, discount, masked)
    log_policies = np.log(rng.dirichlet(np.ones(n_actions), size=(2, contexts.n_contexts)))
    found = ContextIAVI(mdp, contexts).solve(log_policies)
    matrix = augmented_mdp(mdp, contexts)
    expected = IAVI(matrix).solve(log_policies)
    for name in ("rewards", "q", "values"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-8, atol=1e-8, err_msg=name)


def test_without_the_fast_solver_the_fixed_point_gets_there(monkeypatch):
    mdp, contexts, rng = world(0, 5, 2, 3)
    policies = np.log(rng.dirichlet(np.ones(2), size=(1, contexts.n_contexts)))
    expected = ContextIAVI(mdp, contexts).solve(policies).values
    monkeypatch.setattr(iavi, "bicgstab", lambda system, b, **_: (np.full_like(b, np.nan), 1))
    np.testing.assert_allclose(ContextIAVI(mdp, contexts).solve(policies).values, expected, rtol=1e-10)
