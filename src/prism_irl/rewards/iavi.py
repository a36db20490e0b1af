"""IAVI (Kalweit et al. 2020): the rewards behind policies, exactly, by one linear solve.

With ℓ = log π and P̄ the average of P(·|s,a) over the valid actions of s: V = (I − γP̄)⁻¹ b, b = max_a ℓ − mean_a ℓ,
Q = ℓ + V − max_a ℓ, r = Q − γPV (hard); the soft variant replaces max_a by log-sum-exp, which is 0. Use it after a
fit, to display what each intention wants: softmax(Q) = π exactly, so P and γ shape the rewards and never the
likelihood or the segmentation.
"""

from __future__ import annotations

import warnings
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, bicgstab

from prism_irl.arrays import BoolArray, FloatArray, IntArray
from prism_irl.data.contexts import Contexts
from prism_irl.errors import InputError
from prism_irl.mdp import MDP, factorize

Variant = Literal["hard", "soft"]


class InverseSolution(NamedTuple):
    """Rewards, action values and values of K intentions (or of whatever leading axes the policies had)."""

    rewards: FloatArray
    """r = Q − γPV, (…, S, A). Averages to 0 over the valid actions of each state; 0 for invalid actions."""
    q: FloatArray
    """Q = ℓ + V − max_a ℓ (hard) or ℓ + V (soft), (…, S, A). −inf for invalid actions."""
    values: FloatArray
    """V = (I − γP̄)⁻¹ b, (…, S)."""
    unvisited: BoolArray | None = None
    """Where r = γ(P̄ − P_a)V echoes other states instead of behaviour, (…, S); None where no visits were given."""


class IAVI:
    """Exact inverse action-value iteration; I − γP̄ is factored once, at construction.

    Parameters
    ----------
    mdp : MDP
        Transitions, discount and valid actions; averages run over the valid actions only.
    variant : {"hard", "soft"}
        Bellman equation that Q satisfies: V = max_a Q (the authors) or V = log Σ_a exp Q.
    """

    def __init__(self, mdp: MDP, variant: Variant = "hard") -> None:
        if variant not in ("hard", "soft"):
            raise InputError(f"The IAVI variant is {variant!r}; choose 'hard' or 'soft'.")
        self.mdp, self.variant, self.valid_actions = mdp, variant, mdp.valid_actions
        self._solve = factorize(sparse.eye_array(mdp.n_states) - mdp.discount * mdp.mean_transitions())

    def solve(self, log_policy: npt.ArrayLike, floor: float = 0.0) -> InverseSolution:
        """Solve for all policies together, in float64.

        Parameters
        ----------
        log_policy : array, shape (…, S, A)
            log π(a|s), of K intentions say. Entries of invalid actions are ignored, the rest is renormalised.
        floor : float
            Added to every probability before the logarithm; the authors' constant is 1e-6. With 0, a valid action of
            probability 0 is an error, because its reward would be −inf; the floor then sets the scale of rewards, so
            smoothed policies are better.
        """
        log_p = self._normalised(np.asarray(log_policy, dtype=np.float64), floor)
        valid, n_valid = self.valid_actions, self.valid_actions.sum(axis=1)
        top = log_p.max(axis=-1) if self.variant == "hard" else np.zeros(log_p.shape[:-1])
        values = self._values(top - np.where(valid, log_p, 0.0).sum(axis=-1) / n_valid)
        q = log_p + (values - top)[..., None]
        chosen = valid & (n_valid > 1)[:, None]  # of one action exactly 0, without rounding
        rewards = np.where(chosen, q - self._future(values), 0.0)
        return InverseSolution(rewards, q, values)

    def _values(self, b: FloatArray) -> FloatArray:
        """V = (I − γP̄)⁻¹ b, (…, S)."""
        return self._solve(b.reshape(-1, self.mdp.n_states).T).T.reshape(b.shape)

    def _future(self, values: FloatArray) -> FloatArray:
        """γPV, (…, S, A)."""
        return self.mdp.discount * self.mdp.expected_values(values)

    def _normalised(self, log_p: FloatArray, floor: float) -> FloatArray:
        """Log-probabilities of the valid actions, which sum to one, (…, S, A); −inf for invalid actions."""
        valid = self.valid_actions
        if log_p.shape[-2:] != valid.shape:
            raise InputError(f"The log-policy has shape {log_p.shape}; it must end in (S, A) = {valid.shape}.")
        if not 0 <= floor < 1:
            raise InputError(f"The floor is {floor}; give a probability of at least 0 and below 1, such as 1e-6.")
        log_p = np.where(valid, log_p, -np.inf)
        # Rounding, or a floor that the caller has added already, may lift log 1 a little above 0.
        wrong = np.argwhere(np.isnan(log_p) | (log_p > 1e-5))
        if len(wrong):
            *_, s, a = wrong[0]
            raise InputError(
                f"The log-probability of action {a} in state {s} is {log_p[tuple(wrong[0])]:.6g}; give logarithms of "
                "probabilities, which are at most 0 (solve_iavi takes probabilities)."
            )
        if floor:
            log_p = np.where(valid, np.logaddexp(log_p, np.log(floor)), -np.inf)
        wrong = np.argwhere(valid & (log_p == -np.inf))
        if len(wrong):
            *_, s, a = wrong[0]
            raise InputError(
                f"The valid action {a} in state {s} has probability 0 and would need a reward of −inf; smooth the "
                "policy, pass floor=1e-6, or mark the action as invalid."
            )
        top = log_p.max(axis=-1, keepdims=True)
        return np.asarray(log_p - top - np.log(np.exp(log_p - top).sum(axis=-1, keepdims=True)))


def solve_iavi(
    mdp: MDP,
    policies: npt.ArrayLike,
    visits: npt.ArrayLike | None = None,
    variant: Variant = "hard",
    floor: float = 0.0,
) -> InverseSolution:
    """Rewards of policies π(a|s) (…, S, A) in one call; see `IAVI.solve` for `floor`.

    With the weighted counts (…, S, A) of `visits`, the solution's `unvisited` flags the states to grey out.
    """
    p = np.asarray(policies, dtype=np.float64)
    if not (p >= 0).all():
        s, a = np.argwhere(~(p >= 0))[0, -2:]
        raise InputError(
            f"The probability of action {a} in state {s} is negative or missing; give numbers from 0 to 1."
        )
    with np.errstate(divide="ignore"):  # log 0 = −inf is dealt with by the floor, or rejected with its place
        solution = IAVI(mdp, variant).solve(np.log(p), floor)
    return solution if visits is None else solution._replace(unvisited=unvisited_states(visits))


def unvisited_states(visits: npt.ArrayLike, minimum: float = 0.01) -> BoolArray:
    """States that an intention has not visited, bool (…, S), from responsibility-weighted counts (…, S, A).

    There the policy is a default, not behaviour, and the reward γ(P̄ − P_a)V is an echo of other states' values:
    figures grey it out. Responsibilities are hardly ever exactly 0, hence a `minimum` of expected visits.
    """
    counts = np.asarray(visits, dtype=np.float64)
    unvisited: BoolArray = counts.sum(axis=-1) < minimum
    return unvisited


PRECISION = 1e-12
"""Error of the values of contexts relative to the largest of them, at most."""


class ContextIAVI(IAVI):
    """IAVI of policies that remember, on the MDP whose states are the contexts that occur, which is never written out.

    A context c = (s_{t-l+1}, …, s_t) and an action lead to the context that appends the next state. A successor that
    never occurred is replaced by its longest known suffix, which is the successor of the parent. So the expectation of
    a context differs from that of its parent only where the longer history was seen to go on,

        (P V)(c, a) = (P V)(parent(c), a) + Σ_{c' = (c, s') known} P(s'|s_t, a) [V(c') − V(parent(c'))],

    which takes as many terms as there are contexts, where the matrix has one for every state that can follow each of
    them. V = b + γP̄V is solved by BiCGSTAB, and by the fixed point where that does not suffice; the error is at most
    ‖residual‖ / (1 − γ) in every entry, because the rows of P̄ sum to one. For display, rewards are averaged over the
    contexts that end in a state (`average_solution`).
    """

    def __init__(self, mdp: MDP, contexts: Contexts) -> None:
        windows, S, A = context_windows(contexts), mdp.n_states, mdp.n_actions
        self.variant, self.valid_actions = "hard", mdp.valid_actions[windows[:, 0]]
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
        before: IntArray,
        longer: IntArray,
        parents: IntArray,
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


def context_windows(contexts: Contexts) -> IntArray:
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
