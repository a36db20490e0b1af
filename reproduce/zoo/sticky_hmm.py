"""A sticky hidden Markov model with state-dependent emissions, in plain NumPy: what a general toolbox would fit.

    p(z_{t+1} | z_t) = T[z_t],          T[k] ~ Dirichlet(1.1 + 10·1[k])
    p(a_t | s_t, z_t) = π_z(a_t | s_t),  π_k(s) ~ Dirichlet(1.1)

It stands in the zoo's table for dynamax's, with that library's default concentrations, EM to the posterior's mode, and
the true number of intentions: a baseline that knows neither goals nor a world, and nothing of this package.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations

Floats = npt.NDArray[np.float64]
CONCENTRATION, STICKINESS = 1.1, 10.0


class StickyHMM:
    """The model; the best of ``n_starts`` short fits goes on until the posterior rises by less than 1e-6 per step."""

    def __init__(self, n_intentions: int, n_starts: int = 10, max_iterations: int = 200, seed: int = 0) -> None:
        self.n_intentions, self.n_starts, self.max_iterations, self.seed = n_intentions, n_starts, max_iterations, seed

    def fit(self, demos: Demonstrations) -> Self:
        """Fit to all trajectories."""
        rng = np.random.default_rng(self.seed)
        begun = [self._begin(demos, rng) for _ in range(self.n_starts)]
        for start in begun:
            self._improve(start, demos, 10)
        best = max(begun, key=lambda start: start.score)
        self._improve(best, demos, self.max_iterations)
        self._mode = best
        return self

    def predict_proba(self, demos: Demonstrations) -> Floats:
        """P(z_t | everything), (n, K)."""
        return self._infer(self._mode, demos)[0]

    def labels_of(self, probabilities: Floats, demos: Demonstrations) -> npt.NDArray[np.int64]:
        """The likeliest intention of each step, (n,)."""
        return np.asarray(probabilities.argmax(axis=1), np.int64)

    def log_likelihood(self, demos: Demonstrations) -> Floats:
        """Log p(a_t | s_≤t, a_<t), (n,)."""
        return self._infer(self._mode, demos)[1]

    def _begin(self, demos: Demonstrations, rng: np.random.Generator) -> _Mode:
        K, S, A = self.n_intentions, demos.n_states, demos.n_actions
        counts = np.ones((S, A))
        np.add.at(counts, (demos.states, demos.actions), 1)
        policy = counts / counts.sum(axis=1, keepdims=True) * rng.gamma(2.0, size=(K, S, A))
        transitions = np.full((K, K), 0.1 / K) + 0.9 * np.eye(K)
        return _Mode(np.full(K, 1 / K), transitions, policy / policy.sum(axis=2, keepdims=True))

    def _improve(self, mode: _Mode, demos: Demonstrations, iterations: int) -> None:
        first = demos.offsets[:-1]
        K = self.n_intentions
        for _ in range(iterations):
            smoothed, likelihood, moves = self._infer(mode, demos)
            prior = (CONCENTRATION - 1) * (np.log(mode.policy).sum() + np.log(mode.transitions).sum())
            score = float(likelihood.sum() + prior + STICKINESS * np.log(np.diag(mode.transitions)).sum())
            if score - mode.score < 1e-6 * demos.n_steps:
                mode.score = max(score, mode.score)
                return
            mode.score = score
            mode.initial = smoothed[first].sum(axis=0) + CONCENTRATION - 1
            mode.initial /= mode.initial.sum()
            mode.transitions = moves + CONCENTRATION - 1 + STICKINESS * np.eye(K)
            mode.transitions /= mode.transitions.sum(axis=1, keepdims=True)
            counts = np.full((demos.n_states, demos.n_actions, K), CONCENTRATION - 1)
            np.add.at(counts, (demos.states, demos.actions), smoothed)
            mode.policy = (counts / counts.sum(axis=1, keepdims=True)).transpose(2, 0, 1)

    def _infer(self, mode: _Mode, demos: Demonstrations) -> tuple[Floats, Floats, Floats]:
        """Smoothed (n, K), log p(a_t | past) (n,) and expected moves (K, K); trajectories go side by side."""
        emission = mode.policy[:, demos.states, demos.actions].T
        times = [demos.offsets[:-1][demos.lengths > t] + t for t in range(int(demos.lengths.max()))]
        filtered, likelihood = np.empty_like(emission), np.empty(demos.n_steps)
        for t, now in enumerate(times):
            predicted = filtered[now - 1] @ mode.transitions if t else mode.initial
            joint = predicted * emission[now]
            total = joint.sum(axis=1)
            filtered[now], likelihood[now] = joint / total[:, None], np.log(total)
        smoothed, moves = filtered.copy(), np.zeros_like(mode.transitions)
        backward = np.ones_like(emission)
        for now in reversed(times[1:]):
            ahead = emission[now] * backward[now]
            back = ahead @ mode.transitions.T
            backward[now - 1] = back / back.sum(axis=1, keepdims=True)
            joint = filtered[now - 1] * back
            moves += (filtered[now - 1] / joint.sum(axis=1, keepdims=True)).T @ ahead * mode.transitions
            smoothed[now - 1] = joint / joint.sum(axis=1, keepdims=True)
        return smoothed, likelihood, moves


class _Mode:
    """Parameters: initial (K,), transitions (K, K), policy (K, S, A), and the log posterior of the last iteration."""

    def __init__(self, initial: Floats, transitions: Floats, policy: Floats) -> None:
        self.initial, self.transitions, self.policy, self.score = initial, transitions, policy, -np.inf
