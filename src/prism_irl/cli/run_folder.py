"""Run folders: where a command leaves its results, and the promise that nothing on disk is lost.

A folder that already holds a run is refused unless overwriting is asked for, and then files are replaced one by one,
atomically, only when their new content is ready.
"""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from prism_irl import storage
from prism_irl.errors import InputError

MARKERS = ("config.json", "metrics.json", "model.safetensors")


def prepare_folder(path: str | Path, *, overwrite: bool = False, resume: bool = False) -> Path:
    """Create the output folder, or refuse one that is not ours to write into."""
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; choose another output folder.")
    if folder.is_dir() and not (overwrite or resume):
        if any((folder / name).exists() for name in MARKERS):
            raise InputError(f"{folder} already holds a run; choose another --out or pass --overwrite.")
        if (folder / "checkpoint").exists() or (folder / "cache").exists():
            raise InputError(f"{folder} holds an unfinished run; go on with --resume or begin again with --overwrite.")
        if any(folder.iterdir()):
            raise InputError(f"{folder} is not empty; choose another --out or pass --overwrite.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".prism-write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"Cannot write into {folder} ({error.strerror}); choose another --out.") from None
    return folder


def versions() -> dict[str, str]:
    """Versions that results depend on."""
    names = ("prism-irl", "torch", "numpy", "scipy", "scikit-learn")
    return {**{name: version(name) for name in names}, "python": platform.python_version()}


def command_line() -> str:
    """The command as it was typed, for config.json."""
    return " ".join(["prism", *sys.argv[1:]])


def write_history(folder: Path, rows: list[dict[str, Any]]) -> None:
    """history.csv: what the monitor saw."""
    storage.write_text(folder / "history.csv", pd.DataFrame(rows).to_csv(index=False))
