"""Where data sets live on disk, and how public ones get there.

The folder is the one named by PRISM_DATA, or a folder in the user's cache. Every file is known by its sha256; a file
with another checksum is an error, never a wrong answer. Downloads come from a public address at a fixed commit.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prism_irl.errors import InputError
from prism_irl.optional import need


@dataclass(frozen=True)
class DataSet:
    """A public data set: its name on the command line and of its folder, what it is, and the sha256 of its files.

    The names of the files are appended to the ``address``.
    """

    name: str
    about: str
    address: str
    files: Mapping[str, str]
    licence: str = ""

    @property
    def folder(self) -> Path:
        """Where its files belong."""
        return data_folder() / self.name

    @property
    def advice(self) -> str:
        """The one command that gets the data."""
        return (
            f"get it with `prism data fetch {self.name}`, or point PRISM_DATA at a folder that holds {self.name}/ with "
            "the published files"
        )

    def path(self, file: str) -> Path:
        """Return the path of one of its files after checking that it is there and is the right one."""
        return verified(self.folder / file, self.files[file], self.advice)


FileState = Literal["ready", "missing", "wrong"]


def data_folder() -> Path:
    """Return the folder of all data sets."""
    given = os.environ.get("PRISM_DATA")
    return Path(given) if given else cache_folder()


def cache_folder() -> Path:
    """Return our folder in the user's cache: for what we make ourselves and could make again, such as simulations."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "prism-irl"


def state_of(path: Path, sha256: str) -> FileState:
    """Whether a file is there and is the right one."""
    if not path.is_file():
        return "missing"
    with path.open("rb") as file:
        return "ready" if hashlib.file_digest(file, "sha256").hexdigest() == sha256 else "wrong"


def verified(path: Path, sha256: str, advice: str) -> Path:
    """Return the path of a file after checking that it is there and is the right one."""
    state = state_of(path, sha256)
    if state == "missing":
        raise InputError(f"{path} is missing; {advice}.")
    if state == "wrong":
        raise InputError(f"{path} is not the published file (its sha256 differs); delete it, then {advice}.")
    return path


def states(data: DataSet) -> dict[str, FileState]:
    """Return whether each file is there and is the right one."""
    return {name: state_of(data.folder / name, sha256) for name, sha256 in data.files.items()}


def fetch(data: DataSet, address: str | None = None) -> dict[str, Literal["downloaded", "already there"]]:
    """Download what is missing, from the public address or a mirror, and check it; nothing is downloaded twice."""
    done: dict[str, Literal["downloaded", "already there"]] = {}
    for name, state in states(data).items():
        path = data.folder / name
        if state == "wrong":
            raise InputError(f"{path} is there but is not the published file; move it away, then fetch again.")
        if state == "missing":
            _download(f"{(address or data.address).rstrip('/')}/{name}", path, data.files[name])
        done[name] = "already there" if state == "ready" else "downloaded"
    return done


def _download(url: str, path: Path, sha256: str) -> None:
    pooch = need("pooch", "data")
    from requests import RequestException  # which pooch brings along

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"Cannot write into {path.parent} ({error.strerror}); set PRISM_DATA to a folder of yours."
        ) from None
    pooch.get_logger().setLevel("WARNING")
    try:
        # pooch downloads beside the target and moves the file only when its checksum is right.
        pooch.retrieve(url, known_hash=f"sha256:{sha256}", fname=path.name, path=path.parent)
    except ValueError as error:
        if "hash" not in str(error):
            raise InputError(f"{url} cannot be downloaded ({error}); give an http or https address.") from None
        raise InputError(
            f"What {url} sent is not the published file (its sha256 differs); nothing was kept, try again or use "
            "another address."
        ) from None
    except (RequestException, OSError) as error:  # whose messages are pages long: their kind says it
        response = getattr(error, "response", None)
        reason = type(error).__name__ if response is None else f"the server answered {response.status_code}"
        raise InputError(
            f"{url} could not be downloaded ({reason}); check the network and try again, or put the file into "
            f"{path.parent} yourself."
        ) from None
