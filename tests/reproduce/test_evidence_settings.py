"""The calibration has enough data of every kind, each of its own, and what settled the rule does not report it."""

import numpy as np
import pytest

from prism_irl.experiments.evidence.settings import SIZES, TRUTHS, Calibration, DataSet


def test_every_data_set_has_a_name_of_its_own():
    for settings in (Calibration(), Calibration.small()):
        names = [data.id for data in settings.data_sets()]
        assert len(set(names)) == len(names)


def test_there_are_enough_of_them():
    found = list(Calibration().data_sets())
    without = [data for data in found if data.truth == 1]
    assert len(without) >= 40
    assert {data.world for data in without} == {"habit", "drift", "cloned"}
    habits = {(data.place, data.memory, data.individuals) for data in without if data.world == "habit"}
    assert len(habits) == 2 * 5 * 2
    assert {data.n for data in without} == set(SIZES)
    for world, truth in TRUTHS.items():
        own = [data for data in found if data.world == world]
        assert {data.truth for data in own} == {truth}
        assert {data.n for data in own} == set(SIZES)
    assert sum(data.truth > 1 for data in found) >= 20


def test_halves_go_by_the_parity_of_seeds():
    assert [DataSet("mice", 3, 50, seed).half for seed in (0, 1, 2, 3)] == ["settle", "report"] * 2
    assert {data.half for data in Calibration().data_sets()} == {"report"}
    even = Calibration(habits=(0, 2), further=(0,), power=(0,), smaller=(2,))
    assert {data.half for data in even.data_sets()} == {"settle"}
    assert not {data.id for data in even.data_sets()} & {data.id for data in Calibration().data_sets()}


def test_a_quick_run_has_every_kind():
    kinds = [{data.world for data in settings.data_sets()} for settings in (Calibration(), Calibration.small())]
    assert kinds[0] == kinds[1]
    assert len(list(Calibration.small().data_sets())) < 20


@pytest.mark.parametrize(
    "data",
    [
        DataSet("habit", 1, 8, 1, 2, "grid"),
        DataSet("habit", 1, 8, 1, 2, "maze", individuals=True),
        DataSet("drift", 1, 8, 1, 2, "grid"),
        *(DataSet(world, truth, 8, 1) for world, truth in TRUTHS.items()),
    ],
    ids=lambda data: data.id,
)
def test_data_sets_are_what_they_are_called(data):
    demos, mdp = data.make()
    again, _ = data.make()
    np.testing.assert_array_equal(demos.actions, again.actions)
    assert len(demos) == 8
    assert (demos.groups is not None) == data.individuals
    if mdp is not None:
        assert (mdp.n_states, mdp.n_actions) == (demos.n_states, demos.n_actions)
    labels = 1 if demos.labels is None else len(np.unique(demos.labels))
    assert labels == data.truth


def test_drift_changes_the_habit():
    still, _ = DataSet("habit", 1, 20, 1, 2, "grid").make()
    moving, _ = DataSet("drift", 1, 20, 1, 2, "grid").make()
    assert (still.actions[:50] == moving.actions[:50]).all()  # the first trajectory has not moved yet
    assert (still.actions[-50:] != moving.actions[-50:]).any()
