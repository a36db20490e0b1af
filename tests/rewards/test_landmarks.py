"""Goals on landmarks: found from nothing, at the right places, saved and filtered like every other pair."""

from __future__ import annotations

import numpy as np
import pytest

from continuous_worlds import GOALS, walking
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.labels import label_accuracy
from prism_irl.models.intentions import Intentions
from prism_irl.models.registry import load
from prism_irl.rewards.options import Landmarks
from support import one_sentence


@pytest.fixture(scope="module")
def fitted():
    demos = walking(n_trajectories=16, noise=0.15)
    model = Intentions(
        3, switching="markov", rewards=Landmarks(landmarks=40), n_starts=2, max_iterations=8, device="cpu"
    )
    return demos, model.fit(demos)


def test_the_goals_are_found(fitted):
    demos, model = fitted
    assert label_accuracy(demos.labels, model.predict(demos)) > 0.95
    distance = np.linalg.norm(model.places_[:, None] - GOALS[None], axis=2)
    assert sorted(distance.argmin(axis=1)) == [0, 1, 2]
    assert distance.min(axis=1).max() < 0.6


def test_it_is_saved_and_filtered(fitted, tmp_path):
    demos, model = fitted
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(demos), model.predict_proba(demos))
    np.testing.assert_array_equal(again.places_, model.places_)
    online = again.filter()
    found = [online.step(observation=demos.observations[i], motion=demos.motions[i]) for i in range(40)]
    np.testing.assert_allclose(found, model.filter_proba(demos)[:40], atol=1e-6)


def test_an_m_step_never_lowers_the_expected_likelihood(fitted):
    demos, model = fitted
    data = model._prepare(model.units_.apply(demos))
    weights, rewards = model.predict_proba(demos), model.rewards_model_
    kept = {name: value.copy() for name, value in rewards.state().items()}

    def expected() -> float:
        return float((weights * rewards.log_likelihood(data)).sum()) + rewards.log_prior()

    before = expected()
    rewards.m_step(data, weights)
    assert expected() >= before - 1e-6
    rewards.load_state(kept)


def test_a_model_from_before_there_were_local_skills_can_be_read(fitted):
    demos, model = fitted
    rewards, d = model.rewards_model_, demos.observations.shape[1]
    kept = {name: value.copy() for name, value in rewards.state().items()}
    rewards.load_state({**kept, "local": kept["local"][:, :, : 1 + d]})
    np.testing.assert_array_equal(rewards.local[:, :, : 1 + d], kept["local"][:, :, : 1 + d])
    assert not rewards.local[:, :, 1 + d :].any()
    rewards.load_state({name: value for name, value in kept.items() if name != "local"})
    assert not rewards.local.any()
    rewards.load_state(kept)


def test_graphs_are_compared_by_all_training_data(fitted):
    _, model = fitted
    assert model.validation_chose_ == []
    assert all("validation" in row for row in model.monitor_)  # which were held out all the same


def test_tokens_are_refused():
    tokens = Demonstrations.from_arrays([np.arange(6) % 3], [np.arange(6) % 2])
    with pytest.raises(InputError, match="--observe and --act") as error:
        Intentions(2, switching="markov", rewards="landmarks").fit(tokens)
    one_sentence(error)
