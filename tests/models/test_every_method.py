"""One suite for every method and every pair: the same promises, whatever is inside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import prism_irl as prism
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models import registry
from prism_irl.models.base import IntentionModel
from prism_irl.models.fitted import FittedPair
from prism_irl.rewards import REWARDS
from prism_irl.switching import SWITCHING
from support import assert_sums_over_paths

# What makes a fit small; each method takes what it knows.
SMALL: dict[str, Any] = {
    "n_intentions": 2,
    "n_starts": 1,
    "max_iterations": 2,
    "device": "cpu",
    "hidden": 4,
    "embedding": 8,
    "warm_up": 2,
    "n_candidates": 1,
    "max_epochs": 2,
    "epochs": 2,
    "n_rounds": 2,
    "steps_per_round": 2,
    "max_length": 2,
    "policies": "softmax",
}
MEMORY = {"history": 2, "backoff": 4.0}
CONTINUOUS = {entry.id: entry for entry in registry.entries() if entry.id.endswith(("+landmarks", "+windows"))}
"""What has no tokens to choose among; see test_every_continuous_pair.py."""
METHODS = {
    **{entry.id: entry for entry in registry.entries() if entry.id not in {*CONTINUOUS, "phases"}},
    "hiql-iql": registry.Entry("hiql-iql", "", "prism_irl.models.presets:HIQL", "", options={"rewards": "iql"}),
}


def unfitted(name: str) -> IntentionModel:
    entry = METHODS[name]
    model = entry.build()
    known = model.get_params(deep=False)
    small = {key: value for key, value in SMALL.items() if key in known}
    if not entry.takes_intentions:
        small.pop("n_intentions", None)
    if name.endswith("goals"):  # the habit has a memory
        small |= MEMORY
    model.set_params(**small)
    return model


def ragged(n_states: int = 4, n_actions: int = 3, seed: int = 0, features: bool = False) -> Demonstrations:
    """A random walk on a ring with unequal lengths, one of them a single step; features see the state, with noise."""
    generator = np.random.default_rng(seed)
    states, actions = [], []
    for length in (1, 7, 12, 5, 9, 12, 3, 8):
        a = generator.integers(n_actions, size=length)
        s = (np.concatenate([[0], np.cumsum(a[:-1])]) + generator.integers(n_states)) % n_states
        states.append(s)
        actions.append(a)
    demos = Demonstrations.from_arrays(states, actions, n_states=n_states, n_actions=n_actions)
    if not features:
        return demos
    seen = generator.normal(size=(demos.n_steps, 2)) + demos.states[:, None]
    return replace(demos, observations=seen.astype(np.float32))


def data(name: str, *sizes: int, seed: int = 0) -> Demonstrations:
    return ragged(*sizes, seed=seed, features=name.endswith("features"))


@pytest.fixture(scope="module")
def fitted() -> dict[str, IntentionModel]:
    return {}


def fit(name: str, fitted: dict[str, IntentionModel]) -> IntentionModel:
    """Fit once per module."""
    if name not in fitted:
        fitted[name] = unfitted(name).fit(data(name))
    return fitted[name]


def test_every_pair_is_in_the_suite_or_refused_in_one_sentence() -> None:
    allowed = {entry.id for entry in registry.pairs()}
    refused = {f"{switching}+{rewards}" for switching in SWITCHING for rewards in REWARDS} - allowed
    print(f"{len(allowed)} pairs of {len(SWITCHING)} × {len(REWARDS)}; refused: {', '.join(sorted(refused))}")
    assert allowed <= {*METHODS, *CONTINUOUS}
    no_places = {f"arrival+{rewards}" for rewards in REWARDS if rewards != "places"}
    assert refused == {"single+goals", "ordered+goals", "ordered+places"} | no_places
    for identifier in refused:
        switching, rewards = identifier.split("+")
        with pytest.raises(InputError, match=r"\.$") as typed:
            registry.find(identifier)
        with pytest.raises(InputError) as fitted:
            prism.Intentions(1 if switching == "single" else 2, switching=switching, rewards=rewards).fit(ragged())
        assert str(typed.value) == str(fitted.value)


@pytest.mark.parametrize("name", METHODS)
def test_interface_and_normalised_likelihood(name: str, fitted: dict[str, IntentionModel]) -> None:
    model, demos = fit(name, fitted), data(name, seed=1)
    proba = model.action_proba(demos)
    assert proba.shape == (demos.n_steps, demos.n_actions)
    assert (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-6)
    taken = proba[np.arange(demos.n_steps), demos.actions]
    assert model.score(demos) == pytest.approx(np.log(taken).mean(), abs=1e-6)
    intentions = model.predict_proba(demos)
    np.testing.assert_allclose(intentions.sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(model.predict(demos), intentions.argmax(axis=1))
    assert model.leaks == METHODS[name].leaks
    if not model.leaks:
        assert model.paper_score(demos) == pytest.approx(model.score(demos), abs=1e-9)


@pytest.mark.parametrize("name", [entry.id for entry in registry.pairs() if entry.id in METHODS])
def test_likelihood_is_a_sum_over_all_sequences_of_intentions(name: str, fitted: dict[str, IntentionModel]) -> None:
    assert_sums_over_paths(fit(name, fitted), data(name, seed=1).subset([3, 0, 6]))


@pytest.mark.parametrize("name", METHODS)
def test_prediction_is_causal(name: str, fitted: dict[str, IntentionModel]) -> None:
    model, demos = fit(name, fitted), data(name, seed=1)
    length = int(demos.lengths[2])
    whole = demos.subset([2])
    changed = Demonstrations.from_arrays(
        [np.concatenate([whole.states[:6], (whole.states[6:] + 1) % 4])],
        [np.concatenate([whole.actions[:5], (whole.actions[5:] + 1) % 3])],
        n_states=4,
        n_actions=3,
    )
    if whole.observations is not None:
        changed = replace(changed, observations=np.concatenate([whole.observations[:6], whole.observations[6:] + 1.0]))
    before, after = model.action_proba(whole), model.action_proba(changed)
    assert len(before) == length
    np.testing.assert_allclose(before[:6], after[:6], atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_same_seed_same_result(name: str, fitted: dict[str, IntentionModel]) -> None:
    again = clone(unfitted(name)).fit(data(name))
    np.testing.assert_array_equal(again.action_proba(data(name)), fit(name, fitted).action_proba(data(name)))


@pytest.mark.parametrize("name", METHODS)
def test_saved_and_loaded_is_identical(name: str, fitted: dict[str, IntentionModel], tmp_path: Path) -> None:
    model, demos = fit(name, fitted), data(name, seed=1)
    model.save(tmp_path)
    loaded = prism.load(tmp_path)
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.action_proba(demos), model.action_proba(demos))
    np.testing.assert_array_equal(loaded.predict_proba(demos), model.predict_proba(demos))
    if hasattr(model, "rewards_"):
        np.testing.assert_array_equal(loaded.rewards_, model.rewards_)


@pytest.mark.parametrize("name", METHODS)
def test_a_stream_is_the_batch(name: str, fitted: dict[str, IntentionModel]) -> None:
    model, demos = fit(name, fitted), data(name, seed=1)
    if not isinstance(model, FittedPair):
        assert not hasattr(model, "filter")
        return
    expected, stream = model.filter_proba(demos), model.filter()
    for begin, end in zip(demos.offsets[:-1], demos.offsets[1:], strict=True):
        stream.reset()
        for t in range(begin, end):
            seen = None if demos.observations is None else demos.observations[t]
            now = stream.step(int(demos.states[t]), int(demos.actions[t]), seen)
            np.testing.assert_allclose(now, expected[t], atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_small_worlds(name: str) -> None:
    for n_states, n_actions in ((1, 3), (4, 1), (1, 1)):
        model = unfitted(name)
        if n_states * n_actions == 1 and "n_intentions" in model.get_params():
            model.set_params(n_intentions=1)
        demos = data(name, n_states, n_actions)
        if n_states == 1 and model.get_params().get("rewards") == "places":
            with pytest.raises(InputError, match="same place"):
                model.fit(demos)
            continue
        score = model.fit(demos).score(demos)
        assert np.isfinite(score)
        if n_actions == 1:
            assert score == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_bad_input(name: str, fitted: dict[str, IntentionModel]) -> None:
    with pytest.raises(NotFittedError):
        unfitted(name).score(data(name))
    with pytest.raises(InputError, match=r"State \d at trajectory"):
        fit(name, fitted).score(data(name, 6))
    with pytest.raises(InputError, match=r"Action \d at trajectory"):
        fit(name, fitted).score(data(name, 4, 5))
    with pytest.raises(InputError, match=r"MDP\.from_dense"):
        unfitted(name).fit(data(name), np.ones((4, 3, 4)) / 4)
    with pytest.raises(InputError, match="same sets"):
        unfitted(name).fit(data(name), prism.MDP.from_dense(np.ones((2, 3, 2)) / 2, 0.9))
