"""Figures of the robot experiment: filmstrips, confusion matrix, likelihood against K, label accuracy per method."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bridge.data import Bridge, Data
from bridge.filmstrip import filmstrip
from bridge.methods import BASELINES, Outcome
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.evaluation.tables import dwell_per_intention
from prism_irl.figures import style
from prism_irl.labels import match, mean_dwell
from prism_irl.models.describe import em_course
from prism_irl.models.presets import FeaturePRISM
from prism_irl.report import explorer as frames
from prism_irl.report.draw import write_pictures
from prism_irl.report.explorer import MAX_TRAJECTORIES, evenly, write_explorer
from prism_irl.robots.continuous import frames_of, kept_frames, reachable
from prism_irl.studies import results

SHOWN = 3
"""Episodes drawn as filmstrips: the first ones that were held out and that the raster shows as well."""


def write_all(
    folder: Path, settings: Bridge, data: Data, result: dict[str, Any], outcomes: Mapping[str, Outcome], main: str
) -> None:
    """Write every figure as SVG and PNG, with captions for the report."""
    labels = outcomes[main].labels
    assert labels is not None
    demos = data.tokens if len(labels) == data.tokens.n_steps else data.motions
    in_raster = set(evenly(demos.n_trajectories, MAX_TRAJECTORIES).tolist())
    held_out = [i for i in data.splits[0][1].tolist() if i in in_raster]
    pictures = {i: _pictures(settings, data, demos, i) for i in held_out[:SHOWN]}
    name = result["methods"][main]["name"]
    drawings = filmstrips(demos, labels, name, pictures)
    if "confusion" in result:
        drawings["confusion"] = lambda path: confusion_matrix(path, result["confusion"], name)
        drawings["label_accuracy"] = lambda path: accuracy_bars(path, result["methods"])
    if result["likelihood_by_k"]:
        drawings["likelihood_by_k"] = lambda path: likelihood_by_k(path, result["likelihood_by_k"])
    results.write_figures(folder, drawings)
    outcome = outcomes[main]
    if result["methods"][main]["family"] == BASELINES:  # whose models read other data than tokens or features
        outcome = outcome._replace(model=None)
    results.add_captions(folder, explore(folder.parent, settings, data, demos, outcome, name, pictures))


def explore(
    run: Path,
    settings: Bridge,
    data: Data,
    demos: Demonstrations,
    outcome: Outcome,
    name: str,
    pictures: Mapping[int, npt.NDArray[np.uint8] | None],
) -> dict[str, str]:
    """Write the interactive part of the report, with frames where there are any; return its captions.

    Intentions come in the order, and under the names, of the true phases where these are known, as in the filmstrips.
    """
    assert outcome.labels is not None
    K = max(settings.n_intentions, int(outcome.labels.max()) + 1)
    probabilities = np.eye(K)[outcome.labels]
    if outcome.model is not None and outcome.model.n_intentions == K:
        probabilities = outcome.model.predict_proba(data.motions if isinstance(outcome.model, FeaturePRISM) else demos)
    names, named = None, ""
    if demos.labels is not None:
        named = " Intentions are called after the true phases with which they share most steps."
        mapping = match(demos.labels, outcome.labels, n_predicted=K).mapping
        probabilities = probabilities[:, np.argsort(mapping)]
        known = dict(enumerate(demos.label_names or ()))
        names = [known.get(int(phase), f"intention {k}") for k, phase in enumerate(np.sort(mapping))]
    labels = probabilities.argmax(axis=1)
    explorer = write_explorer(
        run,
        demos,
        probabilities,
        names=names,
        fit={
            "name": f"{name}, the method of the filmstrips",
            "how": "It was fitted to four fifths of the episodes and is shown on all of them; scores in the table are "
            f"those of the last fifth.{named}",
            "n_intentions": K,
            "usage": np.bincount(labels, minlength=K) / len(labels),
            "mean_dwell": mean_dwell(labels, demos.offsets),
            "dwell_per_intention": dwell_per_intention(labels, demos.offsets, K),
            "em": None if outcome.model is None else em_course(outcome.model),
            "agreement": outcome.agreement,
        },
    )
    if settings.dataset is None:
        frames.write_frames(run, demos, explorer, pictures.get, trajectories=list(pictures))
    else:
        near = reachable(data.source, demos)
        frames.write_frames(run, demos, explorer, partial(_recorded, data, demos), trajectories=near)
    return write_pictures(run / "figures", explorer)


def _recorded(data: Data, demos: Demonstrations, i: int) -> Iterator[npt.NDArray[np.uint8]] | None:
    """Frames of the kept steps of trajectory i, read from the dataset."""
    found = frames_of(data.source, int(_identifier(demos, i)))
    return None if found is None else kept_frames(found, demos, i)


def _identifier(demos: Demonstrations, i: int) -> str:
    return str(i if demos.trajectory_names is None else demos.trajectory_names[i])


def filmstrips(
    demos: Demonstrations,
    labels: npt.NDArray[np.int64],
    name: str,
    pictures: Mapping[int, npt.NDArray[np.uint8] | None],
) -> dict[str, results.Draw]:
    """How to draw a few held-out episodes."""
    matched, names = labels, None
    if demos.labels is not None:
        matched, names = match(demos.labels, labels).labels, demos.label_names

    def draw(path: Path, episode: int) -> str:
        steps = slice(int(demos.offsets[episode]), int(demos.offsets[episode + 1]))
        identifier, own = _identifier(demos, episode), pictures[episode]
        figure, (ax,) = style.new_figure(width=style.PAGE_WIDTH, height=1.5 if own is not None else 0.9)
        true = None if demos.labels is None else demos.labels[steps].astype(np.int64)
        filmstrip(ax, own, matched[steps], true=true, names=names, title=f"episode {identifier}")
        style.save(figure, path)
        return f"Episode {identifier}: frames bordered in the colour of their intention ({name})." + (
            " The lower strip is the truth." if true is not None else ""
        )

    return {f"filmstrip_{_identifier(demos, episode)}": partial(draw, episode=episode) for episode in pictures}


def _pictures(settings: Bridge, data: Data, demos: Demonstrations, i: int) -> npt.NDArray[np.uint8] | None:
    """Frames of the kept steps: recorded ones, or the simulation run once more with a camera; None without any."""
    index = int(_identifier(demos, i))
    if settings.dataset is None and not settings.frames:
        from worlds.manipulation import PickAndPlace

        try:
            world = PickAndPlace(frame_size=96)
            (episode,) = world.episodes(1, seed=settings.simulation_seed, frames=True, first=index)
        except InputError as error:
            warnings.warn(f"The filmstrip has no frames: {error}", stacklevel=2)
            return None
        return np.stack(list(kept_frames(episode.frames(), demos, i)))
    found = _recorded(data, demos, i)
    return None if found is None else np.stack(list(found))


def confusion_matrix(path: Path, confusion: Mapping[str, Any], name: str) -> str:
    """Draw the share of each true phase (row) that each intention got (column)."""
    figure, (ax,) = style.new_figure(width=3.6, height=2.8)
    counts = np.asarray(confusion["steps"], dtype=np.float64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    names = [str(name) for name in confusion["phases"]]
    ax.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    columns = names + [f"intention {k}" for k in range(len(names), counts.shape[1])]
    ax.set_xticks(range(len(columns)), columns, rotation=30, ha="right")
    ax.set_yticks(range(len(names)), names)
    for row, column in np.ndindex(*shares.shape):
        if counts[row, column]:
            colour = "white" if shares[row, column] > 0.6 else style.INK
            text = f"{shares[row, column]:.2f}"
            ax.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
    ax.set(xlabel="intention, matched", ylabel="true phase")
    style.save(figure, path)
    return f"Steps of each true phase (rows) by matched intention (columns), {name}."


def accuracy_bars(path: Path, methods: Mapping[str, Mapping[str, Any]]) -> str:
    """Draw label accuracy and ARI of every method, coloured by family."""
    methods = {key: entry for key, entry in methods.items() if entry["label_accuracy"] is not None}
    figure, (ax,) = style.new_figure(width=5.2, height=0.6 + 0.24 * len(methods))
    families = list(dict.fromkeys(entry["family"] for entry in methods.values()))
    for y, entry in enumerate(methods.values()):
        colour = style.PALETTE[families.index(entry["family"])]
        accuracy, ari = entry["label_accuracy"]["mean"], entry["ari"]["mean"]
        ax.barh(y, accuracy, height=0.65, color=colour, alpha=0.35)
        ax.plot(ari, y, "o", color=colour, markersize=4)
        ax.text(1.01, y, f"{accuracy:.2f} ({ari:.2f})", va="center", fontsize=7)
    ax.set_yticks(range(len(methods)), [entry["name"] for entry in methods.values()])
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xlabel="label accuracy (ARI)")
    style.save(figure, path)
    return "Label accuracy (bars) and ARI (points) per method, all episodes."


def likelihood_by_k(path: Path, rows: list[dict[str, Any]]) -> str:
    """Draw both scores against K for the RNN, and log K beside the paper's score."""
    figure, (ax,) = style.new_figure(width=3.6, height=2.4)
    own = [row for row in rows if row["network"] == "rnn"]
    K = [row["K"] for row in own]
    ax.plot(K, [row["predictive_ll"] for row in own], "o-", color=style.PALETTE[0], label="predictive LL")
    ax.plot(K, [row["paper_score"] for row in own], "s--", color=style.MUTED, label="paper score (not a likelihood)")
    base = own[0]["paper_score"] - own[0]["log_k"]
    ax.plot(K, [base + row["log_k"] for row in own], ":", color=style.INK, label="log K")
    for row in rows:
        if row["network"] != "rnn":
            ax.plot(row["K"], row["predictive_ll"], "^", color=style.PALETTE[1], markersize=4)
            ax.annotate(row["network"], (row["K"], row["predictive_ll"]), xytext=(4, 0), textcoords="offset points")
    ax.set(xlabel="intentions K", ylabel="nats per step")
    ax.legend()
    style.save(figure, path)
    return (
        "Held-out scores of the paper's model against the number of intentions: the predictive likelihood, and "
        "the paper's score, which is not a likelihood and grows by up to log min(K, A) by itself (dotted: log K)."
    )
