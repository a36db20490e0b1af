"""The cohort does what its truth says."""

import numpy as np
import pytest

from prism_irl.errors import InputError
from prism_irl.evaluation.tables import dwell_per_intention
from prism_irl.evaluation.units import count_units, ratio
from worlds.cohort import CohortWorld


class Oracle:
    n_intentions = 2

    def predict_proba(self, demos):
        return np.eye(2)[demos.labels]


@pytest.mark.parametrize("effect", [{"usage": 1.6}, {"switching": 1.5}, {"paired": True}])
def test_a_large_cohort_has_the_expected_numbers(effect):
    world = CohortWorld(animals=150, trajectories=4, horizon=60, **effect)
    cohort = world.simulate(3)
    demos, truth = cohort.demonstrations, world.truth()
    assert len(np.unique(demos.groups)) == (150 if world.paired else 300)
    for i, condition in enumerate(("saline", "drug")):
        part = demos.subset(cohort.condition == condition)
        counts = count_units(Oracle(), part, np.unique(part.groups, return_inverse=True)[1])
        found = ratio(np.ones((1, len(counts.over))), counts)[0]
        assert found[:2] == pytest.approx(truth["usage"][i], abs=0.03)
        # segments that begin or end with their trajectory are shorter than what the truth says of whole ones
        assert found[2:4] == pytest.approx(dwell_per_intention(part.labels, part.offsets, 2), rel=0.08)
        assert (found[2:4] < truth["dwell"][i]).all()
        assert found[4] == pytest.approx(truth["switch_rate"][i], rel=0.06)


def test_the_same_seed_gives_the_same_cohort():
    world = CohortWorld(animals=2)
    one, two = world.simulate(5), world.simulate(5)
    assert one.demonstrations.checksum() == two.demonstrations.checksum() != world.simulate(6).demonstrations.checksum()


def test_a_goal_that_moves_is_another_policy():
    world = CohortWorld(moved=0.5)
    np.testing.assert_array_equal(world.policies[0, 0], world.policies[1, 0])
    assert np.abs(world.policies[0, 1] - world.policies[1, 1]).max() > 0.1


def test_wrong_settings_are_refused():
    with pytest.raises(InputError, match="moved is 2"):
        CohortWorld(moved=2)
