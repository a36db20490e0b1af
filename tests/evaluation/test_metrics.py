"""Metrics against hand-made cases, reference implementations and their invariances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labellings import cases, pieces, quick, runs
from prism_irl.errors import InputError
from prism_irl.evaluation import metrics
from prism_irl.labels import ari, match, n_switches, nmi

WHOLE = [0, 8]


def test_boundary_f1_by_hand():
    true = [0, 0, 0, 1, 1, 1, 0, 0]  # boundaries at 3 and 6
    assert metrics.boundary_f1(true, [0, 0, 1, 1, 1, 1, 1, 1], WHOLE) == pytest.approx(2 / 3)  # 2 is near 3
    assert metrics.boundary_f1(true, [0, 0, 1, 1, 1, 1, 1, 1], WHOLE, tolerance=0) == 0
    assert metrics.boundary_f1(true, [0, 1, 1, 1, 1, 1, 1, 1], WHOLE) == 0
    assert metrics.boundary_f1(true, [0, 1, 1, 1, 1, 1, 1, 1], WHOLE, tolerance=2) == pytest.approx(2 / 3)
    # Boundaries at 2, 3 and 4: only one of them may be paired with the one at 3.
    assert metrics.boundary_f1([0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 1, 0, 1, 1, 1, 1], WHOLE) == pytest.approx(2 / 4)
    # 2 and 4 against 3 and 5: pairing 3 with 4 would leave the others alone.
    assert metrics.boundary_f1([0, 0, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0, 0], WHOLE) == 1


def test_boundary_f1_without_boundaries():
    assert metrics.boundary_f1([0] * 8, [1] * 8, WHOLE) == 1
    assert metrics.boundary_f1([0] * 8, [0] * 4 + [1] * 4, WHOLE) == 0


def test_boundaries_never_lie_or_pair_across_trajectories():
    true, predicted = [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 0, 1, 1, 1]
    assert metrics.boundary_f1(true, true, [0, 4, 8]) == 1  # none: the change at 4 is the start of a trajectory
    assert n_switches(true, [0, 4, 8]) == 0
    assert metrics.boundary_f1(true, predicted, [0, 4, 8]) == 0
    last, first = [0, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 1, 1]  # at 3 in one trajectory, at 5 in the next
    assert metrics.boundary_f1(last, first, [0, 4, 8], tolerance=2) == 0
    assert metrics.boundary_f1(last, first, WHOLE, tolerance=2) > 0


@quick
@given(cases(n_labels=2), st.integers(0, 3))
def test_boundary_f1_equals_greedy_pairing_per_trajectory(case, tolerance):
    true, predicted, offsets = case
    pairs = total = 0
    for z, z_hat in zip(pieces(true, offsets), pieces(predicted, offsets), strict=True):
        t, p = ([begin for _, begin, _ in runs(labels)[1:]] for labels in (z, z_hat))
        total += len(t) + len(p)
        while t and p:  # on a line, pairing the earliest that fit is optimal
            if abs(t[0] - p[0]) <= tolerance:
                pairs, t, p = pairs + 1, t[1:], p[1:]
            elif t[0] < p[0]:
                t = t[1:]
            else:
                p = p[1:]
    expected = 2 * pairs / total if total else 1
    assert metrics.boundary_f1(true, predicted, offsets, tolerance) == pytest.approx(expected)


def reference_edit(true, predicted, offsets):
    """The textbook table, one trajectory at a time, over matched labels."""
    scores = []
    for z, z_hat in zip(pieces(true, offsets), pieces(predicted, offsets), strict=True):
        a, b = ([label for label, *_ in runs(labels)] for labels in (z, z_hat))
        table = np.add.outer(np.arange(len(a) + 1), np.arange(len(b) + 1))
        for i, j in np.ndindex(len(a), len(b)):
            table[i + 1, j + 1] = min(table[i, j] + (a[i] != b[j]), table[i, j + 1] + 1, table[i + 1, j] + 1)
        scores.append(100 * (1 - table[-1, -1] / max(len(a), len(b))))
    return np.mean(scores)


def reference_f1(true, predicted, offsets, overlap):
    """The loop that the action segmentation literature uses, over matched labels."""
    hits_total = total = 0
    for z, z_hat in zip(pieces(true, offsets), pieces(predicted, offsets), strict=True):
        t, p = runs(z), runs(z_hat)
        hit = [False] * len(t)
        total += len(t) + len(p)
        for label, begin, end in p:
            iou = [max(0, min(end, e) - max(begin, b)) / (max(end, e) - min(begin, b)) * (k == label) for k, b, e in t]
            best = int(np.argmax(iou))
            if iou[best] >= overlap and not hit[best]:
                hit[best] = True
        hits_total += sum(hit)
    return 100 * 2 * hits_total / total


@quick
@given(cases())
def test_edit_and_f1_equal_reference_loops(case):
    true, predicted, offsets = case
    matched = match(true, predicted).labels
    assert metrics.edit_score(true, predicted, offsets) == pytest.approx(reference_edit(true, matched, offsets))
    for overlap in (0.1, 0.25, 0.5, 1.0):
        expected = reference_f1(true, matched, offsets, overlap)
        assert metrics.f1_at(true, predicted, offsets, overlap) == pytest.approx(expected)


def test_edit_score_by_hand():
    true = [0, 0, 0, 1, 1, 1, 2, 2]
    assert metrics.edit_score(true, [0, 1, 1, 1, 1, 1, 1, 2], WHOLE) == 100  # order only, not length
    assert metrics.edit_score(true, [0, 0, 0, 1, 1, 1, 1, 1], WHOLE) == pytest.approx(100 * (1 - 1 / 3))
    assert metrics.edit_score(true, [0, 1, 0, 1, 1, 1, 2, 2], WHOLE) == pytest.approx(100 * (1 - 2 / 5))


def test_f1_by_hand():
    true = [0, 0, 0, 0, 1, 1, 1, 1]
    predicted = [0, 0, 0, 0, 0, 0, 0, 1]  # IoU 4/7 and 1/4
    assert metrics.f1_at(true, predicted, WHOLE, overlap=0.10) == 100
    assert metrics.f1_at(true, predicted, WHOLE, overlap=0.25) == 100
    assert metrics.f1_at(true, predicted, WHOLE, overlap=0.50) == 50
    assert metrics.f1_at(true, [0, 1, 0, 0, 1, 1, 1, 1], WHOLE, overlap=0.25) == pytest.approx(100 * 4 / 6)
    assert metrics.f1_at([0] * 8, [0, 0, 1, 0, 0, 0, 0, 0], WHOLE, overlap=0.10) == 50  # a true segment is hit once


@quick
@given(cases(), st.permutations(range(4)))
def test_perfect_prediction_under_any_names(case, names):
    true, _, offsets = case
    scores = metrics.segmentation_metrics(true, np.array(names)[true], offsets)
    assert scores["true_mean_dwell"] == scores["mean_dwell"]
    assert scores["true_n_switches"] == scores["n_switches"]
    for name in ("label_accuracy", "ari", "nmi", "boundary_f1"):
        assert scores[name] == pytest.approx(1), name
    for name in ("edit_score", "f1_at_10", "f1_at_25", "f1_at_50"):
        assert scores[name] == 100, name


@quick
@given(cases(), st.permutations(range(4)), st.permutations(range(4)))
def test_names_do_not_matter(case, true_names, predicted_names):
    true, predicted, offsets = case
    renamed = metrics.segmentation_metrics(np.array(true_names)[true], np.array(predicted_names)[predicted], offsets)
    for name, value in metrics.segmentation_metrics(true, predicted, offsets).items():
        assert renamed[name] == pytest.approx(value), name


def test_names_do_not_matter_where_matchings_tie():
    # Both matchings put two steps right, but one gives an edit score of 100 and the other 0.
    true, predicted = np.array([1, 1, 1, 0]), np.array([1, 0, 0, 0])
    scores = {
        metrics.edit_score(np.array(t)[true], np.array(p)[predicted], [0, 4])
        for t in ([0, 1], [1, 0], [0, 3], [5, 2])
        for p in ([0, 1], [1, 0], [3, 0], [2, 3])
    }
    assert len(scores) == 1


def test_segmentation_metrics_holds_each_metric():
    true, predicted, offsets = [0, 0, 0, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0, 0, 0], [0, 5, 8]
    assert metrics.segmentation_metrics(true, predicted, offsets) == pytest.approx(
        {
            "label_accuracy": 5 / 8,
            "ari": ari(true, predicted),
            "nmi": nmi(true, predicted),
            "boundary_f1": 2 / 3,
            "edit_score": 100 * (1 + 1 / 2) / 2,
            "f1_at_10": 100 * 6 / 7,
            "f1_at_25": 100 * 6 / 7,
            "f1_at_50": 100 * 4 / 7,
            "mean_dwell": 8 / 3,
            "true_mean_dwell": 2,
            "n_switches": 1,
            "true_n_switches": 2,
        }
    )


@pytest.mark.parametrize("offsets", [[0, 3], [1, 4], [0, 2, 2, 4], [0], [0.0, 4.0]])
def test_wrong_offsets_are_refused(offsets):
    for function in (metrics.boundary_f1, metrics.edit_score, metrics.f1_at):
        with pytest.raises(InputError):
            function([0, 0, 1, 1], [0, 0, 1, 1], offsets)


def test_wrong_options_are_refused():
    with pytest.raises(InputError, match="tolerance"):
        metrics.boundary_f1([0], [0], [0, 1], tolerance=-1)
    with pytest.raises(InputError, match="overlap"):
        metrics.f1_at([0], [0], [0, 1], overlap=0)


def test_information_of_an_intention_about_an_event():
    labels = np.repeat([0, 1], 50)
    happened = labels == 1
    assert metrics.information(labels, happened) == pytest.approx(np.log(2))  # the intention says it all
    assert metrics.information(1 - labels, happened) == pytest.approx(np.log(2))  # whatever it is called
    assert metrics.information(labels, np.tile([False, True], 50)) == pytest.approx(0, abs=1e-12)
    assert metrics.information(labels, np.zeros(100, bool)) == 0.0
    assert metrics.information(np.zeros(100, np.int64), happened) == 0.0


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=60))
def test_information_is_what_entropies_say(steps):
    labels, happened = np.array([k for k, _ in steps]), np.array([e for _, e in steps])

    def entropy(values):
        p = np.unique(values, return_counts=True)[1] / len(values)
        return float(-(p * np.log(p)).sum())

    expected = entropy(labels) + entropy(happened) - entropy(labels * 2 + happened)
    assert metrics.information(labels, happened) == pytest.approx(expected, abs=1e-9)
