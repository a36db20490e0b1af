"""Statistics of behaviour over many steps: how long intentions last, where the agent is, what follows what.

Pure functions of states and intentions, which `evaluation.checks` takes of the data and of simulations alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.labels import Segments, boundaries, segments

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

AROUND = 10
FREQUENT = 100
"""Pairs and triples of states that are counted each for itself; all others count as one."""
BINS = 12


@dataclass(frozen=True)
class Behaviour:
    """States (n,) and intentions (n,) of every step, cut into trajectories by offsets (N + 1,)."""

    states: IntArray
    labels: IntArray
    offsets: IntArray

    @cached_property
    def intentions(self) -> Segments:
        """Runs of one intention."""
        return segments(self.labels, self.offsets)

    @cached_property
    def visits(self) -> Segments:
        """Runs of one state."""
        return segments(self.states, self.offsets)

    @cached_property
    def cells(self) -> tuple[IntArray, IntArray, IntArray]:
        """Trajectory, state and number of steps of every pair of trajectory and state that occurs."""
        n, lengths = int(self.states.max()) + 1, np.diff(self.offsets)
        cells, counts = np.unique(np.repeat(np.arange(len(lengths)), lengths) * n + self.states, return_counts=True)
        return cells // n, cells % n, counts


class About(NamedTuple):
    """What a number is called, its unit, and whose it is.

    The unit is "steps", "share", "states", or "distance": how far a distribution lies from that of the simulations.
    """

    name: str
    unit: str
    intention: int | None = None
    state: int | None = None


def dwells(one: Behaviour, intention: int) -> IntArray:
    """Lengths of the segments of an intention, in steps."""
    return np.asarray(one.intentions.lengths[one.intentions.labels == intention], dtype=np.int64)


def return_times(one: Behaviour, state: int) -> IntArray:
    """Steps from entering a state to entering it the next time within the same trajectory, having left it."""
    visits = one.visits.labels == state
    starts, trajectories = one.visits.starts[visits], one.visits.trajectories[visits]
    same = np.diff(trajectories) == 0
    return np.asarray(np.diff(starts)[same], dtype=np.int64)


def switch_steps(one: Behaviour) -> IntArray:
    """Steps whose intention is another one than that of the step before, within a trajectory."""
    return boundaries(one.intentions)


def around_switches(one: Behaviour, at: IntArray, state: int) -> FloatArray:
    """Share of the steps in ``state`` at −10 … 10 steps from the switches ``at``, within their trajectories."""
    trajectory = np.searchsorted(one.offsets, at, side="right") - 1
    steps = at[:, None] + np.arange(-AROUND, AROUND + 1)
    inside = (steps >= one.offsets[trajectory][:, None]) & (steps < one.offsets[trajectory + 1][:, None])
    there = (one.states[np.clip(steps, 0, len(one.states) - 1)] == state) & inside
    counts = inside.sum(axis=0)
    return np.asarray(np.where(counts > 0, there.sum(axis=0) / np.maximum(counts, 1), np.nan))


def individuality(one: Behaviour) -> float:
    """Mean over trajectories of the total-variation distance of its share of states from that of all trajectories."""
    lengths, (trajectories, states, counts) = np.diff(one.offsets), one.cells
    overall = np.bincount(one.states) / len(one.states)
    # Σ_s max(q_s − p_s, 0), to which only the states contribute that the trajectory has seen.
    surplus = np.maximum(counts / lengths[trajectories] - overall[states], 0.0)
    return float(surplus.sum() / len(lengths))


def numbers(one: Behaviour, places: Sequence[int], n_intentions: int) -> dict[About, float]:
    """Every number of one behaviour; NaN where it has none."""
    s, first = one.states, np.zeros(len(one.states), bool)
    first[one.offsets[:-1]] = True
    stays = ~first[1:] & (s[1:] == s[:-1])
    back = ~first[1:-1] & ~first[2:] & (s[2:] == s[:-2]) & (s[2:] != s[1:-1])
    found = {
        About("stays where it is", "share"): stays.sum() / max((~first).sum(), 1),
        About("goes straight back", "share"): back.sum() / max((~first[1:-1] & ~first[2:]).sum(), 1),
        About("different states in a trajectory", "states"): len(one.cells[0]) / (len(one.offsets) - 1),
        About("difference between trajectories", "share"): individuality(one),
    }
    for k in range(n_intentions if n_intentions > 1 else 0):
        found[About("share of the steps", "share", intention=k)] = (one.labels == k).mean()
        found[About("dwell", "steps", intention=k)] = _mean(dwells(one, k))
    for place in places:
        found[About("time between visits", "steps", state=place)] = _mean(return_times(one, place))
    return {about: float(value) for about, value in found.items()}


def _mean(values: npt.NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else np.nan


def switch_places(one: Behaviour, n_states: int) -> FloatArray:
    """Share of the switches that happen on entering each state, (S,)."""
    counts = np.bincount(one.states[switch_steps(one)], minlength=n_states)
    return np.asarray(counts / max(counts.sum(), 1), dtype=np.float64)


def ngrams(everybody: Sequence[Behaviour], n: int, n_states: int) -> FloatArray:
    """Shares of the most frequent runs of n states, and of all others together, (1 + R, M + 1)."""
    keys = []
    for one in everybody:
        key = one.states[: len(one.states) - n + 1].copy()
        for ahead in range(1, n):
            key = key * n_states + one.states[ahead : len(one.states) - n + 1 + ahead]
        inside = np.ones(len(key), bool)
        for age in range(1, n):  # a run ends where its trajectory does
            ends = one.offsets[1:-1] - age
            inside[ends[(ends >= 0) & (ends < len(key))]] = False
        keys.append(key[inside])
    if n_states**n <= len(keys[0]):  # so few that counting all of them is quicker than sorting
        counts = np.stack([np.bincount(key, minlength=n_states**n) for key in keys])
        counts = counts[:, counts.any(axis=0)]
    else:
        kinds, index = np.unique(np.concatenate(keys), return_inverse=True)
        who = np.repeat(np.arange(len(keys)), [len(key) for key in keys])
        counts = np.bincount(who * len(kinds) + index, minlength=len(keys) * len(kinds)).reshape(len(keys), -1)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    order = np.argsort(-shares.mean(axis=0), kind="stable")
    rest = shares[:, order[FREQUENT:]].sum(axis=1, keepdims=True)
    return np.concatenate([shares[:, order[:FREQUENT]], rest], axis=1)


def shares_of_lengths(lengths: Sequence[IntArray]) -> FloatArray:
    """Shares of each one's lengths (in steps) in bins that hold about as many of all of them, (number, bins)."""
    everything = np.concatenate(lengths)
    edges = np.unique(np.quantile(everything, np.linspace(0, 1, BINS + 1)[1:-1], method="nearest"))
    counts = np.stack([np.bincount(np.searchsorted(edges, own), minlength=len(edges) + 1) for own in lengths])
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), dtype=np.float64)
