"""Gradients of the gate without autograd's graph: equal to those with it."""

import numpy as np
import pytest
import torch

from prism_irl.data.batching import pad_batch
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.switching.gate import gate_loss
from prism_irl.switching.inference.dispatch import gate_gradient, responsibilities
from prism_irl.switching.networks import HistoryNetwork

pytest.importorskip("numba", reason="needs numba (extra: fast)")
A = 3


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.delenv("PRISM_BACKEND", raising=False)


def one_batch(lengths, n_states=7, seed=0):
    rng = np.random.default_rng(seed)
    states = [rng.integers(0, n_states, n) for n in lengths]
    actions = [rng.integers(0, A, n) for n in lengths]
    demos = Demonstrations.from_arrays(states, actions, n_states=n_states, n_actions=A)
    return pad_batch(demos, np.argsort(lengths, kind="stable"))


def a_network(name, n_states=7, **options):
    torch.manual_seed(1)
    settings = {"n_observations": 0, "n_outputs": 3, "embedding": 16, "hidden": 12, "observe": "current", **options}
    return HistoryNetwork(name, n_states=n_states, n_actions=A, **settings)


@pytest.mark.parametrize(("l1", "kl"), [(0.0, 0.0), (0.7, 0.0), (0.0, 0.4), (0.3, 0.2)])
def test_the_gradient_of_the_loss_is_that_of_autograd(l1, kl):
    batch, K = one_batch([9, 1, 4]), 3
    logits = torch.randn(*batch.mask.shape, K, generator=torch.Generator().manual_seed(0))
    emission = torch.log(torch.rand(14, K, dtype=torch.float64))
    weights, likelihood = torch.zeros(14, K, dtype=torch.float64), torch.zeros(14, dtype=torch.float64)
    gradient = gate_gradient(logits, batch, emission, weights, likelihood, l1, kl, True)
    leaf = logits.clone().requires_grad_()
    gate_loss(torch.log_softmax(leaf, -1), weights[batch.steps].float(), batch.mask, l1, kl).backward()
    torch.testing.assert_close(gradient, leaf.grad, rtol=1e-5, atol=1e-7)
    assert (gradient[~batch.mask] == 0).all()


def test_posteriors_are_written_where_the_steps_are():
    batch, K = one_batch([5, 8]), 2
    logits = torch.randn(*batch.mask.shape, K, generator=torch.Generator().manual_seed(0))
    emission = torch.log(torch.rand(13, K, dtype=torch.float64))
    emission[3] = -torch.inf  # an action that nobody can explain is no evidence
    emission[4, 0] = -torch.inf
    weights, likelihood = torch.zeros(13, K, dtype=torch.float64), torch.zeros(13, dtype=torch.float64)
    gate_gradient(logits, batch, emission, weights, likelihood, 0.0, 0.0, True)
    expected, of_steps = responsibilities(logits, emission[batch.steps])
    torch.testing.assert_close(weights[batch.steps][batch.mask], expected[batch.mask], rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(likelihood[batch.steps][batch.mask], of_steps[batch.mask], rtol=1e-6, atol=1e-7)
    assert torch.isneginf(likelihood).nonzero().tolist() == [[3]]


def test_later_epochs_keep_the_posteriors():
    batch, K = one_batch([6]), 2
    weights = torch.rand(6, K, dtype=torch.float64)
    kept, likelihood = weights.clone(), torch.full((6,), -1.5, dtype=torch.float64)
    gate_gradient(
        torch.randn(1, 6, K), batch, torch.zeros(6, K, dtype=torch.float64), weights, likelihood, 0.1, 0.1, False
    )
    torch.testing.assert_close(weights, kept, rtol=0, atol=0)
    assert (likelihood == -1.5).all()


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("n_states", [7, 300])  # the whole table is projected, or the rows that are present
def test_gradients_of_all_parameters_are_those_of_autograd(name, n_states):
    network, batch = a_network(name, n_states), one_batch([9, 3, 6, 1, 8], n_states)
    batch.states[0, 2] = n_states  # a state that the fit never named
    push = torch.randn(*batch.mask.shape, 3, generator=torch.Generator().manual_seed(2)) * batch.mask.unsqueeze(-1)
    outputs = network(batch)
    outputs.backward(push)
    expected = {key: value.grad.clone() for key, value in network.named_parameters()}
    ran = network.by_hand(batch)
    torch.testing.assert_close(ran.logits[batch.mask], outputs.detach()[batch.mask])
    network.zero_grad(set_to_none=True)
    ran.backward(push)
    for key, value in network.named_parameters():
        torch.testing.assert_close(
            value.grad, expected[key], rtol=1e-5, atol=1e-6, msg=lambda text, key=key: key + text
        )
    assert (network.tokens.states.weight.grad[-1] == 0).all()


@pytest.mark.parametrize(
    ("name", "options"),
    [("transformer", {}), ("rnn", {"interaction": True, "observe": "past"}), ("rnn", {"n_observations": 2})],
)
def test_other_networks_are_left_to_autograd(name, options):
    assert a_network(name, **options).by_hand(one_batch([4, 4])) is None


def test_torch_can_be_asked_for(monkeypatch):
    monkeypatch.setenv("PRISM_BACKEND", "torch")
    assert a_network("rnn").by_hand(one_batch([4, 4])) is None
