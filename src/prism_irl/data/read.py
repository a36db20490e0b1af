"""Tables in and out: CSV, Parquet, npz or pandas becomes `Demonstrations`, and segmentations go back beside their rows.

States, actions and intentions may be integer ids or labels; a `Vocabulary` remembers which, is saved with a model and
reads new data the same way. A row of a file is named by its line, as an editor counts them; rows of a pandas table,
trajectories and steps count from 0. Continuous states and actions are columns that are observed, and columns that are
done (``--observe x,y --act vx,vy``); a column may hold a number per row, or a list of numbers of one length (as
LeRobot's tables do), which becomes as many columns. An npz file holds the arrays of `Demonstrations` under their own
names: (trajectories, steps), or flat with ``lengths``; sizes, names and the valid-action mask are optional.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from prism_irl import limits, storage
from prism_irl.data import files, rows
from prism_irl.data.demonstrations import Demonstrations, parts_of
from prism_irl.data.mapped import FORMER_NAMES, native, open_folder, storable
from prism_irl.data.rows import Array, Columns, Dates, Distinct, Keyed, Missing, Ties, Vocabulary, Where
from prism_irl.errors import InputError

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

    A pattern such as ``"animals/*.csv"`` is one table. Rows of a trajectory may be scattered: they keep their order, or
    are sorted by time; trajectories come in the order of their first rows. An npz file names its arrays itself.

    Parameters
    ----------
    trajectory, state, action, time, group, intention, observations, labels, place
        Column names; see `Columns`.
    observe, act : column names (or one string with commas)
        Continuous states and actions, instead of ``state`` and ``action``.
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
    if path.is_dir() and suffix not in files.READABLE:
        return _in_language(open_folder(path), states, actions, unknown_state)
    if suffix not in files.READABLE:
        raise InputError(f"Cannot read {path}: the name must end in one of {', '.join(files.READABLE)}.")
    paths = files.matching(path)
    if suffix == ".npz":
        return _from_npz(paths[0], states, actions, unknown_state)
    text = {name: str for name, known in ((state, states), (action, actions)) if known and known.is_text()}
    frame, rules["at"] = files.read_files(paths, columns, text, (state, action))
    return _from_frame(frame, columns, states, actions, unknown_state, **rules)


def with_joined(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The frame with a column ``x,y`` of states that columns x and y name together: x3y4 of numbers, else left/red.

    A row that lacks one of them lacks the state. Other frames are returned as they are.
    """
    parts = [part.strip() for part in name.split(",")]
    if len(parts) < 2 or name in frame.columns or not set(parts) <= set(frame.columns):
        return frame
    for part in parts:
        rows.check_single(frame, part)
        at = lambda i, part=part: f"row {i} of column {part!r}"  # noqa: E731
        rows.distinct(frame[part].dropna(), "state", at)  # refuses measurements
    cells = [rows.whole_numbers(frame[part].dropna()) for part in parts]
    numbers = all(cell.dtype.kind in "iu" for cell in cells)
    words = [(part if numbers else "") + cell.astype(str) for part, cell in zip(parts, cells, strict=True)]
    joined = reduce(lambda one, other: one + ("" if numbers else "/") + other, words)
    return frame.assign(**{name: joined.reindex(frame.index)})


def _with_native_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame, whose columns may be of another machine's byte order, or long doubles, as this one's numbers."""
    changed = frame.copy(deep=False)
    for i, kind in enumerate(frame.dtypes):
        if isinstance(kind, np.dtype) and (not kind.isnative or (kind.kind == "f" and kind.itemsize > 8)):
            changed.isetitem(i, native(f"cells of column {str(frame.columns[i])!r}", frame.iloc[:, i].to_numpy()))
    return changed


def plain_table(path: Path) -> pd.DataFrame:
    """Rows and columns of a .csv, .tsv or .parquet file, as they are."""
    if path.suffix.lower() not in files.WRITABLE:
        raise InputError(f"Cannot read {path}: the name must end in one of {', '.join(files.WRITABLE)}.")
    return files.read_table_file(path)


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
    key = rows.key_columns(frame, columns.trajectory)
    codes, names = rows.factorize_keys(frame, key, at)
    lost = rows.lost_rows(frame, found, how, lambda row: f"{at(row)} (trajectory {names[codes[row]]})")
    if how == "split" and lost.any():
        kept, everywhere = np.flatnonzero(~lost), at
        codes, names = rows.split_rows(codes, names, frame[found["time"]] if "time" in found else None, lost)
        frame, lost = frame[~lost].reset_index(drop=True), np.zeros(len(kept), bool)
        at = lambda row: everywhere(int(kept[row]))  # noqa: E731
    keyed = Keyed(frame, key, codes, names, at)

    def column(role: str, name: str | None = None) -> tuple[pd.Series[Any], str, Where]:
        name = found[role] if name is None else name
        return frame[name], role, lambda row: f"column {name!r}, {at(row)} (trajectory {names[codes[row]]})"

    there = np.flatnonzero(~lost)

    def coded(role: str) -> tuple[Distinct, str, Where]:
        values, name, where = column(role)
        return rows.distinct(values[~lost], name, lambda i: where(int(there[i]))), name, lambda i: where(int(there[i]))

    def spread(ids: npt.NDArray[np.int64], otherwise: int) -> npt.NDArray[np.int64]:
        """Ids of the rows that have one, in the order of the steps; ``otherwise`` of those that are missing."""
        everywhere = np.full(len(lost), otherwise)
        everywhere[there] = ids
        return np.asarray(everywhere[order])

    state, action = coded("state"), coded("action")
    intention = (rows.distinct(*column("intention")), *column("intention")[1:]) if "intention" in found else None
    extra = how == "skip"  # one more state, in which nothing can be chosen
    learned = states or Vocabulary.learn(*state)
    states = rows.with_missing(learned) if extra and states is None else learned
    actions = actions or Vocabulary.learn(*action)
    labels = Vocabulary.learn(*intention) if intention else None
    times = rows.read_times(*column("time"), dates) if "time" in found else None
    used = [*key, *found.values(), *columns.observations]
    sorted_ = rows.sort_rows(keyed, times, used, ties, max_gap)
    order = sorted_.order
    observations = [
        rows.finite_numbers(*column("observation", name), dtype=np.float32) for name in columns.observations
    ]
    unknown = (UNKNOWN_NAME,) if unknown_state else ()
    known, known_names = rows.read_known(*column("labels")) if "labels" in found else (None, None)
    ids = spread(states.encode(*state, unknown="new" if unknown_state else "error"), states.size - 1)
    places, place_names = None, None
    if "place" in found:
        at_step = lambda step: column("place")[2](int(order[step]))  # noqa: E731
        asked = columns.place is not None and not lost.any()
        places, place_names = rows.read_places(
            ids, frame[found["place"]].iloc[order], states.size + len(unknown), at_step, asked=asked
        )
    demos = Demonstrations(
        states=ids,
        actions=spread(actions.encode(*action), 0),
        offsets=sorted_.offsets,
        n_states=states.size + len(unknown),
        n_actions=actions.size,
        observations=np.stack(observations, axis=1)[order] if observations else None,
        labels=labels.encode(*intention)[order] if labels and intention else None,
        partial_labels=None if known is None else known[order],
        partial_label_names=known_names,
        times=None if times is None else times[order],
        groups=rows.read_groups(keyed, *column("group"))[sorted_.parents] if "group" in found else None,
        valid_actions=rows.only_one_action(states.size, actions.size) if extra and not unknown_state else None,
        state_names=None if states.names is None else states.names + unknown,
        action_names=actions.names,
        label_names=None if labels is None else labels.names,
        trajectory_names=storable(sorted_.names),
        unknown_state=unknown_state,
        places=places,
        place_names=place_names,
    )
    limits.check_pairs(demos.n_states, demos.n_actions, demos.n_steps)
    return Table(demos, frame, order, states, actions, labels, (*sorted_.notes, *rows.copies(demos)))


def _from_npz(path: Path, states: Vocabulary | None, actions: Vocabulary | None, unknown_state: bool) -> Table:
    stored = load_npz(path)
    for key, known in (("states", states), ("actions", actions)):
        size = int(stored.get(f"n_{key}", 0))
        if known and f"{key[:-1]}_names" not in stored and size > known.size and not unknown_state:
            raise InputError(f"{path} has {size} {key} and the model {known.size}; give data of the same world.")
    demos = _stored(stored)
    return _in_language(demos, states, actions, unknown_state)._replace(notes=tuple(rows.copies(demos)))


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
    index = demos.trajectory_index
    columns: dict[str, Array] = {"trajectory": row_names(demos)[index]}
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
        columns["labels"] = np.array([*words, None], dtype=object)[demos.partial_labels]  # −1, the last: an empty cell
    for values, names, usual in (
        (demos.observations, demos.observation_names if demos.action_space.continuous else None, "observation"),
        (demos.motions, demos.motion_names, "command"),
    ):
        if values is not None:
            given = names or [f"{usual}_{i}" for i in range(values.shape[1])]
            columns |= {name: values[:, i] for i, name in enumerate(given)}
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
KNOWN = (
    "{} is observed and done, so that what is done is known from what is seen, and its likelihood says nothing; give "
    "the command, such as the change to the next row, to --act."
)


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
        if path.suffix.lower() not in files.WRITABLE:
            raise InputError(
                f"Columns to --observe and --act belong to a table ({', '.join(files.WRITABLE)}), not to {path}."
            )
        frame, rules["at"] = files.read_files(files.matching(path), columns, {})
    seen, done = column_names(observe), column_names(act)
    for names, role, other in ((seen, "observe", "act"), (done, "act", "observe")):
        if not names:
            raise InputError(f"Columns to --{other} are named and none to --{role}; name both.")
        for name in names:
            rows.column_of(frame, name, f"--{role}")
    tokens, named = frame.assign(**{STATE: 0, ACTION: 0}), replace(columns, state=STATE, action=ACTION)
    table = _from_frame(tokens, named, None, None, False, **rules)
    x, x_names = _matrix(frame, seen, "observation")
    y, y_names = _matrix(frame, done, "command")
    demos = replace(table.demonstrations, observations=x[table.order].astype(np.float32))
    demos = demos.with_commands(y[table.order], motion_names=y_names, observation_names=x_names)
    both = [name for name in done if name in seen]
    notes = (KNOWN.format(", ".join(both)),) if both else ()
    return table._replace(demonstrations=demos, frame=frame, notes=(*table.notes, *notes))


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
        return rows.finite_numbers(column, what, lambda row: f"column {name!r}, row {row}")[:, None]
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
        where = f"column {name!r}, row {int(np.argmin(finite))}"
        raise InputError(f"The {what} in {where} is not a list of finite numbers; repair or remove it.")
    return values


# -- npz files, without pickle -----------------------------------------------------------------------------------------

VECTORS = {"observations": 1, "motions": 1, "design": 2}
"""Arrays whose entries are not numbers, and how many axes an entry has."""


def load_npz(path: Path) -> dict[str, Array]:
    """Arrays of the file, flat where they have one entry per step, and always ``lengths``."""
    stored = {FORMER_NAMES.get(name, name): values for name, values in files.read_arrays(path).items()}
    if "motions" in stored:  # without tokens
        stored = dict.fromkeys(("states", "actions"), np.zeros(stored["motions"].shape[:-1], np.int64)) | stored
    if not {"states", "actions"} <= stored.keys():
        raise InputError(
            f"{path} needs the arrays states and actions, or observations and motions; it holds "
            f"{', '.join(stored) or 'nothing'}."
        )
    shape: tuple[int, ...] = stored["states"].shape
    lengths = stored.get("lengths", np.full(shape[0], shape[1]) if len(shape) == 2 else np.zeros(0))
    whole = lengths.dtype.kind in "iu" and lengths.ndim == 1
    if "lengths" in stored or len(shape) != 2:  # a length above the size might take the sum out of the integers
        whole = whole and not (lengths > math.prod(shape)).any() and shape == (lengths.sum(),)
    if not whole:
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
    kinds = dict.fromkeys((*VECTORS, "valid_actions"), "biuf") | dict.fromkeys(("n_states", "n_actions"), "iu")
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
        found = files.read_arrays(path, only=("made_by",)).get("made_by")
    except InputError:
        return None
    return None if found is None else str(found)


# -- segments.parquet, in parts where the data are large ---------------------------------------------------------------

ROWS = 2**18
"""Rows that are in memory at the same time."""


def write_segments(table: Table, labels: npt.NDArray[Any], probabilities: npt.NDArray[Any], path: Path) -> None:
    """Write `read.with_posterior` of flat labels (n,) and probabilities (n, K) as Parquet, whole or not at all."""
    if table.frame is not None or table.demonstrations.n_steps <= ROWS:
        files.write_table(with_posterior(table, labels, probabilities), path)
        return
    demos = replace(table.demonstrations, trajectory_names=row_names(table.demonstrations))

    def frames(demos: Demonstrations) -> Iterator[pd.DataFrame]:
        for steps, part in parts_of(demos, ROWS):
            own = table._replace(demonstrations=part, order=np.arange(part.n_steps))
            yield files.storable_frame(with_posterior(own, labels[steps], probabilities[steps]))

    def write(file: IO[bytes]) -> None:
        first = 0  # a trajectory whose rows have something in every column: one with a label where there is one
        if demos.partial_labels is not None:
            known = int(np.argmax(demos.partial_labels >= 0))
            first = int(np.searchsorted(demos.offsets, known, side="right")) - 1
        schema = pa.Schema.from_pandas(next(frames(demos.subset([first]))), preserve_index=False)
        with pq.ParquetWriter(file, schema) as writer:
            for frame in frames(demos):
                writer.write_table(pa.Table.from_pandas(frame, schema=schema, preserve_index=False))

    storage.write_file(path, write)
