"""Units: fitted on training data, kept with the model, and the same for new data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuous_worlds import walking
from gaussian import linear_design
from prism_irl.data.continuous import (
    CONSTANT,
    DIFFERENCE,
    PLACE,
    TARGET,
    TWO_VALUED,
    Movement,
    Units,
    around,
    moving,
    share_by_time,
    standardised,
)
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.intentions import Intentions
from prism_irl.models.registry import load
from support import one_sentence


def test_training_data_has_mean_zero_and_spread_one():
    demos = walking()
    found = Units.fit(demos).apply(demos)
    for values in (found.observations, found.motions):
        np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=1e-5)
        np.testing.assert_allclose(values.std(axis=0), 1.0, atol=1e-5)
    assert (found.n_states, found.n_actions) == (64, 16)


def test_cells_are_the_nearest_centres():
    demos = walking(n_trajectories=3)
    units = Units.fit(demos, n_cells=7)
    found = units.apply(demos)
    distance = np.linalg.norm(found.observations[:, None] - units.cells[None], axis=2)
    np.testing.assert_array_equal(found.states, distance.argmin(axis=1))
    state, action, x, y = units.step(demos.observations[5], demos.motions[5])
    assert (state, action) == (found.states[5], found.actions[5])
    np.testing.assert_allclose(x, found.observations[5], atol=1e-6)
    np.testing.assert_allclose(y, found.motions[5])


@settings(max_examples=6, deadline=None)
@given(st.floats(0.01, 100.0), st.floats(-50.0, 50.0))
def test_a_density_changes_by_the_volume_of_the_unit_alone(scale, shift):
    """Commands in other units: the same intentions, and a density that is lower by the log of the unit."""
    demos = walking(n_trajectories=4, length=30)
    other = replace(demos, motions=demos.motions * scale + shift, observations=demos.observations * 3.0 - 1.0)
    options = {"switching": "markov", "rewards": "features", "n_starts": 1, "max_iterations": 3, "device": "cpu"}
    one, two = Intentions(2, **options).fit(demos), Intentions(2, **options).fit(other)
    np.testing.assert_allclose(one.predict_proba(demos), two.predict_proba(other), atol=1e-3)
    np.testing.assert_allclose(two.score(other), one.score(demos) - 2 * np.log(scale), atol=1e-3)


def test_a_fit_takes_its_units_from_training_trajectories_alone():
    demos = walking(n_trajectories=6, length=20)
    held_out = demos.split_indices(0.4, seed=0)[0]
    steps = np.isin(demos.trajectory_index, held_out)
    moved = replace(demos, motions=np.where(steps[:, None], demos.motions + 1000.0, demos.motions))
    options = {"switching": "markov", "rewards": "features", "n_starts": 1, "max_iterations": 1, "device": "cpu"}
    found = [Intentions(2, validation_fraction=0.4, **options).fit(data).units_ for data in (demos, moved)]
    np.testing.assert_array_equal(found[0].command_mean, found[1].command_mean)


@pytest.mark.parametrize("switching", ["markov", "state", "ordered", "recurrent", "independent", "per-trajectory"])
def test_every_switching_model_fits_saves_and_filters(switching, tmp_path):
    demos = walking(n_trajectories=5, length=25)
    small = {"n_starts": 1, "max_iterations": 2, "warm_up": 2, "n_candidates": 1, "hidden": 4, "embedding": 4}
    model = Intentions(2, switching=switching, rewards="features", device="cpu", **small).fit(demos)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(model.predict_proba(demos), again.predict_proba(demos))
    np.testing.assert_array_equal(model.reward_at(demos.observations), again.reward_at(demos.observations))
    online, steps = again.filter(), range(int(demos.offsets[1]))
    beliefs = [online.step(observation=demos.observations[i], motion=demos.motions[i]) for i in steps]
    np.testing.assert_allclose(beliefs, model.filter_proba(demos)[: len(steps)], atol=1e-5)
    with pytest.raises(InputError, match="give both of every step") as error:
        online.step(0, 0)
    one_sentence(error)


def test_new_data_of_another_kind_is_refused():
    demos = walking(n_trajectories=4, length=20)
    model = Intentions(2, switching="markov", rewards="features", n_starts=1, max_iterations=1, device="cpu").fit(demos)
    tokens = Demonstrations.from_arrays([np.zeros(4, int)], [np.zeros(4, int)])
    for wrong, words in (
        (tokens, "--observe and --act"),
        (replace(demos, observations=demos.observations[:, :1]), "1 observations per step, those of the fit had 2"),
    ):
        with pytest.raises(InputError, match=words) as error:
            model.predict(wrong)
        one_sentence(error)


def test_what_carries_its_own_design_needs_no_units():
    demos = walking(n_trajectories=2, length=5)
    assert demos.state_space.continuous
    assert not demos.with_commands(demos.motions, np.ones((10, 2, 1))).state_space.continuous


def test_a_quantity_that_never_changes_does_no_harm():
    demos = walking(n_trajectories=3, length=10)
    still = replace(demos, observations=np.c_[demos.observations, np.full(demos.n_steps, 7.0, np.float32)])
    assert np.isfinite(Units.fit(still).apply(still).observations).all()


def test_linear_design_is_a_linear_policy():
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 2.0, size=(40, 2))
    weights = rng.normal(size=(3, 3))
    scaled = np.column_stack([np.ones(40), (x - x.mean(0)) / x.std(0)])
    np.testing.assert_allclose(linear_design(x, 3) @ weights.ravel(), scaled @ weights.T)


# -- columns of recordings are recognised from their values.


def recordings(n=6, seed=0, same=True):
    """Two joints, a lamp that is always on, a gripper; targets, differences and the gripper's command."""
    rng = np.random.default_rng(seed)
    seen, done = [], []
    for _ in range(n):
        T = int(rng.integers(60, 90))
        u = np.linspace(0, 1, T) if same else (np.linspace(0, 1, T) * 3 + rng.random()) % 1
        joints = np.stack([np.sin(5 * u), np.cos(4 * u)], 1) + rng.normal(0, 0.01, (T, 2))
        shut = (u > 0.5).astype(float)
        seen.append(np.column_stack([joints, np.full(T, 3.0), shut]))
        step = np.gradient(joints[:, 0])
        done.append(np.column_stack([joints[:, 1], step + rng.normal(0, 0.01, T), shut]))
    return Demonstrations.continuous(seen, done)


def test_every_column_is_recognised():
    movement = Movement.fit(recordings())
    assert movement.kinds.tolist() == [PLACE, PLACE, CONSTANT, TWO_VALUED, TARGET, DIFFERENCE, TWO_VALUED]
    assert set(movement(recordings(seed=1)).switch.ravel()) == {0.0, 1.0}


def test_a_gripper_is_two_valued_by_its_name():
    rng = np.random.default_rng(0)
    width = [np.repeat(rng.uniform(0.2, 0.9, 8), 10)[:, None] + rng.normal(0, 0.02, (80, 1)) for _ in range(5)]
    joint = [np.sin(np.linspace(0, 3, 80))[:, None] for _ in range(5)]
    seen = [np.column_stack(parts) for parts in zip(joint, width, strict=True)]
    plain = Demonstrations.continuous(seen, joint, observation_names=("a", "b"), motion_names=("c",))
    named = Demonstrations.continuous(seen, joint, observation_names=("a", "gripper.pos"), motion_names=("c",))
    assert Movement.fit(plain).kinds[1] == PLACE
    assert Movement.fit(named).kinds[1] == TWO_VALUED


def test_many_joints_come_as_whitened_components():
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(2, 26))
    seen = [np.stack([np.sin(6 * u), np.cos(5 * u)], 1) @ mix for u in (np.linspace(0, 1, 90) for _ in range(5))]
    moved = Movement.fit(demos := Demonstrations.continuous(seen, seen))(demos)
    assert moved.place.shape[1] <= 3
    np.testing.assert_allclose(moved.place.std(0), 1.0, atol=0.15)


def test_time_tells_of_stages_and_not_of_gestures_in_any_order():
    demos = recordings()
    assert share_by_time(Movement.fit(demos)(demos), demos.offsets) > 0.5
    other = recordings(same=False)
    assert share_by_time(Movement.fit(other)(other), other.offsets) < 0.15


def test_units_survive_being_saved_and_other_columns_are_refused():
    demos = recordings()
    movement = Movement.fit(demos)
    again = Movement.from_state(movement.state())
    for one, two in zip(movement(demos), again(demos), strict=True):
        np.testing.assert_array_equal(one, two)
    short = Demonstrations.continuous([np.zeros((5, 2))], [np.zeros((5, 1))])
    with pytest.raises(InputError, match="name the same columns"):
        movement(short)


# -- windows around steps: what they hold, and that no trajectory sees another.


OFFSETS = np.array([0, 5, 12])
VALUES = np.random.default_rng(0).normal(3.0, 2.0, (12, 2))


def test_every_trajectory_is_standardised_by_itself():
    found = standardised(VALUES, OFFSETS)
    for part in (found[:5], found[5:]):
        np.testing.assert_allclose(part.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(part.std(axis=0), 1.0)
    np.testing.assert_array_equal(standardised(np.ones((12, 1)), OFFSETS), 0.0)  # what never changes says nothing


def test_lags_stay_within_the_trajectory():
    found = around(VALUES, OFFSETS, (-2, 0, 1))
    np.testing.assert_array_equal(found[3], np.concatenate([VALUES[1], VALUES[3], VALUES[4]]))
    np.testing.assert_array_equal(found[4], np.concatenate([VALUES[2], VALUES[4], VALUES[4]]))  # its end is repeated
    np.testing.assert_array_equal(found[5], np.concatenate([VALUES[5], VALUES[5], VALUES[6]]))


def test_means_and_spreads_of_a_window():
    mean, spread = moving(VALUES, OFFSETS, 3)
    np.testing.assert_allclose(mean[7], VALUES[6:9].mean(axis=0))
    np.testing.assert_allclose(spread[7], VALUES[6:9].std(axis=0))
    np.testing.assert_allclose(mean[4], (VALUES[3] + 2 * VALUES[4]) / 3)
