"""Permutations are whole units, p are ranks, and the correction never lets anything through that Bonferroni would."""

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.evaluation import units
from prism_irl.evaluation.units import Cells


def unpaired(n, m):
    return Cells(np.arange(n + m), np.arange(n + m) >= n, False)


def paired(n):
    return Cells(np.repeat(np.arange(n), 2), np.tile([False, True], n), True)


@given(st.integers(1, 6), st.integers(1, 6))
def test_every_assignment_of_an_unpaired_design_occurs_once(n, m):
    found = units.assignments(unpaired(n, m))
    assert found.exact
    assert len(found.level) == len(np.unique(found.level, axis=0)) == comb(n + m, m)
    assert (found.level.sum(axis=1) == m).all()
    np.testing.assert_array_equal(found.level[0], unpaired(n, m).second)


@given(st.integers(1, 8))
def test_a_paired_design_swaps_within_units(n):
    found = units.assignments(paired(n))
    assert len(np.unique(found.level, axis=0)) == 2**n
    assert (found.level.reshape(-1, n, 2).sum(axis=2) == 1).all()
    assert found.smallest_p == pytest.approx(min(2 / 2**n, 1.0))


def test_many_units_are_permuted_at_random_with_the_truth_among_them():
    found = units.assignments(unpaired(15, 15))
    assert not found.exact
    assert len(found.level) == units.DRAWN + 1
    np.testing.assert_array_equal(found.level[0], unpaired(15, 15).second)


def test_p_is_the_share_of_assignments_that_reach_the_truth():
    values = np.array([0.3, 0.1, 0.9, 0.4, 0.2, 0.8])
    cells = unpaired(3, 3)
    tried = units.assignments(cells)
    differences = np.abs([values[s].mean() - values[~s].mean() for s in tried.level])
    p = units.p_values(differences[:, None])[0]
    assert p == (differences >= differences[0] - 1e-12).mean()


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 6))
def test_adjusted_p_is_at_least_p_and_that_of_the_largest_is_of_the_maximum(seed, m):
    statistics = np.random.default_rng(seed).standard_normal((200, m))
    p, adjusted = units.p_values(statistics), units.adjusted(statistics)
    assert (adjusted >= p - 1e-12).all()
    z = (statistics - statistics.mean(0)) / statistics.std(0)
    assert adjusted[z[0].argmax()] == pytest.approx((z.max(axis=1) >= z[0].max() - 1e-9).mean())


def test_the_family_of_questions_is_wrong_one_time_in_twenty():
    rng = np.random.default_rng(1)
    wrong = sum(units.adjusted(rng.standard_normal((400, 10))).min() <= 0.05 for _ in range(400))
    assert 8 <= wrong <= 34  # 20 expected, three standard deviations either way


def test_a_question_asked_twice_costs_nothing():
    statistics = np.repeat(np.random.default_rng(0).standard_normal((500, 1)), 3, axis=1)
    np.testing.assert_allclose(units.adjusted(statistics), units.p_values(statistics))


@given(st.integers(2, 6), st.integers(2, 6))
def test_a_bootstrap_draws_as_many_units_as_there_are(n, m):
    weights = units.bootstrap_weights(unpaired(n, m), 20)
    assert (weights[:, :n].sum(axis=1) == n).all()
    assert (weights[:, n:].sum(axis=1) == m).all()
    pairs = units.bootstrap_weights(paired(n), 20).reshape(20, n, 2)
    np.testing.assert_array_equal(pairs[..., 0], pairs[..., 1])


def test_few_units_widen_the_interval():
    low, high = units.quantiles(5)
    assert low < units.quantiles(50)[0] < 0.025 + 1e-9
    assert low + high == pytest.approx(1)
    assert units.quantiles(100_000)[0] == pytest.approx(0.025, rel=1e-3)


def test_means_of_few_normal_numbers_are_covered():
    rng, covered = np.random.default_rng(0), 0
    for _ in range(300):
        values = rng.standard_normal(8)
        weights = units.bootstrap_weights(paired(8), 600, int(rng.integers(10**6)))[:, ::2]
        low, high = units.interval((weights @ values) / 8, 8)
        covered += low <= 0 <= high
    assert 0.91 <= covered / 300 <= 0.985


@given(n_units=st.integers(2, 40), scale=st.sampled_from(sorted(units.SCALES)), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_a_centred_interval_holds_its_estimate_and_stays_possible(n_units, scale, seed):
    rng = np.random.default_rng(seed)
    draws = rng.uniform(0.2, 0.6, (50, 3))
    low, high = units.centred_interval(draws, draws[0], n_units, scale)
    assert (low <= draws[0]).all()
    assert (draws[0] <= high).all()
    if scale != "plain":
        assert (low > 0).all()
    if scale == "logit":
        assert (high < 1).all()


def test_a_centred_interval_is_students_and_covers_a_mean():
    """Of means of eight normal numbers, 95% of the intervals hold the truth."""
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(400):
        values = rng.normal(size=8)
        draws = rng.choice(values, (200, 8)).mean(axis=1)
        low, high = units.centred_interval(draws, values.mean(), 8)
        hits.append(low <= 0 <= high)
    assert 0.92 <= np.mean(hits) <= 0.98


def test_where_a_scale_has_no_number_quantiles_stand_in():
    draws = np.concatenate([np.zeros(10), np.full(90, 0.5)])
    np.testing.assert_array_equal(units.centred_interval(draws, 0.5, 8, "logit"), units.interval(draws, 8))
