"""Gaussian policies on observations: a proper density, an exact M-step, and the closed form against an optimiser."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from continuous_worlds import walking
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.continuous import Units
from prism_irl.models.intentions import Intentions
from prism_irl.rewards.linear import Basis, LinearPolicies


def prepared(**options):
    demos = walking(**options)
    units = Units.fit(demos)
    return Prepared.of(units.apply(demos), Contexts(len(units.cells)))


def policies(full: bool, fourier: int = 0, shared: bool = False) -> LinearPolicies:
    prior = {"ridge": 0.5, "noise": 0.1, "noise_strength": 3.0}
    return LinearPolicies(2, 2, Basis(2, fourier), full=full, shared=shared, **prior)


@settings(max_examples=20, deadline=None)
@given(st.booleans(), st.booleans(), st.integers(0, 3), st.integers(0, 999))
def test_the_m_step_is_the_maximum_of_likelihood_plus_prior(full, shared, fourier, seed):
    """No small change of weights or covariances raises what EM climbs."""
    rng = np.random.default_rng(seed)
    data, model = prepared(n_trajectories=2, length=15, seed=seed % 5), policies(full, fourier, shared)
    weights = rng.dirichlet(np.ones(2), data.demos.n_steps)
    model.m_step(data, weights)

    def objective() -> float:
        return float((weights * model.log_likelihood(data)).sum()) + model.log_prior()

    best = objective()
    theta, covariances = model.weights.copy(), model.covariances.copy()
    for _ in range(10):
        model.weights = theta + 1e-3 * rng.standard_normal(theta.shape)
        change = 1e-3 * rng.standard_normal(covariances.shape)
        change = change + change.transpose(0, 2, 1) if full else change * np.eye(2)
        change = change[:1] if shared else change
        model.covariances = covariances + change
        assert objective() <= best + 1e-9


@pytest.mark.parametrize(("full", "shared"), [(False, False), (True, False), (True, True)])
def test_the_density_is_the_normal_one_in_the_units_of_the_data(full, shared):
    data, model = prepared(n_trajectories=2, length=10), policies(full, shared=shared)
    model.m_step(data, np.random.default_rng(0).dirichlet(np.ones(2), data.demos.n_steps))
    found = model.log_likelihood(data)
    x, y = data.demos.observations, data.demos.motions
    for k in range(2):
        for t in (0, 7, 13):
            mean = model.weights[k] @ np.array([1.0, *x[t]])
            expected = multivariate_normal(mean, model.covariances[k]).logpdf(y[t]) - data.demos.log_volume
            np.testing.assert_allclose(found[t, k], expected, rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"covariance": "full"}, {"covariance": "shared"}, {"fourier": 8}])
def test_exact_em_never_falls(options):
    from prism_irl.rewards.options import Features

    demos = walking(n_trajectories=6, length=30)
    model = Intentions(3, switching="markov", rewards=Features(**options), n_starts=1, max_iterations=15, device="cpu")
    rows = model.set_params(validation_fraction=0.0).fit(demos).monitor_
    assert all(b["objective"] >= a["objective"] - 1e-9 for a, b in pairwise(rows))


def test_the_goals_of_a_simple_world_are_found():
    demos = walking(n_trajectories=20)
    model = Intentions(3, switching="markov", rewards="features", n_starts=3, device="cpu").fit(demos)
    from prism_irl.labels import label_accuracy

    assert label_accuracy(demos.labels, model.predict(demos)) > 0.97
