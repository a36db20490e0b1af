"""Simulations beside the data: starts, lengths and rules of the data, choices of the model."""

import numpy as np
import pytest
from scipy import sparse

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation.simulate import Successors, draw, simulate, simulate_habit, walk
from prism_irl.mdp import MDP
from prism_irl.models import registry
from prism_irl.models.references import Empirical, NGram, Uniform


@pytest.fixture
def masked(make_demos):
    return make_demos(0, lengths=(40, 7, 1, 90, 33), masked=True)


@pytest.mark.parametrize("habit", [Uniform(), Empirical(), NGram(length=3, backoff=1.0)])
def test_simulations_keep_what_is_not_a_choice(masked, habit):
    mdp = MDP.from_demonstrations(masked)
    habit.fit(masked)
    simulated = simulate_habit(habit, masked, mdp, np.random.default_rng(1))
    np.testing.assert_array_equal(simulated.offsets, masked.offsets)
    np.testing.assert_array_equal(simulated.states[simulated.first_steps], masked.states[masked.first_steps])
    assert masked.valid_actions[simulated.states, simulated.actions].all()
    inside = np.flatnonzero(~simulated.first_steps)
    pairs = simulated.states[inside - 1].astype(int) * masked.n_actions + simulated.actions[inside - 1]
    assert (mdp.transitions.toarray()[pairs, simulated.states[inside]] > 0).all()
    again = simulate_habit(habit, masked, mdp, np.random.default_rng(1))
    np.testing.assert_array_equal(simulated.states, again.states)
    np.testing.assert_array_equal(simulated.actions, again.actions)
    other = simulate_habit(habit, masked, mdp, np.random.default_rng(2))
    assert (simulated.actions != other.actions).any()


def test_a_memory_of_two_states_is_carried_along():
    """In the middle of a line of three states the habit goes on the way it came: only a memory can tell."""
    dense = np.zeros((3, 2, 3))
    dense[0, :, 1] = dense[2, :, 1] = dense[1, 0, 0] = dense[1, 1, 2] = 1.0
    mdp = MDP.from_dense(dense)
    states = np.tile([0, 1, 2, 1], (4, 25))
    actions = np.tile([0, 1, 0, 0], (4, 25))
    data = Demonstrations.from_arrays(states, actions, n_states=3, n_actions=2)
    remembers = NGram(length=2, backoff=0.01, smoothing=1e-6).fit(data)
    simulated = simulate_habit(remembers, data, mdp, np.random.default_rng(0))
    assert (simulated.actions[simulated.states == 1] == data.actions[data.states == 1]).mean() > 0.95
    forgets = simulate_habit(Empirical().fit(data), data, mdp, np.random.default_rng(0))
    back = forgets.states.reshape(4, -1)[:, 2:] == forgets.states.reshape(4, -1)[:, :-2]
    assert 0.3 < back[:, 1:].mean() < 0.95


def test_frequencies_converge_to_the_predictive():
    """Choices in every context are within four standard errors of the habit's probabilities."""
    rng = np.random.default_rng(3)
    mdp = MDP.from_dense(rng.dirichlet(np.ones(3), size=(3, 2)))
    small = Demonstrations.from_arrays(rng.integers(3, size=(5, 40)), rng.integers(2, size=(5, 40)))
    habit = NGram(length=2, backoff=1.0).fit(small)
    large = Demonstrations.from_arrays(np.zeros((200, 200), int), np.zeros((200, 200), int), n_states=3, n_actions=2)
    simulated = simulate_habit(habit, large, mdp, np.random.default_rng(4))
    rows = habit.contexts_.encode(simulated)
    for row in np.unique(rows):
        here, p = simulated.actions[rows == row], habit.policies_[0, row, 1]
        assert abs(here.mean() - p) < 4 * np.sqrt(p * (1 - p) / len(here)) + 1e-9


def test_draws_have_their_weights():
    rng = np.random.default_rng(0)
    drawn = draw(np.tile([0.0, 1.0, 0.0, 3.0, 0.0], (20_000, 1)), rng)
    np.testing.assert_allclose(np.bincount(drawn, minlength=5) / len(drawn), [0, 0.25, 0, 0.75, 0], atol=0.015)
    dense = np.array([[[0.2, 0.0, 0.8], [0, 1, 0]], [[0, 0, 1], [1, 0, 0]], [[0.5, 0.5, 0], [0.1, 0.2, 0.7]]])
    successors = Successors(MDP.from_dense(dense))
    for pair in range(6):
        drawn = successors.draw(np.full(20_000, pair), rng)
        share = np.bincount(drawn, minlength=3) / len(drawn)
        np.testing.assert_allclose(share, dense.reshape(6, 3)[pair], atol=0.015)
        assert (share[dense.reshape(6, 3)[pair] == 0] == 0).all()


def test_other_dynamics_are_refused(masked):
    habit = Empirical().fit(masked)
    smaller = MDP(sparse.eye_array(2), 0.9)
    with pytest.raises(InputError, match="dynamics of the fit"):
        simulate_habit(habit, masked, smaller, np.random.default_rng(0))


SMALL = {"n_starts": 1, "max_iterations": 3, "warm_up": 1, "n_candidates": 1, "hidden": 4, "embedding": 4}
ONE_BY_ONE = [f"{kind}+tabular" for kind in ("single", "per-trajectory", "markov", "state", "ordered", "recurrent")]
ONE_BY_ONE += ["markov+tabular-h2", "prism-paper", "prism-past", "state+goals", "swirl-2", "maxcausalent"]


@pytest.mark.parametrize("method", [*ONE_BY_ONE, "iavi", "ngram"])
def test_every_kind_of_model_chooses_as_it_predicts(make_demos, method):
    """What a chooser says along a simulation is what `action_proba` says of it afterwards."""
    data = make_demos(5, lengths=(30, 12, 25), masked=True)
    model = registry.method(method, 2, **SMALL, device="cpu").model.fit(data)
    asked: list[np.ndarray] = []

    class Recorded:
        def __init__(self, trajectories):
            self.chooser = model.chooser(data, trajectories)

        def weights(self, states):
            asked.append(self.chooser.weights(states))
            return asked[-1]

        def take(self, actions):
            self.chooser.take(actions)

    one = data.subset([0])
    simulated = walk(one, MDP.from_demonstrations(data), np.random.default_rng(0), Recorded)
    np.testing.assert_allclose(np.concatenate(asked), model.action_proba(simulated), atol=1e-6)


def test_a_simulation_has_the_labels_that_the_model_gives_it(make_demos):
    data = make_demos(6, lengths=(40, 40), masked=True)
    model = registry.method("hiql", 2, **SMALL, device="cpu").model.fit(data)
    simulated = simulate(model, data, seed=3)
    np.testing.assert_array_equal(simulated.labels, model.predict(simulated))
    again, other = simulate(model, data, seed=3), simulate(model, data, seed=4)
    np.testing.assert_array_equal(simulated.actions, again.actions)
    assert (simulated.actions != other.actions).any()
    assert simulate(NGram().fit(data), data).labels is None


def test_measured_vectors_cannot_be_simulated(make_demos):
    data = make_demos(7, lengths=(20, 20), n_observations=2)
    model = registry.method("prism-recurrent", 2, **SMALL, device="cpu").model.fit(data)
    with pytest.raises(InputError, match="observations cannot be simulated"):
        simulate(model, data)
