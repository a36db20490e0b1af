"""Demonstrations as a notebook shows them: a small table of what is there."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations, Space

SHOWN = 6  # names of states and actions


def table_of(demos: Demonstrations) -> str:
    """HTML with sizes, names and what else a step or trajectory has; text from the data is escaped."""
    lengths = demos.lengths
    rows = {
        "trajectories": f"{demos.n_trajectories:,}",
        "steps": f"{demos.n_steps:,} ({_range(f'{lengths.min():,}', f'{lengths.max():,}')} each)",
        "states": _what(demos.state_space, demos.state_names, demos.observation_names),
        "actions": _what(demos.action_space, demos.action_names, demos.motion_names),
    }
    if demos.groups is not None:
        who = np.unique(demos.groups.astype(str)).tolist()
        rows["groups"] = f"{len(who):,}{_some(who)}"
    for name, there in (
        ("valid actions", None if demos.valid_actions is None else f"{int(demos.valid_actions.sum()):,} pairs"),
        ("true labels", None if demos.labels is None else f"{len(np.unique(demos.labels)):,} intentions"),
        ("observations", None if demos.observations is None else f"{demos.observations.shape[1]:,} numbers per step"),
        ("times", None if demos.times is None else _range(_moment(demos.times.min()), _moment(demos.times.max()))),
    ):
        if there is not None:
            rows[name] = there
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows.items())
    return f"<table><caption>Demonstrations</caption><tbody>{body}</tbody></table>"


def _what(space: Space, ids: tuple[str, ...] | None, numbers: tuple[str, ...] | None) -> str:
    return f"{space}{_some(numbers)}" if space.continuous else f"{space.size:,}{_some(ids)}"


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _moment(time: Any) -> str:
    """A time as a person writes it: dates to the second, numbers as they are."""
    return (
        str(np.datetime_as_string(time, unit="s")).replace("T", " ") if isinstance(time, np.datetime64) else str(time)
    )


def _some(names: tuple[str, ...] | list[str] | None) -> str:
    if not names:
        return ""
    return f": {', '.join(map(str, names[:SHOWN]))}{', …' if len(names) > SHOWN else ''}"
