"""Simulated pick-and-place as a real arm would record it: own joints, hand and gripper, and pictures of a camera.

Simulating takes minutes, so that every simulation is made once per run and kept in its cache: a folder that holds the
files needs no simulator. Pictures (`worlds.arm_pictures`) go through the encoder of pixels that needs no weights; its
leading principal components are observed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl import storage
from prism_irl.data.files import read_arrays
from prism_irl.robots.episodes import Episode, EpisodeSource, Frame
from prism_irl.robots.vision.encoders import PixelEncoder
from worlds.arm_pictures import pictures
from worlds.manipulation import CAMERA, PickAndPlace

COMPONENTS = 16
"""Of the pictures, which are observed."""
Arrays = dict[str, npt.NDArray[Any]]


def path_of(cache: Path, n_episodes: int, seed: int) -> Path:
    """The file of a simulation."""
    return cache / f"arm-{n_episodes}-{seed}.npz"


def can_simulate() -> bool:
    """Whether the simulator is installed."""
    return all(find_spec(package) is not None for package in ("ogbench", "mujoco"))


def simulate(path: Path, n_episodes: int, seed: int) -> None:
    """Simulate episodes into a file: states, actions and phases of all steps, and offsets."""
    episodes = list(PickAndPlace().episodes(n_episodes, seed=seed))
    arrays: dict[str, Any] = {
        "states": np.concatenate([np.asarray(episode.states) for episode in episodes]),
        "actions": np.concatenate([episode.actions for episode in episodes]),
        "phases": np.concatenate([np.asarray(episode.phases) for episode in episodes]),
        "offsets": np.concatenate([[0], np.cumsum([len(episode) for episode in episodes])]),
    }
    storage.write_file(path, lambda file: np.savez(file, **arrays))


def recorded(path: Path) -> Arrays:
    """The arrays of a simulation, with ``embeddings`` of what the camera saw, made at the first reading."""
    seen = path.with_name(f"{path.stem}-pictures.npz")
    arrays = read_arrays(path)
    if not seen.is_file():
        embeddings = embedded(arrays, path.parent)
        storage.write_file(seen, lambda file: np.savez(file, embeddings=embeddings))
    return {**arrays, **read_arrays(seen)}


def embedded(arrays: Arrays, folder: Path) -> npt.NDArray[np.float32]:
    """Leading principal components of the pictures of all steps, (n, COMPONENTS)."""
    source, encoder = _Recordings(arrays, folder), PixelEncoder(CAMERA, components=COMPONENTS)
    encoder.fit(source)
    return np.concatenate([vectors for _, vectors in source.visit(encoder.encode)])


class _Recordings(EpisodeSource):
    """Simulated episodes with a camera, drawn when somebody looks."""

    def __init__(self, arrays: Arrays, folder: Path) -> None:
        super().__init__(folder, strict=True)
        cuts = arrays["offsets"][1:-1]
        self.parts = list(zip(np.split(arrays["states"], cuts), np.split(arrays["actions"], cuts), strict=True))
        self.n_episodes = len(self.parts)

    def _open(self) -> Iterator[Callable[[], Episode]]:
        for index in range(len(self.parts)):
            yield partial(self._episode, index)

    def _episode(self, index: int) -> Episode:
        states, actions = self.parts[index]

        def film() -> Iterator[Frame]:
            yield from pictures(states)

        return Episode(index, actions, states, cameras={CAMERA: film})
