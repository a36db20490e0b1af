"""SWIRL's chain: the kernel reads the state left behind, and its M-step climbs the expected log-likelihood."""

import numpy as np
import pytest
import torch

from prism_irl.data.batching import Prepared, gather
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.switching.forward_backward import forward_backward
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.state import StateChain, StatePairChain

S, A, K = 5, 3, 3
both_kernels = pytest.mark.parametrize("kind", ["mlp", "table"])


@pytest.fixture(scope="module")
def data(make_demos):
    return Prepared.of(make_demos(n_states=S, n_actions=A), Contexts(S))


@pytest.fixture(scope="module")
def policies():
    """π_k(a|s), (S, K, A)."""
    return torch.from_numpy(np.random.default_rng(1).dirichlet(np.ones(A), (S, K)))


@pytest.fixture(scope="module")
def emission(data, policies):
    return policies[data.demos.states.astype(int), :, data.demos.actions.astype(int)].log()


def state_chain(kind, **settings) -> StateChain:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        chain = StateChain(S, K, kind=kind, hidden=4, **settings)
        with torch.no_grad():
            for parameter in chain.parameters():
                parameter.normal_()
            chain.initial.copy_(torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64))
    return chain


@both_kernels
def test_kernel_is_the_softmax_of_the_formula_at_the_state_before(kind, data):
    chain, batch = state_chain(kind), data.batches[0]
    kernel = chain.log_kernel(batch).exp().detach()
    torch.testing.assert_close(kernel.sum(-1), torch.ones(kernel.shape[:-1], dtype=torch.float64))
    b, t = 6, 4
    s = int(batch.states[b, t - 1])
    g = chain.table[s] if kind == "table" else chain.W2.T @ torch.sigmoid(chain.W1[s] + chain.b1[0]) + chain.b2[0]
    expected = torch.softmax(chain.log_Ps + g, dim=-1)
    torch.testing.assert_close(kernel[b, t], expected.detach())


def leaving(chain, data, emission):
    """Expected moves of the steps that leave each state, (S, K, K)."""
    return chain.statistics(data, chain.expectation(data, emission, online=False))["leaving"]


@both_kernels
def test_counts_per_state_are_the_pairwise_posteriors_of_steps_that_leave_it(kind, data, emission):
    chain = state_chain(kind)
    counts = torch.from_numpy(leaving(chain, data, emission))
    expected = torch.zeros(S, K, K, dtype=torch.float64)
    for batch in data.batches:
        found = forward_backward(
            chain.log_initial(), chain.log_kernel(batch).detach(), gather(batch, emission), batch.mask
        )
        for b, t in np.argwhere(batch.mask.numpy()):
            if t > 0:
                expected[batch.states[b, t - 1]] += found.pairwise[b, t]
    torch.testing.assert_close(counts, expected)
    assert counts.sum().item() == pytest.approx(data.demos.n_steps - len(data.demos))


@both_kernels
def test_gradient_of_the_loss_against_finite_differences(kind):
    chain = state_chain(kind, ridge=0.3)
    counts = torch.from_numpy(np.random.default_rng(2).gamma(2.0, size=(S, K, K)))
    parameters = list(chain.parameters())
    gradients = torch.autograd.grad(chain.loss(counts), parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        for index in (0, parameter.numel() - 1):
            flat, step = parameter.data.view(-1), 1e-5
            before = flat[index].item()
            flat[index] = before + step
            up = chain.loss(counts).item()
            flat[index] = before - step
            down = chain.loss(counts).item()
            flat[index] = before
            assert gradient.reshape(-1)[index].item() == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-7)


def test_a_table_without_prior_reproduces_the_counts_of_one_intention_per_state():
    # With one row of log_Ps per previous intention and a free g(s), one previous intention per state is saturated.
    counts = torch.zeros(S, K, K, dtype=torch.float64)
    counts[:, 0] = torch.from_numpy(np.random.default_rng(4).integers(1, 50, (S, K)).astype(float))
    chain = state_chain("table", ridge=0.0, steps=500)
    chain._climb(counts)
    expected = counts[:, 0] / counts[:, 0].sum(-1, keepdim=True)
    torch.testing.assert_close(chain.state_kernels()[:S, 0].exp().detach(), expected, atol=1e-3, rtol=0)


@both_kernels
def test_maximise_raises_the_likelihood(kind, data, emission):
    chain = state_chain(kind, ridge=1e-3)
    likelihood = [chain.expectation(data, emission).log_likelihood.sum()]
    for _ in range(4):
        chain.update(chain.statistics(data, chain.expectation(data, emission, online=False)))
        likelihood.append(chain.expectation(data, emission).log_likelihood.sum())
    assert (np.diff(likelihood) > -1e-3).all()
    assert likelihood[-1] > likelihood[0] + 0.5
    first = chain.expectation(data, emission).responsibilities[data.demos.offsets[:-1]].mean(0)
    np.testing.assert_allclose(chain.initial.sum(), 1.0)
    assert np.abs(first - chain.initial.numpy()).max() < 0.2


@both_kernels
def test_takes_over_a_markov_chain(kind, data, emission):
    markov = MarkovChain(K)
    markov.kernel.copy_(torch.from_numpy(np.random.default_rng(0).dirichlet(np.full(K, 5.0), K)))
    markov.initial.copy_(torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64))
    chain = StateChain(S, K, kind=kind)
    chain.take_over(markov)
    found, expected = (c.expectation(data, emission).log_likelihood for c in (chain, markov))
    np.testing.assert_allclose(found, expected)


@both_kernels
def test_stream_equals_batch(kind, data, emission, policies):
    chain = state_chain(kind)
    filtered = chain.expectation(data, emission).filtered
    for start, end in zip(data.demos.offsets[:-1], data.demos.offsets[1:], strict=True):
        stream = chain.stream(1)
        for t in range(start, end):
            state = torch.tensor([int(data.demos.states[t])])
            joint = stream.joint(state, policies[state])
            assert joint.sum().item() == pytest.approx(1.0)
            found = stream.update(torch.tensor([int(data.demos.actions[t])]), emission[t : t + 1])
            np.testing.assert_allclose(found[0], filtered[t], atol=1e-12)


def test_an_unknown_state_switches_like_the_average_state():
    chain = state_chain("table")
    demos = Demonstrations.from_arrays([[0, S, 1]], [[0, 0, 0]], n_states=S + 1, n_actions=A)
    batch = Prepared.of(demos, Contexts(S)).batches[0]
    expected = torch.log_softmax(chain.log_Ps + chain.table.mean(0), dim=-1)
    torch.testing.assert_close(chain.log_kernel(batch)[0, 2], expected)


def test_rejects_an_unknown_kernel():
    with pytest.raises(InputError, match="choose mlp or table"):
        StateChain(S, K, kind="linear")


def test_a_kernel_per_pair_counts_what_leaves_each_state(make_demos):
    """With no shrinkage its rows are expected transitions, normalised; with much of it, the kernel without states."""
    demos = make_demos(3, lengths=(40,) * 6)
    data = Prepared.of(demos, Contexts(demos.n_states))
    emission = torch.from_numpy(np.log(np.random.default_rng(1).dirichlet(np.ones(2), demos.n_steps)))
    for shrinkage in (0.0, 1e9):
        chain = StatePairChain(demos.n_states, 2, shrinkage=shrinkage)
        counts = torch.from_numpy(leaving(chain, data, emission))
        chain.update(chain.statistics(data, chain.expectation(data, emission, online=False)))
        pooled = counts.sum(0) / counts.sum((0, 2)).unsqueeze(-1)
        expected = counts / counts.sum(-1, keepdim=True) if shrinkage == 0 else pooled.expand_as(counts)
        torch.testing.assert_close(chain.kernels, expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(chain.state_kernels().exp().sum(-1), torch.ones(demos.n_states + 1, 2).double())


def test_a_kernel_per_pair_improves_the_likelihood(make_demos):
    demos = make_demos(3, lengths=(40,) * 6)
    data = Prepared.of(demos, Contexts(demos.n_states))
    emission = torch.from_numpy(np.log(np.random.default_rng(1).dirichlet(np.ones(2), demos.n_steps)))
    chain, markov = StatePairChain(demos.n_states, 2, shrinkage=0.0), MarkovChain(2)
    chain.take_over(markov)
    before = chain.expectation(data, emission)
    np.testing.assert_allclose(before.log_likelihood, markov.expectation(data, emission).log_likelihood, atol=1e-9)
    likelihoods = [before.log_likelihood.mean()]
    for _ in range(5):
        chain.update(chain.statistics(data, chain.expectation(data, emission, online=False)))
        likelihoods.append(chain.expectation(data, emission).log_likelihood.mean())
    assert (np.diff(likelihoods) > -1e-9).all()
    assert likelihoods[-1] > likelihoods[0] + 1e-3


@pytest.mark.parametrize("kind", ["mlp", "pair"])
def test_flat_inference_is_that_of_padded_batches(kind, data, emission, monkeypatch):
    pytest.importorskip("numba")
    chain = StatePairChain(S - 1, K) if kind == "pair" else state_chain(kind)  # of S - 1: one state has no name
    if kind == "pair":
        drawn = np.random.default_rng(5).dirichlet(np.ones(K), (S - 1, K))
        chain.kernels.copy_(torch.from_numpy(drawn))
    fast, online = (chain.expectation(data, emission, online=wanted) for wanted in (False, True))
    monkeypatch.setenv("PRISM_BACKEND", "torch")
    slow = chain.expectation(data, emission)
    padded = chain.expectation(data, emission, online=False)
    for found in (fast, online):
        for name in ("responsibilities", "log_likelihood", "transitions"):
            np.testing.assert_allclose(getattr(found, name), getattr(slow, name), atol=1e-10, err_msg=name)
    for name in ("predicted", "filtered"):
        np.testing.assert_allclose(getattr(online, name), getattr(slow, name), atol=1e-10, err_msg=name)
    counts = chain.statistics(data, padded)
    for name, value in chain.statistics(data, fast).items():
        np.testing.assert_allclose(value, counts[name], atol=1e-10)
