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


def content(demos: Demonstrations) -> str:
    """Checksum of states and actions alone: a fit may leave out the groups that a test has used."""
    return replace(demos, groups=None).checksum()


def read_evidence(folder: Path, demos: Demonstrations) -> dict[str, Any]:
    """The evidence in a run folder, after making sure that it is about the same data."""
    try:
        metrics, config = (storage.read_json(folder / name) for name in ("metrics.json", "config.json"))
        found = metrics["evidence"]
        known = {name: kind(found[name]) for name, kind in KEPT.items()}
        if not all(math.isfinite(value) for value in known.values()) or not 0 <= known["p_value"] <= 1:
            raise ValueError
        about = config["data"]["content"]
    except (OSError, KeyError, TypeError, ValueError, OverflowError, InputError):
        raise InputError(
            f"{folder} holds no evidence; give the folder of prism evidence, or of prism select with --surrogates."
        ) from None
    if about != content(demos):
        raise InputError(f"The evidence in {folder} is about other data; run prism evidence on this table.")
    return {**known, "from": folder.name}
