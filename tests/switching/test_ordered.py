"""Stages in order: no mass on other paths, exact inference, an M-step that keeps the order."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from prism_irl.data.batching import Prepared
from prism_irl.switching.networks import HistoryNetwork
from prism_irl.switching.optimiser import Optimiser
from prism_irl.switching.ordered import OrderedChain, OrderedRecurrentChain
from support import visited

K = 3


@pytest.fixture
def data(make_demos):
    demos = make_demos(0, lengths=(9, 12, 5))
    emission = torch.from_numpy(np.random.default_rng(0).normal(size=(demos.n_steps, K)))
    return Prepared.of(demos, demos.with_history(1)), emission


def brute_force(emission, kernel):
    """Posterior over all ordered paths of one trajectory, (T, K), and its log-likelihood."""
    T = len(emission)
    paths = [(i, j) for i in range(1, T + 1) for j in range(i, T + 1)]  # first steps of stages 1 and 2
    weights, labels = [], []
    for i, j in paths:
        z = np.array([0] * i + [1] * (j - i) + [2] * (T - j))
        moves = sum(np.log(kernel[a, b]) for a, b in pairwise(z))
        if np.isfinite(moves):
            weights.append(moves + emission[np.arange(T), z].sum())
            labels.append(z)
    weights, labels = np.array(weights), np.array(labels)
    total = np.logaddexp.reduce(weights)
    share = np.exp(weights - total)
    return np.stack([(share[:, None] * (labels == k)).sum(0) for k in range(K)], 1), total


def test_inference_equals_a_sum_over_all_ordered_paths(data):
    prepared, emission = data
    chain = OrderedChain(K)
    posterior = chain.expectation(prepared, emission)
    kernel = np.where(np.triu(np.tril(np.ones((K, K)), 1)) > 0, chain.kernel.numpy(), 0.0)
    for start, end in zip(prepared.demos.offsets[:-1], prepared.demos.offsets[1:], strict=True):
        with np.errstate(divide="ignore"):
            expected, total = brute_force(emission[start:end].numpy(), kernel)
        np.testing.assert_allclose(posterior.responsibilities[start:end], expected, atol=1e-9)
        assert posterior.log_likelihood[start:end].sum() == pytest.approx(total)


def test_m_step_keeps_the_order_and_raises_the_likelihood(data):
    prepared, emission = data
    chain = OrderedChain(K)
    likelihoods = []
    for _ in range(6):
        posterior = chain.expectation(prepared, emission)
        likelihoods.append(posterior.log_likelihood.mean())
        chain.update(chain.statistics(prepared, posterior))
    assert np.all(np.diff(likelihoods) > -1e-12)
    assert likelihoods[-1] > likelihoods[0]
    allowed = torch.ones(K, K).triu().tril(1).bool()
    assert chain.kernel[~allowed].max() < 1e-20
    np.testing.assert_allclose(chain.kernel.sum(-1), 1.0)
    assert chain.initial[0] == pytest.approx(1.0)


def test_recurrent_chain_never_leaves_the_order(data):
    prepared, emission = data
    torch.manual_seed(0)
    network = HistoryNetwork(
        "gru", n_states=5, n_actions=3, n_observations=0, n_outputs=K * K, embedding=4, hidden=4, observe="past"
    )
    chain = OrderedRecurrentChain(network, K, switch_penalty=0.0, optimiser=Optimiser(1e-2, 2, 1))
    before = chain.expectation(prepared, emission)
    for seed in range(15):
        visited(chain, prepared, emission, seed)
    after = chain.expectation(prepared, emission)
    assert after.log_likelihood.mean() > before.log_likelihood.mean()
    for batch in prepared.batches:
        path = chain.decode_batch(batch, prepared.gather(batch, emission))
        steps = path.diff(dim=1)[batch.mask[:, 1:]]
        assert steps.min() >= 0
        assert steps.max() <= 1
        assert (path[:, 0] == 0).all()
