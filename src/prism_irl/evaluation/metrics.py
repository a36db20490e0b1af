"""The numbers of one fitted model on one data set: two scores that are never mixed up, and agreement with true labels.

`predictive_ll` is mean log p(a_t | s_≤t, a_<t), normalised over actions; `paper_score` is the paper's, which is not a
likelihood when the model's gate has seen a_t. All come from one inference over the data: the score of some trajectories
is the mean over their steps, because a trajectory's result never depends on what else is in the data. Labels are flat
arrays of n steps that `offsets` (N + 1,) cut into trajectories, compared after the best one-to-one matching
(`prism_irl.labels`); `segmentation_metrics` has everything at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from prism_irl.arrays import BoolArray, IntArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.labels import (
    Segments,
    ari,
    boundaries,
    checked_pair,
    label_accuracy,
    match,
    mean_dwell,
    n_switches,
    nmi,
    segments,
)

if TYPE_CHECKING:
    from prism_irl.arrays import FloatArray
    from prism_irl.models.base import IntentionModel


def boundary_f1(true: ArrayLike, predicted: ArrayLike, offsets: ArrayLike, tolerance: int = 1) -> float:
    """Return the F1 of predicted switch times, 0 to 1 (1 if neither side has any).

    A boundary is a step whose label differs from the one before it in the same trajectory. Each true boundary is
    paired with at most one predicted boundary at most `tolerance` steps away in the same trajectory, and the largest
    possible number of pairs counts.
    """
    if tolerance < 0:
        raise InputError(f"tolerance is {tolerance}; give a number of steps, 0 or more.")
    z, z_hat = checked_pair(true, predicted)
    t, p = (boundaries(segments(labels, offsets), gap=tolerance + 1) for labels in (z, z_hat))
    if not len(t) or not len(p):
        return float(len(t) == len(p))
    pairs = [np.intersect1d(t + d, p, return_indices=True)[1:] for d in range(-tolerance, tolerance + 1)]
    rows, columns = (np.concatenate(side) for side in zip(*pairs, strict=True))
    from scipy.sparse import coo_array  # here, because most data have no labels to be compared with
    from scipy.sparse.csgraph import maximum_bipartite_matching

    graph = coo_array((np.ones(len(rows), bool), (rows, columns)), shape=(len(t), len(p))).tocsr()
    return float(2 * (maximum_bipartite_matching(graph) >= 0).sum() / (len(t) + len(p)))


def edit_score(true: ArrayLike, predicted: ArrayLike, offsets: ArrayLike) -> float:
    """Return the segmental edit score after matching, 0 to 100: the order of segments, whatever their lengths.

    100 · (1 − Levenshtein(segment labels) / the longer number of segments), averaged over trajectories.
    """
    both = _matched_segments(true, predicted, offsets)
    own = (np.split(cut.labels, np.flatnonzero(np.diff(cut.trajectories)) + 1) for cut in both)
    shares = [1 - _levenshtein(t, p) / max(len(t), len(p)) for t, p in zip(*own, strict=True)]
    return float(100 * np.mean(shares))


def f1_at(true: ArrayLike, predicted: ArrayLike, offsets: ArrayLike, overlap: float = 0.5) -> float:
    """Return the segmental F1@overlap after matching, 0 to 100, as in action segmentation (Lea et al., 2017).

    A predicted segment is compared with the true segment of the same label that it overlaps most (intersection over
    union, IoU). It is a hit if IoU ≥ overlap and no other predicted segment has hit that true segment.
    """
    if not 0 < overlap <= 1:
        raise InputError(f"overlap is {overlap}; give a share above 0 and up to 1, such as 0.1, 0.25 or 0.5.")
    t, p = _matched_segments(true, predicted, offsets)
    # Two segmentations of one line overlap in the pieces between consecutive starts of either: one piece per pair.
    pieces = np.union1d(t.starts, p.starts)
    lengths = np.diff(pieces, append=t.lengths.sum())
    i = np.searchsorted(t.starts, pieces, side="right") - 1
    j = np.searchsorted(p.starts, pieces, side="right") - 1
    iou = np.where(t.labels[i] == p.labels[j], lengths / (t.lengths[i] + p.lengths[j] - lengths), 0.0)
    order = np.lexsort((-iou, j))
    best = order[np.diff(j[order], prepend=-1) > 0]  # per predicted segment, its largest IoU (the first one on ties)
    hits = len(np.unique(i[best[iou[best] >= overlap]]))
    return float(100 * 2 * hits / (len(t.starts) + len(p.starts)))


def segmentation_metrics(true: ArrayLike, predicted: ArrayLike, offsets: ArrayLike) -> dict[str, float]:
    """Return every metric that compares labels: accuracies 0 to 1, edit score and F1@k 0 to 100."""
    return {
        "label_accuracy": label_accuracy(true, predicted),
        "ari": ari(true, predicted),
        "nmi": nmi(true, predicted),
        "boundary_f1": boundary_f1(true, predicted, offsets),
        "edit_score": edit_score(true, predicted, offsets),
        "f1_at_10": f1_at(true, predicted, offsets, overlap=0.10),
        "f1_at_25": f1_at(true, predicted, offsets, overlap=0.25),
        "f1_at_50": f1_at(true, predicted, offsets, overlap=0.50),
        "mean_dwell": mean_dwell(predicted, offsets),
        "true_mean_dwell": mean_dwell(true, offsets),
        "n_switches": n_switches(predicted, offsets),
        "true_n_switches": n_switches(true, offsets),
    }


def _matched_segments(true: ArrayLike, predicted: ArrayLike, offsets: ArrayLike) -> tuple[Segments, Segments]:
    """Segments of both labellings under the true names."""
    return segments(true, offsets), segments(match(true, predicted).labels, offsets)


def _levenshtein(a: IntArray, b: IntArray) -> int:
    """Edit distance of two sequences."""
    row = column = np.arange(len(b) + 1)
    for i, label in enumerate(a, 1):
        row = np.append(i, np.minimum(row[:-1] + (b != label), row[1:] + 1))
        # Insertions: row[j] = min_{l ≤ j} row[l] + (j − l), a running minimum once j is taken off.
        row = np.minimum.accumulate(row - column) + column
    return int(row[-1])


LABEL_METRICS = ("label_accuracy", "ari", "nmi", "boundary_f1", "edit_score", "f1_at_10", "f1_at_25", "f1_at_50")


class Inference(NamedTuple):
    """What a fitted model says about every step, flat and aligned with the demonstrations.

    ``probabilities`` (n, K): P(z_t=k | everything), and ``labels`` (n,) the likeliest k.
    ``log_likelihood`` (n,): log p(a_t | s_≤t, a_<t).
    ``paper`` (n,): the paper's score; the same array unless the prior sees the action.
    """

    labels: IntArray
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


def label_metrics(labels: IntArray, demos: Demonstrations) -> dict[str, float]:
    """How well the labels (n,) agree with the true ones; empty where the data has none."""
    if demos.labels is None:
        return {}
    everything = segmentation_metrics(demos.labels, labels, demos.offsets)
    return {name: everything[name] for name in LABEL_METRICS}


def summary(values: list[float]) -> dict[str, float]:
    """Mean and standard deviation over folds and seeds (zero for a single value)."""
    array = np.asarray(values, dtype=np.float64)
    return {"mean": float(array.mean()), "std": float(array.std(ddof=1)) if len(array) > 1 else 0.0}


def information(labels: IntArray, happened: BoolArray) -> float:
    """Mutual information between the intention of a step and whether the event happens at it, in nats per step.

    I(z; e) = Σ_k,e p(k, e) log p(k, e) / (p(k) p(e)): what one would know about the event from the intention alone,
    however many intentions there are and whatever they are called.
    """
    joint = np.stack([np.bincount(labels[happened == value], minlength=int(labels.max()) + 1) for value in (0, 1)])
    p = joint / joint.sum()
    independent = p.sum(0, keepdims=True) * p.sum(1, keepdims=True)
    there = p > 0
    return max(float((p[there] * np.log(p[there] / independent[there])).sum()), 0.0)
