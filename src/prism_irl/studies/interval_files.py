"""What `--intervals` leaves in a run folder: intervals.csv with every number, and two figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from prism_irl import storage
from prism_irl.data.covariates import Inputs

if TYPE_CHECKING:
    from prism_irl.switching.inputs import ReadsInputs

TABLE = "intervals.csv"
PER_STATE = ("rewards", "values")
LONG = (*PER_STATE, "leaving")
"""Numbers of every state or point of a curve: in the table, not in metrics.json."""
STEMS = ("intervals", "interval_rewards")


def write_intervals(
    folder: Path, found: Mapping[str, Any], names: Sequence[str], states: Sequence[str] | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Write table and figures; return what belongs into metrics.json, and the captions."""
    without_intervals(folder)
    plain: dict[str, Any] = storage.read_plain(found)
    storage.write_rows(folder / TABLE, _table(plain["numbers"], states))
    (folder / "figures").mkdir(exist_ok=True)
    kept = {name: value for name, value in plain["numbers"].items() if name not in LONG}
    return plain | {"numbers": kept}, draw_intervals(folder / "figures", plain["numbers"], names, states)


def without_intervals(folder: Path) -> None:
    """Drop the intervals of an earlier run in the same folder."""
    for old in (folder / TABLE, *(path for stem in STEMS for path in (folder / "figures").glob(f"{stem}.*"))):
        old.unlink(missing_ok=True)


def kept_numbers(folder: Path, kept: Mapping[str, Any]) -> dict[str, Any]:
    """All numbers of a run with their intervals: those of metrics.json, ``kept``, and what only the table has."""
    table, numbers = pd.read_csv(folder / TABLE), dict(kept)
    for name in LONG:
        rows = table[table["measure"] == name]
        if rows.empty:
            continue
        axes = ("intention", "state") if name in PER_STATE else ("intention", "input", "at")
        shape = tuple(rows[axis].nunique() for axis in axes)
        estimate, low, high = (rows[column].to_numpy(float).reshape(shape) for column in ("estimate", "low", "high"))
        numbers[name] = {"estimate": estimate, "interval": np.stack([low, high])}
    return numbers


def _table(numbers: Mapping[str, Any], states: Sequence[str] | None) -> pd.DataFrame:
    return pd.DataFrame(_rows(numbers, states)).astype({"intention": "Int64", "to": "Int64", "input": "Int64"})


def _rows(numbers: Mapping[str, Any], states: Sequence[str] | None) -> list[dict[str, Any]]:
    from prism_irl.studies.intervals import GRID  # here, because a run without intervals needs nothing of them

    rows = []
    for name, number in numbers.items():
        if number["interval"] is None:
            continue
        values, ends = np.array(number["estimate"], float), np.array(number["interval"], float)
        for index in np.ndindex(values.shape):
            row: dict[str, Any] = {"measure": name, "intention": index[0] if index else None}
            row["to"] = index[1] if name in ("kernel", "coefficients") else None
            row["input"] = {"leaving": 1, "coefficients": 2}.get(name)
            row["input"] = None if row["input"] is None else index[row["input"]]
            row["at"] = GRID[index[2]] if name == "leaving" else None
            at = index[1] if name in PER_STATE else None
            row["state"] = at if at is None or states is None else states[at]
            rows.append(row | {"estimate": values[index], "low": ends[(0, *index)], "high": ends[(1, *index)]})
    return rows


def draw_intervals(
    folder: Path, numbers: Mapping[str, Any], names: Sequence[str], states: Sequence[str] | None
) -> dict[str, str]:
    """Draw usage and dwell and, where there are any, the largest rewards of each intention; returns the captions."""
    from prism_irl.figures import intervals as drawing
    from prism_irl.figures import style

    shown = [
        (key, label) for key, label in (("usage", "share of steps"), ("dwell", "dwell in steps")) if key in numbers
    ]
    colors = [style.intention_color(k) for k in range(len(names))]
    captions = {"intervals": "How sure the usage and the dwell of each intention are: 95% intervals over resamples."}
    with style.paper_style():
        figure, axes = style.new_figure(1, len(shown), width=0.8 + len(shown) * max(1.6, 0.7 * len(names)), height=2.3)
        for ax, (key, label) in zip(axes, shown, strict=True):
            low, high = np.array(numbers[key]["interval"], float)
            drawing.estimates(ax, numbers[key]["estimate"], low, high, list(map(style.short, names)), colors)
            ax.set_ylabel(label)
            ax.set_ylim(bottom=0)
        style.save(figure, folder / "intervals")
        if "rewards" in numbers:
            values = np.array(numbers["rewards"]["estimate"], float)
            low, high = np.array(numbers["rewards"]["interval"], float)
            labels = list(states) if states is not None else [f"state {s}" for s in range(values.shape[1])]
            figure, axes = style.new_figure(1, len(names), width=0.6 + 2.0 * len(names), height=2.6)
            for k, ax in enumerate(axes):
                if np.isfinite(values[k]).any():
                    drawing.ranked(ax, values[k], low[k], high[k], labels, color=colors[k])
                ax.set_title(style.short(names[k]))
                ax.set_xlabel("reward")
            style.save(figure, folder / "interval_rewards")
            captions["interval_rewards"] = "The states with the largest reward of each intention, with 95% intervals."
    return captions


def draw_inputs(
    folder: Path, inputs: Inputs, chain: ReadsInputs, found: Mapping[str, Any] | None, names: Sequence[str]
) -> dict[str, str]:
    """Draw what each input does to the probability of leaving each intention; returns the caption."""
    from prism_irl.figures import intervals as drawing
    from prism_irl.figures import style
    from prism_irl.studies.intervals import GRID, leaving_curves

    curves = leaving_curves(chain)
    ends = None if found is None else np.asarray(found["numbers"]["leaving"]["interval"], float)
    with style.paper_style():
        figure, axes = style.new_figure(1, len(inputs.inputs), width=0.6 + 2.2 * len(inputs.inputs), height=2.4)
        for i, (ax, one) in enumerate(zip(axes, inputs.inputs, strict=True)):
            for k, name in enumerate(names):
                band = None if ends is None else (ends[0, k, i], ends[1, k, i])
                drawing.effect(
                    ax, one.mean + one.spread * GRID, curves[k, i], band, style.short(name), style.intention_color(k)
                )
            ax.set_xlabel(one.name)
        axes[0].set_ylabel("probability of leaving per step")
        axes[0].legend(loc="best")
        style.save(figure, folder / "inputs")
    sure = "" if ends is None else " Bands are 95% intervals over resamples."
    return {
        "inputs": f"What each input does to switching, the others at their mean, over two standard deviations.{sure}"
    }
