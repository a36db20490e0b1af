"""Every chain that reads inputs: a sum over all paths, and without effects the chain that reads none."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.switching.ordered import OrderedChain, OrderedInputChain
from prism_irl.switching.semi_markov import SemiMarkovChain
from prism_irl.switching.varying import InputChain, StateInputChain, StatePairChain

K, D, S, R = 3, 2, 4, 2
KINDS = ("markov", "ordered", "state", "semi-markov")


def build(kind):
    if kind == "markov":
        return InputChain(K, D)
    if kind == "ordered":
        return OrderedInputChain(K, D)
    return StateInputChain(S, K, D) if kind == "state" else SemiMarkovChain(K, R, D)


def plain(kind):
    if kind == "ordered":
        return OrderedChain(K)
    return StatePairChain(S, K) if kind == "state" else SemiMarkovChain(K, R)


def prepared(lengths, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    states = [rng.integers(S, size=n) for n in lengths]
    observations = [scale * rng.standard_normal((n, D)) for n in lengths]
    demos = Demonstrations.from_arrays(
        states, [0 * s for s in states], observations=observations, n_states=S, n_actions=1
    )
    return Prepared.of(demos, demos.with_history(1))


def shuffled(kind, seed):
    """A chain with random parameters."""
    chain, generator = build(kind), torch.Generator().manual_seed(seed)
    for name, value in chain.state_dict().items():
        if name in ("initial", "entry", "successors"):  # keeps what is impossible so
            value.mul_(torch.rand(value.shape, generator=generator, dtype=torch.float64) + 0.1)
            value.div_(value.sum(-1, keepdim=True))
        elif name == "stay":
            value.copy_(torch.rand(K, generator=generator, dtype=torch.float64) * 0.6 + 0.2)
        else:
            value.copy_(torch.randn(value.shape, generator=generator, dtype=torch.float64))
    return chain


def step_kernel(chain, data, t):
    """The chain's kernel into step t from its formula alone, (states, states); phases count as states."""
    x = np.asarray(data.demos.observations[t], float)
    if isinstance(chain, SemiMarkovChain):
        kernel = np.zeros((K, R, K, R))
        stay = 1 / (1 + np.exp(-(torch.logit(chain.stay).numpy() - chain.ending.numpy() @ x)))
        for j in range(K):
            odds = chain.successors[j].numpy() * np.exp(chain.following[j].numpy() @ x) * (np.arange(K) != j)
            for k in range(K):
                kernel[j, 0, k] += (1 - stay[j]) * odds[k] / odds.sum() * chain.entry[k].numpy()
            for r in range(R):
                kernel[j, r, j, r] += stay[j]
                if r:
                    kernel[j, r, j, r - 1] += 1 - stay[j]
        return kernel.reshape(K * R, K * R)
    bias = chain.biases[data.demos.states[t - 1]] if isinstance(chain, StateInputChain) else chain.bias
    weights = np.exp(bias.numpy() + chain.weights.numpy() @ x)
    if isinstance(chain, OrderedInputChain):
        weights = np.triu(np.tril(weights, 1))
    return weights / weights.sum(1, keepdims=True)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 1000))
def test_inference_is_a_sum_over_all_paths(kind, seed):
    T, phases = 5, R if kind == "semi-markov" else 1
    chain, data = shuffled(kind, seed), prepared([T], seed)
    emission = np.random.default_rng(seed).normal(size=(T, K))
    first = chain.initial.numpy()
    kernels = [step_kernel(chain, data, t) for t in range(1, T)]
    total, weight, moves = 0.0, np.zeros((T, K)), np.zeros((K, K))
    for path in product(range(K * phases), repeat=T):
        p = first[path[0]] * np.prod([kernel[a, b] for kernel, (a, b) in zip(kernels, pairwise(path), strict=True)])
        labels = np.array(path) // phases
        p *= np.exp(emission[np.arange(T), labels].sum())
        total += p
        weight[np.arange(T), labels] += p
        np.add.at(moves, (labels[:-1], labels[1:]), p)
    for online in (True, False):
        found = chain.expectation(data, torch.from_numpy(emission), online=online)
        assert found.log_likelihood.sum() == pytest.approx(np.log(total), abs=1e-8)
        np.testing.assert_allclose(found.responsibilities, weight / total, atol=1e-8)
        np.testing.assert_allclose(found.transitions, moves / total, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_without_effects_inference_and_m_step_are_those_without_inputs(kind):
    data, emission = prepared([30, 9], scale=0.0), torch.randn(39, K, dtype=torch.float64)
    chain, other = build(kind), plain(kind)
    start = other.constant()
    chain.take_over(start)
    other.take_over(start)
    for _ in range(3):
        posteriors = [one.expectation(data, emission, online=False) for one in (chain, other)]
        np.testing.assert_allclose(posteriors[0].log_likelihood, posteriors[1].log_likelihood, atol=2e-3)
        np.testing.assert_allclose(posteriors[0].responsibilities, posteriors[1].responsibilities, atol=5e-3)
        for one, posterior in zip((chain, other), posteriors, strict=True):
            one.update(one.statistics(data, posterior))


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_gives_what_compiled_passes_give(kind, monkeypatch):
    data, emission, chain = prepared([12, 7, 3], 1), torch.randn(22, K, dtype=torch.float64), shuffled(kind, 3)
    fast = [chain.expectation(data, emission, online=online) for online in (True, False)]
    monkeypatch.setenv("PRISM_BACKEND", "torch")
    for online, one in zip((True, False), fast, strict=True):
        slow = chain.expectation(data, emission, online=online)
        np.testing.assert_allclose(slow.responsibilities, one.responsibilities, atol=1e-9)
        np.testing.assert_allclose(slow.log_likelihood, one.log_likelihood, atol=1e-9)
    one.pairwise[data.demos.offsets[:-1]] = 0.0
    again = slow.pairwise if slow.pairwise is not None else chain.pairwise(data, emission)
    np.testing.assert_allclose(again, one.pairwise, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_likelihood_with_its_prior_does_not_fall(kind):
    data, chain = prepared([60] * 4, 2), build(kind)
    emission = 2 * torch.randn(240, K, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values = []
    for _ in range(6):
        posterior = chain.expectation(data, emission, online=False)
        slopes = [chain.ending, chain.following] if kind == "semi-markov" else [chain.weights]
        prior = 0.5 * chain.ridge * sum(float((one**2).sum()) for one in slopes)
        values.append(posterior.log_likelihood.sum() - prior)
        chain.update(chain.statistics(data, posterior))
    # The kernel of a state is shrunk towards one that is fitted, too: there this is no bound, and rises all the same.
    assert (np.diff(values) > -1e-4).all()
    assert values[-1] > values[0] + 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_gives_the_filtered_beliefs(kind):
    chain, data = shuffled(kind, 5), prepared([8], 4)
    emission = torch.randn(8, K, dtype=torch.float64)
    expected = chain.expectation(data, emission)
    stream, policies = chain.stream(), torch.ones(1, K, 1, dtype=torch.float64)
    for t in range(8):
        state = torch.tensor([int(data.demos.states[t])])
        stream.joint(state, policies, torch.from_numpy(data.demos.observations[t : t + 1]))
        found = stream.update(torch.zeros(1, dtype=torch.int64), emission[t : t + 1])
        np.testing.assert_allclose(found[0], expected.filtered[t], atol=1e-8)
    assert chain.effects().shape == (K, K, D)
    assert chain.leaving(np.zeros((5, D))).shape == (5, K)


@pytest.mark.parametrize("kind", ["state", "semi-markov"])
def test_effects_are_slopes_of_the_log_odds_at_the_mean(kind):
    """Finite differences of log P(j → k) − log P(j stays) where the state, or the number of phases, says nothing."""
    chain = shuffled(kind, 6)
    if kind == "state":
        chain.weights[range(K), range(K)] = 0.0

    def log_odds(x):
        if kind == "state":
            kernel = chain.log_kernels(torch.tensor([S]), torch.from_numpy(x[None]))[0].numpy()
            return kernel - kernel.diagonal()[:, None]
        at = torch.from_numpy(x[None])
        stay = chain.stay_at(at)[0].numpy()[:, None]
        with np.errstate(divide="ignore"):
            return np.log((1 - stay) / stay) + np.log(chain.successors_at(at)[0].numpy())

    others = ~np.eye(K, dtype=bool)
    for d in range(D):
        step = np.zeros(D)
        step[d] = 1e-5
        with np.errstate(invalid="ignore"):
            slope = (log_odds(step) - log_odds(-step)) / 2e-5
        np.testing.assert_allclose(chain.effects()[others][:, d], slope[others], atol=1e-6)
