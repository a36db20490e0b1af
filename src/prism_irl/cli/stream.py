"""`prism segment RUN --stream`: beliefs about the intention while things happen, a line in, a line out.

Standard input is CSV: a header with the columns of the fit, then a row per step; a new value in the trajectory column
(if there is one) begins a new trajectory. Every row is answered at once by its intention and p_0 … p_{K−1}, given what
came so far, and by the name of the intention where it has one. A running loop uses the same filter from Python:
``model.filter().step(observation=…, motion=…)``.
"""

from __future__ import annotations

import csv
import io
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prism_irl import storage
from prism_irl.errors import InputError, brief, one_line
from prism_irl.report.names import read_names

if TYPE_CHECKING:
    from prism_irl.data.covariates import Input, Inputs


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
    from prism_irl.models.registry import load

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
    write(
        _line([*names, "intention", *(f"p_{k}" for k in range(model.n_intentions)), *_named(words, "intention_name")])
    )
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
        write(_line([*names, str(k), *(f"{x:.6f}" for x in p), *_named(words, words[k] if words else "")]))
    if not seconds:
        raise InputError("The stream has a header and no row; send a row per step.")
    times = 1e3 * np.array(seconds)
    return {"steps": float(len(times)), "median": float(np.median(times)), "p99": float(np.quantile(times, 0.99))}


def _named(words: list[str] | None, cell: str) -> list[str]:
    return [] if words is None else [cell]


def _check_once(header: list[str], name: str) -> None:
    if header.count(name) > 1:
        raise InputError(f"The stream has {header.count(name)} columns {name!r}; keep one or rename others.")


def _line(cells: list[str]) -> str:
    """A row of CSV in one line, whatever a trajectory is called."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([one_line(cell) for cell in cells])
    return text.getvalue()


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
        try:
            found = [float(cells[i]) for i in at]
        except ValueError:
            bad = next(i for i in at if not is_number(cells[i]))
            raise InputError(
                f"Row {number} of the stream has {cells[bad]!r} in column {header[bad]!r}; send a number."
            ) from None
        if not np.isfinite(found).all():  # it would be the belief of every later row
            bad = at[int(np.argmin(np.isfinite(found)))]
            raise InputError(
                f"Row {number} of the stream has {cells[bad]!r} in column {header[bad]!r}; send a finite number."
            )
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


def run_stream(run: Path, method: str | None, names: Path | None) -> None:
    """From standard input to standard output; says on standard error how long a step took, and what was not read."""

    def write(line: str) -> None:
        print(line, flush=True)

    def note(text: str) -> None:
        print(f"prism: {text}", file=sys.stderr, flush=True)

    found = stream(run, method, sys.stdin, write, note, names)
    print(
        f"{found['steps']:.0f} steps; {found['median']:.2f} ms per step (median), {found['p99']:.2f} ms (99 of 100).",
        file=sys.stderr,
    )


EVENT = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False, "": False}

Number = Callable[[list[str], int, int], float]
"""Cells of a row, a place in them and the row's number → the finite number there, or an `InputError`."""


class StreamedInputs:
    """Inputs of one row after another; `reset` where a trajectory begins.

    Parameters
    ----------
    inputs : those of the fit
    places : callable
        Names of columns → their places in a row; an `InputError` where one is missing.
    number : see `Number`
    time : str, optional
        Column of the times that events are counted in, where it has numbers; else steps are.
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
                read[i] = self._since(one, bool(self.before[i] == 1.0 if one.lag else own[i]), now)
        self.before = own
        return [
            0.0 if math.isnan(value) else (value - one.mean) / one.spread
            for one, value in zip(self.inputs, read, strict=True)
        ]

    def _since(self, one: Input, happened: bool, now: float) -> float:
        if happened or one.column not in self.last:
            self.last[one.column] = now
        return math.log1p(max(now - self.last[one.column], 0.0))

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
    try:
        float(text)
    except ValueError:
        return False
    return True
