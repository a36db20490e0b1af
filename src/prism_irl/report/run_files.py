"""Files of a run folder as the report reads them: only what lies inside the folder, and only whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from prism_irl import storage
from prism_irl.errors import InputError


def inside(path: Path, folder: Path) -> bool:
    """Whether a file lies in the folder once links are followed."""
    return path.resolve().is_relative_to(folder.resolve())


def read_part(
    folder: Path, name: str, most_bytes: float, is_whole: Callable[[dict[str, Any]], bool], part: str
) -> dict[str, Any] | None:
    """Return what a JSON file of the folder holds, None where there is none; a large or damaged one is an error.

    ``part`` of the page is what one goes without when the file is deleted.
    """
    path = folder / name
    if not path.is_file() or not inside(path, folder):
        return None
    if path.stat().st_size > most_bytes:
        limit = f"{most_bytes / 1_000_000:.1f} MB"
        raise InputError(f"{path} is larger than {limit}; run again, or delete it to do without {part}.")
    value = storage.read_json(path)
    try:
        whole = is_whole(value)
    except (KeyError, TypeError, ValueError, AttributeError):
        whole = False
    if not whole:
        raise InputError(f"{path} is damaged; run again, or delete it to do without {part}.")
    found: dict[str, Any] = value
    return found
