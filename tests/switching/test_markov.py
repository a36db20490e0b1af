"""Chains over intentions: exact gradients, closed-form updates, and streaming."""

import numpy as np
import pytest
import torch
from hmmlearn.hmm import CategoricalHMM

from prism_irl import em
from prism_irl.data.batching import Parts, Prepared, gather
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.switching.forward_backward import forward, forward_backward
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.networks import HistoryNetwork, Optimiser
from prism_irl.switching.recurrent import RecurrentChain
from support import visited

NAMES = ("rnn", "lstm", "gru", "transformer")
S, A, K, M = 5, 3, 3, 2

every_network = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def data(make_demos):
    return Prepared.of(make_demos(n_states=S, n_actions=A), Contexts(S))


@pytest.fixture(scope="module")
def policies():
    """π_k(a|s), (S, K, A)."""
    return torch.from_numpy(np.random.default_rng(1).dirichlet(np.ones(A), (S, K)))


@pytest.fixture(scope="module")
def emission(data, policies):
    states, actions = data.demos.states.astype(int), data.demos.actions.astype(int)
    return policies[states, :, actions].log()


def recurrent(name="rnn", *, n_observations=0, switch_penalty=0.0, head_scale=1.0, **optimiser) -> RecurrentChain:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        network = HistoryNetwork(
            name,
            n_states=S,
            n_actions=A,
            n_observations=n_observations,
            n_outputs=K * K,
            embedding=8,
            hidden=6,
            observe="past",
            head_scale=head_scale,
            interaction=True,
        )
        chain = RecurrentChain(network, K, switch_penalty=switch_penalty, optimiser=Optimiser(**optimiser))
        with torch.no_grad():
            chain.initial_logits.normal_()
    return chain.double()


def markov(seed=0) -> MarkovChain:
    rng = np.random.default_rng(seed)
    chain = MarkovChain(K)
    chain.initial.copy_(torch.from_numpy(rng.dirichlet(np.full(K, 5.0))))
    chain.kernel.copy_(torch.from_numpy(rng.dirichlet(np.full(K, 5.0), K)))
    return chain


def chains(name):
    return markov() if name == "markov" else recurrent(name)


# -- recurrent switching -----------------------------------------------------------------------------------------------


@every_network
@pytest.mark.parametrize("penalty", [0.0, 0.7])
def test_gradient_of_the_loss_is_that_of_the_true_log_marginal(name, penalty, data, emission):
    chain = recurrent(name, switch_penalty=penalty)
    (batch,) = data.batches
    log_emission = gather(batch, emission)
    chain.loss(batch, log_emission)[0].backward()
    found = [parameter.grad.clone() for parameter in chain.parameters()]

    chain.zero_grad()
    kernel = chain.log_kernel(batch)
    log_marginal = forward(chain.log_initial(), kernel, log_emission)[2][batch.mask].sum()
    off_diagonal = (kernel.exp() * (1 - torch.eye(K))).sum((-1, -2)) / K
    (-log_marginal / batch.n_steps + penalty * off_diagonal[batch.mask].mean()).backward()
    for gradient, (parameter_name, parameter) in zip(found, chain.named_parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-8, atol=1e-12, msg=parameter_name)
    assert all(gradient.abs().max() > 1e-6 for gradient in found)


def test_m_step_raises_the_likelihood(data, emission):
    chain = recurrent(learning_rate=0.01, batch_size=3, epochs=2)
    before = chain.expectation(data, emission)
    visited(chain, data, emission, 0)
    assert chain.expectation(data, emission).log_likelihood.mean() > before.log_likelihood.mean() + 1e-3


def test_switch_penalty_makes_intentions_last(data, emission):
    def switching_mass(penalty):
        chain = recurrent(learning_rate=0.01, batch_size=100, epochs=40, switch_penalty=penalty)
        visited(chain, data, emission, 0)
        return 1 - np.diag(chain.expectation(data, emission).transitions).sum() / data.demos.n_steps

    assert switching_mass(5.0) < 0.5 * switching_mass(0.0)


@every_network
def test_take_over_reproduces_the_markov_chain_when_the_head_is_silent(name, data, emission):
    chain, successor = markov(), recurrent(name, head_scale=0.0)
    successor.take_over(chain)
    expected, found = chain.expectation(data, emission), successor.expectation(data, emission)
    assert set(expected[5:]) == set(found[5:]) == {None}  # neither phases nor states
    for one, other in zip(expected[:5], found[:5], strict=True):
        np.testing.assert_allclose(other, one, atol=1e-12)


def test_take_over_revives_entries_that_are_nearly_zero(data, emission):
    chain, successor = markov(), recurrent(head_scale=0.0)
    kernel = [[1 - 2e-12, 1e-12, 1e-12], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]
    chain.kernel.copy_(torch.tensor(kernel, dtype=torch.float64))
    successor.take_over(chain)
    found = successor.log_kernel(data.batches[0])[0, 0].exp()
    assert found.min() > 9e-4
    torch.testing.assert_close(found[1:], chain.kernel[1:], rtol=1e-9, atol=0)


def test_kernels_are_normalised_in_double_precision(data):
    chain = recurrent().float()
    with torch.no_grad():
        total = chain.log_kernel(data.batches[0]).exp().sum(-1)
        torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-14)
        assert abs(chain.log_initial().exp().sum() - 1) < 1e-14


@every_network
def test_the_kernel_never_sees_the_current_action(name, data):
    chain = recurrent(name)
    (batch,) = data.batches
    with torch.no_grad():
        before = chain.log_kernel(batch)
        after = chain.log_kernel(batch._replace(actions=(batch.actions + 1) % A))
    assert torch.equal(before, after)


def test_observation_vectors_move_the_kernel(make_demos):
    data = Prepared.of(make_demos(n_states=S, n_actions=A, n_observations=M), Contexts(S))
    chain = recurrent(n_observations=M).float()
    (batch,) = data.batches
    with torch.no_grad():
        before = chain.log_kernel(batch)
        after = chain.log_kernel(batch._replace(observations=batch.observations + 1))
    assert ((before - after).abs().amax((-1, -2)) > 1e-4)[batch.mask].all()


# -- Markov chain ------------------------------------------------------------------------------------------------------


def test_markov_m_step_is_the_expected_counts_normalised(data, emission):
    chain = markov()
    posterior = chain.expectation(data, emission)
    (batch,) = data.batches
    initial, counts = np.zeros(K), np.zeros((K, K))
    result = forward_backward(chain.initial.log(), chain.log_kernel(batch), gather(batch, emission), batch.mask)
    for b, T in enumerate(batch.mask.sum(1).tolist()):
        initial += result.smoothed[b, 0].exp().numpy()
        for t in range(1, T):
            counts += result.pairwise[b, t].numpy()
    chain.update(chain.statistics(data, posterior))
    np.testing.assert_allclose(chain.initial, initial / initial.sum(), rtol=1e-8)
    np.testing.assert_allclose(chain.kernel, counts / counts.sum(1, keepdims=True), rtol=1e-8)


def test_an_intention_that_is_never_used_keeps_a_finite_kernel(data):
    chain = markov()
    emission = torch.full((data.demos.n_steps, K), -1.0, dtype=torch.float64)
    emission[:, 2] = -torch.inf
    for _ in range(5):
        chain.update(chain.statistics(data, chain.expectation(data, emission, online=False)))
    assert torch.isfinite(chain.log_kernel(data.batches[0])).all()
    assert torch.isfinite(chain.log_initial()).all()
    assert np.isfinite(chain.expectation(data, emission).responsibilities).all()


def test_baum_welch_equals_hmmlearn():
    """One state makes policies categorical emissions: five iterations of both give the same model."""
    rng = np.random.default_rng(3)
    lengths = (20, 1, 33, 12)
    actions = [rng.integers(A, size=length) for length in lengths]
    demos = Demonstrations.from_arrays([np.zeros(len(a), int) for a in actions], actions, n_actions=A)
    contexts = Contexts(1)
    data = Prepared.of(demos, contexts)
    chain, rewards = markov(), TabularPolicies(K, A, contexts, smoothing=0.0)
    rewards.policies = rng.dirichlet(np.ones(A), (K, 1))
    oracle = CategoricalHMM(K, n_iter=5, tol=-np.inf, init_params="", params="ste")
    oracle.startprob_, oracle.transmat_ = chain.initial.numpy().copy(), chain.kernel.numpy().copy()
    oracle.emissionprob_ = rewards.policies[:, 0].copy()
    oracle.fit(np.concatenate(actions)[:, None], lengths)

    for _ in range(5):
        em.em_iteration(chain, rewards, Parts(data))
    np.testing.assert_allclose(chain.initial, oracle.startprob_, atol=1e-8)
    np.testing.assert_allclose(chain.kernel, oracle.transmat_, atol=1e-8)
    np.testing.assert_allclose(rewards.policies[:, 0], oracle.emissionprob_, atol=1e-8)


# -- all chains --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["markov", *NAMES])
def test_stream_equals_batch(name, data, emission, policies):
    chain = chains(name)
    posterior = chain.expectation(data, emission)
    proba = chain.action_proba(data, emission, lambda batch: policies[batch.states])
    demos = data.demos
    for i in range(len(demos)):
        stream = chain.stream()
        for t in range(demos.offsets[i], demos.offsets[i + 1]):
            state, action = torch.tensor([int(demos.states[t])]), torch.tensor([int(demos.actions[t])])
            joint = stream.joint(state, policies[state])
            np.testing.assert_allclose(joint.sum(2)[0], posterior.predicted[t], atol=1e-12)
            np.testing.assert_allclose(joint.sum(1)[0], proba[t], atol=1e-12)
            filtered = stream.update(action, emission[t : t + 1])
            np.testing.assert_allclose(filtered[0], posterior.filtered[t], atol=1e-12)


@pytest.mark.parametrize("name", ["markov", "gru"])
def test_decoded_path_has_the_highest_joint_probability(name, data, emission):
    chain = chains(name)
    (batch,) = data.batches
    log_emission = gather(batch, emission)
    path = chain.decode_batch(batch, log_emission)
    with torch.no_grad():
        initial, kernel = chain.log_initial(), chain.log_kernel(batch)
    b, T = (int(x) for x in (batch.mask.sum(1).argmax(), batch.mask.sum(1).max()))

    def log_joint(z):
        return (
            initial[z[0]]
            + sum(kernel[b, t, z[t - 1], z[t]] for t in range(1, T))
            + sum(log_emission[b, t, z[t]] for t in range(T))
        )

    best = log_joint(path[b, :T])
    for t in range(T):
        for k in range(K):
            other = path[b, :T].clone()
            other[t] = k
            assert log_joint(other) <= best + 1e-12
