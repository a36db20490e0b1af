"""Tables in and out: CSV, Parquet, npz or pandas becomes `Demonstrations`, and segmentations go back beside their rows.

States, actions and intentions may be integer ids or labels; a `Vocabulary` remembers which, is saved with a model and
reads new data the same way. A row of a file is named by its line, as an editor counts them; rows of a pandas table,
trajectories and steps count from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.data import archive, continuous
from prism_irl.data.columns import read_groups, read_numbers, read_times
from prism_irl.data.dates import Dates
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.known import read_known
from prism_irl.data.many_files import matching, read_files
from prism_irl.data.mapped import storable
from prism_irl.data.missing import Missing, lost_rows, only_one_action, split_rows, with_missing
from prism_irl.data.npz import load_npz, own_vocabulary, with_motions
from prism_irl.data.roles import Columns, key_columns
from prism_irl.data.table_files import READABLE, WRITABLE, read_table_file
from prism_irl.data.trajectories import Ties, copies, factorize_keys, sort_rows
from prism_irl.data.vocabulary import Array, Distinct, Vocabulary, Where, distinct
from prism_irl.errors import InputError

UNKNOWN_NAME = "<unknown>"


class Table(NamedTuple):
    """What `read` found.

    ``frame`` holds the rows in their original order (None for npz) and ``order`` (n,) the row of ``frame`` behind each
    flat step; ``states``, ``actions`` and ``labels`` are the vocabularies behind the ids; ``notes`` say in a sentence
    each what looks wrong but may be meant.
    """

    demonstrations: Demonstrations
    frame: pd.DataFrame | None
    order: npt.NDArray[np.int64]
    states: Vocabulary
    actions: Vocabulary
    labels: Vocabulary | None
    notes: tuple[str, ...] = ()


def read(
    source: str | Path | pd.DataFrame,
    *,
    trajectory: str | Sequence[str] = "trajectory",
    state: str = "state",
    action: str = "action",
    time: str | None = None,
    group: str | None = None,
    intention: str | None = None,
    observations: str | Sequence[str] = (),
    labels: str | None = None,
    observe: str | Sequence[str] = (),
    act: str | Sequence[str] = (),
    states: Vocabulary | None = None,
    actions: Vocabulary | None = None,
    unknown_state: bool = False,
    ties: Ties = "error",
    max_gap: float | None = None,
    dates: Dates | None = None,
    may_lack: Sequence[str] = (),
    missing: Missing = "error",
) -> Table:
    """Read a .csv, .tsv, .xlsx, .parquet, .npz or .nwb file, a folder of `prism_irl.data.archive` or a pandas table.

    A pattern such as ``"animals/*.csv"`` is one table (`prism_irl.data.many_files`).

    Rows of a trajectory may be scattered: they keep their order, or are sorted by time; trajectories come in the order
    of their first rows. An npz file names its arrays itself, so the column options do not apply to it.

    Parameters
    ----------
    trajectory, state, action, time, group, intention, observations, labels
        Column names; see `Columns`.
    observe, act : column names (or one string with commas)
        Continuous states and actions, instead of ``state`` and ``action``; see `prism_irl.data.continuous`.
    states, actions : Vocabulary, optional
        Vocabularies of a fitted model; learned from the data when absent.
    unknown_state : bool
        Give states that ``states`` does not know the one extra id ``states.size`` instead of raising.
    ties, max_gap
        What to do with rows at the same time, and from which gap on a trajectory is cut; see `trajectories.sort_rows`.
    dates : {"day-first", "month-first"}, optional
        What comes first in times such as 3/4/2026; needed only where no cell tells (`dates.read_dates`).
    may_lack : sequence of str
        Roles (group, intention) that are read where their column is there, and done without elsewhere.
    missing : {"error", "skip", "split"}
        What becomes of rows without state or action; see `prism_irl.data.missing`.
    """
    if unknown_state and states is None:
        raise InputError("A state can be unknown only to a fitted model; give the model's states as well.")
    names = (observations,) if isinstance(observations, str) else tuple(observations)
    key = trajectory if isinstance(trajectory, str) else tuple(trajectory)
    columns = Columns(key, state, action, time, group, intention, names, tuple(may_lack), labels)
    rules: dict[str, Any] = {"ties": ties, "max_gap": max_gap, "dates": dates}
    if observe or act:
        return _continuous(source, columns, observe, act, rules)
    rules["how"] = missing
    if isinstance(source, pd.DataFrame):
        return _from_frame(source, columns, states, actions, None, unknown_state, **rules)
    path = Path(source)
    suffix = path.suffix.lower()
    if path.is_dir() and suffix not in READABLE:
        return _from_folder(path, states, actions, unknown_state)
    if suffix not in READABLE:
        raise InputError(f"Cannot read {path}: the name must end in one of {', '.join(READABLE)}.")
    paths = matching(path)
    if not paths[0].is_file():
        raise InputError(f"There is no file {path}; check the path.")
    if suffix == ".npz":
        return _from_npz(paths[0], states, actions, unknown_state)
    text = {name: str for name, known in ((state, states), (action, actions)) if known and known.is_text()}
    frame, rules["at"] = read_files(paths, columns, text, (state, action))
    return _from_frame(frame, columns, states, actions, None, unknown_state, **rules)


def read_rows(path: Path) -> pd.DataFrame:
    """Rows and columns of a .csv, .tsv or .parquet file, as they are."""
    if path.suffix.lower() not in WRITABLE:
        raise InputError(f"Cannot read {path}: the name must end in one of {', '.join(WRITABLE)}.")
    if not path.is_file():
        raise InputError(f"There is no file {path}; check the path.")
    return read_table_file(path, {})


def _continuous(
    source: Any, columns: Columns, observe: str | Sequence[str], act: str | Sequence[str], rules: dict[str, Any]
) -> Table:
    path = None if isinstance(source, pd.DataFrame) else Path(source)
    if path is not None and path.suffix.lower() not in WRITABLE:
        raise InputError(f"Columns to --observe and --act belong to a table ({', '.join(WRITABLE)}), not to {path}.")
    rows = source
    if path is not None:
        paths = matching(path)
        if not paths[0].is_file():
            raise InputError(f"There is no file {path}; check the path.")
        rows, where = read_files(paths, columns, {})
        rules = {**rules, "at": where}

    def tokens(frame: pd.DataFrame, state: str, action: str) -> Table:
        return _from_frame(frame, replace(columns, state=state, action=action), None, None, None, False, **rules)

    return continuous.read_measured(rows, observe, act, tokens)


def _from_frame(
    frame: pd.DataFrame,
    columns: Columns,
    states: Vocabulary | None,
    actions: Vocabulary | None,
    labels: Vocabulary | None,
    unknown_state: bool,
    *,
    at: Where = "row {}".format,
    ties: Ties = "error",
    max_gap: float | None = None,
    dates: Dates | None = None,
    how: Missing = "error",
) -> Table:
    found = columns.resolve(frame)
    if not len(frame):
        raise InputError("The table has no rows; give at least one step.")
    key = key_columns(frame, columns.trajectory)
    codes, names = factorize_keys(frame, key, at)
    lost = lost_rows(frame, found, how, lambda row: f"{at(row)} (trajectory {names[codes[row]]})")
    if how == "split" and lost.any():
        kept, everywhere = np.flatnonzero(~lost), at
        codes, names = split_rows(codes, names, frame[found["time"]] if "time" in found else None, lost)
        frame, lost = frame[~lost].reset_index(drop=True), np.zeros(len(kept), bool)
        at = lambda row: everywhere(int(kept[row]))  # noqa: E731

    def column(role: str, name: str | None = None) -> tuple[pd.Series[Any], str, Where]:
        name = found[role] if name is None else name
        return frame[name], role, lambda row: f"column {name!r}, {at(row)} (trajectory {names[codes[row]]})"

    there = np.flatnonzero(~lost)

    def coded(role: str) -> tuple[Distinct, str, Where]:
        values, name, where = column(role)
        return distinct(values[~lost], name, lambda i: where(int(there[i]))), name, lambda i: where(int(there[i]))

    def spread(ids: npt.NDArray[np.int64], otherwise: int) -> npt.NDArray[np.int64]:
        """Ids of the rows that have one, in the order of the steps; ``otherwise`` of those that are missing."""
        everywhere = np.full(len(lost), otherwise)
        everywhere[there] = ids
        return np.asarray(everywhere[order])

    state, action = coded("state"), coded("action")
    intention = (distinct(*column("intention")), *column("intention")[1:]) if "intention" in found else None
    extra = how == "skip"  # one more state, in which nothing can be chosen
    states = states or with_missing(Vocabulary.learn(*state), extra)
    actions = actions or Vocabulary.learn(*action)
    labels = labels or (Vocabulary.learn(*intention) if intention else None)
    times = read_times(*column("time"), dates) if "time" in found else None
    used = [*key, *found.values(), *columns.observations]
    rows = sort_rows(frame, codes, names, times, key=key, used=used, at=at, ties=ties, max_gap=max_gap)
    order = rows.order
    observations = [read_numbers(*column("observation", name)) for name in columns.observations]
    unknown = (UNKNOWN_NAME,) if unknown_state else ()
    known, known_names = read_known(*column("labels")) if "labels" in found else (None, None)
    demos = Demonstrations(
        states=spread(states.encode(*state, unknown="new" if unknown_state else "error"), states.size - 1),
        actions=spread(actions.encode(*action), 0),
        offsets=rows.offsets,
        n_states=states.size + len(unknown),
        n_actions=actions.size,
        observations=np.stack(observations, axis=1)[order] if observations else None,
        labels=labels.encode(*intention)[order] if labels and intention else None,
        known=None if known is None else known[order],
        known_names=known_names,
        times=None if times is None else times[order],
        groups=read_groups(codes, names, key, *column("group"))[rows.parents] if "group" in found else None,
        valid_actions=only_one_action(states.size, actions.size) if extra and not unknown_state else None,
        state_names=None if states.names is None else states.names + unknown,
        action_names=actions.names,
        label_names=None if labels is None else labels.names,
        trajectory_names=storable(rows.names),
        unknown_state=unknown_state,
    )
    tokens = states.size > 1 or actions.size > 1  # of continuous data there are none to compare
    same = copies(demos.states, demos.actions, demos.offsets, rows.names) if tokens else []
    return Table(demos, frame, order, states, actions, labels, (*rows.notes, *same))


def _from_npz(path: Path, states: Vocabulary | None, actions: Vocabulary | None, unknown_state: bool) -> Table:
    stored = load_npz(path)
    frame = pd.DataFrame({"trajectory": np.repeat(np.arange(len(stored["lengths"])), stored["lengths"])})
    own: dict[str, Vocabulary | None] = {}
    for key in [key for key in ("states", "actions", "labels") if key in stored]:
        frame[key], own[key] = own_vocabulary(stored, key)
    extra = bool(stored.get("unknown_state", False))  # the last state stands for all that a model did not know
    for key, known in (("states", states), ("actions", actions)):
        theirs = own[key]
        if known and theirs and not theirs.names and theirs.size > known.size and not (unknown_state or extra):
            raise InputError(f"{path} has {theirs.size} {key} and the model {known.size}; give data of the same world.")
    columns = Columns(state="states", action="actions", intention="labels" if "labels" in own else None)
    vocabularies = states or own["states"], actions or own["actions"], own.get("labels")
    table = _from_frame(frame, columns, *vocabularies, unknown_state)
    learned = table.states
    if extra and states is None:
        learned = Vocabulary(None if learned.names is None else learned.names[:-1], learned.size - 1)
    # A mask in the file's ids means nothing in those of another vocabulary; the model has its own.
    same = not unknown_state and states in (None, own["states"]) and actions in (None, own["actions"])
    demos = replace(
        table.demonstrations,
        observations=stored.get("observations"),
        known=stored.get("known"),
        known_names=tuple(stored["known_names"].astype(str)) if "known_names" in stored else None,
        times=stored.get("times"),
        groups=stored.get("groups"),
        valid_actions=stored.get("valid_actions") if same else None,
        trajectory_names=stored.get("trajectory_names"),
        unknown_state=unknown_state or (extra and states is None),
    )
    if "motions" in stored:
        demos = with_motions(demos, stored)
    return table._replace(demonstrations=demos, frame=None, states=learned)


def _from_folder(path: Path, states: Vocabulary | None, actions: Vocabulary | None, unknown_state: bool) -> Table:
    """Demonstrations that stay on disk; ids are translated only where a model has others."""
    demos = archive.open_folder(path)
    own_states = Vocabulary(demos.state_names, demos.n_states)
    own_actions = Vocabulary(demos.action_names, demos.n_actions)
    labels = None
    if demos.labels is not None:
        size = max(int(demos.labels.max()) + 1, len(demos.label_names or ()))
        labels = Vocabulary(demos.label_names, size)
    order = np.arange(demos.n_steps)
    if states in (None, own_states) and actions in (None, own_actions) and not unknown_state:
        return Table(demos, None, order, own_states, own_actions, labels)
    new = states or own_states, actions or own_actions
    unknown = (UNKNOWN_NAME,) if unknown_state else ()
    demos = replace(
        demos,
        states=_translated(demos, "state", own_states, new[0], "new" if unknown_state else "error"),
        actions=_translated(demos, "action", own_actions, new[1], "error"),
        n_states=new[0].size + len(unknown),
        n_actions=new[1].size,
        valid_actions=None,  # in the file's ids; the model has its own
        state_names=None if new[0].names is None else new[0].names + unknown,
        action_names=new[1].names,
        unknown_state=unknown_state,
    )
    return Table(demos, None, order, *new, labels)


def _translated(demos: Demonstrations, what: str, own: Vocabulary, new: Vocabulary, unknown: str) -> Array:
    ids = getattr(demos, f"{what}s")
    there, first = np.unique(ids, return_index=True)
    values = there if own.names is None else np.array(own.names, dtype=object)[there]
    table = np.zeros(own.size, dtype=np.min_scalar_type(new.size))
    table[there] = new.encode(values, what, lambda i: demos.where(int(first[i])), unknown)
    return np.asarray(table[ids])


def to_pandas(demos: Demonstrations) -> pd.DataFrame:
    """One row per step: trajectory, state, action and, where present, time, group, intention, observation_0, ….

    A trajectory goes by its name, or by its number when two of them share a name.
    """
    index, names = demos.trajectory_index, row_names(demos)
    columns: dict[str, Array] = {"trajectory": names[index]}
    if not demos.state_space.continuous:
        columns["state"] = _named(demos.states, demos.state_names)
        columns["action"] = _named(demos.actions, demos.action_names)
    if demos.times is not None:
        columns["time"] = demos.times
    if demos.groups is not None:
        columns["group"] = demos.groups[index]
    if demos.labels is not None:
        columns["intention"] = _named(demos.labels, demos.label_names)
    if demos.known is not None:
        words: Sequence[Any] = demos.known_names or range(int(demos.known.max(initial=-1)) + 1)
        columns["labels"] = np.array([*words, None], dtype=object)[demos.known]  # −1 is the last one: an empty cell
    if demos.action_space.continuous:
        return pd.DataFrame(columns | continuous.commands_frame(demos))
    if demos.observations is not None:
        columns |= {f"observation_{i}": values for i, values in enumerate(demos.observations.T)}
    return pd.DataFrame(columns)


def row_names(demos: Demonstrations) -> Array:
    """What the rows of each trajectory are called, (N,): its name, or numbers where two of them share a name."""
    names = demos.trajectory_names
    return np.arange(len(demos)) if names is None or len(np.unique(names)) < len(names) else names


def _named(ids: Array, names: tuple[str, ...] | None) -> Array:
    return ids.astype(np.int64) if names is None else np.array(names, dtype=object)[ids]


def with_posterior(table: Table, labels: npt.ArrayLike, probabilities: npt.ArrayLike) -> pd.DataFrame:
    """Rows of the table in their order, with ``intention`` and ``p_0`` … ``p_{K-1}`` from flat (n,) and (n, K).

    A column that is there already, such as true intentions, stays: the new one is called ``predicted_…``.
    """
    frame = to_pandas(table.demonstrations) if table.frame is None else table.frame
    back = np.argsort(table.order)  # step of each row
    added: dict[str, Array] = {}
    for name, flat in (
        ("intention", np.asarray(labels)),
        *((f"p_{k}", p) for k, p in enumerate(np.asarray(probabilities).T)),
    ):
        if flat.shape != back.shape:
            raise InputError(f"There are {flat.size} values of {name} for {back.size} steps; give one per step.")
        while name in frame.columns:
            name = f"predicted_{name}"
        added[name] = flat[back]
    return pd.concat([frame, pd.DataFrame(added, index=frame.index)], axis=1)
