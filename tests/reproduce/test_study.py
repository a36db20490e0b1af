"""The calibration counts what it says, goes on where it stopped, and finds a strong effect."""

import numpy as np
import pytest

import study
from study import Settings, Study

SMALL = Settings(
    quick=True,
    simulations=1,
    resamples=20,
    imagined=4,
    starts=1,
    cohort={"animals": 4, "trajectories": 2, "horizon": 40},
)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return study.run(SMALL, folder), folder


def test_every_scenario_is_counted(done):
    result, folder = done
    assert set(result["found"]) == {"none", "usage", "switching", "rewards"}
    assert set(result["coverage"]) >= {"contrast_usage", "fit_usage", "covariate"}
    assert all(own["of"] == 1 for own in result["found"].values())
    for found in result["what_if"].values():
        assert found["of"] == 1
        assert 0 <= found["inside"] <= 1
        assert found["prediction"] < found["unaware"]
    assert (folder / "folds.csv").is_file()
    assert (folder / "figures" / "study.svg").is_file()


def test_what_is_done_is_not_done_again(done, monkeypatch):
    result, folder = done
    monkeypatch.setattr(study, "analyse", lambda *_: pytest.fail("analysed again"))
    assert study.run(SMALL, folder)["found"] == result["found"]


def test_an_interval_is_right_in_the_order_of_the_truth():
    tests = [
        {"measure": "usage", "intention": 0, "interval": [0.1, 0.3]},
        {"measure": "usage", "intention": 1, "interval": [0.0, 0.3]},
        {"measure": "reward", "intention": 0, "interval": None},
    ]
    truth = {"usage": np.array([[0.5, 0.5], [0.3, 0.7]])}
    assert study._contrast_covers(tests, truth, np.array([1, 0]))["contrast_usage"] == [True, False]
    assert study._contrast_covers(tests, truth, np.array([0, 1]))["contrast_usage"] == [False, True]


def test_a_strong_effect_is_found_where_it_is():
    strong = Settings(starts=1, resamples=20, cohort={"trajectories": 4})
    row = study.analyse(Study("rewards", 3), strong, False)
    assert row["found"]
    assert row["label_accuracy"] > 0.9


def test_fresh_seeds_begin_where_they_are_asked_to(done):
    assert {study.seed for study in Settings(simulations=2, first_seed=1000).studies()} == {1000, 1001}
    assert done[0]["first_seed"] == 0
