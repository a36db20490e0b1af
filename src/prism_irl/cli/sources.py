"""Where commands take their data from: a table of one's own, a robot dataset, or a data set by name.

`--events` are columns of a table that mark what happened, for people to look at; no fit ever reads them. Covariates,
seconds and what an earlier test found are made ready here for the model that is to be fitted.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl import halves, storage
from prism_irl.cli.options import ColumnOptions, WorldOptions, flag_of, given
from prism_irl.cli.progress import Whole
from prism_irl.data.covariates import Inputs, event_marks
from prism_irl.data.geography import parse_grid, read_world
from prism_irl.data.labels import is_file, labelled
from prism_irl.data.read import Table, read_data
from prism_irl.data.rows import column_of
from prism_irl.datasets import EVENTS, NAMED
from prism_irl.errors import InputError, one_line
from prism_irl.switching import SWITCHING

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.mdp import MDP
    from prism_irl.models.base import IntentionModel


class Source(NamedTuple):
    """Demonstrations, the dynamics where they are known, the events to mark, the table read, and where states lie."""

    demos: Demonstrations
    mdp: MDP | None
    events: dict[str, Any]
    rows: Table | None = None
    layout: dict[str, Any] | None = None
    covariates: tuple[str, ...] = ()


def read_source(table: Path, columns: ColumnOptions, world: WorldOptions = WorldOptions()) -> Source:
    """Read a file and what is known of its world, or the named data set where there is no such file."""
    if str(table) in NAMED and not table.exists():
        if world.described():
            raise InputError(f"The world of {table} is known; leave --{next(iter(world.described()))} out.")
        load, dynamics = NAMED[str(table)]
        demos = load()
        if demos.groups is None:
            note = f"prism: who is who in {table} is no part of the public download: no individuals, no deliveries."
            print(note, file=sys.stderr)
        data = str(table)
        known = EVENTS[data]() if columns.events else {}
        unknown = [name for name in columns.events if name not in known]
        if unknown:
            raise InputError(f"There is no event {unknown[0]!r} in {data}; there are {', '.join(known)}.")
        return Source(demos, dynamics(), {name: known[name] for name in columns.events})
    source = read_table(table, columns, world)
    assert source.rows is not None
    rows, inputs = read_inputs(source.rows, columns)
    names = () if inputs is None else tuple(one.name for one in inputs.inputs)
    return source._replace(demos=rows.demonstrations, rows=rows, covariates=names)


def read_table(table: Path, columns: ColumnOptions, world: WorldOptions = WorldOptions()) -> Source:
    """Read a file and what is known of its world, and say on standard error what looks wrong."""
    from prism_irl.cli.study import is_treatment
    from prism_irl.report.places import from_map, grid

    read = read_rows(table, hz=columns.hz, episodes=columns.episodes, task=columns.task, **columns.roles())
    rows, mdp, place = read_world(read, columns.roles(), **given(world))
    alone = Whole.current is None  # else prism analyze, which has read the table before its steps do, has told
    if alone:
        tell_notes(rows)
    if (
        alone
        and columns.group is None
        and rows.frame is not None
        and "group" in rows.frame
        and is_treatment(rows.frame["group"])
    ):
        values = ", ".join(map(str, rows.frame["group"].dropna().unique()[:3]))
        note = f"prism: the column group ({values}) is taken for the animals; if it is not, name them with --group."
        print(one_line(note), file=sys.stderr)
    layout = grid(*parse_grid(world.grid)) if world.grid is not None else None
    layout = layout if place is None else from_map(place, rows.demonstrations)
    return Source(rows.demonstrations, mdp, read_events(rows, columns.events), rows, layout)


def tell_notes(table: Table) -> None:
    """Say on standard error what looks wrong in a table, and which episodes of a dataset were left out."""
    for note in table.notes:
        print(one_line(f"prism: {note}"), file=sys.stderr)


def read_rows(table: Path, *, hz: float | None = None, **roles: Any) -> Table:
    """Read a table, or a robot dataset where the columns to observe and to act are vectors of its episodes.

    ``labels`` are a column of either, or a table of their own (`data.labels`), which may be in seconds (``hz``). Of a
    dataset with more frames per second than ``hz``, some are read.
    """
    labels = roles.get("labels")
    if labels is not None and is_file(labels):
        own = {role: name for role, name in roles.items() if role != "labels"}
        rate = steps_per_second(table) or steps_per_second(table, hz)  # of the frames, of which some may be read
        return labelled(_read_rows(table, hz, **own), labels, roles.get("trajectory"), rate)
    return _read_rows(table, hz, **roles)


def _read_rows(table: Path, hz: float | None, **roles: Any) -> Table:
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
        asked = {"observe": (), "act": ()} | {role: roles[role] for role in fits if role in roles}
        return read_dataset(table, hz=hz, **asked)


def read_events(table: Table, names: Sequence[str]) -> dict[str, npt.NDArray[np.bool_]]:
    """Columns that mark steps at which something happened, {name: (n,) bool}: true or false, 1 or 0, or empty."""
    return {name: event_marks(column_of(table.frame, name, "the events"), name)[table.order] for name in names}


# -- covariates and seconds, as a model reads them ---------------------------------------------------------------------


def read_inputs(table: Table, columns: ColumnOptions) -> tuple[Table, Inputs | None]:
    """The table with the covariates of switching as observations, and how they were made."""
    names, events = columns.covariates()
    if not names and not events:
        return table, None
    found = Inputs.learn(table, names, events)
    return found.apply(table), found


def with_inputs(model: IntentionModel, columns: ColumnOptions) -> IntentionModel:
    """The model, told to read the inputs where there are some; refused where nothing in it would."""
    options: Any = getattr(model, "switching_options", None)  # of a pair
    name, _, rewards = (model.pair or "").partition("+")
    from_rewards = "feature" in rewards.lower()  # policies that are made of the observations
    reads = options is not None and options.reads_history  # a network reads the observations of a step anyway
    if not any(columns.covariates()):
        if columns.observations and name in SWITCHING and not (from_rewards or reads or options.in_order):
            raise InputError(
                f"{name} switching does not read --network-inputs, nor do these rewards; give the columns as "
                "--covariates of markov switching, or choose --switching recurrent."
            )
        return model
    if from_rewards:
        raise InputError(
            "These policies are made of the observations; leave out --covariates, or choose other rewards."
        )
    if reads:
        return model
    if options is not None and _takes_inputs(type(options)) and "switching" in model.get_params(deep=False):
        model.set_params(switching=dataclasses.replace(options, inputs=True))
        return model
    known = [one for one in SWITCHING if _takes_inputs(halves.options_class("switching", one, SWITCHING))]
    raise InputError(
        f"{name or type(model).__name__} switching reads no inputs; choose --switching {', '.join(known)} (without "
        "--method), recurrent or independent."
    )


def _takes_inputs(kind: Any) -> bool:
    """Whether the kernel of these options is a logit of the covariates where it is asked to read them."""
    several = kind.defaults.get("n_intentions") != 1
    return several and "inputs" in {field.name for field in dataclasses.fields(kind)}


def with_window(model: IntentionModel, table: Path, demos: Demonstrations, hz: float | None = None) -> IntentionModel:
    """The model with its window in steps (``--window 0.5s``), which is what its run folder then says."""
    from prism_irl.rewards.options import RewardOptions

    rewards: Any = model.get_params(deep=False).get("rewards")
    if isinstance(rewards, RewardOptions):
        found = rewards.in_steps(demos, lambda: steps_per_second(table, hz))
        if found != rewards:
            model.set_params(rewards=found)
    return model


def steps_per_second(table: Path, hz: float | None = None) -> float | None:
    """What was said (``--hz``), or that of a LeRobot dataset; None of everything else, whose times must say it."""
    if hz is not None:
        if not 0 < hz < math.inf:
            raise InputError(f"--hz is {hz:g}; give the steps per second, a number above 0.")
        return hz
    if not (table / "meta" / "info.json").is_file():
        return None
    from prism_irl.robots.lerobot import LeRobotSource

    return LeRobotSource(table).fps


# -- what an earlier `prism evidence` or `prism select` found out about the same data, for the verdict of a fit --------

KEPT = {"p_value": float, "gain": float, "surrogates": int, "agreement": float, "agreement_p_value": float}
WORDS = """found decided level g1 g2 memory slow_choices several_habits individuals memoryless_gain
hangs_on seconds_for_999""".split()  # noqa: SIM905
"""What else the sentences of the verdict are made of."""
MOST_NEIGHBOURS = 200
UNREADABLE = (OSError, KeyError, TypeError, ValueError, OverflowError)


def content(demos: Demonstrations) -> str:
    """Checksum of states and actions alone: a fit may leave out the groups or covariates that a test has used."""
    demos = dataclasses.replace(demos, groups=None, partial_labels=None, partial_label_names=None)
    if demos.state_space.continuous:
        return demos.checksum()
    return dataclasses.replace(demos, observations=None).checksum()


def read_evidence(folder: Path, demos: Demonstrations) -> dict[str, Any]:
    """The evidence in a run folder, after making sure that it is about the same data."""
    try:
        metrics, config = (storage.read_json(folder / name) for name in ("metrics.json", "config.json"))
        found = metrics["evidence"]
        known = {name: kind(found[name]) for name, kind in KEPT.items()}
        known |= {name: found[name] for name in WORDS if name in found}
        if not all(math.isfinite(known[name]) for name in KEPT) or not 0 <= known["p_value"] <= 1:
            raise ValueError
        about = config["data"]["content"]
    except UNREADABLE:
        raise InputError(
            f"{folder} holds no evidence; give the folder of prism evidence, or of prism select with --surrogates."
        ) from None
    if about != content(demos):
        raise InputError(f"The evidence in {folder} is about other data; run prism evidence on this table.")
    return {**known, "from": folder.name}


def find_evidence(folder: Path, demos: Demonstrations) -> dict[str, Any] | None:
    """The newest evidence about the same data in the folders beside a run that is to be written, if there is any."""
    there = [path for path in folder.parent.glob("*/metrics.json") if (path.parent / "config.json").is_file()]
    about = content(demos) if there else ""
    for path in sorted(there, key=lambda path: path.stat().st_mtime, reverse=True)[:MOST_NEIGHBOURS]:
        try:
            if storage.read_json(path.parent / "config.json")["data"]["content"] == about:
                return read_evidence(path.parent, demos)
        except UNREADABLE:
            continue
    return None
