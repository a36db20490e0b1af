"""A resample with every trajectory once is the fit itself; one with other weights is a fit to the copies."""

import numpy as np
import pytest

from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.models.presets import HIQL
from prism_irl.models.subject_models import refit
from worlds.cohort import CohortWorld


@pytest.fixture(scope="module")
def demos():
    return CohortWorld(animals=3, trajectories=4, horizon=40).simulate(0).demonstrations


@pytest.fixture(scope="module")
def model(demos):
    return HIQL(2, n_starts=2).fit(demos)


def test_everything_once_stays_where_it_was(model, demos):
    again = refit(model, demos, np.ones(len(demos), np.int64))
    assert again.score(demos) == pytest.approx(model.score(demos), abs=1e-3)
    np.testing.assert_allclose(again.kernel_, model.kernel_, atol=0.01)


def test_copies_count_as_often_as_they_are_drawn(model, demos):
    times = np.random.default_rng(0).integers(0, 3, len(demos))
    again = refit(model, demos, times)
    _held_out, kept = demos.split_indices(model.validation_fraction, seed=model.seed)
    assert again.rewards_model_.counts.sum() == pytest.approx((times * demos.lengths)[kept].sum())


def test_the_fit_itself_is_left_alone(model, demos):
    before = model.kernel_.copy(), model.rewards_.copy()
    again = refit(model, demos, np.arange(len(demos)) % 3)
    np.testing.assert_array_equal(model.kernel_, before[0])
    np.testing.assert_array_equal(model.rewards_, before[1])
    assert not np.allclose(again.rewards_, before[1])


def test_a_fit_that_validation_stopped_moves_with_its_resample(demos):
    model = HIQL(2, history=2, n_starts=1, stop_by="validation").fit(demos)
    again = refit(model, demos, np.arange(len(demos)) % 3)
    assert not np.allclose(again.kernel_, model.kernel_, atol=1e-3)


def test_networks_go_on_from_the_fit(demos):
    options = {"hidden": 4, "embedding": 4, "n_starts": 1, "max_iterations": 3, "device": "cpu"}
    model = Intentions(2, switching="recurrent", **options).fit(demos)
    again = refit(model, demos, np.ones(len(demos), np.int64))
    assert again.score(demos) > model.score(demos) - 0.05


def test_a_resample_of_nothing_is_refused(model, demos):
    with pytest.raises(InputError, match="no trajectory to fit to"):
        refit(model, demos, np.zeros(len(demos), np.int64))
