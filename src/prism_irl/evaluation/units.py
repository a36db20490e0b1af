"""What each unit (an animal, under one condition) did, as counts that can be summed over units.

Every measure is a ratio of two counts, each per step of the unit, so that every unit weighs the same however long it
was recorded; the value of a group is the ratio of the sums over its units,

    usage_k = Σ n_k / Σ 1        dwell_k = Σ m_k / Σ segments_k     switch rate = Σ switches / Σ pairs
    kernel_jk = Σ n_jk / Σ_k n_jk,

with the expected numbers of the posterior where a model has them (a chain), and those of its labels elsewhere. Dwell is
what it is everywhere, the mean length of the segments of the labels, whose m_k steps are those of the likeliest
intention, so that it is never longer than a trajectory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.labels import segments

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


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
    K, S, A = model.n_intentions, demos.n_states, demos.n_actions
    parts = [demos.subset(unit == u) for u in range(int(unit.max()) + 1)]
    posteriors = [_posterior(model if own is None else own(u, part), part) for u, part in enumerate(parts)]
    transitions = np.stack([_transitions(p, t, part) for (p, t), part in zip(posteriors, parts, strict=True)])
    steps = np.array([part.n_steps for part in parts], float)
    usage = np.stack([p.mean(axis=0) for p, _ in posteriors])
    occupancy = np.stack([np.bincount(part.states, minlength=S) / part.n_steps for part in parts])
    choices = np.stack([_choices(p, part, A) / part.n_steps for (p, _), part in zip(posteriors, parts, strict=True)])
    dwell = np.stack(
        [_segments(p.argmax(axis=1), part, K) / part.n_steps for (p, _), part in zip(posteriors, parts, strict=True)]
    )
    measures, over, under = _ratios(usage, transitions / steps[:, None, None], dwell)
    return Counts(measures, over, under, occupancy, choices.reshape(len(parts), K, S, A), steps.mean())


def _posterior(model: Any, part: Demonstrations) -> tuple[FloatArray, FloatArray | None]:
    """Responsibilities (n, K), and the expected number of steps from j to k where the model counts them."""
    K = model.n_intentions
    if hasattr(model, "posterior"):
        found = model.posterior(part)
        pairs = found.transitions
        return found.responsibilities, None if pairs is None or pairs.shape != (K, K) else pairs
    return np.asarray(model.predict_proba(part)), None


def _transitions(p: FloatArray, pairs: FloatArray | None, part: Demonstrations) -> FloatArray:
    if pairs is not None:
        return pairs
    K, labels, later = p.shape[1], p.argmax(axis=1), np.flatnonzero(~part.first_steps)
    return np.bincount(labels[later - 1] * K + labels[later], minlength=K * K).reshape(K, K).astype(float)


def _choices(p: FloatArray, part: Demonstrations, n_actions: int) -> FloatArray:
    """Expected number of times that each intention did each action in each state, (K, S · A)."""
    pairs = part.states.astype(np.int64) * n_actions + part.actions
    return np.stack([np.bincount(pairs, weights=w, minlength=part.n_states * n_actions) for w in p.T])


def _segments(labels: IntArray, part: Demonstrations, n_intentions: int) -> FloatArray:
    """Steps and number of the segments of every intention, (2, K)."""
    cut = segments(labels, part.offsets)
    steps = np.bincount(labels, minlength=n_intentions)
    return np.stack([steps, np.bincount(cut.labels, minlength=n_intentions)]).astype(float)


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
