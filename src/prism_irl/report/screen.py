"""The first screen of a page: all intentions on one map or in tables, and what the agent did in turn.

Everything is read from explorer.json, metrics.json and trips.csv; here numbers become text and shapes, and templates
lay them out.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import cos, pi, sin, sqrt
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from prism_irl.figures.palette import intention_color
from prism_irl.report.verdict import in_seconds, number
from prism_irl.storage import inside

WIDE, HIGH = 560.0, 400.0  # of the map, pixels
FAR = (0.02, 0.98)  # shares of the time between which a continuous map shows places where they are
HEADS_FOR = 0.25  # share of the long run in one place, to say that an intention heads for it
LABELS = 2  # places of an intention that have a name on the map
LETTER = 3.5  # half the width of a letter there
PHASES = 150  # rows of the table at most
NUMBER = re.compile(r"-?\d+(\.\d+)?")
TRIPS = "trips.csv"
FIRST_ROWS = 10  # of a table of choices on the first screen
STATES, ACTIONS = 24, 12  # rows and columns of a table of choices at most
FEW = 5.0  # choices in a state below which its shares are those of chance
APART = 0.15  # share from which on a difference to the other intentions is marked
MARKS = 3  # cells of a table that are marked, but for ties
Line = tuple[float, float, float, float]


def name_of(explorer: Mapping[str, Any], what: str, i: int) -> str:
    """Name of a state or action, "state 7" where it has only a number."""
    names = explorer.get(f"{what}s")
    own = str(names[i]) if names else str(i)
    return f"{what} {own}" if NUMBER.fullmatch(own) else own


# -- the map -----------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """One state on the map: centre, radius, slices (path of SVG, colour), what a pointer reads; whether it is open."""

    x: float
    y: float
    r: float
    slices: list[tuple[str, str]]
    title: str
    closed: bool
    seen: bool


def picture(explorer: Mapping[str, Any], names: Sequence[str]) -> SimpleNamespace | None:
    """All intentions on one map: in each place its time by intention, as slices; None where states have no places.

    It has width and height, the side of a cell (0 where places are discs), places, lines, walls, labels (x, y, text),
    goals (centre, radius and colour of a ring around the place that an intention heads for) and a note.
    """
    layout = explorer.get("layout")
    if layout is None:
        return None
    xy = {s: (float(point[0]), float(point[1])) for s, point in enumerate(layout["xy"]) if point is not None}
    grid, cells = layout["kind"] == "grid", layout["kind"] == "cells"
    edges = [(xy[i], xy[j]) for i, j in layout["edges"] if i in xy and j in xy]
    shares = np.array([one["share"] for one in explorer["story"]["wants"]])
    time = np.array(explorer["occupancy"], float) * shares[:, None]
    if cells:
        xy = _near_the_rest(xy, time.sum(axis=0))
    points = np.array(list(xy.values()))
    low, size = points.min(axis=0), np.maximum(np.ptp(points, axis=0), 1e-9)
    gap = 1.0 if grid else _gap(points, edges)
    pad = 0.6 * gap + (0.0 if grid else 0.02 * float(size.max()))
    scale = float(min(WIDE / (size[0] + 2 * pad), HIGH / (size[1] + 2 * pad)))
    width, height = (float(scale * (s + 2 * pad)) for s in size)

    def at(x: float, y: float) -> tuple[float, float]:
        return round(scale * (x - low[0] + pad), 1), round(height - scale * (y - low[1] + pad), 1)

    total = time.sum(axis=0)
    largest = float(total.max()) or 1.0
    most = (0.46 if grid else 0.42) * gap * scale
    places = {}
    for s, point in xy.items():
        x, y = at(*point)
        r = max(most * sqrt(total[s] / largest), min(3.0, most)) if total[s] > 0 else 0.0
        own = time[:, s] / total[s] if total[s] > 0 else np.zeros(len(time))
        words = ", ".join(f"{names[k]} {100 * v:.0f}%" for k, v in enumerate(own) if v >= 0.005)
        title = f"{name_of(explorer, 'state', s)}: {words or 'never visited'}"
        closed, seen = s in layout["barriers"], bool(total[s] > 0)
        places[s] = Place(x, y, round(r, 1), _slices(x, y, r, own), title, closed, seen)
    far = f"{layout['note'].rstrip('.')}, far ones at the margin." if "margin" not in layout["note"] else ""
    return SimpleNamespace(
        width=round(width, 1),
        height=round(height, 1),
        cell=round(0.92 * scale, 1) if grid else 0.0,
        places=list(places.values()),
        lines=[] if grid or cells else [(*at(*a), *at(*b)) for a, b in edges],
        walls=[(*at(a, b), *at(c, d)) for a, b, c, d in layout.get("walls") or []],
        labels=_labels(explorer, places, width),
        goals=_goals(explorer, places, 0.46 * scale if grid else 0.0),
        note=far if cells else "",
    )


def _near_the_rest(xy: Mapping[int, tuple[float, float]], time: Any) -> dict[int, tuple[float, float]]:
    """Places with those far out moved to the margin: a few steps there would make the others small."""
    points, weight = np.array(list(xy.values())), np.array([time[s] for s in xy])
    for axis in points.T:
        order = np.argsort(axis, kind="stable")
        passed = np.cumsum(weight[order]) / max(float(weight.sum()), 1e-12)
        low, high = (float(axis[order][min(int(np.searchsorted(passed, q)), len(axis) - 1)]) for q in FAR)
        np.clip(axis, low, high, out=axis)
    return {s: (float(x), float(y)) for s, (x, y) in zip(xy, points, strict=True)}


def _gap(points: Any, edges: Sequence[tuple[Any, Any]]) -> float:
    """Distance between neighbours, by which places are as large as there is room."""
    known = [length for a, b in edges if (length := sqrt((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2)) > 0]
    if known:
        return float(np.quantile(known, 0.25))
    return float(np.ptp(points, axis=0).max() / max(sqrt(len(points)), 1.0)) or 1.0


def _slices(x: float, y: float, r: float, shares: Any) -> list[tuple[str, str]]:
    """Paths of a pie with a slice for each intention, and their colours."""
    found, angle = [], -pi / 2
    for k, share in enumerate(shares):
        if share <= 0.005 or r <= 0:
            continue
        if share >= 0.995:
            path = f"M{x - r:.1f} {y}a{r:.1f} {r:.1f} 0 1 0 {2 * r:.1f} 0a{r:.1f} {r:.1f} 0 1 0 {-2 * r:.1f} 0z"
            return [(path, intention_color(k))]
        end = angle + 2 * pi * float(share)
        ends = [(x + r * cos(a), y + r * sin(a)) for a in (angle, end)]
        path = f"M{x} {y}L{ends[0][0]:.1f} {ends[0][1]:.1f}"
        path += f"A{r:.1f} {r:.1f} 0 {int(share > 0.5)} 1 {ends[1][0]:.1f} {ends[1][1]:.1f}z"
        found.append((path, intention_color(k)))
        angle = end
    return found


def _goals(
    explorer: Mapping[str, Any], places: Mapping[int, Place], cell: float
) -> list[tuple[float, float, float, str]]:
    """Rings around the places that intentions head for, those of several intentions around one another."""
    found: list[tuple[float, float, float, str]] = []
    for k, one in enumerate(explorer["story"]["wants"]):
        goal = one.get("goal")
        if goal is None and one["leads_to"] and one["leads_to"][0][1] >= HEADS_FOR:
            goal = one["leads_to"][0][0]
        if goal is None or not one["leads_to"] or int(goal) not in places:
            continue
        x, y, r = places[int(goal)][:3]
        others = sum((x, y) == ring[:2] for ring in found)
        found.append((x, y, round((cell or r + 3.0) - 4.0 * others * (1 if cell else -1), 1), intention_color(k)))
    return found


def _labels(explorer: Mapping[str, Any], places: Mapping[int, Place], width: float) -> list[tuple[float, float, str]]:
    """Names of the places that intentions lead to, where they do not lie on one another."""
    labels: list[tuple[float, float, str]] = []
    cells, wants = explorer["layout"]["kind"] == "cells", explorer["story"]["wants"]
    goals = [(one["goal"], 1.0) for one in wants if one["leads_to"] and one.get("goal") is not None]
    for s, share in goals or [place for one in wants for place in one["leads_to"][:LABELS]]:
        if share < 0.1 or int(s) not in places:
            continue
        x, y, r = places[int(s)][:3]
        text = name_of(explorer, "state", int(s))
        text = text.partition("(")[2].rstrip(")") or text if cells else text  # which says in brackets where it is
        text = text if len(text) <= 18 else text[:17] + "…"
        half = LETTER * len(text)
        x = min(max(x, half), max(width - half, half))
        for side in (y - r - 4, y + r + 12):
            hidden = any(abs(a - x) < half + LETTER * len(t) and abs(b - side) < 13 for a, b, t in labels)
            if side > 10 and not hidden and all(text != other for _, _, other in labels):
                labels.append((x, round(side, 1), text))
    return labels


# -- phases and trips --------------------------------------------------------------------------------------------------


class Phases(NamedTuple):
    """A table of what the agent did in turn: titles, rows (number of the intention, text of each cell), a remark."""

    title: str
    columns: list[str]
    rows: list[tuple[int | None, list[str]]]
    remark: str


def phases(folder: Path, explorer: Mapping[str, Any], step: float | None = None) -> Phases:
    """Trips where the run has them, else the phases of the trajectories that the page shows.

    ``step`` is how many seconds a step takes, where somebody knows it.
    """
    path = folder / TRIPS
    if path.is_file() and inside(path, folder):
        with path.open(newline="", encoding="utf-8") as file:
            trips = list(csv.DictReader(file))
        if trips:
            return _trips(trips, step)
    K, found = int(explorer["n_intentions"]), []
    if K == 1:
        return Phases("", [], [], "")
    places = not explorer.get("movement")
    for one in explorer["trajectories"]:
        p = np.array(one["p"]).reshape(-1, K)
        z = p.argmax(axis=1)
        begins = [0, *(np.flatnonzero(z[1:] != z[:-1]) + 1).tolist()]
        for begin, end in zip(begins, [*begins[1:], len(z)], strict=True):
            events = {name: sum(begin <= t < end for t in at) for name, at in one.get("events", {}).items()}
            marks = [name if n == 1 else f"{n} × {name}" for name, n in events.items() if n]
            where = (one["states"][t] for t in (begin, end - 1))
            first, last = (name_of(explorer, "state", s) for s in where) if places else ("", "")
            sure = f"{p[begin:end, z[begin]].mean() / 10:.0f}%"
            cells = [str(one["name"]), str(begin), str(end - begin), in_seconds(end - begin, step)]
            found.append((int(z[begin]), [*cells, first, last, sure, ", ".join(marks)]))
    columns = ["trajectory", "from step", "steps", "lasts", "begins in", "ends in", "sure", "events"]
    kind = "phases of the trajectories shown"
    return _table("Phases", columns, found, f"The first {PHASES} of {len(found):,} {kind}.")


def _trips(trips: Sequence[Mapping[str, str]], step: float | None) -> Phases:
    """Rows of trips.csv as people read them: whole steps, words instead of truth values, no column twice."""

    def value(text: str | None) -> float | None:
        with suppress(ValueError):
            return number(float(text or ""))
        return None

    def cells(row: Mapping[str, str]) -> list[str]:
        length, shortest, sure = (value(row.get(name)) for name in ("length", "shortest", "probability"))
        arrived = {"true": "yes", "false": "–"}.get(str(row.get("arrived")).lower(), "") if row.get("to") else ""
        return [
            *(str(row.get(name) or "") for name in ("trajectory", "first", "from", "to")),
            "" if length is None else f"{length:.0f}",
            "" if length is None else in_seconds(length, step),
            "" if shortest is None else f"{shortest:.1f}".removesuffix(".0"),
            arrived,
            "" if sure is None else f"{100 * sure:.0f}%",
        ]

    columns = ["trajectory", "from step", "from", "to", "steps", "lasts", "shortest way", "arrived", "sure"]
    gone = [row for row in trips if value(row.get("length")) != 0.0]  # the others are where they want to be already
    rows = [(None if (k := value(row.get("intention"))) is None else int(k), cells(row)) for row in gone]
    return _table("Trips", columns, rows, f"The first {PHASES} of {len(rows):,} trips; all are in {TRIPS}.")


def _table(title: str, columns: list[str], rows: Sequence[tuple[int | None, list[str]]], more: str) -> Phases:
    """The first rows, without the columns that are empty in all of them."""
    shown = rows[:PHASES]
    kept = [i for i in range(len(columns)) if any(cells[i] for _, cells in shown)]
    few = [(k, [cells[i] for i in kept]) for k, cells in shown]
    return Phases(title, [columns[i] for i in kept], few, more if len(rows) > PHASES else "")


# -- per intention -----------------------------------------------------------------------------------------------------


def choices(explorer: Mapping[str, Any], names: Sequence[str]) -> list[SimpleNamespace]:
    """The policy of each intention as a table state × action; the largest differences to the others are marked.

    A row has the name of a state, its number of steps, and for each action its share in per cent (None where there is
    none) and whether it is marked.
    """
    if explorer.get("choices") is None:
        return []
    counts = np.array(explorer["choices"], float)
    K, S, A = counts.shape
    visits = counts.sum(axis=(0, 2))
    states = np.argsort(-visits, kind="stable")[:STATES]
    named = {s: name_of(explorer, "state", int(s)) for s in states[visits[states] > 0].tolist()}
    states = np.array(sorted(named, key=lambda s: _in_order(named[s])), np.int64)
    actions = np.sort(np.argsort(-counts.sum(axis=(0, 1)), kind="stable")[:ACTIONS])
    n = counts.sum(axis=2)
    shares, apart = differences(counts)
    cut = f"The {len(states)} most visited of {S} states. " if len(states) < (visits > 0).sum() else ""
    cut += f"The {len(actions)} most frequent of {A} actions. " if len(actions) < A else ""
    acts = [name_of(explorer, "action", int(a)) for a in actions]
    found = []
    for k in range(K):
        order = np.sort(apart[k].ravel())[::-1]
        limit = max(APART, float(order[min(MARKS, len(order)) - 1]))
        rows = []
        for s in states:
            known = n[k, s] >= 0.5
            cells = [
                (round(100 * float(shares[k, s, a]), 1) if known else None, bool(apart[k, s, a] >= limit))
                for a in actions
            ]
            rows.append((name_of(explorer, "state", int(s)), f"{n[k, s]:,.0f}", cells))
        own = {"k": k, "name": names[k], "color": intention_color(k), "actions": acts, "rows": rows}
        found.append(SimpleNamespace(**own, first=rows[:FIRST_ROWS], remark=cut))
    return found


def _in_order(name: str) -> list[tuple[float, str]]:
    """What names are sorted by: numbers in them by their size, so that 25% stands before 100%."""
    parts = re.split(r"((?<!\w)-?\d+(?:\.\d+)?|\d+(?:\.\d+)?)", name)
    return [(float(part), "") if i % 2 else (0.0, part) for i, part in enumerate(parts)]  # words and numbers in turn


def differences(counts: Any) -> tuple[Any, Any]:
    """Shares (K, S, A) of actions, and how far they are above those of the other intentions; 0 where there are few."""
    n, others = counts.sum(axis=2), counts.sum(axis=0) - counts
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = counts / n[..., None]
        apart = shares - others / others.sum(axis=2, keepdims=True)
    enough = (n >= FEW) & (others.sum(axis=2) >= FEW)
    return shares, np.where(enough[..., None], np.nan_to_num(apart), 0.0)


def transitions(explorer: Mapping[str, Any], names: Sequence[str], step: float | None = None) -> list[SimpleNamespace]:
    """How intentions follow one another: of 100 switches out of each, how many go where; its dwell and switches."""
    K = int(explorer["n_intentions"])
    if K == 1:
        return []
    counts = np.zeros((K, K))
    for i, j, n in explorer["story"]["switches"]["pairs"]:
        counts[i, j] = n
    rows = []
    for k, one in enumerate(explorer["story"]["wants"]):
        out = counts[k].sum()
        cells = ["·" if j == k else f"{100 * counts[k, j] / out:.0f}%" if out else "–" for j in range(K)]
        dwell, lasts = ("–", "") if one["dwell"] is None else (f"{one['dwell']:.1f}", in_seconds(one["dwell"], step))
        shown = {"k": k, "name": names[k], "color": intention_color(k), "cells": cells, "dwell": dwell, "lasts": lasts}
        rows.append(SimpleNamespace(**shown, switches=f"{out:,.0f}"))
    return rows
