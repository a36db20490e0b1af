"""Segments as intervals of time: one row per stretch of an intention, ready for pynapple (start, end) and NWB."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.labels import segments

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
