"""Two quantiles by their sums, because importing `scipy.special` takes longer than a small fit is checked."""

from __future__ import annotations

from functools import cache
from math import atan, comb, cos, pi, sin, sqrt


@cache
def student_quantile(freedom: int, probability: float) -> float:
    """The t below which Student's distribution with ``freedom`` degrees has a probability of 0.5 to 1, by bisection."""
    low, high = 0.0, 1.0
    while _student(freedom, high) < probability:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if _student(freedom, middle) < probability else (low, middle)
    return high


def _student(freedom: int, t: float) -> float:
    """P(T ≤ t), t ≥ 0: a finite sum over powers of cos θ, θ = atan(t / √freedom) (Abramowitz and Stegun 26.7.3–4)."""
    angle, odd = atan(t / sqrt(freedom)), freedom % 2
    term, total = (cos(angle) if odd else 1.0), 0.0
    for i in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cos(angle) ** 2 * (i - 1) / i
    inside = 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total
    return 0.5 + inside / 2


def binomial_quantile(n: int, p: float, probability: float) -> int:
    """The smallest k with P(X ≤ k) of at least ``probability``, X binomial."""
    below = 0.0
    for k in range(n):
        below += comb(n, k) * p**k * (1 - p) ** (n - k)
        if below >= probability:
            return k
    return n
