"""Rewards of policies that remember: IAVI on the MDP whose states are the contexts that occur.

A context c = (s_{t-l+1}, …, s_t) and an action lead to the context that appends the next state, so that a policy on
short histories is an ordinary policy again: softmax(Q(c, ·)) = π(·|c) exactly. For display, rewards are averaged over
the contexts that end in a state, weighted by how often the intention visits each. The matrix of transitions is never
written out.

A successor that never occurred is replaced by its longest known suffix, which is the successor of the parent. So the
expectation of a context differs from that of its parent only where the longer history was seen to go on,

    (P V)(c, a) = (P V)(parent(c), a) + Σ_{c' = (c, s') known} P(s'|s_t, a) [V(c') − V(parent(c'))],

which takes as many terms as there are contexts, where the matrix has one for every state that can follow each of them:
with dense dynamics a hundred times as many. V = b + γP̄V is solved by BiCGSTAB, and by the fixed point where that does
not suffice; the error is at most ‖residual‖ / (1 − γ) in every entry, because the rows of P̄ sum to one.
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, bicgstab

from prism_irl.data.contexts import Contexts
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.rewards.iavi import IAVI, InverseSolution, Variant

FloatArray = npt.NDArray[np.float64]
PRECISION = 1e-12
"""Error of the values relative to the largest of them, at most."""


class ContextIAVI(IAVI):
    """Exact inverse action-value iteration on contexts, by an operator that is never written out.

    Parameters
    ----------
    mdp : MDP
        Dynamics over the S states.
    contexts : Contexts
        The C contexts that occur, as a fit has found them.
    variant : {"hard", "soft"}
    """

    def __init__(self, mdp: MDP, contexts: Contexts, variant: Variant = "hard") -> None:
        windows, S, A = context_windows(contexts), mdp.n_states, mdp.n_actions
        self._begin(mdp.valid_actions[windows[:, 0]], variant)
        self.contexts, self.discount, self._states = contexts, mdp.discount, mdp
        longer = np.arange(S, contexts.n_contexts)
        parents = np.concatenate([*contexts.parents, np.zeros(0, np.int64)])
        # The context that each longer one goes on from: the same states without the newest.
        before = contexts.lookup(windows[longer, 1:])
        where, state = windows[before, 0], windows[longer, 0]
        self._mean = self._increments(mdp.mean_transitions()[where, state], before, longer, parents)
        self._own = [self._increments(mdp.transitions[where * A + a, state], before, longer, parents) for a in range(A)]
        self._mean_of_states = mdp.mean_transitions()

    def _increments(
        self,
        probability: FloatArray,
        before: npt.NDArray[np.int64],
        longer: npt.NDArray[np.int64],
        parents: npt.NDArray[np.int64],
    ) -> sparse.csr_array:
        """Σ P(s'|s_t) [V(c') − V(parent(c'))] as a sparse (C, C) array."""
        n, weight = self.contexts.n_contexts, np.asarray(probability, dtype=np.float64).ravel()
        entries = np.concatenate([weight, -weight])
        places = np.concatenate([before, before]), np.concatenate([longer, parents])
        return sparse.csr_array((entries, places), shape=(n, n))

    def _down(self, expected: FloatArray) -> FloatArray:
        """Add to every context what its parent expects, level by level, in place; (C, …)."""
        starts = self.contexts.starts
        for level, parents in enumerate(self.contexts.parents, start=1):
            expected[starts[level] : starts[level + 1]] += expected[parents]
        return expected

    def mean_values(self, values: FloatArray) -> FloatArray:
        """P̄V, (C, …)."""
        expected = self._mean @ values
        expected[: self.contexts.n_states] += self._mean_of_states @ values[: self.contexts.n_states]
        return self._down(expected)

    def _future(self, values: FloatArray) -> FloatArray:
        """γPV, (…, C, A)."""
        flat = values.reshape(-1, values.shape[-1])
        future = np.empty((*flat.shape, len(self._own)))
        states = self._states.expected_values(flat[:, : self.contexts.n_states])  # (…, S, A)
        for a, own in enumerate(self._own):
            expected = own @ flat.T
            expected[: self.contexts.n_states] += states[..., a].T
            future[..., a] = self.discount * self._down(expected).T
        return future.reshape(*values.shape, -1)

    def _values(self, b: FloatArray) -> FloatArray:
        """V = (I − γP̄)⁻¹ b, (…, C)."""
        return np.stack([self._solved(one) for one in b.reshape(-1, b.shape[-1])]).reshape(b.shape)

    def _solved(self, b: FloatArray) -> FloatArray:
        n, discount = len(b), self.discount
        system = LinearOperator((n, n), lambda v: v.ravel() - discount * self.mean_values(v.ravel()), dtype=np.float64)
        values, goal = b, PRECISION * (1 - discount) * np.abs(b).max()
        for _ in range(3):  # what is left over is solved for once more: each round gains eight digits or so
            residual = b - system @ values
            if np.abs(residual).max() <= goal:
                return values
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                step, _ = bicgstab(system, residual, rtol=1e-10, atol=0.0, maxiter=500)
            if np.isfinite(step).all() and np.abs(residual - system @ step).max() < np.abs(residual).max():
                values = values + step
        smallest = np.abs(b - system @ values).max()
        for _ in range(int(40 / -np.log(discount)) if discount else 1):  # which always converges, at the rate γ
            new = b + discount * self.mean_values(values)
            left = np.abs(b - system @ new).max()
            if left <= goal or left >= smallest:  # rounding is all that is left
                values = new
                break
            values, smallest = new, left
        if np.abs(b - system @ values).max() > 1e3 * goal + 1e-13 * np.abs(values).max():
            raise InputError(f"The rewards of {n} histories cannot be solved with discount {discount}; lower it.")
        return values


def context_windows(contexts: Contexts) -> npt.NDArray[np.int64]:
    """The states of every context, newest first, -1 beyond its length, (C, L)."""
    windows = np.full((contexts.n_contexts, contexts.length), -1, dtype=np.int64)
    windows[: contexts.n_states, 0] = np.arange(contexts.n_states)
    for level, (parents, oldest) in enumerate(zip(contexts.parents, contexts.oldest, strict=True), start=1):
        rows = slice(contexts.starts[level], contexts.starts[level + 1])
        windows[rows] = windows[parents]
        windows[rows, level] = oldest
    return windows


def own_visits(contexts: Contexts, counts: FloatArray) -> FloatArray:
    """Visits whose longest known context is c itself, (…, C), from counts (…, C, A) that include longer contexts."""
    visits: FloatArray = np.asarray(counts, dtype=np.float64).sum(-1)
    for level, parents in enumerate(contexts.parents, start=1):
        longer = counts[..., contexts.starts[level] : contexts.starts[level + 1], :].sum(-1)
        for k in np.ndindex(visits.shape[:-1]):
            visits[k] -= np.bincount(parents, weights=longer[k], minlength=contexts.n_contexts)
    # Differences of sums of responsibilities may fall below zero by rounding.
    return np.where(visits > 0.0, visits, 0.0)


def average_per_state(contexts: Contexts, values: FloatArray, visits: FloatArray) -> FloatArray:
    """Mean of values over the contexts that end in each state, weighted by visits.

    Parameters
    ----------
    contexts : Contexts
    values : (K, C, …)
        Of every context; -inf (an invalid action) stays -inf.
    visits : (K, C)
        Weights. A state that is never visited takes the value of its own context of length 1.

    Returns
    -------
    (K, S, …)
    """
    S, state = contexts.n_states, contexts.current_state
    average = np.empty((len(values), S, *values.shape[2:]))
    for k, (own, weight) in enumerate(zip(values, visits, strict=True)):
        total = np.bincount(state, weights=weight, minlength=S)
        seen = total > 0
        share = np.where(seen[state], weight / np.where(seen, total, 1.0)[state], 0.0)
        share[:S][~seen] = 1.0
        gather = sparse.csr_array((share, (state, np.arange(len(state)))), shape=(S, len(state)))
        flat = own.reshape(len(state), -1)
        impossible = np.isneginf(flat)
        mean = gather @ np.where(impossible, 0.0, flat)
        average[k] = np.where(impossible[:S], -np.inf, mean).reshape(average[k].shape)
    return average


def average_solution(contexts: Contexts, solution: InverseSolution, visits: FloatArray) -> InverseSolution:
    """Rewards, Q and V of contexts (K, C, …) as visit-weighted averages per state (K, S, …).

    The averaged reward of a state still has mean 0 over its valid actions. The averaged Q is a summary: its softmax is
    the geometric mean of the policies of the contexts that end in the state, not the policy of any of them.
    """
    rewards, q, values = (average_per_state(contexts, part, visits) for part in solution[:3])
    reached = np.array([np.bincount(contexts.current_state, weights=v, minlength=contexts.n_states) for v in visits])
    return InverseSolution(rewards, q, values, reached < 0.01)  # the same limit as `iavi.unvisited_states`
