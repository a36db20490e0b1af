"""Which episodes to watch before a policy is trained on them, and why: what is unlike the other episodes.

An episode is judged by the phases of a fit: how likely its commands are, which phases it has, how often and how long,
and how long the robot rests at its ends. "Unlike" is a robust z score (distance from the median over 1.4826 median
absolute deviations) beyond 3.5, the limit of Iglewicz and Hoaglin; `NOTABLE` was added after simulated
episodes whose phases last two or three steps were flagged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from prism_irl import storage
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.continuous import Movement
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation.metrics import Inference
from prism_irl.labels import segments

FEWEST = 5
"""Episodes below which nobody knows what is usual."""
FAR = 3.5
"""Robust z score from which on a number is unlike the others."""
COMMON = 0.8
"""Share of the episodes that have a phase which is missed where it lacks."""
SCARCE = 0.1
"""Share of its usual steps below which a phase is missing: chains in order pass through every phase."""
RARE = 0.1
"""Share of the episodes that may repeat a phase before repeating is usual."""
TWICE = float(np.log(2.0)) / FAR
"""Least spread of log lengths: a phase is over-long at twice its usual length, at least."""
NOTABLE = 0.05
"""Share of the usual episode by which an over-long phase is longer than usual, at least: one of two steps is not."""
RESTING = 0.25
"""Share of the median speed below which the robot rests."""
LONG_REST = 0.1
"""Share of the usual episode by which a rest at an end is longer than usual, at least."""


class Finding(NamedTuple):
    """One reason to watch an episode: its number, what that usually is, and the robust z score where it has one."""

    episode: str
    reason: str
    value: float
    usual: float
    z: float | None = None


def triage(inferred: Inference, demos: Demonstrations, names: Sequence[str]) -> list[Finding]:
    """Return what is unlike the others in every episode, episodes with most reasons first.

    Parameters
    ----------
    inferred : what a fitted model says of every step
    demos : the episodes to judge, those of the fit or new ones
    names : names of the K phases
    """
    if len(demos) < FEWEST:
        raise InputError(
            f"There are {len(demos)} episodes; from {FEWEST} on it can be said which are unlike the others."
        )
    found = [*_unlikely(inferred.log_likelihood, demos), *_phases(inferred.labels, demos, names), *_rests(demos)]
    by_episode: dict[str, list[Finding]] = {demos.name_of(i): [] for i in range(len(demos))}
    for one in found:
        by_episode[one.episode].append(one)
    return [one for own in sorted(by_episode.values(), key=len, reverse=True) for one in own]


def write(path: Path, found: Sequence[Finding]) -> None:
    """Write the findings as CSV, a row each."""
    storage.write_rows(path, pd.DataFrame(found, columns=list(Finding._fields)))


def robust_z(values: FloatArray, least: float = 0.0) -> FloatArray:
    """Distances from the median in robust standard deviations, (N,), which are at least ``least``; 0 without spread."""
    apart = values - np.median(values)
    spread = max(1.4826 * float(np.median(np.abs(apart))), least)
    return np.asarray(apart / spread if spread > 0 else np.zeros(len(values)))


def _unlikely(log_likelihood: FloatArray, demos: Demonstrations) -> Iterator[Finding]:
    """Episodes whose commands the phases predict far worse than those of the others."""
    sums = np.add.reduceat(np.maximum(log_likelihood, np.finfo(np.float32).min), demos.offsets[:-1])
    per_step = sums / demos.lengths
    z = robust_z(per_step)
    for i in np.flatnonzero(z < -FAR).tolist():
        yield Finding(demos.name_of(i), "unlikely", float(per_step[i]), float(np.median(per_step)), float(z[i]))


def _phases(labels: IntArray, demos: Demonstrations, names: Sequence[str]) -> Iterator[Finding]:
    """Phases that are missing, come more often than usual, or last longer."""
    cut = segments(labels, demos.offsets)
    for k, name in enumerate(names):
        of_phase = cut.labels == k
        visits = np.bincount(cut.trajectories[of_phase], minlength=len(demos)).astype(np.float64)
        longest, steps = np.zeros(len(demos)), np.zeros(len(demos))
        np.maximum.at(longest, cut.trajectories[of_phase], cut.lengths[of_phase])
        np.add.at(steps, cut.trajectories[of_phase], cut.lengths[of_phase])
        has = visits > 0
        if has.mean() >= COMMON:
            usual = float(np.median(steps[has]))
            for i in np.flatnonzero(steps < SCARCE * usual).tolist():
                yield Finding(demos.name_of(i), f"missing phase {name}", float(steps[i]), usual)
        if has.sum() < FEWEST:
            continue
        often = robust_z(visits[has], least=0.25)
        often[visits[has] <= np.quantile(visits[has], 1.0 - RARE)] = 0.0
        long = robust_z(np.log(longest[has]), least=TWICE)
        long[longest[has] - np.median(longest[has]) < NOTABLE * np.median(demos.lengths)] = 0.0
        for what, z, values in (("repeated", often, visits[has]), ("over-long", long, longest[has])):
            usual = float(np.median(values))
            for j in np.flatnonzero(z > FAR):
                name_of = demos.name_of(int(np.flatnonzero(has)[j]))
                yield Finding(name_of, f"{what} phase {name}", float(values[j]), usual, float(z[j]))


def _rests(demos: Demonstrations) -> Iterator[Finding]:
    """Rests at the beginning and at the end that are longer than those of the others; of continuous data only."""
    if demos.motions is None or demos.design is not None:
        return
    moved = Movement.fit(demos)(demos)
    if moved.motion.shape[1] == 0:
        return
    speed = np.sqrt((moved.motion**2).mean(1))
    moves = speed > RESTING * np.median(speed)
    flips = np.abs(np.diff(moved.switch, axis=0, prepend=moved.switch[:1])).sum(axis=1) > 0
    flips[demos.offsets[:-1]] = False
    moves |= flips
    bounds = list(zip(demos.offsets[:-1], demos.offsets[1:], strict=True))
    least = LONG_REST * float(np.median(demos.lengths)) / FAR
    for end, step in (("start", 1), ("end", -1)):
        idle = np.array([np.r_[moves[a:b][::step], True].argmax() for a, b in bounds], dtype=np.float64)
        z = robust_z(idle, least)
        for i in np.flatnonzero(z > FAR).tolist():
            yield Finding(demos.name_of(i), f"idle at the {end}", float(idle[i]), float(np.median(idle)), float(z[i]))
