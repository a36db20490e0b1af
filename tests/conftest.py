"""Small random demonstrations, and one thread: tiny tensors lose more to threads than they gain."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy, torch and scikit-learn start their threads

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings

from prism_irl.data.demonstrations import Demonstrations

# New examples on every developer's run, the same ones in CI: a landing must not depend on luck. Nor on how busy the
# machine is, so that no example has a deadline.
settings.register_profile("ours", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "ours")

LENGTHS = (7, 1, 4, 12, 5, 3, 9, 2)


def random_demonstrations(
    seed: int = 0,
    *,
    n_states: int = 5,
    n_actions: int = 3,
    lengths: Sequence[int] = LENGTHS,
    n_observations: int = 0,
    masked: bool = False,
    **fields: Any,
) -> Demonstrations:
    """Ragged trajectories of random states and actions; ``masked`` forbids some actions in some states."""
    rng = np.random.default_rng(seed)
    valid = np.ones((n_states, n_actions), dtype=bool)
    if masked:
        valid = rng.random((n_states, n_actions)) < 0.5
        valid[np.arange(n_states), rng.integers(n_actions, size=n_states)] = True
    states = [rng.integers(n_states, size=length) for length in lengths]
    actions = [np.array([rng.choice(np.flatnonzero(valid[s])) for s in trajectory]) for trajectory in states]
    if n_observations:
        fields["observations"] = [rng.normal(size=(length, n_observations)) for length in lengths]
    if masked:
        fields["valid_actions"] = valid
    return Demonstrations.from_arrays(states, actions, n_states=n_states, n_actions=n_actions, **fields)


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    torch.set_num_threads(1)
    if find_spec("numba"):
        import numba

        numba.set_num_threads(1)


@pytest.fixture(scope="session")
def make_demos():
    """The function `random_demonstrations`."""
    return random_demonstrations
