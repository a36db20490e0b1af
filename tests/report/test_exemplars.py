"""Frames that stand for an intention: of the places that it leads to, and of steps that are surely its own."""

from __future__ import annotations

from typing import Any

from prism_irl.report.exemplars import PLACES, STEPS, exemplars


def story(p: list[int], states: list[int], leads: list[int]) -> dict[str, Any]:
    wants = [{"leads_to": [[s, 0.3] for s in leads]}, {"leads_to": []}]
    shown = {"name": "a", "states": states, "p": [x for one in p for x in (one, 1000 - one)]}
    return {"n_intentions": 2, "states": None, "story": {"wants": wants}, "trajectories": [shown]}


def test_places_come_first_and_unsure_steps_stand_for_nothing() -> None:
    explorer = story([900, 990, 500, 700, 800, 100], [4, 4, 4, 1, 2, 4], leads=[4, 9])
    frames = {"trajectories": {"0": {"steps": [0, 1, 2, 3, 4, 5], "jpeg": list("ABCDEF")}}}
    mine, other = exemplars(explorer, frames)
    assert [(one.uri[-1], one.caption) for one in mine[:1]] == [("B", "state 4")]  # where the intention is surest
    assert {one.uri[-1] for one in mine} == {"A", "B", "D", "E"}
    assert mine[1].caption == "trajectory a, step 0"
    assert [one.uri[-1] for one in other] == ["F"]


def test_few_frames_and_none_twice() -> None:
    n = 40
    explorer = story([1000] * n, [i % 5 for i in range(n)], leads=[0, 1, 2, 3])
    frames = {"trajectories": {"0": {"steps": list(range(n)), "jpeg": [f"frame{i}" for i in range(n)]}}}
    mine, other = exemplars(explorer, frames)
    assert len({one.uri for one in mine}) == len(mine) == PLACES + STEPS
    assert other == []
    assert exemplars(explorer, None) == [[], []]
