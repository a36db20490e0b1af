"""Intervals hold their estimate, are the same again, go on where they stopped, and know whose they are."""

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.presets import HIQL
from prism_irl.models.references import Uniform
from prism_irl.studies import intervals as study
from worlds.cohort import CohortWorld


@pytest.fixture(scope="module")
def demos():
    return CohortWorld(animals=4, trajectories=3, horizon=50).simulate(0).demonstrations


@pytest.fixture(scope="module")
def model(demos):
    return HIQL(2, n_starts=2).fit(demos)


@pytest.fixture(scope="module")
def found(model, demos):
    return study.intervals(model, demos, 24)


def test_every_number_lies_in_its_interval(found, model):
    assert found["n_units"] == 8
    assert found["unit"] == "group"
    assert found["agreement"] > 0.8
    for name in ("usage", "dwell", "switch_rate", "kernel"):
        low, high = found["numbers"][name]["interval"]
        assert (low <= found["numbers"][name]["estimate"]).all()
        assert (found["numbers"][name]["estimate"] <= high).all()
    assert found["numbers"]["rewards"]["interval"].shape == (2, 2, model.n_states_)


def test_units_that_were_not_drawn_score_below_the_data_of_the_fit(found, model, demos):
    assert found["numbers"]["new_units"]["estimate"] < model.score(demos)


def test_the_order_of_the_fit_is_kept_whatever_a_draw_calls_its_intentions(model, demos):
    labels = model.predict(demos)
    draw = study.one_draw(model, demos, labels, 0, 0)
    swapped = study.one_draw(model, demos, 1 - labels, 0, 0)
    np.testing.assert_allclose(draw["usage"], swapped["usage"][::-1])
    np.testing.assert_allclose(draw["kernel"], swapped["kernel"][::-1, ::-1])
    np.testing.assert_allclose(draw["rewards"], swapped["rewards"][::-1])


def test_draws_are_animals_and_the_same_again():
    one = study.draw_units(5, 0, 3)
    np.testing.assert_array_equal(one, study.draw_units(5, 0, 3))
    assert one.sum() == 5
    assert any((study.draw_units(5, 0, i) != one).any() for i in range(5))


def test_an_interrupted_bootstrap_goes_on(model, demos, tmp_path, monkeypatch):
    whole = study.bootstrap(model, demos, 22, folder=tmp_path)
    first = sorted(tmp_path.glob("draws_*"))
    assert len(first) == 3
    first[1].unlink()
    asked = []
    make = study.one_draw
    monkeypatch.setattr(study, "one_draw", lambda *given: (asked.append(given[-1]), make(*given))[1])
    again = study.bootstrap(model, demos, 22, folder=tmp_path)
    assert asked == list(range(10, 20))
    for name in whole:
        np.testing.assert_array_equal(again[name], whole[name])


def test_without_groups_trajectories_are_resampled(demos):
    plain = Demonstrations.from_arrays(demos.states.reshape(-1, 50), demos.actions.reshape(-1, 50))
    assert study.units_of(plain)[1:] == (len(demos), "trajectory")


@pytest.mark.parametrize(
    ("n", "model", "said"),
    [(5, HIQL(2), "20 or more"), (50, Uniform(), "not fitted by EM"), (-1, HIQL(2), "20 or more")],
)
def test_what_cannot_have_intervals_is_refused(n, model, said, demos):
    with pytest.raises(InputError, match=said):
        study.check_intervals(n, model, demos)


def test_one_animal_of_one_trajectory_has_none(demos):
    with pytest.raises(InputError, match="at least two"):
        study.check_intervals(50, HIQL(2), demos.subset([0]))
