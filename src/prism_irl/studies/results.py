"""The files that every study leaves: metrics.json, tables as CSV, figures with their captions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.figures import charts, style
from prism_irl.report.table_rows import method_bar_rows

Draw = Callable[[Path], str]
"""Draws a figure at a path without suffix, and returns its caption."""


def heading(
    title: str, demos: Demonstrations, *, folds: int, seeds: int = 1, quick: bool = False, experiment: str | None = None
) -> dict[str, Any]:
    """What every metrics.json begins with: which data, cut into how many parts, fitted how often."""
    return {
        "title": title,
        **({} if experiment is None else {"experiment": experiment}),
        "quick": quick,
        "folds": folds,
        "seeds": seeds,
        "n_trajectories": len(demos),
        "n_steps": demos.n_steps,
    }


def write_results(folder: Path, result: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write metrics.json, and folds.csv with one row per fit."""
    storage.write_json(folder / "metrics.json", result)
    write_rows(folder / "folds.csv", rows)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV; numbers inside numbers (mean and std) become columns with dots."""
    storage.write_rows(path, pd.json_normalize([dict(row) for row in rows]))


def write_methods(path: Path, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the entries of methods as CSV, one row each."""
    write_rows(path, [{"method": name, **entry} for name, entry in entries.items()])


def write_figures(folder: Path, drawings: Mapping[str, Draw]) -> dict[str, str]:
    """Draw the figures of a run into ``folder``, and write and return their captions."""
    folder.mkdir(parents=True, exist_ok=True)
    with style.paper_style():
        captions = {stem: draw(folder / stem) for stem, draw in drawings.items()}
    storage.write_json(folder / "captions.json", captions)
    return captions


def add_captions(folder: Path, captions: Mapping[str, str]) -> None:
    """Append captions to those of the figures that are in ``folder`` already."""
    path = folder / "captions.json"
    there = storage.read_object(path) if path.is_file() else {}
    storage.write_json(path, there | dict(captions))


def likelihood_figure(path: Path, result: Mapping[str, Any]) -> str:
    """Test score per method with fold spread; scores that are not likelihoods are hatched."""
    rows = method_bar_rows(result, best_first=False)
    oracle = result["methods"].get("oracle")
    figure, (ax,) = style.new_figure(width=5.0, height=0.6 + 0.28 * len(rows))
    charts.method_bars(ax, rows, ceiling=None if oracle is None else oracle["predictive_ll"]["mean"])
    style.save(figure, path)
    line = "" if oracle is None else " The line is the exact Bayes filter, which no likelihood can exceed."
    leaks = not all(row["is_likelihood"] for row in rows)
    leak = " The hatched score is not a likelihood: its gate has seen the action." if leaks else ""
    return f"Test score per method, mean and spread over folds.{line}{leak}"
