"""Counts of units add up to what the labels say, whoever recorded for longer."""

import numpy as np
import pytest

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.tables import dwell_per_intention
from prism_irl.evaluation.units import count_units, ratio


class Labelled:
    """A stand-in for a fitted model whose intention is the action."""

    n_intentions = 2

    def predict_proba(self, demos):
        return np.eye(2)[demos.actions]


@pytest.fixture
def demos():
    actions = [[0, 0, 1, 1, 1, 0], [1, 1, 0], [0, 1], [1, 1, 1, 1]]
    return Demonstrations.from_arrays([[0] * len(a) for a in actions], actions, n_states=1, n_actions=2)


def values(counts, weights):
    found = ratio(np.array([weights], float), counts)[0]
    return {(m.name, m.intention, m.to): v for m, v in zip(counts.measures, found, strict=True)}


def test_one_unit_has_the_numbers_of_its_labels(demos):
    counts = count_units(Labelled(), demos, np.zeros(4, int))
    found = values(counts, [1])
    assert found["usage", 0, None] == pytest.approx(5 / 15)
    assert found["switch_rate", None, None] == pytest.approx(4 / 11)
    # 0 is left after a step three times... of four steps that have a next one, two leave
    assert found["kernel", 0, 1] == pytest.approx(2 / 3)
    # dwell is that of the segments everywhere: 2, 1, 1, 1 and 3, 2, 1, 4 steps
    own = dwell_per_intention(demos.actions, demos.offsets, 2)
    assert [found["dwell", k, None] for k in (0, 1)] == pytest.approx(own) == [5 / 4, 10 / 4]


def test_units_weigh_the_same_however_long_they_were_recorded(demos):
    counts = count_units(Labelled(), demos, np.array([0, 1, 1, 1]))
    each = [values(counts, weights)["usage", 0, None] for weights in ([1, 0], [0, 1])]
    assert values(counts, [1, 1])["usage", 0, None] == pytest.approx(np.mean(each))
    assert each == pytest.approx([3 / 6, 2 / 9])


def test_nothing_happened_is_not_a_number(demos):
    counts = count_units(Labelled(), demos.subset([3]), np.zeros(1, int))
    assert np.isnan(values(counts, [1])["kernel", 0, 1])
    assert values(counts, [1])["dwell", 1, None] == 4  # never longer than a trajectory
