"""`checks.json` in the report: what the fitted model simulates beside the data, as a sentence, a table and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import bdtrik

from prism_irl.evaluation.checks import LONGEST
from prism_irl.report.names import place_name
from prism_irl.report.verdict import Finding, Level, say, signed
from prism_irl.storage import read_part

FILE = "checks.json"
MAX_BYTES = 500_000
FIGURES = ("checks",)
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
    """Return what the page says of checks.json, with the names of K intentions and of S states, where they have any."""
    if checks["note"]:
        return Section(Finding("info", f"Nothing was simulated. {checks['note']}"), [], "")
    rows = [_row(one, names, states) for one in checks["statistics"]]
    return Section(_finding(checks["statistics"], rows), rows, say("how_checked", found=checks, longest=LONGEST))


def _finding(statistics: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> Finding:
    """Say how many numbers lie outside, and which lies furthest; a few do by chance."""
    n, outside = len(rows), [i for i, row in enumerate(rows) if row.outside]
    by_chance = int(np.ceil(bdtrik(0.95, n, 0.05))) if n else 0  # at most so many, in 95 of 100 runs

    def distance(i: int) -> float:
        one = statistics[i]
        return float(abs(one["data"] - one["mean"]) / max(one["spread"], 1e-12))

    furthest = [rows[i] for i in sorted(outside, key=distance, reverse=True)[:3]]
    called = [row.what if row.k is None else f"{row.what} of {row.intention}" for row in furthest]
    far = [(what, row.data, row.interval) for what, row in zip(called, furthest, strict=True)]
    level: Level = "good" if len(outside) <= by_chance else "warning"
    return Finding(level, say("checks", n=n, outside=len(outside), by_chance=by_chance, far=far))


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
