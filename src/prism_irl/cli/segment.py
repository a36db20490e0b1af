"""`prism segment`: the intention of every step of new data, in a table or in a copy of a robot dataset."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism_irl.cli.options import CommonOptions, FittedOptions
from prism_irl.errors import InputError, one_line
from prism_irl.optional import need

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.data.read import Table
    from prism_irl.models.base import IntentionModel

SECONDS = (".json", ".vtt")
"""Files of segments in seconds."""


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
    overwrite: bool = False,
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
        seconds instead, as a list per episode or as subtitles.
    subtask_index
        With --write-back: the subtasks of LeRobot 0.5, too (subtask_index, meta/subtasks.parquet).
    stream
        Read rows from standard input and print the belief after each; needs neither table nor --out.
    overwrite
        Replace a file that is already there.
    """
    from prism_irl.cli.fitted import open_fitted
    from prism_irl.data.interop import interval_table, to_boris
    from prism_irl.data.read import NWB, check_writable, write_table
    from prism_irl.report.names import FILE, read_names

    if names is None and (run / FILE).is_file():
        names = run / FILE
    if stream:
        if table is not None or out is not None or write_back is not None:
            raise InputError("--stream reads standard input and prints; leave out the table, --out and --write-back.")
        from prism_irl.cli.stream import run_stream

        run_stream(run, fitted.method, names)
        return
    if table is None or out is None:
        raise InputError("Give the table to segment and --out, or --stream to read rows from standard input.")
    if write_back is None and out.suffix.lower() in SECONDS and table.is_dir():
        write_back = table  # a recording knows its frames per second
    if write_back is not None and out.exists() and not (overwrite and out.suffix.lower() in SECONDS):
        raise InputError(f"{out} exists already; --write-back makes a copy, so choose a new folder for it.")
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already; choose another --out or pass --overwrite.")
    is_nwb = out.suffix.lower() == NWB and write_back is None
    if write_back is None and not is_nwb:
        check_writable(out)
    if is_nwb:
        need("pynwb", "nwb")
    if intervals is not None:
        check_writable(intervals)
        if intervals.exists() and not overwrite:
            raise InputError(f"{intervals} exists already; choose another --intervals or pass --overwrite.")
    model, data = open_fitted(run, table, fitted)
    if is_nwb:
        steps = write_session(out, model, data, names, session_start=session_start, subject=subject)
    elif write_back is None:
        write_table(segmented(model, data, names), out)
        steps = data.demonstrations.n_steps
    else:
        words = None if names is None else read_names(names, model.n_intentions)
        steps = write_intentions(
            write_back, out, data.demonstrations, model.predict(data.demonstrations), words, subtasks=subtask_index
        )
    if intervals is not None:
        called = None if names is None else read_names(names, model.n_intentions)
        found = interval_table(data.demonstrations, model.predict(data.demonstrations), called)
        write_table(to_boris(found) if ".boris" in intervals.suffixes else found, intervals)
    print(one_line(f"{steps} steps segmented: {out}"))


def write_session(
    out: Path, model: IntentionModel, data: Table, names: Path | None, *, subject: Path | None, **when: Any
) -> int:
    """Write a .nwb file; returns how many steps it has."""
    from prism_irl import storage
    from prism_irl.data.nwb import write_nwb
    from prism_irl.report.names import default_names, read_names

    K, demos = model.n_intentions, data.demonstrations
    known = {} if subject is None else storage.read_json(subject)
    if not isinstance(known, dict) or not all(isinstance(value, str) for value in known.values()):
        raise InputError(f'{subject} does not describe a subject; it should look like {{"species": "Mus musculus"}}.')
    if subject is None:
        print("prism: archives ask for the species and age of a subject; give them with --subject.", file=sys.stderr)
    write_nwb(
        out,
        segmented(model, data, names),
        demos,
        data.order,
        model.predict_proba(demos),
        names=default_names(K) if names is None else read_names(names, K),
        method=type(model).__name__,
        subject=known,
        **when,
    )
    return demos.n_steps


def segmented(model: IntentionModel, table: Table, names: Path | None = None) -> pd.DataFrame:
    """Rows of the table with intention and probabilities, and with the names of a names.json where one is given."""
    import numpy as np

    from prism_irl.data.read import with_posterior
    from prism_irl.report.names import read_names

    given = None if names is None else np.array(read_names(names, model.n_intentions), dtype=object)
    probabilities = model.predict_proba(table.demonstrations)
    labels = model.labels_of(probabilities, table.demonstrations)
    frame = with_posterior(table, labels, probabilities)
    if given is None:
        return frame
    column = "intention_name"
    while column in frame.columns:
        column = f"predicted_{column}"
    # The table's rows may be in another order than the flat steps.
    return frame.assign(**{column: given[labels[np.argsort(table.order)]]})


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
    from prism_irl.data.continuous import motions_in_words
    from prism_irl.report.names import default_names
    from prism_irl.robots.lerobot import Words, write_seconds
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
    usual = default_names(int(labels.max()) + 1)
    called = usual if names is None else names
    if out.suffix.lower() in SECONDS:
        segments = segments_in_seconds(dataset, values)
        write_seconds(out, segments, called)
        return sum(one.end - one.start + 1 for own in segments.values() for one in own)
    motions = called  # tokens do not say what moves
    if demos.motions is not None and demos.design is None:
        motions = motions_in_words(demos, labels, len(called))
    return add_column(dataset, out, values, subtasks=called if subtasks else None, words=Words(motions, names))


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
