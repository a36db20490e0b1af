"""Tables of the robot experiment."""

from __future__ import annotations

from typing import Any

from blocks import block, need, number, table


@block("bridge")
def bridge_phases(metrics: dict[str, Any]) -> str:
    """Every method against the true phases of simulated pick-and-place."""
    keys = (("label_accuracy", 2), ("ari", 2), ("edit_score", 0), ("f1_at_50", 0))
    keys += (("predictive_ll", 3), ("log_density", 2))
    entries = need(metrics, "methods").values()
    rows = [[entry["name"], *(number(entry.get(key), digits) for key, digits in keys)] for entry in entries]
    titles = ["method", "steps with the true phase", "ARI", "edit score", "F1@50", "LL of tokens", "log density"]
    notes = "One fit of each method, to four fifths of the episodes; labels of all of them, scores of the last fifth."
    return table(titles, rows) + f"\n{notes} {_against_habits(metrics['methods'])}\n"


def _against_habits(methods: dict[str, Any]) -> str:
    """Whether intentions predict more than what has none, in the units of each claim."""
    said = []
    for family, key, habit, what in (
        ("tokens", "predictive_ll", "habit-tokens", "tokens"),
        ("features", "log_density", "habit-features", "commands"),
    ):
        if habit not in methods:
            return "This run was made before the habits without intentions were scored beside it."
        best = max(entry[key]["mean"] for entry in methods.values() if entry["family"] == family and entry.get(key))
        own = methods[habit][key]["mean"]
        verb = "better" if best > own else "worse"
        said.append(
            f"The best intentions predict {what} {verb} than a habit ({number(best, 2)} against {number(own, 2)})."
        )
    return " ".join(said)


@block("bridge")
def bridge_by_k(metrics: dict[str, Any]) -> str:
    """Both scores of the paper's model on tokens, beside the bound that copying the action has."""
    rows = []
    for row in need(metrics, "likelihood_by_k"):
        scores = [{"mean": row[key], "std": row[f"{key}_std"]} for key in ("paper_score", "predictive_ll")]
        paper, predictive = (number(score, 3, spread=True) for score in scores)
        cells = [paper, number(row["log_k"], 3), predictive, number(row["mean_dwell"], 1), number(row["reported"], 3)]
        network = row["network"].upper() if row["network"] != "transformer" else "Transformer"
        rows.append([str(row["K"]), network, str(row["fits"]), *cells])
    titles = [
        "K",
        "network",
        "fits",
        "paper score",
        "log K",
        "predictive LL",
        "mean dwell",
        "the paper's, BridgeData V2",
    ]
    return table(titles, rows) + "\nMeans and spread over folds, and of the RNN over seeds, too, as in the paper.\n"


@block("bridge")
def bridge_granularity(metrics: dict[str, Any]) -> str:
    """Statistics of the state tokens."""
    keys = ("coverage", "revisits", "singletons")
    rows = [
        [row["encoder"], str(row["n_states"]), *(number(row[key], 2, spread=True) for key in keys)]
        for row in need(metrics, "granularity")
    ]
    return table(["encoder", "number of states", "coverage, %", "average revisits", "singletons, %"], rows)
