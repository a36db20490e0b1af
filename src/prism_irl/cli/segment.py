"""`prism segment`: the intention of every step of new data, in a table, in a copy of a robot dataset, or in a stream.

Of a stream, standard input is CSV: a header with the columns of the fit, then a row per step; a new value in the
trajectory column (if there is one) begins a new trajectory. Every row is answered at once by its intention and p_0 …
p_{K−1}, given what came so far, and by the name of the intention where it has one. A running loop uses the same filter
from Python: ``model.filter().step(observation=…, motion=…)``.
"""

from __future__ import annotations

import csv
import io
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism_irl import storage
from prism_irl.cli.options import CommonOptions, FittedOptions, Overwrite
from prism_irl.errors import InputError, brief, one_line
from prism_irl.optional import need

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from prism_irl.data.covariates import Input, Inputs
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.data.read import Table
    from prism_irl.models.base import IntentionModel


SECONDS, RERUN = (".json", ".vtt"), ".rrd"
"""Files of segments in seconds, and of curves with phases."""


def segment(
    run: Path,
    table: Path | None = None,
    *,
    out: Path | None = None,
    names: Path | None = None,
    intervals: Path | None = None,
    session_start: datetime | None = None,
    subject: Path | None = None,
    write_back: Path | None = None,
    subtask_index: bool = False,
    stream: bool = False,
    fitted: FittedOptions = FittedOptions(),
    overwrite: Overwrite = False,
    common: CommonOptions = CommonOptions(),
) -> None:
    """Give every step of a table its intention.

    Example: prism segment runs/mouse new.csv --out labels.parquet

    Example: prism segment runs/mouse new.csv --out session.nwb --intervals segments.csv

    Example: prism segment runs/arm LEROBOT_DATASET --write-back LEROBOT_DATASET --out COPY

    Example: tail -f steps.csv | prism segment runs/arm --stream

    Parameters
    ----------
    run
        Folder of a fitted model.
    table
        A .csv, .parquet or .npz file with the columns that the model was fitted on, or a robot dataset.
    out
        A .csv or .parquet file: the input's rows, in order, plus intention and p_0..p_{K-1}. Or a .nwb file: the rows,
        the probabilities as a time series, and segments as intervals.
    names
        names.json as the report's page saves it: adds a column intention_name, to a stream too, or names the subtasks
        of a dataset [default: names.json of the run].
    intervals
        A .csv file for the segments: start, end, trajectory, intention (pynapple reads it as an IntervalSet); a name
        that ends in .boris.csv gets them as tabular events of BORIS.
    session_start
        When the session of a .nwb file began [default: the first time of the table, where that is a date, else now].
    subject
        A .json file about the animal of a .nwb file: subject_id, species, sex, age (P90D).
    write_back
        The LeRobot dataset that the data come from: --out becomes a copy of it with a column intention (-1 where a
        step was not segmented) and the language that LeRobot 0.6 reads (language_persistent: motion, and subtask where
        phases have names); the dataset itself is only read. An --out that ends in .json or .vtt holds segments in
        seconds instead, as a list per episode or as subtitles; one that ends in .rrd curves and phases for Rerun.
    subtask_index
        With --write-back: the subtasks of LeRobot 0.5, too (subtask_index, meta/subtasks.parquet).
    stream
        Read rows from standard input and print the belief after each; needs neither table nor --out.
    """
    from prism_irl.cli.fitted import open_fitted
    from prism_irl.cli.sources import steps_per_second
    from prism_irl.data.files import NWB, check_writable, write_table
    from prism_irl.data.interop import interval_table, to_boris, write_nwb
    from prism_irl.report.names import FILE, default_names, read_names
    from prism_irl.robots.lerobot import write_rerun

    if names is None and (run / FILE).is_file():
        names = run / FILE
    if stream:
        if table is not None or out is not None or write_back is not None:
            raise InputError("--stream reads standard input and prints; leave out the table, --out and --write-back.")
        return _run_stream(run, fitted.method, names)
    if not (run / "config.json").is_file() and (table is None or run.is_file()):
        raise InputError(
            f"{run} is no run folder; fit a model first (prism analyze {run}), then give its folder and the data, for "
            "example: prism segment runs/mouse/fit new.csv --out labels.parquet."
        )
    if table is None or out is None:
        raise InputError("Give the table to segment and --out, or --stream to read rows from standard input.")
    if write_back is None and out.suffix.lower() in SECONDS and table.is_dir():
        write_back = table  # a recording knows its frames per second
    if write_back is not None and out.exists() and not (overwrite and out.suffix.lower() in SECONDS):
        raise InputError(f"{out} exists already; --write-back makes a copy, so choose a new folder for it.")
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already; choose another --out or pass --overwrite.")
    is_nwb = out.suffix.lower() == NWB and write_back is None
    if write_back is None and not is_nwb and out.suffix.lower() != RERUN:
        check_writable(out)
    if is_nwb:
        need("pynwb", "nwb")
    if intervals is not None:
        check_writable(intervals)
        if intervals.exists() and not overwrite:
            raise InputError(f"{intervals} exists already; choose another --intervals or pass --overwrite.")
    model, data = open_fitted(run, table, fitted)
    demos, K = data.demonstrations, model.n_intentions
    words = None if names is None else read_names(names, K)
    steps = demos.n_steps
    if is_nwb:
        known = {} if subject is None else storage.read_json(subject)
        if not isinstance(known, dict) or not all(isinstance(value, str) for value in known.values()):
            raise InputError(
                f'{subject} does not describe a subject; it should look like {{"species": "Mus musculus"}}.'
            )
        if subject is None:
            print(
                "prism: archives ask for the species and age of a subject; give them with --subject.", file=sys.stderr
            )
        about: dict[str, Any] = {"session_start": session_start, "subject": known, "method": type(model).__name__}
        rows, order, p = segmented(model, data, words), data.order, model.predict_proba(demos)
        write_nwb(out, rows, demos, order, p, names=words or default_names(K), **about)
    elif out.suffix.lower() == RERUN:
        write_rerun(out, demos, model.predict(demos), words or default_names(K), steps_per_second(table))
    elif write_back is None:
        write_table(segmented(model, data, words), out)
    else:
        steps = write_intentions(write_back, out, demos, model.predict(demos), words, subtasks=subtask_index)
    if intervals is not None:
        found = interval_table(demos, model.predict(demos), words)
        write_table(to_boris(found) if ".boris" in intervals.suffixes else found, intervals)
    print(one_line(f"{steps} steps segmented: {out}"))


def segmented(model: IntentionModel, table: Table, names: list[str] | None = None) -> pd.DataFrame:
    """Rows of the table with intention and probabilities, and with the names of the intentions where they have any."""
    import numpy as np

    from prism_irl.data.read import with_posterior

    probabilities = model.predict_proba(table.demonstrations)
    labels = model.labels_of(probabilities, table.demonstrations)
    frame = with_posterior(table, labels, probabilities)
    if names is None:
        return frame
    column = "intention_name"
    while column in frame.columns:
        column = f"predicted_{column}"
    # The table's rows may be in another order than the flat steps.
    return frame.assign(**{column: np.array(names, dtype=object)[labels[np.argsort(table.order)]]})


def write_intentions(
    dataset: Path,
    out: Path,
    demos: Demonstrations,
    labels: np.ndarray[Any, Any],
    names: list[str] | None = None,
    *,
    subtasks: bool = False,
) -> int:
    """Copy a LeRobot dataset with an ``intention`` column and language; returns how many of its steps have one.

    The trajectories' names are episode numbers and their times frame numbers, as `prism tokenize` leaves them.
    """
    import numpy as np

    from prism_irl.data.continuous import motions_in_words
    from prism_irl.report.names import default_names
    from prism_irl.robots.lerobot import Words, timestamps, write_seconds
    from prism_irl.robots.lerobot_writing import add_column, segments_in_seconds

    if demos.trajectory_names is None or demos.times is None:
        raise InputError("The data do not say which episodes and frames they come from; give what tokenize wrote.")
    values = {}
    for i, name in enumerate(demos.trajectory_names):
        here = slice(int(demos.offsets[i]), int(demos.offsets[i + 1]))
        if not str(name).isdecimal() or demos.times.dtype.kind not in "iu":
            raise InputError(
                f"Trajectory {name} is not an episode number with frame numbers; give what tokenize wrote."
            )
        values[int(name)] = (demos.times[here], labels[here])
    if any(len(frames) > 1 and np.diff(frames).min() > 1 for frames, _ in values.values()):  # --hz: some were read
        whole = timestamps(dataset)
        values = {
            name: (whole[name][0], own[np.maximum(np.searchsorted(frames, whole[name][0], side="right") - 1, 0)])
            for name, (frames, own) in values.items()
            if name in whole
        }
    usual = default_names(int(labels.max()) + 1)
    called = usual if names is None else names
    if out.suffix.lower() in SECONDS:
        segments = segments_in_seconds(dataset, values)
        write_seconds(out, segments, called)
        return sum(one.end - one.start + 1 for own in segments.values() for one in own)
    motions = called  # tokens do not say what moves
    if demos.motions is not None and demos.design is None:
        motions = motions_in_words(demos, labels, len(called))
    return add_column(dataset, out, values, Words(motions, names), subtasks=called if subtasks else None)


def score(
    run: Path, table: Path, *, fitted: FittedOptions = FittedOptions(), common: CommonOptions = CommonOptions()
) -> None:
    """Score a fitted model on a table: predictive log-likelihood and, kept apart, the paper's score.

    Example: prism score runs/mouse new.csv --json

    Parameters
    ----------
    run
        Folder of a fitted model.
    table
        A .csv, .parquet or .npz file with the columns that the model was fitted on.
    """
    from prism_irl.cli.fitted import open_fitted
    from prism_irl.cli.printing import print_json, print_scores
    from prism_irl.evaluation.metrics import evaluate

    model, data = open_fitted(run, table, fitted)
    found = evaluate(model, data.demonstrations)
    if common.json:
        print_json({**found, "density": True} if model.is_density else found)
    else:
        print_scores(found, leaks=model.leaks, density=model.is_density)


# -- beliefs about the intention while things happen, a line in, a line out --------------------------------------------


def stream(
    run: Path,
    method: str | None,
    lines: Iterable[str],
    write: Callable[[str], object],
    note: Callable[[str], object] = lambda _: None,
    called: Path | None = None,
) -> dict[str, float]:
    """Answer every line; returns the number of steps, and median and 99th percentile of the milliseconds per step.

    ``note`` gets a sentence where a stream knows less than the fit did; the file ``called`` has
    names of the intentions.
    """
    import numpy as np

    from prism_irl.models.registry import load
    from prism_irl.report.names import read_names

    model: Any = load(run, method)
    if not hasattr(model, "filter"):
        raise InputError(f"{type(model).__name__} has no filter of a stream; fit a pair of switching and rewards.")
    if model.looks_ahead:
        note("windows look at what comes after a step, which a stream cannot know: beliefs are by the commands alone.")
    words = None if called is None else read_names(called, model.n_intentions)
    config = storage.read_object(run / "config.json")
    rows = _rows(lines)
    header = [name.strip() for name in next(rows, [])]
    read, begin = _reader(config, header, continuous="names" in config["data"])
    trajectory = config["data"]["columns"].get("trajectory", "trajectory")
    _check_once(header, trajectory)
    place = header.index(trajectory) if trajectory in header else None
    names = [] if place is None else [trajectory]
    called_so = [] if words is None else ["intention_name"]

    def answer(cells: list[str]) -> None:  # in one line, whatever a trajectory is called
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow([one_line(cell) for cell in cells])
        write(text.getvalue())

    answer([*names, "intention", *(f"p_{k}" for k in range(model.n_intentions)), *called_so])
    beliefs, current, seconds = model.filter(), None, list[float]()
    for number, cells in enumerate(rows):
        if not cells:
            continue
        if len(cells) != len(header):
            raise InputError(
                f"Row {number} of the stream has {len(cells)} cells, its header {len(header)}; send whole rows."
            )
        if place is not None and cells[place] != current:
            current = cells[place]
            beliefs.reset()
            begin()
        began = time.perf_counter()
        with np.errstate(over="ignore", invalid="ignore"):  # answered below, in a sentence
            p = beliefs.step(**read(cells, number))
        seconds.append(time.perf_counter() - began)
        if not np.isfinite(p).all():  # numbers so large that their density overflows
            raise InputError(
                f"Row {number} of the stream is so far from all that the fit has seen that no intention can be told; "
                "check its numbers."
            )
        names = [] if place is None else [cells[place]]
        k = int(p.argmax())
        answer([*names, str(k), *(f"{x:.6f}" for x in p), *([] if words is None else [words[k]])])
    if not seconds:
        raise InputError("The stream has a header and no row; send a row per step.")
    times = 1e3 * np.array(seconds)
    return {"steps": float(len(times)), "median": float(np.median(times)), "p99": float(np.quantile(times, 0.99))}


def _check_once(header: list[str], name: str) -> None:
    if header.count(name) > 1:
        raise InputError(f"The stream has {header.count(name)} columns {name!r}; keep one or rename others.")


def _rows(lines: Iterable[str]) -> Iterator[list[str]]:
    """Cells of every line; what is no CSV is an `InputError`."""
    try:
        yield from csv.reader(lines)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"The stream is not CSV in UTF-8 ({brief(error)}); send a header and rows.") from None


def _reader(
    config: dict[str, Any], header: list[str], *, continuous: bool
) -> tuple[Callable[[list[str], int], dict[str, Any]], Callable[[], object]]:
    """What turns the cells of a row into a step of the filter, and what is to be called where a trajectory begins."""
    columns = config["data"]["columns"]

    def places(names: list[str]) -> list[int]:
        for name in names:
            if name not in header:
                raise InputError(f"The stream has no column {name!r}; its header is {', '.join(header) or 'empty'}.")
            _check_once(header, name)
        return [header.index(name) for name in names]

    def numbers(cells: list[str], at: list[int], number: int) -> list[float]:
        found = [float(cells[i]) if is_number(cells[i]) else math.nan for i in at]
        if not all(map(math.isfinite, found)):  # it would be the belief of every later row
            bad = next(i for i, value in zip(at, found, strict=True) if not math.isfinite(value))
            what = "a finite number" if is_number(cells[bad]) else "a number"
            raise InputError(f"Row {number} of the stream has {cells[bad]!r} in column {header[bad]!r}; send {what}.")
        return found

    if continuous:
        names = config["data"]["names"]
        seen, done = places(names["observations"]), places(names["commands"])
        return lambda cells, n: {"observation": numbers(cells, seen, n), "motion": numbers(cells, done, n)}, list
    from prism_irl.data.rows import Vocabulary

    words = {what: Vocabulary.from_json(config["vocabulary"][f"{what}s"]) for what in ("state", "action")}
    at = {what: places([columns.get(what, what)])[0] for what in words}

    def tokens(cells: list[str], number: int) -> dict[str, Any]:
        where = f"row {number} of the stream"
        return {what: int(known.encode([cells[at[what]]], what, lambda _: where)[0]) for what, known in words.items()}

    if "inputs" not in config["data"]:
        return tokens, list
    from prism_irl.data.covariates import Inputs

    covariates = Inputs.from_json(config["data"]["inputs"])
    time_column = columns.get("time", "time" if "time" in header else None)
    inputs = StreamedInputs(covariates, places, lambda cells, i, n: numbers(cells, [i], n)[0], time_column)
    return lambda cells, n: tokens(cells, n) | {"observation": inputs.read(cells, n)}, inputs.reset


def _run_stream(run: Path, method: str | None, names: Path | None) -> None:
    """From standard input to standard output; says on standard error how long a step took, and what was not read."""
    told = partial(print, file=sys.stderr, flush=True)
    found = stream(run, method, sys.stdin, partial(print, flush=True), lambda text: told(f"prism: {text}"), names)
    times = f"{found['median']:.2f} ms per step (median), {found['p99']:.2f} ms (99 of 100)"
    told(f"{found['steps']:.0f} steps; {times}.")


EVENT = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False, "": False}

Number = Callable[[list[str], int, int], float]
"""Cells of a row, a place in them and the row's number → the finite number there, or an `InputError`."""


class StreamedInputs:
    """Inputs of one row after another; `reset` where a trajectory begins.

    ``places`` finds columns in a row, ``number`` reads a cell (see `Number`); events are counted in the times of a
    column, where it has numbers, else in steps.
    """

    def __init__(self, inputs: Inputs, places: Callable[[list[str]], list[int]], number: Number, time: str | None):
        self.inputs, self.number = inputs.inputs, number
        self.at = places([one.column for one in self.inputs])
        events = any(one.kind == "since" for one in self.inputs)
        self.clock = places([time])[0] if events and time is not None else None
        self.reset()

    def reset(self) -> None:
        """Begin a trajectory, as an event does."""
        self.last: dict[str, float] = {}
        self.before: list[float] = [math.nan] * len(self.inputs)
        self.step = 0

    def read(self, cells: list[str], row: int) -> list[float]:
        """Standardised inputs of a row."""
        if self.clock is not None and row == 0 and not is_number(cells[self.clock]):
            self.clock = None  # dates: steps are counted, as in the fit
        now = float(self.step) if self.clock is None else self.number(cells, self.clock, row)
        self.step += 1
        own = [self._raw(one, cells, at, row) for one, at in zip(self.inputs, self.at, strict=True)]
        read = [before if one.lag else value for one, value, before in zip(self.inputs, own, self.before, strict=True)]
        for i, one in enumerate(self.inputs):
            if one.kind == "since":
                if (self.before[i] == 1.0 if one.lag else own[i]) or one.column not in self.last:
                    self.last[one.column] = now
                read[i] = math.log1p(max(now - self.last[one.column], 0.0))
        self.before = own
        return [
            0.0 if math.isnan(value) else (value - one.mean) / one.spread
            for one, value in zip(self.inputs, read, strict=True)
        ]

    def _raw(self, one: Input, cells: list[str], at: int, row: int) -> float:
        if one.kind == "since":
            mark: Any = EVENT.get(cells[at].strip().lower())
            if mark is None:
                raise InputError(
                    f"Row {row} of the stream has {cells[at]!r} in column {one.column!r}; send 1 at an event, else 0."
                )
            return float(mark)
        if one.level is None:
            return self.number(cells, at, row)
        if not cells[at].strip():
            raise InputError(f"Row {row} of the stream has nothing in column {one.column!r}; send a word.")
        return float(cells[at] == one.level)


def is_number(text: str) -> bool:
    """Whether a cell is a number."""
    with suppress(ValueError):
        return float(text) is not None
    return False
