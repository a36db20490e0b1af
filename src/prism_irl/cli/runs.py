"""Run folders: where a command leaves its results, and the promise that nothing on disk is lost.

A marker says that a run of ours lies in a folder, which files are its own, and who is writing it. A folder without the
marker is somebody else's and is not touched, whatever the flags; one that holds a run is refused unless overwriting is
asked for. A run that replaces another one is made in a folder of its own inside, ``.unfinished``, while the old one can
still be read, and is swapped in as a whole: what belonged to the old run goes (names that people gave to its
intentions, too, unless the new run took them over), and nothing else does.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from prism_irl import storage
from prism_irl.cli.options import CommonOptions
from prism_irl.errors import InputError, one_line

Metrics = dict[str, Any]


@Parameter(name="*")
@dataclass(frozen=True)
class RunFolder:
    """--out, --overwrite, --resume and --json of a command, and what every command does with them."""

    out: Path
    "Folder of the results."
    overwrite: bool = False
    "Replace results that are already there."
    resume: bool = False
    "Go on with an interrupted run; finished fits are not made again."
    common: CommonOptions = CommonOptions()

    def __post_init__(self) -> None:
        if self.overwrite and self.resume:
            raise InputError("--overwrite begins again and --resume goes on; pass one of them.")

    @property
    def begun(self) -> Path:
        """Where an unfinished run lies: in the folder itself or, where it is to replace another one, inside."""
        inner = self.out / UNFINISHED
        return inner if inner.is_dir() and not inner.is_symlink() else self.out

    @contextmanager
    def claimed(self) -> Iterator[Path]:
        """Give the place to work in, held against other writers, and swap the run in when the block ends without error.

        Entered late, so that what is wrong with the input is said before anything is written. What an interrupted run
        leaves stays for ``--resume``.
        """
        folder, new = self.out, not self.out.exists()
        if not new and not folder.is_dir():
            raise InputError(f"{folder} is a file; choose another output folder.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"Cannot write into {folder} ({error.strerror}); choose another --out.") from None
        path = folder
        try:
            with locked(folder):
                path, foreign = self._place()
                yield path
                files = [file for file in files_of(path) if file not in foreign]
                write_marker(path, "finished", foreign, files)
                if path != folder:
                    swap_in(folder)
        except BaseException as error:
            if isinstance(error, InputError) and not self.resume:
                # What a refused run has begun and nothing could be resumed from is not in the way of the next try.
                for left in (path / name for name in LEFT_BEHIND):
                    if left.is_dir() and {one.name for one in left.rglob("*") if one.is_file()} <= {"request.json"}:
                        shutil.rmtree(left)
            with suppress(OSError):  # nor is a folder of ours in which nothing has been done
                if files_of(path) == [MARKER]:
                    (path / MARKER).unlink()
                if new or path != folder:
                    path.rmdir()  # which refuses a folder that holds anything
            raise

    def _place(self) -> tuple[Path, set[str]]:
        """The folder, or a new one inside where a run is to be replaced, and the files there that are not ours."""
        folder = self.out
        storage.sweep(folder)  # killed before it could say whose folder it is
        marker, entries = read_marker(folder), list(folder.iterdir())
        waiting = self.begun != folder
        if waiting and (read_marker(self.begun) or {}).get("state") == "finished":
            swap_in(folder)  # the swap itself was interrupted
            marker, waiting = read_marker(folder), False
        unfinished = waiting or (marker or {}).get("state") == "unfinished"
        if marker is None and entries:
            raise InputError(f"{folder} is not empty and holds no run of prism; choose another --out.")
        storage.sweep(folder, below=True)
        if entries and not (self.overwrite or self.resume):
            if unfinished:
                raise InputError(
                    f"{folder} holds an unfinished run; go on with --resume or begin again with --overwrite."
                )
            raise InputError(f"{folder} already holds a run; choose another --out or pass --overwrite.")
        path = self.begun
        if self.overwrite:
            shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
            path = folder / UNFINISHED if (entries and not unfinished) or waiting else folder
            if path == folder:
                move(own_files(folder), folder, None)
        with storage.writing(path):
            path.mkdir(exist_ok=True)
        own = set(own_files(path))
        foreign = {file for file in files_of(path) if file not in own}
        before = read_marker(path) or {}
        if before.get("state") == "finished" and (path / MARKER).is_file():  # it stays whole meanwhile
            write_marker(path, "finished", foreign, before.get("files"))
        else:
            write_marker(path, "unfinished", foreign)
        return path, foreign

    def make(
        self,
        work: Callable[[Path, Any], Metrics],
        show: Callable[[Metrics], None],
        *,
        progress: Callable[[], AbstractContextManager[Any]],
        config: Mapping[str, Any] | Callable[[Metrics], Mapping[str, Any]],
        report: bool = True,
    ) -> Metrics:
        """Claim the folder, ``work(folder, callback of the progress bar)``, describe the run, report and `tell`.

        ``config`` is what config.json says beside command, versions, date, machine and seconds; a function of the
        metrics where it is known only after the work.
        """
        clock = time.perf_counter()
        with self.claimed() as folder:
            with progress() as callback:
                metrics = work(folder, callback)
            known = config(metrics) if callable(config) else config
            described = self.origin(time.perf_counter() - clock)
            storage.write_json(folder / "config.json", {**described, **known})
            if report:
                from prism_irl.cli.progress import patience
                from prism_irl.report.render import write_report

                with patience("drawing the page"):
                    write_report(folder)
        self.tell(metrics, show, report=report)
        return metrics

    def origin(self, seconds: float) -> dict[str, Any]:
        """What says where the numbers of a run come from; a run that was resumed counts its last seconds only."""
        from prism_irl.devices import machine

        return {
            "command": command_line(),
            "versions": storage.versions(),
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "machine": machine(),
            "seconds": seconds,
            "resumed": self.resume,
        }

    def tell(self, metrics: Metrics, show: Callable[[Metrics], None], *, report: bool = True) -> None:
        """Print the metrics as JSON or as ``show`` does, and where the report is."""
        if self.common.json:
            from prism_irl.cli.printing import print_json

            print_json(metrics)
            return
        show(metrics)
        if report:
            print(one_line(f"Report: {self.out / 'report.html'}"))  # a folder may have any name


def command_line() -> str:
    """The command as it was typed, for config.json."""
    return " ".join(["prism", *sys.argv[1:]])


# -- whose folder it is ------------------------------------------------------------------------------------------------

MARKER = ".prism-run.json"
UNFINISHED = ".unfinished"
REPLACED = ".replaced-"
LEFT_BEHIND = ("checkpoint", "cache", "parts", "embeddings")
"""Folders that an interrupted run leaves, for another one to go on from."""
OURS = (
    *LEFT_BEHIND,
    *("config.json", "metrics.json", "model.safetensors", "history.csv", "segments.parquet", "figures", "report.html"),
    *("explorer.json", "frames.json", "checks.json", "names.json", "rewards.csv", "goals.csv", "dynamics.csv"),
    *("folds.csv", "table.csv", "demonstrations.npz", "mdp.safetensors", "tokenizer"),
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
        found += [file] if own and file not in foreign else []
    return found


def _texts(value: Any) -> set[str]:
    return {item for item in value if isinstance(item, str)} if isinstance(value, list) else set()


def move(files: list[str], source: Path, target: Path | None) -> None:
    """Rename files into another folder on the same disk, or delete them, and the folders that are empty then."""
    for file in files:
        if target is None:
            (source / file).unlink(missing_ok=True)  # of a link, the link
        else:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            os.replace(source / file, target / file)
    above = {parent for file in files for parent in Path(file).parents if parent != Path(".")}
    for parent in sorted(above, key=lambda path: -len(path.parts)):
        path = source / parent
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()


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
            inner = folder / UNFINISHED
            who = (read_marker(inner if inner.is_dir() else folder) or {}).get("process")
            by = " by another process"
            if isinstance(who, dict):
                by = f" by process {who.get('pid')} on {who.get('host')!s:.80} since {who.get('since')!s:.40}"
            raise InputError(f"{folder} is being written{by}; wait, or choose another --out.") from None
        except OSError:  # a network disk without locks
            pass
        yield
    finally:
        os.close(handle)


@contextmanager
def adding(folder: Path) -> Iterator[None]:
    """Hold a finished run while something is added to it: what is new then belongs to the run, and goes with it."""
    with locked(folder):
        storage.sweep(folder, below=True)
        before = set(files_of(folder))
        try:
            yield
        finally:
            marker = read_marker(folder)
            if marker is not None and isinstance(marker.get("files"), list):
                files = {*_texts(marker["files"]), *(set(files_of(folder)) - before)}
                storage.write_json(folder / MARKER, marker | {"files": sorted(files)})
