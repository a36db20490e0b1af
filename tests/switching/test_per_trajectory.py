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


def test_what_is_impossible_is_left_to_running_posteriors(data):
    emission = torch.full((data.demos.n_steps, K), -1.0, dtype=torch.float64)
    emission[3] = -torch.inf
    found = TrajectoryChoice(K).expectation(data, emission, online=False)
    assert np.isneginf(found.log_likelihood[3])
    assert np.isfinite(found.responsibilities).all()
