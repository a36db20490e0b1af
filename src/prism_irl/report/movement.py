"""Demonstrations on the page: what a robot does in every phase, for how long, and in which episodes something differs.

`movement_of` finds the numbers (part of explorer.json), `curves` makes shapes of them: the columns that tell phases
apart most, over time, above bands in the colours of the phases. Tables of states and actions have nothing to say here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.data.continuous import column_names, motions_in_words, short_names, signals
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.triage import Finding
from prism_irl.figures.palette import intention_color
from prism_irl.labels import segments
from prism_irl.report.screen import in_seconds

EPISODES, COLUMNS, POINTS = 4, 4, 160
"""Episodes, columns and points per curve that are drawn."""
FEWEST = 3
"""Observed numbers from which on they are no place on a map."""
WIDE, HIGH, GAP, BAND = 560.0, 84.0, 12.0, 9.0
"""Width and height of the curves of an episode, what lies between two episodes, and the band of phases; in pixels."""
DASHES = ("none", "7 3", "2 2.5", "9 3 2 3")
"""How the columns are told apart, whose colour is that of no phase."""
MOST = 8
"""Unusual episodes that are listed."""


def is_movement(demos: Demonstrations) -> bool:
    """Whether these are demonstrations of something that has more numbers than a place on a map."""
    if demos.motions is None or demos.observations is None or demos.design is not None:
        return False
    return int(demos.observations.shape[1]) >= FEWEST


def movement_of(
    demos: Demonstrations, labels: npt.NDArray[np.int64], n_phases: int, unusual: Sequence[Finding]
) -> dict[str, Any]:
    """What each phase does in words, quartiles of its lengths in steps, curves of some episodes, unusual episodes."""
    cut = segments(labels, demos.offsets)
    own = [cut.lengths[cut.labels == k] for k in range(n_phases)]
    values, names = signals(demos)[0], short_names(column_names(demos))
    apart = _between(values, labels, n_phases)
    n_observed = 0 if demos.observations is None else demos.observations.shape[1]
    columns = np.sort(np.argsort(-apart[:n_observed], kind="stable")[:COLUMNS])
    low, high = np.quantile(values[:, columns], (0.005, 0.995), axis=0)
    episodes = []
    for i in np.unique(np.linspace(0, len(demos) - 1, min(len(demos), EPISODES)).round().astype(int)):
        a, b = int(demos.offsets[i]), int(demos.offsets[i + 1])
        at = np.unique(np.linspace(a, b - 1, min(POINTS, b - a)).round().astype(int))
        shown = np.clip((values[at][:, columns] - low) / np.maximum(high - low, 1e-12), 0, 1)
        cuts = [0, *(np.flatnonzero(np.diff(labels[a:b])) + 1).tolist(), b - a]
        bands = [[int(labels[a + s]), s, e] for s, e in pairwise(cuts)]
        curves = np.rint(1000 * shown.T).astype(int).tolist()
        one = {"name": demos.name_of(int(i)), "length": b - a, "at": (at - a).tolist()}
        episodes.append(one | {"curves": curves, "phases": bands})
    return {
        "does": motions_in_words(demos, labels, n_phases),
        "lengths": [None if not len(one) else np.quantile(one, (0.25, 0.5, 0.75)).tolist() for one in own],
        "columns": [names[j] for j in columns],
        "episodes": episodes,
        "unusual": [one._asdict() for one in unusual],
    }


def _between(values: npt.NDArray[np.float64], labels: npt.NDArray[np.int64], n_phases: int) -> npt.NDArray[np.float64]:
    """Share of the variance of each column that lies between phases, (d,)."""
    counts = np.bincount(labels, minlength=n_phases)
    sums = np.stack([np.bincount(labels, weights=column, minlength=n_phases) for column in values.T], axis=1)
    means = sums / np.maximum(counts, 1)[:, None]
    between = (counts[:, None] * (means - values.mean(0)) ** 2).sum(0) / len(values)
    variance = values.var(0)
    return np.where(variance > 1e-12, between / np.maximum(variance, 1e-12), 0.0)


class Line(NamedTuple):
    """One curve: the points of an SVG polyline, and how it is dashed."""

    points: str
    dash: str


class Row(NamedTuple):
    """One episode: its name, where it stands, its bands (x, width, colour) and its curves."""

    name: str
    y: float
    bands: list[tuple[float, float, str]]
    lines: list[Line]


class Curves(NamedTuple):
    """The drawing: its size, rows, how each column is dashed, and a table row per phase; unusual episodes in words."""

    width: float
    height: float
    high: float
    band: float
    rows: list[Row]
    columns: list[tuple[str, str]]
    phases: list[tuple[int, str, str, str]]
    unusual: list[tuple[str, str]]


def curves(explorer: Mapping[str, Any], names: Sequence[str], step: float | None = None) -> Curves | None:
    """Curves with bands, what phases do and how long they last; None where the data are no demonstrations."""
    found = explorer.get("movement")
    if not found:
        return None
    longest = max(one["length"] for one in found["episodes"])
    rows = []
    for i, one in enumerate(found["episodes"]):
        y = i * (HIGH + BAND + GAP)
        lines = []
        for values, dash in zip(one["curves"], DASHES, strict=False):
            x, down = np.array(one["at"]) * WIDE / longest, y + HIGH * (1 - np.array(values) / 1000)
            lines.append(Line(" ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, down, strict=True)), dash))
        bands = [(WIDE * s / longest, WIDE * (e - s) / longest, intention_color(k)) for k, s, e in one["phases"]]
        rows.append(Row(str(one["name"]), y, bands, lines))
    lengths = []
    for one in found["lengths"]:
        lasts = "" if one is None or step is None else f", {in_seconds(one[1], step)}"
        lengths.append("never" if one is None else f"{one[1]:.0f} ({one[0]:.0f} to {one[2]:.0f}){lasts}")
    stable = [f"{share:.0%}" for share in found.get("stable") or []] or [""] * len(lengths)
    reasons: dict[str, list[str]] = {}
    for one in found["unusual"]:
        reasons.setdefault(str(one["episode"]), []).append(str(one["reason"]).format(*names))
    return Curves(
        WIDE,
        len(rows) * (HIGH + BAND + GAP) - GAP,
        HIGH,
        BAND,
        rows,
        list(zip(found["columns"], DASHES, strict=False)),
        list(zip(range(len(lengths)), found["does"], lengths, stable, strict=True)),
        [(name, ", ".join(own)) for name, own in list(reasons.items())[:MOST]],
    )
