"""What judgements are made of: findings, and numbers read safely from a metrics.json that may lack any of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Level = Literal["good", "warning", "bad", "info"]
Topic = Literal["", "converged", "number", "switches", "trust"]

REFERENCES = {"uniform": "uniform", "empirical": "one intention", "ngram": "habit"}
"""Identifiers of the methods that any claim about intentions has to beat, and what they are called beside a fit."""
OF_COMMANDS = {"gaussian": "one Gaussian", "linear": "one intention", "memory": "habit"}
"""The same for continuous commands, whose scores are densities."""
WORSE = 1e-4
"""Nats per step from which a fit is worse than a reference: less is rounding, and one intention equals its own."""


class Finding(NamedTuple):
    """One sentence or two about a run, how serious it is, and which question it answers."""

    level: Level
    text: str
    topic: Topic = ""


def reference_name(key: str) -> str:
    """What a reference is called beside a fit."""
    return {**REFERENCES, **OF_COMMANDS}.get(key, key)


def number(value: Any) -> float | None:
    """Return a finite number, the ``mean`` of a mapping, or None for anything else."""
    if isinstance(value, Mapping):
        value = value.get("mean")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def spread(value: Any) -> float | None:
    """Return the ``std`` of a mapping, or None."""
    return number(value.get("std")) if isinstance(value, Mapping) else None


def signed(value: float, digits: int = 3) -> str:
    """Return a number with a real minus sign, and none in front of a rounded zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the mapping, or an empty one in place of anything else."""
    return value if isinstance(value, Mapping) else {}


def listed(words: list[str]) -> str:
    """Words as a list in a sentence: "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
