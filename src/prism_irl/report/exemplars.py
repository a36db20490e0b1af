"""What each intention looks like: frames of the places that it leads to, and of steps that are surely its own.

Read from frames.json and explorer.json, so that no other picture travels with the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from prism_irl.report.explorer import evenly

PLACES, STEPS = 3, 3  # frames of each kind at most
SURE = 0.6  # probability of the intention at a step that may stand for it


class Exemplar(NamedTuple):
    """A frame as a data URI, and what it stands for."""

    uri: str
    caption: str


class _Kept(NamedTuple):
    """A step whose frame was kept: how probable the intention is there, its state, the frame and where it is."""

    p: float
    state: int
    jpeg: str
    where: str


def exemplars(explorer: Mapping[str, Any], frames: Mapping[str, Any] | None) -> list[list[Exemplar]]:
    """A few frames for each intention; empty lists where there are no frames, or none of its steps has one.

    First the places that its sentence speaks of, each by the step at which the intention is surest; then steps of its
    own, evenly over the trajectories.
    """
    wants, found = explorer["story"]["wants"], []
    for k in range(explorer["n_intentions"]):
        own = [one for one in _kept(explorer, frames, k) if one.p >= SURE]
        chosen: dict[str, str] = {}  # frame → caption: the same frame does not stand twice
        for state, _ in wants[k]["leads_to"][:PLACES]:
            there = [one for one in own if one.state == state]
            if there:
                best = max(there, key=lambda one: one.p)
                chosen.setdefault(best.jpeg, _state(explorer, int(state)))
        rest = [one for one in own if one.jpeg not in chosen]
        for i in evenly(len(rest), STEPS) if rest else ():
            chosen.setdefault(rest[i].jpeg, rest[i].where)
        found.append([Exemplar(f"data:image/jpeg;base64,{jpeg}", words) for jpeg, words in chosen.items()])
    return found


def _kept(explorer: Mapping[str, Any], frames: Mapping[str, Any] | None, k: int) -> Iterator[_Kept]:
    K = explorer["n_intentions"]
    for row, one in (frames or {"trajectories": {}})["trajectories"].items():
        shown = explorer["trajectories"][int(row)]
        for step, jpeg in zip(one["steps"], one["jpeg"], strict=True):
            if step < len(shown["states"]):
                where = f"trajectory {shown['name']}, step {step}"
                yield _Kept(shown["p"][step * K + k] / 1000, int(shown["states"][step]), jpeg, where)


def _state(explorer: Mapping[str, Any], s: int) -> str:
    return str(explorer["states"][s]) if explorer.get("states") else f"state {s}"
