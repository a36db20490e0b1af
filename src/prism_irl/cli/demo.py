"""`prism demo --world labyrinth`: a simulated mouse, from data to report."""

from __future__ import annotations

from pathlib import Path

from prism_irl import storage
from prism_irl.cli import printing as output
from prism_irl.cli import run_folder as runs
from prism_irl.cli.progress import fits_progress
from prism_irl.report.render import write_report


def labyrinth(out: Path, jobs: int, *, overwrite: bool, json: bool) -> None:
    """Run the demonstration, and print its table or its metrics."""
    from prism_irl.experiments.labyrinth import demo as labyrinth_demo

    folder = runs.prepare_folder(out, overwrite=overwrite)
    with fits_progress() as on_fit:
        metrics = labyrinth_demo.run(labyrinth_demo.LabyrinthDemo(), folder, jobs=jobs, on_fit=on_fit)
    storage.write_json(folder / "config.json", {"command": runs.command_line(), "versions": runs.versions()})
    page = write_report(folder)
    if json:
        output.print_json(metrics)
        return
    output.print_methods(metrics)
    output.print_value_differences(metrics)
    print(f"Report: {page}")
