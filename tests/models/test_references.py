"""The references: valid actions, short memory by hand, choices on validation data, saving."""

from dataclasses import replace

import numpy as np
import pytest

from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.references import BACKOFFS, Empirical, NGram, Uniform, validation_split
from prism_irl.rewards.tabular import TabularPolicies

MODELS = [
    Uniform(),
    Empirical(),
    NGram(),
    NGram(length=3, backoff=2.0),
    NGram(length=2, reads="actions", kernels=True),
    NGram(length=3, backoff=2.0, reads="both", kernels=True),
]


def order_two(seed, n_trajectories=30, length=60):
    """The action is a noisy function of the last two states, which are drawn at random."""
    rng = np.random.default_rng(seed)
    table = np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    states = rng.integers(3, size=(n_trajectories, length))
    before = np.concatenate([states[:, :1], states[:, :-1]], axis=1)
    noise = rng.integers(3, size=states.shape)
    actions = np.where(rng.random(states.shape) < 0.8, table[before, states], noise)
    return Demonstrations.from_arrays(states, actions, n_states=3, n_actions=3)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("masked", [False, True])
def test_normalised_and_no_invalid_action(make_demos, model, masked):
    demos = make_demos(1, masked=masked)
    proba = model.fit(demos).action_proba(demos)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert (proba >= 0).all()
    if masked:
        assert (proba[~demos.valid_actions[demos.states]] == 0).all()
        assert (proba[demos.valid_actions[demos.states]] > 0).all()
    np.testing.assert_array_equal(model.predict_proba(demos), np.ones((demos.n_steps, 1)))


def test_uniform_counts_valid_actions(make_demos):
    demos = make_demos(4, masked=True)
    expected = -np.log(demos.valid_actions.sum(axis=1)[demos.states])
    np.testing.assert_allclose(Uniform().fit(demos).log_likelihood(demos), expected)
    plain = demos.with_valid_actions(None)
    mdp = MDP.from_demonstrations(demos)
    np.testing.assert_allclose(Uniform().fit(plain, mdp).log_likelihood(demos), expected)
    np.testing.assert_allclose(Uniform().fit(plain).log_likelihood(demos), -np.log(3))


def test_empirical_is_the_smoothed_frequency():
    demos = Demonstrations.from_arrays([[0, 0, 0, 1]], [[0, 0, 1, 1]], n_states=3, n_actions=2)
    policies = Empirical(smoothing=0.5).fit(demos).policies_[0]
    np.testing.assert_allclose(policies, [[2.5 / 4, 1.5 / 4], [0.5 / 2, 1.5 / 2], [0.5, 0.5]])


def test_ngram_equals_tabular_policies_by_hand(make_demos):
    train, test = make_demos(5, masked=True), make_demos(5, lengths=(30, 4), masked=True)
    contexts = Contexts.fit(train, 3)
    table = TabularPolicies(1, 3, contexts, train.valid_actions, smoothing=0.1, backoff=2.5)
    table.m_step(Prepared.of(train, contexts), np.ones((train.n_steps, 1)))
    model = NGram(length=3, backoff=2.5, smoothing=0.1, reads="states", kernels=False).fit(train)
    np.testing.assert_allclose(model.log_likelihood(test), table.log_likelihood(Prepared.of(test, contexts))[:, 0])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_order_two_world_is_recognised(seed):
    model = NGram(max_length=4).fit(order_two(seed))
    assert model.length_ == 2
    test = order_two(seed + 100)
    assert model.score(test) > Empirical().fit(order_two(seed)).score(test) + 0.3
    assert model.reads_ == "states"
    assert len(model.validation_) == 3 * (1 + 3 * len(BACKOFFS))


def test_choices_are_made_on_validation_data_and_counted_on_all():
    demos = order_two(0)
    model = NGram().fit(demos)
    train, validation = validation_split(demos, 0.1, 0)
    best = max(row["log_likelihood"] for row in model.validation_)
    chosen = NGram(length=model.length_, backoff=model.backoff_, reads=model.reads_, kernels=False).fit(train)
    assert chosen.score(validation) == pytest.approx(best, abs=1e-3)
    assert model.table_.counts[0, :3].sum() == demos.n_steps  # every step, those of the validation part too


@pytest.mark.parametrize("folds", [1, 3])
def test_where_every_memory_meets_the_impossible_there_is_none(folds):
    states = np.random.default_rng(0).integers(2, size=(6, 10))
    own = np.repeat(np.arange(6), 10).reshape(6, 10)  # an action that nobody else takes
    demos = Demonstrations.from_arrays(states, own, n_states=2, n_actions=6)
    assert NGram(smoothing=0, folds=folds, validation_fraction=0.5).fit(demos).length_ == 1


def test_seed_decides_the_validation_trajectories():
    first, again, other = (NGram(seed=s).fit(order_two(0)).validation_ for s in (0, 0, 1))
    assert first == again
    assert first != other


def test_a_single_trajectory_is_split_in_time(make_demos):
    demos = make_demos(lengths=(20,))
    train, validation = validation_split(demos, 0.1, 0)
    np.testing.assert_array_equal(np.concatenate([train.states, validation.states]), demos.states)
    assert validation.n_steps == 2
    assert validation_split(demos, 0.0, 0)[1] is None


def test_unknown_states_are_uniform(make_demos):
    train = make_demos(6)
    strange = Demonstrations.from_arrays([[0, 5, 5]], [[0, 1, 2]], n_states=6, n_actions=3)
    for model in MODELS:
        proba = model.fit(train).action_proba(replace(strange, unknown_state=True))
        np.testing.assert_allclose(proba[1:], 1 / 3)
        with pytest.raises(InputError, match="not part of the fit"):
            model.action_proba(strange)


@pytest.mark.parametrize(
    "model",
    [
        Empirical(smoothing=-1.0),
        NGram(length=0),
        NGram(length="longest"),
        NGram(max_length=0),
        NGram(backoff=-1.0),
        NGram(smoothing=float("nan")),
        NGram(validation_fraction=1.0),
        NGram(reads="thoughts"),
        NGram(kernels="slow"),
    ],
)
def test_bad_parameters(make_demos, model):
    with pytest.raises(InputError):
        model.fit(make_demos())


def test_an_mdp_of_another_world_is_refused(make_demos):
    with pytest.raises(InputError, match="same sets"):
        Uniform().fit(make_demos(), MDP.from_demonstrations(make_demos(n_states=4)))


# -- what was done -----------------------------------------------------------------------------------------------------


def perseverant(seed, *, rate, weight, n=40, length=80):
    """Choices between two, by a cue and by a trace of past choices; rate 1 is the last choice alone."""
    rng = np.random.default_rng(seed)
    states, actions, trace = rng.integers(4, size=(n, length)), np.zeros((n, length), np.int64), np.zeros(n)
    for t in range(length):
        logit = (states[:, t] - 1.5) + weight * trace
        actions[:, t] = rng.random(n) < 1 / (1 + np.exp(-logit))
        trace += rate * (2 * actions[:, t] - 1 - trace)
    return Demonstrations.from_arrays(states, actions, n_states=4, n_actions=2)


def test_a_habit_knows_what_was_done_last():
    train, test = (perseverant(seed, rate=1.0, weight=1.5) for seed in (0, 1))
    model, blind = NGram(max_length=3).fit(train), NGram(max_length=3, reads="states", kernels=False).fit(train)
    assert model.reads_ in ("actions", "both") or model.kernels_ is not None
    assert model.score(test) > blind.score(test) + 0.1
    assert model.score(test) < -0.4  # nothing leaks: the process itself has no more to say


def test_a_habit_knows_slow_traces():
    train, test = (perseverant(seed, rate=0.05, weight=3.0) for seed in (0, 1))
    model, short = NGram(max_length=3).fit(train), NGram(max_length=3, kernels=False).fit(train)
    assert model.kernels_ is not None
    assert model.score(test) > short.score(test) + 0.005


@pytest.mark.parametrize(
    "model", [NGram(length=4, reads=reads, kernels=True) for reads in ("states", "actions", "both")]
)
def test_whoever_walks_has_the_probabilities_that_are_scored(make_demos, model):
    demos = make_demos(7, lengths=(15, 15, 15))
    model.fit(demos)
    chooser, found = model.chooser(demos, np.arange(3)), model.action_proba(demos).reshape(3, 15, -1)
    for t in range(15):
        weights = chooser.weights(demos.states.reshape(3, 15)[:, t].astype(np.int64))
        np.testing.assert_allclose(weights / weights.sum(1, keepdims=True), found[:, t])
        chooser.take(demos.actions.reshape(3, 15)[:, t].astype(np.int64))


def test_states_say_it_all_where_they_reveal_the_actions():
    states = np.random.default_rng(0).integers(3, size=(20, 40))
    actions = np.concatenate([states[:, 1:], states[:, :1]], axis=1)  # the action is where one goes
    model = NGram(max_length=3).fit(Demonstrations.from_arrays(states, actions, n_states=3, n_actions=3))
    assert {row["reads"] for row in model.validation_} == {"states"}


def test_a_livelier_habit_has_the_same_counts_and_surer_rare_contexts():
    model = NGram(length=3, backoff=64.0).fit(order_two(0))
    lively = model.livelier(0.5)
    assert (model.backoff_, lively.backoff_) == (64.0, 0.5)
    entropy = [-(p * np.log(p)).sum(-1).mean() for p in (model.policies_[0, 3:], lively.policies_[0, 3:])]
    assert entropy[1] < entropy[0] - 0.1
    assert lively.table_.counts is model.table_.counts
