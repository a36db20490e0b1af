"""The independent gate: Eq. (posterior) and Eq. (loss) of the paper, written out in loops."""

import math

import numpy as np
import pytest
import torch

from prism_irl.data.batching import Prepared, gather
from prism_irl.data.contexts import Contexts
from prism_irl.switching.gate import Gate, gate_loss
from prism_irl.switching.networks import HistoryNetwork, Optimiser
from support import visited

NAMES = ("rnn", "lstm", "gru", "transformer")
S, A, K, M = 5, 3, 2, 2

every_network = pytest.mark.parametrize("name", NAMES)
both_gates = pytest.mark.parametrize("observe", ["past", "current"])


@pytest.fixture(scope="module")
def data(make_demos):
    demos = make_demos(n_states=S, n_actions=A, n_observations=M)
    return Prepared.of(demos, Contexts(S))


@pytest.fixture(scope="module")
def policies():
    """π_k(a|s), (S, K, A)."""
    return torch.from_numpy(np.random.default_rng(1).dirichlet(np.ones(A), (S, K)))


@pytest.fixture(scope="module")
def emission(data, policies):
    states, actions = data.demos.states.astype(int), data.demos.actions.astype(int)
    return policies[states, :, actions].log()


def make_gate(name="rnn", observe="past", *, l1=0.0, kl=0.0, n_observations=M, **optimiser) -> Gate:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        network = HistoryNetwork(
            name,
            n_states=S,
            n_actions=A,
            n_observations=n_observations,
            n_outputs=K,
            embedding=8,
            hidden=6,
            observe=observe,
        )
    return Gate(network, K, l1=l1, kl=kl, optimiser=Optimiser(**optimiser))


# -- Eq. (loss) --------------------------------------------------------------------------------------------------------


def naive_loss(gates, weights, lengths, l1, kl):
    """Eq. (loss), term by term; f, w are lists of (n, K) per trajectory."""
    total = 0.0
    for f, w, n in zip(gates, weights, lengths, strict=True):
        intentions = range(len(f[0]))
        nll = -sum(w[i][k] * math.log(f[i][k]) for i in range(n) for k in intentions)
        jumps = sum(w[i][k] * abs(f[i][k] - f[i - 1][k]) for i in range(1, n) for k in intentions)
        drift = sum(f[i - 1][k] * math.log(f[i - 1][k] / f[i][k]) for i in range(1, n) for k in intentions)
        total += nll + l1 * jumps + kl * drift
    return total / len(lengths)


def random_gates(lengths, seed=0):
    rng = np.random.default_rng(seed)
    T = max(lengths)
    gates, weights = rng.dirichlet(np.ones(3), (2, len(lengths), T))  # with K = 2 the weights of L_l1 cancel
    mask = torch.arange(T) < torch.tensor(lengths).unsqueeze(1)
    return torch.from_numpy(gates), torch.from_numpy(weights), mask


@pytest.mark.parametrize("lengths", [(6, 1, 3, 6, 2), (1, 1), (4,)], ids=str)
@pytest.mark.parametrize(("l1", "kl"), [(0, 0), (2.22, 0), (0, 1.48), (2.22, 1.48)])
def test_loss_equals_the_equation(lengths, l1, kl):
    gates, weights, mask = random_gates(lengths)
    expected = naive_loss(gates.tolist(), weights.tolist(), lengths, l1, kl)
    torch.testing.assert_close(gate_loss(gates.log(), weights, mask, l1, kl).item(), expected, rtol=1e-12, atol=0)


def test_loss_never_reaches_across_the_end_of_a_trajectory():
    lengths = (6, 1, 3)
    gates, weights, mask = random_gates(lengths)
    other_gates, other_weights, _ = random_gates(lengths, seed=1)
    log_gate = torch.where(mask.unsqueeze(-1), gates, other_gates).log().requires_grad_()
    other = torch.where(mask.unsqueeze(-1), weights, other_weights)
    loss = gate_loss(log_gate, other, mask, 2.22, 1.48)
    torch.testing.assert_close(loss.detach(), gate_loss(gates.log(), weights, mask, 2.22, 1.48), rtol=0, atol=0)
    loss.backward()
    assert (log_gate.grad[~mask] == 0).all()
    assert (log_gate.grad[mask] != 0).all()


# -- Eq. (posterior) ---------------------------------------------------------------------------------------------------


@every_network
@both_gates
@torch.no_grad()
def test_posterior_equals_the_equation(name, observe, data, emission):
    gate = make_gate(name, observe)
    posterior = gate.expectation(data, emission)
    (batch,) = data.batches
    f = torch.softmax(gate.network(batch).double(), -1)[batch.mask].numpy()
    pi = gather(batch, emission).exp()[batch.mask].numpy()
    steps = batch.steps[batch.mask].numpy()
    for t, f_t, pi_t in zip(steps, f, pi, strict=True):
        joint = [f_t[k] * pi_t[k] for k in range(K)]
        np.testing.assert_allclose(posterior.predicted[t], f_t, rtol=1e-12)
        np.testing.assert_allclose(posterior.responsibilities[t], np.array(joint) / sum(joint), rtol=1e-12)
        np.testing.assert_allclose(posterior.log_likelihood[t], math.log(sum(joint)), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(posterior.filtered, posterior.responsibilities)
    assert posterior.transitions is None


@torch.no_grad()
def test_an_impossible_action_teaches_nothing(data, emission):
    impossible = emission.clone()
    impossible[3] = -torch.inf
    gate = make_gate()
    posterior = gate.expectation(data, impossible)
    assert posterior.log_likelihood[3] == -np.inf
    np.testing.assert_allclose(posterior.responsibilities[3], posterior.predicted[3], rtol=1e-12)


@both_gates
@torch.no_grad()
def test_observation_vectors_are_read(observe, data, emission):
    gate = make_gate(observe=observe)
    (batch,) = data.batches
    before = gate.log_gate(batch)
    after = gate.log_gate(batch._replace(observations=batch.observations + 1))
    assert ((before - after).abs().amax(-1) > 1e-4)[batch.mask].all()


# -- predictive distribution -------------------------------------------------------------------------------------------


@every_network
@both_gates
@torch.no_grad()
def test_predictive_distribution(name, observe, data, emission, policies):
    """Σ_k f_k π_k(a), with f evaluated for the very action a when the gate reads it, and normalised."""
    gate = make_gate(name, observe)
    proba = gate.action_proba(data, emission, lambda batch: policies[batch.states])
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-12)
    (batch,) = data.batches
    T = batch.states.shape[1]
    scores = torch.zeros(*batch.states.shape, A, dtype=torch.float64)
    for t in range(T):
        for a in range(A):
            actions = batch.actions.clone()
            actions[:, t] = a
            previous = torch.cat([batch.previous[:, :1], actions[:, :-1]], 1)
            f = torch.softmax(gate.network(batch._replace(actions=actions, previous=previous)).double(), -1)[:, t]
            scores[:, t, a] = (f * policies[batch.states[:, t], :, a]).sum(-1)
    total = scores.sum(-1, keepdim=True)
    deviation = (total.squeeze(-1)[batch.mask] - 1).abs().max()
    assert gate.normalised == (observe == "past") == bool(deviation < 1e-6)
    expected = scores / total
    np.testing.assert_allclose(proba[batch.steps[batch.mask]], expected[batch.mask], atol=1e-6)


@every_network
@both_gates
def test_stream_equals_batch(name, observe, data, emission, policies):
    gate = make_gate(name, observe)
    posterior = gate.expectation(data, emission)
    proba = gate.action_proba(data, emission, lambda batch: policies[batch.states])
    demos = data.demos
    for i in range(len(demos)):
        stream = gate.stream()
        for t in range(demos.offsets[i], demos.offsets[i + 1]):
            state, action = torch.tensor([int(demos.states[t])]), torch.tensor([int(demos.actions[t])])
            joint = stream.joint(state, policies[state], torch.from_numpy(demos.observations[t : t + 1]))
            np.testing.assert_allclose(joint.sum(), 1, rtol=1e-12)
            np.testing.assert_allclose(joint.sum(1)[0], proba[t], atol=1e-6)
            filtered = stream.update(action, emission[t : t + 1])
            np.testing.assert_allclose(filtered[0], posterior.filtered[t], atol=1e-6)


# -- M-step ------------------------------------------------------------------------------------------------------------


@both_gates
def test_m_step_is_adam_on_the_equation(observe, data, emission):
    settings = {"learning_rate": 0.01, "batch_size": 100, "epochs": 3}
    gate, other = (make_gate("rnn", observe, l1=0.5, kl=0.3, **settings) for _ in range(2))
    posterior = visited(gate, data, emission, 0)
    adam = torch.optim.Adam(other.network.parameters(), lr=0.01)
    (batch,) = data.batches
    weights = gather(batch, torch.from_numpy(posterior.responsibilities).float())
    losses = []
    for _ in range(3):
        adam.zero_grad()
        loss = gate_loss(other.log_gate(batch), weights, batch.mask, 0.5, 0.3)
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    for found, expected in zip(gate.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_minibatches_depend_on_the_seed_alone(data, emission):
    def trained(seed):
        gate = make_gate(batch_size=1)
        visited(gate, data, emission, seed)
        return torch.cat([parameter.detach().flatten() for parameter in gate.parameters()])

    assert torch.equal(trained((0, 1, 2)), trained((0, 1, 2)))
    assert not torch.equal(trained((0, 1, 2)), trained((0, 1, 3)))


def test_training_state_continues_adam_exactly(data, emission):
    straight = make_gate(batch_size=3)
    for seed in range(4):
        visited(straight, data, emission, seed)
    stopped = make_gate(batch_size=3)
    for seed in range(2):
        visited(stopped, data, emission, seed)
    resumed = make_gate(batch_size=3)
    resumed.load_state_dict(stopped.state_dict())
    resumed.load_training_state({name: value.clone() for name, value in stopped.training_state().items()})
    for seed in range(2, 4):
        visited(resumed, data, emission, seed)
    for found, expected in zip(resumed.parameters(), straight.parameters(), strict=True):
        assert torch.equal(found, expected)
