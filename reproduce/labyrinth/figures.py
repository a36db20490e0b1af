"""Figures (a) to (d) of the paper's labyrinth section, the frontier, and what the intentions align with.

(a) test score per method; (b) score against K for the networks, ours and the paper's; (c) rewards and greedy flow of
each intention on the maze; (d) segmentations under four penalty settings, with visits to water and home; then
likelihood against dwell, unseen animals, and enrichment beside shuffled labels. Each is drawn where its part has run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from labyrinth.data import PAPER_MODEL_TYPE, PAPER_NUM_LATENTS, Data
from prism_irl import maze
from prism_irl.errors import InputError
from prism_irl.evaluation.tables import state_rewards
from prism_irl.figures import charts, maps, style
from prism_irl.figures.style import FAINT, INK, MUTED, PALETTE, plain_log_ticks
from prism_irl.labels import match
from prism_irl.maze import ACTION_NAMES, N_NODES
from prism_irl.models.registry import load
from prism_irl.report.explorer import FILE
from prism_irl.report.table_rows import method_bar_rows
from prism_irl.report.verdict import AGREEMENT_GOOD
from prism_irl.studies import results
from prism_irl.studies.cross_validation import is_saved
from prism_irl.studies.results import write_exemplar

N_BARS = 24
"""So many methods fit on one page; the report's table has all of them."""
NETWORKS = {"rnn": ("o", 0, "RNN"), "lstm": ("s", 1, "LSTM"), "transformer": ("^", 2, "Transformer")}
"""Mark, colour and name."""
MAZE = {"kind": "maze", "xy": (maze.layout() * (1, -1)).tolist(), "barriers": []}
MAZE["edges"] = [[int(maze.parents()[n]), n] for n in range(1, N_NODES)]


def write_all(folder: Path, data: Data, result: dict[str, Any], cache: Path) -> None:
    """Write every figure whose part has run, as SVG and PNG, with captions for the report."""
    saved = cache / "models"
    aligned = result.get("alignment", {})
    modes = any(entry["matched"] for entry in aligned.get("methods", {}).values())
    keys = list(aligned.get("segmentation", {}).values())
    segmented = bool(keys) and all(is_saved(saved / key) for key in keys)
    own, explained = _published(result, saved), _explained(result, saved)
    drawings: list[tuple[str, bool, results.Draw]] = [
        ("method_bars", bool(result["methods"]), lambda path: bars(path, result)),
        ("b_networks", "paper" in result, lambda path: networks(path, result["paper"])),
        ("c_published", own is not None, lambda path: reward_maps(path, data, own or {}, saved)),
        ("c_maps", explained is not None, lambda path: reward_maps(path, data, explained or {}, saved)),
        ("d_segmentation", segmented, lambda path: segmentation(path, data, result, saved)),
        ("frontier", bool(result.get("frontier", {}).get("methods")), lambda path: frontier(path, result)),
        ("animals", bool(result.get("animals", {}).get("methods")), lambda path: animals(path, result)),
        ("alignment", modes, lambda path: enrichments(path, result)),
    ]
    results.write_figures(folder, {stem: draw for stem, there, draw in drawings if there})
    explore(folder.parent, data, result, saved)


def explore(run: Path, data: Data, result: dict[str, Any], saved: Path) -> None:
    """Write the interactive part of the report from a fit to all windows, with its figures.

    Of the methods that are fitted to all windows, the one with the highest held-out likelihood is shown among those
    whose searches agree; where none does, the one on which they agree most.
    """
    there = {name: entry for name, entry in _saved_fits(result, saved).items() if entry["n_intentions"] > 1}
    if not there:
        (run / FILE).unlink(missing_ok=True)  # of other parts, with models that are gone
        return
    held_out = {name: _score(result["methods"].get(name)) for name in there}
    agreed = {name: _agreement(entry) for name, entry in there.items()}
    sure = [name for name in there if agreed[name] >= AGREEMENT_GOOD and held_out[name] > -np.inf]
    best = max(sure, key=held_out.__getitem__) if sure else max(there, key=agreed.__getitem__)
    why = (
        "predicts held-out windows best among the methods whose searches agree"
        if sure
        else "is the one on which searches agree most"
    )
    entry = there[best]
    write_exemplar(
        run,
        data.demos,
        load(saved / entry["model"]),
        name=f"{entry['name']}, which {why}",
        how="It was fitted to all windows to be looked at; scores in the table come from held-out folds.",
        facts={"agreement": entry["agreement"]},
        maps=entry != _explained(result, saved),  # of which figure (c) has the maps
        names=entry["names"],
        actions=ACTION_NAMES,
        events=data.events.happened,
    )


def _score(entry: Mapping[str, Any] | None) -> float:
    return -np.inf if entry is None or not entry.get("predictive_ll") else float(entry["predictive_ll"]["mean"])


def bars(path: Path, result: dict[str, Any]) -> str:
    """(a): the best methods by predictive likelihood, then the paper scores with the published numbers."""
    ranked = sorted(method_bar_rows(result), key=lambda row: (not row["is_likelihood"], -float(row["mean"])))
    n = len(result["methods"])
    rows = [row for i, row in enumerate(ranked) if i < N_BARS or not row["is_likelihood"]]
    figure, (ax,) = style.new_figure(width=6.2, height=0.7 + 0.24 * len(rows))
    charts.method_bars(ax, rows)
    style.save(figure, path)
    left_out = "" if n <= N_BARS else f" The {N_BARS} best of {n} methods."
    return (
        f"(a) Test score per method, mean and spread over folds.{left_out} Hatched: the paper's score, which is not a "
        "likelihood, with the published number as a diamond."
    )


def networks(path: Path, paper: dict[str, Any]) -> str:
    """(b): paper score and predictive likelihood against K for each network."""
    figure, axes = style.new_figure(1, 2, width=6.6, height=2.6, sharey=True)
    titles = ("paper score (not a likelihood)", "predictive LL of the same fits")
    for ax, key, title in zip(axes, ("paper_score_test", "predictive_test"), titles, strict=True):
        for network, (mark, colour, name) in NETWORKS.items():
            rows = sorted((row for row in paper["networks"] if row["network"] == network), key=lambda row: row["K"])
            if rows:
                at = [row["K"] for row in rows], [row[key] for row in rows]
                ax.plot(*at, f"{mark}-", color=PALETTE[colour], label=name)
        ax.set(xlabel="number of intentions K", title=title)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.grid(axis="y", color=FAINT, linewidth=0.5)
    published = [test for _, test in PAPER_NUM_LATENTS.values()]
    axes[0].plot(list(PAPER_NUM_LATENTS), published, "D--", color=MUTED, fillstyle="none", label="RNN, published")
    for network in ("lstm", "transformer"):
        mark, _, name = NETWORKS[network]
        test = PAPER_MODEL_TYPE[network][1]
        axes[0].plot(3, test, mark, color=MUTED, fillstyle="none", linestyle="none", label=f"{name}, published")
    axes[0].set_ylabel("nats per step, test")
    axes[0].legend(fontsize="small")
    style.save(figure, path)
    return (
        "(b) Test score against the number of intentions for each network. The paper's score rises with K by up to the "
        "logarithm of K or of the number of actions, whichever is smaller, because the gate sees the action; the "
        "predictive likelihood of the same fits does not. Open marks: published numbers."
    )


def reward_maps(path: Path, data: Data, entry: Mapping[str, Any], saved: Path) -> str:
    """(c): what each intention of a fit is after, on the maze."""
    model: Any = load(saved / entry["model"])
    K = model.n_intentions
    figure, axes = style.new_figure(1, K, width=2.3 * K, height=2.5)
    found = state_rewards(model, own=True)
    assert found is not None
    for k, ax in enumerate(axes):
        name = f"intention {k}" if entry["names"] is None else entry["names"][k]
        policy = np.where(maze.valid_actions(), model.policies_[k, :N_NODES], 0.0)
        ranked = np.sort(policy, axis=1)
        towards = np.where(
            ranked[:, -1] > ranked[:, -2] + 0.05, maze.successors()[range(N_NODES), policy.argmax(1)], -1
        )
        ahead = ranked[:, -1] - ranked[:, -2]  # 0 between equals, 1 for a sure choice
        maps.layout_map(ax, MAZE, found[k], towards=towards, confidence=ahead, title=name)
        ax.plot(*maze.layout()[maze.WATER] * (1, -1), "*", markersize=8, color="white", markeredgecolor=INK, zorder=5)
        maps.add_colorbar(ax, [ax], label="reward")
    style.save(figure, path)
    return (
        f"(c) Rewards recovered by {entry['name']}, expected under the intention's own policy, with the likeliest "
        "action of each node (wider: surer). Star: water port; grey: nodes that the intention never visits. Names "
        "follow from where greedy paths arrive."
    )


def _published(result: dict[str, Any], saved: Path) -> dict[str, Any] | None:
    """The paper's own model: of its seeds, the one with the best paper score."""
    fits = [fit for fit in result.get("published", {}).get("fits", []) if is_saved(saved / fit["model"])]
    best = max(fits, key=lambda fit: float(fit["paper_score"]), default=None)
    return None if best is None else {**best, "name": f"PRISM as published (seed {best['seed']})"}


def segmentation(path: Path, data: Data, result: dict[str, Any], saved: Path) -> str:
    """(d): one window under four penalty settings of the paper's gate, with visits to water and home."""
    keys = result["alignment"]["segmentation"]
    # A window with about as many visits to the water port as the median one.
    visits = np.add.reduceat(data.events.happened["water visit"].astype(np.int64), data.demos.offsets[:-1])
    window = int(np.argsort(visits, kind="stable")[len(visits) // 2])
    one = data.demos.subset([window])
    figure, axes = style.new_figure(len(keys), 1, width=6.4, height=0.75 * len(keys) + 0.5, sharex=True)
    labels = {name: load(saved / key).predict(one) for name, key in keys.items()}
    reference = labels[next(reversed(labels))]
    steps = slice(int(data.demos.offsets[window]), int(data.demos.offsets[window + 1]))
    for ax, (name, own) in zip(axes, labels.items(), strict=True):
        charts.label_strip(ax, match(reference, own).labels, 0.0, 1.0)
        for event, style_of, height in (("water visit", "o", 1.16), ("exit", "x", 1.36)):
            at = np.flatnonzero(data.events.happened[event][steps])
            colour = PALETTE[1] if event == "water visit" else INK
            ax.plot(at, np.full(len(at), height), style_of, color=colour, markersize=2.5, linestyle="none")
        ax.set(xlim=(-0.5, len(own) - 0.5), ylim=(0, 1.5), yticks=[])
        ax.spines[["left", "top", "right"]].set_visible(False)
        ax.set_title(name, loc="left")
    axes[-1].set_xlabel("step")
    style.save(figure, path)
    return (
        "(d) The intentions of one window under four penalty settings of the paper's gate, colours matched to the "
        "last. Dots: visits to the water port; crosses: exits."
    )


def _likelihood_by_dwell(
    ax: Axes,
    families: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    points: Mapping[str, tuple[float, float]] | None = None,
    levels: Mapping[str, float] | None = None,
) -> Axes:
    """Draw predictive log-likelihood against mean dwell: what a longer stay with one intention costs in prediction.

    Parameters
    ----------
    ax : Axes
    families : {name: rows}
        Rows with ``mean_dwell`` and ``predictive_ll`` of one kind of model, drawn as a line in the order given, which
        is usually that of the penalty on switching.
    points : {name: (mean dwell, predictive LL)}, optional
        Single methods.
    levels : {name: predictive LL}, optional
        Methods without intentions, as horizontal lines.
    """
    if not any(families.values()) and not points:
        raise InputError("There is no model to draw; give a family with at least one row, or a point.")
    for i, (name, rows) in enumerate(families.items()):
        dwell, score = ([float(row[key]) for row in rows] for key in ("mean_dwell", "predictive_ll"))
        ax.plot(dwell, score, "o-", color=PALETTE[i % len(PALETTE)], markersize=3, label=name)
    for i, (name, at) in enumerate((points or {}).items()):
        ax.plot(*at, "Dsv^P"[i % 5], color=INK, fillstyle="none", label=name, linestyle="none")
    for i, (name, level) in enumerate((levels or {}).items()):
        ax.axhline(level, color=MUTED, linestyle=(":", "--", "-.")[i % 3], linewidth=0.8, label=name)
    ax.set_xscale("log")
    plain_log_ticks(ax.xaxis, *ax.get_xlim())
    ax.set(xlabel="mean dwell (steps)", ylabel="predictive LL (nats per step)")
    ax.grid(color=FAINT, linewidth=0.5)
    ax.legend(loc="best")
    return ax


def frontier(path: Path, result: dict[str, Any]) -> str:
    """Likelihood against dwell: one line per family as its penalty grows, and single methods as points."""
    families: dict[str, list[dict[str, float]]] = {}
    for entry in sorted(result["frontier"]["methods"].values(), key=lambda entry: float(entry["penalty"])):
        at = {key: entry[key]["mean"] for key in ("mean_dwell", "predictive_ll")}
        families.setdefault(entry["family"], []).append(at)
    methods = result["methods"]
    single = [methods[name] for name in ("hiql", "hiql-hauto", "swirl-2") if name in methods]
    without = [methods[name] for name in ("ngram", "bc") if name in methods]
    figure, (ax,) = style.new_figure(width=4.6, height=2.8)
    _likelihood_by_dwell(
        ax,
        families,
        points={entry["name"]: (entry["mean_dwell"]["mean"], entry["predictive_ll"]["mean"]) for entry in single},
        levels={entry["name"]: entry["predictive_ll"]["mean"] for entry in without},
    )
    ax.set_ylabel("predictive LL, test")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    style.save(figure, path)
    return (
        f"Predictive likelihood against mean dwell on {result['frontier']['folds']} fold(s), one line per family as "
        "its penalty on switching grows. A high likelihood at a dwell of 1.5 means that intentions have become actions."
    )


def animals(path: Path, result: dict[str, Any]) -> str:
    """Test likelihood on animals that were left out."""
    results.likelihood_figure(path, {"methods": result["animals"]["methods"]})
    return f"Test score on animals that the fit has not seen: mean and spread over {result['animals']['n_animals']}."


def enrichments(path: Path, result: dict[str, Any]) -> str:
    """Enrichment of each mode in an intention of its own, beside shuffled labels."""
    methods = list(result["alignment"]["methods"].values())
    modes = list(methods[0]["matched"])
    figure, (ax,) = style.new_figure(width=4.6, height=0.8 + 0.36 * len(methods))
    for i, mode in enumerate(modes):
        y = np.arange(len(methods)) + 0.2 * (i - (len(modes) - 1) / 2)
        own = np.array([m["matched"][mode] for m in methods], float)  # None becomes NaN
        ax.plot(own, y, "o", color=PALETTE[i], label=mode)
        control = np.array([m["shuffled"]["matched"][mode] for m in methods], float)
        ax.plot(control, y, "|", color=PALETTE[i], markersize=7, label=f"{mode}, shuffled")
    ax.axvline(1.0, color=MUTED, linewidth=0.8, linestyle=":")
    ax.set_yticks(range(len(methods)), [m["name"] for m in methods])
    ax.set(ylim=(len(methods) - 0.4, -0.6), xlabel="enrichment of the mode in its intention")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    style.save(figure, path)
    return (
        "How much more often each rule-based mode occurs in the intention that is matched to it than overall, one "
        "intention per mode; bars: the same for labels shifted around each window, which keep usage and dwell."
    )


def _saved_fits(result: dict[str, Any], saved: Path) -> dict[str, dict[str, Any]]:
    """The methods of the part alignment whose best fit is there."""
    methods = result.get("alignment", {}).get("methods", {})
    return {name: entry for name, entry in methods.items() if is_saved(saved / entry["model"])}


def _explained(result: dict[str, Any], saved: Path) -> dict[str, Any] | None:
    """The fit whose maps are drawn: the best explanation with as many intentions as the paper, else any.

    Its states are the nodes of the maze, and it has something to draw on them.
    """
    drawable = []
    for entry in _saved_fits(result, saved).values():
        model = load(saved / entry["model"])
        if model.n_states_ == N_NODES and state_rewards(model) is not None:
            drawable.append(entry)
    three = [entry for entry in drawable if entry["n_intentions"] == 3] or drawable
    return max(three, key=_agreement, default=None)


def _agreement(entry: Mapping[str, Any]) -> float:
    return -1.0 if entry["agreement"] is None else float(entry["agreement"])
