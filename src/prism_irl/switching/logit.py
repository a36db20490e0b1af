"""Weighted multinomial logits by Newton's method: the M-step of every kernel that reads covariates.

Row t of group g goes to one of C classes; class 0 is the reference (staying),

    log P(c | g, x_t) = b_gc + w_c · x_t − log-normaliser,      b_g0 = 0,  w_0 = 0,

with biases b of every group and slopes w that all groups share. The objective

    Σ_t Σ_c y_tc log P(c | g_t, x_t) + Σ_g Σ_c m_gc log P(c | g, 0) − ½ ridge Σ_cc' M_cc' w_c · w_c'

is concave; y are expected counts, m steps that a prior adds at the mean of the inputs. Biases of different groups meet
only in the slopes, so that a Newton step solves one small system per group and one for the slopes (Schur complement).
"""

from __future__ import annotations

from typing import NamedTuple

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

    Parameters
    ----------
    inputs : (m, d)
    group : (m,)
    targets : (m, C)
        Expected counts y.
    ridge : float
        Strength of the prior on the slopes, in nats.
    prior : (G, C), optional
        Steps m at the mean of the inputs.
    metric : (C − 1, C − 1), optional
        M of the objective [default: the identity].
    """
    problem = _Problem(inputs, group, targets, len(start.biases), prior, ridge, metric)
    present, (value, *slope) = start, problem.at(start)
    for _ in range(ITERATIONS):
        step = problem.newton(*slope)
        gain = float((step.biases * slope[0]).sum() + (step.slopes * slope[1]).sum())  # of the quadratic, twice
        if gain <= TOLERANCE * problem.weight:
            break
        for halving in range(HALVINGS):
            size = 0.5**halving
            tried = Logit(present.biases - size * step.biases, present.slopes - size * step.slopes)
            found = problem.at(tried)
            if found[0] <= value - 1e-4 * size * gain:
                present, (value, *slope) = tried, found
                break
        else:
            break
    return present


class _Problem:
    """Objective (to be minimised), gradient and Hessian of `fit_logit`."""

    def __init__(
        self,
        inputs: FloatArray,
        group: IntArray,
        targets: FloatArray,
        n_groups: int,
        prior: FloatArray | None,
        ridge: float,
        metric: FloatArray | None,
    ) -> None:
        weight = targets.sum(axis=1)
        used = weight > 1e-8
        self.x, self.group, self.y, self.w = inputs[used], group[used], targets[used], weight[used]
        self.G, self.C = n_groups, targets.shape[1]
        self.prior = np.full((n_groups, self.C), LEAST) + (0.0 if prior is None else prior)
        self.ridge, self.metric = ridge, np.eye(self.C - 1) if metric is None else metric
        self.weight = max(float(self.w.sum()), 1.0)

    def _by_group(self, values: FloatArray) -> FloatArray:
        """Sum rows (m,) within groups, (G,)."""
        if self.G == 1:
            return np.asarray(values.sum(keepdims=True))
        return np.bincount(self.group, values, minlength=self.G).astype(np.float64)

    def at(self, logit: Logit) -> tuple[float, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Value; gradient (G, F), (F, d); Hessian (G, F, F), (G, F, F, d), (F, F, d, d), F = C − 1."""
        G, F, d = self.G, self.C - 1, self.x.shape[1]
        log_p = logit.log_proba(self.x, self.group)
        p = np.exp(log_p[:, 1:])
        gap = p * self.w[:, None] - self.y[:, 1:]
        value = -(self.y * log_p).sum()
        gradient = np.stack([self._by_group(gap[:, f]) for f in range(F)], axis=1)
        slope_gradient = gap.T @ self.x
        within, border, slopes = np.empty((G, F, F)), np.empty((G, F, F, d)), np.empty((F, F, d, d))
        for f in range(F):
            for e in range(F):
                curve = self.w * p[:, f] * ((f == e) - p[:, e])
                within[:, f, e] = self._by_group(curve)
                for i in range(d):
                    border[:, f, e, i] = self._by_group(curve * self.x[:, i])
                slopes[f, e] = (self.x * curve[:, None]).T @ self.x
        # The prior: steps of every group at the mean of the inputs, and the ridge.
        log_q, steps = _log_softmax(logit.biases), self.prior.sum(axis=1)
        q = np.exp(log_q[:, 1:])
        value += -(self.prior * log_q).sum() + 0.5 * self.ridge * np.einsum(
            "fe,fi,ei->", self.metric, logit.slopes, logit.slopes
        )
        gradient = gradient + q * steps[:, None] - self.prior[:, 1:]
        slope_gradient = slope_gradient + self.ridge * self.metric @ logit.slopes
        within = within + steps[:, None, None] * (q[:, :, None] * np.eye(F) - q[:, :, None] * q[:, None, :])
        slopes = slopes + self.ridge * self.metric[:, :, None, None] * np.eye(d)
        return float(value), gradient, slope_gradient, within, border, slopes

    def newton(
        self,
        gradient: FloatArray,
        slope_gradient: FloatArray,
        within: FloatArray,
        border: FloatArray,
        slopes: FloatArray,
    ) -> Logit:
        """Hessian⁻¹ gradient, biases of every group eliminated first."""
        G, F, d = border.shape[0], border.shape[1], border.shape[-1]
        safe = within + 1e-12 * np.eye(F)
        edge = border.reshape(G, F, F * d)
        solved = np.linalg.solve(safe, np.concatenate([edge, gradient[:, :, None]], axis=2))
        left = np.moveaxis(slopes, 2, 1).reshape(F * d, F * d) - np.einsum("gfe,gfh->eh", edge, solved[:, :, :-1])
        right = slope_gradient.ravel() - np.einsum("gfe,gf->e", edge, solved[:, :, -1])
        step = np.linalg.lstsq(left, right, rcond=None)[0] if d else np.zeros(0)
        return Logit(solved[:, :, -1] - solved[:, :, :-1] @ step, step.reshape(F, d))


def _log_softmax(free: FloatArray) -> FloatArray:
    """Log-probabilities (…, C) of logits (…, C − 1) against a reference of 0; far cheaper than SciPy's for two."""
    highest = np.maximum(free.max(axis=-1, keepdims=True), 0.0)
    norm = highest + np.log(np.exp(-highest) + np.exp(free - highest).sum(axis=-1, keepdims=True))
    return np.concatenate([-norm, free - norm], axis=-1)
