"""The numbers of one fitted model on one data set, the two scores never mixed up.

`predictive_ll` is mean log p(a_t | s_≤t, a_<t), normalised over actions; `paper_score` is the paper's, which is not a
likelihood when the model's gate has seen a_t. Label metrics appear where the data has true labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation import metrics
from prism_irl.labels import mean_dwell

if TYPE_CHECKING:
    from prism_irl.models.base import IntentionModel


def evaluate(model: IntentionModel, demos: Demonstrations) -> dict[str, Any]:
    """Return predictive_ll, paper_score, mean_dwell, n_steps and, with true labels, label metrics."""
    labels = model.predict(demos)
    result: dict[str, Any] = {
        "predictive_ll": model.score(demos),
        "paper_score": model.paper_score(demos),
        "mean_dwell": mean_dwell(labels, demos.offsets),
        "n_steps": demos.n_steps,
    }
    if demos.labels is not None:
        found = metrics.segmentation_metrics(demos.labels, labels, demos.offsets)
        result |= {name: found[name] for name in LABEL_METRICS}
    return result


LABEL_METRICS = ("label_accuracy", "ari", "nmi", "boundary_f1", "edit_score", "f1_at_10", "f1_at_25", "f1_at_50")


def summary(values: list[float]) -> dict[str, float]:
    """Mean and standard deviation over folds and seeds (zero for a single value)."""
    array = np.asarray(values, dtype=np.float64)
    return {"mean": float(array.mean()), "std": float(array.std(ddof=1)) if len(array) > 1 else 0.0}
