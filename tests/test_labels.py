"""Matching, agreement and segments against hand-made cases, scikit-learn and the obvious loops."""

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from labellings import cases, pieces, quick, runs
from prism_irl.errors import InputError
from prism_irl.labels import (
    agreement,
    ari,
    dwell_lengths,
    label_accuracy,
    match,
    mean_dwell,
    n_switches,
    nmi,
    segments,
)

WHOLE = [0, 8]


def test_match_renames_to_the_true_labels():
    labels, mapping = match([0, 0, 1, 1, 2], [2, 2, 0, 0, 1])
    np.testing.assert_array_equal(mapping, [1, 2, 0])
    np.testing.assert_array_equal(labels, [0, 0, 1, 1, 2])


def test_match_gives_surplus_intentions_distinct_labels_that_match_nothing():
    labels, mapping = match([0, 0, 0, 0, 1, 1], [3, 3, 0, 2, 1, 1])
    assert mapping[3] == 0
    assert mapping[1] == 1
    assert sorted(mapping[[0, 2]]) == [2, 3]
    np.testing.assert_array_equal(labels == [0, 0, 0, 0, 1, 1], [True, True, False, False, True, True])


def test_match_knows_intentions_that_do_not_occur():
    _, mapping = match([0, 0, 1], [1, 1, 1], n_true=2, n_predicted=3)
    assert mapping[1] == 0
    assert sorted(mapping) == [0, 1, 2]


def test_match_is_optimal_where_greedy_is_not():
    true = [0] * 5 + [1] * 4 + [0] * 4
    predicted = [0] * 5 + [0] * 4 + [1] * 4
    assert label_accuracy(true, predicted) == pytest.approx(8 / 13)  # the largest overlap alone gives 5 / 13


@quick
@given(cases())
def test_accuracy_equals_the_best_assignment(case):
    true, predicted, _ = case
    counts = np.zeros((4, 4))
    np.add.at(counts, (predicted, true), 1)
    best = counts[linear_sum_assignment(-counts)].sum() / len(true)
    assert label_accuracy(true, predicted) == pytest.approx(best)


@quick
@given(cases())
def test_ari_and_nmi_are_sklearns(case):
    true, predicted, _ = case
    assert ari(true, predicted) == adjusted_rand_score(true, predicted)  # whole numbers until the last division
    assert nmi(true, predicted) == pytest.approx(normalized_mutual_info_score(true, predicted), abs=1e-12)


def test_ari_counts_pairs_of_many_steps_without_overflow():
    true = np.repeat([0, 1], 3_000_000)
    predicted = np.roll(true, 1_000_000)
    assert ari(true, predicted) == pytest.approx(1 / 9, abs=1e-6)  # two thirds stay, one third changes sides


def test_nmi_by_hand():
    assert nmi([0, 0, 1, 1], [0, 1, 0, 1]) == pytest.approx(0)
    # I = H(predicted) = log 2 and H(true) = log 4, with the arithmetic mean below.
    assert nmi([0, 1, 2, 3], [0, 0, 1, 1]) == pytest.approx(2 / 3)


def test_agreement_is_the_mean_ari_with_the_first():
    first, same, other = [0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1]
    assert agreement([first, same, other]) == pytest.approx((1 + adjusted_rand_score(first, other)) / 2)
    assert agreement([first]) is None
    with pytest.raises(InputError):
        agreement([])


@quick
@given(cases())
def test_segments_are_the_runs_of_each_trajectory(case):
    labels, _, offsets = case
    expected = [(k, a, e) for a, piece in zip(offsets, pieces(labels, offsets), strict=False) for k, *e in runs(piece)]
    cut = segments(labels, offsets)
    np.testing.assert_array_equal(cut.labels, [k for k, _, _ in expected])
    np.testing.assert_array_equal(cut.starts, [a + e[0] for _, a, e in expected])
    np.testing.assert_array_equal(dwell_lengths(labels, offsets), [e[1] - e[0] for _, _, e in expected])
    np.testing.assert_array_equal(offsets[cut.trajectories], [a for _, a, _ in expected])
    assert n_switches(labels, offsets) == len(expected) - (len(offsets) - 1)
    assert mean_dwell(labels, offsets) == pytest.approx(len(labels) / len(expected))


def test_dwell_by_hand():
    labels = [0, 0, 0, 1, 1, 1, 0, 0]
    np.testing.assert_array_equal(dwell_lengths(labels, WHOLE), [3, 3, 2])
    np.testing.assert_array_equal(dwell_lengths(labels, [0, 4, 8]), [3, 1, 2, 2])
    assert mean_dwell(labels, [0, 4, 8]) == 2
    assert n_switches(labels, WHOLE) == n_switches(labels, [0, 4, 8]) == 2
    assert n_switches(labels, [0, 3, 8]) == 1


@pytest.mark.parametrize(
    ("true", "predicted"),
    [([0, 1], [0]), ([], []), ([0, -1], [0, 0]), ([0.0, 1.0], [0, 1]), ([[0, 1]], [[0, 1]])],
)
def test_wrong_labels_are_refused(true, predicted):
    for function in (match, ari, nmi, label_accuracy):
        with pytest.raises(InputError):
            function(true, predicted)


@pytest.mark.parametrize("offsets", [[0, 3], [1, 4], [0, 2, 2, 4], [0], [0.0, 4.0]])
def test_wrong_offsets_are_refused(offsets):
    with pytest.raises(InputError):
        mean_dwell([0, 0, 1, 1], offsets)


def test_too_few_intentions_are_refused():
    with pytest.raises(InputError, match="n_true"):
        match([0, 2], [0, 1], n_true=2)
