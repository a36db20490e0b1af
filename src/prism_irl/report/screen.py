"""The first screen of a page: the answer in a sentence, all intentions on one map, and what the agent did in turn.

Everything is read from explorer.json and metrics.json. Templates lay it out; here numbers become words and shapes.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from math import cos, pi, sin, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prism_irl.figures.palette import intention_color
from prism_irl.report.answers import BETWEEN, HEADS_FOR, goals_in_words
from prism_irl.report.findings import listed, mapping, number
from prism_irl.report.fit_verdict import evidence_finding
from prism_irl.report.run_files import inside

NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight")
NAMED = 4  # intentions of which the sentence says what they are after
WIDE, HIGH = 560.0, 400.0  # of the map, pixels
LABELS = 2  # places of an intention that have a name on the map
PHASES = 150  # rows of the table at most
TRIPS = "trips.csv"
STATES, ACTIONS = 24, 12  # rows and columns of a table of choices at most
FEW = 5.0  # choices in a state below which its shares are those of chance
APART = 0.15  # share from which on a difference to the other intentions is marked


class Aim(NamedTuple):
    """One intention in the sentence."""

    k: int
    name: str
    color: str
    text: str


class Answer(NamedTuple):
    """The sentence: what stands before the intentions, these, and what stands behind them."""

    level: str
    before: str
    aims: list[Aim]
    after: str


def answer(metrics: Mapping[str, Any], explorer: Mapping[str, Any], names: Sequence[str]) -> Answer:
    """Are there intentions, how many, what are they after, and how sure is that: one sentence."""
    wants = explorer["story"]["wants"]
    used = [k for k, one in enumerate(wants) if one["leads_to"]]
    if len(wants) == 1:
        return Answer("info", "One policy for all steps: it ", [Aim(0, "", "", _aim(0, explorer))], ".")
    if explorer.get("movement"):
        return _demonstrated(explorer, names, used)
    finding = evidence_finding(metrics)
    p = number(mapping(metrics.get("evidence")).get("p_value"))
    sure = {
        "good": f"beyond habit (p = {p:.2g})" if p is not None else "beyond habit",
        "bad": f"in this fit, but no evidence for them beyond habit (p = {p:.2g})" if p is not None else "in this fit",
    }.get(finding.level, "in this fit, not tested against a habit yet")
    goals = goals_in_words(metrics)
    most = sorted(used, key=lambda k: -float(wants[k]["share"]))
    count = NUMBERS[len(used)] if len(used) < len(NUMBERS) else str(len(used))
    plural = "" if len(used) == 1 else "s"
    aims = [
        Aim(k, names[k], intention_color(k), goals.get(k, "").removesuffix(". It ") or _aim(k, explorer))
        for k in sorted(most[:NAMED])
    ]
    after = f", and {len(used) - NAMED} more." if len(used) > NAMED else "."
    return Answer(finding.level, f"{count} intention{plural} {sure}: ", aims, after)


def _demonstrated(explorer: Mapping[str, Any], names: Sequence[str], used: Sequence[int]) -> Answer:
    """How many phases, and what the robot does in them, in the order in which they come."""
    does = explorer["movement"]["does"]
    count = NUMBERS[len(used)] if len(used) < len(NUMBERS) else str(len(used))
    aims = [Aim(k, names[k], intention_color(k), f"({does[k]})") for k in used[:NAMED]]
    after = f", and {len(used) - NAMED} more." if len(used) > NAMED else "."
    return Answer("info", f"{count} phase{'' if len(used) == 1 else 's'}: ", aims, after)


def _aim(k: int, explorer: Mapping[str, Any]) -> str:
    """What an intention is after, in a few words: a place where there is a map, else what sets it apart."""
    one = explorer["story"]["wants"][k]
    if not one["leads_to"]:
        return "is never used"
    apart = [f"{'is in' if what == 'state' else 'does'} {_name(explorer, what, int(i))} {100 * own:.0f}%"
             for what, i, own, _ in one.get("more", [])]  # fmt: skip
    layout = explorer.get("layout")
    if layout is None:
        return _chooses(k, explorer) or (apart[-1] + " of the time" if apart else _acts(one, explorer))
    if layout["kind"] == "cells":  # places have no names but what was measured there
        return "is mostly around " + _name(explorer, "state", int(one["leads_to"][0][0])).partition("(")[2].rstrip(")")
    (state, share), rest = one["leads_to"][0], [one["leads_to"][i] for i in range(1, len(one["leads_to"]))]
    if share >= HEADS_FOR:
        return f"heads for {_name(explorer, 'state', int(state))}"
    if share + sum(more for _, more in rest) >= BETWEEN:
        return "moves between " + listed([_name(explorer, "state", int(s)) for s, _ in one["leads_to"]])
    return "roams" if not apart else f"roams, and {apart[0]} of the time"


def _chooses(k: int, explorer: Mapping[str, Any]) -> str:
    """The choice that sets an intention apart from the others most, where something does."""
    if explorer.get("choices") is None or explorer["n_intentions"] == 1:
        return ""
    shares, apart = _differences(np.array(explorer["choices"], float))
    s, a = np.unravel_index(int(np.argmax(apart[k])), apart[k].shape)
    if apart[k, s, a] < APART:
        return ""
    act, state = _name(explorer, "action", int(a)), _name(explorer, "state", int(s))
    return f"does {act} in {100 * shares[k, s, a]:.0f}% of {state}"


def _acts(one: Mapping[str, Any], explorer: Mapping[str, Any]) -> str:
    acts = [f"{_name(explorer, 'action', int(a))} {100 * share:.0f}%" for a, share in one["acts"][:2]]
    return f"does {listed(acts)} of the time"


def _name(explorer: Mapping[str, Any], what: str, i: int) -> str:
    names = explorer.get(f"{what}s")
    return str(names[i]) if names else f"{what} {i}"


# -- the map -----------------------------------------------------------------------------------------------------------


class Slice(NamedTuple):
    """A part of a place in the colour of an intention, as a path of SVG."""

    path: str
    color: str


class Place(NamedTuple):
    """One state on the map: its centre, radius, slices, and what a pointer reads."""

    x: float
    y: float
    r: float
    slices: list[Slice]
    title: str
    closed: bool
    seen: bool


class Label(NamedTuple):
    """Name of a place that an intention leads to."""

    x: float
    y: float
    text: str
    k: int
    color: str


class Picture(NamedTuple):
    """The map: its size, cells of a grid or discs, lines between places (x1, y1, x2, y2), walls, and labels."""

    width: float
    height: float
    cell: float  # side of a cell; 0 where places are discs
    places: list[Place]
    lines: list[tuple[float, float, float, float]]
    walls: list[tuple[float, float, float, float]]
    labels: list[Label]
    note: str


def picture(explorer: Mapping[str, Any], names: Sequence[str]) -> Picture | None:
    """All intentions on one map: in each place its time by intention, as slices; None where states have no places."""
    layout = explorer.get("layout")
    if layout is None:
        return None
    xy = {s: (float(point[0]), float(point[1])) for s, point in enumerate(layout["xy"]) if point is not None}
    wants, grid = explorer["story"]["wants"], layout["kind"] == "grid"
    time = np.array(explorer["occupancy"], float) * np.array([one["share"] for one in wants])[:, None]
    points = np.array(list(xy.values()))
    low, size = points.min(axis=0), np.maximum(np.ptp(points, axis=0), 1e-9)
    gap = 1.0 if grid else _gap(points, [(xy[i], xy[j]) for i, j in layout["edges"] if i in xy and j in xy])
    pad = 0.6 * gap + (0.0 if grid else 0.02 * float(size.max()))
    scale = float(min(WIDE / (size[0] + 2 * pad), HIGH / (size[1] + 2 * pad)))
    width, height = (float(scale * (s + 2 * pad)) for s in size)

    def at(x: float, y: float) -> tuple[float, float]:
        return round(scale * (x - low[0] + pad), 1), round(height - scale * (y - low[1] + pad), 1)

    total = time.sum(axis=0)
    largest = float(total.max()) or 1.0
    most = (0.46 if grid else 0.42) * gap * scale
    places = []
    for s, point in xy.items():
        x, y = at(*point)
        r = max(most * sqrt(total[s] / largest), min(3.0, most)) if total[s] > 0 else 0.0
        shares = time[:, s] / total[s] if total[s] > 0 else np.zeros(len(time))
        words = ", ".join(f"{names[k]} {100 * v:.0f}%" for k, v in enumerate(shares) if v >= 0.005)
        title = f"{_name(explorer, 'state', s)}: {words or 'never visited'}"
        closed = s in layout["barriers"]
        places.append(Place(x, y, round(r, 1), _slices(x, y, r, shares), title, closed, bool(total[s] > 0)))
    ends = [(at(*xy[i]), at(*xy[j])) for i, j in layout["edges"] if i in xy and j in xy] if not grid else []
    walls = [(at(a, b), at(c, d)) for a, b, c, d in layout.get("walls") or []]
    labels = _labels(explorer, names, {s: (p.x, p.y, p.r) for s, p in zip(xy, places, strict=True)})
    return Picture(
        round(width, 1), round(height, 1), round(0.92 * scale, 1) if grid else 0.0, places,
        [(*a, *b) for a, b in ends], [(*a, *b) for a, b in walls], labels, str(layout["note"]),
    )  # fmt: skip


def _gap(points: Any, edges: Sequence[tuple[Any, Any]]) -> float:
    """Distance between neighbours, by which places are as large as there is room."""
    if edges:
        lengths = [sqrt((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) for a, b in edges]
        known = [length for length in lengths if length > 0]
        if known:
            return float(np.quantile(known, 0.25))
    return float(np.ptp(points, axis=0).max() / max(sqrt(len(points)), 1.0)) or 1.0


def _slices(x: float, y: float, r: float, shares: Any) -> list[Slice]:
    found, angle = [], -pi / 2
    for k, share in enumerate(shares):
        if share <= 0.005 or r <= 0:
            continue
        if share >= 0.995:
            path = f"M{x - r:.1f} {y}a{r:.1f} {r:.1f} 0 1 0 {2 * r:.1f} 0a{r:.1f} {r:.1f} 0 1 0 {-2 * r:.1f} 0z"
            return [Slice(path, intention_color(k))]
        end = angle + 2 * pi * float(share)
        ends = [(x + r * cos(a), y + r * sin(a)) for a in (angle, end)]
        path = f"M{x} {y}L{ends[0][0]:.1f} {ends[0][1]:.1f}"
        path += f"A{r:.1f} {r:.1f} 0 {int(share > 0.5)} 1 {ends[1][0]:.1f} {ends[1][1]:.1f}z"
        found.append(Slice(path, intention_color(k)))
        angle = end
    return found


def _labels(
    explorer: Mapping[str, Any], names: Sequence[str], at: Mapping[int, tuple[float, float, float]]
) -> list[Label]:
    """Names of the places that intentions lead to, where they do not lie on one another."""
    labels: list[Label] = []
    cells = explorer["layout"]["kind"] == "cells"  # whose names are numbers in brackets
    for k, one in enumerate(explorer["story"]["wants"]):
        for s, share in one["leads_to"][:LABELS]:
            if share < 0.1 or int(s) not in at:
                continue
            x, y, r = at[int(s)]
            text = str(int(s)) if cells else _name(explorer, "state", int(s))
            text = text if len(text) <= 18 else text[:17] + "…"
            x = min(max(x, 3.4 * len(text)), max(WIDE - 3.4 * len(text), 3.4 * len(text)))
            sides = (y - r - 4, y + r + 12)
            free = next((side for side in sides if side > 10 and not _covered(labels, x, side, text)), None)
            if free is not None and all(label.text != text for label in labels):
                labels.append(Label(x, round(free, 1), text, k, intention_color(k)))
    return labels


def _covered(labels: Sequence[Label], x: float, y: float, text: str) -> bool:
    return any(abs(one.x - x) < 3.6 * (len(one.text) + len(text)) and abs(one.y - y) < 13 for one in labels)


# -- phases and trips --------------------------------------------------------------------------------------------------


class Phases(NamedTuple):
    """A table of what the agent did in turn: titles, rows (text of each cell), the intention of each row, a remark."""

    title: str
    columns: list[str]
    rows: list[tuple[int | None, list[str]]]
    remark: str


def phases(folder: Path, explorer: Mapping[str, Any], names: Sequence[str]) -> Phases:
    """Trips where the run has them, else the phases of the trajectories that the page shows."""
    path = folder / TRIPS
    if path.is_file() and inside(path, folder):
        with path.open(newline="", encoding="utf-8") as file:
            table = list(csv.DictReader(file))
        if table:
            columns = list(table[0])
            kinds = [_whole(row.get("intention")) for row in table[:PHASES]]
            rows = [(k, [str(row[c] or "") for c in columns]) for k, row in zip(kinds, table, strict=False)]
            remark = f"The first {PHASES} of {len(table):,} trips; all are in {TRIPS}." if len(table) > PHASES else ""
            return Phases("Trips", [c.replace("_", " ") for c in columns], rows, remark)
    found = []
    K, moves = int(explorer["n_intentions"]), bool(explorer.get("movement"))
    for one in explorer["trajectories"]:
        p = np.array(one["p"]).reshape(-1, K)
        z = p.argmax(axis=1)
        begins = [0, *(np.flatnonzero(z[1:] != z[:-1]) + 1).tolist()]
        for begin, end in zip(begins, [*begins[1:], len(z)], strict=True):
            marks = [name for name, steps in one.get("events", {}).items() if any(begin <= t < end for t in steps)]
            ends = [] if moves else [_name(explorer, "state", one["states"][t]) for t in (begin, end - 1)]
            sure = f"{p[begin:end, z[begin]].mean() / 10:.0f}%"
            cells = [str(one["name"]), str(begin), str(end - begin), *ends, sure, ", ".join(marks)]
            found.append((int(z[begin]), cells))
    columns = ["trajectory", "from step", "steps", *([] if moves else ["begins in", "ends in"]), "sure", "events"]
    if not explorer.get("events"):
        columns, found = columns[:-1], [(k, cells[:-1]) for k, cells in found]
    shown = found[:PHASES]
    remark = (
        f"The first {len(shown)} of {len(found):,} phases of the trajectories shown." if len(found) > PHASES else ""
    )
    return Phases("Phases", columns, [(k, cells) for k, cells in shown], remark)


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


# -- per intention -----------------------------------------------------------------------------------------------------


class Choice(NamedTuple):
    """One cell of a table of choices: the share of an action in a state, in per cent, and whether it is marked."""

    percent: float | None
    marked: bool


class Choices(NamedTuple):
    """What an intention does where: actions, and for each state its name, its number of steps and its cells."""

    k: int
    name: str
    color: str
    actions: list[str]
    rows: list[tuple[str, str, list[Choice]]]
    remark: str


def choices(explorer: Mapping[str, Any], names: Sequence[str]) -> list[Choices]:
    """The policy of each intention as a table state × action; the largest differences to the others are marked."""
    if explorer.get("choices") is None:
        return []
    counts = np.array(explorer["choices"], float)
    K, S, A = counts.shape
    states = np.argsort(-counts.sum(axis=(0, 2)), kind="stable")[:STATES]
    states = states[counts.sum(axis=(0, 2))[states] > 0]
    actions = np.sort(np.argsort(-counts.sum(axis=(0, 1)), kind="stable")[:ACTIONS])
    n = counts.sum(axis=2)
    shares, apart = _differences(counts)
    cut = f"The {len(states)} most visited of {S} states. " if len(states) < (n.sum(axis=0) > 0).sum() else ""
    cut += f"The {len(actions)} most frequent of {A} actions. " if len(actions) < A else ""
    found = []
    for k in range(K):
        order = np.sort(apart[k].ravel())[::-1]
        limit = max(APART, float(order[min(2 * 3, len(order) - 1)]))
        rows = []
        for s in states:
            cells = [
                Choice(None if n[k, s] < 0.5 else round(100 * float(shares[k, s, a]), 1), bool(apart[k, s, a] >= limit))
                for a in actions
            ]
            rows.append((_name(explorer, "state", int(s)), f"{n[k, s]:,.0f}", cells))
        acts = [_name(explorer, "action", int(a)) for a in actions]
        found.append(Choices(k, names[k], intention_color(k), acts, rows, cut))
    return found


def _differences(counts: Any) -> tuple[Any, Any]:
    """Shares (K, S, A) of actions, and how far they are from those of the other intentions; 0 where there are few."""
    n, others = counts.sum(axis=2), counts.sum(axis=0) - counts
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = counts / n[..., None]
        apart = np.abs(shares - others / others.sum(axis=2, keepdims=True))
    enough = (n >= FEW) & (others.sum(axis=2) >= FEW)
    return shares, np.where(enough[..., None], np.nan_to_num(apart), 0.0)


class Follows(NamedTuple):
    """One row of the transition matrix: its dwell, and of its switches the share to each other one."""

    k: int
    name: str
    color: str
    dwell: str
    visits: str
    cells: list[str]


def transitions(explorer: Mapping[str, Any], names: Sequence[str]) -> list[Follows]:
    """How intentions follow one another: of 100 switches out of each, how many go where."""
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
        dwell = "–" if one["dwell"] is None else f"{one['dwell']:.1f}"
        rows.append(Follows(k, names[k], intention_color(k), dwell, f"{out:,.0f}", cells))
    return rows


def first_rows(tables: Sequence[Choices], most: int) -> list[Choices]:
    """The same tables with at most so many rows, for the first screen of a task without a map."""
    return [table._replace(rows=table.rows[:most]) for table in tables]
