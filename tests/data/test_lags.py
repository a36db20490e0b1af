"""Memory as observations: what was seen and done before, and never what comes."""

from __future__ import annotations

import numpy as np

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.lags import with_memory


def test_a_step_remembers_its_own_trajectory_and_nothing_else():
    seen = [np.arange(4.0)[:, None], 10 + np.arange(3.0)[:, None]]
    done = [100 + np.arange(4.0)[:, None], 200 + np.arange(3.0)[:, None]]
    found = with_memory(Demonstrations.continuous(seen, done), 2)
    np.testing.assert_array_equal(
        found.observations,
        [
            [0, 0, 0, 0, 0, 0, 0],
            [1, 0, 100, 1, 0, 0, 0],
            [2, 1, 101, 1, 0, 100, 1],
            [3, 2, 102, 1, 1, 101, 1],
            [10, 0, 0, 0, 0, 0, 0],
            [11, 10, 200, 1, 0, 0, 0],
            [12, 11, 201, 1, 10, 200, 1],
        ],
    )
    np.testing.assert_array_equal(found.motions, np.concatenate(done))


def test_a_habit_with_memory_predicts_what_one_without_cannot():
    from prism_irl.models.reference_scores import continuous_scores

    rng = np.random.default_rng(0)
    runs = [np.cumsum(rng.normal(size=(80, 1)), axis=0) for _ in range(6)]  # each command is near the last one
    demos = Demonstrations.continuous([np.zeros_like(run) for run in runs], runs)
    scores = continuous_scores(demos, np.arange(6) == 5)
    held = {key: entry["predictive_ll"]["validation"] for key, entry in scores.items()}
    assert held["memory"] > held["linear"] + 0.3
