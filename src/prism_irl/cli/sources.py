"""Where `prism select` and `prism compare` take their data from: a table of one's own, or a data set by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.mdp import MDP


class Source(NamedTuple):
    """Demonstrations, the dynamics where they are known, and the events to mark in the report."""

    demos: Demonstrations
    mdp: MDP | None
    events: dict[str, Any]


def read_source(table: Path, columns: dict[str, Any], events: Sequence[str]) -> Source:
    """Read a file, or the named data set where there is no such file."""
    from prism_irl.cli.events import read_events, refuse_events
    from prism_irl.data import tables
    from prism_irl.datasets import NAMED

    if str(table) in NAMED and not table.exists():
        refuse_events(str(table), events)
        load, dynamics = NAMED[str(table)]
        return Source(load(), dynamics(), {})
    rows = tables.read(table, **columns)
    return Source(rows.demonstrations, None, read_events(rows, events))
