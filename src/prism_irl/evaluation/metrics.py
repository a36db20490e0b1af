"""How well recovered segments and values agree with the truth.

Labels are flat arrays of n steps that `offsets` (N + 1,) cut into trajectories, compared after the best one-to-one
matching (`prism_irl.labels`). Use `segmentation_metrics` for everything at once, `expected_value_difference` for
recovered rewards.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from prism_irl.errors import InputError
from prism_irl.labels import (
    Labels,
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
from prism_irl.mdp import MDP


class EVD(NamedTuple):
    """Expected value difference of a recovered policy, under the true reward and dynamics.

    Attributes
    ----------
    mean : float
        Mean over states of |V*(s) − V^π̂(s)|, V* being the value of the expert's policy.
    start : float
        V^π̂(s0) − V*(s0): negative where the recovered policy earns less than the expert.
    """

    mean: float
    start: float


# -- segments ----------------------------------------------------------------------------------------------------------


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
    t, p = _matched_segments(true, predicted, offsets)
    t_counts, p_counts = np.bincount(t.trajectories), np.bincount(p.trajectories)
    longer = np.maximum(t_counts, p_counts)
    distances = np.empty(len(longer))
    # Chunks of similar size: one long trajectory does not pad all others, and memory stays bounded.
    for chunk in np.array_split(np.argsort(longer), -(-len(longer) // 256)):
        distances[chunk] = _levenshtein(
            _padded(t, t_counts, chunk), t_counts[chunk], _padded(p, p_counts, chunk), p_counts[chunk]
        )
    return float(100 * (1 - distances / longer).mean())


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


# -- values ------------------------------------------------------------------------------------------------------------


def expected_value_difference(
    mdp: MDP, true_reward: ArrayLike, expert_policy: ArrayLike, recovered_policy: ArrayLike, start: int | ArrayLike
) -> EVD:
    """Compare what the recovered and the expert's policy earn under the true reward and the dynamics of `mdp`.

    Parameters
    ----------
    mdp : MDP
        True dynamics and discount.
    true_reward, expert_policy, recovered_policy : (S, A)
        For one intention.
    start : int or (S,)
        The start state s0, or a distribution over start states.
    """
    difference = mdp.policy_evaluation(recovered_policy, true_reward) - mdp.policy_evaluation(
        expert_policy, true_reward
    )
    where, n = np.asarray(start), len(difference)
    if where.ndim == 0 and where.dtype.kind in "iu" and 0 <= where < n:
        where = np.eye(n)[where]
    if where.shape != (n,) or (where < 0).any() or not np.isclose(where.sum(), 1):
        raise InputError(f"start must be a state from 0 to {n - 1} or a distribution over the {n} states.")
    return EVD(mean=float(np.abs(difference).mean()), start=float(where @ difference))


# -- helpers -----------------------------------------------------------------------------------------------------------


def _matched_segments(true: ArrayLike, predicted: ArrayLike, offsets: ArrayLike) -> tuple[Segments, Segments]:
    """Segments of both labellings under the true names."""
    return segments(true, offsets), segments(match(true, predicted).labels, offsets)


def _padded(cut: Segments, counts: Labels, chosen: Labels) -> Labels:
    """Segment labels of the chosen trajectories, one row each, padded with −1."""
    position = np.arange(counts[chosen].max())
    index = (counts.cumsum() - counts)[chosen, None] + position
    inside = position < counts[chosen, None]
    return np.where(inside, cut.labels[np.where(inside, index, 0)], -1)


def _levenshtein(a: Labels, a_counts: Labels, b: Labels, b_counts: Labels) -> Labels:
    """(N,) edit distances between padded rows, the dynamic programme run over all rows at once."""
    column = np.arange(b.shape[1] + 1)
    row = np.tile(column, (len(a), 1))
    distances = np.empty(len(a), np.int64)
    for i in range(a.shape[1]):
        substituted = row[:, :-1] + (b != a[:, i : i + 1])
        row = np.column_stack([np.full(len(a), i + 1), np.minimum(substituted, row[:, 1:] + 1)])
        # Insertions: row[j] = min_{l ≤ j} row[l] + (j − l), a running minimum once j is taken off.
        row = np.minimum.accumulate(row - column, axis=1) + column
        done = a_counts == i + 1
        distances[done] = row[done, b_counts[done]]
    return distances
