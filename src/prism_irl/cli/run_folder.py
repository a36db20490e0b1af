"""Run folders: where a command leaves its results, and the promise that nothing on disk is lost.

A folder that already holds a run is refused unless overwriting is asked for; then the new run is made beside the old
one and takes its place as a whole (`run_marker`). A folder that is not ours is never touched. Every command that leaves
a folder goes through `RunFolder`: it claims the folder, does its work, writes config.json and report.html, and prints
tables or JSON.
"""

from __future__ import annotations

import shutil
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
from prism_irl.cli import run_marker
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
        inner = self.out / run_marker.UNFINISHED
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
            with run_marker.locked(folder):
                path, foreign = self._place()
                yield path
                _finish(folder, path, foreign)
        except BaseException as error:
            if isinstance(error, InputError) and not self.resume:
                _forget(path)
            _tidy(path, new or path != folder)
            raise

    def _place(self) -> tuple[Path, set[str]]:
        """The folder, or a new one inside where a run is to be replaced, and the files there that are not ours."""
        folder = self.out
        marker, entries = run_marker.read_marker(folder), list(folder.iterdir())
        waiting = self.begun != folder
        if waiting and (run_marker.read_marker(self.begun) or {}).get("state") == "finished":
            run_marker.swap_in(folder)  # the swap itself was interrupted
            marker, waiting = run_marker.read_marker(folder), False
        unfinished = waiting or (marker or {}).get("state") == "unfinished"
        if marker is None and entries:
            raise InputError(f"{folder} is not empty and holds no run of prism; choose another --out.")
        if entries and not (self.overwrite or self.resume):
            if unfinished:
                raise InputError(
                    f"{folder} holds an unfinished run; go on with --resume or begin again with --overwrite."
                )
            raise InputError(f"{folder} already holds a run; choose another --out or pass --overwrite.")
        path = self.begun
        if self.overwrite:
            shutil.rmtree(folder / run_marker.UNFINISHED, ignore_errors=True)
            path = folder / run_marker.UNFINISHED if (entries and not unfinished) or waiting else folder
            if path == folder:
                run_marker.remove(folder, run_marker.own_files(folder))
        with storage.writing(path):
            path.mkdir(exist_ok=True)
        own = set(run_marker.own_files(path))
        foreign = {file for file in run_marker.files_of(path) if file not in own}
        before = run_marker.read_marker(path) or {}
        if before.get("state") == "finished" and (path / run_marker.MARKER).is_file():  # it stays whole meanwhile
            run_marker.write_marker(path, "finished", foreign, before.get("files"))
        else:
            run_marker.write_marker(path, "unfinished", foreign)
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


def _finish(folder: Path, path: Path, foreign: set[str]) -> None:
    """Mark a run as finished, list its files, and put it in the place of the one before."""
    files = [file for file in run_marker.files_of(path) if file not in foreign]
    run_marker.write_marker(path, "finished", foreign, files)
    if path != folder:
        run_marker.swap_in(folder)


def _forget(path: Path) -> None:
    """Drop what a refused run has begun and nothing could be resumed from: checkpoint without a start, empty cache.

    The next try then finds no unfinished run in its way.
    """
    for name in run_marker.LEFT_BEHIND:
        left = path / name
        if left.is_dir() and {file.name for file in left.rglob("*") if file.is_file()} <= {"request.json"}:
            shutil.rmtree(left)


def _tidy(path: Path, made: bool) -> None:
    """Leave no folder of ours behind in which nothing has been done."""
    with suppress(OSError):
        if run_marker.files_of(path) == [run_marker.MARKER]:
            (path / run_marker.MARKER).unlink()
        if made:
            path.rmdir()  # which refuses a folder that holds anything


def write_report(folder: Path) -> None:
    """Write report.html of what lies in a folder."""
    from prism_irl.report.render import write_report

    write_report(folder)


def command_line() -> str:
    """The command as it was typed, for config.json."""
    return " ".join(["prism", *sys.argv[1:]])
