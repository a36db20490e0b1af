"""`prism reproduce bridge`: phases of robot demonstrations, of a dataset or of the simulation."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from prism_irl import storage
from prism_irl.cli import printing as output
from prism_irl.cli import run_folder as runs
from prism_irl.cli.tokenize import counting
from prism_irl.errors import InputError


def reproduce_bridge(
    dataset: Path | None, out: Path, *, quick: bool, overwrite: bool, resume: bool, json: bool
) -> None:
    """Run the experiment, write its report, print its tables."""
    from prism_irl.experiments.bridge import run as bridge
    from prism_irl.report.render import write_report

    if overwrite and resume:
        raise InputError("--overwrite begins again and --resume goes on; pass one of them.")
    folder = runs.prepare_folder(out, overwrite=overwrite, resume=resume)
    if overwrite:
        shutil.rmtree(folder / "embeddings", ignore_errors=True)
    settings = bridge.Bridge.of(dataset, quick=quick)
    with counting("fits") as report:
        metrics = bridge.run(settings, folder, on_method=lambda name, done, total: report("fits", done, total, name))
    config = {"command": runs.command_line(), "versions": runs.versions(), "dataset": metrics["dataset"]}
    storage.write_json(folder / "config.json", config)
    page = write_report(folder)
    if json:
        output.print_json(metrics)
        return
    where = "simulated pick-and-place" if metrics["simulated"] else str(dataset)
    print(f"{metrics['n_trajectories']} episodes, {metrics['n_steps']} steps: {where}")
    output.print_methods(metrics)
    print_phases(metrics)
    print_tokens(metrics)
    print(f"Report: {page}")


def print_phases(metrics: dict[str, Any]) -> None:
    """Label metrics and, in a column of its own, the density of commands."""
    entries = metrics["methods"].values()
    if all(entry["label_accuracy"] is None for entry in entries):
        return
    columns = ("label_accuracy", "ari", "nmi", "edit_score", "f1_at_10", "f1_at_25", "f1_at_50", "log_density")
    table = Table(title="Phases against the truth (log density: of commands, not of tokens)", title_justify="left")
    table.add_column("method")
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right", no_wrap=True)
    for entry in entries:
        numbers = [entry.get(column) for column in columns]
        digits = [1 if column.startswith(("edit", "f1")) else 3 for column in columns]
        table.add_row(
            entry["name"],
            *("–" if value is None else f"{value['mean']:.{d}f}" for value, d in zip(numbers, digits, strict=True)),
        )
    Console(width=None if Console().is_terminal else 140).print(table)


def print_tokens(metrics: dict[str, Any]) -> None:
    """Likelihood against K and network, and granularity."""
    console = Console(width=None if Console().is_terminal else 110)
    table = Table(title="Paper's model on tokens, held-out episodes (paper score: not a likelihood)")
    for heading in ("K", "network", "predictive LL", "paper score", "log K", "mean dwell"):
        table.add_column(heading, justify="right")
    for row in metrics["likelihood_by_k"]:
        scores = (row["predictive_ll"], row["paper_score"], row["log_k"])
        table.add_row(str(row["K"]), row["network"], *(f"{s:.3f}" for s in scores), f"{row['mean_dwell']:.1f}")
    console.print(table)
    table = Table(title="Granularity of the state tokens, mean ± std over episodes")
    for heading in ("states", "coverage %", "revisits", "singletons %"):
        table.add_column(heading, justify="right")
    for row in metrics["granularity"]:
        numbers = (row[name] for name in ("coverage", "revisits", "singletons"))
        table.add_row(str(row["n_states"]), *(f"{value['mean']:.2f} ± {value['std']:.2f}" for value in numbers))
    console.print(table)
