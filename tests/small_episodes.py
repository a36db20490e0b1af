"""Small random episodes with frames that tell which episode and step they are."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from prism_irl.robots.episodes import Episode, Frame

CAMERAS = ("observation.images.top", "observation.images.wrist")


def picture(episode: int, step: int, camera: int) -> Frame:
    """A uniform picture, which survives lossy compression."""
    frame = np.empty((32, 48, 3), dtype=np.uint8)
    frame[:] = (40 * episode + 20, 12 * step + 20, 120 * camera + 20)
    return frame


def pictures(episode: int, length: int, camera: int) -> Iterator[Frame]:
    for step in range(length):
        yield picture(episode, step, camera)


def make_episodes(
    n: int = 4, *, cameras: tuple[str, ...] = CAMERAS, phases: bool = True, seed: int = 0
) -> list[Episode]:
    rng = np.random.default_rng(seed)
    episodes = []
    for i in range(n):
        length = 5 + i
        episodes.append(
            Episode(
                index=i,
                actions=rng.normal(size=(length, 7)),
                states=rng.normal(size=(length, 6)),
                language=("close the drawer", "open the lid")[i % 2],
                cameras={name: partial(pictures, i, length, c) for c, name in enumerate(cameras)},
                phases=np.arange(length) // 2 if phases else None,
                phase_names=("approach", "grasp", "carry", "release", "depart") if phases else (),
            )
        )
    return episodes


@pytest.fixture(scope="session")
def episodes():
    """The function `make_episodes`."""
    return make_episodes


@pytest.fixture(scope="session")
def same_pictures():
    """Whether frames are those of an episode, up to compression."""

    def check(frames: list[Frame], episode: int, camera: int = 0) -> bool:
        wanted = np.stack([picture(episode, step, camera) for step in range(len(frames))]).astype(int)
        return bool(np.abs(np.stack(frames).astype(int) - wanted).max() <= 6)

    return check
