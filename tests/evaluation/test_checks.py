"""Posterior predictive checks tell a model that behaves like the data from one that does not."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation import checks
from prism_irl.evaluation.checks import (
    AROUND,
    Behaviour,
    around_switches,
    check,
    dwells,
    ngrams,
    numbers,
    return_times,
    shares_of_lengths,
)
from prism_irl.evaluation.simulate import simulate
from prism_irl.labels import boundaries
from prism_irl.mdp import MDP
from prism_irl.models import registry
from prism_irl.models.references import Empirical, NGram
from prism_irl.worlds.frustration import FrustrationWorld

FIT = {"n_starts": 2, "max_iterations": 100, "device": "cpu"}


def line(seed: int, stay: float, n_trajectories: int = 60, length: int = 100) -> Demonstrations:
    """A walker on a ring of six places who wants to go left or right, and 9 times of 10 does."""
    rng = np.random.default_rng(seed)
    z = np.cumsum(rng.random((n_trajectories, length)) > stay, axis=1) % 2
    actions = np.where(rng.random(z.shape) < 0.9, z, 1 - z)
    steps = np.cumsum(2 * actions - 1, axis=1) - (2 * actions - 1)
    states = (rng.integers(6, size=(n_trajectories, 1)) + steps) % 6
    return Demonstrations.from_arrays(states, actions, labels=z, n_states=6, n_actions=2)


@pytest.fixture(scope="module")
def sticky() -> Demonstrations:
    return line(0, stay=0.95)


def outside(found: checks.Checks) -> set[tuple[str, int | None]]:
    return {(one.name, one.intention) for one in found.statistics if one.outside}


def fitted(method: str, demos: Demonstrations):
    return registry.method(method, 2, **FIT).model.fit(demos)


def test_a_model_that_generated_the_data_is_at_home(sticky):
    """Data from a known model, refitted: at most what chance allows lies outside, over five simulations."""
    truth = fitted("hiql", sticky)
    far = n = 0
    for seed in range(5):
        data = replace(simulate(truth, sticky, seed=seed), labels=None)
        model = fitted("hiql", data)
        found = check(model, data, model.predict(data), seed=10 + seed)
        far, n = far + len(outside(found)), n + len(found.statistics)
        assert all(0 < one.p <= 1 for one in found.statistics)
    assert far / n <= 0.1


def test_one_intention_cannot_last(sticky):
    """Without memory and without intentions the walker turns round too often."""
    model = NGram(length=1, kernels=False).fit(sticky)
    found = check(model, sticky, model.predict(sticky))
    assert ("goes straight back", None) in outside(found)
    assert not any(one.intention is not None for one in found.statistics)


@pytest.mark.parametrize("stay", [0.5, 0.67])
def test_wrong_dwell_is_marked(sticky, stay):
    """The same policies, first with the kernel that was fitted, then as an independent mixture or nearly so."""
    model = fitted("hiql", sticky)
    assert not {("dwell", 0), ("dwell", 1)} & outside(check(model, sticky, model.predict(sticky)))
    model.switching_.kernel.copy_(torch.tensor([[stay, 1 - stay], [1 - stay, stay]]))
    found = check(model, sticky, model.predict(sticky))
    assert {("dwell", 0), ("dwell", 1)} <= outside(found)
    dwell = next(one for one in found.statistics if (one.name, one.intention) == ("dwell", 0))
    assert dwell.data > dwell.high > dwell.low


def test_a_bimodal_dwell_with_the_right_mean_is_marked():
    """Intentions that last exactly 20 steps: a Markov chain has the mean, and not the distribution."""
    rng = np.random.default_rng(1)
    data = line(1, stay=1.0)
    z = (np.arange(100) + rng.integers(40, size=(60, 1))) // 20 % 2
    actions = np.where(rng.random(z.shape) < 0.9, z, 1 - z)
    steps = np.cumsum(2 * actions - 1, axis=1) - (2 * actions - 1)
    states = (data.states.reshape(60, -1)[:, :1].astype(int) + steps) % 6
    data = Demonstrations.from_arrays(states, actions, n_states=6, n_actions=2)
    model = fitted("hiql", data)
    found = check(model, data, model.predict(data))
    assert {("distribution of the dwell", 0), ("distribution of the dwell", 1)} <= outside(found)


def test_a_chain_has_the_mean_dwell_of_frustration_and_not_its_distribution():
    """What the guide says of the gridworld, where intentions end after failures that a Markov chain does not count."""
    data = FrustrationWorld().simulate(200, seed=1).demonstrations
    model = fitted("hiql", data)
    marked = outside(check(model, data, model.predict(data)))
    assert not {("dwell", 0), ("dwell", 1)} & marked
    assert {("distribution of the dwell", 0), ("distribution of the dwell", 1), ("where it switches", None)} <= marked


def test_the_comparison_is_repeatable_and_its_cost_bounded(sticky):
    model = Empirical().fit(sticky)
    labels = model.predict(sticky)
    one, again, other = (check(model, sticky, labels, simulations=4, most_steps=1000, seed=s) for s in (0, 0, 1))
    assert one == again != other
    assert (one.n_steps, one.n_trajectories, one.of_steps) == (1000, 10, 6000)
    long = Demonstrations.from_arrays(np.zeros((1, 5000), int), np.zeros((1, 5000), int), n_states=2, n_actions=2)
    found = check(Empirical().fit(long), long, np.zeros(5000, int), simulations=2)
    assert (found.n_steps, found.of_steps) == (checks.LONGEST, 5000)
    with pytest.raises(InputError, match="at least 2"):
        check(model, sticky, labels, simulations=1)


def test_intervals_hold_what_they_promise():
    """Of numbers drawn like the simulations 5% lie outside; a distance only when it is large."""
    rng = np.random.default_rng(0)
    about = checks.About("x", "steps")
    wide = [checks._statistic(about, rng.normal(size=21)).outside for _ in range(2000)]
    assert 0.035 < np.mean(wide) < 0.065
    shares = [checks._distance(about, rng.dirichlet(np.full(20, 50.0), size=21)) for _ in range(2000)]
    assert 0.03 < np.mean([one.outside for one in shares]) < 0.08
    assert 0.03 < np.mean([one.p < 0.05 for one in shares]) < 0.07
    near = np.concatenate([np.full((1, 4), 0.25), rng.dirichlet(np.ones(4), size=20)])
    assert not checks._distance(about, near).outside
    assert checks._statistic(about, np.array([np.nan, *range(20)])) is None


def test_what_cannot_be_simulated_says_so(make_demos):
    data = make_demos(7, lengths=(20, 20), n_observations=2)
    model = registry.method("prism-recurrent", 2, n_starts=1, max_iterations=1, hidden=4, device="cpu").model.fit(data)
    found = check(model, data, model.predict(data))
    assert "observations" in found.note
    assert not found.statistics
    assert found.to_json()["simulations"] == 0


def test_the_world_of_the_fit_is_the_world_of_the_simulation(sticky):
    """A seen pair leads where it led: on the ring every step goes to a neighbour."""
    mdp = MDP.from_demonstrations(sticky)
    model = NGram().fit(sticky, mdp)
    states = simulate(model, sticky, seed=1).states.reshape(60, -1).astype(int)
    assert set(np.unique((states[:, 1:] - states[:, :-1]) % 6)) == {1, 5}


# Two trajectories: 0 1 0 0 2 | 1 2 1
ONE = Behaviour(np.array([0, 1, 0, 0, 2, 1, 2, 1]), np.array([0, 0, 1, 1, 0, 0, 0, 1]), np.array([0, 5, 8]))


def test_dwells_end_with_their_trajectory():
    np.testing.assert_array_equal(dwells(ONE, 0), [2, 1, 2])
    np.testing.assert_array_equal(dwells(ONE, 1), [2, 1])


def test_return_times_count_from_entry_to_entry_within_a_trajectory():
    np.testing.assert_array_equal(return_times(ONE, 0), [2])  # staying is no second visit
    np.testing.assert_array_equal(return_times(ONE, 1), [2])  # never from one trajectory to the next
    assert len(return_times(ONE, 2)) == 0


def test_switches_are_within_trajectories():
    np.testing.assert_array_equal(boundaries(ONE.intentions), [2, 4, 7])


def test_what_surrounds_a_switch_stays_in_its_trajectory():
    around = around_switches(ONE, np.array([2, 7]), 0)
    assert around[AROUND] == 0.5  # step 2 is in state 0, step 7 is not
    assert around[AROUND - 2] == 0.5  # steps 0 and 5
    assert around[AROUND + 1] == 1.0  # step 3 alone: step 8 does not exist
    assert np.isnan(around[0])


def test_ngrams_never_cross_the_end_of_a_trajectory():
    pairs = ngrams([ONE], 2, 3)
    assert pairs.shape == (1, 6 + 1)  # 01 10 00 02 | 12 21 and the others
    np.testing.assert_allclose(pairs[0], [*[1 / 6] * 6, 0])
    np.testing.assert_allclose(ngrams([ONE], 3, 3)[0], [*[1 / 4] * 4, 0])  # 010 100 002 | 121


def test_numbers_of_one_behaviour():
    found = {(about.name, about.intention, about.state): value for about, value in numbers(ONE, [0, 2], 2).items()}
    assert found["stays where it is", None, None] == 1 / 6
    assert found["goes straight back", None, None] == 2 / 4
    assert found["different states in a trajectory", None, None] == 2.5
    overall = np.array([3, 3, 2]) / 8
    each = np.array([[3, 1, 1], [0, 2, 1]]) / np.array([[5], [3]])
    apart = (0.5 * np.abs(each - overall).sum(axis=1)).mean()
    assert found["difference between trajectories", None, None] == pytest.approx(apart)
    assert found["dwell", 1, None] == 1.5
    assert found["share of the steps", 1, None] == 3 / 8
    assert found["time between visits", None, 0] == 2
    assert np.isnan(found["time between visits", None, 2])
    assert not any(about.intention is not None for about in numbers(ONE, [], 1))


def test_lengths_are_binned_alike():
    short, long = np.array([1, 1, 2, 3]), np.array([3, 9, 9, 9])
    shares = shares_of_lengths([short, long, short])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(shares[0], shares[2])
    assert 0.5 * np.abs(shares[0] - shares[1]).sum() == 0.75
