"""`prism report`: the page of a run again, for instance with names for its intentions."""

from __future__ import annotations

from pathlib import Path

from prism_irl.cli.options import CommonOptions
from prism_irl.cli.run_marker import locked


def report(run: Path, *, common: CommonOptions = CommonOptions()) -> None:
    """Write report.html of a run folder again.

    Example: prism report runs/mouse

    Parameters
    ----------
    run
        Folder that fit, demo or reproduce wrote.
    """
    from prism_irl.report.render import write_report

    with locked(run):
        print(f"Report: {write_report(run)}")
