"""How fine the tokens are: coverage, revisits and singletons of a trajectory (the paper's Table state_granularity).

For a trajectory of T steps that visits D distinct states of S: coverage 100·D/S, revisits T/D, singletons
100·(states visited once)/D. Many singletons mean that a table over states has seen each of them once and knows nothing.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from prism_irl.data.demonstrations import Demonstrations


def granularity(demos: Demonstrations) -> dict[str, dict[str, float]]:
    """Mean and standard deviation over trajectories of coverage (%), revisits and singletons (%)."""
    found = []
    for start, end in pairwise(demos.offsets):
        counts = np.unique(demos.states[start:end], return_counts=True)[1]
        distinct = len(counts)
        found.append(
            (100 * distinct / demos.n_states, (end - start) / distinct, 100 * float((counts == 1).sum()) / distinct)
        )
    columns = np.array(found, dtype=np.float64).T
    return {
        name: {"mean": float(values.mean()), "std": float(values.std())}
        for name, values in zip(("coverage", "revisits", "singletons"), columns, strict=True)
    }
