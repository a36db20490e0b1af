"""What an earlier `prism evidence` or `prism select` found out about the same data, for the verdict of a fit."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism_irl import storage
from prism_irl.errors import InputError

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations

KEPT = {"p_value": float, "gain": float, "surrogates": int, "agreement": float, "agreement_p_value": float}
WORDS = (
    *("found", "decided", "level", "g1", "g2", "memory", "slow_choices", "several_habits", "individuals"),
    *("memoryless_gain", "seconds_for_999"),
)
"""What else the sentences of the verdict are made of."""
MOST_NEIGHBOURS = 200


def content(demos: Demonstrations) -> str:
    """Checksum of states and actions alone: a fit may leave out the groups or covariates that a test has used."""
    if demos.state_space.continuous:
        return replace(demos, groups=None).checksum()
    return replace(demos, groups=None, observations=None).checksum()


def read_evidence(folder: Path, demos: Demonstrations) -> dict[str, Any]:
    """The evidence in a run folder, after making sure that it is about the same data."""
    try:
        metrics, config = (storage.read_json(folder / name) for name in ("metrics.json", "config.json"))
        found = metrics["evidence"]
        known = {name: kind(found[name]) for name, kind in KEPT.items()}
        known |= {name: found[name] for name in WORDS if name in found}
        if not all(math.isfinite(value) for value in (known[name] for name in KEPT)) or not 0 <= known["p_value"] <= 1:
            raise ValueError
        about = config["data"]["content"]
    except (OSError, KeyError, TypeError, ValueError, OverflowError, InputError):
        raise InputError(
            f"{folder} holds no evidence; give the folder of prism evidence, or of prism select with --surrogates."
        ) from None
    if about != content(demos):
        raise InputError(f"The evidence in {folder} is about other data; run prism evidence on this table.")
    return {**known, "from": folder.name}


def find_evidence(folder: Path, demos: Demonstrations) -> dict[str, Any] | None:
    """The newest evidence about the same data in the folders beside a run that is to be written, if there is any."""
    there = [path for path in folder.parent.glob("*/metrics.json") if (path.parent / "config.json").is_file()]
    about = content(demos) if there else ""
    for path in sorted(there, key=lambda path: path.stat().st_mtime, reverse=True)[:MOST_NEIGHBOURS]:
        try:
            if storage.read_json(path.parent / "config.json")["data"]["content"] == about:
                return read_evidence(path.parent, demos)
        except (OSError, KeyError, TypeError, ValueError, InputError):
            continue
    return None
