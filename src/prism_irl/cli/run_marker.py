"""Whose folder it is: a marker says that a run of ours lies there, which files are its own, and who is writing it.

A folder without the marker is somebody else's and is not touched, whatever the flags. A run that replaces another one
is made in a folder of its own inside, ``.unfinished``, while the old one can still be read, and is swapped in as a
whole: what belonged to the old run goes (names that people gave to its intentions, too, unless the new run took them
over), and nothing else does.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prism_irl import storage
from prism_irl.errors import InputError

MARKER = ".prism-run.json"
UNFINISHED = ".unfinished"
REPLACED = ".replaced-"
LEFT_BEHIND = ("checkpoint", "cache", "parts", "embeddings", "tensorboard")
"""Folders that an interrupted run leaves, for another one to go on from."""
OURS = frozenset(
    {
        *LEFT_BEHIND,
        *("config.json", "metrics.json", "model.safetensors", "history.csv", "segments.parquet", "figures"),
        *(
            "report.html",
            "explorer.json",
            "frames.json",
            "checks.json",
            "names.json",
            "rewards.csv",
            "goals.csv",
            "dynamics.csv",
            "folds.csv",
            "table.csv",
        ),
        *("demonstrations.npz", "mdp.safetensors", "tokenizer"),
    }
)
"""Names that a run uses: its own where no list says so, in folders of earlier versions and in unfinished ones."""


def read_marker(folder: Path) -> dict[str, Any] | None:
    """What the marker says; None where there is no run of ours. Earlier versions left config.json alone as a sign."""
    if (folder / MARKER).is_file():
        try:
            return storage.read_object(folder / MARKER)
        except InputError:
            return {"state": "unknown"}
    try:
        versions = storage.read_object(folder / "config.json").get("versions")
    except InputError:
        versions = None
    if isinstance(versions, dict) and "prism-irl" in versions:
        return {"state": "finished"}
    entries = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    return {"state": "unfinished"} if entries and entries <= set(LEFT_BEHIND) else None


def write_marker(folder: Path, state: str, foreign: set[str], files: list[str] | None = None) -> None:
    """Say whose folder this is, what lay in it before, and which process is at work or was."""
    who = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    told: dict[str, Any] = {"state": state, "process": who, "foreign": sorted(foreign)}
    storage.write_json(folder / MARKER, told if files is None else {**told, "files": files})


def files_of(folder: Path) -> list[str]:
    """Every file below a folder, and every link, by its path in it; links are not followed."""
    found = []
    for root, folders, files in os.walk(folder):
        inner = Path(root)
        links = [name for name in folders if (inner / name).is_symlink()]
        found += [(inner / name).relative_to(folder).as_posix() for name in (*files, *links)]
        folders[:] = [name for name in folders if name != UNFINISHED and not name.startswith(REPLACED)]
    return sorted(found)


def own_files(folder: Path) -> list[str]:
    """Files of the run that lies in a folder: those that its marker lists, or those with names of ours."""
    marker = read_marker(folder)
    if marker is None:
        return []
    foreign, listed = _texts(marker.get("foreign")), marker.get("files")
    names = {*_texts(listed), MARKER, "names.json"} if isinstance(listed, list) else None
    found = []
    for file in files_of(folder):
        first = file.partition("/")[0]
        own = first in OURS or file == MARKER if names is None else file in names or first in LEFT_BEHIND
        if own and file not in foreign:
            found.append(file)
    return found


def _texts(value: Any) -> set[str]:
    return {item for item in value if isinstance(item, str)} if isinstance(value, list) else set()


def move(files: list[str], source: Path, target: Path) -> None:
    """Rename files of one folder into another on the same disk, and remove the folders that are empty then."""
    for file in files:
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        os.replace(source / file, target / file)
    drop_empty(source, files)


def drop_empty(folder: Path, files: list[str]) -> None:
    """Remove the folders, below one, that held these files and hold nothing now."""
    above = {parent for file in files for parent in Path(file).parents if parent != Path(".")}
    for parent in sorted(above, key=lambda path: -len(path.parts)):
        path = folder / parent
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()


def remove(folder: Path, files: list[str]) -> None:
    """Delete files, and folders that are empty then; of a link, the link."""
    for file in files:
        (folder / file).unlink(missing_ok=True)
    drop_empty(folder, files)


def swap_in(folder: Path) -> None:
    """Put the finished run in ``.unfinished`` in the place of the one in the folder."""
    made, old = folder / UNFINISHED, own_files(folder)
    aside = folder / f"{REPLACED}{secrets.token_hex(4)}"
    with storage.writing(folder):
        move(old, folder, aside)
        # The marker comes last: until then the folder does not claim to hold a whole run.
        move([file for file in files_of(made) if file != MARKER], made, folder)
        os.replace(made / MARKER, folder / MARKER)
    for rest in (made, *folder.glob(f"{REPLACED}*")):  # and what an interrupted swap has left
        shutil.rmtree(rest, ignore_errors=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder against other writers; the lock goes with the process, however that ends."""
    try:
        import fcntl
    except ImportError:  # where there are no such locks, two writers are their own affair
        yield
        return
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InputError(f"Cannot write into {folder} ({error.strerror}); choose another --out.") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder} is being written{_by_whom(folder)}; wait, or choose another --out.") from None
        except OSError:  # a network disk without locks
            pass
        yield
    finally:
        os.close(handle)


@contextmanager
def adding(folder: Path) -> Iterator[None]:
    """Hold a finished run while something is added to it: what is new then belongs to the run, and goes with it."""
    with locked(folder):
        before = set(files_of(folder))
        try:
            yield
        finally:
            marker = read_marker(folder)
            if marker is not None and isinstance(marker.get("files"), list):
                files = {*_texts(marker["files"]), *(set(files_of(folder)) - before)}
                storage.write_json(folder / MARKER, marker | {"files": sorted(files)})


def _by_whom(folder: Path) -> str:
    inner = folder / UNFINISHED
    who = (read_marker(inner if inner.is_dir() else folder) or {}).get("process")
    if not isinstance(who, dict):
        return " by another process"
    return f" by process {who.get('pid')} on {who.get('host')!s:.80} since {who.get('since')!s:.40}"
