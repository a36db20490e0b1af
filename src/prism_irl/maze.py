"""The labyrinth of Rosenberg, Zhang, Perona & Meister (2021) as geometry: a binary tree of 127 junctions, no data file.

Node n has parent (n − 1) // 2 and lies on level ⌊log₂(n + 1)⌋; node 0 is the first junction, behind which lies the
exit, nodes 63 to 126 are dead ends, and 116 holds the water port. The tree is drawn as an H-tree on a grid of 15×15
cells, with x to the right and y downwards. Everything follows from three facts: corridors turn by a right angle at
every junction, they get shorter every other level, and a mouse enters from the left.

Actions are step types, not compass directions: 0 in-left and 1 in-right take the branch to the left or right of the
direction in which the junction is entered from its parent; 2 out-left and 3 out-right go back to the parent from a
branch that is its left or its right one, so that every node but the root has one valid way out. (0, 3) leaves the
maze, and the mouse reappears at node 0.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from prism_irl.arrays import BoolArray, FloatArray, IntArray
from prism_irl.checked import frozen

if TYPE_CHECKING:
    from prism_irl.mdp import MDP


N_LEVELS = 7
N_NODES, N_ACTIONS = 2**N_LEVELS - 1, 4
HOME, WATER = 0, 116
EXIT = (HOME, 3)
FIRST_END = N_NODES // 2  # nodes from here on are dead ends
ACTION_NAMES = ("in-left", "in-right", "out-left", "out-right")
SIZE = 15  # cells along each side
# Cells between a node of level 1, 2, … and its parent.
CORRIDOR_LENGTHS = (4, 4, 2, 2, 1, 1)


@cache
def levels() -> IntArray:
    """(127,) level of each node: 0 for the first junction, 6 for dead ends."""
    return frozen(np.floor(np.log2(np.arange(N_NODES) + 1)).astype(np.int64))


@cache
def parents() -> IntArray:
    """(127,) the node on the way out; −1 for the first junction."""
    return frozen((np.arange(N_NODES) + 1) // 2 - 1)


@cache
def headings() -> IntArray:
    """(127, 2) direction (dx, dy) in which each node is entered from its parent, the first one from the left.

    Corridors alternate between vertical and horizontal; an odd node lies above or to the left of its even sibling.
    """
    heading = np.zeros((N_NODES, 2), np.int64)
    for n, level in enumerate(levels()):
        side = -1 if n % 2 else 1
        heading[n] = (1, 0) if n == HOME else (0, side) if level % 2 else (side, 0)
    return frozen(heading)


@cache
def layout() -> FloatArray:
    """(127, 2) centre of each node in cells, x to the right and y downwards, from 0 to 14."""
    position = np.zeros((N_NODES, 2))
    position[HOME] = SIZE // 2
    for n in range(1, N_NODES):
        position[n] = position[parents()[n]] + CORRIDOR_LENGTHS[levels()[n] - 1] * headings()[n]
    return frozen(position)


@cache
def is_left_branch() -> BoolArray:
    """(127,) whether a node is the branch to the left of somebody who walks into its parent; False for the root.

    With y downwards, left of the direction (dx, dy) is (dy, −dx).
    """
    outer = headings()[np.maximum(parents(), 0)]
    left = np.stack([outer[:, 1], -outer[:, 0]], axis=1)
    return frozen((headings() == left).all(axis=1) & (np.arange(N_NODES) != HOME))


@cache
def successors() -> IntArray:
    """(127, 4) where each action leads; an action that does not exist stays in place, as does leaving the maze."""
    target = np.repeat(np.arange(N_NODES)[:, None], N_ACTIONS, axis=1)
    for n in range(1, N_NODES):
        left = bool(is_left_branch()[n])
        target[parents()[n], 0 if left else 1] = n
        target[n, 2 if left else 3] = parents()[n]
    return frozen(target)


@cache
def valid_actions() -> BoolArray:
    """(127, 4) which actions exist: both branches of a junction, one way out, and leaving the maze from node 0."""
    valid = successors() != np.arange(N_NODES)[:, None]
    valid[EXIT] = True
    return frozen(valid)


@cache
def transitions() -> FloatArray:
    """(127, 4, 127) deterministic P(s' | s, a)."""
    return frozen(np.eye(N_NODES)[successors()])


def maze_mdp(discount: float = 0.97) -> MDP:
    """Return the dynamics with the valid actions of every node."""
    from prism_irl.mdp import MDP

    return MDP.from_dense(transitions(), discount=discount, valid_actions=valid_actions())
