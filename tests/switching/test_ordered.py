"""Stages in order: no mass on other paths, exact inference, an M-step that keeps the order."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from prism_irl.data.batching import Prepared, scatter
from prism_irl.switching.networks import HistoryNetwork, Optimiser
from prism_irl.switching.options import Ordered
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
    assert (chain.kernel[~allowed] == 0).all()
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


@pytest.mark.parametrize("kind", ["constant", "inputs", "recurrent"])
def test_no_episode_is_out_of_order_whatever_thirty_commands_say(make_demos, kind):
    demos = make_demos(0, lengths=(40, 3, 25, 60))
    rng = np.random.default_rng(1)
    demos = replace(demos, observations=rng.normal(size=(demos.n_steps, 2)).astype(np.float32))
    # densities of thirty numbers whose spreads differ: tens to hundreds of nats apart at every step
    emission = torch.from_numpy(
        rng.normal(size=(demos.n_steps, K)) * rng.choice([1.0, 80.0, 400.0], (demos.n_steps, 1))
    )
    prepared = Prepared.of(demos, demos.with_history(1))
    torch.manual_seed(0)
    chain = Ordered(recurrent=kind == "recurrent", inputs=kind == "inputs", hidden=4, embedding=4).build(K, demos)
    for seed in range(3):
        posterior = chain.expectation(prepared, emission)
        found = visited(chain, prepared, emission, seed)
        if kind != "recurrent":
            chain.update(chain.statistics(prepared, found))
    posterior = chain.expectation(prepared, emission)
    labels = chain.labels_of(posterior.responsibilities, demos.offsets)
    decoded = torch.zeros(demos.n_steps, dtype=torch.int64)
    for batch in prepared.batches:
        scatter(batch, chain.decode_batch(batch, prepared.gather(batch, emission)), decoded)
    for a, b in pairwise(demos.offsets):
        for path in (labels[a:b], decoded[a:b].numpy()):
            assert path[0] == 0
            assert set(np.diff(path)) <= {0, 1}
        for beliefs in (posterior.responsibilities, posterior.filtered, posterior.predicted):
            assert (beliefs[a, 1:] == 0).all()
            assert beliefs[a + 1, 2] == 0
    assert np.isfinite(posterior.responsibilities).all()


def test_stages_that_close_begin_again(make_demos):
    demos = make_demos(0, lengths=(12, 12))
    stage = np.tile(np.repeat([0, 1, 2], 2), 4)
    emission = torch.from_numpy(np.where(np.eye(K)[stage] > 0, 0.0, -5.0))
    prepared = Prepared.of(demos, demos.with_history(1))
    chain = OrderedChain(K, closing=True)
    for _ in range(3):
        posterior = chain.expectation(prepared, emission)
        chain.update(chain.statistics(prepared, posterior))
    np.testing.assert_array_equal(chain.labels_of(posterior.responsibilities, demos.offsets), stage)
    assert chain.kernel[0, 2] == chain.kernel[1, 0] == chain.kernel[2, 1] == 0
