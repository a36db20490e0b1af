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
    if not run.is_dir():
        raise InputError(f"There is no folder {run}; give the folder that a run wrote.")
    with locked(run):
        path = write_again(run)
    print(one_line(f"Report: {path}"))


def write_again(run: Path) -> Path:
    """The page of a run that was there before this command: its files may have been changed since, in any way.

    Where intentions have other names than in its figures, these are drawn again.
    """
    from prism_irl.checked import BROKEN
    from prism_irl.cli.redrawing import redraw
    from prism_irl.report.render import write_report

    try:
        redraw(run)
        return write_report(run)
    except BROKEN as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"The files in {run} are not those of a run ({type(error).__name__}: {brief(error)}); restore them or run "
            "again."
        ) from error
