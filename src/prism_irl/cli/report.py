"""`prism report`: the page of a run again, for instance with names for its intentions."""

from __future__ import annotations

from pathlib import Path

from prism_irl.cli.options import CommonOptions
from prism_irl.cli.run_marker import locked
from prism_irl.errors import InputError, brief, one_line


def report(run: Path, *, common: CommonOptions = CommonOptions()) -> None:
    """Write report.html of a run folder again.

    Example: prism report runs/mouse

    Parameters
    ----------
    run
        Folder that fit, demo or reproduce wrote.
    """
    from prism_irl.checked import BROKEN
    from prism_irl.report.render import write_report

    if not run.is_dir():
        raise InputError(f"There is no folder {run}; give the folder that a run wrote.")
    with locked(run):
        try:
            path = write_report(run)
        except BROKEN as error:  # the files may have been changed since they were written, in any way
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"The files in {run} are not those of a run ({type(error).__name__}: {brief(error)}); restore them or "
                "run again."
            ) from error
    print(one_line(f"Report: {path}"))
