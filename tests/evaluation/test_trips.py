"""Trips on a line of four states, by hand."""

import numpy as np

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.trips import COLUMNS, trips


def test_trips_begin_and_end_with_an_intention():
    demos = Demonstrations.from_arrays([[0, 1, 2, 3, 2, 1], [1, 1]], [[0] * 6, [0] * 2], n_states=4, n_actions=1)
    line = np.arange(4.0)
    distances = np.stack([3 - line, line])  # to state 3, and to state 0
    p = np.array([0.9, 0.8, 0.7, 0.6, 0.1, 0.2, 0.4, 0.3])
    found = trips(demos, np.stack([p, 1 - p], axis=1), distances)
    assert list(found.columns) == list(COLUMNS)
    assert found["to"].tolist() == [3, 0, 0]
    assert found["from"].tolist() == [0, 2, 1]
    assert found["first"].tolist() == [0, 4, 0]
    assert found["last"].tolist() == [3, 5, 1]
    assert found["arrived"].tolist() == [True, False, False]
    assert found["length"].tolist() == [3, 2, 2]
    assert found["shortest"].tolist() == [3, 2, 1]
    np.testing.assert_allclose(found["probability"], [0.75, 0.85, 0.65])
