"""Which rows of a table form a trajectory, in which order, and what about them looks wrong.

A trajectory may be named by several columns together (animal and bout). People's tables restart their numbers with
every animal, hold a stretch twice or lack rows; a model would fit all of that without a word. What cannot be meant is
refused, what may be meant is noted, and both name the way out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.data.vocabulary import Array, Where, factorize, whole_numbers
from prism_irl.errors import InputError

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
    parts = [_factorize(frame[name], name, at) for name in columns]
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


def _factorize(values: pd.Series[Any], name: str, at: Where) -> tuple[npt.NDArray[np.intp], pd.Series[Any]]:
    codes, names = factorize(values, "trajectory", lambda row: f"column {name!r}, {at(row)}")
    return codes, whole_numbers(names)  # 3.0 is the 3 of a column in which a cell was empty once


def sort_rows(
    frame: pd.DataFrame,
    codes: npt.NDArray[np.intp],
    names: pd.Series[Any],
    times: Array | None,
    *,
    key: Sequence[str],
    used: Sequence[str],
    at: Where,
    ties: Ties = "error",
    max_gap: float | None = None,
) -> Rows:
    """Sort rows by trajectory and time.

    Parameters
    ----------
    frame : DataFrame
    codes : (n,)
        Key of every row, with its ``names``.
    times : (n,), optional
    key, used : columns of the key, and of all roles (which cannot tell trajectories apart)
    at : function
        Says in words where a row is.
    ties : {"error", "keep"}
        What to do with rows of a trajectory at the same time.
    max_gap : float, optional
        Cut a trajectory where more time than this passes between two rows (seconds, where times are dates).
    """
    notes = _restarts(frame, codes, names, times, key, used, at)
    order = np.argsort(codes, kind="stable") if times is None else np.lexsort((times, codes))
    sizes = np.bincount(codes)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    parents = np.arange(len(sizes))
    if times is None:
        if max_gap is not None:
            raise InputError("--max-gap cuts where time passes, and there is no time; name its column with --time.")
        return Rows(order, offsets, parents, names.to_numpy(), notes)
    later = codes[order][1:] == codes[order][:-1]
    passed = _seconds(times[order])
    with np.errstate(invalid="ignore"):
        step = np.diff(passed)
    if ties == "error":
        _check_ties(order, later & (step == 0), codes, names, times, key, at)
    gaps = later & (step > max_gap) if max_gap is not None else _gaps(step, later)
    if not gaps.any():
        return Rows(order, offsets, parents, names.to_numpy(), notes)
    if max_gap is None:
        return Rows(
            order, offsets, parents, names.to_numpy(), [*notes, _gap_note(gaps, step, later, order, codes, names, at)]
        )
    begin = np.union1d(offsets[:-1], np.flatnonzero(gaps) + 1)
    parents = codes[order[begin]].astype(np.int64)
    part = np.arange(len(parents)) - np.searchsorted(parents, parents)
    called = [str(names[i]) if j == 0 else f"{names[i]}, part {j + 1}" for i, j in zip(parents, part, strict=True)]
    return Rows(order, np.append(begin, len(codes)), parents, np.array(called, dtype=object), notes)


def copies(states: Array, actions: Array, offsets: npt.NDArray[np.int64], names: Array) -> list[str]:
    """Note trajectories that are the same, step by step, and too long for chance."""
    seen: dict[bytes, int] = {}
    same: list[tuple[int, int]] = []
    for i in np.flatnonzero(np.diff(offsets) >= LONG_COPY):
        steps = slice(int(offsets[i]), int(offsets[i + 1]))
        content = hashlib.blake2b(states[steps].tobytes() + b"|" + actions[steps].tobytes(), digest_size=16).digest()
        if content in seen:
            same.append((seen[content], int(i)))
        seen.setdefault(content, int(i))
    if not same:
        return []
    first, second = (names[i] for i in same[0])
    count = "" if len(same) == 1 else f" ({len(same):,} trajectories repeat another)"
    return [
        f"Trajectories {first} and {second} are the same, step by step{count}; where a recording is in the table "
        "twice, remove one, because a copy in training and test makes a fit look better than it is."
    ]


# -- what looks wrong --------------------------------------------------------------------------------------------------


def _restarts(
    frame: pd.DataFrame,
    codes: npt.NDArray[np.intp],
    names: pd.Series[Any],
    times: Array | None,
    key: Sequence[str],
    used: Sequence[str],
    at: Where,
) -> list[str]:
    """Refuse trajectories whose number begins again where another column changes; note those that are in pieces."""
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
    first = np.minimum.reduceat(times.astype(np.float64) if times.dtype.kind == "b" else times, begin)
    last = np.maximum.reduceat(times.astype(np.float64) if times.dtype.kind == "b" else times, begin)
    owner = codes[begin]
    order = np.lexsort((first, owner))
    same = owner[order][1:] == owner[order][:-1]
    return bool((same & (first[order][1:] <= last[order][:-1])).any())


def _check_ties(
    order: npt.NDArray[np.int64],
    tied: npt.NDArray[np.bool_],
    codes: npt.NDArray[np.intp],
    names: pd.Series[Any],
    times: Array,
    key: Sequence[str],
    at: Where,
) -> None:
    if not tied.any():
        return
    i = int(np.argmax(tied))
    first, second = sorted((int(order[i]), int(order[i + 1])))
    count = int(tied.sum())
    more = "" if count == 1 else f"; {count:,} rows repeat the time of another"
    raise InputError(
        f"Trajectory {names[codes[first]]} has two rows at time {times[first]}, {at(first)} and {at(second)}{more}: if "
        f"its numbers restart, name every column that tells trajectories apart (--trajectory COLUMN,{','.join(key)}); "
        "if rows are copies, remove them; if the clock is coarse, keep the order of the file with --ties keep."
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
    gaps: npt.NDArray[np.bool_],
    step: npt.NDArray[np.float64],
    later: npt.NDArray[np.bool_],
    order: npt.NDArray[np.int64],
    codes: npt.NDArray[np.intp],
    names: pd.Series[Any],
    at: Where,
) -> str:
    i, count = int(np.argmax(gaps)), int(gaps.sum())
    beat = float(np.median(step[later]))
    where = f"trajectory {names[codes[order[i]]]}, before {at(int(order[i + 1]))}"
    there = (
        f"There is a gap in time ({where}" if count == 1 else f"There are {count:,} gaps in time (the first in {where}"
    )
    return (
        f"{there}: {step[i]:g} instead of {beat:g}); the steps around a gap count as consecutive, so cut trajectories "
        f"there with --max-gap {1.5 * beat:g}, or fill in the rows."
    )


def _seconds(times: Array) -> npt.NDArray[np.float64]:
    """Times as numbers, dates and durations in seconds."""
    if times.dtype.kind in "mM":
        return np.asarray(
            times.astype("timedelta64[ns]" if times.dtype.kind == "m" else "datetime64[ns]").astype(np.int64) / 1e9
        )
    return np.asarray(times, np.float64)
