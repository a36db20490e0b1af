"""The tables of the report as plain rows of text: methods side by side, the numbers of a fit, its intentions.

Numbers become text here and nowhere else, so that the template only lays out. Columns that no method fills are left
out; columns that we did not foresee (``evd_goal``, ``ari``, …) appear by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from prism_irl.evaluation.result import FitResult
from prism_irl.figures.palette import intention_color
from prism_irl.report.names import default_names
from prism_irl.report.verdict import (
    REFERENCES,
    WORSE,
    in_seconds,
    is_evidence,
    is_selection,
    mapping,
    method_name,
    number,
    reference_name,
    scored_part,
    signed,
    spread,
    templates,
)

NOTHING = "–"


class Cell(NamedTuple):
    """Text, its spread, the number behind it (to sort by), whether it is the best of its column, a mark beside it."""

    text: str
    spread: str = ""
    value: float | None = None
    best: bool = False
    mark: str = ""


class Column(NamedTuple):
    """How one entry of metrics.json becomes a column."""

    key: str
    title: str
    unit: str = ""
    digits: int = 3
    percent: bool = False
    best: int = 0  # 1: larger is better, −1: smaller is better, 0: neither


class Table(NamedTuple):
    """Titles, and one row of cells per method."""

    columns: list[Column]
    rows: list[tuple[str, str, list[Cell]]]  # name, class, cells


_COLUMNS = (
    Column("predictive_ll", "predictive LL", "nats per step", best=1),
    Column("paper_score", "paper score", "nats per step"),
    Column("paper_reported", "reported in the paper", "nats per step"),
    Column("label_accuracy", "label accuracy", "of steps", 1, percent=True, best=1),
    Column("ari", "ARI", best=1),
    Column("boundary_f1", "boundary F1", best=1),
    Column("mean_dwell", "mean dwell", "steps", 1),
    Column("agreement", "agreement", "of starts", 2, best=1),
    Column("gain", "gain", "over the row above", 4),
    Column("gain_over_habit", "gain", "over the habit", 4),
    Column("evidence_found", "evidence found", "data sets", 0),
    Column("data_sets", "of", "data sets", 0),
    Column("gain_low", "gain, low", "95% interval", 4),
    Column("gain_high", "gain, high", "95% interval", 4),
)
_DECIDES = (
    "predictive_ll",
    "standard_error",
    "gain",
    "gain_error",
    "agreement",
    "shown_agreement",
    "minimum_use",
    "minimum_dwell",
    "mean_dwell",
)
_LAST = (
    Column("n_parameters", "parameters", "estimated", 0),
    Column("aic", "AIC", "training data", 0),
    Column("bic", "BIC", "training data", 0),
    Column("fit_seconds", "fit time", "seconds", 1),
)
_ABBREVIATIONS = {"evd": "EVD", "ari": "ARI", "nmi": "NMI", "f1": "F1", "ll": "LL", "em": "EM", "s0": "s₀", "k": "K"}


def method_table(metrics: Mapping[str, Any]) -> Table:
    """Return the method table: every number that at least one method has, both likelihood columns always."""
    methods = {str(key): dict(mapping(value)) for key, value in mapping(metrics.get("methods")).items()}
    for method in methods.values():
        if method.get("n_intentions") == 1:  # nothing that could change: the length of a trajectory says nothing here
            method["mean_dwell"] = None
    known = {column.key for column in (*_COLUMNS, *_LAST)} | {"n_intentions"}  # which the names say
    further: dict[str, Column] = {}
    for method in methods.values():
        for key in method:
            if key not in known and number(method[key]) is not None:
                title = " ".join(_ABBREVIATIONS.get(word, word) for word in key.split("_"))
                further.setdefault(key, Column(key, title))
    always = {"predictive_ll"} if is_evidence(metrics) else {"predictive_ll", "paper_score"}
    always = always if any("predictive_ll" in method for method in methods.values()) else set()
    columns = [
        column
        for column in (*_COLUMNS, *further.values(), *_LAST)
        if column.key in always or any(number(method.get(column.key)) is not None for method in methods.values())
    ]
    if is_selection(metrics):  # what decides stands first, and agreement is that of halves
        columns = [column._replace(unit="of halves") if column.key == "agreement" else column for column in columns]
        columns.sort(key=lambda column: _DECIDES.index(column.key) if column.key in _DECIDES else len(_DECIDES))
    best = {column.key: _best(column, methods) for column in columns}
    recommended = f"k{metrics['recommended']}" if is_selection(metrics) else None
    rows = [
        (
            method_name(key, method),
            "oracle" if key == "oracle" else "recommended" if key == recommended else "reference" * (key in REFERENCES),
            [_cell(method, column, best[column.key] if key != "oracle" else None) for column in columns],
        )
        for key, method in methods.items()
    ]
    return Table(columns, rows)


def method_bar_rows(metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what `figures.charts.method_bars` draws: predictive scores, and the paper scores that leak."""
    rows: list[dict[str, Any]] = []
    for key, entry in mapping(metrics.get("methods")).items():
        method = mapping(entry)
        name, score, paper = method_name(key, method), method.get("predictive_ll"), method.get("paper_score")
        if key != "oracle" and (mean := number(score)) is not None:
            rows.append({"name": name, "mean": mean, "std": spread(score), "is_likelihood": True})
        if method.get("leaks") and (mean := number(paper)) is not None:
            row = {"name": f"{name},\npaper score", "mean": mean, "std": spread(paper), "is_likelihood": False}
            rows.append(row | {"reference": number(method.get("paper_reported"))})
    return rows


def reference_rows(metrics: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return uniform, one intention and habit, then the fit, by their predictive LL on the same trajectories."""
    part = scored_part(metrics)
    own = number(mapping(metrics.get("predictive_ll")).get(part))
    rows = []
    for key, entry in mapping(metrics.get("references")).items():
        score = number(mapping(mapping(entry).get("predictive_ll")).get(part))
        if score is not None and own is not None:
            name = f"{reference_name(str(key))} ({mapping(entry).get('name') or key})"
            kind = "worse" if score > own + WORSE else ""
            rows.append({"name": name, "text": signed(score, 4), "difference": signed(own - score, 4), "kind": kind})
    if not rows or own is None:
        return []
    return [*rows, {"name": "this fit", "text": signed(own, 4), "difference": NOTHING, "kind": "own"}]


def budget_rows(metrics: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the budget of predictability: a model, its likelihood, its gain over the row above, and intervals."""
    found = metrics.get("budget")
    rows = []
    for row in map(mapping, found if isinstance(found, list) else []):
        score, *others = (
            number(row.get(key)) for key in ("predictive_ll", "low", "high", "gain", "gain_low", "gain_high")
        )
        if score is not None:
            low, high, gain, *ends = (NOTHING if value is None else signed(value, 4) for value in others)
            rows.append({"name": str(row.get("name") or row.get("id") or ""), "score": signed(score, 4), "gain": gain})
            rows[-1] |= {"interval": _between(low, high), "gain_interval": _between(*ends)}
    return rows


def _between(low: str, high: str) -> str:
    return NOTHING if NOTHING in (low, high) else f"{low} to {high}"


def intention_rows(metrics: Mapping[str, Any], names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return share of steps and mean dwell of each intention, as far as they are known, with their intervals."""
    columns = [metrics.get(key) for key in ("usage", "dwell_per_intention")]
    known = [list(map(number, column)) if isinstance(column, list) else [] for column in columns]
    rows, step, n = [], number(metrics.get("step_seconds")), max(map(len, known))
    called = default_names(n) if names is None else names
    for k in range(n):
        share, dwell = (values[k] if k < len(values) else None for values in known)
        rows.append(
            {
                "name": called[k],
                "color": intention_color(k),
                "share": NOTHING if share is None else f"{100 * share:.1f}%",
                "percent": min(100.0, max(0.0, 100 * (share or 0.0))),
                "dwell": NOTHING if dwell is None else signed(dwell, 1),
                "lasts": "" if dwell is None else in_seconds(dwell, step),
                "share_interval": _interval(metrics, "usage", k, 100, "%"),
                "dwell_interval": _interval(metrics, "dwell", k, 1, ""),
            }
        )
    return rows


def _interval(metrics: Mapping[str, Any], name: str, k: int, factor: float, unit: str) -> str:
    """The interval that a bootstrap found for intention k, as text; nothing where there was none."""
    ends = mapping(mapping(mapping(metrics.get("intervals")).get("numbers")).get(name)).get("interval")
    if not (isinstance(ends, list) and len(ends) == 2 and all(isinstance(end, list) and k < len(end) for end in ends)):
        return ""
    known = [signed(factor * end, 1) for end in (number(ends[0][k]), number(ends[1][k])) if end is not None]
    return " to ".join(known) + unit if len(known) == 2 else ""


def _cell(method: Mapping[str, Any], column: Column, best: float | None) -> Cell:
    entry = method.get(column.key)
    value, deviation = number(entry), spread(entry)
    if value is None:
        return Cell(NOTHING)
    factor, suffix = (100, "%") if column.percent else (1, "")
    text = signed(factor * value, column.digits) + suffix
    around = "" if not deviation else f"± {signed(factor * deviation, column.digits)}"
    leaking = column.key in ("paper_score", "paper_reported") and bool(method.get("leaks"))
    return Cell(text, around, value, value == best, "not a likelihood" if leaking else "")


def _best(column: Column, methods: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return the best value of a column among the methods; the oracle does not compete."""
    values = (number(method.get(column.key)) for key, method in methods.items() if key != "oracle")
    found = sorted(value for value in values if value is not None)
    return found[-1 if column.best > 0 else 0] if column.best and len(found) > 1 else None


# -- model.summary(): a fit on one screen, as a statistics package prints it -------------------------------------------


def summary_text(result: FitResult, names: Sequence[str]) -> str:
    """Return the text; ``names`` are those of the K intentions."""
    shown, scores, rows = result.shown.demos, result.scores["predictive_ll"], []
    for k, name in enumerate(names):
        p = result.shown.probabilities[:, k]
        time = np.bincount(shown.states, weights=p, minlength=shown.n_states) / max(float(p.sum()), 1e-12)
        most = [
            (shown.state_names[s] if shown.state_names else s, time[s]) for s in np.argsort(-time, kind="stable")[:3]
        ]
        places = ", ".join(f"{place} {100 * share:.0f}%" for place, share in most if share >= 0.01)
        rows.append((_cut(name, 23), result.usage[k], _number(result.dwell.per_intention[k], 1), _cut(places, 36)))
    unit, em = "Log density/step" if result.density else "Log-lik./step", result.em
    found = {
        "Method": result.method,
        f"{unit} (train)": _number(scores["train"]),
        "Switching + rewards": result.pair or "–",
        f"{unit} (validation)": _number(scores["validation"]),
        "Intentions": result.n_intentions,
        "Mean dwell (steps)": f"{result.dwell.mean:.1f}",
        "Trajectories": f"{len(result.demos):,}",
        "Restart stability": _number(result.agreement, 2),
        "Steps": f"{result.demos.n_steps:,}",
    }
    if em is not None:
        found["EM iterations"] = f"{em['iterations']} ({'converged' if em['converged'] else 'stopped'})"
    counts = result.transitions / np.maximum(result.transitions.sum(axis=1, keepdims=True), 1)
    notes = [line for note in result.notes for line in wrap(note, 78)]
    facts = {"found": list(found.items()), "rows": rows, "switches": counts, "leaks": result.leaks, "notes": notes}
    return templates().get_template("summary.j2").render(facts).rstrip()


def _number(value: float | None, digits: int = 4) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
