"""The fused recurrence equals nn.RNN and nn.GRU: outputs, gradients, ragged ends, and its own memory."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.batching import pad_batch
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.switching.networks import HistoryNetwork

every_network = pytest.mark.parametrize("name", ["rnn", "gru"])
quick = settings(deadline=None, max_examples=15)


def a_batch(lengths, n_states=7, n_actions=3, n_observations=0, seed=0):
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    observations = rng.normal(size=(n, n_observations)).astype(np.float32) if n_observations else None
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    demos = Demonstrations(
        rng.integers(0, n_states, n),
        rng.integers(0, n_actions, n),
        offsets,
        n_states,
        n_actions,
        observations=observations,
    )
    return pad_batch(demos, np.argsort(lengths, kind="stable"))


def a_network(name, *, hidden=16, n_states=7, n_actions=3, n_observations=0, **options):
    torch.manual_seed(0)
    return HistoryNetwork(
        name,
        n_states=n_states,
        n_actions=n_actions,
        n_observations=n_observations,
        n_outputs=5,
        embedding=8,
        hidden=hidden,
        observe="past",
        **options,
    )


def outputs_and_gradients(network, batch, backend, monkeypatch):
    monkeypatch.setenv("PRISM_BACKEND", backend)
    network.zero_grad(set_to_none=True)
    weights = torch.randn(*batch.mask.shape, 5, generator=torch.Generator().manual_seed(1))
    outputs = network(batch)
    ((outputs * weights).tanh() * batch.mask.unsqueeze(-1)).sum().backward()
    gradients = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
    return outputs.detach()[batch.mask], gradients


def assert_equal(network, batch, monkeypatch):
    expected, slow = outputs_and_gradients(network, batch, "torch", monkeypatch)
    found, fast = outputs_and_gradients(network, batch, "", monkeypatch)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert fast.keys() == slow.keys()
    scale = max(float(gradient.abs().max()) for gradient in slow.values())
    for name, gradient in slow.items():
        torch.testing.assert_close(fast[name], gradient, rtol=1e-5, atol=1e-5 * scale, msg=name)


@every_network
@pytest.mark.parametrize("hidden", [16, 6, 1])
def test_outputs_and_gradients_equal_torch(name, hidden, monkeypatch):
    """Hidden sizes that are no multiple of the four rows of the kernel, and blocks that are not full."""
    assert_equal(a_network(name, hidden=hidden), a_batch([9, 30, 4, 17, 1, 22, 8]), monkeypatch)


@every_network
@pytest.mark.parametrize(
    "options",
    [
        {"interaction": True},  # pairs of states and actions as a table
        {"interaction": True, "n_states": 40},  # too many pairs for a table: embedded steps are projected
        {"n_states": 500},  # more states than steps
        {"n_observations": 2},
        {"n_observations": 2, "interaction": True},
    ],
)
def test_every_way_of_projecting_inputs(name, options, monkeypatch):
    sizes = {key: value for key, value in options.items() if key != "interaction"}
    assert_equal(a_network(name, **options), a_batch([12, 30, 5, 20, 9], **sizes), monkeypatch)


@quick
@given(lengths=st.lists(st.integers(1, 25), min_size=1, max_size=9), seed=st.integers(0, 1000))
def test_any_shape(lengths, seed):
    with pytest.MonkeyPatch.context() as patch:
        assert_equal(a_network("rnn"), a_batch(lengths, seed=seed), patch)


@every_network
def test_a_trajectory_does_not_depend_on_its_mates(name, monkeypatch):
    monkeypatch.setenv("PRISM_BACKEND", "")
    network, batch = a_network(name), a_batch([9, 30, 4, 17, 1, 22, 8])
    together = network(batch)
    for b in range(len(batch.mask)):
        n = int(batch.mask[b].sum())
        parts = {field: getattr(batch, field)[b : b + 1, :n] for field in ("states", "actions", "previous", "mask")}
        torch.testing.assert_close(network(batch._replace(**parts))[0], together[b, :n], rtol=1e-5, atol=1e-6)


def test_memory_that_is_reused_is_not_in_use(monkeypatch):
    """Two forward passes before either backward pass must not share hidden states."""
    monkeypatch.setenv("PRISM_BACKEND", "")
    network, one, other = a_network("rnn"), a_batch([20, 20], seed=1), a_batch([20, 20], seed=2)

    def gradient(*batches):
        network.zero_grad(set_to_none=True)
        losses = [(network(batch) ** 2).sum() for batch in batches]
        for loss in losses:
            loss.backward()
        return network.core.core.weight_hh_l0.grad.clone()

    torch.testing.assert_close(gradient(one, other), gradient(one) + gradient(other))


def test_the_row_of_unknown_states_never_moves(monkeypatch):
    monkeypatch.setenv("PRISM_BACKEND", "")
    network, batch = a_network("rnn"), a_batch([20, 15])
    unknown = batch._replace(states=torch.full_like(batch.states, 7))
    network(unknown).sum().backward()
    assert not network.tokens.states.weight.grad[7].any()
    assert network.core.core.weight_hh_l0.grad.any()


def test_a_state_outside_the_table_is_refused(monkeypatch):
    monkeypatch.setenv("PRISM_BACKEND", "")
    network, batch = a_network("rnn"), a_batch([20, 15])
    for state in (8, -1):
        with pytest.raises(IndexError):
            network(batch._replace(states=torch.full_like(batch.states, state)))


def test_weights_that_change_before_the_backward_pass_are_noticed(monkeypatch):
    monkeypatch.delenv("PRISM_BACKEND", raising=False)
    network = a_network("rnn")
    outputs = network(a_batch([4, 3]))
    with torch.no_grad():
        network.core.core.weight_hh_l0.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()
