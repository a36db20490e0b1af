"""One suite for every method: the same promises, whatever is inside."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import prism_irl as prism
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.experiments.gridworld.run import BayesOracle
from prism_irl.experiments.labyrinth.demo import LabyrinthOracle
from prism_irl.models.base import METHODS, IntentionModel

TINY: dict[str, Any] = {"n_starts": 1, "max_iterations": 2, "device": "cpu"}
NETWORK: dict[str, Any] = {"hidden": 4, "embedding": 8, "warm_up": 2, "n_candidates": 1}
SUITE: dict[str, IntentionModel] = {
    "prism-recurrent": prism.PRISM(2, **TINY, **NETWORK),
    "prism": prism.PRISM(2, switching="independent", **TINY, **NETWORK),
    "prism-paper": prism.PRISM.paper("gridworld", max_iterations=2, hidden=4, embedding=8, device="cpu"),
    "markov": prism.PRISM(2, switching="markov", **TINY),
    "prism-goals": prism.GoalPRISM(2, history=2, backoff=4.0, **TINY),
    "hiql": prism.HIQL(2, **TINY),
    "hiql-iql": prism.HIQL(2, rewards="iql", **TINY),
    "mixture": prism.TrajectoryMixture(2, **TINY),
    "swirl-1": prism.SWIRL(2, order=1, **TINY),
    "swirl-2": prism.SWIRL(2, order=2, **TINY),
    "dirl": prism.DIRL(2, n_rounds=2, steps_per_round=2),
    "iavi": prism.IAVI(),
    "iql": prism.IQL(epochs=2),
    "maxcausalent": prism.MaxCausalEnt(max_iterations=20),
    "maxent": prism.MaxEnt(max_iterations=20),
    "uniform": prism.Uniform(),
    "empirical": prism.Empirical(),
    "ngram": prism.NGram(max_length=2),
    "bc": prism.BehaviourCloning(hidden=4, embedding=4, max_epochs=2, device="cpu"),
}
# Not a method for data: the truth of one simulated world. FeaturePRISM reads more than tokens (test_feature_pair.py).
ELSEWHERE = {BayesOracle.__name__, LabyrinthOracle.__name__, prism.FeaturePRISM.__name__}


def ragged(n_states: int = 4, n_actions: int = 3, seed: int = 0) -> Demonstrations:
    """A random walk on a ring with unequal lengths, one of them a single step."""
    generator = np.random.default_rng(seed)
    states, actions = [], []
    for length in (1, 7, 12, 5, 9, 12, 3, 8):
        a = generator.integers(n_actions, size=length)
        s = (np.concatenate([[0], np.cumsum(a[:-1])]) + generator.integers(n_states)) % n_states
        states.append(s)
        actions.append(a)
    return Demonstrations.from_arrays(states, actions, n_states=n_states, n_actions=n_actions)


@pytest.fixture(scope="module")
def fitted() -> dict[str, IntentionModel]:
    return {}


def fit(name: str, fitted: dict[str, IntentionModel]) -> IntentionModel:
    """Fit once per module."""
    if name not in fitted:
        fitted[name] = clone(SUITE[name]).fit(ragged())
    return fitted[name]


def test_the_suite_forgets_no_method() -> None:
    concrete = {name for name, cls in METHODS.items() if cls.__module__.startswith("prism_irl.")}
    abstract = {name for name, cls in METHODS.items() if inspect.isabstract(cls)}
    covered = {type(model).__name__ for model in SUITE.values()}
    assert concrete - abstract - ELSEWHERE == covered


@pytest.mark.parametrize("name", SUITE)
def test_interface_and_normalised_likelihood(name: str, fitted: dict[str, IntentionModel]) -> None:
    model, demos = fit(name, fitted), ragged(seed=1)
    proba = model.action_proba(demos)
    assert proba.shape == (demos.n_steps, demos.n_actions)
    assert (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-6)
    taken = proba[np.arange(demos.n_steps), demos.actions]
    assert model.score(demos) == pytest.approx(np.log(taken).mean(), abs=1e-6)
    intentions = model.predict_proba(demos)
    np.testing.assert_allclose(intentions.sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(model.predict(demos), intentions.argmax(axis=1))
    if model.leaks:
        assert name == "prism-paper"
    else:
        assert model.paper_score(demos) == pytest.approx(model.score(demos), abs=1e-9)


@pytest.mark.parametrize("name", SUITE)
def test_prediction_is_causal(name: str, fitted: dict[str, IntentionModel]) -> None:
    model, demos = fit(name, fitted), ragged(seed=1)
    length = int(demos.lengths[2])
    whole = demos.subset([2])
    changed = Demonstrations.from_arrays(
        [np.concatenate([whole.states[:6], (whole.states[6:] + 1) % 4])],
        [np.concatenate([whole.actions[:5], (whole.actions[5:] + 1) % 3])],
        n_states=4,
        n_actions=3,
    )
    before, after = model.action_proba(whole), model.action_proba(changed)
    assert len(before) == length
    np.testing.assert_allclose(before[:6], after[:6], atol=1e-6)


@pytest.mark.parametrize("name", SUITE)
def test_same_seed_same_result(name: str, fitted: dict[str, IntentionModel]) -> None:
    again = clone(SUITE[name]).fit(ragged())
    np.testing.assert_array_equal(again.action_proba(ragged()), fit(name, fitted).action_proba(ragged()))


@pytest.mark.parametrize("name", SUITE)
def test_saved_and_loaded_is_identical(name: str, fitted: dict[str, IntentionModel], tmp_path: Path) -> None:
    model, demos = fit(name, fitted), ragged(seed=1)
    model.save(tmp_path)
    loaded = prism.load(tmp_path)
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.action_proba(demos), model.action_proba(demos))
    np.testing.assert_array_equal(loaded.predict_proba(demos), model.predict_proba(demos))


@pytest.mark.parametrize("name", SUITE)
def test_small_worlds(name: str) -> None:
    for n_states, n_actions in ((1, 3), (4, 1), (1, 1)):
        model = clone(SUITE[name])
        if n_states * n_actions == 1 and "n_intentions" in model.get_params():
            model.set_params(n_intentions=1)
        demos = ragged(n_states, n_actions)
        score = model.fit(demos).score(demos)
        assert np.isfinite(score)
        if n_actions == 1:
            assert score == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", SUITE)
def test_bad_input(name: str, fitted: dict[str, IntentionModel]) -> None:
    with pytest.raises(NotFittedError):
        clone(SUITE[name]).score(ragged())
    with pytest.raises(InputError, match=r"State \d at trajectory"):
        fit(name, fitted).score(ragged(n_states=6))
    with pytest.raises(InputError, match=r"Action \d at trajectory"):
        fit(name, fitted).score(ragged(n_actions=5))
