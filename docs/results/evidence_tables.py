"""Tables of the test against a habit: its calibration, and the budget of predictability of the mice."""

from __future__ import annotations

from typing import Any

from blocks import block, need, number, table


@block("calibration")
def calibration(metrics: dict[str, Any]) -> str:
    """How often evidence is found in data of every kind."""
    rows = []
    for entry in need(metrics, "methods").values():
        gain = entry["gain_over_habit"]
        signed = ("+" if (gain["mean"] if isinstance(gain, dict) else gain) > 0 else "") + number(gain, 4)
        rows.append([entry["name"], number(entry["evidence_found"], 0), number(entry["data_sets"], 0), signed])
    notes = "\n".join(f"- {note}" for note in metrics.get("notes", []))
    return table(["data", "evidence found", "of", "mean gain over the habit"], rows) + "\n" + notes


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
