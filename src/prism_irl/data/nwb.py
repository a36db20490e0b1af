"""NWB files in and out (extra ``nwb``): steps and segments as intervals, probabilities as a time series.

Any table in the file that has the columns of state and action is read; annotations beside it (AnnotationSeries) and
tables of events become columns of events, marked at the step that they fall into. Bouts of ndx-ethogram (EthogramBouts)
become a column by the name of their table, with the behaviour in which a step begins, for --labels or --state; where
bouts overlap, a column of 0 and 1 for every behaviour. What is written reads back as it was.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl import limits, storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.interop import interval_table, session_clock
from prism_irl.errors import InputError, brief
from prism_irl.optional import apart, need

STEPS, PROBABILITIES, SEGMENTS = "steps", "intention_probabilities", "intentions"


def read_nwb(path: Path, wanted: Sequence[str]) -> pd.DataFrame:
    """The table of the file that has the wanted columns, with its annotations as columns of 0 and 1."""
    need("pynwb", "nwb")
    seconds = 60 + path.stat().st_size / 2e6
    try:
        tables, events = apart(_read, path, seconds=seconds)
    except InputError:
        raise
    except Exception as error:  # whatever HDF5 and the schema of NWB find wrong with it
        raise InputError(f"{path} is damaged or not an NWB file ({brief(error)}).") from None
    fitting = {name: table for name, table in tables.items() if set(wanted) <= set(table.columns)}
    bouts = {name: table for name, table in tables.items() if name not in fitting and "label" in table}
    if len(fitting) != 1:
        there = "; ".join(f"{name}: {', '.join(map(str, table.columns))}" for name, table in tables.items()) or "none"
        many = "no table" if not fitting else f"{len(fitting)} tables ({', '.join(fitting)})"
        raise InputError(
            f"{path} has {many} with the columns {', '.join(wanted)}; name other columns (there are {there})."
        )
    (frame,) = fitting.values()
    return _with_bouts(_marked(frame.reset_index(drop=True), events), bouts)


def _read(path: Path) -> tuple[dict[str, pd.DataFrame], dict[str, npt.NDArray[np.float64]]]:
    """All tables of the file, and when its events were."""
    pynwb = need("pynwb", "nwb")
    _check_size(path)
    with pynwb.NWBHDF5IO(str(path), "r") as io:
        file = io.read()
        return dict(_tables(pynwb, file)), dict(_events(pynwb, file))


def _tables(pynwb: Any, file: Any) -> Iterator[tuple[str, pd.DataFrame]]:
    for one in _contents(file):
        if isinstance(one, pynwb.core.DynamicTable):
            yield one.name, one.to_dataframe()


def _check_size(path: Path) -> None:
    """Refuse arrays that would not fit into memory: a shape takes no room in a file, whatever it says."""
    sizes: list[int] = []

    def visit(_: str, one: Any) -> None:
        if hasattr(one, "dtype"):
            sizes.append(int(one.size or 0) * max(int(one.dtype.itemsize), 8))

    with need("h5py", "nwb").File(path, "r") as store:
        store.visititems(visit)
    limits.check_growth(f"{path}", 2 * sum(sizes), path.stat().st_size)
    limits.check_bytes(f"{path}", 2 * sum(sizes), "give a smaller file")


def _events(pynwb: Any, file: Any) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    """Times of each kind of event: of an annotation, or of a table of events without one."""
    found: list[tuple[npt.NDArray[Any], npt.NDArray[np.float64]]] = []
    for one in _contents(file):
        if isinstance(one, pynwb.misc.AnnotationSeries):
            found.append((np.asarray(one.data[:]).astype(str), np.asarray(one.timestamps[:], np.float64)))
    for name, table in (getattr(file, "events", None) or {}).items():
        rows = table.to_dataframe()
        words = rows["annotation"] if "annotation" in rows else pd.Series(name, index=rows.index)
        found.append((words.astype(str).to_numpy(), rows["timestamp"].to_numpy(np.float64)))
    for words, times in found:
        yield from ((str(word), times[words == word]) for word in np.unique(words))


def _contents(file: Any) -> Iterator[Any]:
    for module in file.processing.values():
        yield from module.data_interfaces.values()
    yield from file.acquisition.values()
    yield from (file.intervals or {}).values()


def _marked(frame: pd.DataFrame, events: dict[str, npt.NDArray[np.float64]]) -> pd.DataFrame:
    """Mark each event at the last step that began before it, if the table says when steps begin."""
    if "start_time" not in frame.columns:
        return frame
    begin = frame["start_time"].to_numpy(np.float64)
    order = np.argsort(begin, kind="stable")
    for name, times in events.items():
        if name in frame.columns:
            continue
        at = np.searchsorted(begin[order], times, side="right") - 1
        marks = np.zeros(len(frame), np.int64)
        marks[order[at[at >= 0]]] = 1
        frame[name] = marks
    return frame


def _with_bouts(frame: pd.DataFrame, bouts: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Columns that say in which bout each step begins, if the table says when steps begin."""
    if "start_time" not in frame.columns:
        return frame
    at = frame["start_time"].to_numpy(np.float64)
    for name, table in bouts.items():
        ordered = table.sort_values("start_time", kind="stable")
        begin, end = (ordered[column].to_numpy(np.float64) for column in ("start_time", "stop_time"))
        if (begin[1:] >= end[:-1]).all():
            which = np.searchsorted(begin, at, side="right") - 1
            inside = (which >= 0) & (at < end[np.maximum(which, 0)])
            words = ordered["label"].astype(str).iloc[np.maximum(which, 0)].reset_index(drop=True).where(inside, None)
            frame = frame.assign(**{name: words}) if name not in frame else frame
            continue
        for word, own in ordered.groupby(ordered["label"].astype(str), sort=False):
            if word not in frame:
                on, off = (np.sort(own[column].to_numpy(np.float64)) for column in ("start_time", "stop_time"))
                open_ = np.searchsorted(on, at, side="right") - np.searchsorted(off, at, side="right")
                frame = frame.assign(**{str(word): (open_ > 0).astype(np.int64)})
    return frame


def write_nwb(
    path: Path,
    frame: pd.DataFrame,
    demos: Demonstrations,
    order: npt.NDArray[np.int64],
    probabilities: npt.NDArray[np.float64],
    *,
    names: Sequence[str],
    method: str,
    session_start: datetime | None = None,
    subject: Mapping[str, str] | None = None,
) -> None:
    """Write a session.

    Parameters
    ----------
    frame : DataFrame
        The rows as they were, with what was added to them; kept under their names.
    demos, order : Demonstrations, (n,)
        The steps, and the row behind each.
    probabilities : (n, K)
        P(z_t=k | everything) of every step.
    names : K strings
        Of the intentions.
    method : str
        What inferred them, in words.
    session_start : datetime, optional
        When the session began; by default the first time of the table where that is a date, else now.
    subject : dict, optional
        What is known of the animal: subject_id, species, sex, age (ISO 8601, P90D) and what else NWB has for it.
    """
    pynwb, h5py = need("pynwb", "nwb"), need("h5py", "nwb")
    begin, end, note = session_clock(demos)
    if session_start is None:
        dated = demos.times is not None and demos.times.dtype.kind == "M"
        session_start = pd.Timestamp(demos.times.min()).to_pydatetime() if dated and demos.times is not None else None
    start = datetime.now(UTC) if session_start is None else session_start
    file = pynwb.NWBFile(
        session_description=f"Intentions inferred by prism-irl ({method}). {note}",
        identifier=str(uuid.uuid4()),
        session_start_time=start if start.tzinfo else start.replace(tzinfo=UTC),
        keywords=["intention", "inverse reinforcement learning", "behavior"],
        subject=_subject(pynwb, demos, subject or {}),
    )
    module = file.create_processing_module(name="behavior", description="What the agent did, and what it was after.")
    rows = frame.iloc[order].reset_index(drop=True).drop(columns=["start_time", "stop_time"], errors="ignore")
    for name in rows.columns:
        if "/" in str(name) or ":" in str(name):
            raise InputError(f"The column {str(name)!r} cannot be stored in NWB; rename it without / and :.")
    timed = rows.assign(start_time=begin, stop_time=end)
    file.add_time_intervals(_intervals(pynwb, STEPS, f"Steps of the table that was segmented. {note}", timed))
    module.add(
        pynwb.TimeSeries(
            name=PROBABILITIES,
            description=f"Probability of each intention given all states and actions; columns: {', '.join(names)}.",
            data=np.asarray(probabilities, np.float64),
            **_clock(begin),
            unit="probability",
        )
    )
    found = interval_table(demos, np.asarray(probabilities).argmax(axis=1), names)
    spans = found.rename(columns={"start": "start_time", "end": "stop_time"})
    words = "Stretches of the intention that is most probable at every step."
    file.add_time_intervals(_intervals(pynwb, SEGMENTS, words, spans))

    def write(target: Any) -> None:
        # By an open store: pynwb dislikes the name that a file has until it is whole.
        with h5py.File(target.name, "w") as store, pynwb.NWBHDF5IO(mode="w", file=store) as io:
            io.write(file)

    storage.write_file(path, write)


def _subject(pynwb: Any, demos: Demonstrations, known: Mapping[str, str]) -> Any:
    """The animal as it was described; its name is that of the only group, where there is one."""
    who = [] if demos.groups is None else np.unique(demos.groups.astype(str)).tolist()
    try:
        return pynwb.file.Subject(**({"subject_id": who[0] if len(who) == 1 else "unknown", "sex": "U"} | dict(known)))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The subject cannot be stored ({brief(error)}); give subject_id, species, sex, age."
        ) from None


def _clock(begin: npt.NDArray[np.float64]) -> dict[str, Any]:
    """A regular clock by its rate, any other by its times."""
    beats = np.diff(begin)
    if len(beats) and beats[0] > 0 and np.allclose(beats, beats[0], rtol=1e-6, atol=0):
        return {"starting_time": float(begin[0]), "rate": float(1 / beats[0])}
    return {"timestamps": begin}


def _intervals(pynwb: Any, name: str, description: str, rows: pd.DataFrame) -> Any:
    """A table of intervals with all columns of ``rows``, of which start_time and stop_time say when."""
    data = pynwb.core.VectorData
    ordered = ["start_time", "stop_time", *(c for c in rows.columns if c not in ("start_time", "stop_time"))]
    columns = [data(name=str(c), description=f"{c} of the {name}", data=_plain(rows[c])) for c in ordered]
    return pynwb.epoch.TimeIntervals(name=name, description=description, columns=columns)


def _plain(values: pd.Series[Any]) -> list[Any]:
    """Numbers and truth values as they are, anything else as text."""
    return values.tolist() if values.dtype.kind in "biuf" else values.astype(str).tolist()
