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
from scipy.sparse.linalg import bicgstab

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
    """Exact inverse action-value iteration; I − γP̄ is factored once, and averages run over valid actions only.

    ``variant`` is the Bellman equation that Q satisfies: V = max_a Q ("hard", the authors) or V = log Σ_a exp Q.
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
            probability 0 is an error; the floor then sets the scale of rewards, so smoothed policies are better.
        """
        log_p = self._normalised(np.asarray(log_policy, dtype=np.float64), floor)
        valid, n_valid = self.valid_actions, self.valid_actions.sum(axis=1)
        top = log_p.max(axis=-1) if self.variant == "hard" else np.zeros(log_p.shape[:-1])
        b = top - np.where(valid, log_p, 0.0).sum(axis=-1) / n_valid
        values = self._solve(b.reshape(-1, self.mdp.n_states).T).T.reshape(b.shape)  # V = (I − γP̄)⁻¹ b
        q = log_p + (values - top)[..., None]
        chosen = valid & (n_valid > 1)[:, None]  # of one action exactly 0, without rounding
        rewards = np.where(chosen, q - self.mdp.discount * self.mdp.expected_values(values), 0.0)
        return InverseSolution(rewards, q, values)

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


PRECISION, ROUNDS = 1e-12, 3
"""Error of the values of contexts relative to the largest of them, at most; turns of BiCGSTAB on what is left."""


class ContextIAVI(IAVI):
    """IAVI of policies that remember, on the MDP whose states are the contexts that occur (`augmented_mdp`).

    Its factors would fill in, so that V = b + γP̄V is solved by BiCGSTAB, and by the fixed point where that does not
    suffice; the error is at most ‖residual‖ / (1 − γ) in every entry, because the rows of P̄ sum to one. For display,
    rewards are averaged over the contexts that end in a state (`average_solution`).
    """

    def __init__(self, mdp: MDP, contexts: Contexts) -> None:
        self.mdp, self.variant = augmented_mdp(mdp, contexts), "hard"
        self.valid_actions = self.mdp.valid_actions
        self._mean = mdp.discount * self.mdp.mean_transitions()
        self._solve = lambda columns: np.stack([self._solved(b) for b in columns.T], axis=1)

    def _solved(self, b: FloatArray) -> FloatArray:
        system, values, before = sparse.eye_array(len(b)) - self._mean, b, np.inf
        goal = PRECISION * (1 - self.mdp.discount) * np.abs(b).max()
        for attempt in range(ROUNDS + (int(40 / -np.log(self.mdp.discount)) if self.mdp.discount else 1)):
            residual = b + self._mean @ values - values
            left = np.abs(residual).max()
            if left <= goal or (attempt > ROUNDS and left >= before):  # rounding is all that is left
                return values
            before, step = left, residual  # the fixed point, which always converges, at the rate γ
            if attempt < ROUNDS:  # each of which gains eight digits or so
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    found, _ = bicgstab(system, residual, rtol=1e-10, atol=0.0, maxiter=500)
                step = found if np.isfinite(found).all() and np.abs(residual - system @ found).max() < left else step
            values = values + step
        if np.abs(b - system @ values).max() > 1e3 * goal + 1e-13 * np.abs(values).max():
            raise InputError(
                f"The rewards of {len(b)} histories cannot be solved with discount {self.mdp.discount}; lower it."
            )
        return values


def augmented_mdp(mdp: MDP, contexts: Contexts) -> MDP:
    """The MDP over C contexts: the next state is appended, and a context that never occurred is its longest suffix."""
    if mdp.n_states != contexts.n_states:
        raise InputError(
            f"The MDP has {mdp.n_states} states and the contexts are made of {contexts.n_states}; give both the same."
        )
    windows, A = context_windows(contexts), mdp.n_actions
    state = windows[:, 0]
    P = mdp.transitions[(state[:, None] * A + np.arange(A)).ravel()].tocoo()  # rows context · A + action
    successors = contexts.lookup(np.column_stack([P.col.astype(np.int64), windows[P.row // A, :-1]]))
    matrix = sparse.coo_array((P.data, (P.row, successors)), shape=(len(state) * A, len(state)))
    return MDP(matrix, mdp.discount, mdp.valid_actions[state])


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
    """Mean of values (K, C, …) over the contexts that end in each state, weighted by visits (K, C), (K, S, …).

    −inf (an invalid action) stays −inf, and a state that is never visited takes the value of its context of length 1.
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
