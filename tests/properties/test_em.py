"""EM: the likelihood never falls, IAVI inside the loop changes nothing, and the monitor knows when to stop."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl import em
from prism_irl.data.batching import Parts, Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP, boltzmann
from prism_irl.models.intentions import Intentions
from prism_irl.models.starts import random_responsibilities
from prism_irl.rewards.iavi import solve_iavi
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.switching.gate import Gate
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.networks import HistoryNetwork, Optimiser

quick = settings(deadline=None, max_examples=25)


def gate(demos, n_intentions):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = HistoryNetwork(
            "rnn",
            n_states=demos.n_states,
            n_actions=demos.n_actions,
            n_observations=0,
            n_outputs=n_intentions,
            embedding=4,
            hidden=4,
            observe="current",
        )
    return Gate(network, n_intentions, l1=0.0, kl=0.0, optimiser=Optimiser(learning_rate=0.02, batch_size=4))


def new_start(demos, *, switching, rewards_type=TabularPolicies, n_intentions=2, smoothing=0.0, seed=0, **stopping):
    """A start at random responsibilities, ready for `em.fit_start`, and its data."""
    contexts = Contexts(demos.n_states)
    data = Prepared.of(demos, contexts)
    rewards = rewards_type(n_intentions, demos.n_actions, contexts, demos.valid_actions, smoothing=smoothing)
    chain = MarkovChain(n_intentions) if switching == "markov" else gate(demos, n_intentions)
    rewards.m_step(data, random_responsibilities(demos, n_intentions, np.random.default_rng(seed)))
    monitor = em.Monitor(em.Stopping(**{"max_iterations": 8, "patience": None, **stopping}), exact=chain.exact)
    return em.Start(0, chain, rewards, monitor), data


def column(start, name):
    return np.array([row[name] for row in start.monitor.rows])


# -- IAVI inside and outside the loop ----------------------------------------------------------------------------------


@pytest.mark.parametrize("switching", ["markov", "gate"])
@pytest.mark.parametrize("variant", ["hard", "soft"])
@pytest.mark.parametrize("discount", [0.5, 0.97])
def test_iavi_inside_the_loop_changes_nothing(make_demos, switching, variant, discount):
    """Algorithm 1 to the letter, with π = softmax(Q) in every iteration, gives the labels of the counts alone."""
    demos = make_demos(masked=True, lengths=(20,) * 8)
    mdp = MDP.from_demonstrations(demos, discount)

    class IaviInside(TabularPolicies):
        n_solved = 0

        def update(self, stats):
            super().update(stats)
            q = solve_iavi(mdp, self.policies, variant=variant).q
            self.policies = boltzmann(q)
            IaviInside.n_solved += 1

    lazy, data = new_start(demos, switching=switching, smoothing=0.01)
    literal, _ = new_start(demos, switching=switching, smoothing=0.01, rewards_type=IaviInside)
    for start in (lazy, literal):
        em.fit_start(start, data, None, seed=0)
    assert IaviInside.n_solved == len(literal.monitor.rows) == 9
    rounding = 1e-10 if switching == "markov" else 1e-5  # networks are single precision
    np.testing.assert_allclose(column(literal, "train"), column(lazy, "train"), rtol=0, atol=rounding)
    one, other = (em.expectation(start.switching, start.rewards, data).responsibilities for start in (lazy, literal))
    np.testing.assert_allclose(other, one, rtol=0, atol=rounding)
    np.testing.assert_array_equal(other.argmax(1), one.argmax(1))
    assert len(np.unique(one.argmax(1))) == 2


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99])
def test_discount_never_changes_likelihood_or_labels(make_demos, discount):
    demos = make_demos(lengths=(20,) * 8)
    settings = {"switching": "markov", "max_iterations": 5, "n_starts": 1, "validation_fraction": 0.0}
    reference, other = (Intentions(2, discount=g, **settings).fit(demos) for g in (0.9, discount))
    assert other.score(demos) == reference.score(demos)
    np.testing.assert_array_equal(other.predict_proba(demos), reference.predict_proba(demos))
    assert np.abs(other.rewards_ - reference.rewards_).max() > 1e-3


# -- exact EM ----------------------------------------------------------------------------------------------------------


@quick
@given(
    seed=st.integers(0, 2**31),
    n_intentions=st.integers(1, 4),
    smoothing=st.sampled_from([0.0, 0.01, 1.0]),
    lengths=st.lists(st.integers(1, 15), min_size=1, max_size=6),
    masked=st.booleans(),
)
def test_the_objective_of_an_exact_em_never_falls(make_demos, seed, n_intentions, smoothing, lengths, masked):
    demos = make_demos(seed, n_states=3, lengths=lengths, masked=masked)
    start, data = new_start(
        demos, switching="markov", n_intentions=n_intentions, smoothing=smoothing, seed=seed, max_iterations=25
    )
    em.fit_start(start, data, None, seed=0)  # the monitor's warning would be an error, too
    objective = column(start, "objective")
    assert len(objective) == 26
    assert np.diff(objective).min() > -1e-9
    if smoothing == 0:
        np.testing.assert_array_equal(objective, column(start, "train"))
        assert objective.max() <= 1e-12


def test_back_off_promises_no_monotone_objective(make_demos):
    """Shrinking towards shorter histories is no maximisation: the likelihood may fall, and no warning is due."""
    demos = make_demos(1, lengths=(30,) * 10)
    for history in (1, 2):
        model = Intentions(2, switching="markov", history=history)
        model._set_up(demos, None)
        start = model._new_start(0, demos)
        assert start.monitor.exact == (history == 1)
    data = model._prepare(demos)
    start.monitor.stopping = em.Stopping(40, None)
    start.rewards.m_step(data, random_responsibilities(demos, 2, np.random.default_rng(0)))
    em.fit_start(start, data, None, seed=0)
    assert np.diff(column(start, "objective")).min() < -1e-7


@pytest.mark.parametrize("switching", ["markov", "recurrent", "independent"])
@pytest.mark.parametrize("smoothing", [0.0, 0.01])
def test_one_intention_is_the_empirical_policy(make_demos, switching, smoothing):
    demos = make_demos(masked=True)
    model = Intentions(
        1,
        switching=switching,
        smoothing=smoothing,
        validation_fraction=0.0,
        max_iterations=2,
        n_starts=1,
        warm_up=2,
        embedding=4,
        hidden=4,
    ).fit(demos)
    counts = np.zeros((demos.n_states, demos.n_actions))
    np.add.at(counts, (demos.states, demos.actions), 1)
    policy = (counts + smoothing * demos.valid_actions) / (counts + smoothing * demos.valid_actions).sum(1)[:, None]
    visited = counts.sum(1) > 0
    np.testing.assert_allclose(model.policies_[0][visited], policy[visited], rtol=1e-12)
    np.testing.assert_allclose(model.score(demos), np.log(policy[demos.states, demos.actions]).mean(), rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(demos), 1, rtol=1e-12)


# -- the monitor -------------------------------------------------------------------------------------------------------


def recorded(values, *, exact=False, **stopping):
    """Feed a monitor until it has finished."""
    monitor = em.Monitor(em.Stopping(**stopping), exact=exact)
    for value in values:
        monitor.record(objective=value, train=value, seconds=0.0)
        if monitor.finished:
            break
    return monitor


def test_monitor_warns_when_an_exact_objective_falls():
    with pytest.warns(RuntimeWarning, match=r"fell by 1.00e-03 nats per step in iteration 2"):
        recorded([-1.0, -0.5, -0.501], exact=True)
    recorded([-1.0, -0.5, -0.501], exact=False)
    recorded([-1.0, -0.5, -0.5 - 1e-12], exact=True)  # rounding


def test_monitor_stops_by_patience():
    monitor = recorded([-3, -2, -1, -1.5, -1.4, -1.3, 0.0], max_iterations=100, patience=3)
    assert monitor.converged
    assert monitor.finished
    assert monitor.best == 2
    assert len(monitor.rows) == 6  # three iterations without a rise, and not one more


def test_patience_begins_again_with_every_rise():
    monitor = recorded([-3, -4, -2, -4, -1, -4, 0, -4], max_iterations=7, patience=2)
    assert len(monitor.rows) == 8
    assert monitor.best == 6
    assert not monitor.converged


def test_a_rise_within_the_tolerance_does_not_count():
    monitor = recorded([0, 1e-6, 2e-6, 3e-6, 4e-6], max_iterations=100, patience=4, tolerance=1e-5)
    assert monitor.converged
    assert monitor.best == 0


@pytest.mark.parametrize("max_iterations", [0, 1, 4])
def test_monitor_stops_when_out_of_iterations(max_iterations):
    monitor = recorded(range(100), max_iterations=max_iterations, patience=None)
    assert len(monitor.rows) == max_iterations + 1  # the first row is the start itself
    assert not monitor.converged


def test_the_best_iteration_is_kept(make_demos):
    """Validation likelihood peaks early here, and the parameters of the peak come back, not the last ones."""
    demos = make_demos(3, lengths=(12,) * 12)
    start, data = new_start(
        demos.subset(range(8)), switching="markov", smoothing=0.1, n_intentions=3, max_iterations=30
    )
    validation = Prepared.of(demos.subset(range(8, 12)), Contexts(demos.n_states))
    em.fit_start(start, data, validation, seed=0)
    values = column(start, "validation")
    assert 0 < start.monitor.best < len(values) - 1
    assert start.score == values[start.monitor.best] > values[-1] + 1e-3
    assert em.likelihood(start.switching, start.rewards, validation) == start.score
    np.testing.assert_array_equal(column(start, "monitored"), values)


def test_progress_is_reported_after_every_iteration(make_demos):
    demos, seen = make_demos(), []
    start, data = new_start(demos, switching="markov", max_iterations=3)
    em.fit_start(start, data, None, seed=0, n_starts=5, on_iteration=seen.append)
    assert [p.iteration for p in seen] == [1, 2, 3]
    assert {(p.start, p.n_starts, p.max_iterations, p.validation) for p in seen} == {(0, 5, 3, None)}
    assert [p.train for p in seen] == column(start, "train")[1:].tolist()


# -- checkpoints -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("switching", ["markov", "gate"])
def test_a_checkpoint_holds_everything(make_demos, tmp_path, switching):
    demos = make_demos()
    straight, data = new_start(demos, switching=switching)
    em.fit_start(straight, data, None, seed=0)
    stopped, _ = new_start(demos, switching=switching, max_iterations=3)
    em._record(stopped, data, None, em.likelihood(stopped.switching, stopped.rewards, data))
    while len(stopped.monitor.rows) <= 3:
        seed = (0, 0, len(stopped.monitor.rows))
        if switching == "gate":
            likelihood = em.em_iteration(stopped.switching, stopped.rewards, Parts(data), seed)
        else:
            em.em_iteration(stopped.switching, stopped.rewards, Parts(data), seed)
            likelihood = em.likelihood(stopped.switching, stopped.rewards, data)
        em._record(stopped, data, None, likelihood)
    em.save_start(stopped, tmp_path / "start.safetensors")

    resumed, _ = new_start(demos, switching=switching, seed=5)
    assert not em.load_start(resumed, tmp_path / "start.safetensors")
    em.fit_start(resumed, data, None, seed=0)
    for name in ("iteration", "objective", "train", "monitored"):
        np.testing.assert_array_equal(column(resumed, name), column(straight, name))
    for name, value in straight.parameters().items():
        np.testing.assert_array_equal(resumed.parameters()[name], value, name)


def test_a_checkpoint_of_a_finished_start_is_not_run_again(make_demos, tmp_path):
    demos = make_demos()
    start, data = new_start(demos, switching="markov", max_iterations=3)
    em.fit_start(start, data, None, seed=0)
    em.save_start(start, tmp_path / "start.safetensors")
    other, _ = new_start(demos, switching="markov", max_iterations=3, seed=9)
    assert em.load_start(other, tmp_path / "start.safetensors")
    assert other.monitor.rows == start.monitor.rows
    for name, value in start.parameters().items():
        np.testing.assert_array_equal(other.parameters()[name], value, name)


def test_an_infinite_likelihood_survives_a_checkpoint(make_demos, tmp_path):
    """Without smoothing, held-out data may hold an impossible action: −inf, for which JSON has no word."""
    demos = Demonstrations.from_arrays([[0, 0, 1], [0, 1]], [[0, 0, 1], [1, 1]], n_actions=3)
    start, data = new_start(demos.subset([0]), switching="markov", max_iterations=2)
    validation = Prepared.of(demos, Contexts(demos.n_states))
    em.fit_start(start, data, validation, seed=0)
    assert column(start, "validation").tolist() == [-np.inf] * 3
    em.save_start(start, tmp_path / "start.safetensors")
    resumed, _ = new_start(demos.subset([0]), switching="markov", max_iterations=4)
    assert not em.load_start(resumed, tmp_path / "start.safetensors")
    em.fit_start(resumed, data, validation, seed=0)
    assert column(resumed, "validation").tolist() == [-np.inf] * 5


@pytest.mark.parametrize("change", [{"n_intentions": 3}, {"switching": "gate"}])
def test_a_checkpoint_of_another_model_is_refused(make_demos, tmp_path, change):
    start, data = new_start(make_demos(), switching="markov", max_iterations=1)
    em.fit_start(start, data, None, seed=0)
    em.save_start(start, tmp_path / "start.safetensors")
    other, _ = new_start(make_demos(), **{"switching": "markov", **change})
    with pytest.raises(InputError, match="does not fit this model"):
        em.load_start(other, tmp_path / "start.safetensors")


def test_a_checkpoint_of_other_data_is_refused(make_demos, tmp_path):
    start, data = new_start(make_demos(), switching="markov", max_iterations=1)
    em.fit_start(start, data, None, seed=0)
    em.save_start(start, tmp_path / "start.safetensors")
    other, data = new_start(make_demos(n_states=6), switching="markov")
    with pytest.raises(InputError, match="does not fit this model"):
        em.load_start(other, tmp_path / "start.safetensors")
