"""Choice kernels: slow perseveration, what was chosen often of late is chosen again, whatever the state.

    p(a | past) ∝ π(a | c_t) exp(Σ_r β_r C_r(a)),    C_r ← (1 − α_r) C_r + α_r 1[a taken],    C_r = 0 at the beginning

A trace forgets exponentially, so that it reaches further back than any context of counts can (Miller, Shenhav & Ludvig
2019; the perseveration of nearly every model of trials). Three rates α and one weight β each, which are fitted by
Newton's method to steps that the table has not counted: a concave problem of three numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations

FloatArray = npt.NDArray[np.float64]
RATES = np.array([0.5, 0.15, 0.04])
"""α: traces of about 2, 7 and 25 steps."""
RIDGE = 1.0
"""Prior precision of a weight, in nats per squared unit."""
ITERATIONS = 20


@dataclass(frozen=True, eq=False)
class ChoiceKernels:
    """Weights of the traces.

    Parameters
    ----------
    weights : (R,)
        β of each rate.
    n_actions : int
    """

    weights: FloatArray
    n_actions: int

    def begin(self, n_trajectories: int) -> FloatArray:
        """Traces at the first step of B trajectories, (B, R, A)."""
        return np.zeros((n_trajectories, len(RATES), self.n_actions))

    def after(self, traces: FloatArray, actions: npt.NDArray[np.int64]) -> FloatArray:
        """Traces (B, R, A) after choosing actions (B,)."""
        taken = np.eye(self.n_actions)[actions][:, None]
        return np.asarray(traces + RATES[:, None] * (taken - traces))

    def factors(self, traces: FloatArray) -> FloatArray:
        """exp(Σ_r β_r C_r(a)), (B, A)."""
        return np.asarray(np.exp(np.einsum("bra,r->ba", traces, self.weights)))

    def along(self, demos: Demonstrations) -> FloatArray:
        """The factors of every step, (n, A), from the steps before it."""
        return self.factors(traces_of(demos, self.n_actions))


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
    traces, actions = traces_of(demos, A), demos.actions.astype(np.int64)
    with np.errstate(divide="ignore"):
        logits = np.log(base)
    logits = np.where(logits.max(1, keepdims=True) > -np.inf, logits, 0.0)
    taken = traces[np.arange(len(actions)), :, actions].sum(0)
    weights = np.zeros(len(RATES))
    for _ in range(ITERATIONS):
        z = logits + np.einsum("nra,r->na", traces, weights)
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        mean = np.einsum("nra,na->nr", traces, p)
        curvature = np.einsum("nra,na,nqa->rq", traces, p, traces, optimize=True) - mean.T @ mean
        slope = taken - mean.sum(0) - RIDGE * weights
        step = np.linalg.solve(curvature + RIDGE * np.eye(len(RATES)), slope)
        weights += step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-6:
            break
    return ChoiceKernels(weights, A)
