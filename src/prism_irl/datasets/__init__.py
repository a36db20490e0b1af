"""Loaders for real data, which is never part of the package."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.datasets.labyrinth import DATA as LABYRINTH
from prism_irl.datasets.labyrinth import labyrinth_mdp, load_events, load_with_animals
from prism_irl.datasets.store import DataSet
from prism_irl.mdp import MDP

NAMED: dict[str, tuple[Callable[[], Demonstrations], Callable[[], MDP]]] = {
    "labyrinth": (load_with_animals, labyrinth_mdp),
}
"""Data sets that commands know by name: demonstrations and their dynamics."""

EVENTS: dict[str, Callable[[], dict[str, npt.NDArray[np.bool_]]]] = {"labyrinth": load_events}
"""What is known to have happened at their steps; no fit reads it."""

PUBLIC: dict[str, DataSet] = {LABYRINTH.name: LABYRINTH}
"""Data sets that `prism data fetch` can get."""
