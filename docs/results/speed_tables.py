"""Tables of speed and memory, and of when EM should stop."""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any

from blocks import block, need, number, table


@block("benchmarks")
def benchmark_ratios(metrics: dict[str, Any]) -> str:
    """Every work beside its reference of the same run."""
    rows = []
    for row in need(metrics, "ratios"):
        digits = 2 if row["ratio"] < 2 else 1
        between = row.get("quartiles")
        spread = "" if not between else " ({:.{d}f}–{:.{d}f})".format(*between, d=digits)
        ratio = f"{row['ratio']:.2f}" if row["ratio"] < 10 else f"{row['ratio']:,.1f}"
        seconds = [f"{row[key]:.4g}" for key in ("reference_seconds", "seconds")]
        rows.append([row["work"], row["reference"], *seconds, f"{ratio}×{spread}", row["target"]])
    return table(["work", "reference", "reference, s", "ours, s", "ratio", "target"], rows)


@block("benchmarks")
def benchmark_limits(metrics: dict[str, Any]) -> str:
    """Measurements that have a limit instead of a reference."""
    rows = []
    for row in need(metrics, "limits"):
        measured, limit = f"{row['measured']:.3g} {row['unit']}", f"{row['limit']:g} {row['unit']}"
        rows.append([row["work"], measured, limit, "yes" if row["kept"] else "no"])
    return table(["work", "measured", "limit", "kept"], rows)


@block("gpu")
def benchmark_gpu(metrics: dict[str, Any]) -> str:
    """What one GPU does in which time."""
    return table(
        ["work", "time", "reference"], [[row["work"], row["time"], row["reference"]] for row in need(metrics, "rows")]
    )


@block("intervals")
def benchmark_intervals(metrics: dict[str, Any]) -> str:
    """Refits of a bootstrap, each way beside one after the other."""
    rows = [
        [row["how"], f"{row['seconds']:.3g} s", f"{row['seconds_one_after_the_other']:.3g} s", f"{row['ratio']:.1f}×"]
        for row in need(metrics, "rows")
    ]
    reference = f"one after the other ({metrics['alone']} of them, extrapolated)"
    data = f"the {metrics['data']}, {metrics['n_steps']:,} steps, three intentions"
    return f"{metrics['resamples']} resamples of {data}.\n\n" + table(["how", "time", reference, "ratio"], rows)


@block("larger")
def benchmark_larger(metrics: dict[str, Any]) -> str:
    """Fits to mapped data in processes whose private memory is limited."""
    names = {"markov": "Markov chain", "recurrent": "recurrent chain"}
    rows = [
        [
            f"{names[one['switching']]}, {one['steps']:,} steps",
            f"{one['data_gb']:.2g} GB",
            f"{one['limit_gb']:.2g} GB",
            f"{one['peak_gb']:.2g} GB",
            f"{one['iteration']:.3g} s",
            f"{one['seconds'] / 60:.2g} min",
            number(one["accuracy"]),
        ]
        for one in need(metrics, "fits")
    ]
    head = ["fit", "data", "limit", "private memory, at its peak", "an iteration", "everything", "labels right"]
    return table(head, rows)


@block("stopping")
def stopping(metrics: dict[str, Any]) -> str:
    """Closed-form EM stopped by validation trajectories and by its training data."""
    rows = need(metrics, "rows")
    lines = []
    for world in dict.fromkeys(row["world"] for row in rows):
        own = {(row["rule"], row["seed"]): row for row in rows if row["world"] == world}
        seeds = [seed for rule, seed in own if rule == "validation" and ("training", seed) in own]
        cells = [world, str(len(seeds))]
        for key, digits in (("label_accuracy", 3), ("unseen_ll", 4)):
            pairs = [(own["validation", seed][key], own["training", seed][key]) for seed in seeds]
            if not pairs or pairs[0][0] is None:
                cells += ["–"] * 3
                continue
            gains = [after - before for before, after in pairs]
            error = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
            cells += [number(mean(before for before, _ in pairs), digits), number(mean(b for _, b in pairs), digits)]
            cells.append(number({"mean": mean(gains), "std": error}, digits, spread=True))
        lines.append(cells)
    scores = [f"{name}: {rule}" for name in ("accuracy", "LL") for rule in ("validation", "training", "difference")]
    return table(["data", "simulations", *scores], lines)
