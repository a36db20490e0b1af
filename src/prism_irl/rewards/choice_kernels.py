"""Choice kernels: slow perseveration, what was chosen often of late is chosen again, whatever the state.

    p(a | past) ∝ π(a | c_t) u(a | s_t) exp(Σ_r β_r C_r(a)),    C_r ← (1 − α_r) C_r + α_r 1[a taken]

A trace forgets exponentially, so that it reaches further back than any context of counts can (Miller, Shenhav & Ludvig
2019; the perseveration of nearly every model of trials). Four rates α and one weight β each, fitted by Newton's method
to probabilities that have not counted the step itself. Counts of a state contain what perseveration did there, so that
the two are fitted in turn: u scales the actions of every state until as many are expected as were taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.demonstrations import Demonstrations

RATES = np.array([1.0, 0.4, 0.15, 0.04])
"""α: the last choice, and traces of about 3, 7 and 25 steps."""
RIDGE = 1.0
"""Prior precision of a weight, in nats per squared unit."""
ITERATIONS = 20
ROUNDS = 6
"""Times that weights and levels of the states are fitted in turn."""
PRIOR = 2.0
"""Steps at every state that were taken as expected."""


@dataclass(frozen=True, eq=False)
class ChoiceKernels:
    """Weights of the traces, and levels of the actions.

    Parameters
    ----------
    weights : (R,), β of each rate
    levels : (S, A), u of every action in every state
    """

    weights: FloatArray
    levels: FloatArray

    def begin(self, n_trajectories: int) -> FloatArray:
        """Traces at the first step of B trajectories, (B, R, A)."""
        return np.zeros((n_trajectories, len(RATES), self.levels.shape[1]))

    def after(self, traces: FloatArray, actions: IntArray) -> FloatArray:
        """Traces (B, R, A) after choosing actions (B,)."""
        taken = np.eye(self.levels.shape[1])[actions][:, None]
        return np.asarray(traces + RATES[:, None] * (taken - traces))

    def factors(self, traces: FloatArray, states: npt.NDArray[Any]) -> FloatArray:
        """u(a | s) exp(Σ_r β_r C_r(a)), (B, A), at states (B,); 1 where a state has no name."""
        found = np.exp(np.einsum("bra,r->ba", traces, self.weights))
        named = np.asarray(states) < len(self.levels)
        found *= self.levels[np.where(named, states, 0)]
        return np.asarray(np.where(named[:, None], found, 1.0))

    def along(self, demos: Demonstrations) -> FloatArray:
        """The factors of every step, (n, A), from the steps before it."""
        return self.factors(traces_of(demos, self.levels.shape[1]), demos.states)


def traces_of(demos: Demonstrations, n_actions: int) -> FloatArray:
    """Traces that every step finds, (n, R, A): of the actions before it."""
    found = np.zeros((demos.n_steps, len(RATES), n_actions))
    order = np.argsort(-demos.lengths, kind="stable")  # trajectories advance together, the longest first
    first, lengths = demos.offsets[order], demos.lengths[order]
    taken, keep = np.eye(n_actions), 1.0 - RATES[:, None]
    now = np.zeros((len(order), len(RATES), n_actions))
    for t in range(1, int(lengths.max(initial=1))):
        alive = int(np.searchsorted(-lengths, -t))
        before = demos.actions[first[:alive] + t - 1].astype(np.int64)
        now = keep * now[:alive] + RATES[:, None] * taken[before][:, None]
        found[first[:alive] + t] = now
    return found


def fit_kernels(demos: Demonstrations, base: FloatArray) -> ChoiceKernels:
    """The likeliest weights on top of probabilities (n, A) that have not seen the step that they are of.

    An action that the base thinks impossible stays so.
    """
    A = base.shape[1]
    traces, states = traces_of(demos, A), demos.states.astype(np.int64)
    with np.errstate(divide="ignore"):
        logits = np.log(base)
    logits = np.where(logits.max(1, keepdims=True) > -np.inf, logits, 0.0)
    weights, levels = np.zeros(len(RATES)), np.ones((demos.n_states, A))
    seen = np.bincount(states * A + demos.actions, minlength=levels.size).reshape(levels.shape)
    taken = traces[np.arange(demos.n_steps), :, demos.actions].sum(0)
    for _ in range(ROUNDS):
        for _ in range(ITERATIONS):  # Newton's method
            mean, curvature, _ = _expect(logits, np.log(levels), states, traces, weights)
            step = np.linalg.solve(curvature + RIDGE * np.eye(len(RATES)), taken - mean - RIDGE * weights)
            weights = weights + step / max(1.0, float(np.abs(step).max()))
            if np.abs(step).max() < 1e-4:
                break
        expected = _expect(logits, np.log(levels), states, traces, weights)[2]
        total = np.maximum(expected.sum(1, keepdims=True), 1e-12)
        prior = PRIOR * expected / total + 1e-9
        levels *= (seen + prior) / (expected + prior)
    return ChoiceKernels(weights, levels)


def _expect(
    logits: FloatArray, levels: FloatArray, states: IntArray, traces: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Expected traces of the actions (R,), their covariance over steps (R, R), and expected actions (S, A)."""
    p = logits + levels[states] + np.einsum("nra,r->na", traces, weights)
    p = np.exp(p - p.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    expected: FloatArray = np.zeros_like(levels)
    np.add.at(expected, states, p)
    weighted = traces * p[:, None]
    own = weighted.sum(axis=2)
    return own.sum(axis=0), np.tensordot(weighted, traces, ((0, 2), (0, 2))) - own.T @ own, expected
