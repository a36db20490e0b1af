"""Consensus: names do not matter, worse solutions do not count, disagreement is shown."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consensus import consensus, matched_columns
from prism_irl.errors import InputError


def responsibilities(seed: int, n: int = 60, k: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(k, 0.3), n)


@given(st.integers(0, 50), st.permutations(range(3)), st.permutations(range(3)))
@settings(max_examples=30, deadline=None)
def test_names_do_not_matter(seed: int, first: list[int], second: list[int]) -> None:
    w = responsibilities(seed)
    found = consensus([w, w[:, first], w[:, second]], [-0.5, -0.5001, -0.5002])
    np.testing.assert_allclose(found.probabilities, w)
    np.testing.assert_array_equal(found.labels, w.argmax(1))
    assert found.unanimous == found.support == 1.0


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=5, unique=True), st.integers(2, 4))
@settings(max_examples=30, deadline=None)
def test_averages_are_distributions_and_shares_are_ordered(seeds: list[int], k: int) -> None:
    solutions = [responsibilities(seed, k=k) for seed in seeds]
    found = consensus(solutions, [-1.0] * len(seeds))
    np.testing.assert_allclose(found.probabilities.sum(1), 1)
    assert found.members == tuple(range(len(seeds)))
    assert 0 <= found.unanimous <= found.support <= 1
    assert found.renamed.shape == (len(seeds), 60)
    for i, w in enumerate(solutions):  # renaming is a permutation
        assert len(set(zip(w.argmax(1), found.renamed[i], strict=True))) == len(set(w.argmax(1)))


def test_worse_solutions_do_not_count() -> None:
    good, bad = responsibilities(0), responsibilities(1)
    found = consensus([bad, good, bad], [-0.6, -0.5, -0.5011], margin=1e-3)
    assert found.members == (1,)
    np.testing.assert_array_equal(found.probabilities, good)
    assert consensus([bad, good, bad], [-0.6, -0.5, -0.5011], margin=2e-3).members == (1, 2)


def test_the_majority_is_followed_and_disagreement_is_counted() -> None:
    labels = np.repeat([0, 1], 10)
    one, other = np.eye(2)[labels], np.eye(2)[np.where(np.arange(20) < 5, 1, labels)]
    found = consensus([other, one, one], [-0.5, -0.5, -0.5])
    np.testing.assert_array_equal(found.labels, labels)
    assert found.unanimous == 0.75  # five of twenty steps are contested
    assert found.support == pytest.approx(55 / 60)


def test_columns_are_matched_by_shared_responsibility() -> None:
    w = responsibilities(3)
    np.testing.assert_array_equal(matched_columns(w, w[:, [2, 0, 1]]), [1, 2, 0])


def test_unequal_solutions_are_refused() -> None:
    with pytest.raises(InputError, match="0 solutions and 0 scores"):
        consensus([], [])
    with pytest.raises(InputError, match="1 solutions and 2 scores"):
        consensus([responsibilities(0)], [0.0, 1.0])
    with pytest.raises(InputError, match=r"Solution 1 has responsibilities of shape \(60, 2\)"):
        consensus([responsibilities(0), responsibilities(0, k=2)], [0.0, 0.0])
    with pytest.raises(InputError, match="finite"):
        consensus([responsibilities(0)], [-np.inf])
