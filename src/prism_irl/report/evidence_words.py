"""What `prism evidence` found, in sentences: the same in `evidence`, `select`, `fit` and on the page.

Pure functions of the ``evidence`` entry of metrics.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prism_irl.report.findings import Finding, Level, mapping, number

POOR_AGREEMENT = 0.4
"""Agreement of halves below which it is never good, whatever its p-value."""


def headline(found: Mapping[str, Any]) -> str:
    """One line: yes, no, or not decided."""
    if found.get("found"):
        return "There are intentions beyond habit."
    return "No evidence for intentions beyond habit." if found.get("decided", True) else "Not decided yet."


def sentences(found: Mapping[str, Any]) -> list[Finding]:
    """The outcome of the test: what it says first, then each question, then how sure the labels are."""
    level: Level = "good" if found.get("found") else "bad" if found.get("decided", True) else "warning"
    first = headline(found)
    answers = [text for text in (_beyond_habit(found), _towards_places(found), _what_memory_explains(found)) if text]
    findings = [Finding(level, " ".join([first, *answers]))]
    borderline = _borderline(found)
    agreement = _agreement(found)
    return findings + [one for one in (borderline, agreement) if one is not None]


def _p(question: Mapping[str, Any]) -> str:
    p, n = number(question.get("p_value")), number(question.get("surrogates"))
    return f"p = {p or 0:.2g} from {n or 0:.0f} simulations of the habit"


def _verdict(question: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Why a question is answered as it is, where the numbers alone could mislead."""
    low, effect, floor = (number(question.get(name)) or 0.0 for name in ("low", "effect", "floor"))
    adjusted, level = number(question.get("p_adjusted")), number(found.get("level")) or 0.05
    if question.get("found"):
        return ""
    if low <= 0:
        return ", an interval that holds zero"
    if effect < floor:
        return f", too small to matter (below {floor:g})"
    if adjusted is not None and adjusted > level:
        return ", no more than chance among those"
    return ""


def _beyond_habit(found: Mapping[str, Any]) -> str:
    one = mapping(found.get("g1"))
    if not one:
        return ""
    knows = f"a habit that remembers {_steps(found)}"
    if found.get("individuals"):
        knows += " and knows the individuals"
    if found.get("several_habits"):
        knows += ", different among trajectories"
    return (
        f"Intentions gain {one['effect']:+.4f} nats per step over {knows} (95% interval {one['low']:+.4f} to "
        f"{one['high']:+.4f}; {_p(one)}{_verdict(one, found)})."
    )


def _towards_places(found: Mapping[str, Any]) -> str:
    two = mapping(found.get("g2"))
    if not two:
        return ""
    return (
        f"Ways that end at places gain {two['effect']:+.4f} nats per step more than those of a habit do (95% interval "
        f"{two['low']:+.4f} to {two['high']:+.4f}; {_p(two)}{_verdict(two, found)})."
    )


def _what_memory_explains(found: Mapping[str, Any]) -> str:
    """A gain over a habit without memory that a longer memory explains as well."""
    blind, memory = number(found.get("memoryless_gain")), number(found.get("memory")) or 1
    one, two = mapping(found.get("g1")), mapping(found.get("g2"))
    floor = number(one.get("floor")) or 0.0
    if one.get("found") or (memory < 2 and not found.get("slow_choices")) or blind is None or blind < floor:
        return ""
    if two.get("found"):
        return f"A habit that remembers {_steps(found)} predicts single steps as well: the ways are practised."
    return (
        f"Intentions gain {blind:+.4f} over a habit without memory, but a habit that remembers {_steps(found)} "
        "predicts as well; whether they plan cannot be told from these data."
    )


def _steps(found: Mapping[str, Any]) -> str:
    memory = int(number(found.get("memory")) or 1)
    steps = "no step" if memory < 2 else f"{memory - 1} step{'' if memory == 2 else 's'}"
    if not found.get("slow_choices"):
        return steps
    return "what was chosen of late" if memory < 2 else f"{steps} and what was chosen of late"


def _borderline(found: Mapping[str, Any]) -> Finding | None:
    if found.get("decided", True):
        return None
    least, made = number(found.get("least_surrogates")) or 0, number(found.get("surrogates")) or 0
    if made < least:
        return Finding(
            "warning",
            f"{made:.0f} simulation{'' if made == 1 else 's'} of the habit cannot answer yes, {least:.0f} can: "
            f"--surrogates {least:.0f}.",
        )
    seconds = number(found.get("seconds_for_999"))
    wait = "" if seconds is None else f", which take about {_duration(seconds)}"
    return Finding("warning", f"The answer is near the border: --surrogates 999 settles it{wait}.")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _agreement(found: Mapping[str, Any]) -> Finding | None:
    value, p = number(found.get("agreement")), number(found.get("agreement_p_value"))
    if value is None or p is None:
        return None
    good = value >= POOR_AGREEMENT and p <= (number(found.get("level")) or 0.05)
    text = f"Labellings from disjoint halves of the data agree to {value:.2f} (1 is the same cut, 0 is chance"
    text += f"; p = {p:.2g} among simulations of the habit)"
    if not good:
        text += ": do not interpret single steps"
    return Finding("good" if good and found.get("found") else "warning", f"{text}.")
