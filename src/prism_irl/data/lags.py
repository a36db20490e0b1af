"""The last few steps as observations of the present one: what a habit with memory may depend on.

    x'_t = (x_t, then x_{t−j}, y_{t−j}, 1 for j = 1 … steps),      zeros where a trajectory has no such step yet

A policy that is linear in x' predicts a command from the past alone, so that its density is a prediction, and it has no
intentions: whatever it predicts, nobody needs them for.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prism_irl.data.demonstrations import Demonstrations


def with_memory(demos: Demonstrations, steps: int) -> Demonstrations:
    """The same commands, with what was observed and done in the last steps among the observations."""
    assert demos.observations is not None
    assert demos.motions is not None
    x, since = demos.observations, demos.step_index
    past = np.concatenate([x, demos.motions, np.ones((len(x), 1), np.float32)], axis=1).astype(np.float32)
    parts = [x]
    for lag in range(1, steps + 1):
        before = past[np.maximum(np.arange(len(x)) - lag, 0)]
        parts.append(np.where((since >= lag)[:, None], before, np.float32(0.0)))
    return replace(demos, observations=np.concatenate(parts, axis=1), observation_names=None)
