"""The numbers of one fitted model on one data set, the two scores never mixed up.

`predictive_ll` is mean log p(a_t | s_≤t, a_<t), normalised over actions; `paper_score` is the paper's, which is not a
likelihood when the model's gate has seen a_t. Label metrics appear where the data has true labels. All come from one
inference over the data: the score of some trajectories is the mean over their steps, because a trajectory's result
never depends on what else is in the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation import metrics
from prism_irl.labels import mean_dwell

if TYPE_CHECKING:
    from prism_irl.models.base import FloatArray, IntentionModel

LABEL_METRICS = ("label_accuracy", "ari", "nmi", "boundary_f1", "edit_score", "f1_at_10", "f1_at_25", "f1_at_50")


class Inference(NamedTuple):
    """What a fitted model says about every step, flat and aligned with the demonstrations.

    ``probabilities`` (n, K): P(z_t=k | everything), and ``labels`` (n,) the likeliest k.
    ``log_likelihood`` (n,): log p(a_t | s_≤t, a_<t).
    ``paper`` (n,): the paper's score; the same array unless the prior sees the action.
    """

    labels: npt.NDArray[np.int64]
    probabilities: FloatArray
    log_likelihood: FloatArray
    paper: FloatArray


def infer_once(model: IntentionModel, demos: Demonstrations) -> Inference:
    """Infer over the data once; a gate that sees the action needs a second pass for its predictive likelihood."""
    if hasattr(model, "posterior"):
        posterior = model.posterior(demos)
        probabilities, paper = posterior.responsibilities, posterior.log_likelihood
        likelihood = model.log_likelihood(demos) if model.leaks or model.looks_ahead else paper
        paper = likelihood if model.looks_ahead else paper  # a density of windows is neither score
    else:  # a method that is no pair of switching and rewards
        probabilities = model.predict_proba(demos)
        likelihood = paper = model.log_likelihood(demos)
    return Inference(model.labels_of(probabilities, demos), probabilities, likelihood, paper)


def evaluate(model: IntentionModel, demos: Demonstrations) -> dict[str, Any]:
    """Return predictive_ll, paper_score, mean_dwell, n_steps and, with true labels, label metrics."""
    found = infer_once(model, demos)
    return {
        "predictive_ll": float(found.log_likelihood.mean()),
        "paper_score": float(found.paper.mean()),
        "mean_dwell": mean_dwell(found.labels, demos.offsets),
        "n_steps": demos.n_steps,
        **label_metrics(found.labels, demos),
    }


def label_metrics(labels: npt.NDArray[np.int64], demos: Demonstrations) -> dict[str, float]:
    """How well the labels (n,) agree with the true ones; empty where the data has none."""
    if demos.labels is None:
        return {}
    everything = metrics.segmentation_metrics(demos.labels, labels, demos.offsets)
    return {name: everything[name] for name in LABEL_METRICS}


def summary(values: list[float]) -> dict[str, float]:
    """Mean and standard deviation over folds and seeds (zero for a single value)."""
    array = np.asarray(values, dtype=np.float64)
    return {"mean": float(array.mean()), "std": float(array.std(ddof=1)) if len(array) > 1 else 0.0}
