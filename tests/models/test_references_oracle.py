"""The exact filter of a simulated world, as a method."""

import numpy as np
import pytest

from prism_irl.models.references import WorldOracle
from worlds.labyrinth import LabyrinthWorld


def test_the_truth_is_a_model():
    world = LabyrinthWorld()
    demos = world.simulate(3, horizon=50, seed=2).demonstrations
    model = WorldOracle(world).fit(demos)
    assert model.score(demos) == pytest.approx(world.oracle(demos).log_likelihood.mean())
    np.testing.assert_allclose(model.predict_proba(demos).sum(axis=1), 1)
    np.testing.assert_array_equal(model.policies_, world.policies)
