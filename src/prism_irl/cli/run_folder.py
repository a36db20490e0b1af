"""Run folders: where a command leaves its results, and the promise that nothing on disk is lost.

A folder that already holds a run is refused unless overwriting is asked for, and then files are replaced one by one,
atomically, only when their new content is ready. Every command that leaves a folder goes through `RunFolder`: it opens
the folder, does its work, writes config.json and report.html, and prints tables or JSON.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from prism_irl import storage
from prism_irl.cli.options import CommonOptions
from prism_irl.errors import InputError

MARKERS = ("config.json", "metrics.json", "model.safetensors")

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

    def open(self, *stale: str) -> Path:
        """Create the folder, or refuse one that is not ours; overwriting drops what ``stale`` patterns match.

        Called late, so that what is wrong with the input is said before anything is written.
        """
        folder = self.out
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; choose another output folder.")
        if folder.is_dir() and not (self.overwrite or self.resume):
            if any((folder / name).exists() for name in MARKERS):
                raise InputError(f"{folder} already holds a run; choose another --out or pass --overwrite.")
            if (folder / "checkpoint").exists() or (folder / "cache").exists():
                raise InputError(
                    f"{folder} holds an unfinished run; go on with --resume or begin again with --overwrite."
                )
            if any(folder.iterdir()):
                raise InputError(f"{folder} is not empty; choose another --out or pass --overwrite.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / ".prism-write-test"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise InputError(f"Cannot write into {folder} ({error.strerror}); choose another --out.") from None
        for old in (path for pattern in stale if self.overwrite for path in folder.glob(pattern)):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        return folder

    def abandon(self) -> None:
        """Leave nothing in the way of the next try: drop what a refused run has begun, unless it found something.

        A checkpoint without a start and an empty cache hold nothing that could be resumed.
        """
        begun = self.out / "checkpoint", self.out / "cache"
        for folder in begun:
            if folder.is_dir() and {path.name for path in folder.rglob("*") if path.is_file()} <= {"request.json"}:
                shutil.rmtree(folder)
        if self.out.is_dir() and not any(self.out.iterdir()):
            self.out.rmdir()

    def make(
        self,
        work: Callable[[Path, Any], Metrics],
        show: Callable[[Metrics], None],
        *,
        progress: Callable[[], AbstractContextManager[Any]],
        config: Mapping[str, Any] | Callable[[Metrics], Mapping[str, Any]],
        stale: Sequence[str] = (),
        report: bool = True,
    ) -> Metrics:
        """Open the folder, ``work(folder, callback of the progress bar)``, describe the run, and `finish`.

        ``config`` is what config.json says beside command and versions; a function of the metrics where it is known
        only after the work.
        """
        folder = self.open(*stale)
        try:
            with progress() as callback:
                metrics = work(folder, callback)
        except InputError:
            if not self.resume:
                self.abandon()
            raise
        known = config(metrics) if callable(config) else config
        storage.write_json(folder / "config.json", {"command": command_line(), "versions": storage.versions(), **known})
        self.finish(metrics, show, report=report)
        return metrics

    def finish(self, metrics: Metrics, show: Callable[[Metrics], None], *, report: bool = True) -> None:
        """Write the report, and print the metrics as JSON or as ``show`` does."""
        if report:
            from prism_irl.report.render import write_report

            write_report(self.out)
        if self.common.json:
            from prism_irl.cli.printing import print_json

            print_json(metrics)
            return
        show(metrics)
        if report:
            print(f"Report: {self.out / 'report.html'}")


def command_line() -> str:
    """The command as it was typed, for config.json."""
    return " ".join(["prism", *sys.argv[1:]])
