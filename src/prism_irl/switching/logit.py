"""Weighted multinomial logits by Newton's method: the M-step of every kernel that reads covariates.

Row t of group g goes to one of C classes; class 0 is the reference (staying),

    log P(c | g, x_t) = b_gc + w_c · x_t − log-normaliser,      b_g0 = 0,  w_0 = 0,

with biases b of every group and slopes w that all groups share. The objective

    Σ_t Σ_c y_tc log P(c | g_t, x_t) + Σ_g Σ_c m_gc log P(c | g, 0) − ½ ridge Σ_cc' M_cc' w_c · w_c'

is concave; y are expected counts, m steps that a prior adds at the mean of the inputs. Biases of different groups meet
only in the slopes, so that a Newton step solves one small system per group and one for the slopes (Schur complement).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from prism_irl.arrays import FloatArray, IntArray

LEAST = 1e-4
"""Steps to every class that each group is given, so that what never happened has a finite log odds."""
ITERATIONS, HALVINGS = 15, 20
TOLERANCE = 1e-10  # gain in the objective per step, below which a Newton step is the last


class Logit(NamedTuple):
    """Biases ``b`` (G, C − 1) of every group and slopes ``w`` (C − 1, d), both against the reference."""

    biases: FloatArray
    slopes: FloatArray

    def log_proba(self, inputs: FloatArray, group: IntArray) -> FloatArray:
        """Log P(c | g, x) of rows (m, d) in groups (m,), (m, C)."""
        return _log_softmax(self.biases[group] + inputs @ self.slopes.T)


def fit_logit(
    start: Logit,
    inputs: FloatArray,
    group: IntArray,
    targets: FloatArray,
    *,
    ridge: float,
    prior: FloatArray | None = None,
    metric: FloatArray | None = None,
) -> Logit:
    """Maximise the objective above from a start.

    Of inputs (m, d), groups (m,) and expected counts y (m, C), with the strength of the ridge in nats, steps m (G, C)
    of a prior at the mean of the inputs, and M, ``metric`` (C − 1, C − 1) [default: the identity].
    """
    weight = targets.sum(axis=1)
    used = weight > 1e-8
    rows = inputs[used], group[used], targets[used], weight[used]
    prior = np.full((len(start.biases), targets.shape[1]), LEAST) + (0.0 if prior is None else prior)
    curb = ridge * (np.eye(len(start.slopes)) if metric is None else metric)
    present, (value, *slope) = start, _objective(start, rows, prior, curb)
    for _ in range(ITERATIONS):
        step = _newton(*slope)
        gain = float((step.biases * slope[0]).sum() + (step.slopes * slope[1]).sum())  # of the quadratic, twice
        if gain <= TOLERANCE * max(float(rows[-1].sum()), 1.0):
            break
        for halving in range(HALVINGS):
            size = 0.5**halving
            tried = Logit(present.biases - size * step.biases, present.slopes - size * step.slopes)
            found = _objective(tried, rows, prior, curb)
            if found[0] <= value - 1e-4 * size * gain:
                present, (value, *slope) = tried, found
                break
        else:
            break
    return present


def _objective(logit: Logit, rows: tuple[Any, ...], prior: FloatArray, curb: FloatArray) -> tuple[Any, ...]:
    """Value (to be minimised); gradient (G, F), (F, d); Hessian (G, F, F), (G, F, F, d), (F, F, d, d), F = C − 1.

    ``rows`` are inputs, groups, targets and their sums; ``curb`` is the ridge times M.
    """
    x, group, y, w = rows
    (G, F), d = logit.biases.shape, x.shape[1]

    def by_group(values: FloatArray) -> FloatArray:
        if G == 1:
            return np.asarray(values.sum(keepdims=True))
        return np.bincount(group, values, minlength=G).astype(np.float64)

    log_p = logit.log_proba(x, group)
    p = np.exp(log_p[:, 1:])
    gap = p * w[:, None] - y[:, 1:]
    gradient = np.stack([by_group(gap[:, f]) for f in range(F)], axis=1)
    within, border, slopes = np.empty((G, F, F)), np.empty((G, F, F, d)), np.empty((F, F, d, d))
    for f in range(F):
        for e in range(F):
            curve = w * p[:, f] * ((f == e) - p[:, e])
            within[:, f, e] = by_group(curve)
            for i in range(d):
                border[:, f, e, i] = by_group(curve * x[:, i])
            slopes[f, e] = (x * curve[:, None]).T @ x
    # The prior: steps of every group at the mean of the inputs, and the ridge.
    log_q, steps = _log_softmax(logit.biases), prior.sum(axis=1)
    q = np.exp(log_q[:, 1:])
    pull = 0.5 * np.einsum("fe,fi,ei->", curb, logit.slopes, logit.slopes)
    value = float(pull - (y * log_p).sum() - (prior * log_q).sum())
    gradient = gradient + q * steps[:, None] - prior[:, 1:]
    within = within + steps[:, None, None] * (q[:, :, None] * np.eye(F) - q[:, :, None] * q[:, None, :])
    slopes = slopes + curb[:, :, None, None] * np.eye(d)
    return value, gradient, gap.T @ x + curb @ logit.slopes, within, border, slopes


def _newton(gradient: FloatArray, *rest: FloatArray) -> Logit:
    """Hessian⁻¹ gradient, biases of every group eliminated first."""
    slope_gradient, within, border, slopes = rest
    G, F, d = border.shape[0], border.shape[1], border.shape[-1]
    edge = border.reshape(G, F, F * d)
    solved = np.linalg.solve(within + 1e-12 * np.eye(F), np.concatenate([edge, gradient[:, :, None]], axis=2))
    left = np.moveaxis(slopes, 2, 1).reshape(F * d, F * d) - np.einsum("gfe,gfh->eh", edge, solved[:, :, :-1])
    right = slope_gradient.ravel() - np.einsum("gfe,gf->e", edge, solved[:, :, -1])
    step = np.linalg.lstsq(left, right, rcond=None)[0] if d else np.zeros(0)
    return Logit(solved[:, :, -1] - solved[:, :, :-1] @ step, step.reshape(F, d))


def _log_softmax(free: FloatArray) -> FloatArray:
    """Log-probabilities (…, C) of logits (…, C − 1) against a reference of 0; far cheaper than SciPy's for two."""
    highest = np.maximum(free.max(axis=-1, keepdims=True), 0.0)
    norm = highest + np.log(np.exp(-highest) + np.exp(free - highest).sum(axis=-1, keepdims=True))
    return np.concatenate([-norm, free - norm], axis=-1)
