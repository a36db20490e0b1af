"""Mice in a 127-node maze (Rosenberg, Zhang, Perona & Meister 2021), as 238 windows of 500 steps.

The file that the paper and SWIRL evaluate on; the maze itself is described in `prism_irl.maze`. Annotations
(animals, water deliveries, rule-based modes) are an optional third file, made for judging results and never read by
a fit.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.datasets.store import DataSet, verified
from prism_irl.errors import InputError
from prism_irl.maze import HOME, N_ACTIONS, N_NODES, WATER, maze_mdp, valid_actions

FILES = {
    "emissions500new.npy": "99cccb73f444fd1bec47590610157014f0662c52a3d391e06abfe6416dcc2321",
    "trans_probs.npy": "e680ffd2ccb7ea768e3c7a7fced084811b29c4cb90c245caa8ceb57264f5e86b",
}
COMMIT = "9a5c441278a5351976705df9047a37ec7c3f6dbd"
DATA = DataSet(
    name="labyrinth",
    about="Mice in a maze of 127 nodes, 238 windows of 500 steps (Rosenberg et al. 2021, as published with SWIRL).",
    address=f"https://raw.githubusercontent.com/BRAINML-GT/SWIRL/{COMMIT}/labyrinth/data/",
    files=FILES,
    licence="MIT: recordings © 2021 Markus Meister, windows © 2024 Jingyang Ke",
)
ANNOTATIONS = ("annotations.npz", "bf2886a15f2b4d06629e2be9fd314714e5117da034d9d55d030ca25c5da41c84")
MODES = ("leave", "drink", "explore")
LEAVE = 3
"""The action that at the first junction leads out of the maze."""
DELIVERY_CONFIDENCE = 3
"""Annotations below this do not say at which step water was delivered."""
labyrinth_mdp = maze_mdp
"""The deterministic dynamics: what the published trans_probs.npy holds is exactly the geometry of the maze (tested)."""


def load_labyrinth(*, animals: bool = False) -> Demonstrations:
    """Return the 238 windows, with the valid actions of every node.

    Parameters
    ----------
    animals : bool
        Name the animal of every window as its group, and leave out the windows that splice two animals; needs the
        annotations.
    """
    steps = np.load(DATA.path("emissions500new.npy"), allow_pickle=False).astype(np.int64)
    demos = Demonstrations.from_arrays(
        steps[:, :, 0],
        steps[:, :, 1],
        n_states=N_NODES,
        n_actions=N_ACTIONS,
        valid_actions=valid_actions(),
    )
    if not animals:
        return demos
    notes = load_annotations()
    return replace(demos, groups=notes.mouse_names[notes.mouse]).subset(~notes.mixed)


def load_with_animals() -> Demonstrations:
    """All 238 windows, each with the animal of its last step as its group where the annotations are at hand."""
    demos = load_labyrinth()
    if not (DATA.folder / ANNOTATIONS[0]).is_file():
        return demos
    notes = load_annotations()
    return replace(demos, groups=notes.mouse_names[notes.mouse])


def load_events() -> dict[str, npt.NDArray[np.bool_]]:
    """What happened at the steps of all 238 windows: exits, visits of the water port and, where known, deliveries."""
    demos = load_labyrinth()
    events = {"exit": (demos.states == HOME) & (demos.actions == LEAVE), "water visit": demos.states == WATER}
    if (DATA.folder / ANNOTATIONS[0]).is_file():
        notes = load_annotations()
        sure = notes.flat("water_conf") >= DELIVERY_CONFIDENCE
        events["delivery"] = (notes.flat("water_delivered") > 0) & sure
    return events


@dataclass(frozen=True, eq=False)
class Annotations:
    """What is known about the windows from outside; for judging results only.

    Parameters
    ----------
    mouse_names : (10,) str
    mouse : (N,) int
        Animal of each window's last step, an index into `mouse_names`.
    mixed : (N,) bool
        Windows that splice two animals: leave them out when splitting by animal.
    bout_start : (N, T) bool
        First step after coming in.
    water_delivered : (N, T) int
        Deliveries at that visit; nonzero only at node 116.
    water_conf : (N, T) int
        4 exact, 3 step-level, 2 visit cluster, 1 best guess, 0 no visit; use 3 and above for claims about steps.
    mode : (N, T) int
        Rule-based mode, an index into `MODES`, computed from the states: a reference labelling, not the truth.
    """

    mouse_names: npt.NDArray[np.str_]
    mouse: npt.NDArray[np.int64]
    mixed: npt.NDArray[np.bool_]
    bout_start: npt.NDArray[np.bool_]
    water_delivered: npt.NDArray[np.int64]
    water_conf: npt.NDArray[np.int64]
    mode: npt.NDArray[np.int64]

    def subset(self, windows: npt.ArrayLike) -> Annotations:
        """Windows by index or mask, in the order of `Demonstrations.subset`."""
        index: Any = np.asarray(windows)
        return replace(self, **{name: value[index] for name, value in vars(self).items() if name != "mouse_names"})

    def flat(self, name: str) -> npt.NDArray[Any]:
        """One array of steps, flat, aligned with the demonstrations of the same windows."""
        values: npt.NDArray[Any] = getattr(self, name)
        if values.ndim != 2:
            raise InputError(f"{name} has one value per window, not per step; index it by trajectory instead.")
        return values.ravel()


def load_annotations() -> Annotations:
    """Return the annotations of the 238 windows; they are no part of the public download."""
    name, sha256 = ANNOTATIONS
    path = verified(
        DATA.folder / name,
        sha256,
        "it is no part of the public data and serves only to judge results: put it there, or go without alignment",
    )
    renamed = {"mixed": "mixed_mouse", "mode": "mode_rosenberg"}
    dtypes = {"mouse_names": np.str_, "mixed": np.bool_, "bout_start": np.bool_}
    with np.load(path, allow_pickle=False) as stored:
        arrays = {field.name: stored[renamed.get(field.name, field.name)] for field in fields(Annotations)}
    return Annotations(**{name: values.astype(dtypes.get(name, np.int64)) for name, values in arrays.items()})
