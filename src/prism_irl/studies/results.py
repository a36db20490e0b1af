"""The files that every study leaves: metrics.json, tables, figures with captions, and the model that its page explores.

A table of methods answers who predicts best; only one model can answer what each intention wants and when the agent
switches. It is the best predictor among those with several intentions, fitted to all data: its segmentation is looked
at, and no score of the page is read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.figures import charts, style
from prism_irl.models.base import IntentionModel
from prism_irl.models.describe import describe
from prism_irl.models.presets import TrajectoryMixture
from prism_irl.models.registry import Method
from prism_irl.report.draw import draw_run, write_page_data
from prism_irl.report.names import told_names
from prism_irl.report.table_rows import method_bar_rows

Draw = Callable[[Path], str]
"""Draws a figure at a path without suffix, and returns its caption."""


def heading(
    title: str, demos: Demonstrations, *, folds: int, seeds: int = 1, quick: bool = False, experiment: str | None = None
) -> dict[str, Any]:
    """What every metrics.json begins with: which data, cut into how many parts, fitted how often."""
    return {
        "title": title,
        **({} if experiment is None else {"experiment": experiment}),
        "quick": quick,
        "folds": folds,
        "seeds": seeds,
        "n_trajectories": len(demos),
        "n_steps": demos.n_steps,
    }


def write_results(folder: Path, result: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write metrics.json, and folds.csv with one row per fit."""
    storage.write_json(folder / "metrics.json", result)
    write_rows(folder / "folds.csv", rows)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV; numbers inside numbers (mean and std) become columns with dots."""
    storage.write_rows(path, pd.json_normalize([dict(row) for row in rows]))


def write_methods(path: Path, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the entries of methods as CSV, one row each."""
    write_rows(path, [{"method": name, **entry} for name, entry in entries.items()])


def check_new(path: Path, what: str, *, overwrite: bool) -> None:
    """Refuse to replace an earlier answer unless asked to; ``what`` lies in the run whose folder the path is in."""
    if path.exists() and not overwrite:
        raise InputError(f"{path.parents[1]} already holds {what}; pass --overwrite to replace it.")


def write_figures(folder: Path, drawings: Mapping[str, Draw]) -> dict[str, str]:
    """Draw the figures of a run into ``folder``, and write and return their captions."""
    folder.mkdir(parents=True, exist_ok=True)
    with style.paper_style():
        captions = {stem: draw(folder / stem) for stem, draw in drawings.items()}
    storage.write_json(folder / "captions.json", captions)
    return captions


def add_captions(folder: Path, captions: Mapping[str, str]) -> None:
    """Append captions to those of the figures that are in ``folder`` already."""
    path = folder / "captions.json"
    there = storage.read_object(path) if path.is_file() else {}
    storage.write_json(path, there | dict(captions))


def likelihood_figure(path: Path, result: Mapping[str, Any]) -> str:
    """Test score per method with fold spread; scores that are not likelihoods are hatched."""
    rows = method_bar_rows(result)
    oracle = result["methods"].get("oracle")
    figure, (ax,) = style.new_figure(width=5.0, height=0.6 + 0.28 * len(rows))
    charts.method_bars(ax, rows, ceiling=None if oracle is None else oracle["predictive_ll"]["mean"])
    style.save(figure, path)
    line = "" if oracle is None else " The line is the exact Bayes filter, which no likelihood can exceed."
    leaks = not all(row["is_likelihood"] for row in rows)
    leak = " The hatched score is not a likelihood: its gate has seen the action." if leaks else ""
    return f"Test score per method, mean and spread over folds.{line}{leak}"


FACTS = ("n_intentions", "usage", "mean_dwell", "dwell_per_intention", "em", "agreement")
"""What the page says of the fit that it shows, by the keys of metrics.json."""
ALL_DATA = "It was fitted to all trajectories to be looked at; every score in the table comes from held-out folds."


def choose_exemplar(methods: Sequence[Method], entries: Mapping[str, Mapping[str, Any]]) -> Method | None:
    """Return the method with the highest predictive likelihood among those whose intentions switch.

    The gate that sees the action, and mixtures that never switch, are taken only where there is nothing else; methods
    with a single intention and the oracle never are.
    """
    there = {method.id: method for method in methods if method.id != "oracle" and method.model.n_intentions > 1}

    def rank(name: str) -> tuple[bool, bool, float]:
        switches = not isinstance(there[name].model, TrajectoryMixture)
        return switches, not there[name].leaks, float(entries[name]["predictive_ll"]["mean"])

    known = [name for name in there if entries.get(name, {}).get("predictive_ll")]
    return there[max(known, key=rank)] if known else None


def write_exemplar(
    folder: Path,
    demos: Demonstrations,
    model: IntentionModel,
    *,
    name: str,
    how: str,
    facts: Mapping[str, Any] | None = None,
    order: Sequence[int] | None = None,
    maps: bool = True,
    simulations: int = 0,
    **details: Any,
) -> None:
    """Write explorer.json and the figures that go with it, with their captions behind those that are there already.

    ``name`` and ``how`` say which model is shown, and what it was fitted to; ``facts`` are what the run knows of the
    fit beyond the model's own attributes; ``order`` says which intention comes first, second, …; without ``maps`` none
    is drawn; it is simulated ``simulations`` times beside the data, unless it comes in another order; ``details``
    are names, actions, events and what else `write_explorer` takes.
    """
    if order is None and details.get("names") is None:
        details["names"] = told_names(demos.partial_label_names, model.n_intentions)
    place = {"layout": details.pop("layout")} if "layout" in details else {}
    result = describe(model, demos, simulations=simulations if order is None else 0, references=False, **place)
    if order is not None:  # as far as a page shows intentions
        rewards, values = (None if x is None else x[list(order)] for x in (result.rewards, result.values))
        shown = result.shown._replace(probabilities=result.shown.probabilities[:, list(order)])
        result = replace(result, rewards=rewards, values=values, shown=shown)
    known = result.to_json()
    own = {key: known[key] for key in FACTS if known[key] is not None} | dict(facts or {})
    write_page_data(folder, result, fit={"name": name, "how": how, **own}, **details)
    draw_run(folder, maps=maps)
