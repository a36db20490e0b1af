"""Tables in and out: CSV, Parquet, npz or pandas becomes `Demonstrations`, and segmentations go back beside their rows.

States, actions and intentions may be integer ids or labels; a `Vocabulary` remembers which, is saved with a model and
reads new data the same way. Rows, trajectories and steps in error messages count from 0; the header is not a row.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from prism_irl.demonstrations import Demonstrations
from prism_irl.errors import InputError

Array: TypeAlias = npt.NDArray[Any]
Where: TypeAlias = Callable[[int], str]
READABLE = (".csv", ".tsv", ".parquet", ".npz")
UNKNOWN_NAME = "<unknown>"
_BROKEN_NPZ = (OSError, ValueError, EOFError, KeyError, RuntimeError, SyntaxError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Columns:
    """Which column holds what; an optional column that is not named is used when its usual name is there.

    ``time`` gives the order within a trajectory, ``group`` what splits keep together, ``intention`` true labels (for
    evaluation only), ``observations`` numbers that the switching network may read.
    """

    trajectory: str = "trajectory"
    state: str = "state"
    action: str = "action"
    time: str | None = None
    group: str | None = None
    intention: str | None = None
    observations: tuple[str, ...] = ()

    def resolve(self, frame: pd.DataFrame) -> Columns:
        """Columns as they are in ``frame``: an optional one that is absent is None, any other absence an error."""
        found = {role.name: getattr(self, role.name) or role.name for role in fields(self)[:-1]}
        absent = {role for role in ("time", "group", "intention") if getattr(self, role) is None}
        found = {role: name for role, name in found.items() if role not in absent or name in frame.columns}
        for role, name in [*found.items(), *(("observations", name) for name in self.observations)]:
            if name not in frame.columns:
                there = ", ".join(map(str, frame.columns[:50])) + (", …" if frame.shape[1] > 50 else "")
                raise InputError(
                    f"There is no column {name!r} for the {role}; the table has {there}; "
                    f"name the right one with {role}= (--{role})."
                )
            if frame.columns.tolist().count(name) > 1:
                raise InputError(f"The column {name!r} appears more than once; keep one of them or rename the others.")
        return Columns(**(dict.fromkeys(absent) | found), observations=self.observations)


@dataclass(frozen=True)
class Vocabulary:
    """The set of states, actions or intentions: integer ids as they are (``names=None``), or one name per id."""

    names: tuple[str, ...] | None
    size: int

    def __post_init__(self) -> None:
        if self.size < 1 or (self.names is not None and len(self.names) != self.size):
            given = "no" if self.names is None else len(self.names)
            raise InputError(f"A vocabulary of size {self.size} with {given} names cannot be; give one name per id.")
        if self.names is not None and len(set(self.names)) < self.size:
            twice = next(name for i, name in enumerate(sorted(self.names)[1:]) if sorted(self.names)[i] == name)
            raise InputError(f"The name {twice!r} stands for two ids; make the names different.")

    @classmethod
    def learn(cls, values: Any, what: str = "id", where: Where = "row {}".format, size: int | None = None) -> Self:
        """Take integers as ids up to ``size``; text, booleans and integers with wide gaps are sorted labels."""
        found = _distinct(values, what, where)[1]
        if found.dtype == object:
            names: list[str] = sorted(set(found.tolist()))
        elif size is not None or int(found.max()) + 1 <= 2 * len(found) + 1000:
            return cls(None, int(found.max()) + 1 if size is None else size)
        else:  # node ids of a map, say: a table over every integer up to the largest would be nearly all empty
            names = [str(value) for value in np.sort(found).tolist()]
        return cls(tuple(names), len(names))

    def encode(
        self,
        values: Any,
        what: str = "id",
        where: Where = "row {}".format,
        unknown: Literal["error", "new"] = "error",
    ) -> npt.NDArray[np.int64]:
        """Ids (n,) of values; one that is not in the vocabulary is an error, or gets the new id ``size``."""
        codes, found = _distinct(values, what, where)
        if self.names is not None:
            ids = pd.Index(self.names, dtype=object).get_indexer(pd.Index(found.tolist(), dtype=object).map(str))
        else:
            numbers = (
                found if found.dtype != object else pd.to_numeric(pd.Series(found), errors="coerce").to_numpy(float)
            )
            ids = np.where((numbers >= 0) & (numbers < self.size) & (numbers % 1 == 0), numbers, -1).astype(np.int64)
        ids = np.where(ids < 0, self.size, ids).astype(np.int64)
        if unknown == "error" and (ids == self.size).any():
            row = int(np.argmax(ids[codes] == self.size))
            known = f"ids 0 to {self.size - 1}" if self.names is None else ", ".join(self.names[:10])
            more = ", …" if self.names is not None and self.size > 10 else ""
            allow = ", or allow unknown states (unknown_state=True, --unknown-state)" if what == "state" else ""
            raise InputError(
                f"The {what} {found[codes[row]]!s} at {where(row)} is not one of the {self.size} known {what}s "
                f"({known}{more}); correct it{allow}."
            )
        return np.asarray(ids[codes])

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {"names": None if self.names is None else list(self.names), "size": self.size}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Rebuild what `to_json` returned; anything else is an error."""
        match value:
            case {"names": None, "size": int(size)}:
                return cls(None, size)
            case {"names": [*names], "size": int(size)} if all(isinstance(name, str) for name in names):
                return cls(tuple(names), size)
        raise InputError("A vocabulary of the model file is damaged; restore the file or fit again.")

    def reads_as_text(self) -> bool:
        """Whether CSV cells must stay text to match: '01' is not 1 when the names say '01'."""
        return self.names is not None and not all(re.fullmatch("0|[1-9][0-9]*|True|False", n) for n in self.names)


class Table(NamedTuple):
    """What `read` found.

    ``frame`` holds the rows in their original order (None for npz) and ``order`` (n,) the row of ``frame`` behind each
    flat step; ``states``, ``actions`` and ``labels`` are the vocabularies behind the ids.
    """

    demonstrations: Demonstrations
    frame: pd.DataFrame | None
    order: npt.NDArray[np.int64]
    states: Vocabulary
    actions: Vocabulary
    labels: Vocabulary | None


def read(
    source: str | Path | pd.DataFrame,
    *,
    trajectory: str = "trajectory",
    state: str = "state",
    action: str = "action",
    time: str | None = None,
    group: str | None = None,
    intention: str | None = None,
    observations: tuple[str, ...] = (),
    states: Vocabulary | None = None,
    actions: Vocabulary | None = None,
    unknown_state: bool = False,
) -> Table:
    """Read a .csv, .tsv, .parquet or .npz file or a pandas table.

    Rows of a trajectory may be scattered: they keep their order, or are sorted by time; trajectories come in the order
    of their first rows. An npz file names its arrays itself, so the column options do not apply to it.

    Parameters
    ----------
    trajectory, state, action, time, group, intention, observations
        Column names; see `Columns`.
    states, actions : Vocabulary, optional
        Vocabularies of a fitted model; learned from the data when absent.
    unknown_state : bool
        Give states that ``states`` does not know the one extra id ``states.size`` instead of raising.
    """
    if unknown_state and states is None:
        raise InputError("Unknown states exist only next to known ones; give the states of a fitted model as well.")
    names = (observations,) if isinstance(observations, str) else tuple(observations)
    columns = Columns(trajectory, state, action, time, group, intention, names)
    if isinstance(source, pd.DataFrame):
        return _from_frame(source, columns, states, actions, unknown_state)
    path = Path(source)
    if path.suffix.lower() not in READABLE:
        raise InputError(f"Cannot read {path}: its name must end in {', '.join(READABLE)}.")
    if not path.is_file():
        raise InputError(f"There is no file {path}; check the path.")
    if path.suffix.lower() == ".npz":
        return _from_npz(path, states, actions, unknown_state)
    text = {name: str for name, known in ((state, states), (action, actions)) if known and known.reads_as_text()}
    return _from_frame(_read_frame(path, text), columns, states, actions, unknown_state)


def _read_frame(path: Path, text: Mapping[str, type[str]]) -> pd.DataFrame:
    try:
        if path.suffix.lower() == ".parquet":
            return pd.read_parquet(path)
        separator = "\t" if path.suffix.lower() == ".tsv" else ","
        # The whole column decides its type (low_memory), and numbers come back as they were written (round_trip).
        options: dict[str, Any] = {"dtype": text, "low_memory": False, "float_precision": "round_trip"}
        frame: pd.DataFrame = pd.read_csv(path, sep=separator, skipinitialspace=True, **options)
    except pd.errors.EmptyDataError:
        raise InputError(f"{path} is empty; give a header and at least one row.") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise InputError(f"{path} is damaged or not a {path.suffix} file ({reason}).") from None
    if not isinstance(frame.index, pd.RangeIndex):  # pandas would shift every column by one without a word
        raise InputError(
            f"The rows of {path} have more cells than its header; name every column or drop the extra ones."
        )
    return frame


def _from_frame(
    frame: pd.DataFrame, columns: Columns, states: Vocabulary | None, actions: Vocabulary | None, unknown_state: bool
) -> Table:
    columns = columns.resolve(frame)
    if not len(frame):
        raise InputError("The table has no rows; give at least one step.")
    codes, names = _factorize(
        frame[columns.trajectory], "trajectory", f"column {columns.trajectory!r}, row {{}}".format
    )

    def where(column: str) -> Where:
        return lambda row: f"column {column!r}, row {row} (trajectory {names[codes[row]]})"

    states, state_ids = _encoded(frame[columns.state], "state", where(columns.state), states, unknown_state)
    actions, action_ids = _encoded(frame[columns.action], "action", where(columns.action), actions)
    labels, label_ids = None, None
    if columns.intention is not None:
        labels, label_ids = _encoded(frame[columns.intention], "intention", where(columns.intention), None)
    times = None if columns.time is None else _times(frame[columns.time], where(columns.time))
    order = np.argsort(codes, kind="stable") if times is None else np.lexsort((times, codes))
    observations = [_numbers(frame[column], where(column)) for column in columns.observations]
    groups = None
    if columns.group is not None:
        group_codes, group_names = _factorize(frame[columns.group], "group", where(columns.group))
        first = group_codes[np.unique(codes, return_index=True)[1]]
        if (group_codes != first[codes]).any():
            row = int(np.argmax(group_codes != first[codes]))
            raise InputError(
                f"Trajectory {names[codes[row]]} belongs to two groups, {group_names[first[codes[row]]]} and "
                f"{group_names[group_codes[row]]} ({where(columns.group)(row)}); give it one, or split the trajectory."
            )
        groups = _storable(group_names[first])
    demos = Demonstrations(
        states=state_ids[order],
        actions=action_ids[order],
        offsets=np.concatenate([[0], np.cumsum(np.bincount(codes))]),
        observations=np.stack(observations, axis=1)[order] if observations else None,
        labels=None if label_ids is None else label_ids[order],
        times=None if times is None else times[order],
        groups=groups,
        trajectory_names=_storable(names),
        **_sizes(states, actions, labels, unknown_state),
    )
    return Table(demos, frame, order, states, actions, labels)


def _sizes(states: Vocabulary, actions: Vocabulary, labels: Vocabulary | None, unknown_state: bool) -> dict[str, Any]:
    """Fields of `Demonstrations` that the vocabularies decide."""
    extra = (UNKNOWN_NAME,) if unknown_state else ()
    return {
        "n_states": states.size + unknown_state,
        "n_actions": actions.size,
        "state_names": None if states.names is None else states.names + extra,
        "action_names": actions.names,
        "label_names": None if labels is None else labels.names,
        "unknown_state": unknown_state,
    }


def _encoded(
    values: Any, what: str, where: Where, known: Vocabulary | None, unknown: bool = False
) -> tuple[Vocabulary, npt.NDArray[np.int64]]:
    known = known or Vocabulary.learn(values, what, where)
    return known, known.encode(values, what, where, "new" if unknown else "error")


def _factorize(values: pd.Series[Any], what: str, where: Where) -> tuple[npt.NDArray[np.intp], pd.Series[Any]]:
    """Which distinct value each row holds, (n,), and these values in the order they appear; none may be missing."""
    try:
        codes, distinct = pd.factorize(values.infer_objects())
    except TypeError:
        raise InputError(f"The {what}s at {where(0)} are lists or other objects; give numbers or text.") from None
    if (codes < 0).any():
        raise InputError(f"The {what} at {where(int(np.argmin(codes)))} is missing; fill it in or remove that row.")
    return codes, pd.Series(distinct)


def _distinct(values: Any, what: str, where: Where) -> tuple[npt.NDArray[np.intp], Array]:
    """Which distinct value each row holds, and these values: whole numbers (uint64), or labels (str in object)."""
    codes, found = _factorize(pd.Series(values), what, where)
    if not pd.api.types.is_numeric_dtype(found.dtype) or pd.api.types.is_bool_dtype(found.dtype):
        return codes, np.array([str(value) for value in found], dtype=object)
    numbers = np.array(found.tolist())
    whole = (
        (np.floor(numbers) == numbers) & (np.abs(numbers) < 2.0**63)
        if numbers.dtype.kind == "f"
        else numbers == numbers
    )
    for fine, problem in (
        (whole, f"is not a whole number; discretise the {what}s first"),
        (numbers >= 0, f"is negative; ids run from 0, so renumber the {what}s or use names"),
    ):
        if not fine.all():
            row = int(np.argmin(fine[codes]))
            raise InputError(f"The {what} {numbers[codes[row]]} at {where(row)} {problem}.")
    return codes, numbers.astype(np.uint64)


def _times(values: pd.Series[Any], where: Where) -> Array:
    """Times (n,) that sort: numbers or durations as they are, anything else read as ISO dates (UTC)."""
    _factorize(values, "time", where)
    if values.dtype.kind in "biufm":
        return values.to_numpy()
    values = pd.Series(np.asarray(values))
    numbers = pd.to_numeric(values, errors="coerce") if values.dtype.kind != "M" else None
    if numbers is not None and numbers.notna().all():
        return numbers.to_numpy()
    dates = pd.to_datetime(values, errors="coerce", format="ISO8601", utc=True)
    if dates.isna().any():
        row = int(np.argmax(dates.isna()))
        raise InputError(
            f"The time {values.iloc[row]} at {where(row)} is neither a number nor an ISO date; convert the column, or "
            "rename it to keep the rows in the order of the file."
        )
    return dates.dt.tz_localize(None).to_numpy()


def _numbers(values: pd.Series[Any], where: Where) -> npt.NDArray[np.float32]:
    """Check one column of observations, (n,)."""
    with np.errstate(over="ignore"):
        numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float32, na_value=np.nan)
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise InputError(
            f"The observation {values.iloc[row]} at {where(row)} is not a finite number; repair or remove that row."
        )
    return numbers


def _storable(values: Any) -> Array:
    """Numbers and dates as they are, anything else as text: what an npz file holds without pickle."""
    array = np.asarray(values)
    return array if array.dtype.kind in "biufmM" else array.astype(str)


def _load_npz(path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            stored = {key: archive[key] for key in archive.files}
    except _BROKEN_NPZ as error:
        if "Object arrays" in str(error):
            raise InputError(
                f"{path} holds arrays of Python objects, which are never unpickled; save plain arrays."
            ) from None
        raise InputError(f"{path} is damaged or not an npz file ({error or type(error).__name__}).") from None
    for key in ("states", "actions"):
        if key not in stored:
            raise InputError(f"{path} has no array {key!r} but only {', '.join(stored) or 'nothing'}.")
    return stored


def _from_npz(path: Path, states: Vocabulary | None, actions: Vocabulary | None, unknown_state: bool) -> Table:
    stored = _load_npz(path)
    shape = stored["states"].shape
    if "lengths" not in stored and len(shape) == 2:
        lengths = np.full(shape[0], shape[1])
    else:
        lengths = stored.get("lengths", np.zeros(0))
        if len(shape) != 1 or lengths.ndim != 1 or lengths.dtype.kind not in "iu" or lengths.sum() != shape[0]:
            raise InputError(
                f"The states in {path} have shape {shape}; give (trajectories, steps), or a flat array with 'lengths', "
                "one integer per trajectory, that add up to its length."
            )
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if offsets[-1] < 1 or (lengths < 1).any():
        raise InputError(f"{path} holds no steps, or an empty trajectory; give each at least one step.")
    names = stored.get("trajectory_names", np.arange(len(lengths)))
