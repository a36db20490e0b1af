"""Covariates: without effect a Markov chain, with one the weights that made the data, and the gradient is right."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import prism_irl as prism
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.models.refit import refit
from prism_irl.studies.intervals import intervals, numbers_of
from prism_irl.switching.inputs import InputChain
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.options import Markov, Ordered, SemiMarkov, State
from worlds.cohort import CohortWorld


def with_covariate(world, seed):
    cohort = world.simulate(seed)
    return replace(cohort.demonstrations, observations=cohort.covariate[:, None].astype(np.float32))


def noise(lengths, d, seed=0):
    rng = np.random.default_rng(seed)
    states = [np.zeros(n, int) for n in lengths]
    observations = [rng.standard_normal((n, d)) for n in lengths]
    demos = Demonstrations.from_arrays(states, states, observations=observations, n_states=1, n_actions=1)
    return Prepared.of(demos, demos.with_history(1))


def test_without_weights_it_is_the_markov_chain():
    data, emission = noise([20, 9], 2), torch.randn(29, 3, dtype=torch.float64)
    markov, chain = MarkovChain(3), InputChain(3, 2)
    chain.take_over(markov)
    one, two = markov.expectation(data, emission), chain.expectation(data, emission)
    np.testing.assert_allclose(one.log_likelihood, two.log_likelihood, atol=1e-9)
    np.testing.assert_allclose(one.transitions, two.transitions, atol=1e-9)


def test_the_likelihood_with_its_prior_never_falls():
    data, emission, chain = noise([60] * 3, 2), 2 * torch.randn(180, 2, dtype=torch.float64), InputChain(2, 2)
    values = []
    for _ in range(10):
        posterior = chain.expectation(data, emission, online=False)
        values.append(posterior.log_likelihood.sum() - 0.5 * chain.ridge * float((chain.weights**2).sum()))
        chain.update(chain.statistics(data, posterior))
    assert (np.diff(values) > -1e-6).all()
    assert np.ptp(values) > 0


def test_inputs_that_never_change_leave_the_counts_of_a_markov_chain():
    data, emission = noise([80] * 2, 1), 2 * torch.randn(160, 2, dtype=torch.float64)
    data.demos.observations[:] = 0
    markov, chain = MarkovChain(2), InputChain(2, 1)
    posterior = chain.expectation(data, emission, online=False)
    chain.update(chain.statistics(data, posterior))
    markov.update(markov.statistics(data, posterior))
    np.testing.assert_allclose(chain.kernels_at(torch.zeros(1, 1))[0].exp(), markov.kernel, atol=1e-3)


@pytest.fixture(scope="module")
def driven():
    world = CohortWorld(covariate=1.5, spread=0.0, trajectories=4)
    return with_covariate(world, 0), with_covariate(world, 1)


def test_what_drives_switching_is_found_as_surely_as_the_interval_says_and_predicts(driven):
    train, test = driven
    options = {"n_starts": 1, "starts": "windows", "device": "cpu"}
    model = Intentions(2, switching=Markov(inputs=True), **options).fit(train)
    plain = Intentions(2, switching="markov", **options).fit(train)
    assert model.score(test) > plain.score(test) + 0.01
    first = int((model.predict(train) == train.labels).mean() > 0.5)  # which of ours is intention 0
    j = 0 if first else 1
    found = intervals(model, train, 20)["numbers"]["coefficients"]
    for a, b, truth in ((j, 1 - j, 1.5), (1 - j, j, -1.5)):
        (low, high), estimate = found["interval"][:, a, b, 0], found["estimate"][a, b, 0]
        # An interval misses once in twenty; this is three standard errors. `prism reproduce study` counts the misses.
        assert abs(estimate - truth) < 1.5 * (high - low) / 2
        assert low * high > 0


READERS = (Markov(inputs=True), State(inputs=True), Ordered(inputs=True), SemiMarkov(inputs=True, phases=2))


@pytest.mark.parametrize("switching", READERS, ids=lambda options: type(options).__name__)
def test_a_fit_with_inputs_is_saved_streams_and_has_intervals(driven, tmp_path, switching):
    train = driven[0].subset(np.arange(6))
    model = Intentions(2, switching=switching, n_starts=1, max_iterations=3, device="cpu").fit(train)
    model.save(tmp_path / "m")
    again = prism.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(train), model.predict_proba(train))
    one = train.subset([0])
    np.testing.assert_allclose(model.action_proba(one).sum(1), 1)
    stream = again.filter()
    rows = zip(one.states, one.actions, one.observations, strict=True)
    beliefs = [stream.step(int(s), int(a), observation=x) for s, a, x in rows]
    np.testing.assert_allclose(beliefs, model.posterior(one).filtered, atol=1e-6)
    found = numbers_of(refit(model, train, np.arange(6) % 3), train)
    assert found["coefficients"].shape == (2, 2, 1)
    assert found["leaving"].shape[:2] == (2, 1)
    with pytest.raises(InputError, match="reads 1 inputs"):
        model.predict(replace(train, observations=None))


@pytest.mark.parametrize("switching", READERS, ids=lambda options: type(options).__name__)
def test_a_chain_that_reads_inputs_refuses_data_without(switching):
    demos = CohortWorld(animals=1, trajectories=1, horizon=20).simulate(0).demonstrations
    with pytest.raises(InputError, match="the data have none"):
        Intentions(2, switching=switching, validation_fraction=0).fit(demos)


@pytest.mark.parametrize("switching", READERS[1:4:2], ids=lambda options: type(options).__name__)
def test_places_and_phases_find_what_drives_switching(driven, switching):
    """The effect of the covariate, about ±1.5, is found by kernels that could explain switches by something else."""
    train, test = driven
    options = {"n_starts": 1, "starts": "windows", "device": "cpu", "max_iterations": 15}
    model = Intentions(2, switching=switching, **options).fit(train)
    plain = Intentions(2, switching=replace(switching, inputs=False), **options).fit(train)
    assert model.score(test) > plain.score(test) + 0.005
    j = 0 if (model.predict(train) == train.labels).mean() > 0.5 else 1
    found = model.switching_.effects()[..., 0]
    assert 0.8 < found[j, 1 - j] < 2.5
    assert -2.5 < found[1 - j, j] < -0.8
