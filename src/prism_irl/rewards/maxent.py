"""State rewards by feature matching: maximum causal entropy (Ziebart et al. 2010) and maximum entropy (2008).

Both choose θ of r(s) = φ(s)·θ so that the model visits features as often as the demonstrators did; the gap between
the two feature counts is the exact gradient of a log-likelihood, which L-BFGS climbs. They differ in what is likely:
`match_causal` an action given its state, under the soft-optimal policy (discounted, never looking ahead at chance);
`match_paths` a whole path, p(path) ∝ exp(Σ_t r(s_t)) Π P(s_{t+1}|s_t,a_t), whose partition function lets the agent
hope for lucky transitions. On deterministic dynamics both are soft planning; prefer the causal one on all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse

from prism_irl.arrays import FloatArray
from prism_irl.errors import InputError
from prism_irl.mdp import MDP, factorize
from prism_irl.rewards.soft import Planner, log_sum_exp

TINY = 1e-200  # sums below this are done in log space


class FeatureMatch(NamedTuple):
    """A state reward, φ(s)·θ (S,) of weights θ (m,), the behaviour that it asks for, and how well the features match.

    ``q`` (S, A), −inf for invalid actions; ``values`` (S,): log Σ_a exp Q; ``policy`` (S, A): exp(Q − V).
    ``expert``, ``model`` (m,): feature counts per step of the demonstrators and of the model.
    """

    weights: FloatArray
    rewards: FloatArray
    q: FloatArray
    values: FloatArray
    policy: FloatArray
    expert: FloatArray
    model: FloatArray
    n_iterations: int
    converged: bool

    @property
    def gap(self) -> float:
        """Largest difference between the two feature counts."""
        return float(np.abs(self.expert - self.model).max())


class Plan(NamedTuple):
    """Soft-optimal Q (S, A), V (S,) and policy (S, A) of a reward."""

    q: FloatArray
    values: FloatArray
    policy: FloatArray


def soft_plan(mdp: MDP, reward: FloatArray, values: FloatArray | None = None) -> Plan:
    """Soft-optimal plan of a state reward (S,): the soft Bellman equation of Ziebart et al. 2010, discounted.

    ``values`` (S,) of a nearby reward save half of the linear solves.
    """
    found = Planner(mdp, mdp.discount).values(reward, 1e-11 * max(1.0, float(np.abs(reward).max())), values)
    q = mdp.action_values(reward, found)
    v = log_sum_exp(q)
    return Plan(q, v, np.exp(q - v[:, None]))


def discounted_occupancy(mdp: MDP, policy: FloatArray, start: FloatArray) -> FloatArray:
    """Σ_t γ^t P(s_t = s) of a policy (S, A) from a start measure (S,): d = start + γ P_πᵀ d."""
    matrix = sparse.eye_array(mdp.n_states) - mdp.discount * mdp.policy_transitions(policy).T
    return factorize(matrix)(start)


def flow_start(mdp: MDP, counts: FloatArray) -> FloatArray:
    """Start measure ν = c − γ Pᵀc from which the visits c (S, A) are a discounted occupancy, (S,).

    Windows of behaviour end before discounting has forgotten them. With ν they need no discounting: the plain counts
    satisfy Bellman's flow equation from ν, so that some policy (the empirical one) matches them exactly.
    """
    inflow = mdp.transitions.T @ np.where(mdp.valid_actions, counts, 0.0).ravel()
    return np.asarray(counts.sum(axis=1) - mdp.discount * inflow, dtype=np.float64)


def match_causal(
    mdp: MDP,
    counts: npt.ArrayLike,
    features: npt.ArrayLike | None = None,
    *,
    l2: float = 0.0,
    max_iterations: int = 1000,
    tolerance: float = 1e-7,
) -> FeatureMatch:
    """Maximum causal entropy IRL (Ziebart et al. 2010): the dual of entropy maximisation under matched features.

    Maximises Σ_t log π_θ(a_t|s_t) / n = c·r − ν·V_θ with c the visits and ν their `flow_start`, whose gradient is the
    visits' features minus those of the soft-optimal policy's discounted occupancy from ν. So maximum likelihood of
    the actions and causal feature matching are the same problem, and finite windows are no approximation. It is
    concave where ν ≥ 0, which holds up to the ends of windows when the dynamics are those of the data.

    Parameters
    ----------
    counts : (S, A)
        How often each action was taken in each state; responsibilities may weight them.
    features : (S, m), optional
        φ(s); one-hot by default.
    l2 : float
        Penalty l2/2 · ‖θ‖² on the log-likelihood per step, without which the reward of a state that nobody entered
        runs away to −∞; it is also the gap that remains between the feature counts, as a multiple of θ.
    """
    c = np.asarray(counts, dtype=np.float64)
    if c.shape != mdp.valid_actions.shape:
        raise InputError(f"The counts have shape {c.shape}; they must be (S, A) = {mdp.valid_actions.shape}.")
    phi, total = _features(mdp, features), c.sum()
    expert, start = phi.T @ (c.sum(axis=1) / total), flow_start(mdp, c / total)
    taken = np.nonzero(c)
    plan = Plan(np.empty(0), np.zeros(mdp.n_states), np.empty(0))

    def likelihood(theta: FloatArray) -> tuple[float, FloatArray]:
        nonlocal plan
        plan = soft_plan(mdp, phi @ theta, plan.values)
        log_policy = plan.q[taken] - plan.values[taken[0]]
        model = phi.T @ discounted_occupancy(mdp, plan.policy, start)
        return float(c[taken] @ log_policy) / total, expert - model

    found = _climb(likelihood, phi.shape[1], l2, max_iterations, tolerance)
    reward = phi @ found.x
    plan = soft_plan(mdp, reward, plan.values)
    model = phi.T @ discounted_occupancy(mdp, plan.policy, start)
    return FeatureMatch(found.x, reward, *plan, expert, model, int(found.nit), bool(found.success))


class Paths:
    """Forward and backward passes of Ziebart et al. 2008, Algorithm 1.

    With h steps to go, V_h(s) = r(s) + log Σ_a Σ_s' P(s'|s,a) exp V_{h−1}(s') and V_0 = 0, so that exp V_h(s) is the
    partition function of the paths of h steps from s. A pass multiplies by one matrix, B = Σ_a P(·|·,a), per step.
    """

    def __init__(self, mdp: MDP) -> None:
        self.mdp = mdp
        self.log_pairs = _LogRows(sparse.csr_array(mdp.transitions)[np.flatnonzero(mdp.valid_actions.ravel())])
        sums = sparse.csr_array(mdp.policy_transitions(mdp.valid_actions.astype(np.float64)))
        self.log_sums = _LogRows(sums)
        self.sums = sums.toarray() if mdp.n_states <= 512 else sums

    def values(self, reward: FloatArray, horizon: int) -> FloatArray:
        """Log partition functions V_0 … V_H, (H + 1, S)."""
        v = np.zeros((horizon + 1, self.mdp.n_states))
        for h in range(1, horizon + 1):
            top = v[h - 1].max()
            ahead = self.sums @ np.exp(v[h - 1] - top)
            v[h] = reward + (np.log(ahead) + top if ahead.min() > TINY else self.log_sums.logsumexp(v[h - 1]))
        return v

    def visits(self, reward: FloatArray, values: FloatArray, starts: FloatArray) -> FloatArray:
        """Expected visits (S,) of paths whose number that begin in s with h steps to go is ``starts[h, s]``.

        Transitions are those of the path distribution, P(s'|s,a) exp V_{h−1}(s') / Σ: with Algorithm 1's P(s'|s,a)
        the result would not be the gradient of the partition function unless the dynamics are deterministic.
        """
        mass, total = np.zeros(self.mdp.n_states), np.zeros(self.mdp.n_states)
        for h in range(len(values) - 1, 0, -1):
            mass = mass + starts[h]
            total += mass
            top = values[h - 1].max()
            share = reward + top - values[h]  # −log of what `values` has summed over successors
            if share.max() < -np.log(TINY):
                mass = np.exp(values[h - 1] - top) * (self.sums.T @ (mass * np.exp(share)))
            else:
                mass = self.log_sums.push(mass, reward - values[h], values[h - 1])
        return total

    def plan(self, reward: FloatArray, horizon: int) -> Plan:
        """Action probabilities with the whole horizon ahead: Algorithm 1, step 3."""
        q = np.full((self.mdp.n_states, self.mdp.n_actions), -np.inf)
        q[self.mdp.valid_actions] = self.log_pairs.logsumexp(self.values(reward, horizon - 1)[-1])
        q += reward[:, None]
        v = log_sum_exp(q)
        return Plan(q, v, np.exp(q - v[:, None]))


class _LogRows:
    """A sparse matrix without empty rows, multiplied in log space: for ranges that exp cannot hold."""

    def __init__(self, matrix: Any) -> None:
        self.first, self.column, self.log = matrix.indptr[:-1], matrix.indices, np.log(matrix.data)
        self.row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        self.n_columns = matrix.shape[1]

    def logsumexp(self, values: FloatArray) -> FloatArray:
        """Log Σ_j M_ij exp v_j."""
        x = self.log + values[self.column]
        top = np.maximum.reduceat(x, self.first)
        total: FloatArray = top + np.log(np.add.reduceat(np.exp(x - top[self.row]), self.first))
        return total

    def push(self, mass: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
        """Σ_i mass_i exp(rows_i + columns_j) M_ij."""
        moved = mass[self.row] * np.exp(self.log + rows[self.row] + columns[self.column])
        return np.bincount(self.column, moved, self.n_columns).astype(np.float64)


def path_starts(first_states: npt.ArrayLike, lengths: npt.ArrayLike, n_states: int) -> FloatArray:
    """Number of trajectories that begin in s and have h steps, (H + 1, S) with H the longest."""
    h, s = np.asarray(lengths, dtype=np.int64), np.asarray(first_states, dtype=np.int64)
    starts = np.zeros((int(h.max()) + 1, n_states))
    np.add.at(starts, (h, s), 1.0)
    return starts


def match_paths(
    mdp: MDP,
    visits: npt.ArrayLike,
    starts: npt.ArrayLike,
    features: npt.ArrayLike | None = None,
    *,
    l2: float = 0.0,
    max_iterations: int = 1000,
    tolerance: float = 1e-7,
) -> FeatureMatch:
    """Maximum entropy IRL: the likelihood of Ziebart et al. 2008, Eq. (4), with the gradient of Eq. (6).

    Maximises Σ_i log p(path i | its first state and length), per step; the discount of the MDP plays no part.

    Parameters
    ----------
    visits : (S,) of the demonstrators
    starts : (H + 1, S), where and with how many steps to go the trajectories begin (`path_starts`)
    features, l2 : as in `match_causal`
    """
    begin, counts = np.asarray(starts, dtype=np.float64), np.asarray(visits, dtype=np.float64)
    phi, paths, total, horizon = _features(mdp, features), Paths(mdp), counts.sum(), len(begin) - 1
    expert = phi.T @ counts / total

    def likelihood(theta: FloatArray) -> tuple[float, FloatArray]:
        reward = phi @ theta
        v = paths.values(reward, horizon)
        model = phi.T @ paths.visits(reward, v, begin) / total
        return float(expert @ theta - (begin * v).sum() / total), expert - model

    found = _climb(likelihood, phi.shape[1], l2, max_iterations, tolerance)
    reward = phi @ found.x
    model = expert - likelihood(found.x)[1]
    plan = paths.plan(reward, horizon)
    return FeatureMatch(found.x, reward, *plan, expert, model, int(found.nit), bool(found.success))


def _features(mdp: MDP, features: npt.ArrayLike | None) -> Any:
    """φ, (S, m); one-hot features stay sparse."""
    if features is None:
        return sparse.eye_array(mdp.n_states, format="csr")
    phi = np.asarray(features, dtype=np.float64)
    if phi.ndim != 2 or len(phi) != mdp.n_states or not np.isfinite(phi).all():
        raise InputError(
            f"The features have shape {phi.shape}; give finite numbers of shape (S, m), S = {mdp.n_states}."
        )
    return phi


def _climb(
    likelihood: Callable[[FloatArray], tuple[float, FloatArray]],
    n: int,
    l2: float,
    max_iterations: int,
    tolerance: float,
) -> Any:
    """Maximise a log-likelihood per step minus l2/2 · ‖θ‖² by L-BFGS, from θ = 0."""
    if l2 < 0:
        raise InputError(f"The L2 penalty is {l2}; it must not be negative.")

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = likelihood(theta)
        return -value + l2 / 2 * float(theta @ theta), -gradient + l2 * theta

    options = {"maxiter": max_iterations, "maxfun": 4 * max_iterations, "gtol": tolerance, "ftol": 1e-15, "maxcor": 30}
    return optimize.minimize(loss, np.zeros(n), jac=True, method="L-BFGS-B", options=options)
