"""One intention per trajectory: the quick E-step of EM is the one with running posteriors."""

import numpy as np
import pytest
import torch

from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.switching.per_trajectory import TrajectoryChoice

K = 3


@pytest.fixture(scope="module")
def data(make_demos):
    return Prepared.of(make_demos(n_states=5, n_actions=3), Contexts(5))


def test_the_e_step_of_em_is_that_of_running_posteriors(data):
    rng = np.random.default_rng(0)
    chain = TrajectoryChoice(K)
    chain.weights.copy_(torch.from_numpy(rng.dirichlet(np.ones(K))))
    emission = torch.from_numpy(np.log(rng.uniform(1e-4, 1, (data.demos.n_steps, K))))
    quick, slow = (chain.expectation(data, emission, online=online) for online in (False, True))
    np.testing.assert_allclose(quick.responsibilities, slow.responsibilities, atol=1e-12)
    np.testing.assert_allclose(quick.log_likelihood, slow.log_likelihood, atol=1e-11)
    assert len(quick.predicted) == len(quick.filtered) == 0
    assert len(slow.predicted) == data.demos.n_steps


def test_what_is_impossible_is_left_to_running_posteriors(data):
    emission = torch.full((data.demos.n_steps, K), -1.0, dtype=torch.float64)
    emission[3] = -torch.inf
    found = TrajectoryChoice(K).expectation(data, emission, online=False)
    assert np.isneginf(found.log_likelihood[3])
    assert np.isfinite(found.responsibilities).all()
