"""`checks.json` in the report: what the fitted model simulates beside the data, as a sentence, a table and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import bdtrik

from prism_irl.evaluation.checks import LONGEST
from prism_irl.report.names import place_name
from prism_irl.report.verdict import Finding, signed
from prism_irl.storage import read_part

FILE = "checks.json"
MAX_BYTES = 500_000
FIGURES = ("checks", "checks_map")
SIZES = ("simulations", "n_trajectories", "n_steps", "of_trajectories", "of_steps")


class Row(NamedTuple):
    """One line of the table: what, of which intention (its number and name), and the numbers as text."""

    what: str
    unit: str
    k: int | None
    intention: str
    data: str
    simulated: str
    interval: str
    p: str
    outside: bool


class Section(NamedTuple):
    """The finding in words, the table, and how it was made."""

    finding: Finding
    rows: list[Row]
    how: str


def without_checks(folder: Path) -> None:
    """Drop the checks of an earlier run in the same folder."""
    for old in (folder / FILE, *(path for stem in FIGURES for path in (folder / "figures").glob(f"{stem}.*"))):
        old.unlink(missing_ok=True)


def read_checks(folder: Path) -> dict[str, Any] | None:
    """Return what ``checks.json`` holds, None where there is none; a file that is none is an error."""
    return read_part(folder, FILE, MAX_BYTES, _is_whole, "the comparison with simulations")


def _is_whole(value: dict[str, Any]) -> bool:
    numbers = ("data", "mean", "low", "high", "p", "spread")
    return (
        value["version"] == 1
        and isinstance(value["note"], str)
        and all(isinstance(value[key], int) for key in SIZES)
        and all(np.isfinite([float(one[key]) for key in numbers]).all() for one in value["statistics"])
        and all(isinstance(one["name"], str) and isinstance(one["outside"], bool) for one in value["statistics"])
    )


# -- words -------------------------------------------------------------------------------------------------------------


def section(checks: Mapping[str, Any], names: Sequence[str] | None, states: Sequence[str] | None) -> Section:
    """Return what the page says of the checks.

    Parameters
    ----------
    checks : dict
        What checks.json holds.
    names : K strings, optional
        Of the intentions.
    states : S strings, optional
        Of the states, where they have any.
    """
    if checks["note"]:
        return Section(Finding("info", f"Nothing was simulated. {checks['note']}"), [], "")
    rows = [_row(one, names, states) for one in checks["statistics"]]
    return Section(_finding(checks["statistics"], rows), rows, _how(checks))


def _finding(statistics: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> Finding:
    """Say how many numbers lie outside, and which lies furthest; a few do by chance."""
    n, outside = len(rows), [i for i, row in enumerate(rows) if row.outside]
    if not outside:
        return Finding("good", f"All {n} numbers of the data lie where the model's own simulations do.")
    by_chance = int(np.ceil(bdtrik(0.95, n, 0.05)))  # at most so many, in 95 of 100 runs

    def distance(i: int) -> float:
        one = statistics[i]
        return float(abs(one["data"] - one["mean"]) / max(one["spread"], 1e-12))

    far = sorted(outside, key=distance, reverse=True)[:3]
    called = [f"{rows[i].what} of {rows[i].intention}" if rows[i].k is not None else rows[i].what for i in far]
    beside = (f"({rows[i].data}; simulations {rows[i].interval})" for i in far)
    listed = "; ".join(f"{what} {numbers}" for what, numbers in zip(called, beside, strict=True))
    lie = "lies" if len(outside) == 1 else "lie"
    count = f"{len(outside)} of {n} numbers of the data {lie} outside what the model simulates"
    if len(outside) <= by_chance:
        return Finding("good", f"{count}, as up to {by_chance} would by chance: {listed}.")
    more = "the furthest are " if len(outside) > len(far) else ""
    text = f"{count}, more than the {by_chance} that chance allows: {more}{listed}."
    return Finding("warning", f"{text} There the agent does something that the model leaves out.")


def _how(checks: Mapping[str, Any]) -> str:
    n, trajectories, steps = (checks[key] for key in ("simulations", "n_trajectories", "n_steps"))
    which = f"the {trajectories:,} trajectories of the data"
    if steps < checks["of_steps"]:
        which = (
            f"{trajectories:,} of the {checks['of_trajectories']:,} trajectories ({steps:,} of {checks['of_steps']:,} "
            f"steps; of trajectories longer than {LONGEST:,} steps the beginning)"
        )
    lowest, distance = (f"{p:.3f}" for p in (2 / (1 + n), 1 / (1 + n)))
    several = any(one["intention"] is not None for one in checks["statistics"])
    inferred = "; its intentions were read off what it did as they were for the data" if several else ""
    return (
        f"The fitted model acted {n} times from the same starts, for as long and in the same world as {which}{inferred}"
        ". Interval: where one more simulation would lie in 95 of 100 cases. p: by the rank of the data among the "
        f"simulations, at best {lowest} (differences {distance}). A difference is the share that would have to move to "
        "agree with the mean of the simulations."
    )


def _row(one: Mapping[str, Any], names: Sequence[str] | None, states: Sequence[str] | None) -> Row:
    k, state, unit = one["intention"], one["state"], one["unit"]
    far = unit == "distance"
    what = f"difference in {one['name']}" if far else one["name"]
    what = what if state is None else f"{what} of {place_name(state, states)}"
    factor, sign = (100, "%") if unit in ("share", "distance") else (1, "")

    def text(value: float) -> str:
        return signed(factor * value, 1) + sign

    interval = f"up to {text(one['high'])}" if far else f"{text(max(one['low'], 0.0))} to {text(one['high'])}"
    name = "" if k is None else names[k] if names and k < len(names) else f"intention {k}"
    numbers = (text(one["data"]), text(one["mean"]), interval, f"{one['p']:.3f}")
    return Row(what, unit if unit in ("steps", "states") else "", k, name, *numbers, one["outside"])
