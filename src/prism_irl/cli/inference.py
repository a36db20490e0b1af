"""One inference per data set: everything that a command says about a fitted model comes from one pass over the steps.

Labels, probabilities and likelihoods of single steps are kept; the score of some trajectories is the mean over their
steps, because a trajectory's result never depends on what else is in the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.models.base import IntentionModel

FloatArray = npt.NDArray[np.float64]


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
        likelihood = model.log_likelihood(demos) if model.leaks else paper
    else:  # a method that is no pair of switching and rewards
        probabilities = model.predict_proba(demos)
        likelihood = paper = model.log_likelihood(demos)
    return Inference(np.asarray(probabilities.argmax(axis=1), np.int64), probabilities, likelihood, paper)


def scores(found: Inference, demos: Demonstrations) -> dict[str, Any]:
    """As `evaluation.likelihood.evaluate`: predictive_ll, paper_score, mean_dwell, n_steps and label metrics."""
    from prism_irl.labels import mean_dwell

    return {
        "predictive_ll": float(found.log_likelihood.mean()),
        "paper_score": float(found.paper.mean()),
        "mean_dwell": mean_dwell(found.labels, demos.offsets),
        "n_steps": demos.n_steps,
        **label_metrics(found, demos),
    }


def label_metrics(found: Inference, demos: Demonstrations) -> dict[str, Any]:
    """How well the labels agree with the true ones; empty where the data has none."""
    if demos.labels is None:
        return {}
    from prism_irl.evaluation.likelihood import LABEL_METRICS
    from prism_irl.evaluation.metrics import segmentation_metrics

    everything = segmentation_metrics(demos.labels, found.labels, demos.offsets)
    return {name: everything[name] for name in LABEL_METRICS}
