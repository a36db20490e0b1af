"""Mice in a 127-node maze (Rosenberg, Zhang, Perona & Meister 2021), as 238 windows of 500 steps.

The file that the paper and SWIRL evaluate on; the maze itself is described in `prism_irl.maze`. Annotations
(animals, water deliveries, rule-based modes) are an optional third file, made for judging results and never read by
a fit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.datasets.store import DataSet, verified
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


def load_labyrinth() -> Demonstrations:
    """Return the 238 windows, with the valid actions of every node."""
    steps = np.load(DATA.path("emissions500new.npy"), allow_pickle=False).astype(np.int64)
    sizes = {"n_states": N_NODES, "n_actions": N_ACTIONS}
    return Demonstrations.from_arrays(steps[:, :, 0], steps[:, :, 1], valid_actions=valid_actions(), **sizes)


def load_with_animals() -> Demonstrations:
    """All 238 windows, each with the animal of its last step as its group where the annotations are at hand."""
    demos = load_labyrinth()
    return replace(demos, groups=load_annotations()["animal"]) if _has_annotations() else demos


def load_events() -> dict[str, npt.NDArray[np.bool_]]:
    """What happened at the steps of all 238 windows: exits, visits of the water port and, where known, deliveries."""
    demos = load_labyrinth()
    events = {"exit": (demos.states == HOME) & (demos.actions == LEAVE), "water visit": demos.states == WATER}
    if _has_annotations():
        notes = load_annotations()
        delivered = (notes["water_delivered"] > 0) & (notes["water_conf"] >= DELIVERY_CONFIDENCE)
        events["delivery"] = delivered.ravel()
    return events


def _has_annotations() -> bool:
    return (DATA.folder / ANNOTATIONS[0]).is_file()


def load_annotations() -> dict[str, npt.NDArray[Any]]:
    """What is known about the 238 windows from outside, for judging results only; no part of the public download.

    Of windows, (N,): ``animal``, of its last step, and ``mixed``, true where it splices two animals: leave these out
    when splitting by animal. Of steps, (N, T): ``bout_start``, the first step after coming in; ``water_delivered`` at
    that visit, nonzero only at node 116; ``water_conf``, 4 exact, 3 step-level, 2 visit cluster, 1 best guess, 0 no
    visit; ``mode``, by rules from the states, an index into `MODES`: a reference labelling, not the truth.
    """
    name, sha256 = ANNOTATIONS
    path = verified(
        DATA.folder / name,
        sha256,
        "it is no part of the public data and serves only to judge results: put it there, or go without alignment",
    )
    with np.load(path, allow_pickle=False) as stored:
        notes = dict(stored)
    named = {"animal": notes["mouse_names"].astype(str)[notes["mouse"]], "mode": notes["mode_rosenberg"]}
    return notes | named | {"mixed": notes["mixed_mouse"].astype(bool)}
