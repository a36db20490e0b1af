"""Figures of one segmentation, drawn from explorer.json: a map per intention, and what surrounds a switch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prism_irl.figures import layouts, style, timelines
from prism_irl.figures.maps import add_colorbar
from prism_irl.report.names import default_names

PER_ROW = 3
MANY = 50  # places from which on colours end at the 2nd and 98th percentile


def write_pictures(folder: Path, explorer: Mapping[str, Any], *, maps: bool = True) -> dict[str, str]:
    """Write the figures that this segmentation allows as SVG, PNG and CSV; return their captions.

    An experiment that knows its world better draws ``maps`` itself.
    """
    names = explorer["names"] or default_names(explorer["n_intentions"])
    captions = {}
    with style.paper_style():
        if maps and explorer["layout"] is not None:
            captions["maps"] = _maps(folder / "maps", explorer, names)
        if any(around is not None for around in explorer["story"]["switches"]["around"]):
            captions["switches"] = _switches(folder / "switches", explorer["story"]["switches"]["around"], names)
    return captions


def _maps(path: Path, explorer: Mapping[str, Any], names: list[str]) -> str:
    rewards = explorer["rewards"]
    K, flow = len(names), explorer["flow"]
    columns = min(K, PER_ROW)
    rows = -(-K // columns)
    figure, axes = style.new_figure(rows, columns, width=2.25 * columns + 0.2, height=2.1 * rows)
    for k, ax in enumerate(axes):
        if k >= K:
            ax.set_axis_off()
            continue
        time = np.array(explorer["occupancy"][k], float)
        values = time if rewards is None else np.array(rewards[k], float)  # None becomes NaN
        values = np.where(time > 0, values, np.nan)  # what an inverse solve says about a place nobody saw is an echo
        if np.isfinite(values).sum() > MANY:  # a place left once in many visits can drown all others
            values = np.clip(values, *np.nanquantile(values, (0.02, 0.98)))
        towards, confidence = flow["towards"][k], flow["confidence"][k]
        layouts.layout_map(ax, explorer["layout"], values, towards=towards, confidence=confidence, title=names[k])
        if np.isfinite(values).any():
            add_colorbar(ax, [ax], label="share of time" if rewards is None else "reward")
    style.save(figure, path)
    what = "Share of its time" if rewards is None else "Recovered reward, expected under the intention's own policy,"
    return (
        f"What each intention wants. {what} in each state; arrows lead to the state that follows most often under the "
        f"intention, dots where it stays, grey where it never is. {explorer['layout']['note']}"
    )


def _switches(path: Path, around: list[Any], names: list[str]) -> str:
    known = [(k, values) for k, values in enumerate(around) if values is not None]
    columns = min(len(known), PER_ROW)
    rows = -(-len(known) // columns)
    figure, axes = style.new_figure(rows, columns, width=2.1 * columns + 0.4, height=1.7 * rows + 0.2, sharey=True)
    for ax, (k, values) in zip(axes, known, strict=False):
        timelines.switch_average(ax, values, into=k, names=names, title=f"into {names[k]}")
    for ax in axes[len(known) :]:
        ax.set_axis_off()
    for i, ax in enumerate(axes):
        ax.set_ylabel("mean posterior" if i % columns == 0 else "")
    style.save(figure, path)
    return "Mean probability of each intention before and after a switch; the steeper, the surer the switches."
