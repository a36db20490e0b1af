"""`prism sample`: a small table to try everything on."""

from __future__ import annotations

import csv
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

from prism_irl.errors import InputError


def sample(
    name: Literal["mouse", "two-goals", "choices", "arm"],
    *,
    out: Path | None = None,
    truth: bool = False,
    seed: int = 0,
) -> None:
    """Write a small simulated table, to standard output or a file.

    Example: prism sample mouse --out mouse.csv

    Parameters
    ----------
    name
        mouse: cells of a grid, water and home; two-goals: a walker whose velocity is measured; choices: left or right,
        trial by trial; arm: pick and place, in demonstrations.
    out
        File to write [default: standard output].
    truth
        Add the column intention: what the agent was after at every step, for evaluation.
    seed
        The one source of randomness.
    """
    from prism_irl.worlds import samples

    rows = samples.sample(name, seed, truth=truth)
    if out is not None and out.exists():
        raise InputError(f"There is a file {out} already; choose another --out.")
    try:
        target = nullcontext(sys.stdout) if out is None else out.open("w", newline="", encoding="utf-8")
        with target as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise InputError(f"Cannot write {out} ({error.strerror}); choose another --out.") from None
