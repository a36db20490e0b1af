"""Figures of the comparison with simulations: the data in the bands of the model, and where both are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prism_irl.figures import checks as draw
from prism_irl.figures import layouts, style
from prism_irl.figures.maps import add_colorbar
from prism_irl.report.names import place_name

MOST = 4.0  # a map's colours end where the data is this many times as often in a state as the simulations
PLACES = (style.INK, style.PALETTE[5], style.PALETTE[4])
TITLES = {
    "dwell": "Lasts at least …",
    "return": "Time between two visits, at least …",
    "switch": "Place around a switch",
}


def draw_curves(
    folder: Path, checks: Mapping[str, Any], names: Sequence[str], states: Sequence[str] | None
) -> dict[str, str]:
    """How long intentions last, when they return, what surrounds a switch, and where the agent is; the caption."""
    kinds = {kind: [one for one in checks["curves"] if one["kind"] == kind] for kind in TITLES}
    drawn = [kind for kind, curves in kinds.items() if curves]
    columns = 2
    rows = -(-(len(drawn) + 1) // columns)
    with style.paper_style():
        figure, axes = style.new_figure(rows, columns, width=style.PAGE_WIDTH, height=2.3 * rows)
        for ax, kind in zip(axes, drawn, strict=False):
            looks = [_look(i, one, names, states) for i, one in enumerate(kinds[kind])]
            labels, colors = zip(*looks, strict=True)
            draw.simulated_bands(ax, kinds[kind], labels, colors, around=kind == "switch")
            ax.set_title(TITLES[kind], y=1.0)
            ax.set(ylabel="share of the steps" if kind == "switch" else "share")
        draw.occupancy_scatter(axes[len(drawn)], checks["occupancy"]["data"], checks["occupancy"]["simulated"])
        axes[len(drawn)].set_title("Share of the steps in each state", y=1.0)
        for ax in axes[len(drawn) + 1 :]:
            ax.set_axis_off()
        style.save(figure, folder / "checks")
    return {
        "checks": f"The data (lines) beside {checks['simulations']} simulations of the fitted model (bands: 95% of "
        "them). Where a line leaves its band, the agent does something that the model does not."
    }


def _look(i: int, curve: Mapping[str, Any], names: Sequence[str], states: Sequence[str] | None) -> tuple[str, str]:
    """Label and colour of a curve: an intention keeps its colour, places take theirs from the palette's other end."""
    k, state = curve["intention"], curve["state"]
    place = "" if state is None else place_name(state, states)
    if k is None:
        return place, PLACES[i % len(PLACES)]
    name = style.short(names[k])
    return (f"{name}: {place}" if place else name), style.intention_color(k)


def draw_map(folder: Path, occupancy: Mapping[str, Any], layout: Mapping[str, Any]) -> dict[str, str]:
    """Where the data and the simulations differ; the caption."""
    ratio = np.full(len(layout["xy"]), np.nan)
    data, simulated = (np.array(occupancy[key], float) for key in ("data", "simulated"))
    both = (data > 0) & (simulated > 0)
    at = np.array(occupancy["states"], int)[both]
    ratio[at] = np.clip(np.log2(data[both] / simulated[both]), -np.log2(MOST), np.log2(MOST))
    with style.paper_style():
        figure, (ax,) = style.new_figure(width=3.0, height=2.6)
        layouts.layout_map(ax, layout, ratio, signed=True)
        add_colorbar(ax, [ax], label="log₂ (data / simulated)")
        style.save(figure, folder / "checks_map")
    return {
        "checks_map": "Where the agent is more often than the model (above 0) and less often (below 0), as the "
        f"logarithm of the ratio of their shares of the steps; ratios beyond {MOST:.0f} have the last colour."
    }
