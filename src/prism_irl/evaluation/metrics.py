"""How well recovered intentions, segments and values agree with the truth.

Labels are flat arrays of n steps that `offsets` (N + 1,) cut into trajectories; intentions have no natural order, so
labels are compared after the one-to-one matching m that maximises Σ_t 1[m(ẑ_t) = z_t]. Use `segmentation_metrics`
for everything at once, `agreement` between fits without truth, `expected_value_difference` for recovered rewards.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from prism_irl.errors import InputError
from prism_irl.mdp import MDP

Labels = NDArray[np.int64]


class Matching(NamedTuple):
    """The best one-to-one matching of predicted to true intentions.

    Attributes
    ----------
    labels : (n,) int
        The predicted labels under the names of the true ones.
    mapping : (n_predicted,) int
        True name of each predicted intention; those without a partner get n_true, n_true + 1, …, which match nothing.
    """

    labels: Labels
    mapping: Labels


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


class Segments(NamedTuple):
    """Maximal runs of one label within one trajectory.

    Attributes
    ----------
    starts, lengths, labels, trajectories : (M,) int
        First step (flat), number of steps, label and trajectory of each segment, in order.
    """

    starts: Labels
    lengths: Labels
    labels: Labels
    trajectories: Labels


# -- labels ------------------------------------------------------------------------------------------------------------


def match(true: ArrayLike, predicted: ArrayLike, n_true: int | None = None, n_predicted: int | None = None) -> Matching:
    """Rename predicted intentions so that as many steps as possible carry the true label.

    Parameters
    ----------
    true, predicted : (n,) int
        Labels of the same steps.
    n_true, n_predicted : int, optional
        Numbers of intentions, where some may not occur in the labels; by default the largest label plus one.
    """
    z, z_hat = _pair(true, predicted)
    n_true, n_predicted = _count(z, n_true, "true"), _count(z_hat, n_predicted, "predicted")
    # Only labels that occur, in order of appearance: ties then break alike whatever the intentions are called.
    rows, columns = _by_appearance(z_hat, n_predicted), _by_appearance(z, n_true)
    counts = np.bincount(z_hat * n_true + z, minlength=n_predicted * n_true).reshape(n_predicted, n_true)
    occurring = counts[np.ix_(rows, columns)][: len(np.unique(z_hat)), : len(np.unique(z))]
    matched, partners = linear_sum_assignment(occurring, maximize=True)
    # The rest is paired in order, with names that match nothing once the true ones are used up.
    names = np.append(np.delete(columns, partners), n_true + np.arange(n_predicted))
    mapping = np.empty(n_predicted, np.int64)
    mapping[rows[matched]] = columns[partners]
    alone = np.delete(rows, matched)
    mapping[alone] = names[: len(alone)]
    return Matching(mapping[z_hat], mapping)


def label_accuracy(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return the share of steps with the true label after matching, 0 to 1."""
    return float((match(true, predicted).labels == np.asarray(true)).mean())


def ari(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return the adjusted Rand index: 1 for the same partition, about 0 for independent ones."""
    return float(adjusted_rand_score(*_pair(true, predicted)))


def nmi(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return the normalised mutual information (arithmetic mean of the entropies), 0 to 1."""
    return float(normalized_mutual_info_score(*_pair(true, predicted)))


def agreement(labelings: Sequence[ArrayLike]) -> float | None:
    """Return the mean adjusted Rand index of the first labelling with the others; None if there are no others."""
    if not labelings:
        raise InputError("agreement needs at least one labelling; none was given.")
    first, *others = labelings
    return float(np.mean([ari(first, other) for other in others])) if others else None


# -- segments ----------------------------------------------------------------------------------------------------------


def segments(labels: ArrayLike, offsets: ArrayLike) -> Segments:
    """Cut labels into maximal runs; a trajectory's end always ends a segment."""
    z, first_steps = _labels(labels, "labels"), _offsets(offsets, labels)[:-1]
    begins = np.ones(len(z), bool)
    begins[1:] = z[1:] != z[:-1]
    begins[first_steps] = True
    starts = np.flatnonzero(begins)
    trajectories = np.searchsorted(first_steps, starts, side="right") - 1
    return Segments(starts, np.diff(starts, append=len(z)), z[starts], trajectories)


def dwell_lengths(labels: ArrayLike, offsets: ArrayLike) -> Labels:
    """Return the length in steps of every segment, in order."""
    return segments(labels, offsets).lengths


def mean_dwell(labels: ArrayLike, offsets: ArrayLike) -> float:
    """Return the mean length of a segment in steps."""
    return float(dwell_lengths(labels, offsets).mean())


def n_switches(labels: ArrayLike, offsets: ArrayLike) -> int:
    """Return the number of changes of label within trajectories."""
    return len(_boundaries(segments(labels, offsets)))


def boundary_f1(true: ArrayLike, predicted: ArrayLike, offsets: ArrayLike, tolerance: int = 1) -> float:
    """Return the F1 of predicted switch times, 0 to 1 (1 if neither side has any).

    A boundary is a step whose label differs from the one before it in the same trajectory. Each true boundary is
    paired with at most one predicted boundary at most `tolerance` steps away in the same trajectory, and the largest
    possible number of pairs counts.
    """
    if tolerance < 0:
        raise InputError(f"tolerance is {tolerance}; give a number of steps, 0 or more.")
    z, z_hat = _pair(true, predicted)
    t, p = (_boundaries(segments(labels, offsets), gap=tolerance + 1) for labels in (z, z_hat))
    if not len(t) or not len(p):
        return float(len(t) == len(p))
    pairs = [np.intersect1d(t + d, p, return_indices=True)[1:] for d in range(-tolerance, tolerance + 1)]
    rows, columns = (np.concatenate(side) for side in zip(*pairs, strict=True))
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
    """Return every metric of this module that compares labels: accuracies 0 to 1, edit score and F1@k 0 to 100."""
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


def _labels(values: ArrayLike, name: str) -> Labels:
    """(n,) labels as int64, or one sentence about what is wrong with them."""
    labels: NDArray[Any] = np.asarray(values)
    if labels.ndim != 1 or not len(labels) or labels.dtype.kind not in "iu":
        raise InputError(f"{name} must be a flat array of integers, but has shape {labels.shape} and {labels.dtype}.")
    if labels.min() < 0:
        raise InputError(f"{name} has the label {labels.min()} at step {labels.argmin()}; labels start at 0.")
    return labels.astype(np.int64)


def _pair(true: ArrayLike, predicted: ArrayLike) -> tuple[Labels, Labels]:
    """Both label arrays, of the same length."""
    z, z_hat = _labels(true, "true"), _labels(predicted, "predicted")
    if len(z) != len(z_hat):
        raise InputError(f"true has {len(z)} steps but predicted has {len(z_hat)}; give labels of the same steps.")
    return z, z_hat


def _offsets(offsets: ArrayLike, labels: ArrayLike) -> Labels:
    """(N + 1,) offsets that cover the labels exactly."""
    edges: NDArray[Any] = np.asarray(offsets)
    n = len(np.asarray(labels))
    if edges.ndim != 1 or edges.dtype.kind not in "iu" or len(edges) < 2 or edges[0] != 0 or edges[-1] != n:
        raise InputError(f"offsets must be integers from 0 to the number of steps, {n}, one more than trajectories.")
    edges = edges.astype(np.int64)
    if (np.diff(edges) < 1).any():
        raise InputError(f"trajectory {int((np.diff(edges) < 1).argmax())} is empty; offsets must increase.")
    return edges


def _count(labels: Labels, given: int | None, name: str) -> int:
    """Return the number of intentions, at least as large as the labels need."""
    needed = int(labels.max()) + 1
    if given is not None and given < needed:
        raise InputError(f"n_{name} is {given}, but {name} has the label {needed - 1}; give at least {needed}.")
    return needed if given is None else given


def _by_appearance(labels: Labels, n: int) -> Labels:
    """(n,) label numbers in the order in which they first occur; those that do not occur come last."""
    first = np.full(n, len(labels))
    values, index = np.unique(labels, return_index=True)
    first[values] = index
    return np.argsort(first, kind="stable")


def _boundaries(cut: Segments, gap: int = 0) -> Labels:
    """First steps of the segments that do not open a trajectory, with `gap` steps put between trajectories."""
    inner = np.diff(cut.trajectories, prepend=-1) == 0
    boundaries: Labels = cut.starts[inner] + gap * cut.trajectories[inner]
    return boundaries


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
