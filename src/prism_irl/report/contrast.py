"""Contrasts of a run in its report: `contrasts/COLUMN.json` as sentences and a table, one section per column."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from prism_irl.report.names import default_names
from prism_irl.report.screen import in_seconds
from prism_irl.report.verdict import Finding, doubts, listed, number, say, signed
from prism_irl.storage import read_part

FOLDER = "contrasts"
MAX_BYTES = 4_000_000
LEVEL = 0.05
QUESTIONS = {
    "usage": "usage",
    "dwell": "dwell",
    "switch_rate": "switch rate",
    "kernel": "rates from one intention to another",
    "occupancy": "places",
    "reward": "reward",
}
UNITS = {"share": "of the steps"}
"""How a sentence says the unit of a measure, where it is not the unit's own word."""
OWN_NULL = (
    "These p come from exchanging the conditions of whole animals, and hold whether or not the labels are intentions; "
    "whether they are is another question."
)


class Row(NamedTuple):
    """One line of the table, as text."""

    what: str
    unit: str
    cells: list[str]
    clear: bool


class Section(NamedTuple):
    """One contrast on the page; ``columns`` are headings of the cells, each with a remark."""

    key: str
    title: str
    findings: list[Finding]
    columns: list[tuple[str, str]]
    rows: list[Row]
    how: str
    methods: str


def file_stem(column: str) -> str:
    """Name of the files of a contrast by ``column``."""
    return re.sub(r"[^\w-]+", "_", column) or "_"


def model_digest(folder: Path) -> str:
    """Checksum of the model of a run: a contrast of an earlier fit in the same folder says nothing of this one."""
    path = folder / "model.safetensors"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def read_contrasts(folder: Path) -> list[dict[str, Any]]:
    """All contrasts of a run, in the order of their names; those of an earlier fit are left out."""
    found = []
    for path in sorted((folder / FOLDER).glob("*.json")):
        part = read_part(folder / FOLDER, path.name, MAX_BYTES, _is_whole, "this contrast")
        if part is not None and part["model"] == model_digest(folder):
            found.append(part)
    return found


def _is_whole(value: dict[str, Any]) -> bool:
    return (
        isinstance(value["by"], str)
        and isinstance(value["model"], str)
        and len(value["levels"]) >= 2
        and all(test["measure"] in QUESTIONS for test in value["tests"])
        and isinstance(value["n_units"], int)
    )


def section(contrast: Mapping[str, Any], names: Sequence[str] | None, fit: Mapping[str, Any]) -> Section:
    """What the page says of one contrast; ``fit`` is the metrics.json of the fit whose intentions are compared."""
    names = names or default_names(int(contrast["n_intentions"]))
    levels = list(contrast["levels"])
    title = f"{contrast['by']}: {listed(levels[1:])} against {levels[0]}"
    compared = [f"{levels[-1]} − {levels[0]}", "95% interval"] if len(levels) == 2 else ["which differ"]
    found = doubts(fit)  # about the intentions, which p does not say
    if found and contrast["enough_units"]:
        found = [Finding("info", OWN_NULL), *found]
    return Section(
        file_stem(contrast["by"]),
        title,
        findings(contrast, names) + found,
        [(heading, "") for heading in (*levels, *compared, "p")] + [("adjusted p", "all questions")],
        [_row(test, names, _of_pairs(contrast, test), number(fit.get("step_seconds"))) for test in contrast["tests"]],
        say("how_compared", one=contrast),
        say("contrast_methods", one=contrast),
    )


def in_words(contrast: Mapping[str, Any], names: Sequence[str] | None, fit: Mapping[str, Any]) -> str:
    """The whole contrast in a few sentences."""
    return " ".join(finding.text for finding in section(contrast, names, fit).findings)


def findings(contrast: Mapping[str, Any], names: Sequence[str]) -> list[Finding]:
    """What differs, what was not found to differ, and what cannot be said."""
    found = [Finding("warning", say("left_out", one=contrast))] if contrast["left_out"] else []
    if not contrast["enough_units"]:
        return [Finding("bad", say("too_few", one=contrast)), *found]
    clear = [test for test in contrast["tests"] if test["p_adjusted"] <= LEVEL]
    for name in QUESTIONS:
        own = sorted((t for t in clear if t["measure"] == name), key=lambda t: (t["p_adjusted"], t["p"]))
        found += [Finding("info", _sentence(test, contrast, names)) for test in own]
    missing = [QUESTIONS[name] for name in QUESTIONS if any(t["measure"] == name for t in contrast["tests"])]
    missing = [words for words in missing if words not in {QUESTIONS[t["measure"]] for t in clear}]
    return found + ([Finding("info", say("not_found", one=contrast, questions=missing))] if missing else [])


def _of_pairs(contrast: Mapping[str, Any], test: Mapping[str, Any]) -> list[str]:
    """Pairs of conditions that differ clearly in the question of a test, of three conditions or more."""
    found = []
    for pair in contrast.get("pairs") or []:
        same = ("measure", "intention", "to")
        own = next(t for t in pair["tests"] if all(t.get(key) == test.get(key) for key in same))
        if own["p_adjusted"] is not None and own["p_adjusted"] <= LEVEL:
            one, two = pair["levels"]
            by = "" if own["interval"] is None else f" {_number(own['difference'], test)}"
            found.append(f"{two} − {one}{by} (p = {_p(own['p_adjusted'])})")
    return found


def _sentence(test: Mapping[str, Any], contrast: Mapping[str, Any], names: Sequence[str]) -> str:
    place, states = "", contrast.get("state_names")
    if test.get("state"):
        most = test["state"]["state"]
        place = f"state {most}" if not states else str(states[most])
    return say(
        "difference",
        one=contrast,
        test=test,
        what=_what(test, names),
        unit=UNITS.get(test["unit"], test["unit"]),
        p=_p(test["p_adjusted"]),
        place=place,
        values=[_number(value, test) for value in test["values"] or ()],
        ends=[_number(end, test) for end in test["interval"] or ()],
        by=_number(test["difference"], test),
        pairs=_of_pairs(contrast, test),
    )


def _what(test: Mapping[str, Any], names: Sequence[str]) -> str:
    names_of: Mapping[str, str] = {"switch_rate": "switch rate", "kernel": "rate of going"}
    name = names_of.get(test["measure"], str(test["measure"]))
    if test["intention"] is None:
        return name
    if test.get("to") is not None:
        return f"{name} from {names[test['intention']]} to {names[test['to']]}"
    return f"{name} of {names[test['intention']]}"


def _p(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}" if value >= 0.0001 else "< 0.0001"


def _row(test: Mapping[str, Any], names: Sequence[str], pairs: Sequence[str], step: float | None) -> Row:
    n = len(test["groups"])
    values = [_number(value, test, step) for value in test["values"] or [None] * n]
    ends = [_number(end, test) for end in test["interval"] or ()]
    between = " to ".join(ends) if ends and "–" not in ends else "–"
    compared = [_number(test["difference"], test), between] if n == 2 else ["; ".join(pairs) or "–"]
    clear = test["p_adjusted"] is not None and test["p_adjusted"] <= LEVEL
    return Row(_what(test, names), test["unit"], [*values, *compared, _p(test["p"]), _p(test["p_adjusted"])], clear)


def _number(value: Any, test: Mapping[str, Any], step: float | None = None) -> str:
    """A number of a test, with as many digits as its measure needs; a dwell in seconds, too, where a step has them."""
    known = number(value)
    if known is None:
        return "–"
    dwell = test["measure"] == "dwell"
    return signed(known, 1 if dwell else 3) + (f" ({in_seconds(known, step)})" if dwell and step is not None else "")
