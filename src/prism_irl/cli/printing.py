"""Results on the terminal: tables that keep the two scores apart, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from prism_irl import storage

Columns = Mapping[str, tuple[str, int]]
"""Heading → key of the entry, and how many digits it gets."""
KNOWN_TRUTH = {
    "label_accuracy": "of the steps have the true intention",
    "ari": "adjusted Rand index of the true intentions (1: the same, 0: chance)",
    "boundary_f1": "F1 of the true switches, within one step",
}
"""What is scored where the true intentions are known."""
WORDS = ("method", "measure", "names", "in the named intention")  # headings of columns that may wrap


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    print(json.dumps(storage.read_plain(value), indent=2))


def console(width: int = 110) -> Console:
    """Standard output; where it is not a terminal, wide enough for the table."""
    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=width)


def print_table(title: str, rows: Iterable[Mapping[str, Any]], columns: Columns, width: int = 110) -> None:
    """One line per row; a row can have a ``style``."""
    table = Table(title=title, title_justify="left")
    for heading in columns:
        words = heading in WORDS
        table.add_column(heading, justify="left" if words else "right", no_wrap=not words)
    for row in rows:
        table.add_row(*(cell(row.get(key), digits) for key, digits in columns.values()), style=row.get("style"))
    console(width).print(table)


def cell(value: Any, digits: int) -> str:
    """Text as it is; a number, or mean and spread of several; a dash where there is none."""
    if value is None or isinstance(value, str):
        return value or "–"
    if isinstance(value, Mapping):
        spread = f" ± {value['std']:.{digits}f}" if value.get("std") else ""
        return f"{value['mean']:.{digits}f}{spread}"
    return f"{value:.{digits}f}"


def print_experiment(metrics: dict[str, Any]) -> None:
    """Methods with their scores, and what their policies and rewards are worth where the truth is known."""
    print_methods(metrics)
    print_value_differences(metrics)


def print_methods(metrics: dict[str, Any]) -> None:
    """Method table: predictive LL and paper score side by side, the latter marked where it is no likelihood."""
    entries = metrics["methods"].values()
    columns = {
        "method": ("name", 0),
        "predictive LL": ("predictive_ll", 3),
        "paper score": ("paper", 3),
        "label accuracy": ("label_accuracy", 3),
        "mean dwell": ("mean_dwell", 1),
        "fit s": ("fit_seconds", 1),
    }
    if all(entry.get("label_accuracy") is None for entry in entries):
        del columns["label accuracy"]
    marked = [entry | {"paper": cell(entry["paper_score"], 3) + " *" * entry["leaks"]} for entry in entries]
    for entry in marked:
        if entry.get("n_intentions") == 1:
            entry["mean_dwell"] = None  # nothing that could change: the length of a trajectory says nothing here
    print_table(metrics["title"], marked, columns)
    if any(entry["leaks"] for entry in entries):
        print("* not a likelihood: the gate has seen the action that it is scored on, so this number can")
        print("  exceed the truth's. The same model's predictive LL is the honest one.")


EVD = {"evd_entered_": "{}, entered", "evd_s0_": "{}, at s0", "evd_": "{}, all states"}
"""Mean |V* − V| over the states that can be entered; V − V* at s0; mean |V* − V| over all states."""
REWARDS = {"reward_distance_": "distance, {}", "transfer_": "transfer, {}", "carried_": "policy carried over, {}"}


def print_value_differences(metrics: dict[str, Any]) -> None:
    """Expected value differences with the paper's below ours, and what the rewards are worth, where truth is known."""
    entries = metrics["methods"].values()  # a method without policies over states has no such numbers
    better = "Expected value difference of recovered policies and the expert, true reward (closer to zero is better)"
    worth = "Rewards: distance from the true one (STARC; 0: the same but for shaping and scale, 1: the opposite)"
    if any(key.startswith("transfer_") for entry in entries for key in entry):
        worth += ", and what a plan earns where barriers have moved (1: as much as with the true reward)"
    for title, kinds, first, width in ((better, EVD, ["evd_"], 140), (worth, REWARDS, list(REWARDS), 160)):
        keys = dict.fromkeys(key for kind in first for entry in entries for key in entry if key.startswith(kind))
        columns: dict[str, tuple[str, int]] = {"method": ("name", 0)}
        for key in keys:
            kind = next(kind for kind in kinds if key.startswith(kind))
            name = key.removeprefix(kind)
            columns[kinds[kind].format(f"intention {name}" if name.isdecimal() else name)] = key, 2
        rows = []
        for entry in entries:
            if any(entry.get(key) is not None for key in keys):
                rows.append(entry)
                if kinds is EVD and "paper_evd" in entry:
                    rows.append({"name": "  in the paper, another world", **entry["paper_evd"], "style": "dim"})
        if rows:
            print_table(title, rows, columns, width)


def print_scores(scores: dict[str, Any], *, leaks: bool, density: bool = False) -> None:
    """Both scores of one model on one data set, one line each; that one of them is a density is said below."""
    print(f"predictive LL  {scores['predictive_ll']:.4f} nats per step")
    if density:
        print("               (log density of the commands in their own units: compare it with densities alone)")
    note = "not a likelihood: the gate has seen the action" if leaks else "for comparison with the paper's tables"
    print(f"paper score    {scores['paper_score']:.4f} ({note})")
    print(f"mean dwell     {scores['mean_dwell']:.1f} steps until the intention changes, or the trajectory ends")
    for name, words in KNOWN_TRUTH.items():
        if name in scores:
            print(f"{name.removeprefix('label_').replace('_', ' '):<14} {scores[name]:.3f} {words}")


def print_selection(metrics: dict[str, Any]) -> None:
    """Print the table and the recommendation."""
    columns = {
        "K": ("K", 0),
        "predictive LL": ("mean", 4),
        "s.e.": ("standard_error", 4),
        "agreement": ("agreement", 2),
        "least used": ("use", 0),
        "mean dwell": ("mean_dwell", 1),
        "shortest dwell": ("minimum_dwell", 1),
    }
    rows = []
    for key, entry in metrics["methods"].items():
        mark = " ←" if key == f"k{metrics['recommended']}" else ""
        cells = {"K": key.removeprefix("k") + mark, "use": f"{100 * entry['minimum_use']:.1f}%"}
        rows.append(entry | cells | {"mean": entry["predictive_ll"]["mean"]})
    print_table(metrics["title"], rows, columns)
    terminal = console()
    terminal.print(metrics["recommendation"], soft_wrap=not terminal.is_terminal, highlight=False)


def print_notes(metrics: dict[str, Any], most: int | None = None) -> None:
    """Print what a run says in words."""
    terminal = console()
    for note in metrics["notes"][:most]:
        terminal.print(note, soft_wrap=not terminal.is_terminal, highlight=False)


def print_evidence(metrics: dict[str, Any]) -> None:
    """Print the budget of predictability and the outcome of the test."""
    from prism_irl.report.table_rows import budget_rows

    columns = {
        "model": ("name", 0),
        "predictive LL": ("score", 0),
        "95% interval": ("interval", 0),
        "gain": ("gain", 0),
        "95% of the gain": ("gain_interval", 0),
    }
    if rows := budget_rows(metrics):  # of continuous data there are none
        print_table(metrics["title"], rows, columns)
    print_notes(metrics, len(metrics["notes"]) - 1)


def print_contrast(found: Mapping[str, Any], names: Sequence[str], fit: Mapping[str, Any]) -> None:
    """The table of a contrast, and what it says; ``fit`` is the metrics.json of the run."""
    from prism_irl.report.contrast import section

    shown = section(found, names, {**fit, "step_seconds": None})  # for which a terminal is too narrow
    titles = [title for title, _ in shown.columns]
    columns = {"measure": ("what", 0)} | {title: (title, 0) for title in titles}
    rows = [
        dict[str, Any](zip(titles, row.cells, strict=True))
        | {"what": f"{row.what} ({row.unit})", "style": "bold" if row.clear else None}
        for row in shown.rows
    ]
    print_table(shown.title, rows, columns)
    for finding in shown.findings:
        print(finding.text)


def print_score_intervals(metrics: Mapping[str, Any]) -> None:
    """Likelihoods with their intervals, where --intervals asked for them, and how far below the best they are."""
    if "score_intervals" not in metrics:
        return
    found = metrics["score_intervals"]
    unit = "animals" if found["unit"] == "group" else "trajectories"
    columns = {"method": ("method", 0), "predictive LL": ("predictive_ll", 4), "from": ("low", 4), "to": ("high", 4)}
    columns |= {"below the best": ("below_best", 4), "at least": ("below_low", 4), "at most": ("below_high", 4)}
    print_table(f"95% intervals over {found['n_units']} held-out {unit}", found["rows"], columns)
