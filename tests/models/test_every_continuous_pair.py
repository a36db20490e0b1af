"""One suite for every pair that has no tokens: the promises of the others, with a density in place of probabilities."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import prism_irl as prism
from continuous_worlds import walking
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models import registry
from prism_irl.models.base import IntentionModel
from prism_irl.rewards.options import Landmarks, Windows
from support import assert_sums_over_paths

CONTINUOUS = {entry.id: entry for entry in registry.pairs() if entry.id.endswith(("+landmarks", "+windows"))}
# What makes a fit small; each method takes what it knows.
SMALL = {"n_intentions": 2, "n_starts": 1, "max_iterations": 2, "device": "cpu", "hidden": 4, "warm_up": 2}
HALVES = {"landmarks": Landmarks(landmarks=12), "windows": Windows(window=3)}
TRAIN, TEST = walking(n_trajectories=6, noise=0.15), walking(n_trajectories=2, noise=0.15, seed=1)


def unfitted(name: str) -> IntentionModel:
    model = CONTINUOUS[name].build()
    known = model.get_params(deep=False)
    small = {key: value for key, value in SMALL.items() if key in known} | {"rewards": HALVES[name.split("+")[1]]}
    if name.startswith("single"):
        small["n_intentions"] = 1
    return model.set_params(**small)


@pytest.fixture(scope="module")
def fitted() -> dict[str, IntentionModel]:
    return {name: unfitted(name).fit(TRAIN) for name in CONTINUOUS}


def test_every_switching_model_has_landmarks_and_windows() -> None:
    assert len(CONTINUOUS) == 2 * len([entry for entry in registry.pairs() if entry.id.endswith("+tabular")])


@pytest.mark.parametrize("name", CONTINUOUS)
def test_likelihood_is_a_sum_over_all_sequences_of_intentions(name: str, fitted: dict[str, IntentionModel]) -> None:
    assert_sums_over_paths(fitted[name], walking(n_trajectories=2, length=5, noise=0.15, seed=2))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_interface(name: str, fitted: dict[str, IntentionModel]) -> None:
    model = fitted[name]
    assert np.isfinite(model.score(TEST))
    intentions = model.predict_proba(TEST)
    np.testing.assert_allclose(intentions.sum(axis=1), 1.0, atol=1e-6)
    if name.startswith("ordered"):  # labels are the best path in order, and no step goes back
        within = np.diff(model.predict(TEST))[~TEST.first_steps[1:]]
        assert (within >= 0).all()
    else:
        np.testing.assert_array_equal(model.predict(TEST), intentions.argmax(axis=1))
    if name.endswith("landmarks"):
        assert model.places_.shape == (model.n_intentions, 2)
    assert model.looks_ahead == name.endswith("windows")


@pytest.mark.parametrize("name", CONTINUOUS)
def test_beliefs_are_causal_and_a_stream_is_the_batch(name: str, fitted: dict[str, IntentionModel]) -> None:
    model, whole = fitted[name], TEST.subset([0])
    later = np.arange(whole.n_steps)[:, None] >= 20
    changed = replace(whole, motions=np.where(later, -whole.motions, whole.motions))
    before, after = model.filter_proba(whole), model.filter_proba(changed)
    np.testing.assert_allclose(before[:20], after[:20], atol=1e-6)
    stream = model.filter()
    for t in range(30):
        now = stream.step(observation=whole.observations[t], motion=whole.motions[t])
        np.testing.assert_allclose(now, before[t], atol=1e-5)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_saved_loaded_and_fitted_again(name: str, fitted: dict[str, IntentionModel], tmp_path: Path) -> None:
    model = fitted[name]
    model.save(tmp_path)
    loaded = prism.load(tmp_path)
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.predict_proba(TEST), model.predict_proba(TEST))
    again = clone(unfitted(name)).fit(TRAIN)
    np.testing.assert_array_equal(again.predict_proba(TEST), model.predict_proba(TEST))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_bad_input(name: str) -> None:
    with pytest.raises(NotFittedError):
        unfitted(name).score(TEST)
    with pytest.raises(InputError, match=r"\.$"):
        unfitted(name).fit(Demonstrations.from_arrays([np.arange(6) % 3], [np.arange(6) % 2]))
