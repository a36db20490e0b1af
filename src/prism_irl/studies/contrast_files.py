"""What `prism contrast` leaves in a run folder: numbers, tables, one figure per question, and their captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prism_irl import storage
from prism_irl.errors import InputError
from prism_irl.figures import charts as drawing
from prism_irl.figures import style
from prism_irl.report.contrast import FOLDER, file_stem, model_digest
from prism_irl.studies import results

Rows = Sequence[Mapping[str, Any]]


def contrast_path(folder: Path, by: str) -> Path:
    """Where the numbers of a contrast lie."""
    return folder / FOLDER / f"{file_stem(by)}.json"


def check_new(folder: Path, by: str, *, overwrite: bool) -> None:
    """Refuse to replace a contrast unless asked to."""
    if contrast_path(folder, by).exists() and not overwrite:
        raise InputError(f"{folder} already holds a contrast by {by!r}; pass --overwrite to replace it.")


def write_contrast(folder: Path, result: dict[str, Any], names: Sequence[str]) -> None:
    """Write numbers, tables and figures; the report finds them."""
    stem = file_stem(result["by"])
    (folder / FOLDER).mkdir(exist_ok=True)
    results.write_rows(folder / FOLDER / f"{stem}.csv", result["tests"])
    results.write_rows(folder / FOLDER / f"{stem}_units.csv", result["per_unit"])
    figures = folder / "figures"
    for old in figures.glob(f"contrast-{stem}-*.*"):
        old.unlink()
    captions = _draw(figures, stem, result, names)
    results.add_captions(figures, captions)
    found = result | {"model": model_digest(folder)}
    storage.write_json(contrast_path(folder, result["by"]), found)  # last: what is there is whole


def _draw(folder: Path, stem: str, value: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    one, two = value["levels"]
    captions: dict[str, str] = {}
    titles = {"usage": "share of steps", "dwell": "mean dwell in steps", "switch_rate": "switches per step"}
    with style.paper_style():
        for measure, label in titles.items():
            tests = [test for test in value["tests"] if test["measure"] == measure]
            if not tests:
                continue
            figure, axes = style.new_figure(1, len(tests), width=1.0 + 1.5 * len(tests), height=2.3)
            for ax, test in zip(axes, tests, strict=True):
                _dots(ax, value, test, names)
            axes[0].set_ylabel(label)
            name = f"contrast-{stem}-{measure}"
            style.save(figure, folder / name)
            captions[name] = (
                f"{label.capitalize()} under {one} and {two}: a dot per {value['unit']}, all of a condition as a bar."
            )
        tests = [test for test in value["tests"] if test["measure"] == "kernel" and test["interval"] is not None]
        if tests:
            labels = [f"{style.short(names[t['intention']])} → {style.short(names[t['to']])}" for t in tests]
            figure, (ax,) = style.new_figure(width=4.4, height=0.9 + 0.25 * len(tests))
            drawing.difference_forest(ax, tests, labels)
            ax.set_xlabel(f"switches per step, {two} minus {one}")
            style.save(figure, folder / f"contrast-{stem}-kernel")
            captions[f"contrast-{stem}-kernel"] = (
                f"Which switches are more frequent under {two} than under {one}, with 95% intervals; filled: clear "
                "after correction for all questions."
            )
        if value.get("occupancy"):
            figure, (ax,) = style.new_figure(height=2.6)
            first, second = value["occupancy"]
            drawing.state_shares(ax, first, second, value["levels"])
            style.save(figure, folder / f"contrast-{stem}-occupancy")
            captions[f"contrast-{stem}-occupancy"] = f"Where time is spent under {one} and {two}: a dot per state."
    return captions


def _dots(ax: Any, value: Mapping[str, Any], test: Mapping[str, Any], names: Sequence[str]) -> None:
    k = test["intention"]
    own = [row for row in value["per_unit"] if (row["measure"], row["intention"]) == (test["measure"], k)]
    first, second = (
        {row["unit_of"]: row["value"] for row in own if row["level"] == side and row["value"] is not None}
        for side in (0, 1)
    )
    groups = [float("nan") if v is None else v for v in test["values"]]
    color = style.PALETTE[0] if k is None else style.intention_color(k)
    drawing.unit_dots(ax, first, second, groups, value["levels"], color=color)
    if k is not None:
        ax.set_title(style.short(names[k]))
