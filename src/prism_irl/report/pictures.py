"""Figures of one segmentation, drawn from explorer.json: a map per intention, and what surrounds a switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prism_irl.figures import layouts, style, timelines
from prism_irl.figures.maps import add_colorbar
from prism_irl.report.names import default_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PER_ROW = 3
NAMED = 0.1  # share of the long run from which on a place gets its name on the map
EARNED = "reward per 100 steps"


def write_pictures(
    folder: Path, explorer: Mapping[str, Any], names: Sequence[str] | None = None, *, maps: bool = True
) -> dict[str, str]:
    """Write the figures that this segmentation allows as SVG, PNG and CSV; return their captions.

    ``names`` are those of the K intentions, by default those of the run; an experiment that knows its world better
    draws ``maps`` itself.
    """
    names = list(names or explorer["names"] or default_names(explorer["n_intentions"]))
    captions = {}
    with style.paper_style():
        if maps and explorer["layout"] is not None:
            style.save(draw_maps(explorer, names), folder / "maps")
            captions["maps"] = _of_maps(explorer)
        if any(around is not None for around in explorer["story"]["switches"]["around"]):
            captions["switches"] = _switches(folder / "switches", explorer["story"]["switches"]["around"], names)
    return captions


def draw_maps(explorer: Mapping[str, Any], names: Sequence[str]) -> Figure:
    """Where each intention leads, which is what the sentences say, and below it where it earns its reward.

    The reward of a visit is a ratio: a dead end that was entered a few times, or a junction that was left once in many
    visits, has a huge one, and nobody goes there for it. Times the visits it is what the intention lives on.
    """
    rewards, leads = explorer["rewards"], explorer.get("leads") or explorer["occupancy"]
    kinds = [("share of time", leads)] + ([] if rewards is None else [(EARNED, rewards)])
    K, flow = len(names), explorer["flow"]
    columns = 2 if K == 4 else min(K, PER_ROW)  # two and two, instead of one alone in its row
    rows = -(-K // columns)
    figure, axes = style.new_figure(
        rows * len(kinds), columns, width=2.25 * columns + 0.2, height=2.1 * rows * len(kinds)
    )
    for ax in axes:
        ax.set_axis_off()
    for i, (label, numbers) in enumerate(kinds):
        for k in range(K):
            ax = axes[(k // columns * len(kinds) + i) * columns + k % columns]
            ax.set_axis_on()
            time = np.array(explorer["occupancy"][k], float)
            values = np.array(numbers[k], float)  # None becomes NaN
            values = np.where(time > 0, values, np.nan)  # what an inverse solve says about an unseen place is an echo
            if label == EARNED:
                values = 100 * time * values
            arrows = {"towards": flow["towards"][k], "confidence": flow["confidence"][k]}
            title = style.short(names[k], 22) if i == 0 else f"{style.short(names[k], 14)}: reward"
            layouts.layout_map(ax, explorer["layout"], values, title=title, signed=label == EARNED, **arrows)
            if i == 0:
                layouts.label_places(ax, explorer["layout"], _goals(explorer, k))
            if np.isfinite(values).any():
                add_colorbar(ax, [ax], label=label)
    return figure


def _of_maps(explorer: Mapping[str, Any]) -> str:
    """The caption of `draw_maps`."""
    below = (
        ""
        if explorer["rewards"] is None
        else (
            " Below, where it earns its reward: the recovered reward of a visit times its visits, per 100 of its "
            "steps; orange a gain, purple a cost, white none, as in a dead end, where nothing is chosen. A reward "
            "stands where the choice is made, so that the way to a goal carries what is earned there."
        )
    )
    return (
        "What each intention wants. Where it leads: its share of time in each state if it never ended; arrows to the "
        f"state that follows most often under the intention, dots where it stays, grey where it never is (below: "
        f"hardly ever).{below} "
        f"{explorer['layout']['note']}"
    )


def _goals(explorer: Mapping[str, Any], k: int) -> dict[int, str]:
    """Names of the states that matter to an intention: those that its sentence speaks of."""
    want, states = explorer["story"]["wants"][k], explorer["states"]
    found = [int(s) for s, share in want["leads_to"] if share >= NAMED]
    found += [int(i) for what, i, *_ in want.get("more", []) if what == "state"]
    if explorer["layout"]["kind"] == "cells":  # whose names are numbers in brackets
        return {s: str(s) for s in found}
    return {s: str(states[s]) if states else str(s) for s in found}


def _switches(path: Path, around: list[Any], names: list[str]) -> str:
    known = [(k, values) for k, values in enumerate(around) if values is not None]
    columns = min(len(known), PER_ROW)
    rows = -(-len(known) // columns)
    figure, axes = style.new_figure(rows, columns, width=2.1 * columns + 0.4, height=1.7 * rows + 0.2, sharey=True)
    for ax, (k, values) in zip(axes, known, strict=False):
        timelines.switch_average(ax, values, into=k, names=names, title=f"into {style.short(names[k], 18)}")
    for ax in axes[len(known) :]:
        ax.set_axis_off()
    for i, ax in enumerate(axes):
        ax.set_ylabel("mean posterior" if i % columns == 0 else "")
    style.save(figure, path)
    return "Mean probability of each intention before and after a switch; the steeper, the surer the switches."
