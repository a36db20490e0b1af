"""`prism select`: how many intentions, from the predictive likelihood and the agreement of independent fits."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from prism_irl import storage
from prism_irl.studies.select_intentions import Select, parse_intentions, select  # noqa: F401 -- what main parses


def print_selection(metrics: dict[str, Any]) -> None:
    """Print the table and the recommendation."""
    shown = Table(title=metrics["title"], title_justify="left")
    for heading in ("K", "predictive LL", "s.e.", "agreement", "least used", "mean dwell", "shortest dwell"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for key, entry in metrics["methods"].items():
        mark = " ←" if key == f"k{metrics['recommended']}" else ""
        agreement = "–" if entry["agreement"] is None else f"{entry['agreement']:.2f}"
        shown.add_row(
            key.removeprefix("k") + mark,
            f"{entry['predictive_ll']['mean']:.4f}",
            f"{entry['standard_error']:.4f}",
            agreement,
            f"{100 * entry['minimum_use']:.1f}%",
            f"{entry['mean_dwell']:.1f}",
            f"{entry['minimum_dwell']:.1f}",
        )
    console = Console(width=None if Console().is_terminal else 110)
    console.print(shown)
    console.print(metrics["recommendation"], soft_wrap=not console.is_terminal, highlight=False)


def select_table(
    source: Path,
    settings: Select,
    columns: dict[str, Any],
    out: Path,
    *,
    jobs: int = 1,
    overwrite: bool = False,
    resume: bool = False,
    json: bool = False,
    events: Sequence[str] = (),
) -> dict[str, Any]:
    """Read a table or a named data set, select, and leave metrics, table, figure and report in ``out``."""
    from prism_irl.cli import run_folder as runs
    from prism_irl.cli.events import read_events, refuse_events
    from prism_irl.cli.printing import print_json
    from prism_irl.cli.progress import fits_progress
    from prism_irl.data import tables
    from prism_irl.datasets import NAMED
    from prism_irl.report.render import write_report

    mdp, marks = None, {}
    if str(source) in NAMED and not source.exists():
        refuse_events(str(source), events)
        load, dynamics = NAMED[str(source)]
        demos, mdp = load(), dynamics()
    else:
        table = tables.read(source, **columns)
        demos, marks = table.demonstrations, read_events(table, events)
    demos.fold_indices(settings.folds, by=settings.by)  # refuses impossible folds before anything is written
    folder = runs.prepare_folder(out, overwrite=overwrite, resume=resume)
    if overwrite and not resume:
        shutil.rmtree(folder / "cache", ignore_errors=True)
    with fits_progress() as on_fit:
        title = f"How many intentions in {source.name}?"
        result = select(demos, settings, folder, mdp=mdp, jobs=jobs, title=title, on_fit=on_fit, events=marks)
    storage.write_json(
        folder / "config.json",
        {"command": runs.command_line(), "versions": runs.versions(), "data": {"sha256": demos.checksum()}},
    )
    page = write_report(folder)
    if json:
        print_json(result)
    else:
        print_selection(result)
        print(f"Report: {page}")
    return result
