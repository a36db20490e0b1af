"""Policies that share parameters: regressions against closed forms, densities that integrate, EM that never falls."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.conftest import random_demonstrations

from gaussian import linear_design
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.errors import InputError
from prism_irl.rewards.linear import GaussianPolicies, SoftmaxPolicies
from prism_irl.rewards.tabular import TabularPolicies

K, LENGTHS = 2, (30, 25, 20)


def gaussian(seed=0, blocks=(0, 0, 1), **options):
    demos = random_demonstrations(seed, lengths=LENGTHS, n_observations=2)
    rng = np.random.default_rng(seed)
    n = demos.n_steps
    data = demos.with_commands(rng.normal(size=(n, 3)), rng.normal(size=(n, 3, 4)), noise_blocks=blocks)
    contexts = demos.with_history(1)
    model = GaussianPolicies(K, 4, data.noise_blocks, TabularPolicies(K, demos.n_actions, contexts), **options)
    return model, Prepared.of(data, contexts), rng.dirichlet(np.ones(K), n)


def softmax(seed=0, masked=False, **options):
    demos = random_demonstrations(seed, lengths=LENGTHS, n_observations=2, masked=masked)
    contexts = demos.with_history(1)
    model = SoftmaxPolicies(K, demos.n_actions, 2, contexts, demos.valid_actions, **options)
    weights = np.random.default_rng(seed).dirichlet(np.ones(K), demos.n_steps)
    return model, Prepared.of(demos, contexts), weights


def test_gaussian_regression_is_weighted_least_squares():
    model, data, w = gaussian(blocks=(0, 0, 0), ridge=1e-9, noise_strength=1e-9)
    model.m_step(data, w)
    for k in range(K):
        root = np.sqrt(np.repeat(w[:, k], 3))
        expected = np.linalg.lstsq(
            data.demos.design.reshape(-1, 4) * root[:, None], data.demos.motions.ravel() * root, rcond=None
        )[0]
        np.testing.assert_allclose(model.weights[k], expected, rtol=1e-6)
        residual = data.demos.motions - data.demos.design @ expected
        variance = (w[:, [k]] * residual**2).sum() / (3 * w[:, k].sum() + 2.0)
        assert model.variances[k, 0] == pytest.approx(variance, rel=1e-6)


def test_gaussian_score_is_the_density_of_scipy():
    model, data, w = gaussian()
    model.m_step(data, w)
    found = model.log_likelihood(data)
    for k in range(K):
        mean = data.demos.design @ model.weights[k]
        scale = np.sqrt(model.variances[k][[0, 0, 1]])
        np.testing.assert_allclose(found[:, k], stats.norm.logpdf(data.demos.motions, mean, scale).sum(1))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_gaussian_m_step_never_lowers_its_objective(seed):
    model, data, w = gaussian(seed % 7)
    w = np.random.default_rng(seed).dirichlet(np.ones(K), data.demos.n_steps)

    def objective():
        return float((w * model.log_likelihood(data)).sum()) + model.log_prior()

    before = objective()
    for _ in range(3):
        model.m_step(data, w)
        after = objective()
        assert after >= before - 1e-9 * abs(before)
        before = after


def test_linear_design_recovers_a_linear_policy():
    rng = np.random.default_rng(3)
    demos = random_demonstrations(3, lengths=(400,), n_observations=1)
    x = rng.normal(size=(400, 2))
    truth = rng.normal(size=(2, 3))
    scaled = np.column_stack([np.ones(400), (x - x.mean(0)) / x.std(0)])
    motions = scaled @ truth.T + 0.01 * rng.normal(size=(400, 2))
    data = demos.with_commands(motions, linear_design(x, 2))
    contexts = demos.with_history(1)
    model = GaussianPolicies(1, 6, data.noise_blocks, TabularPolicies(1, demos.n_actions, contexts), noise=1e-4)
    prepared = Prepared.of(data, contexts)
    for _ in range(3):
        model.m_step(prepared, np.ones((400, 1)))
    np.testing.assert_allclose(model.weights[0].reshape(2, 3), truth, atol=0.01)


def test_gaussian_needs_commands(make_demos):
    model, _, _ = gaussian()
    demos = make_demos(0)
    with pytest.raises(InputError, match="Demonstrations"):
        model.log_likelihood(Prepared.of(demos, demos.with_history(1)))


@pytest.mark.parametrize("masked", [False, True])
def test_softmax_normalises_and_respects_valid_actions(masked):
    model, data, w = softmax(masked=masked)
    model.m_step(data, w)
    demos = data.demos
    policies = model.policies_along(data, np.arange(demos.n_steps))
    np.testing.assert_allclose(policies.sum(-1), 1.0)
    if masked:
        assert policies.transpose(0, 2, 1)[~demos.valid_actions[demos.states]].max() == 0.0
    taken = policies[np.arange(demos.n_steps), :, demos.actions]
    np.testing.assert_allclose(model.log_likelihood(data), np.log(taken))
    np.testing.assert_allclose(model.policies_at(np.arange(demos.n_states)).sum(-1), 1.0)


def test_softmax_reaches_the_optimum():
    model, data, w = softmax(steps=500)
    model.m_step(data, w)
    x = model._features(data.demos.observations.astype(float))
    taken = np.eye(3)[data.demos.actions]
    policies = model.policies_along(data, np.arange(data.demos.n_steps))
    for k in range(K):
        gradient = (w[:, [k]] * (policies[:, k] - taken)).T @ x + model.penalty * model.weights[k]
        assert np.abs(gradient).max() < 1e-2


def test_softmax_m_step_raises_the_objective_step_by_step():
    model, data, w = softmax(steps=2)
    values = []
    for _ in range(5):
        model.m_step(data, w)
        values.append(float((w * model.log_likelihood(data)).sum()) + model.log_prior())
    assert np.all(np.diff(values) > -1e-8)
    assert values[-1] > values[0]


def test_softmax_refuses_histories_and_other_widths(make_demos):
    demos = make_demos(0, n_observations=2)
    with pytest.raises(InputError, match="history"):
        SoftmaxPolicies(K, 3, 2, demos.with_history(2))
    model, _, _ = softmax()
    other = make_demos(0, n_observations=3)
    with pytest.raises(InputError, match="2 features"):
        model.log_likelihood(Prepared.of(other, Contexts(5)))


@pytest.mark.parametrize("build", [gaussian, softmax])
def test_state_comes_back(build):
    model, data, w = build()
    model.m_step(data, w)
    other, _, _ = build()
    other.load_state(model.state())
    np.testing.assert_array_equal(model.log_likelihood(data), other.log_likelihood(data))
    wrong = {name: value[:1] for name, value in model.state().items()}
    with pytest.raises(InputError, match="belong to other"):
        other.load_state(wrong)
