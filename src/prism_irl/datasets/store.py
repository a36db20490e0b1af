"""Where data sets live on disk: the folder named by PRISM_DATA, or the user's cache folder.

Every file is known by its sha256; a file with another checksum is an error, never a wrong answer.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from prism_irl.errors import InputError


def data_folder() -> Path:
    """Return the folder of all data sets."""
    given = os.environ.get("PRISM_DATA")
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "prism-irl"


def verified(path: Path, sha256: str, advice: str) -> Path:
    """Return the path of a file after checking that it is there and is the right one."""
    if not path.is_file():
        raise InputError(f"{path} is missing; {advice}.")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise InputError(f"{path} is not the published file (sha256 {found[:12]}…); delete it, then {advice}.")
    return path
