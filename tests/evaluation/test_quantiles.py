"""The sums give what SciPy gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from prism_irl.evaluation.quantiles import binomial_quantile, student_quantile


@given(st.integers(1, 300), st.sampled_from((0.5, 0.9, 0.95, 0.975, 0.999)))
def test_students_quantiles(freedom, probability):
    assert student_quantile(freedom, probability) == pytest.approx(
        stats.t.ppf(probability, freedom), abs=1e-9, rel=1e-9
    )


@given(st.integers(0, 200), st.floats(0.01, 0.99), st.sampled_from((0.5, 0.9, 0.951)))
def test_binomial_quantiles(n, p, probability):
    found = binomial_quantile(n, p, probability)
    assert stats.binom.cdf(found, n, p) >= probability - 1e-9
    assert found == 0 or stats.binom.cdf(found - 1, n, p) < probability + 1e-9
