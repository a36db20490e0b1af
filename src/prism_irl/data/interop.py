"""Other people's data structures in and out: xarray, pynapple, intervals of time (NWB, BORIS).

Of NWB files (extra ``nwb``) any table that has the columns of state and action is read; annotations beside it
(AnnotationSeries) and tables of events become columns of events, marked at the step that they fall into. Bouts of
ndx-ethogram (EthogramBouts) become a column by the name of their table, with the behaviour in which a step begins, for
--labels or --state; where bouts overlap, a column of 0 and 1 for every behaviour. What is written reads back as it was.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl import limits, storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError, brief
from prism_irl.labels import segments
from prism_irl.optional import apart, need

if TYPE_CHECKING:
    import xarray as xr

    from prism_irl.models.base import IntentionModel


def to_xarray(model: IntentionModel, demos: Demonstrations) -> xr.Dataset:
    """Posterior over intentions as a labelled Dataset.

    Dimensions: ``step`` (n, flat as in ``demos``) and ``intention`` (K). Variables: ``posterior`` (step, intention),
    P(z_t=k | everything); ``segmentation`` (step), its largest; ``log_likelihood`` (step), log p(a_t | s_≤t, a_<t).
    Coordinates of a step: trajectory, step_in_trajectory, state, action and, where there are some, time, group and
    true_intention.
    """
    xarray = need("xarray", "interop")
    frame = demos.to_pandas().rename(columns={"intention": "true_intention"})
    coordinates: dict[str, Any] = {"intention": np.arange(model.n_intentions)}
    for name in ("trajectory", "state", "action", "time", "group", "true_intention"):
        if name in frame:
            values = frame[name].to_numpy()
            # Names as fixed-width text: an object column could be stored by pickle only.
            coordinates[name] = ("step", values.astype(str) if values.dtype.kind == "O" else values)
    coordinates["step_in_trajectory"] = ("step", demos.step_index)
    posterior = model.predict_proba(demos)
    variables = {
        "posterior": (("step", "intention"), posterior, {"long_name": "P(intention | all states and actions)"}),
        "segmentation": ("step", posterior.argmax(axis=1)),
        "log_likelihood": ("step", model.log_likelihood(demos), {"units": "nats"}),
    }
    about = {"method": type(model).__name__, "n_intentions": model.n_intentions}
    return cast("xr.Dataset", xarray.Dataset(variables, coords=coordinates, attrs=about))


# -- intervals of time: one row per stretch of an intention ------------------------------------------------------------

Floats = npt.NDArray[np.float64]


def session_clock(demos: Demonstrations) -> tuple[Floats, Floats, str]:
    """One rising clock for all steps: begin (n,) and end (n,) of every step in seconds, and where it comes from.

    A step lasts until the next one of its trajectory, the last as long as usual. Times that rise over the whole table
    are the session's own; trajectories with clocks of their own are set one behind the other; without times a step
    lasts one unit.
    """
    n, first = demos.n_steps, demos.first_steps
    if demos.times is None:
        begin = np.arange(n, dtype=np.float64)
        return begin, begin + 1, "There is no clock: time counts steps."
    times = demos.times
    if times.dtype.kind in "mM":
        times = (times - times.min()).astype("timedelta64[ns]").astype(np.int64) / 1e9
    begin = np.asarray(times, np.float64) + 0.0
    within = np.diff(begin)[~first[1:]]
    usual = float(np.median(within)) if len(within) and np.median(within) > 0 else 1.0
    last = np.append(first[1:], True)
    end = np.where(last, begin + usual, np.append(begin[1:], 0.0))
    note = "Time is that of the table."
    following = np.append(begin[1:], np.inf)  # of the next trajectory, whose session may go on at once
    if (following[last] > begin[last]).all():
        end = np.where(last, np.minimum(end, following), end)
    else:
        starts, stops = begin[demos.offsets[:-1]], end[demos.offsets[1:] - 1]
        shift = np.concatenate([[0.0], np.cumsum(stops - starts)[:-1]]) - starts
        begin, end = begin + np.repeat(shift, demos.lengths), end + np.repeat(shift, demos.lengths)
        note = "Every trajectory has a clock of its own; here they are set one behind the other."
    return begin, end, note


def interval_table(demos: Demonstrations, labels: npt.ArrayLike, names: Sequence[str] | None = None) -> pd.DataFrame:
    """One row per segment: start, end, trajectory, intention, its name where there are any, and its steps."""
    cut = segments(np.asarray(labels), demos.offsets)
    begin, end, _ = session_clock(demos)
    index = demos.trajectory_index[cut.starts]
    columns = {
        "start": begin[cut.starts],
        "end": end[cut.starts + cut.lengths - 1],
        "trajectory": index if demos.trajectory_names is None else demos.trajectory_names[index],
        "intention": cut.labels,
    }
    if names is not None:
        columns["intention_name"] = np.array(list(names), dtype=object)[cut.labels]
    return pd.DataFrame(columns | {"steps": cut.lengths})


def to_boris(intervals: pd.DataFrame) -> pd.DataFrame:
    """Segments of an `interval_table` as tabular events of BORIS: a START and a STOP of each, in seconds."""
    found = intervals.reset_index(drop=True)
    named = found["intention_name"] if "intention_name" in found else "intention " + found["intention"].astype(str)
    begins = found.groupby("trajectory", sort=False)["start"].transform("min")
    rows = {"Observation id": found["trajectory"].astype(str), "Subject": "", "Behavior": named}
    rows["Behavioral category"] = "intention"
    starts = pd.DataFrame(rows | {"Behavior type": "START", "Time": found["start"] - begins})
    stops = pd.DataFrame(rows | {"Behavior type": "STOP", "Time": found["end"] - begins})
    return pd.concat([starts, stops]).sort_index(kind="stable").reset_index(drop=True)


# -- pynapple ----------------------------------------------------------------------------------------------------------


def from_pynapple(state: Any, action: Any, trials: Any = None, **columns: Any) -> Demonstrations:
    """Read time series of states and actions, a trajectory per interval; steps outside of these are left out.

    A Tsd holds ids, a TsdFrame numbers that are observed or commanded; ``trials`` is an IntervalSet, by default the
    time support of the states; ``columns`` are options of `Demonstrations.from_table`, such as ``max_gap``.
    """
    try:
        times, theirs, support = np.asarray(state.t), np.asarray(action.t), trials
        support = state.time_support if trials is None else trials
        begin, end = np.asarray(support.start), np.asarray(support.end)
        values = {"state": np.asarray(state.d), "action": np.asarray(action.d)}
    except AttributeError:
        raise InputError("Give states and actions as Tsd or TsdFrame of pynapple, trials as an IntervalSet.") from None
    if not np.array_equal(times, theirs):
        raise InputError(
            f"The states have {len(times)} times and the actions {len(theirs)} others; bring them onto the same ones "
            "first, such as with action.value_from(state)."
        )
    which = np.searchsorted(begin, times, side="right") - 1
    inside = (which >= 0) & (times <= end[np.maximum(which, 0)])
    frame = pd.DataFrame({"trajectory": which, "time": times})
    for role, option, one in (("state", "observe", state), ("action", "act", action)):
        if values[role].ndim == 1:
            frame[role] = values[role]
            continue
        columns[option] = tuple(f"{role} {name}" for name in one.columns)
        frame[list(columns[option])] = values[role]
    if len({"observe", "act"} & set(columns)) == 1:
        raise InputError("One of states and actions is a TsdFrame and the other a Tsd; give both as one or the other.")
    return Demonstrations.from_table(frame[inside].reset_index(drop=True), **columns)


def to_pynapple(demos: Demonstrations, intentions: npt.ArrayLike, names: Sequence[str] | None = None) -> Any:
    """Segments (from intentions (n,)) as an IntervalSet, or probabilities (n, K) as a TsdFrame, by `session_clock`."""
    pynapple = need("pynapple", "interop")
    values = np.asarray(intentions)
    if values.shape[:1] != (demos.n_steps,):
        raise InputError(f"There are {len(values)} intentions for {demos.n_steps} steps; give one row per step.")
    if values.ndim == 2:
        return pynapple.TsdFrame(t=session_clock(demos)[0], d=values, columns=list(names or range(values.shape[1])))
    found = interval_table(demos, values, names)
    about = found.drop(columns=["start", "end"])
    return pynapple.IntervalSet(found["start"].to_numpy(), found["end"].to_numpy(), metadata=about)


# -- NWB files: steps and segments as intervals, probabilities as a time series ----------------------------------------

STEPS, PROBABILITIES, SEGMENTS = "steps", "intention_probabilities", "intentions"


def read_nwb(path: Path, wanted: Sequence[str]) -> pd.DataFrame:
    """The table of the file that has the wanted columns, with its annotations as columns of 0 and 1."""
    need("pynwb", "nwb")
    try:
        tables, events = apart(_read, path, seconds=60 + path.stat().st_size / 2e6)
    except InputError:
        raise
    except Exception as error:  # whatever HDF5 and the schema of NWB find wrong with it
        raise InputError(f"{path} is damaged or not an NWB file ({brief(error)}).") from None
    fitting = {name: table for name, table in tables.items() if set(wanted) <= set(table.columns)}
    bouts = {name: table for name, table in tables.items() if name not in fitting and "label" in table}
    if len(fitting) != 1:
        there = "; ".join(f"{name}: {', '.join(map(str, table.columns))}" for name, table in tables.items()) or "none"
        many = "no table" if not fitting else f"{len(fitting)} tables ({', '.join(fitting)})"
        named = f" with the columns {', '.join(wanted)}; name other columns"
        which = named if wanted else "; name --state and --action"
        raise InputError(f"{path} has {many}{which} (there are {there}).")
    (frame,) = fitting.values()
    return _with_bouts(_marked(frame.reset_index(drop=True), events), bouts)


def _read(path: Path) -> tuple[dict[str, pd.DataFrame], dict[str, npt.NDArray[np.float64]]]:
    """All tables of the file, and when its events were."""
    pynwb = need("pynwb", "nwb")
    _check_size(path)
    with pynwb.NWBHDF5IO(str(path), "r") as io:
        file = io.read()
        tables = {one.name: one.to_dataframe() for one in _contents(file) if isinstance(one, pynwb.core.DynamicTable)}
        return tables, dict(_events(pynwb, file))


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
    series = [one for one in _contents(file) if isinstance(one, pynwb.misc.AnnotationSeries)]
    found = [(np.asarray(one.data[:]).astype(str), np.asarray(one.timestamps[:], np.float64)) for one in series]
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
    frame, order : DataFrame, (n,)
        The rows as they were, with what was added to them, and the row behind each step.
    probabilities, names : (n, K), K strings
    method : str
        What inferred them, in words.
    session_start : datetime, optional
        By default the first time of the table where that is a date, else now.
    subject : dict, optional
        subject_id, species, sex, age (ISO 8601, P90D) and what else NWB has for an animal.
    """
    pynwb, h5py = need("pynwb", "nwb"), need("h5py", "nwb")
    begin, end, note = session_clock(demos)
    start = session_start or datetime.now(UTC)
    if session_start is None and demos.times is not None and demos.times.dtype.kind == "M":
        start = pd.Timestamp(demos.times.min()).to_pydatetime()
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
    words = f"Probability of each intention given all states and actions; columns: {', '.join(names)}."
    series = {"data": np.asarray(probabilities, np.float64), "unit": "probability", **_clock(begin)}
    module.add(pynwb.TimeSeries(name=PROBABILITIES, description=words, **series))
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
    """Numbers and truth values as they are, anything else as text, empty where nothing is known."""
    if values.dtype.kind in "biuf":
        return values.tolist()
    return values.astype(object).where(values.notna(), "").astype(str).tolist()
