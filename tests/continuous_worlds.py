"""A small continuous world for tests: a point in a square that walks to one of a few goals."""

from __future__ import annotations

import numpy as np
import pandas as pd

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.read import read_data

GOALS = np.array([[1.0, 1.0], [9.0, 2.0], [5.0, 9.0]])


def walks(n_trajectories: int = 12, length: int = 80, *, seed: int = 0, noise: float = 0.1) -> pd.DataFrame:
    """One row per step: trajectory, x, y, vx, vy and the true intention."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n_trajectories):
        x, goal = rng.uniform(0.0, 10.0, 2), int(rng.integers(len(GOALS)))
        for _ in range(length):
            if np.linalg.norm(GOALS[goal] - x) < 0.5:
                goal = int((goal + rng.integers(1, len(GOALS))) % len(GOALS))
            towards = GOALS[goal] - x
            step = 0.3 * towards / np.linalg.norm(towards) + rng.normal(0.0, noise, 2)
            rows.append((i, *x, *step, goal))
            x = x + step
    return pd.DataFrame(rows, columns=["trajectory", "x", "y", "vx", "vy", "intention"])


def walking(**options: float) -> Demonstrations:
    """The same as demonstrations."""

    demos = read_data(walks(**options), observe="x,y", act="vx,vy").demonstrations
    return demos
