"""Where commands take their data from: a table of one's own, or a data set by name.

`--events` are columns of a table that mark what happened, for people to look at; no fit ever reads them.
"""

from __future__ import annotations

import sys
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.cli.options import ColumnOptions, WorldOptions, flag_of
from prism_irl.cli.window import steps_per_second
from prism_irl.cli.world import read_world
from prism_irl.data.covariates import Inputs, event_marks
from prism_irl.data.labels import is_file, labelled
from prism_irl.data.read import Table, read_data
from prism_irl.data.rows import check_single
from prism_irl.datasets import EVENTS, NAMED
from prism_irl.errors import InputError, one_line

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.mdp import MDP


class Source(NamedTuple):
    """Demonstrations, the dynamics where they are known, the events to mark, the table read, and where states lie."""

    demos: Demonstrations
    mdp: MDP | None
    events: dict[str, Any]
    rows: Table | None = None
    layout: dict[str, Any] | None = None
    covariates: tuple[str, ...] = ()


def read_source(
    table: Path, columns: ColumnOptions, world: WorldOptions = WorldOptions(), discount: float = 0.97
) -> Source:
    """Read a file and what is known of its world, or the named data set where there is no such file."""
    if str(table) in NAMED and not table.exists():
        if world.described():
            raise InputError(f"The world of {table} is known; leave --{next(iter(world.described()))} out.")
        load, dynamics = NAMED[str(table)]
        return Source(load(), dynamics(), _named_events(str(table), columns.events))
    source = read_table(table, columns, world, discount)
    if not any(columns.covariates()):
        return source
    assert source.rows is not None
    rows, inputs = read_inputs(source.rows, columns)
    names = () if inputs is None else tuple(one.name for one in inputs.inputs)
    return source._replace(demos=rows.demonstrations, rows=rows, covariates=names)


def read_table(
    table: Path, columns: ColumnOptions, world: WorldOptions = WorldOptions(), discount: float = 0.97
) -> Source:
    """Read a file and what is known of its world, and say on standard error what looks wrong."""
    found = read_world(
        read_rows(table, hz=columns.hz, episodes=columns.episodes, task=columns.task, **columns.roles()),
        world,
        columns.roles(),
        discount,
    )
    tell_notes(found.rows)
    _tell_group(found.rows, columns)
    events = read_events(found.rows, columns.events)
    return Source(found.rows.demonstrations, found.mdp, events, found.rows, found.layout)


def _tell_group(table: Table, columns: ColumnOptions) -> None:
    """Say on standard error where a column called group, which nobody named, holds treatments."""
    from prism_irl.cli.recognise import is_treatment

    if columns.group is not None or table.frame is None or "group" not in table.frame:
        return
    if is_treatment(table.frame["group"]):
        values = ", ".join(map(str, table.frame["group"].dropna().unique()[:3]))
        note = f"prism: the column group ({values}) is taken for the animals; if it is not, name them with --group."
        print(one_line(note), file=sys.stderr)


def tell_notes(table: Table) -> None:
    """Say on standard error what looks wrong in a table, and which episodes of a dataset were left out."""
    for note in table.notes:
        print(one_line(f"prism: {note}"), file=sys.stderr)


def _named_events(data: str, names: Sequence[str]) -> dict[str, npt.NDArray[np.bool_]]:
    known = EVENTS[data]() if names else {}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"There is no event {unknown[0]!r} in {data}; there are {', '.join(known)}.")
    return {name: known[name] for name in names}


def check_tokens(demos: Demonstrations, command: str) -> None:
    """Refuse continuous data where a habit over states is what a command compares with."""
    if demos.state_space.continuous:
        raise InputError(
            f"prism {command} needs states and actions that come back, and these data are continuous; compare numbers "
            "of intentions with prism compare --methods markov+features-k2,markov+features-k3."
        )


def read_inputs(table: Table, columns: ColumnOptions) -> tuple[Table, Inputs | None]:
    """The table with the covariates of switching as observations, and how they were made."""
    names, events = columns.covariates()
    if not names and not events:
        return table, None
    found = Inputs.learn(table, names, events)
    return found.apply(table), found


def read_rows(table: Path, *, hz: float | None = None, **roles: Any) -> Table:
    """Read a table, or a robot dataset where the columns to observe and to act are vectors of its episodes.

    ``labels`` are a column of either, or a table of their own (`data.labels`), which may be in seconds (``hz``).
    """
    labels = roles.get("labels")
    if labels is not None and is_file(labels):
        own = {role: name for role, name in roles.items() if role != "labels"}
        rate = steps_per_second(table, hz)
        return labelled(_read_rows(table, **own), labels, roles.get("trajectory"), rate)
    return _read_rows(table, **roles)


def _read_rows(table: Path, **roles: Any) -> Table:
    from prism_irl.robots.continuous import is_dataset, read_dataset
    from prism_irl.robots.episodes import DamagedEpisodeWarning

    if not (roles.get("observe") or roles.get("act")) or not is_dataset(table):
        for role in ("episodes", "task"):
            if roles.pop(role, None) is not None:
                raise InputError(f"--{role} chooses episodes of a robot dataset, and {table} is none; leave it out.")
        return read_data(table, **roles)
    fits = ("observe", "act", "labels", "intention", "may_lack", "episodes", "task")
    wrong = [role for role, value in roles.items() if value and role not in fits]
    if wrong:
        raise InputError(
            f"{flag_of(wrong[0])} is about columns of a table, and {table} is a robot dataset; leave it out."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedEpisodeWarning)  # the notes of the table say it
        return read_dataset(table, **{"observe": (), "act": ()} | {role: roles[role] for role in fits if role in roles})


def is_continuous(table: Path, columns: ColumnOptions) -> bool:
    """Whether states and actions are numbers: columns to act, or a file of demonstrations that holds commands."""
    if columns.observe or columns.act:
        return True
    if table.suffix.lower() == ".npz":
        try:
            with zipfile.ZipFile(table) as archive:
                names = archive.namelist()
        except (OSError, zipfile.BadZipFile):
            return False  # whoever reads the file will say what is wrong with it
        return "motions.npy" in names and "design.npy" not in names
    return (table / "motions.npy").is_file() and not (table / "design.npy").is_file()


def read_events(table: Table, names: Sequence[str]) -> dict[str, npt.NDArray[np.bool_]]:
    """Columns that mark steps at which something happened, {name: (n,) bool}: true or false, 1 or 0, or empty."""
    found: dict[str, npt.NDArray[np.bool_]] = {}
    for name in names:
        if table.frame is None:
            raise InputError(f"Events ({name!r}) are columns of a table, and an npz file has none; give a .csv file.")
        if name not in table.frame.columns:
            there = ", ".join(map(str, table.frame.columns[:50]))
            raise InputError(f"There is no column {name!r} for the events; the table has the columns {there}.")
        check_single(table.frame, name)
        found[name] = event_marks(table.frame[name], name)[table.order]
    return found
