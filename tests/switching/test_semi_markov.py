"""Phases are an honest semi-Markov chain: brute force, a Markov chain with one phase, and worlds where it matters."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.labels import label_accuracy, segments
from prism_irl.models.intentions import Intentions
from prism_irl.switching.base import Switching
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.options import SemiMarkov
from prism_irl.switching.semi_markov import SemiMarkovChain
from worlds.cohort import CohortWorld


def random_chain(K, R, seed):
    rng, chain = np.random.default_rng(seed), SemiMarkovChain(K, R)
    successors = rng.dirichlet(np.ones(K), K) * (1 - np.eye(K))
    chain.initial.copy_(torch.from_numpy(rng.dirichlet(np.ones(K * R))))
    chain.stay.copy_(torch.from_numpy(rng.uniform(0.2, 0.9, K)))
    chain.successors.copy_(torch.from_numpy(successors / successors.sum(1, keepdims=True)))
    chain.entry.copy_(torch.from_numpy(rng.dirichlet(np.ones(R), K)))
    return chain


def prepared(lengths):
    zeros = [np.zeros(n, int) for n in lengths]
    demos = Demonstrations.from_arrays(zeros, zeros, n_states=1, n_actions=1)
    return Prepared.of(demos, demos.with_history(1))


def duration(chain, k, d, phases):
    """P(a visit lasts exactly d steps) and P(at least d), from the number of phases that it begins with, (R,)."""
    q, found = float(chain.stay[k]), {0: 0.0}
    for n in range(1, d + 1):
        found[n] = sum(
            float(phases[r]) * q ** (n - r - 1) * (1 - q) ** (r + 1) * _choose(n - 1, r) for r in range(len(phases))
        )
    return found[d], float(sum(phases)) - sum(found[n] for n in range(1, d))


def _choose(n, r):
    from math import comb

    return comb(n, r) if n >= r else 0


def path_probability(chain, path):
    """P(z_1 … z_T) by its segments alone: durations, successors, and a last one that the end cuts short."""
    cut = segments(np.array(path), np.array([0, len(path)]))
    R, total = chain.phases, 1.0
    for i, (k, d) in enumerate(zip(cut.labels, cut.lengths, strict=True)):
        phases = chain.initial[k * R : (k + 1) * R] if i == 0 else chain.entry[k]
        exactly, at_least = duration(chain, k, int(d), phases.numpy())
        total *= at_least if i == len(cut.labels) - 1 else exactly
        if i > 0:
            total *= float(chain.successors[cut.labels[i - 1], k])
    return total


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000))
def test_inference_is_that_of_all_paths_one_by_one(seed):
    K, R, T = 2, 3, 6
    chain, data = random_chain(K, R, seed), prepared([T])
    emission = np.log(np.random.default_rng(seed).uniform(0.1, 1, (T, K)))
    likelihood, weight = 0.0, np.zeros((T, K))
    pairs = np.zeros((K, K))
    for path in product(range(K), repeat=T):
        p = path_probability(chain, path) * np.exp(emission[np.arange(T), list(path)].sum())
        likelihood += p
        weight[np.arange(T), list(path)] += p
        np.add.at(pairs, (np.array(path[:-1]), np.array(path[1:])), p)
    found = chain.expectation(data, torch.from_numpy(emission))
    assert found.log_likelihood.sum() == pytest.approx(np.log(likelihood), abs=1e-9)
    np.testing.assert_allclose(found.responsibilities, weight / likelihood, atol=1e-9)
    np.testing.assert_allclose(found.transitions, pairs / likelihood, atol=1e-9)


def test_all_paths_together_are_certain():
    chain = random_chain(2, 3, 0)
    assert sum(path_probability(chain, path) for path in product(range(2), repeat=5)) == pytest.approx(1)
    np.testing.assert_allclose(chain.log_kernels(None, None).exp().sum(-1), 1)


def test_one_phase_is_a_markov_chain():
    data, emission = prepared([30, 12]), torch.randn(42, 3, dtype=torch.float64)
    semi, markov = SemiMarkovChain(3, 1), MarkovChain(3)
    semi.take_over(markov)
    for _ in range(5):
        one, two = semi.expectation(data, emission), markov.expectation(data, emission)
        np.testing.assert_allclose(one.log_likelihood, two.log_likelihood, atol=1e-9)
        np.testing.assert_allclose(one.responsibilities, two.responsibilities, atol=1e-9)
        semi.update(semi.statistics(data, one))
        markov.update(markov.statistics(data, two))


def test_likelihood_never_falls():
    data, emission, chain = prepared([40] * 4), torch.randn(160, 2, dtype=torch.float64), random_chain(2, 3, 1)
    values = []
    for _ in range(15):
        posterior = chain.expectation(data, emission)
        values.append(posterior.log_likelihood.sum())
        chain.update(chain.statistics(data, posterior))
    assert (np.diff(values) > -1e-9).all()


def test_a_stream_is_the_forward_pass_and_padding_changes_nothing():
    chain, data = random_chain(2, 3, 2), prepared([9, 5])
    emission = torch.log_softmax(torch.randn(14, 2, dtype=torch.float64), -1)
    whole = chain.expectation(data, emission)
    padded = Switching.expectation(chain, data, emission)
    np.testing.assert_allclose(whole.responsibilities, padded.responsibilities, atol=1e-9)
    stream = chain.stream()
    for t in range(9):
        stream.joint(torch.zeros(1, dtype=torch.int64), emission[t : t + 1].exp().unsqueeze(-1))
        np.testing.assert_allclose(
            stream.update(torch.zeros(1, dtype=torch.int64), emission[t : t + 1])[0], whole.filtered[t], atol=1e-9
        )


@pytest.mark.parametrize("R", [1, 3])
def test_the_reference_has_the_same_statistics_of_inputs(R, monkeypatch):
    rng = np.random.default_rng(R)
    zeros = np.zeros((6, 20), int)
    seen = rng.normal(size=(6, 20, 2)).astype(np.float32)
    demos = Demonstrations.from_arrays(zeros, zeros, n_states=1, n_actions=1, observations=seen)
    data, emission = Prepared.of(demos, demos.with_history(1)), torch.from_numpy(rng.normal(size=(120, 2)))
    chain = SemiMarkovChain(2, R, n_inputs=2)
    chain.ending.copy_(torch.from_numpy(rng.normal(size=(2, 2))))
    fast = chain.expectation(data, emission, online=False)
    monkeypatch.setenv("PRISM_BACKEND", "torch")
    slow = chain.expectation(data, emission, online=False)
    assert "rows" in chain.statistics(data, slow)
    np.testing.assert_allclose(fast.pairwise, slow.pairwise, atol=1e-9)


def test_moves_of_every_step_are_kept_for_inputs_alone():
    data, chain = prepared([9, 5]), random_chain(2, 3, 2)
    emission = torch.zeros(14, 2 * 3, dtype=torch.float64)
    assert Switching.expectation(chain, data, emission, online=False).pairwise is None


def test_the_dwell_distribution_is_one_and_has_the_mean_of_its_phases():
    chain = random_chain(2, 3, 3)
    proba = chain.dwell_proba(2000)
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-6)
    mean = (chain.entry.numpy() * np.arange(1, 4)).sum(1) / (1 - chain.stay.numpy())
    np.testing.assert_allclose(proba @ np.arange(1, 2001), mean, rtol=1e-5)


@pytest.mark.parametrize(("shape", "better"), [(3, True), (1, False)])
def test_it_predicts_better_exactly_where_dwell_has_a_shape(shape, better):
    world = CohortWorld(animals=12, trajectories=6, horizon=100, shape=shape, spread=0.0, leave=(0.1, 0.1), beta=4.0)
    train, test = world.simulate(0).demonstrations, world.simulate(1).demonstrations
    fits = [
        Intentions(2, switching=kind, n_starts=2, starts="windows", device="cpu").fit(train)
        for kind in ("markov", SemiMarkov(phases=3))
    ]
    markov, semi = (fit.score(test) for fit in fits)
    accuracy = [label_accuracy(test.labels, fit.predict(test)) for fit in fits]
    if better:
        assert semi > markov + 0.001
        assert accuracy[1] > accuracy[0]
    else:
        assert abs(semi - markov) < 0.001


def test_it_can_be_simulated_saved_and_asked_for_actions(tmp_path):
    import prism_irl as prism

    demos = CohortWorld(animals=2, trajectories=2, horizon=30).simulate(0).demonstrations
    model = Intentions(2, switching=SemiMarkov(phases=3), n_starts=1, max_iterations=5, device="cpu").fit(demos)
    np.testing.assert_allclose(model.action_proba(demos).sum(1), 1)
    assert model.sample(2, 10).n_steps == 20
    model.save(tmp_path / "model")
    again = prism.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(demos), model.predict_proba(demos))
    assert again.decode(demos).max() <= 1
