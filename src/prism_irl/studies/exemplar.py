"""The model behind the interactive part of a page with many methods: which one, fitted to what, and said plainly.

A table of methods answers who predicts best; only one model can answer what each intention wants and when the agent
switches. It is the best predictor among those with several intentions, fitted to all data: its segmentation is looked
at, and no score of the page is read from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.checks import check
from prism_irl.evaluation.facts import fit_facts, on_map
from prism_irl.models.base import IntentionModel
from prism_irl.models.mixture import TrajectoryMixture
from prism_irl.models.registry import Method
from prism_irl.report.cells import cells_of
from prism_irl.report.checks import without_checks, write_checks
from prism_irl.report.drawn import gathered
from prism_irl.report.explorer import write_explorer
from prism_irl.report.names import told_names
from prism_irl.report.pictures import write_pictures
from prism_irl.studies.results import add_captions

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
        details["names"] = told_names(demos.known_names, model.n_intentions)
    columns = list(range(model.n_intentions)) if order is None else [int(k) for k in order]
    found: npt.NDArray[np.float64] = model.predict_proba(demos)
    if (units := getattr(model, "units_", None)) is not None:  # continuous data are shown by their cells
        shown, details["layout"] = cells_of(demos, units)
        simulations = 0  # what is measured cannot be simulated
    else:
        shown = demos
    rewards, values = (None if x is None else x[columns] for x in on_map(model, shown, found))
    probabilities = found[:, columns]
    fit = fit_facts(model, probabilities.argmax(axis=1), demos.offsets) | dict(facts or {})
    explorer = write_explorer(
        folder,
        shown,
        probabilities,
        rewards=rewards,
        values=values,
        fit={"name": name, "how": how, **fit},
        **details,
    )
    captions = write_pictures(folder / "figures", explorer, maps=maps)
    if simulations and order is None:
        seed = getattr(model, "seed", 0)
        compared = check(model, demos, probabilities.argmax(axis=1), simulations=simulations, seed=seed)
        captions |= gathered(write_checks(folder, compared, explorer))
    else:
        without_checks(folder)
    add_captions(folder / "figures", captions)
