"""Stacked refits give the draws of refits one after the other, whatever the lengths of the trajectories."""

import numpy as np
import pytest
import torch

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models.presets import HIQL
from prism_irl.scale.stacked.chains import can_stack_refits, refits_at_once
from prism_irl.studies.intervals import one_draw
from prism_irl.studies.stacked_intervals import stacked_draws
from worlds.cohort import CohortWorld


@pytest.fixture(scope="module")
def demos():
    """Twelve trajectories of different lengths."""
    whole = CohortWorld(animals=3, trajectories=2, horizon=40, size=3).simulate(0).demonstrations
    cuts = [np.arange(first, first + 40 - 3 * i) for i, first in enumerate(whole.offsets[:-1])]
    return Demonstrations.from_arrays(
        [whole.states[cut] for cut in cuts], [whole.actions[cut] for cut in cuts], groups=whole.groups, n_states=9
    )


@pytest.mark.parametrize("history", [1, 2])
@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
)
def test_stacked_draws_are_those_of_refits_alone(demos, history, device):
    model = HIQL(2, n_starts=1, max_iterations=8, history=history, validation_fraction=0.2).fit(demos)
    assert can_stack_refits(model, demos)
    assert refits_at_once(model, demos) > 100
    labels = model.predict(demos)
    together = stacked_draws(range(4), model, demos, labels, 0, device)
    for i in range(4):
        alone = one_draw(model, demos, labels, 0, i)
        assert set(alone) == set(together)
        for name, value in alone.items():
            np.testing.assert_allclose(together[name][i], value, rtol=1e-6, atol=1e-8, err_msg=name)
