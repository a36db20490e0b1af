"""Intervals that fit again hold the difference, and names stay those of the fit."""

import numpy as np
import pytest

from prism_irl.models.presets import HIQL
from prism_irl.studies.contrast import contrast
from prism_irl.studies.contrast_intervals import Renamed, refitted
from worlds.cohort import CohortWorld


@pytest.fixture(scope="module")
def study():
    cohort = CohortWorld(animals=5, trajectories=3, horizon=40, usage=2.0).simulate(0)
    demos = cohort.demonstrations
    return HIQL(2, n_starts=2).fit(demos), demos, demos.groups, cohort.condition


def test_differences_lie_in_intervals_that_are_no_longer_those_of_the_fit_alone(study):
    first = contrast(*study, levels=("saline", "drug"))
    found = refitted(first, *study, 20)
    assert found["refitted"] == 20
    for before, after in zip(first["tests"], found["tests"], strict=True):
        if after["interval"] is None:
            assert before == after
            continue
        assert after["interval"][0] <= after["difference"] <= after["interval"][1]
        assert after["interval"] != before["interval"]
        assert after["p"] == before["p"]


def test_renamed_intentions_are_the_same_model(study):
    model, demos, *_ = study
    plain, renamed = model.posterior(demos), Renamed(model, np.array([1, 0])).posterior(demos)
    np.testing.assert_array_equal(plain.responsibilities[:, ::-1], renamed.responsibilities)
    np.testing.assert_array_equal(plain.transitions[::-1, ::-1], renamed.transitions)
