"""Tables in and out: CSV, Parquet, npz or pandas becomes `Demonstrations`, and segmentations go back beside their rows.

States, actions and intentions may be integer ids or labels; a `Vocabulary` remembers which, is saved with a model and
reads new data the same way. A row of a file is named by its line, as an editor counts them; rows of a pandas table,
trajectories and steps count from 0. Continuous states and actions are columns that are observed, and columns that are
done (``--observe x,y --act vx,vy``); a column may hold a number per row, or a list of numbers of one length (as
LeRobot's tables do), which becomes as many columns. An npz file holds the arrays of `Demonstrations` under their own
names: (trajectories, steps), or flat with ``lengths``; sizes, names and the valid-action mask are optional.
"""

from __future__ import annotations

import csv
import glob
import lzma
import math
import mmap
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import IO, Any, NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prism_irl import checked, limits, storage
from prism_irl.checked import BROKEN
from prism_irl.data.demonstrations import Demonstrations, parts_of
from prism_irl.data.mapped import FORMER_NAMES, PLAIN, native, open_folder, storable
from prism_irl.data.rows import (
    DOUBLED,
    Array,
    Columns,
    Dates,
    Distinct,
    Missing,
    Ties,
    Vocabulary,
    Where,
    check_single,
    column_of,
    copies,
    distinct,
    factorize_keys,
    finite_numbers,
    key_columns,
    lost_rows,
    only_one_action,
    read_groups,
    read_known,
    read_places,
    read_times,
    sort_rows,
    split_rows,
    whole_numbers,
    with_missing,
)
from prism_irl.errors import InputError, brief
from prism_irl.optional import need

UNKNOWN_NAME = "<unknown>"


class Table(NamedTuple):
    """What `read_data` found.

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


def read_data(
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
    place: str | None = None,
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
    """Read a .csv, .tsv, .xlsx, .parquet, .npz or .nwb file, a folder of `prism_irl.data.mapped` or a pandas table.

    A pattern such as ``"animals/*.csv"`` is one table (`prism_irl.data.read`).

    Rows of a trajectory may be scattered: they keep their order, or are sorted by time; trajectories come in the order
    of their first rows. An npz file names its arrays itself, so the column options do not apply to it.

    Parameters
    ----------
    trajectory, state, action, time, group, intention, observations, labels, place
        Column names; see `Columns`.
    observe, act : column names (or one string with commas)
        Continuous states and actions, instead of ``state`` and ``action``; see `prism_irl.data.read`.
    states, actions : Vocabulary, optional
        Vocabularies of a fitted model; learned from the data when absent.
    unknown_state : bool
        Give states that ``states`` does not know the one extra id ``states.size`` instead of raising.
    ties, max_gap
        What to do with rows at the same time, and from which gap on a trajectory is cut; see `rows.sort_rows`.
    dates : {"day-first", "month-first"}, optional
        What comes first in times such as 3/4/2026; needed only where no cell tells (`rows.read_dates`).
    may_lack : sequence of str
        Roles (group, intention) that are read where their column is there, and done without elsewhere.
    missing : {"error", "skip", "split"}
        What becomes of rows without state or action; see `prism_irl.data.rows`.
    """
    if isinstance(source, pd.DataFrame):
        source = _with_native_columns(source)
    if unknown_state and states is None:
        raise InputError("A state can be unknown only to a fitted model; give the model's states as well.")
    names = (observations,) if isinstance(observations, str) else tuple(observations)
    key = trajectory if isinstance(trajectory, str) else tuple(trajectory)
    columns = Columns(key, state, action, time, group, intention, names, tuple(may_lack), labels, place)
    rules: dict[str, Any] = {"ties": ties, "max_gap": max_gap, "dates": dates}
    if observe or act:
        return _continuous(source, columns, observe, act, rules)
    rules["how"] = missing
    if isinstance(source, pd.DataFrame):
        return _from_frame(source, columns, states, actions, unknown_state, **rules)
    path = Path(source)
    suffix = path.suffix.lower()
    if path.is_dir() and suffix not in READABLE:
        return _in_language(open_folder(path), states, actions, unknown_state)
    if suffix not in READABLE:
        raise InputError(f"Cannot read {path}: the name must end in one of {', '.join(READABLE)}.")
    paths = matching(path)
    if suffix == ".npz":
        return _from_npz(paths[0], states, actions, unknown_state)
    text = {name: str for name, known in ((state, states), (action, actions)) if known and known.is_text()}
    frame, rules["at"] = read_files(paths, columns, text, (state, action))
    return _from_frame(frame, columns, states, actions, unknown_state, **rules)


def with_joined(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The frame with a column ``x,y`` of states that columns x and y name together: x3y4 of numbers, else left/red.

    A row that lacks one of them lacks the state. Other frames are returned as they are.
    """
    parts = [part.strip() for part in name.split(",")]
    if len(parts) < 2 or name in frame.columns or not set(parts) <= set(frame.columns):
        return frame
    for part in parts:
        check_single(frame, part)
    cells = [whole_numbers(frame[part].dropna()) for part in parts]
    numbers = all(cell.dtype.kind in "iu" for cell in cells)
    words = [(part if numbers else "") + cell.astype(str) for part, cell in zip(parts, cells, strict=True)]
    joined = reduce(lambda one, other: one + ("" if numbers else "/") + other, words)
    return frame.assign(**{name: joined.reindex(frame.index)})


def _with_native_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame, whose columns may be of another machine's byte order, or long doubles, as this one's numbers."""
    odd = [i for i, kind in enumerate(frame.dtypes) if isinstance(kind, np.dtype) and not _is_native(kind)]
    if odd:
        frame = frame.copy(deep=False)
        for i in odd:
            frame.isetitem(i, native(f"cells of column {str(frame.columns[i])!r}", frame.iloc[:, i].to_numpy()))
    return frame


def _is_native(kind: np.dtype[Any]) -> bool:
    return kind.isnative and not (kind.kind == "f" and kind.itemsize > 8)


def plain_table(path: Path) -> pd.DataFrame:
    """Rows and columns of a .csv, .tsv or .parquet file, as they are."""
    if path.suffix.lower() not in WRITABLE:
        raise InputError(f"Cannot read {path}: the name must end in one of {', '.join(WRITABLE)}.")
    return read_table_file(path)


def _from_frame(
    frame: pd.DataFrame,
    columns: Columns,
    states: Vocabulary | None,
    actions: Vocabulary | None,
    unknown_state: bool,
    *,
    at: Where = "row {}".format,
    ties: Ties = "error",
    max_gap: float | None = None,
    dates: Dates | None = None,
    how: Missing = "error",
) -> Table:
    frame = with_joined(frame, columns.state)
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
    labels = Vocabulary.learn(*intention) if intention else None
    times = read_times(*column("time"), dates) if "time" in found else None
    used = [*key, *found.values(), *columns.observations]
    rows = sort_rows(frame, codes, names, times, key=key, used=used, at=at, ties=ties, max_gap=max_gap)
    order = rows.order
    observations = [finite_numbers(*column("observation", name), dtype=np.float32) for name in columns.observations]
    unknown = (UNKNOWN_NAME,) if unknown_state else ()
    known, known_names = read_known(*column("labels")) if "labels" in found else (None, None)
    ids = spread(states.encode(*state, unknown="new" if unknown_state else "error"), states.size - 1)
    places, place_names = None, None
    if "place" in found:
        at_step = lambda step: column("place")[2](int(order[step]))  # noqa: E731
        asked = columns.place is not None and not lost.any()
        places, place_names = read_places(
            ids, frame[found["place"]].iloc[order], states.size + len(unknown), at_step, asked=asked
        )
    demos = Demonstrations(
        states=ids,
        actions=spread(actions.encode(*action), 0),
        offsets=rows.offsets,
        n_states=states.size + len(unknown),
        n_actions=actions.size,
        observations=np.stack(observations, axis=1)[order] if observations else None,
        labels=labels.encode(*intention)[order] if labels and intention else None,
        partial_labels=None if known is None else known[order],
        partial_label_names=known_names,
        times=None if times is None else times[order],
        groups=read_groups(codes, names, key, *column("group"))[rows.parents] if "group" in found else None,
        valid_actions=only_one_action(states.size, actions.size) if extra and not unknown_state else None,
        state_names=None if states.names is None else states.names + unknown,
        action_names=actions.names,
        label_names=None if labels is None else labels.names,
        trajectory_names=storable(rows.names),
        unknown_state=unknown_state,
        places=places,
        place_names=place_names,
    )
    limits.check_pairs(demos.n_states, demos.n_actions, demos.n_steps)
    return Table(demos, frame, order, states, actions, labels, (*rows.notes, *_repeated(demos, rows.names)))


def _from_npz(path: Path, states: Vocabulary | None, actions: Vocabulary | None, unknown_state: bool) -> Table:
    stored = load_npz(path)
    for key, known in (("states", states), ("actions", actions)):
        size = int(stored.get(f"n_{key}", 0))
        if known and f"{key[:-1]}_names" not in stored and size > known.size and not unknown_state:
            raise InputError(f"{path} has {size} {key} and the model {known.size}; give data of the same world.")
    demos = _stored(stored)
    names = demos.trajectory_names if demos.trajectory_names is not None else np.arange(len(demos))
    return _in_language(demos, states, actions, unknown_state)._replace(notes=_repeated(demos, names))


def _repeated(demos: Demonstrations, names: Array) -> tuple[str, ...]:
    """A note on trajectories that are the same; of continuous data there are no tokens to compare."""
    if demos.n_states == demos.n_actions == 1:
        return ()
    return tuple(copies(demos.states, demos.actions, demos.offsets, names))


def _stored(stored: Mapping[str, Array]) -> Demonstrations:
    """Demonstrations of the arrays of an npz file; states, actions and labels may be words."""
    fields: dict[str, Any] = {}
    for key in [key for key in ("states", "actions", "labels") if key in stored]:
        fields[key], fields[f"{key[:-1]}_names"], size = _own_ids(stored, key)
        fields |= {} if key == "labels" else {f"n_{key}": size}
    for key in ("partial_label_names", "place_names", "motion_names", "design_names", "observation_names"):
        if key in stored:
            fields[key] = tuple(stored[key].astype(str))
    as_they_are = ("observations", "partial_labels", "times", "groups", "valid_actions", "places", "trajectory_names")
    fields |= {key: stored[key] for key in (*as_they_are, "motions", "design") if key in stored}
    if "noise_blocks" in stored:
        fields["noise_blocks"] = tuple(int(block) for block in stored["noise_blocks"])
    fields |= {"log_volume": float(stored.get("log_volume", 0.0)), "unknown_state": bool(stored.get("unknown_state"))}
    limits.check_pairs(fields["n_states"], fields["n_actions"], stored["states"].size)
    return Demonstrations(offsets=np.concatenate([[0], np.cumsum(stored["lengths"])]), **fields)


def _own_ids(stored: Mapping[str, Array], key: str) -> tuple[Array, tuple[str, ...] | None, int]:
    """One array as ids (n,), the names behind them where there are some, and how many ids there are."""
    values, names, where = stored[key], stored.get(f"{key[:-1]}_names"), f"array {key!r}, step {{}}".format
    size = int(stored[f"n_{key}"]) if f"n_{key}" in stored else None
    if size is not None:
        limits.check_sizes(*((size, 1) if key == "states" else (1, size)))
    if names is not None:
        own = Vocabulary(tuple(names.astype(str).ravel().tolist()), names.size if size is None else size)
        return Vocabulary(None, own.size).encode(values, key[:-1], where), own.names, own.size
    if key == "labels" and values.dtype.kind in "iu" and values.max(initial=0) < 100 * limits.MOST["n_intentions"]:
        size = max(int(values.max()), 0) + 1  # kept as they are, even with wide gaps
    own = Vocabulary.learn(values, key[:-1], where) if size is None else Vocabulary(None, size)
    return own.encode(values, key[:-1], where), own.names, own.size


def _in_language(
    demos: Demonstrations, states: Vocabulary | None, actions: Vocabulary | None, unknown_state: bool
) -> Table:
    """Demonstrations that have vocabularies of their own; ids are translated only where a model has others."""
    own_states = Vocabulary(demos.state_names, demos.n_states)
    own_actions = Vocabulary(demos.action_names, demos.n_actions)
    labels = None
    if demos.labels is not None:
        size = max(int(demos.labels.max()) + 1, len(demos.label_names or ()))
        labels = Vocabulary(demos.label_names, size)
    order = np.arange(demos.n_steps)
    if states in (None, own_states) and actions in (None, own_actions) and not unknown_state:
        if demos.unknown_state:  # the last state stands for all that a model did not know
            own_states = Vocabulary(None if demos.state_names is None else demos.state_names[:-1], demos.n_states - 1)
        return Table(demos, None, order, own_states, own_actions, labels)
    new = states or own_states, actions or own_actions
    unknown = (UNKNOWN_NAME,) if unknown_state else ()
    demos = replace(
        demos,
        states=_translated(demos, "state", own_states, new[0], "new" if unknown_state else "error"),
        actions=_translated(demos, "action", own_actions, new[1], "error"),
        n_states=new[0].size + len(unknown),
        n_actions=new[1].size,
        valid_actions=None,  # in the file's ids, as places are; the model has its own
        places=None,
        place_names=None,
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
    if demos.partial_labels is not None:
        words: Sequence[Any] = demos.partial_label_names or range(int(demos.partial_labels.max(initial=-1)) + 1)
        columns["labels"] = np.array([*words, None], dtype=object)[
            demos.partial_labels
        ]  # −1 is the last one: an empty cell
    if demos.action_space.continuous:
        return pd.DataFrame(columns | commands_frame(demos))
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


# -- continuous states and actions -------------------------------------------------------------------------------------

STATE, ACTION = "(no state)", "(no action)"
"""Columns that stand for tokens while a table without any is read."""


def column_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Names of columns, from a sequence or from one string with commas between them."""
    names = tuple(part.strip() for part in given.split(",")) if isinstance(given, str) else tuple(given)
    return tuple(name for name in names if name)


def _continuous(
    source: Any, columns: Columns, observe: str | Sequence[str], act: str | Sequence[str], rules: dict[str, Any]
) -> Table:
    """The table of a frame or file whose states and actions are numbers."""
    frame = source
    if not isinstance(source, pd.DataFrame):
        path = Path(source)
        if path.suffix.lower() not in WRITABLE:
            raise InputError(
                f"Columns to --observe and --act belong to a table ({', '.join(WRITABLE)}), not to {path}."
            )
        frame, rules["at"] = read_files(matching(path), columns, {})
    seen, done = column_names(observe), column_names(act)
    for names, role, other in ((seen, "observe", "act"), (done, "act", "observe")):
        if not names:
            raise InputError(f"Columns to --{other} are named and none to --{role}; name both.")
        for name in names:
            column_of(frame, name, f"--{role}")
    tokens, named = frame.assign(**{STATE: 0, ACTION: 0}), replace(columns, state=STATE, action=ACTION)
    table = _from_frame(tokens, named, None, None, False, **rules)
    x, x_names = _matrix(frame, seen, "observation")
    y, y_names = _matrix(frame, done, "command")
    demos = replace(table.demonstrations, observations=x[table.order].astype(np.float32))
    demos = demos.with_commands(y[table.order], motion_names=y_names, observation_names=x_names)
    return table._replace(demonstrations=demos, frame=frame)


def _matrix(frame: pd.DataFrame, names: Sequence[str], what: str) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    """Columns as numbers (n, d), lists taken apart, and the names of the d columns."""
    parts, found = [], []
    for name in names:
        values = _numbers(frame[name], name, what)
        parts.append(values)
        found += [name] if values.shape[1] == 1 else [f"{name}[{i}]" for i in range(values.shape[1])]
    return np.concatenate(parts, axis=1), tuple(found)


def _numbers(column: pd.Series[Any], name: str, what: str) -> npt.NDArray[np.float64]:
    """One column as numbers, (n, width)."""
    vectors = (list, tuple, np.ndarray)
    if not isinstance(column.iloc[0], vectors):
        return finite_numbers(column, what, lambda row: f"column {name!r}, row {row}")[:, None]
    width = len(column.iloc[0])
    wrong = (column.map(lambda value: len(value) if isinstance(value, vectors) else -1) != width).to_numpy()
    if width == 0 or wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(f"The {what} in column {name!r}, row {row} is no list of {width} numbers as in row 0.")
    try:
        values = np.stack([np.asarray(value, dtype=np.float64) for value in column])
    except (TypeError, ValueError):
        raise InputError(f"The column {name!r} holds lists that are not all numbers; give numbers.") from None
    if not (finite := np.isfinite(values).all(axis=1)).all():
        row = int(np.argmin(finite))
        raise InputError(
            f"The {what} {column.iloc[row]} in column {name!r}, row {row} is not a finite number; repair or remove it."
        )
    return values


def commands_frame(demos: Demonstrations) -> dict[str, npt.NDArray[Any]]:
    """Columns of observations and commands under their names, for a table."""
    columns: dict[str, npt.NDArray[Any]] = {}
    for values, names, usual in (
        (demos.observations, demos.observation_names, "observation"),
        (demos.motions, demos.motion_names, "command"),
    ):
        if values is not None:
            given = names or tuple(f"{usual}_{i}" for i in range(values.shape[1]))
            columns |= {name: values[:, i] for i, name in enumerate(given)}
    return columns


# -- npz files, without pickle -----------------------------------------------------------------------------------------

VECTORS = {"observations": 1, "motions": 1, "design": 2}
"""Arrays whose entries are not numbers, and how many axes an entry has."""


def load_npz(path: Path) -> dict[str, Array]:
    """Arrays of the file, flat where they have one entry per step, and always ``lengths``."""
    stored = {FORMER_NAMES.get(name, name): values for name, values in read_arrays(path).items()}
    if "motions" in stored:  # without tokens
        stored = dict.fromkeys(("states", "actions"), np.zeros(stored["motions"].shape[:-1], np.int64)) | stored
    if not {"states", "actions"} <= stored.keys():
        raise InputError(
            f"{path} needs the arrays states and actions, or observations and motions; it holds "
            f"{', '.join(stored) or 'nothing'}."
        )
    shape, lengths = stored["states"].shape, stored.get("lengths")
    if lengths is None and len(shape) == 2:
        lengths = np.full(shape[0], shape[1])
    elif (
        lengths is None
        or lengths.dtype.kind not in "iu"
        or lengths.ndim != 1
        or (lengths > math.prod(shape)).any()  # whose sum might leave the range of integers
        or shape != (lengths.sum(),)
    ):
        raise InputError(
            f"The states in {path} have shape {shape}; give (trajectories, steps), or a flat array with 'lengths', the "
            "steps of each trajectory, which add up to its length."
        )
    limits.check_growth(f"{path}", 0, path.stat().st_size, math.prod(shape))
    if not lengths.size or lengths.min() < 1:
        raise InputError(f"{path} holds no trajectory or an empty one; give each at least one step.")
    per_step = {key: shape for key in Demonstrations.per_step if key in stored}
    fits = dict.fromkeys(("n_states", "n_actions", "unknown_state"), ()) | per_step
    fits |= dict.fromkeys(("groups", "trajectory_names"), lengths.shape)
    kinds = {**dict.fromkeys((*VECTORS, "valid_actions"), "biuf"), "n_states": "iu", "n_actions": "iu"}
    kinds["unknown_state"] = "b"
    for key, values in stored.items():
        found = values.shape[: values.ndim - VECTORS.get(key, 0)]
        if found != fits.get(key, found) or values.dtype.kind not in kinds.get(key, values.dtype.kind):
            raise InputError(
                f"The array {key!r} in {path} has shape {values.shape} and type {values.dtype}, which does not fit "
                f"{len(lengths)} trajectories with states of shape {shape}; correct it or leave it out."
            )
    flat = {key: stored[key].reshape(-1, *stored[key].shape[len(shape) :]) for key in per_step}
    return stored | flat | {"lengths": lengths.astype(np.int64)}


def write_npz(demos: Demonstrations, path: str | Path, *, made_by: str | None = None) -> None:
    """Write an npz file without pickle that `read_data` turns back into the same demonstrations.

    ``made_by`` says what the demonstrations come from, where that matters to whoever judges a fit (`maker`).
    """
    if Path(path).suffix.lower() != ".npz":
        raise InputError(f"Cannot write {path}: the name must end in .npz.")
    left_out = ("offsets",) if demos.action_space.continuous else ("offsets", "log_volume")
    arrays: dict[str, Any] = {
        name: storable(value) for name, value in vars(demos).items() if value is not None and name not in left_out
    }
    if made_by is not None:
        arrays["made_by"] = np.array(made_by)
    storage.write_file(Path(path), lambda file: np.savez_compressed(file, lengths=demos.lengths, **arrays))


def maker(path: Path) -> str | None:
    """What wrote a file of demonstrations, where it says so."""
    try:
        found = read_arrays(path, only=("made_by",)).get("made_by")
    except InputError:
        return None
    return None if found is None else str(found)


# -- segments.parquet, in parts where the data are large ---------------------------------------------------------------

ROWS = 2**18
"""Rows that are in memory at the same time."""


def write_segments(table: Table, labels: npt.NDArray[Any], probabilities: npt.NDArray[Any], path: Path) -> None:
    """Write `read.with_posterior` of flat labels (n,) and probabilities (n, K) as Parquet, whole or not at all."""
    if table.frame is not None or table.demonstrations.n_steps <= ROWS:
        write_table(with_posterior(table, labels, probabilities), path)
        return
    demos = replace(table.demonstrations, trajectory_names=row_names(table.demonstrations))

    def frames(demos: Demonstrations) -> Iterator[pd.DataFrame]:
        for rows, part in parts_of(demos, ROWS):
            own = table._replace(demonstrations=part, order=np.arange(part.n_steps))
            yield storable_frame(with_posterior(own, labels[rows], probabilities[rows]))

    def write(file: IO[bytes]) -> None:
        schema = pa.Schema.from_pandas(next(frames(_with_most(demos))), preserve_index=False)
        with pq.ParquetWriter(file, schema) as rows:
            for frame in frames(demos):
                rows.write_table(pa.Table.from_pandas(frame, schema=schema, preserve_index=False))

    storage.write_file(path, write)


def _with_most(demos: Demonstrations) -> Demonstrations:
    """A trajectory whose rows have something in every column: one with a label where there is one."""
    known = np.flatnonzero(demos.partial_labels >= 0)[:1] if demos.partial_labels is not None else np.zeros(0, np.int64)
    first = 0 if not len(known) else int(np.searchsorted(demos.offsets, known[0], side="right")) - 1
    return demos.subset([first])


# -- files of tables and of arrays: what a parser would let pass without a word is looked for here --------------------

READABLE = (".csv", ".tsv", ".parquet", ".npz", ".xlsx", ".nwb")
WRITABLE = (".csv", ".tsv", ".parquet")
NWB = ".nwb"
EXCEL_ROWS, PER_CELL = 2**20, 64
"""Rows of a sheet at most, and bytes of memory per cell between the first and the last, empty ones included."""
PER_EXCEL_BYTE = 4
"""Bytes of memory per byte of the XML in an .xlsx file: a cell of some thirty bytes becomes an object of Python."""


def read_table_file(path: Path, text: Mapping[str, type[str]] = {}, wanted: Sequence[str] = ()) -> pd.DataFrame:
    """Rows and columns of a table of any format but npz, as they are.

    Columns named in ``text`` stay text whatever they look like; ``wanted`` ones tell which table of an NWB file it is.
    The attribute `rows.DOUBLED` of the frame says which columns the file has more than once.
    """
    if not path.is_file():
        raise InputError(f"There is no file {path}; check the path.")
    suffix = path.suffix.lower()
    if suffix == ".xlsx":
        need("openpyxl", "excel")
    try:
        if suffix == NWB:
            from prism_irl.data.interop import read_nwb

            return read_nwb(path, wanted)
        if suffix in (".parquet", ".xlsx"):
            return _read_parquet(path) if suffix == ".parquet" else _read_excel(path, text)
        return _read_csv(path, text)
    except pd.errors.EmptyDataError:
        raise InputError(f"{path} is empty; give a header and at least one row.") from None
    except UnicodeDecodeError:
        raise InputError(
            f"{path} is not UTF-8 text at line {_undecodable_line(path)}; save it as “CSV UTF-8”, or convert it "
            "with iconv -f latin1 -t utf-8."
        ) from None
    except (*BROKEN, pa.ArrowException, BadZipFile, zlib.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} is damaged or not {'an' if suffix == '.xlsx' else 'a'} {suffix} file ({brief(error)})."
        ) from None


def _read_excel(path: Path, text: Mapping[str, type[str]]) -> pd.DataFrame:
    """The first sheet of a workbook."""
    with ZipFile(path) as archive:
        _check_size(path, PER_EXCEL_BYTE * sum(info.file_size for info in archive.infolist()))
        for name in archive.namelist():
            if name.startswith("xl/worksheets/"):
                _check_sheet(path, archive.read(name))
    with pd.ExcelFile(path, engine="openpyxl") as book:
        frame: pd.DataFrame = pd.read_excel(book, dtype=dict(text))
        header = pd.read_excel(book, header=None, nrows=1)
    names = [] if header.empty else header.iloc[0].dropna().astype(str).tolist()
    frame.attrs[DOUBLED] = {name: times for name, times in Counter(names).items() if times > 1}
    return frame


def _check_sheet(path: Path, sheet: bytes) -> None:
    """Refuse cells that lie so far out that the table between them, most of it empty, takes gigabytes."""
    rows = re.split(rb"<(?:\w+:)?row\b", sheet)[1:]
    last = max((int(found[1]) for part in rows if (found := re.match(rb'[^>]*\br="(\d{1,18})"', part))), default=0)
    wide = max((len(re.findall(rb"<(?:\w+:)?c\b", part)) for part in rows), default=0)
    for letters in set(re.findall(rb'\br="([A-Z]{1,6})\d', sheet)):
        wide = max(wide, reduce(lambda number, letter: 26 * number + letter - 64, letters, 0))
    if max(last, len(rows)) > EXCEL_ROWS:
        raise InputError(f"{path} has more rows than a spreadsheet can have ({EXCEL_ROWS:,}); give a .csv file.")
    _check_size(path, PER_CELL * max(last, len(rows)) * wide)


def line_of(path: Path, row: int) -> int:
    """Line of a row in a text file, counted as an editor does; of other files the row as a spreadsheet numbers it."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        return row + (2 if path.suffix.lower() == ".xlsx" else 0)
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = csv.reader(file, delimiter=separators(path)[0])
        line, met = 1, -1  # cells may hold line ends, and empty lines are no rows
        for cells in rows:
            met += bool(cells)
            if cells and met == row + 1:
                return line
            line = rows.line_num + 1
    return row + 2


def check_writable(path: str | Path) -> None:
    """Say before the work begins that `write_table` does not know a format."""
    if Path(path).suffix.lower() not in WRITABLE:
        raise InputError(f"Cannot write {path}: the name must end in one of {', '.join(WRITABLE)}.")


def write_table(frame: pd.DataFrame, path: str | Path) -> None:
    """Write .csv, .tsv or .parquet without the index; the file appears whole or not at all."""
    check_writable(path)
    suffix, frame = Path(path).suffix.lower(), frame.copy(deep=False)
    frame.attrs = {}  # what was noticed when a table was read is no part of it

    def write(file: IO[bytes]) -> None:
        if suffix != ".parquet":
            frame.to_csv(file, index=False, sep="\t" if suffix == ".tsv" else ",")
            return
        storable_frame(frame).to_parquet(file, index=False)

    storage.write_file(Path(path), write)


def read_arrays(path: Path, only: Sequence[str] | None = None) -> dict[str, Array]:
    """Arrays of an npz file by name, all of them or those of ``only``.

    Nothing is taken on trust: an array is as large as its bytes, not as its header says, all of them together fit into
    memory, none is there twice, and none holds Python objects.
    """
    if not path.is_file():
        raise InputError(f"There is no file {path}; check the path.")
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            members = [info for info in archive.infolist() if only is None or info.filename[:-4] in only]
            names = [info.filename.removesuffix(".npy") for info in members]
            if len(set(names)) < len(names):
                twice = next(name for name, times in Counter(names).items() if times > 1)
                raise ValueError(f"the array {twice!r} is there twice")
            total = sum(info.file_size for info in members)
            _check_size(path, 2 * total, "give a smaller file, or a folder of prism_irl.data.mapped")
            return {info.filename[:-4]: _member(archive, info) for info in members if info.filename.endswith(".npy")}
    except (*BROKEN, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, InputError):
            raise
        if "Object arrays" in str(error):
            raise InputError(f"{path} holds Python objects, which are never unpickled; save plain arrays.") from None
        raise InputError(f"{path} is damaged or not an npz file ({brief(error)}).") from None


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """One array; its header is compared with the bytes that are there before anything is allocated."""
    name = info.filename[:-4]
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"the array {name!r} is of version {version}")
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran_order, dtype = header(file)
        if dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded")
        if dtype.kind not in PLAIN:
            raise ValueError(f"the array {name!r} is of type {dtype} and holds neither numbers nor times nor text")
        if math.prod(shape) * dtype.itemsize != info.file_size - file.tell():
            raise ValueError(f"the array {name!r} of type {dtype} and shape {shape} does not fit its bytes")
        content = bytearray(file.read())
    flat = np.frombuffer(content, dtype=dtype, count=math.prod(shape)) if content else np.empty(math.prod(shape), dtype)
    if dtype.kind == "U":
        checked.text(name, flat)
    return native(name, flat).reshape(shape, order="F" if fortran_order else "C")


# -- text and Parquet --------------------------------------------------------------------------------------------------

LOOKED_AT = 2**16  # bytes of a file that say how its cells and decimals are written
DECIMAL_COMMA = re.compile(rb";\s*-?\d+,\d+\s*(?=[;\r\n])")
PER_CSV_BYTE = 12
"""Bytes of memory per byte of a CSV file, at most: a cell of one digit and its comma become eight bytes."""


def _read_parquet(path: Path) -> pd.DataFrame:
    with pq.ParquetFile(path) as file:
        described = file.metadata
        groups = (described.row_group(i) for i in range(described.num_row_groups))
        cells = 8 * described.num_rows * max(described.num_columns, 1)  # few bytes may stand for many equal cells
        encoded = sum(group.total_byte_size for group in groups)
        texts = [field.name for field in file.schema_arrow if _is_text(field.type)]
    limits.check_growth(f"{path}", 0, path.stat().st_size, described.num_rows)
    _check_size(path, 2 * max(cells, encoded))
    if texts and 2 * described.num_rows * encoded > limits.GROWN:  # else no text can be long enough to matter
        _check_size(path, 2 * (cells + _decoded(path, texts)))
    stored = pd.read_parquet(path)
    return stored if stored.index.names == [None] else stored.reset_index()


def _check_size(path: Path, n_bytes: int, advice: str = "give fewer rows") -> None:
    limits.check_growth(f"{path}", n_bytes, path.stat().st_size)
    limits.check_bytes(f"{path}", n_bytes, advice)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))


def _decoded(path: Path, columns: list[str]) -> int:
    """Bytes of the text in some columns of a Parquet file, counted by its dictionaries and never written out."""
    total = 0
    with pq.ParquetFile(path, read_dictionary=columns) as file:
        for batch in file.iter_batches(4096, columns=columns):
            for cells in batch.columns:
                if isinstance(cells, pa.DictionaryArray):
                    lengths = pc.fill_null(pc.binary_length(cells.dictionary), 0)
                    total += pc.sum(lengths.take(cells.indices.drop_null())).as_py() or 0
                else:
                    total += cells.nbytes
    return total


def _read_csv(path: Path, text: Mapping[str, type[str]]) -> pd.DataFrame:
    separator, decimal = separators(path)
    limits.check_bytes(f"{path}", PER_CSV_BYTE * path.stat().st_size, "give fewer rows, or a Parquet file")
    quoted = _check_bytes_of(path)
    # The whole column decides its type (low_memory), not the part of it that one chunk happens to hold.
    frame = pd.read_csv(path, sep=separator, skipinitialspace=True, dtype=dict(text), low_memory=False, decimal=decimal)
    if not isinstance(frame.index, pd.RangeIndex):  # pandas would shift every column by one without a word
        raise InputError(f"The rows of {path} have more cells than its header; name every column or drop the others.")
    names = [name.rstrip() for name in _header(path, separator)]
    bare = frame.columns.map(lambda name: str(name).rstrip())
    if bare.is_unique:  # a space that nobody sees is no part of a name
        frame.columns = bare
    frame.attrs[DOUBLED] = {name: times for name, times in Counter(names).items() if times > 1}
    if quoted:
        _check_quotes(path, frame, separator)
    return frame


def separators(path: Path) -> tuple[str, str]:
    """What stands between the cells of a text file, and before the decimals of its numbers.

    Where commas mark decimals, spreadsheets write .csv files with semicolons; some write tabs. The header decides.
    """
    with path.open("rb") as file:
        head = file.read(LOOKED_AT)
    header = next((line for line in head.splitlines() if line.strip()), b"")
    if path.suffix.lower() == ".tsv" or (b"," not in header and b";" not in header and b"\t" in header):
        return "\t", "."
    if b"," in header or b";" not in header:
        return ",", "."
    return ";", "," if DECIMAL_COMMA.search(head) else "."


def _undecodable_line(path: Path) -> int:
    """Line of the first byte that is not UTF-8."""
    content = path.read_bytes()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        return content[: error.start].count(b"\n") + 1
    return 1


def _check_bytes_of(path: Path) -> bool:
    """Refuse bytes that no text has; return whether there are quotes."""
    if not path.stat().st_size:
        raise pd.errors.EmptyDataError
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if (at := content.find(b"\0")) >= 0:
            line = content[:at].count(b"\n") + 1
            raise InputError(f"Line {line} of {path} holds a NUL byte, which no text has; save it in UTF-8 again.")
        return content.find(b'"') >= 0


def headings(path: Path) -> list[str]:
    """Names of a table's columns, without reading its rows; none where they cannot be read."""
    try:
        return pq.read_schema(path).names if path.suffix.lower() == ".parquet" else _header(path, separators(path)[0])
    except (OSError, ValueError, csv.Error, pa.ArrowException):
        return []


def _header(path: Path, separator: str) -> list[str]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file, delimiter=separator, skipinitialspace=True)
        return next((row for row in rows if row), [])


def _check_quotes(path: Path, frame: pd.DataFrame, separator: str) -> None:
    """Refuse a cell that holds a whole row: its quote was never closed, or is closed many rows later."""
    for name, column in frame.items():
        if column.dtype.kind in "biufmM":
            continue
        broken = column.astype(str).str.contains("\n", regex=False).to_numpy(dtype=bool)
        for row in broken.nonzero()[0].tolist():
            cell = str(column.iloc[row])
            if cell.count(separator) >= (frame.shape[1] - 1) * cell.count("\n"):
                raise InputError(
                    f"Column {str(name)!r}, row {row} of {path} holds several rows, because a quote is not closed; "
                    "close or remove it."
                )


def storable_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with columns that Parquet cannot hold, integers beyond 64 bits or mixed kinds, as text."""
    changed: dict[Any, Any] = {}
    for i, name in enumerate(frame.columns):
        column = frame.iloc[:, i]
        if column.dtype != object:
            continue
        try:
            pa.Array.from_pandas(column)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            changed[name] = column.astype(str).where(column.notna(), None)
    return frame.assign(**changed) if changed else frame


# -- one file per animal -----------------------------------------------------------------------------------------------

FILE = "file"


def matching(path: Path) -> list[Path]:
    """The files behind a pattern with ``*``, ``?`` or ``[…]``, in the order of their names; a plain path is itself."""
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True)) if Path(name).is_file()]
    if not found:
        raise InputError(f"No file matches {path}; check the pattern.")
    wrong = [name for name in found if name.suffix.lower() not in WRITABLE]
    if wrong and len(found) > 1:
        raise InputError(
            f"Several files must be tables ({', '.join(WRITABLE)}), and {wrong[0]} is none; narrow {path}."
        )
    return found


def read_files(
    paths: Sequence[Path], columns: Columns, text: Mapping[str, type[str]], wanted: Sequence[str] = ()
) -> tuple[pd.DataFrame, Where]:
    """Rows of one file or of several, one below the other, and how to name the place of a row."""
    frames = [read_table_file(path, text, wanted) for path in paths]
    key = columns.trajectory.split(",") if isinstance(columns.trajectory, str) else columns.trajectory
    asked = FILE in [*(name.strip() for name in key), columns.group]
    if asked and not any(FILE in frame.columns for frame in frames):
        for frame, name in zip(frames, _names(paths), strict=True):
            frame[FILE] = name
    if len(paths) == 1:
        return frames[0], lambda row: f"line {line_of(paths[0], row)}"
    for path, frame in zip(paths, frames, strict=True):
        _check_columns(path, frame, paths[0], frames[0])
    if FILE not in (name.strip() for name in key):
        raise InputError(
            f"{paths[0].name} and {len(paths) - 1} more files are read as one table with their names in the column "
            f"'file'; type --trajectory file,{','.join(key)}, so that equal numbers in two files stay apart."
        )
    starts = np.cumsum([0, *(len(frame) for frame in frames)])

    def where(row: int) -> str:
        index = int(np.searchsorted(starts, row, side="right")) - 1
        return f"line {line_of(paths[index], int(row - starts[index]))} of {paths[index].name}"

    return pd.concat(frames, ignore_index=True), where


def _names(paths: Sequence[Path]) -> list[str]:
    """Names without their endings where these differ, paths elsewhere."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [path.as_posix() for path in paths]


def _check_columns(path: Path, frame: pd.DataFrame, first: Path, model: pd.DataFrame) -> None:
    for one, other, names in ((path, first, set(model) - set(frame)), (first, path, set(frame) - set(model))):
        if names:
            raise InputError(
                f"{one.name} has no column {sorted(map(str, names))[0]!r}, and {other.name} has; give files with the "
                "same columns."
            )
