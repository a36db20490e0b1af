"""IAVI against the authors' published objectworld outputs (Kalweit et al. 2020)."""

import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from prism_irl.mdp import MDP
from prism_irl.rewards.iavi import solve_iavi

GRID, WIND, DISCOUNT = 32, 0.3, 0.9
MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1), (0, 0))

# The authors stop their sweeps at max |Δr| ≤ 1e-4, so their q and r are this far from the exact solution.
PUBLISHED_DIFFERENCES = {4: (0.03, 0.014), 32: (0.15, 0.032), 128: (0.17, 0.038), 512: (0.28, 0.049)}


def reference_file() -> Path:
    beside_the_repository = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("PRISM_DATA", beside_the_repository)) / "reference" / "objectworld_iavi.npz"


@pytest.fixture(scope="module")
def reference() -> dict[str, np.ndarray]:
    if not reference_file().exists():
        pytest.skip("objectworld_iavi.npz is absent; set PRISM_DATA to the folder that holds reference/")
    with np.load(reference_file(), allow_pickle=False) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def objectworld() -> MDP:
    transitions = sparse.dok_array((GRID * GRID * len(MOVES), GRID * GRID))
    gust = WIND / len(MOVES)
    for s, (a, intended) in product(range(GRID * GRID), enumerate(MOVES)):
        row = s * len(MOVES) + a
        if intended == (0, 0):
            transitions[row, s] = 1 - WIND + gust
        for move in MOVES[:4]:
            x, y = s % GRID + move[0], s // GRID + move[1]
            blocked = not (0 <= x < GRID and 0 <= y < GRID)
            # Where the intention is to stay, the authors forget the mass that the wind pushes against a wall.
            if not (blocked and intended == (0, 0)):
                transitions[row, s if blocked else x + GRID * y] += gust + (1 - WIND) * (move == intended)
    rows = transitions.tocsr()
    return MDP(sparse.diags_array(1 / rows.sum(axis=1)) @ rows, DISCOUNT)


@pytest.mark.parametrize("trajectories", PUBLISHED_DIFFERENCES)
def test_exact_solution_differs_from_the_authors_by_their_stopping_error_only(
    trajectories: int, objectworld: MDP, reference: dict[str, np.ndarray]
) -> None:
    q_difference, r_difference = PUBLISHED_DIFFERENCES[trajectories]
    solution = solve_iavi(objectworld, reference[f"policy_{trajectories}"], floor=1e-6)
    # Both ways and to the last published digit: a wrong wall or average moves these by more than the rounding.
    assert np.abs(solution.q - reference[f"q_{trajectories}"]).max() == pytest.approx(q_difference, abs=5e-3)
    assert np.abs(solution.rewards - reference[f"r_{trajectories}"]).max() == pytest.approx(r_difference, abs=5e-4)


def test_unvisited_states_are_those_without_a_trajectory(objectworld: MDP, reference: dict[str, np.ndarray]) -> None:
    visits = np.zeros((GRID * GRID, len(MOVES)))
    np.add.at(visits, (reference["trajectories_512"][..., 0], reference["trajectories_512"][..., 1]), 1)
    policy = reference["policy_512"]
    unvisited = solve_iavi(objectworld, policy, visits, floor=1e-6).unvisited
    assert unvisited is not None
    assert 0 < unvisited.sum() < GRID * GRID
    np.testing.assert_allclose(policy[unvisited], 0.2)
    np.testing.assert_allclose(policy[~unvisited], visits[~unvisited] / visits[~unvisited].sum(axis=1, keepdims=True))
