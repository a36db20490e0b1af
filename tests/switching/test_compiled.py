"""Exponentials and logarithms of the compiled passes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

compiled = pytest.importorskip("prism_irl.switching.compiled", reason="needs numba (extra: fast)")


@given(st.lists(st.floats(-707.9, 709.0), min_size=1, max_size=40))
def test_exponentials_are_exact_to_the_last_digits(values):
    x = np.array(values)
    out = np.empty_like(x)
    compiled._exp(x, out, np.empty(len(x), np.int64))
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-15)


def test_what_would_lose_its_digits_is_zero():
    x = np.array([-np.inf, -1e300, -745.0, -708.1])
    out = np.full(len(x), np.nan)
    compiled._exp(x, out, np.empty(len(x), np.int64))
    np.testing.assert_array_equal(out, 0.0)


@given(st.lists(st.floats(1e-280, 1e300), min_size=1, max_size=40))
def test_logarithms_are_exact_to_the_last_digits(values):
    x = np.array(values)
    expected = np.log(x)
    compiled._log(x, np.empty(len(x), np.int64))
    np.testing.assert_allclose(x, expected, rtol=1e-15, atol=1e-16)


@given(st.floats(-1e-3, 1e-3))
def test_logarithms_near_one(small):
    x = np.array([1.0 + small])
    expected = np.log(x)
    compiled._log(x, np.empty(1, np.int64))
    np.testing.assert_allclose(x, expected, rtol=4e-15, atol=1e-18)
