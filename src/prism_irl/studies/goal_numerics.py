"""Goals that end, small and quick: what the test for intentions fits to the data and to every surrogate.

Every place is a candidate. An intention ends with one probability after a step taken at its place, and with another
elsewhere; the next is drawn from weights, and EM from uniform ones leaves those that are goals. Leaving has rank one,
so that forward–backward is O(nK). The last intention has no place: the habit. Policies towards a place are

    π_g(a|s) ∝ h(a|s)^α exp(−β Δ_g(s, a)),

with h the memoryless habit and Δ the detour: expected steps that the action costs more than the best one.
"""

from __future__ import annotations

from typing import Any, Self

import numba
import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.mdp import MDP

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
FARTHEST, CLIP = 60.0, 8.0
"""Steps beyond which all places are equally far, and nats that a detour may cost at most."""
SWEEPS = 80
NOISE = 0.02
"""Share of the habit in every policy."""
ITERATIONS, HOLD = 46, 16
"""Of EM, and before sharpness, ends and quits are learned: from the first iteration on they collapse."""
OWN_FROM = 8
"""First iteration with a policy of its own at the goal."""
PRUNING = {6: 2e-4, 12: 1e-3, 18: 1e-3, 26: 1e-3, 34: 1e-3}
"""Iteration → weight below which a candidate is dropped."""
GOAL = 0.01
"""Weight from which a candidate counts as a goal."""


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _passes(pairs: Any, at: Any, offsets: Any, table: Any, end: float, leave: Any, w: Any, counts: Any) -> Any:
    """Forward–backward: log-likelihood (n,), draws (K,), and six counts.

    The counts are of ends among steps at the place, of quits among steps elsewhere, and of those among the habit's.
    ``at`` (n,) is the candidate whose place a step is at, or −1; ``table`` (P, K); smoothed beliefs are added to
    ``counts`` (P, K), and where that is empty there is no backward pass.
    """
    n, K = len(pairs), len(w)
    likelihood, draws, moved = np.empty(n), np.zeros(K), np.zeros(6)
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    f, p, b, following = np.empty((longest, K)), np.empty(K), np.ones(K), np.empty(K)
    for i in range(len(offsets) - 1):
        first, T = offsets[i], offsets[i + 1] - offsets[i]
        for t in range(T):
            e, total = table[pairs[first + t]], 0.0
            if t == 0:
                p[:] = w
            else:
                here, gone = at[first + t - 1], 0.0
                for k in range(K):
                    gone += f[t - 1, k] * leave[k]
                if here >= 0:
                    gone += f[t - 1, here] * (end - leave[here])
                for k in range(K):
                    p[k] = f[t - 1, k] * (1 - leave[k]) + gone * w[k]
                if here >= 0:
                    p[here] -= f[t - 1, here] * (end - leave[here])
            for k in range(K):
                f[t, k] = p[k] * e[k]
                total += f[t, k]
            for k in range(K):
                f[t, k] /= total
            likelihood[first + t] = np.log(total)
        if len(counts) == 0:
            continue
        b[:] = 1.0
        for t in range(T - 1, -1, -1):
            total = 0.0
            for k in range(K):
                p[k] = f[t, k] * b[k]
                total += p[k]
            for k in range(K):
                p[k] /= total
                counts[pairs[first + t], k] += p[k]
            if t == 0:
                for k in range(K):
                    draws[k] += p[k]
                break
            e, here, q, z, total = table[pairs[first + t]], at[first + t - 1], 0.0, 0.0, 0.0
            for k in range(K):
                q += w[k] * e[k] * b[k]
            for k in range(K):
                lam = end if k == here else leave[k]
                following[k] = (1 - lam) * e[k] * b[k] + lam * q
                z += following[k]
                total += f[t - 1, k] * following[k]
            left = 0.0
            for k in range(K):
                lam = end if k == here else leave[k]
                gone = f[t - 1, k] * lam * q / total
                left += gone
                kind = 0 if k == here else 4 if k == K - 1 else 2
                moved[kind] += gone
                moved[kind + 1] += f[t - 1, k] * following[k] / total
            for k in range(K):
                draws[k] += left * w[k] * e[k] * b[k] / q
                b[k] = following[k] / z
    return likelihood, draws, moved


def detours(mdp: MDP, places: npt.NDArray[np.bool_]) -> FloatArray:
    """Expected steps that each action costs more than the best one, towards each of the places (G, S): (G, S, A)."""
    P, S, A = mdp.transitions.tocsr(), mdp.n_states, mdp.n_actions
    forbidden = ~np.asarray(mdp.valid_actions, dtype=bool)
    far = np.where(places, 0.0, FARTHEST)
    for _ in range(SWEEPS):
        q = 1.0 + np.asarray(P @ far.T).T.reshape(-1, S, A)
        q[:, forbidden] = FARTHEST + 1.0
        closer = np.where(places, 0.0, np.minimum(q.min(-1), FARTHEST))
        change, far = float(np.abs(closer - far).max()), closer
        if change < 1e-4:
            break
    gap: FloatArray = np.clip(q - q.min(-1, keepdims=True), 0.0, CLIP)
    gap[places] = 0.0
    return gap


class GoalsThatEnd:
    """Candidates, their weights, and what all of them share.

    Parameters
    ----------
    gap : (G, S, A) detours towards each place
    place : (S,) of every state
    valid_actions : (S, A) bool, optional
    """

    def __init__(self, gap: FloatArray, place: IntArray, valid_actions: npt.NDArray[np.bool_] | None = None) -> None:
        self.gap, self.place = gap, place
        G, self.S, self.A = gap.shape
        self.valid = np.ones((self.S, self.A)) if valid_actions is None else valid_actions.astype(np.float64)
        self.kept = np.arange(G)
        self.index = np.arange(G)  # of every place among the candidates, −1 for one that was dropped
        self.alpha, self.beta, self.end, self.quit, self.unquiet = 0.5, 2.0, 0.5, 0.05, 0.05
        self.w = np.full(G + 1, 1.0 / (G + 1))
        self.own: FloatArray | None = None

    def fit(self, demos: Demonstrations) -> Self:
        """EM from uniform weights; candidates without weight are dropped on the way."""
        pairs, states = self._encode(demos)
        counts = np.bincount(pairs, minlength=self.S * self.A).reshape(self.S, self.A) + 0.3 * self.valid
        self.habit = counts / counts.sum(-1, keepdims=True)
        with np.errstate(divide="ignore"):
            self.log_habit = np.maximum(np.log(self.habit), -40.0)
        for iteration in range(ITERATIONS):
            seen = np.zeros((self.S * self.A, len(self.w)))
            _, draws, moved = self._run(pairs, states, demos.offsets, seen)
            self.w = draws / draws.sum()
            if iteration >= OWN_FROM and iteration % 6 == 2:
                self._learn_own(seen)
            if iteration >= HOLD:
                self.end = (moved[0] + 1) / (moved[1] + 1.2)
                self.quit = (moved[2] + 1) / (moved[3] + 20)
                self.unquiet = (moved[4] + 1) / (moved[5] + 20)
                if iteration % 4 == 0:
                    self._learn_sharpness(seen)
            if iteration in PRUNING:
                self._prune(PRUNING[iteration])
        return self

    def log_likelihood(self, demos: Demonstrations) -> FloatArray:
        """Predictive log-likelihood of every step, (n,)."""
        found: FloatArray = self._run(*self._encode(demos), demos.offsets, np.zeros((0, len(self.w))))[0]
        return found

    def goals(self) -> list[int]:
        """Places with some weight, the heaviest first."""
        order = np.argsort(-self.w[:-1])
        return [int(self.kept[k]) for k in order if self.w[k] >= GOAL]

    def _encode(self, demos: Demonstrations) -> tuple[IntArray, IntArray]:
        states = demos.states.astype(np.int64)
        return states * self.A + demos.actions, states

    def _run(self, pairs: IntArray, states: IntArray, offsets: IntArray, counts: FloatArray) -> Any:
        leave = np.full(len(self.w), self.quit)
        leave[-1] = self.unquiet
        table = np.concatenate([self._policies(), self.habit[None]]).reshape(len(self.w), -1)
        at = self.index[self.place[states]]
        return _passes(pairs, at, offsets, np.ascontiguousarray(table.T), self.end, leave, self.w, counts)

    def _towards(self, alpha: float, beta: float) -> FloatArray:
        logits = alpha * self.log_habit - beta * self.gap
        p = np.exp(logits - logits.max(-1, keepdims=True))
        return np.asarray((1 - NOISE) * p / p.sum(-1, keepdims=True) + NOISE * self.habit)

    def _policies(self) -> FloatArray:
        """π_g(a|s), (K − 1, S, A), with what is done at the goal itself: drinking, pressing, staying."""
        p = self._towards(self.alpha, self.beta)
        if self.own is not None:
            states = np.flatnonzero(self.index[self.place] >= 0)
            p[self.index[self.place[states]], states] = self.own[states]
        return p

    def _learn_own(self, seen: FloatArray) -> None:
        states = np.flatnonzero(self.index[self.place] >= 0)
        there = seen.reshape(self.S, self.A, -1)[states, :, self.index[self.place[states]]]
        counts = (there.sum(0) + 0.5) * self.valid
        self.own = counts / counts.sum(-1, keepdims=True)

    def _learn_sharpness(self, seen: FloatArray) -> None:
        """α and β, one after the other; steps at the goal itself say nothing about the way."""
        weights = seen.reshape(self.S, self.A, -1)[:, :, :-1].transpose(2, 0, 1).copy()
        states = np.flatnonzero(self.index[self.place] >= 0)
        weights[self.index[self.place[states]], states] = 0.0

        def loss(alpha: float, beta: float) -> float:
            return -float((weights * np.log(np.maximum(self._towards(alpha, beta), 1e-300))).sum())

        settings: Any = {"method": "bounded", "options": {"xatol": 0.02}}
        self.beta = float(minimize_scalar(lambda x: loss(self.alpha, x), bounds=(0.1, 6.0), **settings).x)
        self.alpha = float(minimize_scalar(lambda x: loss(x, self.beta), bounds=(0.0, 1.5), **settings).x)

    def _prune(self, least: float) -> None:
        keep = self.w[:-1] > least
        if keep.any() and not keep.all():
            self.w = np.append(self.w[:-1][keep], self.w[-1])
            self.w /= self.w.sum()
            self.kept, self.gap = self.kept[keep], self.gap[keep]
            self.index = np.full(len(self.index), -1)
            self.index[self.kept] = np.arange(len(self.kept))
