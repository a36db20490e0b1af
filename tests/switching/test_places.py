"""Intentions that end at places: a kernel that sums to one, an M-step that never falls, and places that are found."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl import em
from prism_irl.data.batching import Prepared
from prism_irl.data.continuous import Units
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.starts import fixed_run
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.options import State
from prism_irl.switching.places import EVEN, RADII, PlaceChain, _within
from prism_irl.switching.varying import StatePairChain
from support import one_sentence
from worlds.point_maze import PointMaze

WORLD = PointMaze(noise=0.2)


@pytest.fixture(scope="module")
def maze():
    """A walled maze, the emissions of its true policies, and a Markov chain over them."""
    demos = WORLD.simulate(12, seed=3)
    x, y = demos.observations.astype(float), demos.motions
    each = [np.full(len(x), goal) for goal in range(WORLD.n_goals)]
    emission = np.stack([WORLD.log_density(y - WORLD.towards(x, goals)) for goals in each], axis=1)
    units = Units.fit(demos)
    data = Prepared(units.apply(demos), np.zeros(len(x), np.int64))
    return data, emission, units, fixed_run(data, emission, 15)[1]


def accuracy(chain, data, emission) -> float:
    found = chain.expectation(data, torch.from_numpy(emission), online=False).responsibilities
    return float((found.argmax(axis=1) == data.demos.labels).mean())


def test_a_goal_that_ends_where_it_is_reached_labels_what_a_constant_kernel_cannot(maze):
    data, emission, units, constant = maze
    chain = PlaceChain(4, 2)
    chain.take_over(constant)
    em.short_run(chain, None, data, 12, emission=emission)
    assert accuracy(chain, data, emission) > max(0.95, accuracy(constant, data, emission) + 0.05)
    places = chain.places.numpy() * units.observation_spread + units.observation_mean
    assert np.linalg.norm(places - WORLD.goals, axis=1).max() < 0.5
    assert (chain.inside > 10 * chain.outside).all()


def test_an_m_step_never_lowers_the_expected_likelihood(maze):
    data, emission, _, constant = maze
    chain = PlaceChain(4, 2)
    chain.take_over(constant)
    log_emission = torch.from_numpy(emission)
    for _ in range(3):
        posterior = chain.expectation(data, log_emission, online=False)
        pairs = torch.from_numpy(posterior.pairwise)
        x = torch.from_numpy(data.demos.observations)

        def expected(pairs=pairs, x=x) -> float:
            rates = torch.cat([chain.inside, chain.outside])
            prior = EVEN * (rates.log() + torch.log1p(-rates)).sum()
            return float((pairs * chain.log_kernels(None, x)).sum() + prior)

        before = expected()
        chain.update(chain.statistics(data, posterior))
        assert expected() >= before - 1e-4  # up to the floor of an impossible switch


def test_it_begins_as_the_chain_that_it_takes_over(maze):
    data, emission, _, constant = maze
    chain = PlaceChain(4, 2)
    chain.take_over(constant)
    own = chain.expectation(data, torch.from_numpy(emission)).responsibilities
    theirs = constant.expectation(data, torch.from_numpy(emission)).responsibilities
    np.testing.assert_allclose(own, theirs, atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**31 - 1))
def test_kernels_sum_to_one(n_intentions, n_observations, seed):
    generator = np.random.default_rng(seed)
    chain = PlaceChain(n_intentions, n_observations)
    with torch.no_grad():
        chain.places.copy_(torch.from_numpy(generator.normal(size=(n_intentions, n_observations))))
        chain.radii.fill_(1.0)
        chain.inside.fill_(float(generator.uniform(0.1, 1.0)))
    kernel = chain.log_kernels(None, torch.from_numpy(generator.normal(size=(7, n_observations)))).exp()
    assert kernel.shape == (7, n_intentions, n_intentions)
    torch.testing.assert_close(kernel.sum(-1), torch.ones(7, n_intentions, dtype=torch.float64))


def test_steps_within_a_radius_are_counted():
    generator = np.random.default_rng(0)
    x, leaving, staying = generator.normal(size=(50, 2)), generator.uniform(size=50), generator.uniform(size=50)
    centres = generator.normal(size=(3, 2))
    found = _within(x, leaving, staying, centres, RADII)
    near = np.linalg.norm(x[:, None] - centres, axis=2)[:, :, None] <= RADII
    np.testing.assert_allclose(found[0], np.einsum("n,ncr->cr", leaving, near))
    np.testing.assert_allclose(found[1], np.einsum("n,ncr->cr", staying, near))


def test_continuous_data_has_places_and_tokens_have_pairs(maze):
    data = maze[0]
    assert isinstance(State().build(2, data.demos), PlaceChain)
    tokens = Demonstrations.from_arrays([np.arange(6) % 3], [np.arange(6) % 2])
    assert isinstance(State().build(2, tokens), StatePairChain)
    with pytest.raises(InputError, match="--kernel pair") as error:
        State(kernel="place").build(2, tokens)
    one_sentence(error)


def test_observations_of_another_size_are_refused(maze):
    data, emission, _, _ = maze
    chain = PlaceChain(4, 3)
    with pytest.raises(InputError, match="columns that the fit had") as error:
        chain.expectation(data, torch.from_numpy(emission))
    one_sentence(error)


def test_one_intention_never_ends(maze):
    data, emission, _, _ = maze
    chain = PlaceChain(1, 2)
    chain.take_over(MarkovChain(1))
    one = np.ascontiguousarray(emission[:, :1])
    assert em.short_run(chain, None, data, 2, emission=one) == pytest.approx(one.mean())


def test_known_places_begin_with_intentions_that_end_there_and_go_anywhere():
    chain, places = PlaceChain(3, 2), np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    chain.begin_at(places)
    kernel = chain.log_kernels(None, torch.from_numpy(places)).exp()  # at each place in turn
    np.testing.assert_allclose(kernel.sum(-1), 1.0, atol=1e-6)
    for at in range(3):
        leaving = 1.0 - kernel[at].diagonal().numpy()
        assert leaving[at] > 0.4
        assert np.delete(leaving, at).max() < 1e-3
        others = np.delete(kernel[at, at].numpy(), at)
        np.testing.assert_allclose(others[0], others[1])
