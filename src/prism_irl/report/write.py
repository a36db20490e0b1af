"""The one writer of fits: every file of a run folder but the model itself, from a `FitResult`.

`prism fit`, `model.report` and the fit that a comparison shows leave the same files: numbers first, then figures that
are drawn from these files alone (`report.draw`), so that names given later need neither the data nor a fit again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from prism_irl import storage
from prism_irl.data.read import write_segments
from prism_irl.evaluation.result import GRID, FitResult
from prism_irl.labels import segments
from prism_irl.report.checks import FILE as CHECKS
from prism_irl.report.checks import without_checks
from prism_irl.report.draw import DRAWN, PER_STATE, RASTER_ROWS, TABLE, draw_run
from prism_irl.report.explorer import write_explorer
from prism_irl.report.names import default_names, write_names

SEGMENTS = "segments.parquet"
LONG = (*PER_STATE, "leaving")
"""Numbers of every state or point of a curve: in the table of intervals, not in metrics.json."""


def write_fit(folder: Path, result: FitResult, names: Sequence[str], *, find: bool = True) -> dict[str, Any]:
    """Write metrics, tables, page data and figures of a fit; returns the metrics.

    Parameters
    ----------
    names : K strings
        What the intentions are called.
    find : bool
        Look for a layout of the states where there is none.
    """
    explorer = write_page_data(folder, result, names=None, find=find)
    (folder / "figures").mkdir(exist_ok=True)
    storage.write_json(folder / DRAWN, _for_figures(result))
    metrics = result.to_json()
    if result.intervals is None:
        (folder / TABLE).unlink(missing_ok=True)  # of an earlier run
    else:
        metrics["intervals"] = _write_intervals(folder, result.intervals, explorer["states"])
    storage.write_json(folder / "metrics.json", metrics)
    if result.monitor is None:
        (folder / "history.csv").unlink(missing_ok=True)
    else:
        storage.write_rows(folder / "history.csv", pd.DataFrame(result.monitor))
    write_segments(result.table, result.posterior.labels, result.posterior.probabilities, folder / SEGMENTS)
    for (
        name,
        table,
    ) in result.tables.items():  # an empty one is not written, nor does an old one stay
        if table is None:
            (folder / name).unlink(missing_ok=True)
        else:
            storage.write_rows(folder / name, table)
    if list(names) != default_names(result.n_intentions):
        write_names(folder, names)
    draw_run(folder, names)
    return metrics


def write_page_data(folder: Path, result: FitResult, **details: Any) -> dict[str, Any]:
    """Write explorer.json and checks.json; returns the former. ``details`` are those of `write_explorer`."""
    shown = result.shown
    own: dict[str, Any] = {"layout": shown.layout, "rewards": result.rewards, "values": result.values}
    own |= {"events": shown.marks, "goals": result.places, "movement": result.movement}
    explorer = write_explorer(folder, shown.demos, shown.probabilities, **own | details)
    without_checks(folder)  # those of an earlier run may have had more figures
    if result.checks is not None:
        storage.write_json(folder / CHECKS, storage.read_plain(result.checks.to_json()))
    return explorer


def _for_figures(result: FitResult) -> dict[str, Any]:
    """What figures need and no other file has: the raster's first rows, lengths of segments, effects of covariates."""
    labels, demos = result.shown.labels, result.shown.demos
    rows = demos.offsets[: RASTER_ROWS + 1]
    cut = segments(labels, demos.offsets)
    lengths = [np.unique(cut.lengths[cut.labels == k], return_counts=True) for k in range(result.n_intentions)]
    effects = result.effects
    return {
        "version": 1,
        "raster": {"offsets": rows, "labels": labels[: rows[-1]], "total": len(demos)},
        "dwell": {"lengths": [np.stack(own).T for own in lengths], "expected": result.dwell.expected},
        "effects": None if effects is None else effects._asdict(),
    }


def _write_intervals(folder: Path, found: Mapping[str, Any], states: Sequence[str] | None) -> dict[str, Any]:
    """Write intervals.csv with every number; returns what belongs into metrics.json."""
    plain: dict[str, Any] = storage.read_plain(found)
    table = pd.DataFrame(_interval_rows(plain["numbers"], states))
    storage.write_rows(folder / TABLE, table.astype({"intention": "Int64", "to": "Int64", "input": "Int64"}))
    return plain | {"numbers": {name: value for name, value in plain["numbers"].items() if name not in LONG}}


def _interval_rows(numbers: Mapping[str, Any], states: Sequence[str] | None) -> list[dict[str, Any]]:
    rows = []
    for name, number in numbers.items():
        if number["interval"] is None:
            continue
        values, ends = np.array(number["estimate"], float), np.array(number["interval"], float)
        for index in np.ndindex(values.shape):
            row: dict[str, Any] = {"measure": name, "intention": index[0] if index else None}
            row["to"] = index[1] if name in ("kernel", "coefficients") else None
            row["input"] = {"leaving": 1, "coefficients": 2}.get(name)
            row["input"] = None if row["input"] is None else index[row["input"]]
            row["at"] = GRID[index[2]] if name == "leaving" else None
            at = index[1] if name in PER_STATE else None
            row["state"] = at if at is None or states is None else states[at]
            rows.append(row | {"estimate": values[index], "low": ends[(0, *index)], "high": ends[(1, *index)]})
    return rows
