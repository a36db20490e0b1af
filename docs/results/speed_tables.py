"""Tables of speed and memory."""

from __future__ import annotations

from typing import Any

from blocks import block, need, table


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
