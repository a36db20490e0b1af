"""Linear-Gaussian switching policies beside `dynamax`: same data, same parameters, same likelihood and posteriors.

The numbers were written by `dynamax` 1.0.3 (jax 0.10.2, 64 bits), in an environment of its own, with::

    hmm = LinearRegressionHMM(num_states=3, input_dim=3, emission_dim=2)
    params, _ = hmm.initialize(key, method="prior", initial_probs=INITIAL, transition_matrix=KERNEL,
                               emission_weights=WEIGHTS, emission_biases=BIASES, emission_covariances=COVARIANCES)
    hmm.smoother(params, y, x).marginal_loglik, .smoothed_probs; hmm.filter(params, y, x).filtered_probs

Its M-step has no prior, ours does, so that fits are not compared. Where `dynamax` is installed, it is asked again.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.rewards.linear import Basis, LinearPolicies
from prism_irl.switching.markov import MarkovChain

K, M, D, N, T = 3, 2, 3, 2, 12
INITIAL = np.array([0.5, 0.3, 0.2])
KERNEL = np.array([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.3, 0.1, 0.6]])
RNG = np.random.default_rng(0)
WEIGHTS, BIASES = RNG.normal(size=(K, M, D)).round(2), RNG.normal(size=(K, M)).round(2)
COVARIANCES = np.array([[[1.0, 0.3], [0.3, 0.5]], [[0.4, -0.1], [-0.1, 0.8]], [[0.6, 0.0], [0.0, 0.6]]])
X, Y = RNG.normal(size=(N, T, D)).round(2), RNG.normal(size=(N, T, M)).round(2)
LIKELIHOODS = [-54.27996363, -49.29480795]
SMOOTHED = [  # of the first trajectory
    [0.917326, 0.030552, 0.052121],
    [0.996309, 0.001703, 0.001988],
    [0.977583, 0.001869, 0.020548],
    [0.127232, 0.773783, 0.098985],
    [0.037213, 0.001162, 0.961625],
    [0.192410, 0.807590, 0.000000],
    [0.805770, 0.000000, 0.194230],
    [0.856142, 0.132432, 0.011426],
    [0.999999, 0.000001, 0.000000],
    [0.775913, 0.000001, 0.224086],
    [0.821931, 0.000000, 0.178068],
    [0.814598, 0.172398, 0.013004],
]
FILTERED = [
    [0.712635, 0.181328, 0.106037],
    [0.988571, 0.008136, 0.003293],
    [0.986730, 0.000469, 0.012801],
    [0.329201, 0.643331, 0.027468],
    [0.021997, 0.000206, 0.977798],
    [0.037272, 0.962728, 0.000000],
    [0.641491, 0.000000, 0.358509],
    [0.439936, 0.544407, 0.015657],
    [0.999999, 0.000001, 0.000000],
    [0.766502, 0.000002, 0.233496],
    [0.674200, 0.000000, 0.325800],
    [0.814598, 0.172398, 0.013004],
]


def ours():
    """Beliefs of our pair with these parameters."""
    demos = Demonstrations.continuous(X, Y)
    policies, chain = LinearPolicies(K, M, Basis(D), full=True), MarkovChain(K)
    policies.weights = np.concatenate([BIASES[..., None], WEIGHTS], axis=2)
    policies.covariances = COVARIANCES
    chain.initial.copy_(torch.from_numpy(INITIAL))
    chain.kernel.copy_(torch.from_numpy(KERNEL))
    data = Prepared.of(demos, Contexts(1))
    return chain.expectation(data, torch.from_numpy(policies.log_likelihood(data)))


def test_likelihood_and_posteriors_are_those_of_dynamax():
    found = ours()
    # Observations are kept in single precision here.
    np.testing.assert_allclose(found.log_likelihood.reshape(N, T).sum(axis=1), LIKELIHOODS, rtol=1e-6)
    np.testing.assert_allclose(found.responsibilities[:T], SMOOTHED, atol=2e-6)
    np.testing.assert_allclose(found.filtered[:T], FILTERED, atol=2e-6)


def test_the_same_where_dynamax_is_installed():
    pytest.importorskip("dynamax", exc_type=ImportError)
    import jax
    from dynamax.hidden_markov_model import LinearRegressionHMM

    hmm = LinearRegressionHMM(num_states=K, input_dim=D, emission_dim=M)
    given = {"initial_probs": INITIAL, "transition_matrix": KERNEL, "emission_weights": WEIGHTS}
    given |= {"emission_biases": BIASES, "emission_covariances": COVARIANCES}
    arrays = {name: jax.numpy.array(value) for name, value in given.items()}
    params, _ = hmm.initialize(jax.random.PRNGKey(0), method="prior", **arrays)
    found = ours()
    for i in range(N):
        theirs = hmm.smoother(params, jax.numpy.array(Y[i]), jax.numpy.array(X[i]))
        here = slice(i * T, (i + 1) * T)
        assert float(theirs.marginal_loglik) == pytest.approx(found.log_likelihood[here].sum(), rel=1e-4)
        np.testing.assert_allclose(np.asarray(theirs.smoothed_probs), found.responsibilities[here], atol=1e-3)
