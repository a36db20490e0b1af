"""Contrasts of a run in its report: `contrasts/COLUMN.json` as sentences and a table, one section per column."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from prism_irl.report.names import default_names
from prism_irl.report.verdict import Finding, doubts, listed, number, signed
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
HOLDS_ZERO = (
    " The interval holds zero all the same: that the groups differ is clear, that they do so in this is not; they may "
    "want something else instead."
)
BY_CONDITION = (
    " Values, differences and intervals are counted with policies of each condition, so that another reward does not "
    "look like more switches; p with policies that do not know the conditions."
)
AS_FITTED = (
    " All are counted with the fit as it is; how often such intervals hold the truth was tried with a Markov chain and "
    "counted policies (--method hiql) only."
)
PAIRS = "Two conditions differ where a test of these two alone says so, its adjusted p times the number of pairs. "
DIGITS = {"dwell": 1}


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
    rows = [_row(test, names, _of_pairs(contrast, test)) for test in contrast["tests"]]
    title = f"{contrast['by']}: {listed(levels[1:])} against {levels[0]}"
    compared = (
        [(f"{levels[-1]} − {levels[0]}", ""), ("95% interval", "")] if len(levels) == 2 else [("which differ", "")]
    )
    return Section(
        file_stem(contrast["by"]),
        title,
        findings(contrast, names) + _beside(contrast, fit),
        [*((level, "") for level in levels), *compared, ("p", ""), ("adjusted p", "all questions")],
        rows,
        _how(contrast),
        _methods(contrast),
    )


def _methods(contrast: Mapping[str, Any]) -> str:
    """A sentence or two for the methods of a paper."""
    levels, unit = list(contrast["levels"]), contrast["unit"]
    sizes = listed([f"{n} under {level}" for n, level in zip(contrast["n_per_level"], levels, strict=True)])
    design = f"{contrast['n_units']}, each under all" if contrast["paired"] else sizes
    ways = f"{contrast['assignments']:,} {'(all)' if contrast['exact'] else 'random'}"
    several = " Pairs of conditions were tested alone, p times the number of pairs." if len(levels) > 2 else ""
    return (
        f"Conditions ({contrast['by']}: {listed(levels)}; units {unit}: {design}) were compared by a permutation test "
        f"with {ways} assignments of whole units, corrected for all measures by step-down maxT.{several}"
    )


def in_words(contrast: Mapping[str, Any], names: Sequence[str] | None, fit: Mapping[str, Any]) -> str:
    """The whole contrast in a few sentences."""
    return " ".join(finding.text for finding in section(contrast, names, fit).findings)


def _beside(contrast: Mapping[str, Any], fit: Mapping[str, Any]) -> list[Finding]:
    """What p does not say: doubts about the intentions, and that p holds in spite of them."""
    found = doubts(fit)
    return [Finding("info", OWN_NULL), *found] if found and contrast["enough_units"] else found


def findings(contrast: Mapping[str, Any], names: Sequence[str]) -> list[Finding]:
    """What differs, what was not found to differ, and what cannot be said."""
    levels, sizes, unit = list(contrast["levels"]), contrast["n_per_level"], contrast["unit"]
    each = "both" if len(levels) == 2 else "all"
    who = f"{listed(list(map(str, sizes)))} in column {unit}"
    who = f"{sizes[0]} in column {unit}, each under {each}" if contrast["paired"] else who
    found = []
    if contrast["left_out"]:
        some = listed(contrast["left_out"][:5]) + (", …" if len(contrast["left_out"]) > 5 else "")
        found.append(Finding("warning", f"Left out, because they were not seen under {each} conditions: {some}."))
    if not contrast["enough_units"]:
        text = (
            f"Too few to compare {listed(levels[1:])} with {levels[0]} ({who}): however large the difference, no p "
            f"could be smaller than {contrast['smallest_p']:.2f}. Values and intervals are shown, p are not; record "
            "more of them."
        )
        return [Finding("bad", text), *found]
    clear = [test for test in contrast["tests"] if test["p_adjusted"] <= LEVEL]
    for name in QUESTIONS:
        own = sorted((t for t in clear if t["measure"] == name), key=lambda t: (t["p_adjusted"], t["p"]))
        found += [Finding("info", _sentence(test, contrast, names)) for test in own]
    missing = [QUESTIONS[name] for name in QUESTIONS if any(t["measure"] == name for t in contrast["tests"])]
    missing = [words for words in missing if words not in {QUESTIONS[t["measure"]] for t in clear}]
    if missing:
        text = (
            f"No difference between {listed(levels)} ({who}) was found in {listed(missing)} at the 5% level, all "
            "questions together; not finding one does not show that there is none: look at the intervals."
        )
        found.append(Finding("info", text))
    return found


def _of_pairs(contrast: Mapping[str, Any], test: Mapping[str, Any]) -> list[str]:
    """Pairs of conditions that differ clearly in the question of a test, of three conditions or more."""
    found = []
    for pair in contrast.get("pairs") or []:
        same = ("measure", "intention", "to")
        own = next(t for t in pair["tests"] if all(t.get(key) == test.get(key) for key in same))
        if own["p_adjusted"] is not None and own["p_adjusted"] <= LEVEL:
            one, two = pair["levels"]
            by = "" if own["interval"] is None else f" {signed(own['difference'], DIGITS.get(test['measure'], 3))}"
            found.append(f"{two} − {one}{by} (p = {_p(own['p_adjusted'])})")
    return found


def _sentence_of_several(test: Mapping[str, Any], contrast: Mapping[str, Any], names: Sequence[str]) -> str:
    levels, pairs = list(contrast["levels"]), _of_pairs(contrast, test)
    what, digits = _what(test, names), DIGITS.get(test["measure"], 3)
    values = listed([_number(value, digits) for value in test["values"] or ()])
    which = "time is not spent in the same places" if test["measure"] == "occupancy" else f"the {what} is not the same"
    numbers = f": {values} {UNITS.get(test['unit'], test['unit'])}" if test["values"] else ""
    return (
        f"Under {listed(levels)} {which}{numbers}, p = {_p(test['p_adjusted'])} after correction for all questions; "
        + (f"clear by themselves: {listed(pairs)}." if pairs else "no two of them differ clearly by themselves.")
    )


def _sentence(test: Mapping[str, Any], contrast: Mapping[str, Any], names: Sequence[str]) -> str:
    if len(contrast["levels"]) > 2:
        return _sentence_of_several(test, contrast, names)
    one, two = contrast["levels"]
    what, p = _what(test, names), f"p = {_p(test['p_adjusted'])} after correction for all questions"
    if test["interval"] is None:
        where = ""
        if test.get("state"):
            first, second = test["state"]["values"]
            states, most = contrast.get("state_names"), test["state"]["state"]
            place = f"state {most}" if not states else str(states[most])
            where = f", most in {place} ({100 * second:.1f}% of it against {100 * first:.1f}%)"
        kind = "time is spent in other places" if test["measure"] == "occupancy" else f"the {what} is another one"
        return f"Under {two} {kind} than under {one}{where}: {p}."
    digits = DIGITS.get(test["measure"], 3)
    first, second = (signed(value, digits) for value in test["values"])
    low, high = (signed(value, digits) for value in test["interval"])
    more, unit = "higher" if test["difference"] > 0 else "lower", UNITS.get(test["unit"], test["unit"])
    holds_zero = test["interval"][0] <= 0 <= test["interval"][1]
    return (
        f"The {what} is {more} under {two} than under {one}: {second} against {first} {unit}, a difference of "
        f"{signed(test['difference'], digits)} (95% interval {low} to {high}), {p}."
        f"{HOLDS_ZERO if holds_zero else ''}"
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


def _row(test: Mapping[str, Any], names: Sequence[str], pairs: Sequence[str]) -> Row:
    digits, n = DIGITS.get(test["measure"], 3), len(test["groups"])
    values = [_number(value, digits) for value in test["values"] or [None] * n]
    ends = [_number(end, digits) for end in test["interval"] or ()]
    between = " to ".join(ends) if ends and "–" not in ends else "–"
    compared = [_number(test["difference"], digits), between] if n == 2 else ["; ".join(pairs) or "–"]
    clear = test["p_adjusted"] is not None and test["p_adjusted"] <= LEVEL
    return Row(_what(test, names), test["unit"], [*values, *compared, _p(test["p"]), _p(test["p_adjusted"])], clear)


def _number(value: Any, digits: int) -> str:
    known = number(value)
    return "–" if known is None else signed(known, digits)


def _how(contrast: Mapping[str, Any]) -> str:
    many = f"{contrast['assignments']:,}"
    which = f"all {many} ways" if contrast["exact"] else f"{many} random ways"
    how = "to swap the conditions within each" if contrast["paired"] else "to give the conditions to them"
    several = len(contrast["levels"]) > 2
    fit = f"each of {contrast['refitted']} draws fitted again" if contrast.get("refitted") else "with the fit as it is"
    estimated = {True: BY_CONDITION, False: AS_FITTED}.get(contrast.get("by_condition", ""), "")
    return (
        f"p is the share of {which} {how} that differ at least as much, whole members of column {contrast['unit']} "
        "being exchanged and never their steps; the last column corrects for all rows of the table (step-down maxT). "
        + (PAIRS if several else f"Intervals are a bootstrap of the same, {fit}. ")
        + "Each weighs the same, however long it was "
        "recorded. A distance (places: total variation; reward: root mean square) has no sign and no interval."
        f"{estimated}"
    )
