"""Tables of phases of demonstrations beside simple methods."""

from __future__ import annotations

from statistics import mean
from typing import Any

from blocks import block, need, number, table

OURS, FOUND = "phases", "phases, number found"


@block("phases")
def phase_tasks(metrics: dict[str, Any]) -> str:
    """Label accuracy of every method on every task; how many phases are found where nobody says it."""
    rows, methods = need(metrics, "rows"), need(metrics, "methods")
    simple = [name for name in methods if name not in (OURS, FOUND)]
    groups = {task: [row for row in rows if row["task"] == task] for task in dict.fromkeys(row["task"] for row in rows)}
    new = [row for row in rows if row["task"] in metrics["held_out"]]
    groups |= {"**mean of all**": rows} | ({"**mean of new tasks**": new} if new else {})
    lines = []
    for task, own in groups.items():
        scores = [number(mean(row["label_accuracy"][name] for row in own), 2) for name in (OURS, *simple, FOUND)]
        one = not task.startswith("*")
        found = sorted({row["n_found"] for row in own})
        span = f"{found[0]}" if len(found) == 1 else f"{found[0]} to {found[-1]}"
        lines.append([task, str(own[0]["n_phases"]) if one else "", *scores[:-1], span if one else "", scores[-1]])
    titles = ["task", "K", "phases", *simple, "K found", "right with that"]
    return table(titles, lines) + "\n\n" + " ".join(metrics["notes"])
