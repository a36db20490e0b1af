"""Tables of the zoo: every method on many worlds."""

from __future__ import annotations

from typing import Any

from blocks import block, need, number, table


def _labelled(metrics: dict[str, Any]) -> dict[str, Any]:
    """Methods that label steps."""
    return {name: one for name, one in need(metrics, "methods").items() if one.get("relative_accuracy") is not None}


@block("zoo")
def zoo_methods(metrics: dict[str, Any]) -> str:
    """Every method over all worlds with intentions."""
    rows = [
        [
            name,
            number(one["worlds"], 0),
            number(one["relative_accuracy"]),
            number(one["related"].get("relative_accuracy")),
            number(one["exact_k"], 2),
            number(one["within_one"], 2),
            number(one["starc"], 2),
            number(one.get("halves_agree"), 2),
            number(one["below_oracle"]),
            number(one["calibration_error"]),
            number(one["nulls"]["one"], 2),
            number(one["seconds"], 1),
        ]
        for name, one in need(metrics, "methods").items()
        if one["worlds"]
    ]
    titles = ["method", "worlds", "labels, share of the exact filter's", "where switching follows events"]
    titles += [
        "number exact",
        "within one",
        "STARC",
        "same goals from halves",
        "nats below",
        "calibration error",
        "one in nulls",
        "seconds",
    ]
    hours = f"{number(metrics['cpu_hours'], 1)} CPU-hours, at {', '.join(metrics['commits'])}"
    failed = len(metrics.get("failed", []))
    return table(titles, rows) + f"\n{metrics['title']}; {hours}; {failed} fits failed, which count as no labels."


@block("zoo")
def zoo_families(metrics: dict[str, Any]) -> str:
    """Label accuracy as a share of the exact filter's, by family."""
    methods = _labelled(metrics)
    families = dict.fromkeys(family for one in methods.values() for family in one["families"])
    rows = [
        [family, *(number(one["families"].get(family, {}).get("relative_accuracy"), 2) for one in methods.values())]
        for family in families
    ]
    return table(["family", *methods], rows)


@block("zoo")
def zoo_trajectories(metrics: dict[str, Any]) -> str:
    """The same, by training trajectories."""
    methods = _labelled(metrics)
    sizes = sorted({int(n) for one in methods.values() for n in one["by_trajectories"]})
    rows = [
        [name, *(number(one["by_trajectories"].get(str(n), {}).get("relative_accuracy"), 2) for n in sizes)]
        for name, one in methods.items()
    ]
    return table(["method", *map(str, sizes)], rows)
