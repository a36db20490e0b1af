"""Results on the terminal: tables that keep the two scores apart, and JSON."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from prism_irl import storage


def _console(width: int = 110) -> Console:
    """Standard output; where it is not a terminal, wide enough for the table."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


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
    console = _console()
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
    _console().print(table)


def print_scores(scores: dict[str, Any], *, leaks: bool) -> None:
    """Both scores of one model on one data set, one line each."""
    print(f"predictive LL  {scores['predictive_ll']:.4f} nats per step")
    note = "  (not a likelihood: the gate has seen the action)" if leaks else ""
    print(f"paper score    {scores['paper_score']:.4f}{note}")
    print(f"mean dwell     {scores['mean_dwell']:.1f} steps over {scores['n_steps']} steps")
    for name in ("label_accuracy", "ari", "boundary_f1"):
        if name in scores:
            print(f"{name:<14} {scores[name]:.3f}")


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
    console = _console()
    console.print(shown)
    console.print(metrics["recommendation"], soft_wrap=not console.is_terminal, highlight=False)


def print_paper_tables(metrics: dict[str, Any]) -> None:
    """Tables num_latents, model_type and timing, with the paper's numbers beside ours."""
    paper = metrics.get("paper", {})
    console = _console(140)
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
    _console(140).print(table)


def _beside(value: float | None, control: float | None) -> str:
    return "–" if value is None else f"{value:.2f}" + ("" if control is None else f" ({control:.2f})")


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
    _console(140).print(table)


def print_tokens(metrics: dict[str, Any]) -> None:
    """Likelihood against K and network, and granularity."""
    console = _console()
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
