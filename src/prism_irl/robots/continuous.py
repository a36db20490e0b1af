"""Robot datasets without tokens: states that were measured and commands that were given, as they are.

    prism fit DATASET --observe observation.state --act action --intentions 5 --out runs/arm

``observation.state`` and ``action`` are the whole vectors, and datasets may have others (``observation.velocity``);
``observation.state[0:19]`` takes some of their numbers. A camera such as ``observation.images.front`` is observed as 16
numbers that a fixed encoder makes of its frames, the same for every recording. Trajectories are named by their episode
and timed by their frame, so that phases find their way back into the dataset (`prism segment … --write-back`). A column
with a word or a number per frame, such as ``subtask_index``, may say what somebody knows (``--labels``, with gaps) or
what is true (``--intention``, for evaluation).
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.read import Table, column_names, maker
from prism_irl.data.rows import Vocabulary, distinct, read_known
from prism_irl.errors import InputError
from prism_irl.robots.arrays import SUFFIXES
from prism_irl.robots.episodes import (
    ACTION,
    STATE,
    DamagedEpisodeWarning,
    Episode,
    EpisodeSource,
    Frame,
    Skipped,
    open_episodes,
)

ROLES = ("observe", "act")
Named = tuple[npt.NDArray[np.float32], tuple[str, ...]]
"""Numbers of every step, (T, d), and what each is called."""
_PART = re.compile(r"(?P<name>[^\[\]]+)(?:\[(?P<part>[^\[\]]+)\])?")


def is_dataset(path: Path) -> bool:
    """Whether a path is a robot dataset, and no folder of demonstrations: a folder, or an HDF5 file."""
    if path.is_file():
        return path.suffix.lower() in SUFFIXES
    return path.is_dir() and not (path / "meta.json").is_file()


def read_dataset(
    folder: Path,
    observe: str | Sequence[str],
    act: str | Sequence[str],
    *,
    labels: str | None = None,
    intention: str | None = None,
    may_lack: Sequence[str] = (),
    episodes: str | None = None,
    task: str | None = None,
    hz: float | None = None,
    strict: bool = False,
) -> Table:
    """Read a dataset of episodes; damaged ones are left out with a warning, or stop everything (``strict``).

    ``labels`` names the column of what somebody knows, with gaps, ``intention`` that of true intentions, without any
    (default: the phases of a dataset that has them, be they numbers or words); ``episodes`` are numbers and ranges such
    as 0,3,10:20, and ``task`` a part of the instruction of those that are read; of recordings with more than
    ``hz`` steps per second, every n-th is read, and times are still those of the frames;
    in ``may_lack``, one that the dataset does not have is left out.
    """
    wanted = (
        [_part(name, "observe") for name in column_names(observe)],
        [_part(name, "act") for name in column_names(act)],
    )
    if not all(wanted):
        raise InputError("Say what is observed and what is done, for example --observe observation.state --act action.")
    rows: list[list[npt.NDArray[np.float32]]] = [[], []]
    names, phase_names = list[tuple[str, ...]](), tuple[str, ...]()
    index, times, phases = [], [], []
    source = open_episodes(folder, strict=strict)
    if "intention" in may_lack and intention is not None and not source.has(intention):
        intention = None
    if intention is None and source.has_words("phase"):
        intention = "phase"
    columns: dict[str, list[npt.NDArray[np.object_]]] = {name: [] for name in (labels, intention) if name is not None}
    if source.usual_vectors()[1] is None and any(name == ACTION for name, _ in wanted[1]):
        there = ", ".join(source.further_vectors()[:20]) or STATE
        raise InputError(f"{folder} has no commands called {ACTION}; name what stands for them: --act {there}.")
    source.ask_for(*columns)
    source.ask_for_vectors(*(name for parts in wanted for name, _ in parts))
    kept_steps, others = slice(None, None, stride(source.fps, hz)), source.further_vectors()
    joints = {name: source.dimension_names(name) for parts in wanted for name, _ in parts}
    ranges = None if episodes is None else chosen_episodes(episodes)
    seen: set[str] = set()

    def vectors(episode: Episode) -> list[list[Named]] | None:
        """What is observed and done, of episodes that are chosen."""
        seen.add(episode.language)
        numbered = ranges is None or any(first <= episode.index <= last for first, last in ranges)
        if not numbered or (task is not None and task.lower() not in episode.language.lower()):
            return None
        pairs = zip(wanted, ROLES, strict=True)
        return [[_values(episode, *part, role, others, joints[part[0]]) for part in parts] for parts, role in pairs]

    for episode, found in source.visit(vectors):
        if found is None:
            continue
        for kept, parts in zip(rows, found, strict=True):
            kept.append(np.concatenate([values for values, _ in parts], axis=1)[kept_steps])
        names = [tuple(name for _, own in parts for name in own) for parts in found]
        index.append(episode.index)
        times.append(np.arange(len(episode), dtype=np.int64)[kept_steps])
        phases.append(None if episode.phases is None else episode.phases[kept_steps])
        phase_names = episode.phase_names or phase_names
        for name, cells in columns.items():
            cells.append(episode.columns[name][kept_steps])
    if not index and source.skipped:
        first = source.skipped[0]
        raise InputError(f"No episode in {folder} can be read; the first, {first.name}, because {first.reason}.")
    if not index:
        tasks = f"; their tasks are {', '.join(sorted(map(repr, seen))[:10])}" if task is not None else ""
        raise InputError(f"No episode in {folder} is among those that --episodes and --task ask for{tasks}.")
    named = {"observation_names": names[0], "motion_names": names[1], "trajectory_names": np.array(index, np.int64)}
    demos = Demonstrations.continuous(rows[0], rows[1], times=times, **named)
    truth: Vocabulary | None = None
    if intention is not None:
        values = distinct(_column(columns, intention), "intention", demos.where)
        truth = Vocabulary.learn(values)
        demos = replace(demos, labels=truth.encode(values), label_names=truth.names)
    elif len(phased := [part for part in phases if part is not None]) == len(phases):
        truth = Vocabulary(phase_names, len(phase_names)) if phase_names else None
        demos = replace(demos, labels=np.concatenate(phased), label_names=phase_names or None)
    if labels is not None:
        known, words = read_known(_column(columns, labels), "labels", demos.where)
        demos = replace(demos, partial_labels=known, partial_label_names=words)
    one = Vocabulary(None, 1)
    return Table(demos, None, np.arange(demos.n_steps), one, one, truth, _left_out(source.skipped))


def stride(fps: float | None, hz: float | None) -> int:
    """Every how many-th frame of a recording of ``fps`` is read for ``hz`` steps per second."""
    if fps is None or hz is None:
        return 1
    if not 0 < hz <= fps:
        raise InputError(f"--hz is {hz:g}; give the steps per second, at most the {fps:g} of the recording.")
    return max(round(fps / hz), 1)


def _left_out(skipped: Sequence[Skipped]) -> tuple[str, ...]:
    """Which episodes were left out, in a sentence."""
    if len(skipped) < 2:
        return tuple(f"Episode {name} is left out: {reason}." for name, reason in skipped)
    names = ", ".join(one.name for one in skipped[:5]) + (", …" if len(skipped) > 5 else "")
    return (f"{len(skipped)} episodes are left out ({names}), the first because {skipped[0].reason}.",)


def _column(columns: Mapping[str, Sequence[npt.NDArray[np.object_]]], name: str) -> pd.Series[Any]:
    return pd.Series(np.concatenate(columns[name]), name=name).infer_objects()


def _part(text: str, role: str) -> tuple[str, str | None]:
    """Name of a vector, and which of its numbers are meant: 3, 0:7, or the name of one, such as gripper.pos."""
    if (match := _PART.fullmatch(text)) is None:
        raise InputError(
            f"--{role} {text!r} is no vector of the dataset; write {STATE}, {STATE}[0:7] for a part of it, or "
            f"{STATE}[gripper.pos] for a number by its name."
        )
    return match["name"], match["part"]


def _values(
    episode: Episode, name: str, part: str | None, role: str, others: Sequence[str], joints: tuple[str, ...]
) -> Named:
    known = {STATE: episode.states, ACTION: episode.actions, **episode.vectors}
    if name in episode.cameras and role != "observe":
        raise InputError(f"{name} is a camera, which is observed and not done; name it in --observe.")
    if name in episode.cameras:
        from prism_irl.robots.vision.encoders import FixedEncoder  # torch, which vectors do not need

        known[name] = FixedEncoder(name).encode(episode)
    if name not in known:
        cameras = f", or a camera ({', '.join(episode.cameras)})" if episode.cameras else ""
        there = ", ".join([STATE, *others[:20]])
        raise InputError(f"The dataset has no vector {name!r}; name {there} or {ACTION}{cameras}.")
    values = known[name]
    if values is None:
        there = ", ".join(others[:20]) or ACTION
        raise InputError(f"Episode {episode.name} has no {name}; name what the recording has, with --{role}: {there}.")
    kept = _kept(name, part, role, values.shape[1], joints)
    return values[:, kept], tuple(f"{name}[{joints[i] if joints else i}]" for i in kept)


def _kept(name: str, part: str | None, role: str, width: int, joints: tuple[str, ...]) -> list[int]:
    """Which numbers of a vector are meant."""
    if part is None:
        return list(range(width))
    if part in joints:
        return [joints.index(part)]
    numbers = re.fullmatch(r"(\d*)(:?)(\d*)", part)
    if numbers is None:
        called = f"its numbers are {', '.join(joints)}" if joints else "its numbers have no names"
        raise InputError(f"The vector {name} has no number {part!r}: {called}.")
    first, ranged, last = numbers.groups()
    wanted = slice(int(first) if first else None, int(last) if last else None)
    kept = list(range(width)[wanted if ranged or not first else slice(int(first), int(first) + 1)])
    if not kept:
        raise InputError(
            f"The numbers of {name} are 0 to {width - 1}, and --{role} asks for none of them; write {name}[0:{width}] "
            "or a part of that."
        )
    return kept


def chosen_episodes(text: str) -> list[tuple[int, int]]:
    """First and last numbers of what is written as 0,3,10:20 (20 is not among them)."""
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?::(\d+))?\s*", part)
        if match is None:
            raise InputError(f"--episodes {text!r} are no episodes; write numbers and ranges, such as 0,3,10:20.")
        first = int(match[1])
        found.append((first, first if match[2] is None else int(match[2]) - 1))
    return found


# -- from tokens back to the recordings they came from -----------------------------------------------------------------

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
    relative = ""
    with suppress(ValueError):  # another drive
        relative = os.path.relpath(dataset.absolute(), tokens.absolute())
    return {"folder": str(dataset.absolute()), "relative": relative}


def recordings_of(table: Path, demos: Demonstrations) -> Recordings | None:
    """The recordings behind a file of demonstrations, or the dataset itself; None where there are none."""
    if is_dataset(table) and demos.trajectory_names is not None:
        source = open_episodes(table)  # read without tokens, straight from the dataset
        return Recordings(source, _observed_camera(source, demos))
    config = _config(table, demos)
    if config is None:
        return None
    said = config["source"]
    there = [Path(said["folder"]), *([table.parent / said["relative"]] if said["relative"] else [])]
    for folder in (folder for folder in there if folder.is_dir()):
        dataset = config.get("dataset") or {}
        split = dataset.get("split") or ("all" if dataset.get("kind") == "RLDSSource" else None)
        source = open_episodes(folder, split=split)
        if storage.read_plain(source.describe()) != config.get("dataset"):
            raise InputError(f"The dataset in {folder} is not the one that was tokenized; tokenize it again.")
        return Recordings(source, config.get("options", {}).get("camera"))
    raise InputError(f"The dataset that was tokenized is no longer at {said['folder']}; put it back there.")


def _observed_camera(source: EpisodeSource, demos: Demonstrations) -> str | None:
    """The camera whose frames were observed, if one was."""
    seen = {name.partition("[")[0]: None for name in demos.observation_names or ()}
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
    if table.suffix.lower() == ".npz" and path.is_file():
        with suppress(InputError):  # somebody else's file
            match config := storage.read_json(path):
                case {"source": {"folder": str(), "relative": str()}, "data": {"sha256": known}}:
                    return dict(config) if known == demos.checksum() else None
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
