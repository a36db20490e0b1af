"""Small tables to type everything with: a mouse, a walker, choices and an arm, whose intentions are known.

Every sample is a list of columns as a laboratory would write them; ``intention`` holds what the agent was after, and is
left out unless it is asked for. Goals end: an agent goes to one until it is there, or gives up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.errors import InputError

Rows = list[dict[str, Any]]
FloatArray = npt.NDArray[np.float64]
MOVES = {"east": (1, 0), "north": (0, 1), "west": (-1, 0), "south": (0, -1)}
SIDE, HOME, WATER = 6, (0, 0), (5, 4)


def mouse(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """A mouse in a grid of 6 by 6 cells that fetches water, goes home, and sometimes just walks about."""
    for animal in ("m1", "m2", "m3", "m4", "m5", "m6"):
        for bout in range(8):
            place, wants, left = HOME, "water", 0
            for step in range(100):
                move = _move(place, {"water": WATER, "home": HOME}.get(wants), rng)
                row = {"animal": animal, "bout": bout, "time": step * 0.5, "cell": f"x{place[0]}y{place[1]}"}
                yield {**row, "move": move, "water": int(place == WATER and wants == "water"), "intention": wants}
                if wants == "explore":
                    left -= 1
                    wants = ("water" if rng.random() < 0.5 else "home") if left == 0 else wants
                elif place == {"water": WATER, "home": HOME}[wants] or rng.random() < 0.02:
                    if rng.random() < 0.25:
                        wants, left = "explore", int(rng.integers(8, 20))
                    else:
                        wants = "home" if wants == "water" else "water"
                x, y = (p + d for p, d in zip(place, MOVES[move], strict=True))
                place = (min(max(x, 0), SIDE - 1), min(max(y, 0), SIDE - 1))


def _move(place: tuple[int, int], goal: tuple[int, int] | None, rng: np.random.Generator) -> str:
    """A move that is likelier the closer it brings the mouse to its goal; at a wall nobody walks into it."""
    weights = []
    for dx, dy in MOVES.values():
        x, y = place[0] + dx, place[1] + dy
        inside = 0 <= x < SIDE and 0 <= y < SIDE
        closer = 0 if goal is None else abs(place[0] - goal[0]) + abs(place[1] - goal[1])
        closer -= 0 if goal is None else abs(x - goal[0]) + abs(y - goal[1])
        weights.append(inside * np.exp(2.0 * closer))
    return str(rng.choice(list(MOVES), p=np.array(weights) / sum(weights)))


def two_goals(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """A walker in an open field that goes to and fro between two places, whose velocity is measured."""
    goals = {"left": np.array([-1.0, 0.0]), "right": np.array([1.0, 0.5])}
    for walk in range(24):
        place, wants = rng.normal(size=2), str(rng.choice(list(goals)))
        for step in range(100):
            way = goals[wants] - place
            velocity = 0.12 * way / max(1.0, float(np.linalg.norm(way))) * 2 + rng.normal(scale=0.04, size=2)
            row = {"walk": walk, "time": step * 0.1, **_named("x y", place), **_named("vx vy", velocity)}
            yield {**row, "intention": wants}
            place = place + velocity
            if float(np.linalg.norm(way)) < 0.2:
                wants = "left" if wants == "right" else "right"


def choices(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Left or right, by what is seen or by habit: mice that stay with a strategy for some forty trials."""
    strengths = (-1.0, -0.5, -0.25, 0.25, 0.5, 1.0)
    for animal in ("m1", "m2", "m3", "m4", "m5", "m6"):
        for session in range(3):
            strategy, last = "engaged", 1
            for trial in range(250):
                contrast = float(rng.choice(strengths))
                drive = {"engaged": 6.0 * contrast, "left": contrast - 2.5, "sticky": 2.5 * last}[strategy]
                right = bool(rng.random() < 1.0 / (1.0 + np.exp(-drive)))
                seen = f"{'right' if contrast > 0 else 'left'} {abs(contrast):.0%}"
                row = {"animal": animal, "session": session, "trial": trial, "stimulus": seen}
                choice = {"choice": "right" if right else "left", "reward": int(right == (contrast > 0))}
                yield {**row, **choice, "intention": strategy}
                last = 1 if right else -1
                if rng.random() < 1 / 40:
                    strategy = str(rng.choice([other for other in ("engaged", "left", "sticky") if other != strategy]))


def arm(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """An arm that reaches for a block, lifts it, carries it to its place and lets go."""
    for demo in range(40):
        block, place = (np.append(rng.uniform(low, low + 0.4, 2), 0.0) for low in (-0.6, 0.2))
        hand, grip, phase, waited = np.array([0.0, 0.0, 0.5]) + rng.normal(scale=0.05, size=3), 0.0, "reach", 0
        for step in range(70):
            up = np.array([0.0, 0.0, 0.3])
            goal = {"reach": block, "grasp": block, "carry": place + up, "place": place}[phase]
            velocity = 0.15 * (goal - hand) + rng.normal(scale=0.01, size=3)
            closing = (float(phase in ("grasp", "carry")) - grip) * 0.3 + rng.normal(scale=0.02)
            row = {"demo": demo, "time": step * 0.05, **_named("x y z", hand), "grip": round(grip, 4)}
            row |= _named("block_x block_y", block[:2]) | _named("place_x place_y", place[:2])
            yield {**row, **_named("vx vy vz", velocity), "vgrip": round(closing, 4), "intention": phase}
            hand, grip, waited = hand + velocity, grip + closing, waited + 1
            near = float(np.linalg.norm(goal - hand)) < 0.08
            if phase == "reach" and near:
                phase, waited = "grasp", 0
            elif phase == "grasp" and grip > 0.85:
                phase = "carry"
            elif phase == "carry" and near:
                phase = "place"


def _named(names: str, values: FloatArray) -> dict[str, float]:
    return {name: round(float(value), 4) for name, value in zip(names.split(), values, strict=True)}


SAMPLES: dict[str, Callable[[np.random.Generator], Iterator[dict[str, Any]]]] = {
    "mouse": mouse,
    "two-goals": two_goals,
    "choices": choices,
    "arm": arm,
}


def sample(name: str, seed: int = 0, *, truth: bool = False) -> Rows:
    """Rows of a small simulated table; with ``truth`` the column ``intention`` says what the agent was after."""
    if name not in SAMPLES:
        raise InputError(f"There is no sample {name!r}; choose {', '.join(SAMPLES)}.")
    rows = list(SAMPLES[name](np.random.default_rng(seed)))
    return rows if truth else [{key: value for key, value in row.items() if key != "intention"} for row in rows]
