"""Tables of the test against a habit: its calibration, the budget of predictability of the mice, the tutorial."""

from __future__ import annotations

from typing import Any

from blocks import block, need, number, table


@block("calibration")
def calibration(metrics: dict[str, Any]) -> str:
    """How often evidence is found in data of every kind."""
    rows = [
        [
            entry["name"],
            number(entry["found"], 0),
            number(entry["of"], 0),
            f"{number(entry['low'], 2)} to {number(entry['high'], 2)}",
        ]
        for entry in need(metrics, "methods").values()
    ]
    said = [finding["text"] for finding in metrics.get("findings", [])] + metrics.get("notes", [])
    notes = "\n".join(f"- {note}" for note in said)
    return table(["data", "evidence found", "of", "95% interval of the share"], rows) + "\n" + notes


@block("labyrinth-evidence")
def labyrinth_budget(metrics: dict[str, Any]) -> str:
    """What each thing that a model may know is worth on the mice, and what the test says."""
    rows = []
    for entry in need(metrics, "budget"):
        gain = [number(entry.get(key), 4) for key in ("gain", "gain_low", "gain_high")]
        interval = f"{number(entry['low'], 4)} to {number(entry['high'], 4)}"
        between = "–" if entry.get("gain") is None else f"{gain[1]} to {gain[2]}"
        rows.append([entry["name"], number(entry["predictive_ll"], 4), interval, gain[0], between])
    titles = ["model", "predictive LL", "95% interval", "gain over the row above", "95% interval of the gain"]
    return table(titles, rows) + "\n" + "\n".join(f"- {note}" for note in metrics.get("notes", []))


@block("tutorial")
def tutorial_mice(metrics: dict[str, Any]) -> str:
    """What the tutorial's commands call good, how much of it is wrong, and how new bouts are predicted."""
    counts = [
        [f"`prism {name}`", *(str(own[key]) for key in ("of", "two_intentions", "good", "wrong", "good_and_wrong"))]
        for name, own in need(metrics, "commands").items()
    ]
    titles = ["command", "mice", "two intentions", "called good", "right at less than 90%", "both"]
    own, every = metrics.get("own") or {}, need(metrics, "new_bouts")
    names = {"predictive_ll": "predictive LL", "label_accuracy": "steps with the true intention"}
    oracle = {"predictive_ll": "oracle_ll", "label_accuracy": "oracle_accuracy"}
    rows = [
        [words, number(own.get(key)), number(every[key], spread=True), number(every[oracle[key]], spread=True)]
        for key, words in names.items()
    ]
    new = table(["new bouts", "this mouse", "all mice", "observer who knows the simulator"], rows)
    return table(titles, counts) + "\n" + new
