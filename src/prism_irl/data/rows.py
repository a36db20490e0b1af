"""Rows of a table: which column and which id stand for what, which rows form a trajectory, and in which order.

Integers are ids already; text, booleans, integers with wide gaps and the few levels of a number (a contrast of -0.5 and
0.5) are labels that get an id each. A `Vocabulary` is saved with a model and reads new data the same way.

A trajectory may be named by several columns together (animal and bout). People's tables restart their numbers with
every animal, hold a stretch twice or lack rows; a model would fit all of that without a word. What cannot be meant is
refused, what may be meant is noted, and both name the way out.

Rows without state or action are an error, a cut (*split*), or a step that says nothing (*skip*): one in an extra state,
`MISSING`, in which every agent can do one thing only. Its probability is 1 under every intention, so that it adds to no
likelihood or count, and the chain of intentions passes through it unbroken.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.mapped import storable
from prism_irl.errors import InputError

# -- vocabularies: which id stands for which state, action or intention ------------------------------------------------

LEVELS = 50
"""A column of states or actions with at most so many different numbers holds levels, not measurements."""
LEVEL = re.compile(r"-?[0-9.]+(e[-+]?[0-9]+)?")

Array: TypeAlias = npt.NDArray[Any]
Where: TypeAlias = Callable[[int], str]
"""Says in words where a row or step is."""


@dataclass(frozen=True)
class Vocabulary:
    """The set of states, actions or intentions: integer ids as they are (``names=None``), or one name per id."""

    names: tuple[str, ...] | None
    size: int

    def __post_init__(self) -> None:
        n_names = self.size if self.names is None else len(self.names)
        if self.size < 1 or n_names != self.size:
            raise InputError(f"A vocabulary of {self.size} ids cannot have {n_names} names; give one name per id.")
        if self.names is not None and len(set(self.names)) < self.size:
            twice = pd.Series(self.names)[pd.Series(self.names).duplicated()].iloc[0]
            raise InputError(f"The name {twice!r} stands for two ids; make the names different.")

    @classmethod
    def learn(cls, values: Any, what: str = "id", where: Where = "row {}".format) -> Self:
        """Take integers as ids; text, booleans and integers with wide gaps as labels, sorted."""
        found = distinct(values, what, where).values
        if found.dtype == object:
            names: list[str] = sorted(set(found.tolist()))
            if all(LEVEL.fullmatch(name) for name in names) and not all(name.isdigit() for name in names):
                names.sort(key=float)
        elif int(found.max()) + 1 <= 2 * len(found) + 1000:
            return cls(None, int(found.max()) + 1)
        else:  # numbers of nodes on a map, say: a table over every integer would be nearly all empty
            names = [str(value) for value in np.sort(found).tolist()]
        return cls(tuple(names), len(names))

    def encode(
        self, values: Any, what: str = "id", where: Where = "row {}".format, unknown: str = "error"
    ) -> npt.NDArray[np.int64]:
        """Ids (n,) of values; one that is not known is an error, or gets the id ``size`` (``unknown="new"``)."""
        codes, found = distinct(values, what, where)
        if self.names is not None:
            ids = pd.Index(self.names, dtype=object).get_indexer(pd.Index([str(v) for v in found], dtype=object))
        else:
            numbers = pd.to_numeric(pd.Series(found), errors="coerce").to_numpy()  # a stray word makes a column text
            known = (numbers >= 0) & (numbers < self.size) & (np.floor(numbers) == numbers)
            ids = np.full(len(numbers), -1, dtype=np.int64)
            ids[known] = numbers[known].astype(np.int64)  # the others may be no integers of 64 bits
        ids = np.where(ids < 0, self.size, ids)
        if unknown == "error" and (ids == self.size).any():
            row = int(np.argmax(ids[codes] == self.size))
            there = f"ids 0 to {self.size - 1}" if self.names is None else ", ".join(self.names[:10])
            more = ", …" if self.names is not None and self.size > 10 else ""
            allow = ", or allow unknown states (unknown_state=True, --unknown-state)" if what == "state" else ""
            raise InputError(
                f"The {what} {found[codes[row]]} at {where(row)} is not one of the {self.size} known {what}s "
                f"({there}{more}); correct it{allow}{in_all(int((ids[codes] == self.size).sum()))}."
            )
        return np.asarray(ids[codes], dtype=np.int64)

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
        raise InputError("A vocabulary in the model file is damaged; restore the file or fit again.")

    def is_text(self) -> bool:
        """Whether CSV cells must stay text to match: 01 is not 1 when a name is '01'."""
        return self.names is not None and not all(re.fullmatch("0|[1-9][0-9]*|True|False", n) for n in self.names)


class Distinct(NamedTuple):
    """Which distinct value each row holds, (n,), and these values: whole numbers (uint64) or labels (str in object)."""

    codes: npt.NDArray[np.intp]
    values: Array


def distinct(values: Any, what: str, where: Where) -> Distinct:
    """Find the distinct values of a column; many fractions, one negative number and missing cells are errors."""
    if isinstance(values, Distinct):
        return values
    codes, found = factorize(pd.Series(values), what, where)
    if pd.api.types.is_float_dtype(found.dtype):
        numbers = found.to_numpy(dtype=np.float64)
    elif pd.api.types.is_integer_dtype(found.dtype):
        numbers = found.to_numpy(dtype=np.int64 if found.min() < 0 else np.uint64)
    else:
        return Distinct(codes, np.array([str(value) for value in found], dtype=object))
    if what in ("state", "action") and _are_levels(numbers):
        return Distinct(codes, np.array([f"{value + 0.0:.15g}" for value in numbers.tolist()], dtype=object))
    advice = f"name continuous columns with --observe and --act, or discretise the {what}s first"
    whole = (np.floor(numbers) == numbers) & (np.abs(numbers) < 2.0**64)
    for fine, problem in (
        (whole, f"is not a whole number; {advice}"),
        (numbers >= 0, f"is negative; ids run from 0, so renumber the {what}s or use names"),
    ):
        if not fine.all():
            row = int(np.argmin(fine[codes]))
            count = in_all(int((~fine)[codes].sum()))
            raise InputError(f"The {what} {numbers[codes[row]]} at {where(row)} {problem}{count}.")
    return Distinct(codes, numbers.astype(np.uint64))


def _are_levels(numbers: Array) -> bool:
    """Whether numbers that are no ids are levels: a lone -1 or 2.5 among ids is a mistake, contrasts are not."""
    odd = int(((numbers < 0) | (np.floor(numbers) != numbers)).sum())
    low, high = float(numbers.min()), float(numbers.max())
    small = high <= 1 and low in (-high, 0)
    return len(numbers) <= LEVELS and bool(np.isfinite(numbers).all()) and (odd > 1 or (odd == 1 and small))


def factorize(values: pd.Series[Any], what: str, where: Where) -> tuple[npt.NDArray[np.intp], pd.Series[Any]]:
    """Which distinct value each row holds, (n,), and these values in order of appearance; none may be missing."""
    if isinstance(values.dtype, pd.CategoricalDtype):  # its values are what its categories are: numbers stay numbers
        values = values.astype(values.cat.categories.dtype) if not values.hasnans else values.astype(object)
    try:
        codes, found = pd.factorize(values.infer_objects())
    except TypeError:
        raise InputError(f"The {what} at {where(0)} is a list or another object; give numbers or text.") from None
    if (codes < 0).any():
        raise missing(what, where(int(np.argmin(codes))), int((codes < 0).sum()))
    return codes, pd.Series(found)


def whole_numbers(values: pd.Series[Any]) -> pd.Series[Any]:
    """Integers where floats are all whole, and fit: what they were before empty cells beside them made them floats."""
    if values.dtype.kind != "f" or not ((np.floor(values) == values) & (np.abs(values) < 2.0**63)).all():
        return values
    return values.astype(np.int64)


def missing(what: str, place: str, count: int = 1) -> InputError:
    """The error of the first of so many empty cells."""
    return InputError(f"The {what} at {place} is missing; fill it in or remove that row{in_all(count)}.")


def in_all(count: int) -> str:
    """How many rows have the same problem, for the end of a sentence about the first of them."""
    return "" if count == 1 else f" ({count:,} such rows in all)"


# -- columns ----------------------------------------------------------------------------------------------------------

DOUBLED = "doubled"
"""Attribute of a frame: columns that the header of a CSV file names more than once, of which pandas renames some."""


@dataclass(frozen=True)
class Columns:
    """Which column holds what; an optional column that is not named is used when its usual name is there.

    ``trajectory`` may be several columns ("animal,bout"), whose values together name one. ``time`` gives the order
    within a trajectory, ``group`` what splits keep together, ``intention`` true labels (for evaluation only),
    ``observations`` numbers that the switching network may read, ``labels`` intentions that somebody knows, empty
    elsewhere, which the fit reads, ``place`` the place that the state of the row belongs to. Roles in ``may_lack``
    are left out where their column is not there.
    """

    trajectory: str | tuple[str, ...] = "trajectory"
    state: str = "state"
    action: str = "action"
    time: str | None = None
    group: str | None = None
    intention: str | None = None
    observations: tuple[str, ...] = ()
    may_lack: tuple[str, ...] = ()
    labels: str | None = None
    place: str | None = None

    def resolve(self, frame: pd.DataFrame) -> dict[str, str]:
        """Column of each role that ``frame`` has; a column that was asked for and is not there is an error."""
        usual = {role: role for role in ("time", "group", "intention", "place") if role in frame.columns}
        keys = key_columns(frame, self.trajectory)
        named = {role: name for role, name in vars(self).items() if isinstance(name, str)}
        found = usual | named | {"trajectory": ",".join(keys)}
        several = [("trajectory", name) for name in keys] + [("observations", name) for name in self.observations]
        single = [(role, name) for role, name in found.items() if role != "trajectory"]
        absent = []
        for role, name in [*several, *single]:
            times = count(frame, name)
            if times == 0 and role in self.may_lack:
                del found[role]
            elif times == 0:
                absent.append((role, name))
            check_single(frame, name)
        if absent:
            raise _absent(frame, absent)
        return found


def _absent(frame: pd.DataFrame, absent: list[tuple[str, str]]) -> InputError:
    """All columns that are not there in one sentence, with those that there are and the options that name them."""
    there = ", ".join(map(str, frame.columns[:50])) + (", …" if frame.shape[1] > 50 else "")
    wanted, near = [], False
    for role, name in absent:
        meant = next(iter(get_close_matches(name.lower(), [str(c).lower() for c in frame.columns], 1)), None)
        close = next((str(c) for c in frame.columns if str(c).lower() == meant), None)
        near = near or close is not None
        what = "" if name == role else f" for the {role}"
        wanted.append(f"{name!r}{what}" + (f" (do you mean {close!r}?)" if close is not None else ""))
    options = ", ".join(dict.fromkeys(f"--{role}" for role, _ in absent))
    keywords = ", ".join(dict.fromkeys(f"{role}=" for role, _ in absent))
    alone = "; a table that is one trajectory needs a column with the same value in all rows"
    return InputError(
        f"There is no column {', none '.join(wanted)}; the table has the columns {there}; name the right "
        f"{'one' if len(absent) == 1 else 'ones'} with {options} (in Python {keywords})"
        f"{alone if absent[0][0] == 'trajectory' and not near else ''}."
    )


def count(frame: pd.DataFrame, name: str) -> int:
    """How often a file has a column of this name; pandas would take the first, and call the others NAME.1, …."""
    return int(frame.attrs.get(DOUBLED, {}).get(name, (frame.columns == name).sum()))


def check_single(frame: pd.DataFrame, name: str) -> None:
    """Refuse a column that is there more than once: nobody knows which of them is meant."""
    if (times := count(frame, name)) > 1:
        raise InputError(f"The column {name!r} appears {times} times; keep one or rename the others.")


def column_of(frame: pd.DataFrame | None, name: str, what: str) -> pd.Series[Any]:
    """Return the column of a name that a file has once; ``what`` says in words what it is for."""
    if frame is None:
        raise InputError(f"{name!r} is to be a column for {what}, and an npz file has none; give a .csv file.")
    if name not in frame.columns:
        there = ", ".join(map(str, frame.columns[:50]))
        raise InputError(f"There is no column {name!r} for {what}; the table has the columns {there}.")
    check_single(frame, name)
    return frame[name]


def key_columns(frame: pd.DataFrame, name: str | Sequence[str]) -> tuple[str, ...]:
    """Columns behind a key: "animal,bout" are two, unless there is a column of that very name."""
    if not isinstance(name, str):
        return tuple(name)
    if name in frame.columns or "," not in name:
        return (name,)
    return tuple(part.strip() for part in name.split(","))


# -- trajectories ------------------------------------------------------------------------------------------------------

Ties = Literal["error", "keep"]
LONG_STRETCH = 3.0  # rows on average, from which on rows of a trajectory count as written together
REGULAR = 0.9  # share of the steps that take the usual time, from which on a longer one is a gap
LONG_COPY = 20  # steps, from which on two trajectories are not the same by chance


class Rows(NamedTuple):
    """Rows sorted into trajectories.

    ``order`` (n,) is the row behind each flat step, ``offsets`` (N + 1,) where trajectories begin in it, ``parents``
    (N,) the key of each (a key may be cut into several at gaps), ``names`` (N,) its name, ``notes`` what looks wrong.
    """

    order: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    parents: npt.NDArray[np.int64]
    names: Array
    notes: list[str]


def factorize_keys(
    frame: pd.DataFrame, columns: Sequence[str], at: Where
) -> tuple[npt.NDArray[np.intp], pd.Series[Any]]:
    """Which key each row has, (n,), and the keys by first appearance; of several columns a key is "a/b"."""
    parts = []
    for name in columns:
        codes, names = factorize(frame[name], "trajectory", lambda row: f"column {name!r}, {at(row)}")  # noqa: B023
        parts.append((codes, whole_numbers(names)))  # 3.0 is the 3 of a column in which a cell was empty once
    codes, names = parts[0]
    if len(parts) == 1:
        return codes, names
    words = names.astype(str)
    for more, further in parts[1:]:
        pair = codes.astype(np.int64) * len(further) + more
        codes, found = pd.factorize(pair)
        first, second = np.divmod(found, len(further))
        words = words.iloc[first].reset_index(drop=True) + "/" + further.astype(str).iloc[second].reset_index(drop=True)
    return codes, words


class Keyed(NamedTuple):
    """Rows of a table and the trajectory of each.

    ``key`` are the columns that name it, ``codes`` (n,) and ``names`` which it is; ``at`` says where a row is.
    """

    frame: pd.DataFrame
    key: Sequence[str]
    codes: npt.NDArray[np.intp]
    names: pd.Series[Any]
    at: Where


def sort_rows(
    keyed: Keyed, times: Array | None, used: Sequence[str], ties: Ties = "error", max_gap: float | None = None
) -> Rows:
    """Sort rows by trajectory and ``times`` (n,), where there are any.

    Columns of roles are ``used`` and cannot tell trajectories apart. Rows of a trajectory at the same time are an
    error, or ``ties`` keep their order. A trajectory is cut where more time than ``max_gap`` passes (seconds).
    """
    codes, names, notes = keyed.codes, keyed.names, _restarts(keyed, times, used)
    order = np.argsort(codes, kind="stable") if times is None else np.lexsort((times, codes))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(codes))])
    whole = Rows(order, offsets, np.arange(len(offsets) - 1), names.to_numpy(), notes)
    if times is None:
        if max_gap is not None:
            raise InputError("--max-gap cuts where time passes, and there is no time; name its column with --time.")
        return whole
    later = codes[order][1:] == codes[order][:-1]
    with np.errstate(invalid="ignore"):
        step = np.diff(_seconds(times[order]))
    if ties == "error":
        _check_ties(keyed, times, order, later & (step == 0))
    gaps = later & (step > max_gap) if max_gap is not None else _gaps(step, later)
    if not gaps.any():
        return whole
    if max_gap is None:
        return whole._replace(notes=[*notes, _gap_note(keyed, order, gaps, step, float(np.median(step[later])))])
    begin = np.union1d(offsets[:-1], np.flatnonzero(gaps) + 1)
    parents = codes[order[begin]].astype(np.int64)
    part = np.arange(len(parents)) - np.searchsorted(parents, parents)
    called = [str(names[i]) if j == 0 else f"{names[i]}, part {j + 1}" for i, j in zip(parents, part, strict=True)]
    return Rows(order, np.append(begin, len(codes)), parents, np.array(called, dtype=object), notes)


def copies(demos: Demonstrations) -> list[str]:
    """Note trajectories that are the same, step by step, and too long for chance; of tokens alone."""
    seen: dict[bytes, int] = {}
    same: list[tuple[int, int]] = []
    if demos.n_states == demos.n_actions == 1:
        return []
    for i in np.flatnonzero(demos.lengths >= LONG_COPY).tolist():
        steps = slice(int(demos.offsets[i]), int(demos.offsets[i + 1]))
        content = demos.states[steps].tobytes() + b"|" + demos.actions[steps].tobytes()
        first = seen.setdefault(hashlib.blake2b(content, digest_size=16).digest(), i)
        if first != i:
            same.append((first, i))
    if not same:
        return []
    one, other = (demos.name_of(i) for i in same[0])
    count = "" if len(same) == 1 else f" ({len(same):,} trajectories repeat another)"
    return [
        f"Trajectories {one} and {other} are the same, step by step{count}; where a recording is in the table "
        "twice, remove one, because a copy in training and test makes a fit look better than it is."
    ]


# -- what looks wrong --------------------------------------------------------------------------------------------------


def _restarts(keyed: Keyed, times: Array | None, used: Sequence[str]) -> list[str]:
    """Refuse trajectories whose number begins again where another column changes; note those that are in pieces."""
    frame, key, codes, names, at = keyed
    new = codes[1:] != codes[:-1]
    if times is not None:
        new = new | (times[1:] < times[:-1])
    begin = np.concatenate([[0], np.flatnonzero(new) + 1])
    if len(begin) == len(names) or len(codes) / len(begin) < LONG_STRETCH:
        return []  # every trajectory is written in one piece, or rows are mixed on purpose and nothing is together
    owner = codes[begin]
    again = np.flatnonzero(pd.Series(owner).duplicated())
    row = int(begin[again[0]])
    name, trajectory = names[codes[row]], ",".join(key)
    for column in (str(c) for c in frame.columns if c not in used):
        values = pd.factorize(frame[column])[0]
        apart = pd.DataFrame({"owner": owner, "value": values[begin]}).drop_duplicates()
        changes_inside = (values[1:] != values[:-1]) & ~new
        if changes_inside.any() or len(apart) < len(begin):
            continue
        raise InputError(
            f"Trajectory {name} begins again at {at(row)}, where the column {column!r} changes; if its numbers "
            f"restart, name both columns: --trajectory {column},{trajectory}."
        )
    if times is not None and not _overlap(codes, times, begin):
        return []
    pieces = int((owner == owner[again[0]]).sum())
    joined = "joined in the order of the file" if times is None else "mixed by time"
    return [
        f"Trajectory {name} is written in {pieces} separate pieces (the second begins at {at(row)}), which were "
        f"{joined}; if they are different trajectories, tell them apart by another column (--trajectory "
        f"COLUMN,{trajectory})."
    ]


def _overlap(codes: npt.NDArray[np.intp], times: Array, begin: npt.NDArray[np.int64]) -> bool:
    """Whether sorting by time would mix the pieces of a trajectory instead of joining them."""
    first, last = np.minimum.reduceat(times, begin), np.maximum.reduceat(times, begin)
    order = np.lexsort((first, codes[begin]))
    owner = codes[begin][order]
    return bool(((owner[1:] == owner[:-1]) & (first[order][1:] <= last[order][:-1])).any())


def _check_ties(keyed: Keyed, times: Array, order: npt.NDArray[np.int64], tied: npt.NDArray[np.bool_]) -> None:
    if not tied.any():
        return
    i = int(np.argmax(tied))
    first, second = sorted((int(order[i]), int(order[i + 1])))
    count, where = int(tied.sum()), f"{keyed.at(first)} and {keyed.at(second)}"
    more = "" if count == 1 else f"; {count:,} rows repeat the time of another"
    raise InputError(
        f"Trajectory {keyed.names[keyed.codes[first]]} has two rows at time {times[first]}, {where}{more}: if its "
        "numbers restart, name every column that tells trajectories apart (--trajectory COLUMN,"
        f"{','.join(keyed.key)}); if rows are copies, remove them; if the clock is coarse, keep the order of the file "
        "with --ties keep."
    )


def _gaps(step: npt.NDArray[np.float64], later: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Where a regular clock misses a beat, (n − 1,); a clock of events, which has no beat, misses none."""
    within = step[later]
    if not len(within):
        return np.zeros(len(step), bool)
    beat = float(np.median(within))
    if beat <= 0 or (np.abs(within - beat) <= 0.1 * beat).mean() < REGULAR:
        return np.zeros(len(step), bool)
    return np.asarray(later & (step > 1.5 * beat))


def _gap_note(
    keyed: Keyed, order: npt.NDArray[np.int64], gaps: npt.NDArray[np.bool_], step: npt.NDArray[np.float64], beat: float
) -> str:
    i, count = int(np.argmax(gaps)), int(gaps.sum())
    where = f"trajectory {keyed.names[keyed.codes[order[i]]]}, before {keyed.at(int(order[i + 1]))}"
    there = f"is a gap in time ({where}" if count == 1 else f"are {count:,} gaps in time (the first in {where}"
    return (
        f"There {there}: {step[i]:g} instead of {beat:g}); the steps around a gap count as consecutive, so cut "
        f"trajectories there with --max-gap {1.5 * beat:g}, or fill in the rows."
    )


def _seconds(times: Array) -> npt.NDArray[np.float64]:
    """Times as numbers, dates and durations in seconds."""
    if times.dtype.kind in "mM":
        return np.asarray(
            times.astype("timedelta64[ns]" if times.dtype.kind == "m" else "datetime64[ns]").astype(np.int64) / 1e9
        )
    return np.asarray(times, np.float64)


# -- rows without state or action --------------------------------------------------------------------------------------

Missing = Literal["error", "skip", "split"]
MISSING = "<missing>"


def lost_rows(frame: pd.DataFrame, columns: Mapping[str, str], how: str, at: Where) -> npt.NDArray[np.bool_]:
    """Rows without state or action, (n,); with "error" the first one is named, with the two ways out."""
    if how not in ("error", "skip", "split"):
        raise InputError(f"missing is {how!r}; choose error, skip or split.")
    empty = {role: frame[columns[role]].isna().to_numpy() for role in ("state", "action")}
    for role, rows in empty.items():
        if how == "error" and rows.any():
            place, more = at(int(np.argmax(rows))), in_all(int(rows.sum()))
            raise InputError(
                f"The {role} at column {columns[role]!r}, {place} is missing{more}; fill it in, or say missing='skip' "
                "(--missing skip: such a step counts for nothing) or 'split' (cut the trajectory there)."
            )
    lost: npt.NDArray[np.bool_] = empty["state"] | empty["action"]
    if lost.all():
        raise InputError("Every row lacks its state or its action; name the right columns (--state, --action).")
    return lost


def split_rows(
    codes: npt.NDArray[np.intp], names: pd.Series[Any], times: pd.Series[Any] | None, lost: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.intp], pd.Series[Any]]:
    """Trajectories of the rows that are not lost: after each lost one a new one begins, called NAME/1, NAME/2, ….

    All but ``names`` are (n,); the order within a trajectory is that of the ``times``, else that of the rows.
    """
    by = (codes,) if times is None else (pd.factorize(times, sort=True)[0], codes)
    order = np.lexsort(by)
    part = np.empty(len(codes), np.int64)
    part[order] = pd.Series(lost[order]).groupby(codes[order]).cumsum()
    cut = np.isin(codes, codes[lost])
    own = pd.factorize((codes.astype(np.int64) * (int(part.max()) + 1) + part)[~lost])[0]
    first = np.unique(own, return_index=True)[1]
    words = names.iloc[codes[~lost][first]].reset_index(drop=True).astype(str)
    ending = pd.Series(part[~lost][first]).astype(str).radd("/").where(cut[~lost][first], "")
    return own, words + ending


def only_one_action(n_states: int, n_actions: int) -> npt.NDArray[np.bool_]:
    """Valid actions (S, A) where the last state is `MISSING`."""
    valid = np.ones((n_states, n_actions), bool)
    valid[-1, 1:] = False
    return valid


def with_missing(states: Vocabulary) -> Vocabulary:
    """A vocabulary with one more state for what is missing."""
    return Vocabulary(None if states.names is None else (*states.names, MISSING), states.size + 1)


# -- single columns, checked cell by cell ------------------------------------------------------------------------------


def read_places(states: Array, values: pd.Series[Any], n_states: int, where: Where, *, asked: bool) -> Any:
    """Place of every state, (S,), from those of the rows, and names of the places; it may not change within a state.

    A state that no row is in is a place of its own. None where the column is something else and nobody ``asked``.
    """
    codes, names = pd.factorize(values)
    if (codes < 0).any() and not asked:
        return None, None
    if (codes < 0).any():
        raise missing("place", where(int(np.argmax(codes < 0))), int((codes < 0).sum()))
    seen, first = np.unique(states, return_index=True)
    place = np.arange(len(names), len(names) + n_states)
    place[seen] = codes[first]
    if (wrong := place[states] != codes).any():
        if not asked:
            return None, None
        row = int(np.argmax(wrong))
        raise InputError(
            f"The state at {where(row)} is at place {names[codes[row]]} there and at {names[place[states[row]]]} in "
            "another row; a place is made of whole states, so correct the column or leave --place out."
        )
    kept, numbers = np.unique(place, return_inverse=True)
    words = [str(names[code]) if code < len(names) else f"state {code - len(names)}" for code in kept]
    return numbers.astype(np.int64), tuple(words)


def read_groups(keyed: Keyed, values: pd.Series[Any], role: str, where: Where) -> Array:
    """Group of each trajectory, (N,); it may not change within one."""
    codes, names, key = keyed.codes, keyed.names, keyed.key
    group, group_names = factorize(values, role, where)
    first = group[np.unique(codes, return_index=True)[1]]
    if (group != first[codes]).any():
        row = int(np.argmax(group != first[codes]))
        raise InputError(
            f"Trajectory {names[codes[row]]} belongs to two groups, {group_names[first[codes[row]]]} and "
            f"{group_names[group[row]]} ({where(row)}); give it one group, or, if its numbers restart with every "
            f"group, name both columns: --trajectory {values.name},{','.join(key)}."
        )
    return storable(group_names[first])


def read_times(values: pd.Series[Any], role: str, where: Where, dates: Dates | None = None) -> Array:
    """Times (n,) that sort: numbers and durations as they are, anything else read as dates; see `rows.read_dates`."""
    if values.isna().any():
        raise missing(role, where(int(np.argmax(values.isna()))), int(values.isna().sum()))
    plain = pd.Series(np.asarray(values)).infer_objects()
    if plain.dtype.kind in "biufm":
        return plain.to_numpy()
    moments = read_dates(plain, dates, str(values.name))
    if moments.isna().any():
        row = int(np.argmax(moments.isna()))
        raise InputError(
            f"The time {plain[row]} at {where(row)} is neither a number nor a date (ISO, 2025-12-31 10:00:00, or "
            "31/12/2025 10:00 in all cells); convert the column, or rename it to keep the rows in the order they have"
            f"{in_all(int(moments.isna().sum()))}."
        )
    return moments.to_numpy()


def finite_numbers(
    values: pd.Series[Any], what: str, where: Where, advice: str = "repair or remove it", dtype: Any = np.float64
) -> npt.NDArray[Any]:
    """A column as numbers, (n,); the first cell that is none, or is not finite, is named."""
    with np.errstate(over="ignore"):
        numbers = np.asarray(pd.to_numeric(values, errors="coerce").to_numpy(dtype=dtype, na_value=np.nan))
    if (bad := ~np.isfinite(numbers)).any():
        row, count = int(np.argmax(bad)), in_all(int(bad.sum()))
        raise InputError(f"The {what} {values.iloc[row]} at {where(row)} is not a finite number; {advice}{count}.")
    return numbers


def filled(values: pd.Series[Any]) -> npt.NDArray[np.int64]:
    """Rows of a column of known labels that hold one: empty cells do not, nor does −1."""
    empty = values.isna() | values.astype(str).str.strip().isin(("", "-1", "-1.0"))
    return np.flatnonzero(~empty)


def read_known(values: pd.Series[Any], role: str, where: Where) -> tuple[Array, tuple[str, ...] | None]:
    """Known intentions, (n,), −1 where nobody knows, and their names."""
    there = filled(values)
    if not len(there):
        raise InputError(f"The column {values.name!r} of known labels is empty; fill some cells in or leave it out.")
    cells = whole_numbers(values.iloc[there].infer_objects())  # empty cells make floats of a column of ids
    found = distinct(cells, "known label", lambda i: where(int(there[i])))
    words = Vocabulary.learn(found, "known label")
    if words.names is not None:  # in the order in which they come, so that stages of a task are in order
        words = Vocabulary(tuple(str(value) for value in found.values), words.size)
    known = np.full(len(values), -1, dtype=np.int64)
    known[there] = words.encode(found, "known label")
    return known, words.names


# -- dates -------------------------------------------------------------------------------------------------------------

Dates = Literal["day-first", "month-first"]
ORDERS: tuple[Dates, ...] = ("day-first", "month-first")
WRITTEN = (
    r"^\s*(?P<first>\d{1,2})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4})"
    r"(?:,?[ T]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<sec>\d{2}(?:[.,]\d{1,9})?))?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?)?\s*$"
)
"""Day and month in either order, a year of four digits and, if there is one, a time of 24 hours or of AM and PM."""


def read_dates(values: pd.Series[Any], dates: Dates | None, column: str) -> pd.Series[Any]:
    """Moments (n,), of ISO dates in UTC; NaT where a cell is no date.

    Of others (31/12/2025 10:00) the first two numbers may be day and month or month and day; over a whole column one
    number above 12 decides. Where none does, nobody guesses: ``dates`` says it. Dots (31.12.2025) are day first.
    """
    if dates is not None and dates not in ORDERS:
        raise InputError(f"Dates are read {' or '.join(ORDERS)}, not {dates!r}.")
    iso = pd.to_datetime(values, errors="coerce", format="ISO8601", utc=True).dt.tz_localize(None)
    if iso.notna().any():
        return iso
    codes, cells = pd.factorize(values.astype(str))
    parts = pd.Series(cells).str.extract(WRITTEN)
    read: dict[Dates, pd.Series[Any]] = {order: _moments(parts, order) for order in ORDERS}
    if dates is None:
        possible = [order for order in ORDERS if read[order].notna().all()]
        if len(possible) == 2 and not read[ORDERS[0]].equals(read[ORDERS[1]]) and not (parts["mark"] == ".").all():
            raise InputError(
                f"The times in column {column!r} ({cells[0]}, …) may begin with the day or with the month, and no "
                "number above 12 tells; say it with --dates day-first or --dates month-first."
            )
    best: Dates = max(ORDERS, key=lambda order: int(read[order].notna().sum()))
    return read[best if dates is None else dates].iloc[codes].reset_index(drop=True)


def _moments(parts: pd.DataFrame, order: Dates) -> pd.Series[Any]:
    """Moments of cells that were taken apart by `WRITTEN`; NaT where there is no such day or hour."""
    day, month = ("first", "second") if order == "day-first" else ("second", "first")
    date = {"year": parts["year"], "month": parts[month], "day": parts[day]}
    days = pd.to_datetime(pd.DataFrame(date).astype(float), errors="coerce")
    hour, minute = (parts[name].astype(float).fillna(0.0) for name in ("hour", "minute"))
    half = parts["half"].str.lower().str[0]
    hour = hour.where(half.isna(), hour % 12 + 12 * (half == "p"))
    second = parts["sec"].str.replace(",", ".").astype(float).fillna(0.0)
    clock = pd.to_timedelta(hour * 3600 + minute * 60 + second, unit="s")
    exists = (hour < 24) & (minute < 60) & (second < 61) & (half.isna() | parts["hour"].astype(float).between(1, 12))
    return (days + clock).where(exists)
