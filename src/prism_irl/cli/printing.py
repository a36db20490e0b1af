"""Results on the terminal: tables that keep the two scores apart, and JSON."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from prism_irl import storage


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    print(json.dumps(storage.read_plain(value), indent=2))


def _number(value: Any, digits: int) -> str:
    if value is None:
        return "–"
    if isinstance(value, dict):
        spread = f" ± {value['std']:.{digits}f}" if value.get("std") else ""
        return f"{value['mean']:.{digits}f}{spread}"
    return f"{value:.{digits}f}"


def print_methods(metrics: dict[str, Any]) -> None:
    """Method table: predictive LL and paper score side by side, the latter marked where it is no likelihood."""
    table = Table(title=metrics["title"], title_justify="left")
    table.add_column("method")
    for heading in ("predictive LL", "paper score", "label accuracy", "mean dwell", "fit s"):
        table.add_column(heading, justify="right", no_wrap=True)
    leaking = False
    for entry in metrics["methods"].values():
        leaking |= entry["leaks"]
        paper = _number(entry["paper_score"], 3) + (" *" if entry["leaks"] else "")
        table.add_row(
            entry["name"],
            _number(entry["predictive_ll"], 3),
            paper,
            _number(entry.get("label_accuracy"), 3),
            _number(entry.get("mean_dwell"), 1),
            _number(entry.get("fit_seconds"), 1),
        )
    console = Console(width=None if Console().is_terminal else 110)
    console.print(table)
    if leaking:
        console.print("* not a likelihood: the gate has seen the action that it is scored on, so this number can")
        console.print("  exceed the truth's. The same model's predictive LL is the honest one.")


def print_value_differences(metrics: dict[str, Any]) -> None:
    """Expected value differences, closer to zero is better, with the paper's numbers below ours."""
    entries = metrics["methods"].values()  # a method without policies over states has no such numbers
    columns = list(dict.fromkeys(key for entry in entries for key in entry if key.startswith("evd_")))
    if not columns:
        return
    table = Table(title="Expected value difference (closer to zero is better)", title_justify="left")
    table.add_column("method")
    for column in columns:
        table.add_column(column.removeprefix("evd_").replace("s0_", "s0 "), justify="right", no_wrap=True)
    for entry in metrics["methods"].values():
        if entry.get(columns[0]) is None:
            continue
        table.add_row(entry["name"], *(_number(entry[column], 2) for column in columns))
        if "paper_evd" in entry:
            table.add_row(
                "  in the paper", *(_number(entry["paper_evd"][column], 2) for column in columns), style="dim"
            )
    Console(width=None if Console().is_terminal else 110).print(table)


def print_scores(scores: dict[str, Any], *, leaks: bool) -> None:
    """Both scores of one model on one data set, one line each."""
    print(f"predictive LL  {scores['predictive_ll']:.4f} nats per step")
    note = "  (not a likelihood: the gate has seen the action)" if leaks else ""
    print(f"paper score    {scores['paper_score']:.4f}{note}")
    print(f"mean dwell     {scores['mean_dwell']:.1f} steps over {scores['n_steps']} steps")
    for name in ("label_accuracy", "ari", "boundary_f1"):
        if name in scores:
            print(f"{name:<14} {scores[name]:.3f}")
