"""Partial labels: what somebody knows about the intention of some steps, how a fit reads it, and files of them.

Where z_t = j is known, the emission of every other intention is put so far below that of j that its posterior is zero,
whatever the switching model is. EM then climbs the joint likelihood log p(a, z_known) instead of log p(a). Intention j
is the j-th known label. Predictions are never clamped. Labels are a column of the data, or a second table:

    trajectory,step,label          one row per step; steps count from 0 within their trajectory
    trajectory,start,end,label     one row per stretch: from start up to, and without, end
    trajectory,first,last,label    the same with the last step included, as many annotation programs write it
    trajectory,start_s,end_s,label one row per stretch, in seconds from the beginning: start_s ≤ t < end_s

Stretches from start to end are in the units of the data's own times where there are any, else in steps. For seconds the
data must know how long a step takes: from their rate (frames per second of a LeRobot dataset, ``--hz``), or from times
that are dates or no whole numbers. A trajectory may also be called by the columns that name it in the data. Rows with
an empty label, or −1, say nothing. Event tables of BORIS are such stretches: an observation is a trajectory (with
several subjects, ID/SUBJECT), a behaviour that lasts is a label.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.files import WRITABLE, line_of, read_table_file
from prism_irl.data.read import Table, to_pandas
from prism_irl.data.rows import (
    Where,
    check_single,
    factorize_keys,
    filled,
    finite_numbers,
    key_columns,
    read_known,
    read_times,
)
from prism_irl.errors import InputError

FloatArray = npt.NDArray[np.float64]
GUESSED = 0.05
"""Weight of a step that nobody knows in the first policies, beside the one of a step that somebody knows."""
FAR = 1e3
"""Nats below the known intention: exp(−1000) is zero in double precision, and finite sums stay finite."""


def clamped(emission: FloatArray, demos: Demonstrations) -> FloatArray:
    """Emissions (n, K) that leave the known intention alone at the steps where there is one."""
    steps, intentions = _partial_labels(demos)
    if not len(steps):
        return emission
    result = emission.copy()
    own = emission[steps, intentions]
    # A step that the known intention cannot explain at all (−inf) says so in the likelihood of no step but this one.
    result[steps] = np.where(np.isfinite(own), own - FAR, -FAR)[:, None]
    result[steps, intentions] = own
    return result


def aligned(responsibilities: FloatArray, demos: Demonstrations, *, in_order: bool = False) -> FloatArray:
    """First responsibilities (n, K) in the order of the known intentions, and certain where these are known.

    Steps that nobody knows count little at first: what a search guesses about them must not drown what is known.
    With ``in_order`` the columns are stages that follow one another, and stay where they are.
    """
    steps, intentions = _partial_labels(demos)
    if not len(steps):
        return responsibilities
    result = responsibilities.copy() if in_order else responsibilities[:, alignment(responsibilities, demos)]
    result = GUESSED * result
    result[steps] = np.eye(result.shape[1])[intentions]
    return result


def alignment(responsibilities: FloatArray, demos: Demonstrations, *, keep_last: bool = False) -> npt.NDArray[np.int64]:
    """Column of the responsibilities that shares most with each known intention, (K,), one to one.

    With ``keep_last`` the last intention, which wants nothing, stays the last.
    """
    steps, intentions = _partial_labels(demos)
    K = responsibilities.shape[1]
    shared = np.zeros((K, K))
    np.add.at(shared, intentions, responsibilities[steps])
    if keep_last:
        shared[-1, -1] = shared.sum() + 1.0
    from scipy.optimize import linear_sum_assignment  # here, because few data have labels

    return np.asarray(linear_sum_assignment(-shared)[1], dtype=np.int64)


def check_known(demos: Demonstrations, n_intentions: int) -> None:
    """Raise an `InputError` where more intentions are known than the model has."""
    steps, intentions = _partial_labels(demos)
    most = int(intentions.max(initial=-1))
    if most >= n_intentions:
        name = most if demos.partial_label_names is None else repr(demos.partial_label_names[most])
        raise InputError(
            f"The known intention {name} at {demos.where(int(steps[np.argmax(intentions)]))} is number {most + 1}, and "
            f"the model has {n_intentions} intentions; ask for at least as many as there are known ones."
        )


def out_of_order(demos: Demonstrations, stages: npt.ArrayLike) -> str | None:
    """Where known intentions first contradict stages (K,) that come once, each after the one before it, in words."""
    steps, intentions = _partial_labels(demos)
    order = np.asarray(stages)
    rank = np.argsort(order)[intentions]
    cuts = np.flatnonzero(np.diff(demos.trajectory_index[steps])) + 1
    for own, ranks in zip(np.split(steps, cuts), np.split(rank, cuts), strict=True):
        before = np.maximum.accumulate(ranks)
        if (ranks < before).any():
            at = int(np.argmax(ranks < before))
            names = demos.partial_label_names or [str(k) for k in range(len(order))]
            now, past = (names[order[r]] for r in (ranks[at], before[at]))
            known = " → ".join(names[k] for k in order if k < len(names))
            return f"{demos.where(int(own[at]))} is labelled {now} after {past}, where the order of stages is {known}"
    return None


def _partial_labels(demos: Demonstrations) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    if demos.partial_labels is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    steps = np.flatnonzero(demos.partial_labels >= 0)
    return steps, demos.partial_labels[steps].astype(np.int64)


# -- labels in a table of their own ------------------------------------------------------------------------------------

COLUMN = "labels"
"""What the labels are called beside the rows of a table."""
TRAJECTORY = ("trajectory", "episode", "episode_index")
IN_SECONDS = ("start_s", "end_s")
STRETCHES = (("start", "end"), ("first", "last"), IN_SECONDS)
NEEDED = "a trajectory, a label, and step, or start and end, or first and last, or start_s and end_s"
DIGITS = 6
"""Of seconds: clocks and annotations of the same moment differ by rounding, which is less than a microsecond."""


def is_file(labels: Any) -> bool:
    """Whether ``--labels`` names a table of its own, and no column."""
    return isinstance(labels, str | Path) and Path(labels).suffix.lower() in WRITABLE


def labelled(table: Table, path: str | Path, trajectory: str | None = None, rate: float | None = None) -> Table:
    """The table with the labels of a second one, which stand in a column ``labels`` beside its rows, too."""
    demos = with_labels(table.demonstrations, path, trajectory, rate)
    frame = table.frame
    if frame is not None:
        if COLUMN in frame.columns:
            raise InputError(
                f"The data have a column {COLUMN!r} already, where those of {path} would stand; give --labels {COLUMN} "
                "to use it, or rename it."
            )
        cells = np.empty(len(frame), dtype=object)
        cells[table.order] = to_pandas(demos)[COLUMN]
        frame = frame.assign(**{COLUMN: cells})
    return table._replace(demonstrations=demos, frame=frame)


def with_labels(
    demos: Demonstrations, path: str | Path, trajectory: str | None = None, rate: float | None = None
) -> Demonstrations:
    """Demonstrations whose partial labels are those of a .csv, .tsv or .parquet file.

    Parameters
    ----------
    trajectory : str, optional
        What the data call the column (or, with commas, the columns) of their trajectories.
    rate : float, optional
        Steps (frames) per second, for stretches in seconds; by default the times of the data say it.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file {path} with labels; check the path, or name a column of the data.")
    frame = read_table_file(path)
    if {"Observation id", "Behavior"} <= set(frame.columns):
        frame = from_boris(frame, path)

    def where(row: int) -> str:
        return f"line {line_of(path, int(frame.index[row]))} of {path}"

    if "label" not in frame.columns:
        raise _lacking(path, frame)
    check_single(frame, "label")
    there = filled(frame["label"])
    if not len(there):
        raise InputError(f"The column 'label' of {path} is empty; fill some cells in or leave --labels out.")
    rows, at = frame.iloc[there].reset_index(drop=True), lambda i: where(int(there[i]))
    owners = _owners(demos, rows, path, trajectory, at)
    first, last = _steps(demos, rows, owners, path, rate, at)
    row_of = _assigned(demos, first, last, rows["label"], at)
    values = np.array([*rows["label"], None], dtype=object)
    flat = pd.Series(values[row_of], name="label")  # −1 is the last one: nobody knows
    known, names = read_known(flat, "label", lambda step: at(row_of[step]))
    return replace(demos, partial_labels=known, partial_label_names=names)


def from_boris(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Events of BORIS as rows of trajectory, start_s, end_s and label, with the numbers of their rows as the index.

    Behaviours that are points in time are left out: a label lasts.
    """
    several = "Subject" in frame and frame.groupby("Observation id")["Subject"].nunique().max() > 1
    who = frame["Observation id"].astype(str) + ("/" + frame["Subject"].astype(str) if several else "")
    rows = pd.DataFrame({"trajectory": who, "label": frame["Behavior"]})
    if {"Start (s)", "Stop (s)"} <= set(frame.columns):
        rows = rows.assign(start_s=frame["Start (s)"], end_s=frame["Stop (s)"])
        return rows[rows["start_s"] != rows["end_s"]]
    if not {"Behavior type", "Time"} <= set(frame.columns):
        raise _lacking(path, frame)
    kind, unit = frame["Behavior type"].astype(str).str.upper(), [rows["trajectory"], rows["label"].astype(str)]
    rows = rows.assign(start_s=frame["Time"], end_s=frame.groupby(unit, sort=False)["Time"].shift(-1))
    wrong = (kind == "START") & (kind.groupby(unit, sort=False).shift(-1) != "STOP")
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"The behaviour {frame['Behavior'].iloc[row]} at line {line_of(path, row)} of {path} starts and is not "
            "followed by its STOP; close it in BORIS, and export again."
        )
    return rows[kind == "START"]


def _lacking(path: Path, frame: pd.DataFrame) -> InputError:
    return InputError(f"{path} needs the columns of {NEEDED}; it has {', '.join(map(str, frame.columns[:50]))}.")


def _owners(
    demos: Demonstrations, rows: pd.DataFrame, path: Path, trajectory: str | None, where: Where
) -> npt.NDArray[np.int64]:
    """Trajectory of each row, (r,)."""
    named = [] if trajectory is None else [key_columns(rows, trajectory)]
    keys = [*named, *((name,) for name in TRAJECTORY)]
    key = next((key for key in keys if set(key) <= set(rows.columns)), None)
    if key is None:
        raise _lacking(path, rows)
    for name in key:
        check_single(rows, name)
    codes, names = factorize_keys(rows, key, where)
    numbers = {demos.name_of(i): i for i in range(len(demos))}
    if len(numbers) < len(demos):
        raise InputError("Two trajectories of the data share a name, so that labels cannot name them; rename them.")
    found = np.array([numbers.get(str(name), -1) for name in names])[codes]
    if (found < 0).any():
        row = int(np.argmin(found))
        there = ", ".join(list(numbers)[:5]) + (", …" if len(numbers) > 5 else "")
        raise InputError(
            f"The trajectory {names[codes[row]]} at {where(row)} is not in the data, which have {there}; correct it."
        )
    return np.asarray(found, dtype=np.int64)


def _steps(
    demos: Demonstrations,
    rows: pd.DataFrame,
    owners: npt.NDArray[np.int64],
    path: Path,
    rate: float | None,
    where: Where,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """First flat step of each row, and the one behind its last, (r,) each."""
    pairs, stepwise = [pair for pair in STRETCHES if set(pair) <= set(rows.columns)], "step" in rows.columns
    if len(pairs) > 1 or (IN_SECONDS in pairs and stepwise):
        kinds = [" and ".join(pair) for pair in pairs] + (["step"] if stepwise else [])
        raise InputError(f"{path} says where labels are more than once ({'; '.join(kinds)}); keep one of them.")
    if pairs and not stepwise:
        times = _seconds(demos, rate, path) if pairs[0] == IN_SECONDS else _own_times(demos)
        return _stretches(demos, rows, owners, pairs[0], times, where)
    if not stepwise:
        raise _lacking(path, rows)
    numbers = _numbers(rows, "step", where)
    broken = (numbers != np.floor(numbers)) | (np.abs(numbers) > 2.0**53)
    if broken.any():
        row = int(np.argmax(broken))
        raise InputError(f"The step {rows['step'].iloc[row]} at {where(row)} is not a whole number; correct it.")
    steps = numbers.astype(np.int64)
    wrong = (steps < 0) | (steps >= demos.lengths[owners])
    if wrong.any():
        row = int(np.argmax(wrong))
        owner = int(owners[row])
        raise InputError(
            f"The step {int(steps[row])} at {where(row)} is not one of trajectory {demos.name_of(owner)}, whose steps "
            f"are 0 to {int(demos.lengths[owner]) - 1}; correct it."
        )
    begin = demos.offsets[owners] + steps
    return begin, begin + 1


def _own_times(demos: Demonstrations) -> npt.NDArray[Any]:
    """When every step is: by the clock of the data, or as the how-manieth step of its trajectory."""
    return demos.step_index if demos.times is None else demos.times


def _seconds(demos: Demonstrations, rate: float | None, path: Path) -> npt.NDArray[np.float64]:
    """When every step is, in seconds, (n,)."""
    times = _own_times(demos)
    if times.dtype.kind not in "fmM":  # frames, or steps
        if rate is None:
            raise InputError(
                f"{path} gives seconds ({', '.join(IN_SECONDS)}), and the data have whole numbers for times or none; "
                "say how many steps a second has with --hz, or give start and end."
            )
        return np.round(times / rate, DIGITS)
    if rate is not None:
        raise InputError("The data have times of their own that say how long a step takes; leave --hz out.")
    passed = times - np.repeat(times[demos.offsets[:-1]], demos.lengths)
    seconds: npt.NDArray[np.float64] = passed / np.timedelta64(1, "s") if times.dtype.kind in "mM" else passed
    return np.round(seconds, DIGITS)


def _stretches(
    demos: Demonstrations,
    rows: pd.DataFrame,
    owners: npt.NDArray[np.int64],
    pair: tuple[str, str],
    times: npt.NDArray[Any],
    where: Where,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    side = "right" if pair == STRETCHES[1] else "left"
    falls = np.flatnonzero((times[1:] < times[:-1]) & ~demos.first_steps[1:])
    if len(falls):
        raise InputError(f"Time goes back at {demos.where(int(falls[0]) + 1)}; give the labels step by step instead.")
    begin, end = (_moments(rows, name, times, where) for name in pair)
    if pair == IN_SECONDS:
        begin, end = np.round(begin, DIGITS), np.round(end, DIGITS)
    backwards = begin > end if side == "right" else begin >= end
    if backwards.any():
        row = int(np.argmax(backwards))
        raise InputError(f"The stretch at {where(row)} ends before it begins ({pair[0]}, {pair[1]}); correct it.")
    first, last = np.empty((2, len(rows)), np.int64)
    for row, owner in enumerate(owners.tolist()):
        offset, until = int(demos.offsets[owner]), int(demos.offsets[owner + 1])
        own = times[offset:until]
        first[row] = offset + np.searchsorted(own, begin[row])
        last[row] = offset + np.searchsorted(own, end[row], side)  # type: ignore[call-overload]
        if first[row] == last[row]:
            raise InputError(
                f"The stretch from {begin[row]} to {end[row]} at {where(row)} holds no step of trajectory "
                f"{demos.name_of(owner)}, which lasts from {own[0]} to {own[-1]}; correct it."
            )
    return first, last


def _moments(rows: pd.DataFrame, name: str, times: npt.NDArray[Any], where: Where) -> npt.NDArray[Any]:
    """A column of the file on the clock of the data."""
    if times.dtype.kind != "M":
        return _numbers(rows, name, where)
    check_single(rows, name)
    moments = read_times(rows[name], name, where)
    if moments.dtype.kind != "M":
        raise InputError(f"The column {name!r} holds numbers, and the times of the data are dates; give dates.")
    return np.asarray(moments).astype(times.dtype)


def _numbers(rows: pd.DataFrame, name: str, where: Where) -> npt.NDArray[np.float64]:
    check_single(rows, name)
    return finite_numbers(rows[name], name, where, "correct it")


def _assigned(
    demos: Demonstrations,
    first: npt.NDArray[np.int64],
    last: npt.NDArray[np.int64],
    labels: pd.Series[Any],
    where: Where,
) -> npt.NDArray[np.int64]:
    """Row that labels each step, (n,), −1 where none does; two that disagree are refused."""
    codes = pd.factorize(labels)[0]
    row_of = np.full(demos.n_steps, -1, dtype=np.int64)
    rows = np.repeat(np.arange(len(first)), last - first)
    steps = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])
    row_of[steps] = rows
    clash = codes[row_of[steps]] != codes[rows]
    if clash.any():
        at = int(np.argmax(clash))
        one, other = sorted((int(rows[at]), int(row_of[steps[at]])))
        raise InputError(
            f"There are two labels for {demos.where(int(steps[at]))}, {labels.iloc[one]} at {where(one)} and "
            f"{labels.iloc[other]} at {where(other)}; keep one of them."
        )
    return row_of
