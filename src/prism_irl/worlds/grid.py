"""The square grid that several worlds are played on: where moves lead, how they slip, and what a planner makes of it.

State = size·y + x; y grows upwards, so that (0, 0) is the lower left corner of a map. A chosen action is executed with
probability `success`, otherwise one of the five is drawn uniformly.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from prism_irl.errors import InputError

Floats = NDArray[np.float64]
Cell = tuple[int, int]

ACTIONS = ("up", "down", "left", "right", "stay")
_MOVES = np.array([(0, 1), (0, -1), (-1, 0), (1, 0), (0, 0)])  # (dx, dy)


def check_cells(size: int, cells: Sequence[Cell]) -> None:
    """Refuse cells (x, y) that are not on the grid."""
    for cell in cells:
        if not all(0 <= coordinate < size for coordinate in cell):
            raise InputError(f"cell {cell} lies outside the {size}×{size} grid; move it inside.")


def moves(size: int, barriers: Sequence[Cell] = ()) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(S, A) where each executed action leads, and (S, A) whether a barrier or the outer wall blocked it."""
    cells = np.stack([np.arange(size**2) % size, np.arange(size**2) // size], axis=1)
    target = cells[:, None] + _MOVES
    blocked = ((target < 0) | (target >= size)).any(axis=2)
    for barrier in barriers:
        blocked |= (target == barrier).all(axis=2)
    blocked[:, ACTIONS.index("stay")] = False
    target = np.where(blocked[..., None], cells[:, None], target)
    return target @ np.array([1, size]), blocked


def slip(successor: NDArray[np.int64], success: float) -> Floats:
    """(S, A, S) the chosen action with probability ``success``, else a uniformly drawn one."""
    executed = np.eye(len(successor))[successor]
    mixed: Floats = success * executed + (1 - success) * executed.mean(axis=1, keepdims=True)
    return mixed


def target_rewards(n_states: int, targets: Sequence[int]) -> Floats:
    """(K, S, A) rewards that are received in the target: r_k(s, a) = 1[s = target k]."""
    rewards = np.zeros((len(targets), n_states, len(ACTIONS)))
    rewards[np.arange(len(targets)), list(targets)] = 1
    return rewards


def optimal_q(rewards: Floats, transitions: Floats, discount: float) -> Floats:
    """(K, S, A) optimal Q of each reward, by value iteration."""
    values, change = np.zeros(rewards.shape[:2]), np.inf
    while change > 1e-12:
        q = rewards + discount * np.einsum("sat,kt->ksa", transitions, values)
        change = np.abs(q.max(axis=2) - values).max()
        values = q.max(axis=2)
    optimal: Floats = q
    return optimal
