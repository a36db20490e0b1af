"""What a fit leaves in its folder besides the model, whoever writes it: metrics, tables and figures.

Any method can be written: those that are no pair of switching and rewards have no starts, no history and no agreement,
which are null in metrics.json, and no figure of EM.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_irl import storage
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.facts import dwell_per_intention
from prism_irl.evaluation.likelihood import Inference, label_metrics
from prism_irl.figures.elsewhere import HERE, Drawing
from prism_irl.labels import mean_dwell, segments
from prism_irl.models.base import IntentionModel
from prism_irl.models.reference_scores import reference_scores
from prism_irl.report import drawn


def fit_metrics(model: IntentionModel, demos: Demonstrations, found: Inference) -> dict[str, Any]:
    """metrics.json of a fit."""
    validation = _validation_trajectories(model, demos)
    scores = _scores(model, demos, found, np.repeat(validation, demos.lengths))
    starts = getattr(model, "starts_", None)
    em = None
    if starts is not None:
        em = {
            "iterations": getattr(model, "n_iterations_", None),
            "converged": getattr(model, "converged_", None),
            "fixed": getattr(model, "patience", 0) is None,  # so many iterations were asked for, not convergence
            "seconds": sum(start["seconds"] for start in starts),
            "starts": len(starts),
        }
    return {
        "method": type(model).__name__,
        "pair": getattr(model, "pair", None),
        "n_intentions": model.n_intentions,
        "n_trajectories": demos.n_trajectories,
        "n_steps": demos.n_steps,
        **scores,
        "validation_chose": getattr(model, "validation_chose_", []),
        "references": reference_scores(demos, validation),
        "leaks": model.leaks,
        "density": model.is_density,
        "looks_ahead": model.looks_ahead,
        "history_length": getattr(model, "history_length_", None),
        "backoff": getattr(model, "backoff_", None),
        "chosen": {"options": getattr(model, "chosen_", {}), "tried": getattr(model, "choice_", [])},
        "free_policies": getattr(model, "free_choice_", None),
        "mean_dwell": mean_dwell(found.labels, demos.offsets),
        "agreement": getattr(model, "agreement_", None),
        "n_equal_starts": getattr(model, "n_equal_starts_", None),
        "em": em,
        "usage": np.bincount(found.labels, minlength=model.n_intentions) / len(found.labels),
        "dwell_per_intention": dwell_per_intention(found.labels, demos.offsets, model.n_intentions),
        "known_steps": 0 if demos.known is None else int((demos.known >= 0).sum()),
        **label_metrics(found.labels, demos),
        **_baselines(model, demos),
        **_goals(model, demos),
    }


def _baselines(model: IntentionModel, demos: Demonstrations) -> dict[str, Any]:
    """What is simpler than intentions, beside them, where the phases of continuous data are known."""
    if not demos.action_space.continuous or demos.labels is None or model.n_intentions == 1:
        return {}
    from prism_irl.models.phases import phase_baselines  # here, because it imports torch

    found = phase_baselines(demos, model.n_intentions)
    return {"baselines": found} if found else {}


def _goals(model: IntentionModel, demos: Demonstrations) -> dict[str, Any]:
    """Places that intentions go to, in the units of the observations, where they are places."""
    from prism_irl.evaluation.tidy import goal_table

    table = goal_table(model, demos)
    if table is None:
        return {}
    places = table.drop(columns="intention")
    return {"goals": {"names": list(places.columns), "places": places.to_numpy().tolist()}}


def _validation_trajectories(model: IntentionModel, demos: Demonstrations) -> npt.NDArray[np.bool_]:
    """Trajectories that EM did not train on, (n_trajectories,); none of a method without starts, which is given all."""
    chosen = np.zeros(demos.n_trajectories, bool)
    fraction = getattr(model, "validation_fraction", 0.0)
    if hasattr(model, "starts_") and fraction > 0 and len(demos) > 1:
        chosen[demos.split_indices(fraction, seed=getattr(model, "seed", 0))[0]] = True
    return chosen


def _scores(
    model: IntentionModel, demos: Demonstrations, found: Inference, validation: npt.NDArray[np.bool_]
) -> dict[str, dict[str, float | None]]:
    """Both scores on training and on validation steps, each the mean over its steps; ``validation`` (n,)."""
    scores: dict[str, dict[str, float | None]] = {
        name: {
            "train": float(values[~validation].mean()),
            "validation": float(values[validation].mean()) if validation.any() else None,
        }
        for name, values in (("predictive_ll", found.log_likelihood), ("paper_score", found.paper))
    }
    if validation.any() and getattr(model, "recount", False):
        # The policies have counted the validation trajectories since; this is what they scored before.
        before = _validation_score_before(model)
        scores["predictive_ll"]["validation"] = None if model.leaks else before
        scores["paper_score"]["validation"] = before
    if getattr(model, "validation_counted_", False):  # by a habit, whose memory came last
        scores["predictive_ll"]["validation"] = scores["paper_score"]["validation"] = None
    return scores


def _validation_score_before(model: Any) -> float:
    """Validation likelihood of the iteration that was kept of the best start, as EM's monitor saw it."""
    best = next(index for index, start in enumerate(model.starts_) if start["best"])
    rows = (row for row in model.monitor_ if row["start"] == best and row["iteration"] == model.n_iterations_)
    return float(next(rows)["validation"])


def write_history(folder: Path, model: IntentionModel) -> None:
    """history.csv: what the monitor of EM saw; without EM there is none, not even that of an earlier run."""
    if hasattr(model, "starts_"):
        storage.write_rows(folder / "history.csv", pd.DataFrame(model.monitor_))
        return
    for old in (folder / "history.csv", *folder.glob("figures/em_curves.*")):
        old.unlink(missing_ok=True)


def write_tables(
    folder: Path, model: IntentionModel, demos: Demonstrations, found: Inference, *, estimated: bool
) -> None:
    """rewards.csv, where intentions are places goals.csv, and where dynamics were counted dynamics.csv.

    What there is nothing to say in is not written, nor does that of an earlier run stay.
    """
    from prism_irl.evaluation.tidy import cell_table, goal_table, intention_table, move_table

    discrete = not demos.action_space.continuous
    wanted = {
        "rewards.csv": (intention_table if discrete else cell_table)(model, demos, found.probabilities),
        "goals.csv": goal_table(model, demos),
        "dynamics.csv": move_table(demos) if estimated and discrete else None,
    }
    for name, table in wanted.items():
        if table is None:
            (folder / name).unlink(missing_ok=True)
        else:
            storage.write_rows(folder / name, table)


def begin_figures(
    folder: Path,
    model: IntentionModel,
    demos: Demonstrations,
    labels: npt.NDArray[np.int64],
    names: Sequence[str],
    drawing: Drawing = HERE,
) -> drawn.Captions:
    """Begin segmentation raster, dwell histogram and, where EM was run, its curves; K ``names`` of the intentions."""
    says = getattr(getattr(model, "switching_", None), "dwell_proba", None)
    expected = None
    if says is not None and model.n_intentions > 1:
        expected = says(int(segments(labels, demos.offsets).lengths.max()))
    monitor = model.monitor_ if hasattr(model, "starts_") else None
    return drawing.draw(drawn.fit_figures, folder, labels, demos.offsets, list(names), expected, monitor)
