"""Random tasks of robot arms with true stages: other ways to be a demonstration than those somebody thought of.

A task is drawn from its seed: how many stages, of how many movements each, how long, with one hand or two; whether the
gripper moves where stages begin or within them; how much places, paces and pauses differ between episodes; what is
recorded, at which rate, how noisily, with constant columns, lamps and without a gripper. `KINDS` differ in what is
usual: scripts of single movements, coarse stages of several, the unsteady ways of a person at the controls, a humanoid
with 26 to 30 joints, rounds that repeat, and gestures in any order. Settings of phases were chosen on such tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism_irl.robots.episodes import Episode

FloatArray = npt.NDArray[np.float64]
Draw = np.random.Generator
KINDS = ("script", "coarse", "teleop", "humanoid", "repeat", "gestures")


@dataclass(frozen=True)
class Move:
    """One movement: where to (NaN: stay), the tilt, the gripper (NaN: as it is), seconds, how exact, whether always."""

    goal: FloatArray
    tilt: float
    grip: FloatArray
    seconds: float
    spread: float
    optional: bool


@dataclass(frozen=True)
class Task:
    """What all episodes of a task share; paces, pauses and noise are spreads or probabilities."""

    kind: str
    stages: list[list[Move]]
    hands: int
    hz: float
    pace: float
    local: float
    joints: int
    deltas: bool
    noise: float
    quantum: float
    pause: float
    idle: float
    unsteady: bool
    closing: float
    gripper: bool
    constant: int
    lamp: bool
    follow: FloatArray


def drawn(kind: str, seed: int) -> Task:
    """Draw a task."""
    draw = np.random.default_rng([KINDS.index(kind), seed])
    K = int(draw.integers(2, {"repeat": 5, "gestures": 9}.get(kind, 11)))
    hands = 2 if kind == "humanoid" or draw.random() < 0.2 else 1
    scripted = kind in ("script", "repeat")
    at_border = draw.choice([0.5, 0.9] if scripted else [0.0, 0.4, 0.8])
    within, most = (0.05, 2) if scripted else (0.25, 3)
    uneven, length, grip = draw.choice([0.15, 0.4, 0.8]), draw.choice([1.0, 2.0, 5.0]), np.ones(hands)
    stages: list[list[Move]] = []
    for _ in range(K):
        n = int(draw.integers(1, most + 1))
        seconds = draw.dirichlet(np.full(n, 4.0)) * length * np.exp(draw.normal(0, uneven))
        stages.append([])
        for i in range(n):
            goal, toggled = draw.uniform(-0.4, 0.4, (hands, 3)), np.full(hands, np.nan)
            if hands == 2 and draw.random() < 0.5:
                goal[int(draw.integers(2))] = np.nan
            if draw.random() < (at_border if i == 0 else within):
                hand = int(draw.integers(hands))
                grip[hand] = toggled[hand] = 1 - grip[hand]
            spread, tilt = float(draw.choice([0.0, 0.03, 0.1])), float(draw.choice([0, 0, 0, 1.2]))
            stages[-1].append(Move(goal.ravel(), tilt, toggled, seconds[i], spread, n > 1 and draw.random() < 0.1))
    return Task(
        kind,
        stages,
        hands,
        hz=float(draw.choice([5, 10, 15, 20, 30, 50])),
        pace=draw.choice([0.05, 0.12, 0.3]),
        local=draw.choice([0.1, 0.25, 0.5]),
        joints=int(draw.choice((26, 28, 30) if kind == "humanoid" else (0, 0, 4, 6, 7, 14, 26))),
        deltas=draw.random() < 0.4,
        noise=draw.choice([0.005, 0.02, 0.05]),
        quantum=draw.choice([0, 0.005, 0.02]),
        pause=draw.choice([0, 0.15, 0.4]),
        idle=draw.choice([0, 0, 0.5, 2.0]),
        unsteady=kind in ("teleop", "humanoid") and draw.random() < 0.7,
        closing=draw.choice([0.0, 0.3, 0.6]),
        gripper=draw.random() < 0.85,
        constant=int(draw.integers(0, 3)),
        lamp=draw.random() < 0.15,
        follow=draw.dirichlet(np.full(K, 0.5), K) + 1e-3,
    )


def _order(task: Task, draw: Draw) -> list[int]:
    """Stages of an episode, in its order."""
    K = len(task.stages)
    if task.kind == "repeat":
        return list(range(K)) * int(draw.integers(2, 5))
    if task.kind != "gestures":
        return list(range(K))
    found = [int(draw.integers(K))]
    for _ in range(int(draw.integers(6, 14))):
        weights = np.where(np.arange(K) == found[-1], 0.0, task.follow[found[-1]])
        found.append(int(draw.choice(K, p=weights / weights.sum())))
    return found


def _smooth(n: int) -> FloatArray:
    u = np.arange(1, n + 1) / n
    return np.asarray(10 * u**3 - 15 * u**4 + 6 * u**5)


def _path(task: Task, now: FloatArray, goal: FloatArray, n: int, draw: Draw) -> FloatArray:
    """Places on the way, (n, d): minimum jerk, or the corrections and detours of a person."""
    if not task.unsteady:
        return np.asarray(now + (goal - now) * _smooth(n)[:, None])
    done, parts = np.zeros(n), int(draw.integers(1, 4))
    cuts = np.r_[0, (n * draw.dirichlet(np.full(parts, 2.0)).cumsum()[:-1]).astype(int), n]
    share = np.r_[0, draw.dirichlet(np.full(parts, 1.5)).cumsum()]
    for i in range(parts):
        if cuts[i + 1] > cuts[i]:
            done[cuts[i] : cuts[i + 1]] = share[i] + (share[i + 1] - share[i]) * _smooth(cuts[i + 1] - cuts[i])
    path = now + (goal - now) * done[:, None]
    bow = np.sin(np.pi * np.linspace(0, 1, n))[:, None] * draw.normal(0, 0.04, len(now) - 1)
    path[:, :-1] += bow * np.linalg.norm((goal - now)[:-1])
    return np.asarray(path + 0.004 * draw.normal(0, 1, path.shape).cumsum(0) / np.sqrt(n))


def _tool(task: Task, draw: Draw) -> tuple[FloatArray, FloatArray, list[int]]:
    """Tools and tilt (T, d), grippers as commanded (T, hands), and the stage of every step."""
    now = np.append(np.tile([0.0, 0.0, 0.3], task.hands) + draw.normal(0, 0.03, 3 * task.hands), 0.0)
    grip, offset, pace = np.ones(task.hands), draw.normal(0, 0.04, 3 * task.hands), np.exp(draw.normal(0, task.pace))
    places, grips, labels = [], [], list[int]()

    def add(path: FloatArray, k: int) -> None:
        places.append(path)
        grips.append(np.repeat(grip[None], len(path), 0))
        labels.extend([k] * len(path))

    def wait(seconds: float, k: int) -> None:
        add(np.repeat(now[None], int(seconds * task.hz), 0), k)

    order = _order(task, draw)
    if task.idle:
        wait(draw.exponential(task.idle), order[0])
    for k in order:
        for move in task.stages[k]:
            if move.optional and draw.random() < 0.5:
                continue
            if draw.random() < task.pause:
                wait(draw.exponential(0.4), k)
            n = max(2, round(move.seconds * pace * np.exp(draw.normal(0, task.local)) * task.hz))
            there = np.where(
                np.isnan(move.goal), now[:-1], move.goal + offset + draw.normal(0, 1, len(offset)) * move.spread
            )
            before, grip = grip, np.where(np.isnan(move.grip), grip, move.grip)
            if (before != grip).any():
                wait(task.closing * np.exp(draw.normal(0, 0.3)), k)
            add(_path(task, now, np.append(there, move.tilt), n, draw), k)
            now = places[-1][-1]
    if task.idle:
        wait(draw.exponential(task.idle), order[-1])
    return np.concatenate(places), np.concatenate(grips), labels


def episodes(kind: str, n_episodes: int, *, seed: int = 0) -> Iterator[Episode]:
    """Demonstrations of the task that a seed draws, one at a time."""
    task = drawn(kind, seed)
    for index in range(n_episodes):
        draw = np.random.default_rng([seed, index, 1])
        tool, command, labels = _tool(task, draw)
        after, grip = np.concatenate([tool[1:], tool[-1:]]), command.copy()
        for t in range(1, len(grip)):  # the gripper closes behind its command
            grip[t] = 0.6 * grip[t - 1] + 0.4 * command[t]
        seen, done = (_recorded(task, values, seed) for values in (tool, after))
        spread = np.maximum(seen.std(0), 1e-3)
        if task.deltas:
            done = done - seen
        scale = np.abs(done).max(0) if task.deltas else spread
        seen = seen + draw.normal(0, task.noise / 2, seen.shape) * spread
        done = done + draw.normal(0, task.noise, done.shape) * scale
        if task.quantum:
            unit = task.quantum * spread
            seen, done = np.round(seen / unit) * unit, done if task.deltas else np.round(done / unit) * unit
        if task.gripper:
            seen, done = np.column_stack([seen, grip]), np.column_stack([done, command])
        seen = np.column_stack([seen, np.full((len(seen), task.constant), 0.3)])
        if task.lamp:
            seen = np.column_stack([seen, np.arange(len(seen)) > draw.integers(len(seen))])
        yield Episode(
            index,
            done.astype(np.float32),
            seen.astype(np.float32),
            language=kind,
            timestamps=np.arange(len(seen)) / task.hz,
            phases=np.array(labels, dtype=np.int32),
            phase_names=tuple(f"stage {k}" for k in range(len(task.stages))),
        )


def _recorded(task: Task, tool: FloatArray, seed: int) -> FloatArray:
    """The tool itself, or a smooth map of it into joints, some of which hardly move."""
    if not task.joints:
        return tool
    fixed = np.random.default_rng([seed, 2])
    hidden = np.tanh(tool @ fixed.normal(0, 1.5, (tool.shape[1], 24)) + fixed.normal(0, 0.5, 24))
    size = np.exp(fixed.normal(0, 1, task.joints))
    size[fixed.random(task.joints) < (0.3 if task.joints > 14 else 0.05)] *= 0.01
    return np.asarray(hidden @ fixed.normal(0, 0.5, (24, task.joints)) * size)
