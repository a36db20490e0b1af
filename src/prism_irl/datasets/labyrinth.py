"""Mice in a 127-node maze (Rosenberg, Zhang, Perona & Meister 2021), as 238 windows of 500 steps.

The file that the paper and SWIRL evaluate on. Node n has parent (n - 1) // 2, node 0 leads out, 116 is the water
port. Actions are step types: 0 in-left, 1 in-right, 2 out-left, 3 out-right; (0, 3) leaves the maze and comes back.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prism_irl.datasets.store import data_folder, verified
from prism_irl.demonstrations import Demonstrations
from prism_irl.mdp import MDP

N_NODES, N_ACTIONS = 127, 4
HOME, WATER = 0, 116
EXIT = (0, 3)
ACTION_NAMES = ("in-left", "in-right", "out-left", "out-right")
FILES = {
    "emissions500new.npy": "99cccb73f444fd1bec47590610157014f0662c52a3d391e06abfe6416dcc2321",
    "trans_probs.npy": "e680ffd2ccb7ea768e3c7a7fced084811b29c4cb90c245caa8ceb57264f5e86b",
}
ADVICE = "put the two published files there (SWIRL's labyrinth/data) or point PRISM_DATA at a folder that holds them"


def _array(name: str) -> npt.NDArray[np.generic]:
    path = verified(data_folder() / "labyrinth" / name, FILES[name], ADVICE)
    array: npt.NDArray[np.generic] = np.load(path, allow_pickle=False)
    return array


def valid_actions(transitions: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which actions lead somewhere, (127, 4): invalid ones stay in place, except for leaving the maze."""
    stays = transitions[np.arange(N_NODES), :, np.arange(N_NODES)] == 1.0
    valid: npt.NDArray[np.bool_] = ~stays
    valid[EXIT] = True
    return valid


def load_labyrinth() -> Demonstrations:
    """Return the 238 windows, with the valid actions of every node."""
    steps = _array("emissions500new.npy").astype(np.int64)
    return Demonstrations.from_arrays(
        steps[:, :, 0],
        steps[:, :, 1],
        n_states=N_NODES,
        n_actions=N_ACTIONS,
        valid_actions=valid_actions(_array("trans_probs.npy").astype(np.float64)),
    )


def labyrinth_mdp(discount: float = 0.97) -> MDP:
    """Return the deterministic dynamics of the maze."""
    transitions = _array("trans_probs.npy").astype(np.float64)
    return MDP.from_dense(transitions, discount=discount, valid_actions=valid_actions(transitions))


def every_fifth(n: int = 238) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Train and test indices of SWIRL's split: every 5th window is test data."""
    index = np.arange(n)
    return index[index % 5 != 0], index[index % 5 == 0]
