"""The model behind the interactive part of a page with many methods: which one, fitted to what, and said plainly.

A table of methods answers who predicts best; only one model can answer what each intention wants and when the agent
switches. It is the best predictor among those with several intentions, fitted to all data: its segmentation is looked
at, and no score of the page is read from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.result import FitResult
from prism_irl.models.base import IntentionModel
from prism_irl.models.describe import describe
from prism_irl.models.presets import TrajectoryMixture
from prism_irl.models.registry import Method
from prism_irl.report.draw import draw_run
from prism_irl.report.names import told_names
from prism_irl.report.write import write_page_data

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

    Parameters
    ----------
    folder : path
        Of the run.
    name, how : str
        Which model is shown, and what it was fitted to.
    facts : dict, optional
        What the run knows of the fit beyond the model's own attributes (agreement of halves, or of searches).
    order : K numbers, optional
        Which intention of the model comes first, second, …
    maps : bool
        Draw a map of each intention, which a run that draws its own does not need.
    simulations : int
        How often the model is simulated beside the data; 0, and a model in another order, leave that out.
    details
        Names, actions, events and what else `write_explorer` takes.
    """
    if order is None and details.get("names") is None:
        details["names"] = told_names(demos.partial_label_names, model.n_intentions)
    place = {"layout": details.pop("layout")} if "layout" in details else {}
    result = describe(model, demos, simulations=simulations if order is None else 0, references=False, **place)
    if order is not None:
        result = _reordered(result, [int(k) for k in order])
    known = result.to_json()
    own = {key: known[key] for key in FACTS} | dict(facts or {})
    write_page_data(folder, result, fit={"name": name, "how": how, **own}, **details)
    draw_run(folder, maps=maps)


def _reordered(result: FitResult, order: list[int]) -> FitResult:
    """The same with its intentions in another order, as far as a page shows them."""
    rewards, values = (None if x is None else x[order] for x in (result.rewards, result.values))
    shown = result.shown._replace(probabilities=result.shown.probabilities[:, order])
    return replace(result, rewards=rewards, values=values, policies=None, shown=shown)
