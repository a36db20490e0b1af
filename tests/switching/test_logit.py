"""The weighted logit: the maximum of a general optimiser, counts where there are no inputs, parts that add up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special

from prism_irl.switching.logit import LEAST, Logit, fit_logit


def problem(seed, rows, groups, classes, d):
    rng = np.random.default_rng(seed)
    targets = rng.dirichlet(np.ones(classes), size=rows) * rng.random((rows, 1))
    return rng.standard_normal((rows, d)), rng.integers(groups, size=rows), targets


def zeros(groups, classes, d):
    return Logit(np.zeros((groups, classes - 1)), np.zeros((classes - 1, d)))


def objective(flat, inputs, group, targets, groups, ridge, prior, metric):
    """The docstring's formula, written down once more, to be minimised."""
    F, d = targets.shape[1] - 1, inputs.shape[1]
    b, w = flat[: groups * F].reshape(groups, F), flat[groups * F :].reshape(F, d)
    logits = np.column_stack([np.zeros(len(inputs)), b[group] + inputs @ w.T])
    at_mean = np.column_stack([np.zeros(groups), b])
    value = (targets * special.log_softmax(logits, axis=1)).sum()
    value += ((prior + LEAST) * special.log_softmax(at_mean, axis=1)).sum()
    return -value + 0.5 * ridge * np.trace(w.T @ metric @ w)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    groups=st.integers(1, 4),
    classes=st.integers(2, 4),
    d=st.integers(1, 3),
    ridge=st.floats(0.1, 5.0),
    centred=st.booleans(),
)
def test_it_finds_the_maximum_that_a_general_optimiser_finds(seed, groups, classes, d, ridge, centred):
    inputs, group, targets = problem(seed, 60, groups, classes, d)
    prior = np.random.default_rng(seed).random((groups, classes))
    F = classes - 1
    metric = np.eye(F) - np.full((F, F), 1.0 / classes) if centred else np.eye(F)
    found = fit_logit(zeros(groups, classes, d), inputs, group, targets, ridge=ridge, prior=prior, metric=metric)
    given_to_both = (inputs, group, targets, groups, ridge, prior, metric)
    flat = np.concatenate([found.biases.ravel(), found.slopes.ravel()])
    best = optimize.minimize(objective, np.zeros_like(flat), given_to_both, method="BFGS").fun
    assert objective(flat, *given_to_both) == pytest.approx(best, abs=1e-6)
    assert np.abs(optimize.approx_fprime(flat, objective, 1e-6, *given_to_both)).max() < 1e-3


def test_without_effects_it_is_the_share_of_the_counts():
    inputs, group, targets = problem(1, 50, 3, 3, 1)
    found = fit_logit(zeros(3, 3, 1), 0 * inputs, group, targets, ridge=1.0)
    counts = np.stack([targets[group == g].sum(0) for g in range(3)])
    shares = np.exp(found.log_proba(np.zeros((3, 1)), np.arange(3)))
    np.testing.assert_allclose(shares, counts / counts.sum(1, keepdims=True), atol=1e-4)


def test_what_never_happened_stays_finite():
    inputs, group, targets = problem(3, 40, 2, 3, 1)
    targets[:, 2] = 0.0
    targets[group == 1] = 0.0
    found = fit_logit(zeros(2, 3, 1), inputs, group, targets, ridge=1.0)
    assert np.isfinite(found.biases).all()
    assert np.isfinite(found.slopes).all()
    assert np.exp(found.log_proba(inputs, group))[group == 0][:, 2].max() < 1e-3
