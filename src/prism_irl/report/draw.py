"""Every figure of a run, drawn from the files of its folder alone.

explorer.json gives maps and switches, checks.json the data beside simulations, figures/drawn.json raster, dwell and
covariates, history.csv the curves of EM, intervals.csv the intervals. `draw_run` draws all that these files
allow, under the names that the intentions have by now.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prism_irl import storage
from prism_irl.figures import charts, style
from prism_irl.figures import maps as drawing
from prism_irl.labels import segments
from prism_irl.report.names import default_names, place_name, write_names
from prism_irl.report.verdict import say

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from prism_irl.evaluation.result import FitResult


DRAWN = Path("figures", "drawn.json")
TABLE = "intervals.csv"
PER_STATE = ("rewards", "values")
LARGEST = 20_000_000  # bytes of drawn.json
RASTER_ROWS = 60
PER_ROW = 3
NAMED = 0.1  # share of the long run from which on a place gets its name on the map
EARNED = "reward per 100 steps"
PLACES = (style.INK, style.PALETTE[5], style.PALETTE[4])
TITLES = {
    "dwell": "Lasts at least …",
    "return": "Time between two visits, at least …",
    "switch": "Place around a switch",
}


def draw_run(folder: Path, names: Sequence[str] | None = None, *, maps: bool = True) -> dict[str, str]:
    """Draw all figures that the files of a run allow as SVG, PNG and CSV, and write and return their captions.

    ``names`` are those of its K intentions, by default the run's; an experiment that knows its world better draws
    ``maps`` of each intention itself.
    """
    from prism_irl.report.checks import read_checks
    from prism_irl.report.explorer import read_explorer

    explorer, figures = read_explorer(folder), folder / "figures"
    if explorer is None:
        return {}
    figures.mkdir(exist_ok=True)
    names = list(names or explorer["names"] or default_names(explorer["n_intentions"]))
    drawn = storage.read_part(folder, str(DRAWN), LARGEST, lambda value: value["version"] == 1, "these figures")
    checks, captions = read_checks(folder), write_pictures(figures, explorer, names, maps=maps)
    for stem in ("checks", "checks_map", *(() if drawn is None else ("em_curves", "intervals", "interval_rewards"))):
        for old in figures.glob(f"{stem}.*"):  # of an earlier run in the same folder
            old.unlink()
    with style.paper_style():
        if drawn is not None:
            captions |= _draw_segmentation(figures, drawn, names)
            if (folder / "history.csv").is_file():
                figure, (ax,) = style.new_figure(height=2.4)
                charts.em_curves(ax, [{k: v or None for k, v in row.items()} for row in _rows(folder / "history.csv")])
                style.save(figure, figures / "em_curves")
                captions["em_curves"] = "Likelihood during EM, one line per start."
            if drawn["effects"] is not None:
                captions |= _draw_effects(figures, drawn["effects"], names)
        if checks is not None and not checks["note"]:
            captions |= _draw_curves(figures, checks, names, explorer["states"])
        if (folder / TABLE).is_file():
            captions |= _draw_intervals(figures, _rows(folder / TABLE), names, explorer["states"])
    there = storage.read_object(figures / "captions.json") if (figures / "captions.json").is_file() else {}
    storage.write_json(figures / "captions.json", {**{k: v for k, v in there.items() if k not in captions}, **captions})
    if names != default_names(len(names)):
        write_names(figures, names)
    return captions


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_pictures(
    folder: Path, explorer: Mapping[str, Any], names: Sequence[str] | None = None, *, maps: bool = True
) -> dict[str, str]:
    """Write the figures of a segmentation as SVG, PNG and CSV; return their captions. Options are as in `draw_run`."""
    names = list(names or explorer["names"] or default_names(explorer["n_intentions"]))
    captions = {}
    with style.paper_style():
        if maps and explorer["layout"] is not None:
            style.save(draw_maps(explorer, names), folder / "maps")
            captions["maps"] = say("maps", rewards=explorer["rewards"] is not None, note=explorer["layout"]["note"])
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
            drawing.layout_map(ax, explorer["layout"], values, title=title, signed=label == EARNED, **arrows)
            if i == 0:
                drawing.label_places(ax, explorer["layout"], _goals(explorer, k))
            if np.isfinite(values).any():
                drawing.add_colorbar(ax, [ax], label=label)
    return figure


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
        charts.switch_average(ax, values, into=k, names=names, title=f"into {style.short(names[k], 18)}")
    for ax in axes[len(known) :]:
        ax.set_axis_off()
    for i, ax in enumerate(axes):
        ax.set_ylabel("mean posterior" if i % columns == 0 else "")
    style.save(figure, path)
    return "Mean probability of each intention before and after a switch; the steeper, the surer the switches."


def _draw_segmentation(figures: Path, drawn: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """The raster of the first trajectories, and how long each intention lasts."""
    captions = {
        "segmentation": "Intention of every step, one row per trajectory.",
        "dwell": "How long each intention lasts once it has begun.",
    }
    raster, dwell = drawn["raster"], drawn["dwell"]
    figure, (ax,) = style.new_figure(width=6.6, height=3.2)
    charts.segmentation_raster(ax, raster["labels"], raster["offsets"], names=names, total=raster["total"])
    style.save(figure, figures / "segmentation")
    lengths = [np.repeat(*np.array(own, np.int64).reshape(-1, 2).T) for own in dwell["lengths"]]
    expected = None if dwell["expected"] is None else np.array(dwell["expected"], float)
    if expected is not None:
        captions["dwell"] += " Dashed: what the model expects of a visit that no end of a trajectory cuts short."
    figure, (ax,) = style.new_figure(height=2.2 + 0.08 * len(names))  # the more, the higher the legend
    charts.dwell_histogram(ax, lengths, expected, names)
    style.save(figure, figures / "dwell")
    return captions


def _draw_effects(figures: Path, effects: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """What each covariate does to the probability of leaving each intention."""
    at, leaving = (np.array(effects[key], float) for key in ("at", "leaving"))
    ends = None if effects["interval"] is None else np.array(effects["interval"], float)
    d = len(effects["names"])
    figure, axes = style.new_figure(1, d, width=0.6 + 2.2 * d, height=2.4)
    for i, (ax, label) in enumerate(zip(axes, effects["names"], strict=True)):
        for k, name in enumerate(names):
            band = None if ends is None else (ends[0, k, i], ends[1, k, i])
            charts.effect(ax, at[i], leaving[k, i], band, style.short(name), style.intention_color(k))
        ax.set_xlabel(label)
    axes[0].set_ylabel("probability of leaving per step")
    axes[0].legend(loc="best")
    style.save(figure, figures / "inputs")
    sure = "" if ends is None else " Bands are 95% intervals over resamples."
    return {
        "inputs": f"What each input does to switching, the others at their mean, over two standard deviations.{sure}"
    }


def _draw_intervals(
    folder: Path, rows: Sequence[Mapping[str, str]], names: Sequence[str], states: Sequence[str] | None
) -> dict[str, str]:
    """Draw usage and dwell and, where there are any, the largest rewards of each intention; returns the captions."""
    numbers: dict[str, Any] = {}
    for name in ("usage", "dwell", "rewards"):
        own = [
            [float(row[column] or "nan") for column in ("estimate", "low", "high")]
            for row in rows
            if row["measure"] == name
        ]
        if own:
            numbers[name] = np.array(own).T.reshape(3, len(names), -1)
    shown = [one for one in (("usage", "share of steps"), ("dwell", "dwell in steps")) if one[0] in numbers]
    colors = [style.intention_color(k) for k in range(len(names))]
    captions = {"intervals": "How sure the usage and the dwell of each intention are: 95% intervals over resamples."}
    figure, axes = style.new_figure(1, len(shown), width=0.8 + len(shown) * max(1.6, 0.7 * len(names)), height=2.3)
    for ax, (key, label) in zip(axes, shown, strict=True):
        values, low, high = numbers[key][:, :, 0]
        charts.estimates(ax, values, low, high, list(map(style.short, names)), colors)
        ax.set_ylabel(label)
        ax.set_ylim(bottom=0)
    style.save(figure, folder / "intervals")
    if "rewards" in numbers:
        labels = list(states) if states is not None else [f"state {s}" for s in range(numbers["rewards"].shape[2])]
        figure, axes = style.new_figure(1, len(names), width=0.6 + 2.0 * len(names), height=2.6)
        for k, ax in enumerate(axes):
            values, low, high = numbers["rewards"][:, k]
            if np.isfinite(values).any():
                charts.ranked(ax, values, low, high, labels, color=colors[k])
            ax.set_title(style.short(names[k]))
            ax.set_xlabel("reward")
        style.save(figure, folder / "interval_rewards")
        captions["interval_rewards"] = "The states with the largest reward of each intention, with 95% intervals."
    return captions


def _draw_curves(
    folder: Path, checks: Mapping[str, Any], names: Sequence[str], states: Sequence[str] | None
) -> dict[str, str]:
    """How long intentions last, when they return, what surrounds a switch, and where the agent is; the caption."""
    kinds = {kind: [one for one in checks["curves"] if one["kind"] == kind] for kind in TITLES}
    drawn = [kind for kind, curves in kinds.items() if curves]
    rows = -(-(len(drawn) + 1) // 2)
    figure, axes = style.new_figure(rows, 2, width=style.PAGE_WIDTH, height=2.3 * rows)
    for ax, kind in zip(axes, drawn, strict=False):
        looks = [_look(i, one, names, states) for i, one in enumerate(kinds[kind])]
        labels, colors = zip(*looks, strict=True)
        charts.simulated_bands(ax, kinds[kind], labels, colors, around=kind == "switch")
        ax.set_title(TITLES[kind], y=1.0)
        ax.set(ylabel="share of the steps" if kind == "switch" else "share")
    charts.occupancy_scatter(axes[len(drawn)], checks["occupancy"]["data"], checks["occupancy"]["simulated"])
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


# -- every file of a run folder but the model itself, from a FitResult -------------------------------------------------

SEGMENTS = "segments.parquet"
LONG = (*PER_STATE, "leaving")
"""Numbers of every state or point of a curve: in the table of intervals, not in metrics.json."""


def write_fit(folder: Path, result: FitResult, names: Sequence[str], *, find: bool = True) -> dict[str, Any]:
    """Write metrics, tables, page data and figures of a fit; returns the metrics.

    ``names`` are those of its K intentions; ``find`` looks for a layout of the states where there is none.
    """
    import pandas as pd  # figures are drawn without tables

    from prism_irl.data.read import write_segments

    explorer = write_page_data(folder, result, names=None, find=find)
    (folder / "figures").mkdir(exist_ok=True)
    labels, demos, rows = result.shown.labels, result.shown.demos, result.shown.demos.offsets[: RASTER_ROWS + 1]
    cut = segments(labels, demos.offsets)
    lengths = [np.unique(cut.lengths[cut.labels == k], return_counts=True) for k in range(result.n_intentions)]
    drawn = {  # what figures need and no other file has
        "version": 1,
        "raster": {"offsets": rows, "labels": labels[: rows[-1]], "total": len(demos)},
        "dwell": {"lengths": [np.stack(own).T for own in lengths], "expected": result.dwell.expected},
        "effects": None if result.effects is None else result.effects._asdict(),
    }
    storage.write_json(folder / DRAWN, drawn)
    metrics = result.to_json()
    if result.intervals is None:
        (folder / TABLE).unlink(missing_ok=True)  # of an earlier run
    else:
        plain: dict[str, Any] = storage.read_plain(result.intervals)
        intervals = pd.DataFrame(_interval_rows(plain["numbers"], explorer["states"]))
        storage.write_rows(folder / TABLE, intervals.astype({"intention": "Int64", "to": "Int64", "input": "Int64"}))
        small = {name: value for name, value in plain["numbers"].items() if name not in LONG}
        metrics["intervals"] = plain | {"numbers": small}
    storage.write_json(folder / "metrics.json", metrics)
    if result.monitor is None:
        (folder / "history.csv").unlink(missing_ok=True)
    else:
        storage.write_rows(folder / "history.csv", pd.DataFrame(result.monitor))
    write_segments(result.table, result.posterior.labels, result.posterior.probabilities, folder / SEGMENTS)
    for name, table in result.tables.items():  # an empty one is not written, nor does an old one stay
        if table is None:
            (folder / name).unlink(missing_ok=True)
        else:
            storage.write_rows(folder / name, table)
    if list(names) != default_names(result.n_intentions):
        write_names(folder, names)
    draw_run(folder, names)
    return metrics


def write_page_data(folder: Path, result: FitResult, **details: Any) -> dict[str, Any]:
    """Write explorer.json and checks.json; returns the former. ``details`` are those of `write_explorer`."""
    from prism_irl.report.checks import FILE, without_checks
    from prism_irl.report.explorer import write_explorer

    shown = result.shown
    own: dict[str, Any] = {"layout": shown.layout, "rewards": result.rewards, "values": result.values}
    own |= {"events": shown.marks, "goals": result.places, "movement": result.movement}
    explorer = write_explorer(folder, shown.demos, shown.probabilities, **own | details)
    without_checks(folder)  # those of an earlier run may have had more figures
    if result.checks is not None:
        storage.write_json(folder / FILE, storage.read_plain(result.checks.to_json()))
    return explorer


def _interval_rows(numbers: Mapping[str, Any], states: Sequence[str] | None) -> list[dict[str, Any]]:
    from prism_irl.evaluation.result import GRID

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
