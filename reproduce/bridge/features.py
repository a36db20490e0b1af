"""What a robot engineer would look at: features of pick-and-place, and of a robot about which nothing is known.

Pick-and-place: an intention pulls the hand towards the block, towards the target, or away from them, and wants the
gripper in a certain posture. The command is y = (move x, y, z; gripper command; gripper opening) and its vectors are
the soft unit vectors to block and target, φ = r / (|r| + 3 cm), and a constant for each gripper number: four weights
per intention, the same in every state. The turn of the wrist is left out: it aligns with the block and says nothing
about the stage. The opening is measured and not commanded; it enters as part of what the hand does, as in the Gaussian
chain on commands and gripper that this is compared with.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gaussian import linear_design
from prism_irl.data.demonstrations import Demonstrations
from worlds.manipulation import ACTION_NAMES, STATE_NAMES

FloatArray = npt.NDArray[np.float64]
SOFTNESS = 0.03  # metres: closer than this a direction means nothing
LARGE_MOVE = 0.5  # half of the largest command
COMPONENTS = 8


def state_columns(states: npt.ArrayLike, *names: str) -> FloatArray:
    """Columns of simulated states by name, (n, len(names))."""
    return np.asarray(states, dtype=np.float64)[:, [STATE_NAMES.index(name) for name in names]]


def pick_and_place(demos: Demonstrations, states: npt.ArrayLike, actions: npt.ArrayLike) -> Demonstrations:
    """Add commands, vectors and observations of simulated pick-and-place to demonstrations of tokens.

    Parameters
    ----------
    demos : Demonstrations of n steps
    states : (n, 31), columns as in `worlds.manipulation.STATE_NAMES`
    actions : (n, 5), columns as in `worlds.manipulation.ACTION_NAMES`
    """
    command = np.asarray(actions, dtype=np.float64)
    hand, block, target = (
        state_columns(states, *(f"{thing}_{axis}" for axis in "xyz")) for thing in ("effector", "block", "target")
    )
    gripper = state_columns(states, "gripper_opening", "gripper_contact")
    to_block, to_target = block - hand, target - hand
    n = len(command)
    posture = np.column_stack([command[:, ACTION_NAMES.index("gripper")], gripper[:, 0]])
    motions = np.concatenate([command[:, :3] / LARGE_MOVE, _scaled(posture)], axis=1)
    design = np.zeros((n, 5, 4))
    design[:, :3, 0], design[:, :3, 1] = _soft_unit(to_block), _soft_unit(to_target)
    design[:, 3, 2] = design[:, 4, 3] = 1.0
    observations = np.concatenate([gripper, 5.0 * to_block, 5.0 * to_target], axis=1)
    return _with_observations(demos, observations).with_commands(
        motions,
        design,
        noise_blocks=(0, 0, 0, 1, 2),
        motion_names=("x", "y", "z", "gripper command", "gripper opening"),
        design_names=("towards block", "towards target", "gripper command", "gripper opening"),
    )


def unknown_robot(demos: Demonstrations, embeddings: npt.ArrayLike, actions: npt.ArrayLike) -> Demonstrations:
    """Standardised commands, linear in the leading principal components of an encoder's vectors.

    Parameters
    ----------
    demos : Demonstrations of n steps
    embeddings : (n, d)
    actions : (n, m)
    """
    from sklearn.decomposition import PCA

    vectors, command = np.asarray(embeddings, dtype=np.float64), np.asarray(actions, dtype=np.float64)
    components = min(COMPONENTS, *vectors.shape)
    leading = PCA(components, svd_solver="randomized", random_state=0).fit_transform(vectors)
    command = _scaled(command - command.mean(axis=0))
    design = linear_design(leading, command.shape[1])
    return _with_observations(demos, _scaled(leading)).with_commands(command, design)


def policies_see(demos: Demonstrations) -> Demonstrations:
    """The same commands with the vectors of their design as observations: what a policy on features may depend on.

    The gripper's opening, which is among the commands, is not among them; a habit that read it would copy it.
    """
    assert demos.design is not None
    flat = demos.design.reshape(demos.n_steps, -1)
    flat = np.unique(flat[:, np.ptp(flat, axis=0) > 0], axis=1)  # each vector once, whichever commands it is for
    return replace(demos, observations=flat.astype(np.float32), observation_names=None, design=None, design_names=None)


def _scaled(columns: FloatArray) -> FloatArray:
    """Columns (n, d) in units of their standard deviation; constant ones stay as they are."""
    spread = columns.std(axis=0)
    return np.asarray(columns / np.where(spread > 1e-9, spread, 1.0))


def _with_observations(demos: Demonstrations, observations: FloatArray) -> Demonstrations:
    return replace(demos, observations=observations.astype(np.float32))


def _soft_unit(vectors: FloatArray) -> FloatArray:
    return np.asarray(vectors / (np.linalg.norm(vectors, axis=1, keepdims=True) + SOFTNESS))
