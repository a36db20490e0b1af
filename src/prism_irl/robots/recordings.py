"""From tokens back to the recordings they came from: where the dataset lies, and the frames of one of its episodes.

`prism tokenize` writes the place of its dataset into config.json beside the demonstrations. Whoever reads those finds
the frames again, as long as the dataset still lies there and is the one it was.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.read import maker
from prism_irl.errors import InputError
from prism_irl.robots.continuous import is_dataset
from prism_irl.robots.episodes import DamagedEpisodeWarning, EpisodeSource, Frame, open_episodes

TOKENIZE = "prism tokenize"
"""What a file of tokens says that it was made by."""
VECTORS = ("observation.state", "action")
"""What is observed and is no camera."""
MOST_PASSED = 300
"""Records of TFRecord shards that are read for the sake of an episode behind them."""


class Recordings(NamedTuple):
    """A dataset and the camera that was tokenized or observed (None: the first)."""

    source: EpisodeSource
    camera: str | None


def place(dataset: Path, tokens: Path) -> dict[str, str]:
    """What config.json says about where the dataset lies: the full path, and the way from the folder of the tokens."""
    try:
        relative = os.path.relpath(dataset.absolute(), tokens.absolute())
    except ValueError:  # another drive
        relative = ""
    return {"folder": str(dataset.absolute()), "relative": relative}


def recordings_of(table: Path, demos: Demonstrations) -> Recordings | None:
    """Return the recordings behind a file of demonstrations, or the dataset itself; None where there are none.

    Raises
    ------
    InputError
        If the dataset is no longer where it was, or is another one.
    """
    if is_dataset(table) and demos.trajectory_names is not None:
        source = open_episodes(table)  # read without tokens, straight from the dataset
        return Recordings(source, _observed_camera(source, demos))
    config = _config(table, demos)
    if config is None:
        return None
    said = config["source"]
    for folder in (Path(said["folder"]), table.parent / said["relative"] if said["relative"] else None):
        if folder is None or not folder.is_dir():
            continue
        dataset = config.get("dataset") or {}
        split = dataset.get("split") or ("all" if dataset.get("kind") == "RLDSSource" else None)
        source = open_episodes(folder, split=split)
        if storage.read_plain(source.describe()) != config.get("dataset"):
            raise InputError(f"The dataset in {folder} is not the one that was tokenized; tokenize it again.")
        return Recordings(source, config.get("options", {}).get("camera"))
    raise InputError(f"The dataset that was tokenized is no longer at {said['folder']}; put it back there.")


def _observed_camera(source: EpisodeSource, demos: Demonstrations) -> str | None:
    """The camera whose frames were observed, if one was."""
    seen = {name.partition("[")[0]: None for name in getattr(demos, "observation_names", None) or ()}
    if all(name in VECTORS for name in seen):
        return None
    cameras = next((episode.cameras for episode in source), {})
    return next((name for name in seen if name in cameras), None)


def come_from_tokens(table: Path, demos: Demonstrations) -> bool:
    """Whether a file of demonstrations was written by `prism tokenize`, wherever it and its dataset are now."""
    return table.suffix.lower() == ".npz" and (maker(table) == TOKENIZE or _config(table, demos) is not None)


def _config(table: Path, demos: Demonstrations) -> dict[str, Any] | None:
    """config.json beside the file, if it tells of exactly these demonstrations and where they come from."""
    path = table.parent / "config.json"
    if table.suffix.lower() != ".npz" or not path.is_file():
        return None
    try:
        config = storage.read_json(path)
    except InputError:
        return None  # somebody else's file
    match config:
        case {"source": {"folder": str(), "relative": str()}, "data": {"sha256": known}} if known == demos.checksum():
            return dict(config)
    return None


def frames_of(source: EpisodeSource, index: int, camera: str | None = None) -> Iterator[Frame] | None:
    """Frames of the episode with a number, decoded while they are iterated; None where it has no camera.

    Episodes are numbered in the order in which they lie, so that only this one is read.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedEpisodeWarning)  # said once, when the dataset was tokenized
        # The episode that should be the one, then all from the beginning: a filtered dataset may have gaps.
        supposed = islice(source.visit(lambda episode: None, start=index), 1)
        for episode in chain((found for found, _ in supposed), source):
            if episode.index == index:
                return episode.frames(camera) if episode.cameras else None
    raise InputError(f"Episode {index} is not in {source.folder}; tokenize the dataset again.")


def reachable(source: EpisodeSource, demos: Demonstrations) -> list[int]:
    """Positions of the trajectories whose frames can be had quickly.

    TFRecord shards are read from the beginning, gigabytes for an episode in the middle; of them the first few count.
    """
    from prism_irl.robots.rlds import RLDSSource

    if not isinstance(source, RLDSSource) or demos.trajectory_names is None:
        return list(range(demos.n_trajectories))
    return np.flatnonzero(demos.trajectory_names.astype(np.int64) < MOST_PASSED).tolist()


def kept_frames(frames: Iterator[Frame], demos: Demonstrations, i: int) -> Iterator[Frame]:
    """Those of an episode's frames that became steps of trajectory i: its times are their numbers."""
    steps = slice(int(demos.offsets[i]), int(demos.offsets[i + 1]))
    if demos.times is None:
        yield from islice(frames, steps.stop - steps.start)
        return
    wanted = set(np.asarray(demos.times[steps], dtype=np.int64).tolist())
    yield from (frame for number, frame in enumerate(frames) if number in wanted)
