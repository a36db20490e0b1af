"""What each unit (an animal, under one condition) did, as counts that can be summed; tests and intervals over units.

Steps of one animal are not independent, so nothing here ever permutes or resamples steps. A *cell* is what one unit did
under one condition. In an unpaired design every unit has one cell, and conditions are permuted over units; in a paired
design every unit has a cell per condition, and the two are swapped or not (Fisher's sign flips).

Every measure is a ratio of two counts, each per step of the unit, so that every unit weighs the same however long it
was recorded; the value of a group is the ratio of the sums over its units,

    usage_k = Σ n_k / Σ 1        dwell_k = Σ m_k / Σ segments_k     switch rate = Σ switches / Σ pairs
    kernel_jk = Σ n_jk / Σ_k n_jk,

with the expected numbers of the posterior where a model has them (a chain), and those of its labels elsewhere. Dwell is
what it is everywhere, the mean length of the segments of the labels, whose m_k steps are those of the likeliest
intention, so that it is never longer than a trajectory.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from math import comb, factorial, prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from prism_irl.arrays import BoolArray, FloatArray, IntArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.tables import choice_counts
from prism_irl.labels import segments

MOST = 20_000
"""Assignments up to which all of them are tried; above, `DRAWN` random ones."""
DRAWN = 9_999
LEVEL = 0.95


class Cells(NamedTuple):
    """Which unit and which condition, numbered from 0, each cell belongs to: ``units`` (C,), ``level`` (C,)."""

    units: IntArray
    level: IntArray | BoolArray
    paired: bool

    @property
    def second(self) -> BoolArray:
        """Whether a cell is of the second of two conditions, (C,)."""
        return np.asarray(self.level == 1)

    @property
    def sizes(self) -> IntArray:
        """Number of cells of every condition."""
        return np.bincount(np.asarray(self.level, np.int64))

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(np.unique(self.units))

    @property
    def n_smaller(self) -> int:
        """Units in the smallest condition."""
        return int(self.sizes.min())


class Assignments(NamedTuple):
    """``level`` (P, C): the condition of every cell, the truth first; ``exact``: these are all there are.

    ``smallest_p`` is the smallest p that a statistic which does not care for the order of the conditions can have.
    """

    level: IntArray | BoolArray
    exact: bool
    smallest_p: float


def assignments(cells: Cells, seed: int = 0) -> Assignments:
    """All ways to give conditions to the units; `DRAWN` random ones where there are too many, or more than two."""
    rng = np.random.default_rng(seed)
    if len(cells.sizes) > 2:
        return _of_several(cells, rng)
    found, exact = _of_two(cells, rng)
    mirrored = (found == ~found[0]).all(axis=1).any()
    return Assignments(found, exact, (1 + bool(mirrored)) / len(found))


def _of_several(cells: Cells, rng: np.random.Generator) -> Assignments:
    """Random ways to give three conditions or more to the units, within each unit where it has all of them."""
    level = np.asarray(cells.level, np.int64)
    G, n = len(cells.sizes), cells.n_units
    rows = level.reshape(n, G) if cells.paired else level[None]
    drawn = rng.permuted(np.tile(rows, (DRAWN, 1, 1)), axis=2).reshape(DRAWN, -1)
    ways = factorial(G) ** n if cells.paired else factorial(len(level)) // prod(map(factorial, cells.sizes.tolist()))
    alike = factorial(G) if cells.paired else prod(map(factorial, Counter(cells.sizes.tolist()).values()))
    return Assignments(np.concatenate([level[None], drawn]), False, max(alike / ways, 1 / (DRAWN + 1)))


def _of_two(cells: Cells, rng: np.random.Generator) -> tuple[BoolArray, bool]:
    n = len(cells.second)
    if cells.paired:
        names, unit = np.unique(cells.units, return_inverse=True)
        exact = 2 ** len(names) <= MOST
        if exact:
            swaps = (np.arange(2 ** len(names))[:, None] >> np.arange(len(names))) & 1
        else:
            swaps = np.concatenate([np.zeros((1, len(names)), int), rng.integers(2, size=(DRAWN, len(names)))])
        return cells.second ^ swaps.astype(bool)[:, unit], exact
    k = int(cells.second.sum())
    if comb(n, k) <= MOST:
        chosen = np.array(list(combinations(range(n), k)))
        found = np.zeros((len(chosen), n), bool)
        np.put_along_axis(found, chosen, True, axis=1)
        truth = (found == cells.second).all(axis=1)
        return np.concatenate([found[truth], found[~truth]]), True
    shuffled = rng.permuted(np.tile(cells.second, (DRAWN, 1)), axis=1)
    return np.concatenate([cells.second[None], shuffled]), False


def bootstrap_weights(cells: Cells, n: int, seed: int = 0) -> FloatArray:
    """How often each cell is drawn in each of ``n`` resamples of units, (n, C); within conditions where unpaired."""
    rng = np.random.default_rng([seed, 1])
    weights = np.zeros((n, len(cells.second)))
    if cells.paired:
        names, unit = np.unique(cells.units, return_inverse=True)
        return np.asarray(rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=n)[:, unit], float)
    for part in (cells.second, ~cells.second):
        size = int(part.sum())
        weights[:, part] = rng.multinomial(size, np.full(size, 1 / size), size=n)
    return weights


def p_values(statistics: FloatArray) -> FloatArray:
    """Share of the assignments (P, M) whose statistic is at least as large as that of the truth, row 0, (M,).

    The truth is one of the assignments, so that no p is ever 0.
    """
    scaled = _comparable(statistics)
    return np.asarray((scaled >= scaled[0]).mean(axis=0), dtype=np.float64)


def adjusted(statistics: FloatArray) -> FloatArray:
    """Westfall and Young's step-down maxT from the statistics of all assignments, (P, M): adjusted p, (M,).

    The chance, were there no difference at all, that any of these questions (of those with smaller statistics, to be
    exact) has a statistic as large, each in units of its own spread over the assignments. Questions that are related,
    such as usage and dwell, cost less than Bonferroni would have them; and unlike their p, statistics have no steps,
    so that few animals are enough for many questions.
    """
    scaled = _comparable(statistics)
    order = np.argsort(-scaled[0], kind="stable")
    largest = np.maximum.accumulate(scaled[:, order[::-1]], axis=1)[:, ::-1]
    found = (largest >= scaled[0, order]).mean(axis=0)
    result = np.empty(len(order))
    result[order] = np.maximum.accumulate(found)
    return result


def _comparable(statistics: FloatArray) -> FloatArray:
    """Each column in units of its spread; rounded, because sums in another order differ in their last digits."""
    spread = statistics.std(axis=0)
    scaled = (statistics - statistics.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.asarray(np.round(scaled, 9), dtype=np.float64)


def quantiles(n_units: int, groups: int = 1) -> tuple[float, float]:
    """Which quantiles of a bootstrap bound an interval.

    With few units the plain percentiles are too narrow by √((n − 1)/n), and a normal quantile stands for one of
    Student's t. Hesterberg (2015) widens them to Φ(±√(n/(n − 1)) t). ``n_units`` is that of the smallest group.
    """
    n = max(n_units, 2)
    low = stats.norm.cdf(-np.sqrt(n / (n - 1)) * stats.t.ppf(0.5 + LEVEL / 2, groups * (n - 1)))
    return float(low), float(1 - low)


SCALES: dict[str, tuple[Callable[[FloatArray], FloatArray], Callable[[FloatArray], FloatArray]]] = {
    "plain": (lambda x: x, lambda x: x),
    "log": (np.log, np.exp),
    "logit": (special.logit, special.expit),
}
"""Scale on which a number may move freely → there and back: logarithms of durations, log odds of shares."""


def centred_interval(draws: FloatArray, estimate: npt.ArrayLike, n_units: int, scale: str = "plain") -> FloatArray:
    """Ends (2, …) of estimate ± √(n/(n − 1)) t · spread of the draws (n, …), on a scale without ends.

    Beside quantiles (`interval`): the spread of 200 draws is known far better than their outermost quantiles, and a
    fit that is a little off in one direction, whose refits are so once more, is not off twice. Where the scale has no
    number for what was drawn (a share of exactly 0), quantiles stand in.
    """
    there, back = SCALES[scale]
    n = max(n_units, 2)
    wide = np.sqrt(n / (n - 1)) * stats.t.ppf(0.5 + LEVEL / 2, n - 1)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        middle, spread = there(np.asarray(estimate, float)), np.nanstd(there(np.asarray(draws, float)), axis=0, ddof=1)
        ends = back(np.stack([middle - wide * spread, middle + wide * spread]))
    return np.where(np.isfinite(ends).all(axis=0), ends, interval(draws, n_units))


def interval(draws: FloatArray, n_units: int, groups: int = 1) -> FloatArray:
    """Ends of the interval of every statistic, (2, …), from draws (n, …) of a bootstrap; NaN draws do not count."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # what no draw has seen has no interval
        return np.asarray(np.nanquantile(draws, quantiles(n_units, groups), axis=0))


class Measure(NamedTuple):
    """Name of a number; whose it is (intention, or from one intention to another) and its unit."""

    name: str
    intention: int | None = None
    to: int | None = None
    unit: str = "share"


class Counts(NamedTuple):
    """Counts of C units per step of the unit: ``over`` and ``under`` (C, M) of the measures, ``occupancy`` (C, S).

    ``choices`` (C, K, S, A) are the expected actions of every intention, ``steps`` the mean number of steps of a unit.
    """

    measures: list[Measure]
    over: FloatArray
    under: FloatArray
    occupancy: FloatArray
    choices: FloatArray
    steps: float


def count_units(
    model: Any, demos: Demonstrations, unit: IntArray, own: Callable[[int, Demonstrations], Any] | None = None
) -> Counts:
    """Counts of every unit; ``unit`` (N,) numbers the unit of each trajectory from 0.

    ``own`` gives the model that a unit, and its demonstrations, are counted with, where it is not the same for all.
    """
    K, rows = model.n_intentions, []
    for u in range(int(unit.max()) + 1):
        part = demos.subset(unit == u)
        asked, n = model if own is None else own(u, part), part.n_steps
        found = asked.posterior(part) if hasattr(asked, "posterior") else None
        p = np.asarray(asked.predict_proba(part)) if found is None else found.responsibilities
        labels, pairs = p.argmax(axis=1), None if found is None else found.transitions
        if pairs is None or pairs.shape != (K, K):  # the model does not expect them
            later = np.flatnonzero(~part.first_steps)
            pairs = np.bincount(labels[later - 1] * K + labels[later], minlength=K * K).reshape(K, K)
        cut = segments(labels, part.offsets)
        dwell = np.stack([np.bincount(labels, minlength=K), np.bincount(cut.labels, minlength=K)])
        occupancy = np.bincount(part.states, minlength=demos.n_states)
        rows.append((p.mean(axis=0), pairs / n, dwell / n, occupancy / n, choice_counts(part, p) / n, n))
    usage, moves, dwells, places, choices, steps = (np.array(column) for column in zip(*rows, strict=True))
    return Counts(*_ratios(usage, moves, dwells), places, choices, float(steps.mean()))


def _ratios(usage: FloatArray, pairs: FloatArray, dwell: FloatArray) -> tuple[list[Measure], FloatArray, FloatArray]:
    """Numerators and denominators (C, M) of all measures: usage (C, K), moves j to k (C, K, K), dwell (C, 2, K)."""
    C, K = usage.shape
    stays = np.diagonal(pairs, axis1=1, axis2=2)
    leaves = pairs.sum(axis=2)
    measures = [Measure("usage", k) for k in range(K)]
    over, under = [usage], [np.ones((C, K))]
    if K > 1:
        measures += [Measure("dwell", k, unit="steps") for k in range(K)]
        over.append(dwell[:, 0])
        under.append(dwell[:, 1])
        measures.append(Measure("switch_rate", unit="per step"))
        over.append((leaves - stays).sum(axis=1, keepdims=True))
        under.append(leaves.sum(axis=1, keepdims=True))
        entries = [(j, k) for j in range(K) for k in range(K) if j != k]
        measures += [Measure("kernel", j, k, "per step") for j, k in entries]
        over.append(np.stack([pairs[:, j, k] for j, k in entries], axis=1))
        under.append(np.stack([leaves[:, j] for j, _ in entries], axis=1))
    return measures, np.concatenate(over, axis=1), np.concatenate(under, axis=1)


def ratio(weights: FloatArray, counts: Counts) -> FloatArray:
    """Value of every measure in groups whose units weigh ``weights`` (P, C), (P, M); NaN where nothing happened."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((weights @ counts.over) / (weights @ counts.under))
