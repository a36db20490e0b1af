"""`prism reproduce labyrinth`: run the parts that were asked for, and say what came out beside the paper."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from prism_irl import storage
from prism_irl.cli import printing as output
from prism_irl.cli import run_folder as runs
from prism_irl.cli.progress import fits_progress


def reproduce_labyrinth(
    out: Path, *, quick: bool, parts: str | None, jobs: int, overwrite: bool, resume: bool, json: bool
) -> None:
    """Run the experiment, write its report, print its tables."""
    from prism_irl.experiments.labyrinth import run as labyrinth
    from prism_irl.report.render import write_report

    settings = labyrinth.Labyrinth.small() if quick else labyrinth.Labyrinth()
    chosen = labyrinth.PARTS if parts is None else tuple(part.strip() for part in parts.split(",") if part.strip())
    labyrinth.check_parts(chosen)
    data = labyrinth.load(settings)  # says what to fetch before anything is written
    folder = runs.prepare_folder(out, overwrite=overwrite, resume=resume)
    if overwrite and not resume:
        for old in (*(folder / "cache").glob("*.json"), *(folder / "parts").glob("*.json")):
            old.unlink()
        shutil.rmtree(folder / "cache" / "models", ignore_errors=True)
    with fits_progress() as on_fit:
        metrics = labyrinth.run(settings, folder, parts=chosen, jobs=jobs, on_fit=on_fit, data=data)
    config = {"command": runs.command_line(), "versions": runs.versions(), "data": {"sha256": data.demos.checksum()}}
    storage.write_json(folder / "config.json", config)
    page = write_report(folder)
    if json:
        output.print_json(metrics)
        return
    output.print_methods(metrics)
    print_paper_tables(metrics)
    print_alignment(metrics)
    print(f"Report: {page}")


def print_paper_tables(metrics: dict[str, Any]) -> None:
    """Tables num_latents, model_type and timing, with the paper's numbers beside ours."""
    paper = metrics.get("paper", {})
    console = _console()
    for name, first in (("num_latents", "K"), ("model_type", "network")):
        if not paper.get(name):
            continue
        table = Table(title=f"Table {name}: test score as in the paper (not a likelihood)", title_justify="left")
        for heading in (first, "ours", "paper", "ours, train", "paper, train", "predictive LL", "mean dwell"):
            table.add_column(heading, justify="right", no_wrap=True)
        for row in paper[name]:
            numbers = ("paper_score_test", "reported_test", "paper_score_train", "reported_train", "predictive_test")
            table.add_row(str(row[first]), *(f"{row[key]:.3f}" for key in numbers), f"{row['mean_dwell']:.1f}")
        console.print(table)
    for row in paper.get("timing", []):
        console.print(
            f"Seconds per EM iteration on {row['device']} (paper, {row['reported_device']}): "
            f"E-step {row['e_step']:.4f} ({row['reported_e_step']}), "
            f"rewards per intention {row['rewards_per_intention']:.6f} ({row['reported_rewards']}), "
            f"network per intention {row['network_per_intention']:.3f} ({row['reported_network']}), "
            f"total {row['total']:.3f} ({row['reported_total']})."
        )


def print_alignment(metrics: dict[str, Any]) -> None:
    """What the intentions mean: names from the maps, enrichment against shuffled labels, agreement."""
    methods = metrics.get("alignment", {}).get("methods", {})
    if not methods:
        return
    table = Table(title="Alignment of fits to all data (shuffled labels in brackets)", title_justify="left")
    table.add_column("method")
    modes = list(next(iter(methods.values()))["matched"])
    for heading in ("agreement", *modes, "in the named intention", "names"):
        table.add_column(heading, justify="right" if heading != "names" else "left")
    for entry in methods.values():
        shuffled = entry["shuffled"]
        table.add_row(
            entry["name"],
            "–" if entry["agreement"] is None else f"{entry['agreement']:.2f}",
            *(_beside(entry["matched"][mode], shuffled["matched"][mode]) for mode in modes),
            ", ".join(f"{event} {_beside(v, shuffled['in_named'][event])}" for event, v in entry["in_named"].items()),
            "–" if entry["names"] is None else ", ".join(entry["names"]),
        )
    _console().print(table)


def _beside(value: float | None, control: float | None) -> str:
    return "–" if value is None else f"{value:.2f}" + ("" if control is None else f" ({control:.2f})")


def _console() -> Console:
    return Console(width=None if Console().is_terminal else 140)
