"""Segments: the same beliefs as a sum over all segmentations, and nothing that the order forbids."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_irl.switching import segmental

K, B = 3, 7


def cumulative(evidence):
    return np.concatenate([np.zeros((1, evidence.shape[1])), evidence.cumsum(0)])


@pytest.fixture
def episode():
    rng = np.random.default_rng(0)
    table = segmental.length_table(np.array([0.2, 0.5, 0.3]), np.array([0.1, 0.2, 0.1]), B)
    return rng.normal(size=(B, K)), table, rng.normal(size=B + 1)


def every_path_once(evidence, table, border):
    """Log weight of each segmentation into K segments in order, and its labels."""
    found = []
    for cuts in combinations(range(1, B), K - 1):
        edges = (0, *cuts, B)
        labels = np.repeat(np.arange(K), np.diff(edges))
        weight = evidence[np.arange(B), labels].sum() + sum(border[cut] for cut in cuts)
        weight += sum(table[k, end - start - 1] for k, (start, end) in enumerate(pairwise(edges)))
        found.append((weight, labels))
    return found


def test_beliefs_are_those_of_a_sum_over_all_segmentations(episode):
    evidence, table, border = episode
    beliefs = np.empty((B, K))
    total = segmental.posterior(cumulative(evidence), table, *segmental.once(K), border, beliefs)
    paths = every_path_once(evidence, table, border)
    weights = np.array([weight for weight, _ in paths])
    assert total == pytest.approx(np.logaddexp.reduce(weights))
    share = np.exp(weights - total)
    expected = sum(w * np.eye(K)[labels] for w, (_, labels) in zip(share, paths, strict=True))
    np.testing.assert_allclose(beliefs, expected, atol=1e-9)


def test_likeliest_segments(episode):
    evidence, table, _ = episode
    path = np.zeros(B, np.int64)
    total = segmental.viterbi(cumulative(evidence), table, *segmental.once(K), path)
    best = max(every_path_once(evidence, table, np.zeros(B + 1)), key=lambda one: one[0])
    assert total == pytest.approx(best[0])
    np.testing.assert_array_equal(path, best[1])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1.0, 30.0, 3000.0]))
def test_what_is_impossible_has_no_mass_however_strong_the_evidence(seed, scale):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 40))
    evidence = rng.normal(size=(n, 4)) * scale
    table = segmental.length_table(np.full(4, 0.25), np.full(4, 0.1), n)
    beliefs = np.empty((n, 4))
    segmental.posterior(cumulative(evidence), table, *segmental.once(4), np.zeros(n + 1), beliefs)
    for t in range(3):  # stage k is not reached before step k, nor left later than there is room for the others
        assert (beliefs[t, t + 1 :] == 0).all()
        assert beliefs[n - 1 - t, : 3 - t].max() < 1e-9
    moves, first, last = (np.isfinite(logs) for logs in segmental.once(4))
    path = segmental.best_path(beliefs, np.array([0, n]), moves, first, last)
    assert path[0] == 0
    assert path[-1] == 3
    assert set(np.diff(path)) <= {0, 1}


def test_filtered_beliefs_equal_those_of_an_explicit_sum_over_ages():
    rng = np.random.default_rng(1)
    evidence, hazard = rng.normal(size=(6, 2)), rng.uniform(0.1, 0.9, (2, 3))
    moves, first = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.7, 0.3])
    predicted, filtered = np.empty((6, 2)), np.empty((6, 2))
    segmental.forward(evidence, hazard, moves, first, predicted, filtered)
    state = {(k, 0): first[k] for k in range(2)}
    for t in range(6):
        if t:
            new: dict[tuple[int, int], float] = {}
            for (k, age), mass in state.items():
                stay, go = (k, min(age + 1, 2)), (1 - k, 0)
                new[stay] = new.get(stay, 0.0) + mass * (1 - hazard[k, age])
                new[go] = new.get(go, 0.0) + mass * hazard[k, age]
            state = new
        for k in range(2):
            assert predicted[t, k] == pytest.approx(sum(m for (j, _), m in state.items() if j == k))
        state = {(k, age): m * np.exp(evidence[t, k]) for (k, age), m in state.items()}
        total = sum(state.values())
        state = {key: m / total for key, m in state.items()}
        for k in range(2):
            assert filtered[t, k] == pytest.approx(sum(m for (j, _), m in state.items() if j == k))
