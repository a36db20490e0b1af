"""Incremental EM: responsibilities from the pass that trains; and forward–backward on flat data."""

import numpy as np
import pytest
import torch

from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.switching.gate import Gate
from prism_irl.switching.inference import infer_flat, responsibilities
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.networks import HistoryNetwork, Optimiser
from prism_irl.switching.recurrent import RecurrentChain
from support import visited

K = 2


@pytest.fixture(scope="module")
def data(make_demos):
    return Prepared.of(make_demos(lengths=(14, 3, 9, 20, 7, 11)), Contexts(5))


@pytest.fixture(scope="module")
def emission(data):
    return torch.from_numpy(np.log(np.random.default_rng(0).uniform(0.05, 1, (data.demos.n_steps, K))))


def learned(kind, data, **settings):
    torch.manual_seed(0)
    network = HistoryNetwork(
        "rnn",
        n_states=data.demos.n_states,
        n_actions=data.demos.n_actions,
        n_observations=0,
        n_outputs=K if kind == "gate" else K * K,
        embedding=4,
        hidden=4,
        observe="past",
    )
    optimiser = Optimiser(**{"learning_rate": 0.02, "batch_size": 2, **settings})
    if kind == "gate":
        return Gate(network, K, l1=0.2, kl=0.1, optimiser=optimiser)
    return RecurrentChain(network, K, switch_penalty=0.1, optimiser=optimiser)


both = pytest.mark.parametrize("kind", ["gate", "recurrent"])


def parameters(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@both
def test_one_minibatch_is_a_separate_e_step(kind, data, emission):
    """With all data in one minibatch the pass evaluates everything with the parameters before it."""
    together, apart = (learned(kind, data, batch_size=100) for _ in range(2))
    seen = visited(together, data, emission, 0)
    posterior = apart.expectation(data, emission)
    np.testing.assert_allclose(seen.responsibilities, posterior.responsibilities, atol=1e-6)
    np.testing.assert_allclose(seen.log_likelihood, posterior.log_likelihood, atol=1e-6)


@both
def test_each_minibatch_is_evaluated_with_the_parameters_it_meets(kind, data, emission):
    model, replay = learned(kind, data), learned(kind, data)
    seen = visited(model, data, emission, 3)
    for batch in replay.optimiser.minibatches(data, 3):
        posterior = replay.expectation(data, emission)
        steps = batch.steps[batch.mask].numpy()
        np.testing.assert_allclose(seen.responsibilities[steps], posterior.responsibilities[steps], atol=1e-5)
        np.testing.assert_allclose(seen.log_likelihood[steps], posterior.log_likelihood[steps], atol=1e-5)
        if kind == "gate":
            from prism_irl.switching.gate import gate_loss

            w = data.gather(batch, torch.from_numpy(posterior.responsibilities)).float()
            loss = gate_loss(replay.log_gate(batch), w, batch.mask, replay.l1, replay.kl)
        else:
            loss, _ = replay.loss(batch, data.gather(batch, emission))
        replay.optimiser.step(loss)
    torch.testing.assert_close(parameters(model), parameters(replay), rtol=0, atol=1e-5)


@both
def test_both_backends_agree(kind, data, emission, monkeypatch):
    found = {}
    for backend in ("", "torch"):
        monkeypatch.setenv("PRISM_BACKEND", backend)
        model = learned(kind, data)
        found[backend] = [visited(model, data, emission, seed).log_likelihood.mean() for seed in range(3)]
    np.testing.assert_allclose(found[""], found["torch"], rtol=1e-5)


def test_further_epochs_keep_the_responsibilities_of_the_gate(data, emission):
    once, often = learned("gate", data, batch_size=100), learned("gate", data, batch_size=100, epochs=3)
    first, kept = visited(once, data, emission, 0), visited(often, data, emission, 0)
    np.testing.assert_array_equal(first.responsibilities, kept.responsibilities)
    assert not torch.equal(parameters(once), parameters(often))


# -- flat forward–backward ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("impossible", [False, True])
def test_flat_inference_equals_padded_inference(data, emission, impossible, monkeypatch):
    emission = emission.clone()
    if impossible:
        emission[4], emission[20] = -torch.inf, torch.tensor([0.0, -torch.inf])
    chain = MarkovChain(K)
    found = {}
    for backend in ("", "torch"):
        monkeypatch.setenv("PRISM_BACKEND", backend)
        found[backend] = chain.expectation(data, emission)
    assert np.isneginf(found[""].log_likelihood).sum() == impossible
    assert not any(part is not None for one in found.values() for part in one[5:])  # neither phases, states nor pairs
    for one, other in zip(found[""][:5], found["torch"][:5], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_extreme_emissions_stay_on_the_compiled_path(data, emission, monkeypatch):
    """Sums are divided out only now and then: neither very small nor very large densities may be lost on the way."""
    generator = np.random.default_rng(0)
    extreme = emission + torch.from_numpy(generator.choice([-250.0, 0.0, 250.0], size=(len(emission), 1)))
    found = {}
    for backend in ("", "torch"):
        monkeypatch.setenv("PRISM_BACKEND", backend)
        found[backend] = MarkovChain(K).expectation(data, extreme)
    assert infer_flat(*_chain(), extreme.numpy(), data.demos.offsets) is None  # torch was asked for
    monkeypatch.setenv("PRISM_BACKEND", "")
    assert infer_flat(*_chain(), extreme.numpy(), data.demos.offsets) is not None
    assert not any(part is not None for one in found.values() for part in one[5:])  # neither phases, states nor pairs
    for one, other in zip(found[""][:5], found["torch"][:5], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def _chain():
    chain = MarkovChain(K)
    return np.log(chain.begin), np.log(chain.moves)


def test_underflow_falls_back_to_log_space(data, emission, monkeypatch):
    tiny = emission - 2000.0
    found = MarkovChain(K).expectation(data, tiny)
    expected = MarkovChain(K).expectation(data, emission)
    np.testing.assert_allclose(found.responsibilities, expected.responsibilities, atol=1e-9)
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood - 2000.0, rtol=1e-12)


@pytest.mark.parametrize("K", [1, 2, 5])
def test_compiled_responsibilities_equal_torch(K, monkeypatch):
    generator = torch.Generator().manual_seed(K)
    logits = 3.0 * torch.randn(4, 7, K, generator=generator)
    emission = 5.0 * torch.randn(4, 7, K, generator=generator, dtype=torch.float64) - 400.0
    emission[0, 0, 0] = -torch.inf  # one intention excluded (all, with K = 1)
    emission[1, 2] = -torch.inf  # all excluded
    fast = responsibilities(logits, emission)
    monkeypatch.setenv("PRISM_BACKEND", "torch")
    slow = responsibilities(logits, emission)
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)
    assert torch.isneginf(fast[1][1, 2])
    torch.testing.assert_close(fast[0].sum(-1), torch.ones(4, 7, dtype=torch.float64))
