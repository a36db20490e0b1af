"""A small source of episodes in memory, whose frames and states move with the step."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

from prism_irl.robots.episodes import Episode, EpisodeSource, Frame, damaged


def frames(episode: int, length: int) -> Iterator[Frame]:
    rng = np.random.default_rng(episode)
    background = rng.integers(0, 60, size=(32, 32, 3), dtype=np.uint8)
    for step in range(length):
        frame = background.copy()
        frame[4 : 4 + 2 * step % 24 + 4, 8:20] = 200
        yield frame


class MemorySource(EpisodeSource):
    """Episodes with a still first action and a binary gripper; those named as broken cannot be decoded."""

    def __init__(self, folder, n: int = 6, broken: tuple[int, ...] = (), strict: bool = False) -> None:
        super().__init__(folder, strict=strict)
        self.n_episodes, self.broken, self.reads = n, broken, 0

    def _open(self) -> Iterator[Callable[[], Episode]]:
        return (partial(self._read, i) for i in range(self.n_episodes))

    def _read(self, index: int) -> Episode:
        self.reads += 1
        rng = np.random.default_rng(100 + index)
        length = 8 + index
        actions = np.concatenate([0.02 * rng.normal(size=(length, 3)), rng.integers(0, 2, size=(length, 1))], axis=1)
        actions[0, :3] = 0

        def camera() -> Iterator[Frame]:
            if index in self.broken:
                raise damaged(str(index), "its video breaks off")
            return frames(index, length)

        return Episode(
            index,
            actions,
            rng.normal(size=(length, 5)) * [1, 10, 100, 1, 0],
            cameras={"top": camera},
            phases=np.arange(length) // 4,
            phase_names=("a", "b", "c", "d"),
        )


@pytest.fixture
def source(tmp_path):
    """The class `MemorySource` in a folder of its own."""
    return partial(MemorySource, tmp_path)
