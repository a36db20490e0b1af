"""Behaviour cloning: causal, normalised, reproducible, and better than a policy without memory where memory pays."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import prism_irl
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.cloning import BehaviourCloning
from prism_irl.models.references import Empirical, Uniform

SMALL = {"hidden": 8, "embedding": 8, "max_epochs": 3, "batch_size": 4, "device": "cpu"}


def remembered_cue(seed, n_trajectories=80):
    """State 0 or 1 is a cue; after two steps of random actions in state 2, the action in state 3 repeats the cue."""
    rng = np.random.default_rng(seed)
    cue = rng.integers(2, size=n_trajectories)
    neutral = np.full(n_trajectories, 2)
    states = np.stack([cue, neutral, neutral, neutral + 1], axis=1)
    actions = rng.integers(2, size=states.shape)
    actions[:, 3] = cue
    return Demonstrations.from_arrays(states, actions, n_states=4, n_actions=2)


@pytest.mark.parametrize("masked", [False, True])
def test_normalised_and_no_invalid_action(make_demos, masked):
    demos = make_demos(1, masked=masked)
    model = BehaviourCloning(**SMALL).fit(demos)
    proba = model.action_proba(demos)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    if masked:
        assert (proba[~demos.valid_actions[demos.states]] == 0).all()
    np.testing.assert_array_equal(model.predict_proba(demos), np.ones((demos.n_steps, 1)))
    assert model.score(demos) == pytest.approx(np.log(proba[np.arange(demos.n_steps), demos.actions]).mean())


def test_valid_actions_of_the_mdp(make_demos):
    masked = make_demos(1, masked=True)
    mdp = MDP.from_demonstrations(masked)
    demos = masked.with_valid_actions(None)
    proba = BehaviourCloning(**SMALL).fit(demos, mdp).action_proba(demos)
    assert (proba[~masked.valid_actions[demos.states]] == 0).all()


def test_batch_mates_do_not_matter(make_demos):
    demos = make_demos(3)
    model = BehaviourCloning(**SMALL).fit(demos)
    alone = np.concatenate([model.action_proba(demos.subset([i])) for i in range(len(demos))])
    np.testing.assert_allclose(alone, model.action_proba(demos), atol=1e-6)


def test_seed_decides_everything_and_the_global_generator_is_left_alone(make_demos):
    demos = make_demos(4)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = BehaviourCloning(**SMALL, seed=1).fit(demos).action_proba(demos)
    assert torch.rand(1) == expected
    np.testing.assert_array_equal(BehaviourCloning(**SMALL, seed=1).fit(demos).action_proba(demos), first)
    assert np.abs(BehaviourCloning(**SMALL, seed=2).fit(demos).action_proba(demos) - first).max() > 1e-4


@pytest.mark.parametrize("n_observations", [0, 2])
def test_saved_and_loaded_is_identical(make_demos, tmp_path, n_observations):
    demos = make_demos(5, masked=True, n_observations=n_observations)
    model = BehaviourCloning(**SMALL).fit(demos)
    model.save(tmp_path)
    loaded = prism_irl.load(tmp_path)
    assert repr(loaded) == repr(model)
    assert loaded.monitor_ == model.monitor_
    np.testing.assert_array_equal(loaded.action_proba(demos), model.action_proba(demos))


def test_it_remembers_what_a_state_policy_forgets():
    train, test = remembered_cue(0), remembered_cue(1)
    model = BehaviourCloning(hidden=16, embedding=16, device="cpu").fit(train)
    gain = (model.log_likelihood(test) - Empirical().fit(train).log_likelihood(test)).reshape(-1, 4)
    assert gain[:, 3].mean() > 0.5  # of log 2 = 0.69
    assert model.score(test) > Uniform().fit(train).score(test) + 0.1


def test_the_best_epoch_is_kept(make_demos):
    demos = make_demos(6, lengths=(20,) * 12)  # noise: more training is worse
    settings = {**SMALL, "max_epochs": 20, "learning_rate": 0.05, "dropout": 0.0}
    model = BehaviourCloning(**settings).fit(demos)
    curve = [row["validation"] for row in model.monitor_]
    assert model.best_epoch_ == int(np.argmax(curve)) + 1 < 20
    assert curve[-1] < max(curve) - 0.01
    validation, _ = demos.split(0.1, seed=0)
    assert model.score(validation) == pytest.approx(max(curve), abs=1e-6)

    impatient = BehaviourCloning(**settings, patience=3).fit(demos)
    assert len(impatient.monitor_) == impatient.best_epoch_ + 3
    without = BehaviourCloning(**settings, validation_fraction=0.0).fit(demos)
    assert without.best_epoch_ == 20


def test_small_data_gets_as_many_updates(make_demos):
    model = BehaviourCloning(hidden=2, embedding=2, batch_size=3, device="cpu").fit(make_demos(lengths=(1,) * 6))
    assert len(model.monitor_) == 200  # 400 updates of five trajectories in two batches


def test_unknown_states_have_a_distribution(make_demos):
    model = BehaviourCloning(**SMALL).fit(make_demos(7, masked=True))
    strange = Demonstrations.from_arrays([[0, 5, 5]], [[0, 1, 2]], n_states=6, n_actions=3)
    proba = model.action_proba(replace(strange, unknown_state=True))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert (proba[1:] > 0).all()


@pytest.mark.parametrize(
    "change",
    [
        {"hidden": 0},
        {"embedding": 0},
        {"batch_size": 0},
        {"max_epochs": 0},
        {"patience": 0},
        {"dropout": 1.0},
        {"learning_rate": 0.0},
        {"weight_decay": -1.0},
        {"validation_fraction": 1.0},
        {"device": "abacus"},
    ],
)
def test_bad_parameters(make_demos, change):
    with pytest.raises(InputError):
        BehaviourCloning(**{**SMALL, **change}).fit(make_demos())
