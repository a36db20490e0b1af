"""What `prism imagine` leaves in a run folder: numbers, a table with a row per state and intention, and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prism_irl import storage
from prism_irl.errors import InputError
from prism_irl.figures import charts as drawing
from prism_irl.figures import style
from prism_irl.figures.maps import add_colorbar, layout_map
from prism_irl.report.contrast import file_stem
from prism_irl.studies import results

FOLDER = "imagined"
CLEAR, NAMED = 12, 3


def imagined_path(folder: Path, name: str) -> Path:
    """Where the numbers lie."""
    return folder / FOLDER / f"{file_stem(name)}.json"


def check_new(folder: Path, name: str, *, overwrite: bool) -> None:
    """Refuse to replace an earlier answer unless asked to."""
    if imagined_path(folder, name).exists() and not overwrite:
        raise InputError(f"{folder} already holds the answer {name!r}; pass --overwrite, or another --name.")


def in_words(found: Mapping[str, Any], what: str, states: Sequence[str], names: Sequence[str]) -> str:
    """The answer in two or three sentences; ``what`` is the change."""
    difference = found["visits"]["difference"]
    mean, (low, high) = np.asarray(difference["mean"]), np.asarray(difference["interval"])
    clear = [int(s) for s in np.argsort(-np.abs(mean), kind="stable") if low[s] > 0 or high[s] < 0]
    before, after = (np.asarray(found["visits"][side]["mean"]) for side in ("before", "after"))
    text = f"{what}: {found['moved']:.0%} of the time would be spent elsewhere"
    if clear:
        some = [f"{states[s]} {before[s]:.1%} → {after[s]:.1%}" for s in clear[:NAMED]]
        text += f", clearly so in {len(clear)} of {len(mean)} states (most: {', '.join(some)})."
    else:
        text += ", in no state more than the intervals allow for."
    usage = found["usage"]
    shares = [
        f"{names[k]} {b:.0%} → {a:.0%}"
        for k, (b, a) in enumerate(zip(usage["before"]["mean"], usage["after"]["mean"], strict=True))
    ]
    text += f" Time per intention: {', '.join(shares)}."
    if found["left_out"]:
        text += f" {found['left_out']} trajectories began where it is closed and were left out."
    sure = f"{found['n']} fits to resampled animals" if found["refitted"] else f"{found['n']} simulations of the fit"
    ends = "" if found["refitted"] else ", as if the fit were certain (--intervals 200 counts how sure it is)"
    return f"{text} Intervals are over {sure}{ends}. This is what the fitted model would do; nobody has seen it done."


def write_imagined(
    folder: Path,
    name: str,
    found: Mapping[str, Any],
    *,
    states: Sequence[str],
    names: Sequence[str],
    layout: Mapping[str, Any] | None,
) -> None:
    """Write numbers, table and figure; the report shows the latter."""
    (folder / FOLDER).mkdir(exist_ok=True)
    results.write_rows(folder / FOLDER / f"{file_stem(name)}.csv", rows_of(found, states, names))
    stem = f"imagine-{file_stem(name)}"
    with style.paper_style():
        _draw(folder / "figures" / stem, found, states, layout)
    results.add_captions(folder / "figures", {stem: str(found["in_words"])})
    storage.write_json(imagined_path(folder, name), found)  # last: what is there is whole


def rows_of(found: Mapping[str, Any], states: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
    """A row per state and intention: shares before and after and their difference, with the ends of the intervals."""
    rows = []
    for kind, labels in (("visits", states), ("usage", names)):
        for i, label in enumerate(labels):
            row: dict[str, Any] = {"measure": kind, "of": label}
            for side in ("before", "after", "difference"):
                low, high = found[kind][side]["interval"]
                row |= {side: found[kind][side]["mean"][i], f"{side}_low": low[i], f"{side}_high": high[i]}
            rows.append(row)
    return rows


def _draw(path: Path, found: Mapping[str, Any], states: Sequence[str], layout: Mapping[str, Any] | None) -> None:
    difference = np.asarray(found["visits"]["difference"]["mean"])
    low, high = np.asarray(found["visits"]["difference"]["interval"])
    largest = np.argsort(-np.abs(difference), kind="stable")[:CLEAR]
    maps = 0 if layout is None else 3
    height = max(2.2, 0.6 + 0.18 * len(largest))
    figure, axes = style.new_figure(1, maps + 1, width=2.3 * maps + 3.0, height=height)
    if layout is not None:
        shut = {**layout, "barriers": sorted({*layout["barriers"], *found["closed"]})}
        kinds = {"before": layout, "after": shut, "difference": shut}
        for ax, (side, place) in zip(axes, kinds.items(), strict=False):
            shares = np.asarray(found["visits"][side]["mean"], float)
            if side != "difference":
                shares = np.where(shares > 0, shares, np.nan)  # grey where nobody ever is
            layout_map(ax, place, shares, title=side)
            add_colorbar(ax, [ax], label="share of time" if side != "difference" else "change")
    order = largest[np.argsort(-difference[largest], kind="stable")]
    color = style.PALETTE[0]
    labels = [states[s] for s in order]
    drawing.ranked(axes[maps], difference[order], low[order], high[order], labels, color=color, most=CLEAR)
    axes[maps].set_xlabel("change of the share of time")
    style.save(figure, path)
