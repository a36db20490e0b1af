"""Tables of the robot experiment."""

from __future__ import annotations

from typing import Any

from blocks import block, need, number, table

PAPER_BY_K = {1: -2.52187, 2: -1.81282, 3: -1.43000, 4: -1.16584, 5: -0.96912, 6: -0.82373}
"""Table num_latents of the paper, Bridge V2, test."""


@block("bridge")
def bridge_phases(metrics: dict[str, Any]) -> str:
    """Every method against the true phases of simulated pick-and-place."""
    keys = (("label_accuracy", 2), ("ari", 2), ("edit_score", 0), ("f1_at_50", 0))
    entries = need(metrics, "methods").values()
    rows = [[entry["name"], *(number(entry.get(key), digits) for key, digits in keys)] for entry in entries]
    return table(["method", "steps with the true phase", "ARI", "edit score", "F1@50"], rows)


@block("bridge")
def bridge_by_k(metrics: dict[str, Any]) -> str:
    """Both scores of the paper's model on tokens, beside the bound that copying the action has."""
    rows = []
    for row in need(metrics, "likelihood_by_k"):
        reported = number(PAPER_BY_K.get(row["K"]), 3) if row["network"] == "rnn" else "–"
        scores = [number(row[key], 3) for key in ("paper_score", "log_k", "predictive_ll")]
        rows.append([str(row["K"]), row["network"].upper(), *scores, number(row["mean_dwell"], 1), reported])
    titles = ["K", "network", "paper score", "log K", "predictive LL", "mean dwell", "the paper's, on BridgeData V2"]
    return table(titles, rows)


@block("bridge")
def bridge_granularity(metrics: dict[str, Any]) -> str:
    """Statistics of the state tokens."""
    keys = ("coverage", "revisits", "singletons")
    rows = [
        [str(row["n_states"]), *(number(row[key], 2, spread=True) for key in keys)]
        for row in need(metrics, "granularity")
    ]
    return table(["number of states", "coverage, %", "average revisits", "singletons, %"], rows)
