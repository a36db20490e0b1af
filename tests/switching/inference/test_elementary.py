"""Exponentials and logarithms that the compiler vectorises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

elementary = pytest.importorskip("prism_irl.switching.inference.elementary", reason="needs numba (extra: fast)")


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.floats(-707.9, 709.0), min_size=1, max_size=40))
def test_exponentials_are_exact_to_the_last_digits(values):
    x = np.array(values)
    expected = np.exp(x)
    elementary.exponentials(x, 0, len(x))
    np.testing.assert_allclose(x, expected, rtol=1e-15)


def test_what_would_lose_its_digits_is_zero():
    x = np.array([-np.inf, -1e300, -745.0, -708.1])
    elementary.exponentials(x, 0, len(x))
    np.testing.assert_array_equal(x, 0.0)


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.floats(1e-280, 1e300), min_size=1, max_size=40))
def test_logarithms_are_exact_to_the_last_digits(values):
    x = np.array(values)
    expected = np.log(x)
    elementary.logarithms(x, 0, len(x))
    np.testing.assert_allclose(x, expected, rtol=1e-15, atol=1e-16)


@settings(deadline=None)  # the first call compiles
@given(st.floats(-1e-3, 1e-3))
def test_logarithms_near_one(small):
    x = np.array([1.0 + small])
    expected = np.log(x)
    elementary.logarithms(x, 0, 1)
    np.testing.assert_allclose(x, expected, rtol=4e-15, atol=1e-18)


@pytest.mark.parametrize("function", ["exponentials", "logarithms"])
def test_only_the_given_range_is_replaced(function):
    x = np.full(50, 2.0)
    getattr(elementary, function)(x, 7, 41)
    np.testing.assert_array_equal(x == 2.0, [*[True] * 7, *[False] * 34, *[True] * 9])
