"""Soft Bellman rewards: an intention plans towards a reward on states (SWIRL, maximum causal entropy).

With R(s) received in s and temperature τ, soft value iteration gives V = R + τ log Σ_a exp(γ P_a V / τ) and the policy
π(a|s) ∝ exp(γ Σ_s' P(s'|s,a) V(s') / τ). The policy sees R only through V, and R = V − τ log Σ_a exp(γ P_a V / τ) for
*any* V: rewards and values are two names for one thing. So the M-step maximises over U = V / τ, which is a softmax
regression (convex, no planning inside), and reads the rewards off. Its cost does not depend on the number of steps.

With memory (order 2) the reward R(s_prev, s) lives on transitions. It cancels from the choice in s, whose successors
(s, s') do not know s_prev: π(a|s) ∝ exp(γ Σ_s' P(s'|s,a) V(s, s') / τ). Such rewards have more freedom than R(s), and
yet their policies depend on the current state alone, at the first step of a trajectory as at any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse

from prism_irl.data.batching import Prepared
from prism_irl.errors import InputError
from prism_irl.mdp import MDP, factorize

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
FLOOR = 1e-8  # the authors' constant: no action is impossible


class Places:
    """Where rewards are received: C states (order 1), or C transitions s_prev → s that can happen (order 2).

    Transitions are ordered by s, then by s_prev.

    Attributes
    ----------
    arrival : (C,) int64
        The state s of each place.
    previous : (C,) int64 or None
        s_prev of each place; None with order 1.
    outlook, outlook_transposed : sparse (S·A, C)
        γ times the probability that action a in state s leads to each place; with its transpose.
    """

    def __init__(self, mdp: MDP, order: int = 1) -> None:
        if order not in (1, 2):
            raise InputError(f"The order of the rewards is {order}; choose 1 for R(s) or 2 for R(s_prev, s).")
        S, A = mdp.n_states, mdp.n_actions
        self.n_states, self.n_actions, self.order, self.discount = S, A, order, mdp.discount
        self.valid_actions = mdp.valid_actions
        P = mdp.transitions.tocoo()
        columns, self.previous = P.col.astype(np.int64), None
        self.arrival: IntArray = np.arange(S)
        if order == 2:
            edges, columns = np.unique(columns * S + P.row // A, return_inverse=True)
            self.arrival, self.previous = edges // S, edges % S
        shape = (S * A, len(self.arrival))
        self.outlook = sparse.csr_array((mdp.discount * P.data, (P.row, columns)), shape=shape)
        self.outlook_transposed = self.outlook.T.tocsr()  # transposing costs more than the products of a gradient
        # A constant added to all values (order 1), or to those of all transitions out of one state (order 2), is a
        # potential: it moves rewards and no policy.
        nowhere = np.zeros(self.n_places, dtype=np.int64)
        self._potential = _one_hot(nowhere if self.previous is None else self.previous)
        reached = _one_hot(nowhere if self.previous is None else self.arrival, self._potential.shape[1])
        self._moves = self._potential - mdp.discount * reached
        self._solve = factorize(self._moves.T @ self._moves)

    @property
    def n_places(self) -> int:
        """Number of places C."""
        return len(self.arrival)

    def slots(self, width: int | None = None) -> IntArray:
        """Index of each place in SWIRL's arrays: width · s + position of s_prev among the predecessors of s."""
        if self.previous is None:
            return self.arrival
        first = np.searchsorted(self.arrival, np.arange(self.n_states))
        position = np.arange(self.n_places) - first[self.arrival]
        needed = int(position.max()) + 1
        width = needed if width is None else width
        if width < needed:
            raise InputError(f"Some state has {needed} predecessors, more than the {width} slots of the parameters.")
        return np.asarray(width * self.arrival + position, dtype=np.int64)

    def logits(self, values: FloatArray) -> FloatArray:
        """γ Σ_s' P(s'|s,a) U of values (…, C) in units of τ: (…, S, A), −inf for invalid actions."""
        flat = (self.outlook @ values.reshape(-1, self.n_places).T).T
        return np.where(self.valid_actions, flat.reshape(*values.shape[:-1], self.n_states, self.n_actions), -np.inf)

    def backup(self, rewards: FloatArray, values: FloatArray) -> FloatArray:
        """Soft Bellman in units of τ: R + log Σ_a exp(γ P_a U), (…, C)."""
        return np.asarray(rewards + log_sum_exp(self.logits(values))[..., self.arrival])

    def rewards_of(self, values: FloatArray) -> FloatArray:
        """Rewards (…, C) whose soft values are ``values``: the Bellman equation, read backwards."""
        return np.asarray(values - log_sum_exp(self.logits(values))[..., self.arrival])

    def centred(self, values: FloatArray) -> FloatArray:
        """Values (…, C) of the same policy that are smallest themselves."""
        flat = values.reshape(-1, self.n_places).T
        mean = (self._potential.T @ flat) / self._potential.sum(axis=0)[:, None]
        return np.asarray(values - (self._potential @ mean).T.reshape(values.shape))

    def simplest(self, values: FloatArray) -> FloatArray:
        """Values (…, C) of the same policy whose rewards have the smallest sum of squares."""
        excess = self._moves.T @ self.rewards_of(values).reshape(-1, self.n_places).T
        return np.asarray(values - (self._potential @ self._solve(excess)).T.reshape(values.shape))


class SoftRewards:
    """Policies of K intentions that plan for rewards on states or on transitions.

    Parameters
    ----------
    n_intentions : int
    places : Places
        Dynamics, discount and order of the rewards.
    temperatures : (K,), optional
        τ per intention, 1 by default. With a free reward per place τ is only its unit: R / τ decides the policy.
    ridge : float
        Strength of the Gaussian prior on values in units of τ, in nats: it keeps actions that never happened possible
        (as a pseudo-count of a few hundredths would) and chooses among values that the data cannot tell apart.

    Attributes
    ----------
    rewards : (K, C), in units where τ is `temperatures`
    values : (K, C), V / τ that the policies look ahead to
    policies, counts : (K, S, A)
    """

    def __init__(
        self, n_intentions: int, places: Places, temperatures: npt.ArrayLike | None = None, *, ridge: float = 0.01
    ) -> None:
        given = np.ones(n_intentions) if temperatures is None else np.asarray(temperatures, dtype=np.float64)
        if given.shape != (n_intentions,) or not (np.isfinite(given) & (given > 0)).all():
            raise InputError(f"The temperatures are {given.tolist()}; give {n_intentions} finite numbers above 0.")
        if not ridge > 0:
            raise InputError(f"The ridge is {ridge}; it must be above 0, or rare actions would need infinite values.")
        self.n_intentions, self.places, self.temperatures, self.ridge = n_intentions, places, given, ridge
        self.counts: FloatArray = np.zeros((n_intentions, places.n_states, places.n_actions))
        self._set_values(np.zeros((n_intentions, places.n_places)))

    def _set_values(self, values: FloatArray) -> None:
        self.values = self.places.simplest(values)
        self.rewards: FloatArray = self.temperatures[:, None] * self.places.rewards_of(self.values)
        self.policies = policies_of(self.places, self.values)

    def set_rewards(self, rewards: npt.ArrayLike, iterations: int = 100) -> None:
        """Plan for given rewards (K, C) as SWIRL does, by so many iterations from V = 1."""
        self.rewards = np.asarray(rewards, dtype=np.float64)
        if self.rewards.shape != self.values.shape:
            raise InputError(f"The rewards have shape {self.rewards.shape}; (K, C) = {self.values.shape} is needed.")
        self.values = plan(self.places, self.rewards, self.temperatures, iterations)
        self.policies = policies_of(self.places, self.values)

    # -- the protocol of a reward model ----------------------------------------------------------------------------

    def maximise(self, data: Prepared, responsibilities: FloatArray) -> None:
        """Weighted counts, then one convex fit per intention, started at the present values."""
        S, A = self.places.n_states, self.places.n_actions
        self.counts = np.empty((self.n_intentions, S, A))
        for k, weights in enumerate(responsibilities.T):
            self.counts[k] = np.bincount(data.pairs, weights=weights, minlength=(S + 1) * A)[: S * A].reshape(S, A)
        self.counts = data.total(self.counts)
        values = self.places.centred(self.values)
        for k, counts in enumerate(self.counts):
            values[k] = fit_values(values[k], self.places, counts, self.ridge)
        self._set_values(values)

    def log_prior(self) -> float:
        """Gaussian on the values, in the gauge where they are smallest."""
        return float(-0.5 * self.ridge * (self.places.centred(self.values) ** 2).sum())

    def log_likelihood(self, data: Prepared) -> FloatArray:
        """Log π_k(a_t | s_t), (n, K); a state that the fit never named counts as uniform."""
        A = self.places.n_actions
        unknown = np.full((self.n_intentions, A), 1.0 / A)
        flat = np.concatenate([self.policies.reshape(self.n_intentions, -1), unknown], axis=1)
        with np.errstate(divide="ignore"):
            return np.ascontiguousarray(np.log(flat)[:, data.pairs].T)

    def policies_at(self, rows: IntArray) -> FloatArray:
        """π_k(a | s) at states, (n, K, A)."""
        A = self.places.n_actions
        unknown = np.full((self.n_intentions, 1, A), 1.0 / A)
        return np.concatenate([self.policies, unknown], axis=1)[:, rows].transpose(1, 0, 2)

    def state(self) -> dict[str, FloatArray]:
        """Rewards, the values that the policies look ahead to, and counts."""
        return {"rewards": self.rewards, "values": self.values, "counts": self.counts}

    def load_state(self, state: dict[str, FloatArray]) -> None:
        """Undo `state`."""
        self.rewards, self.values, self.counts = state["rewards"], state["values"], state["counts"]
        self.policies = policies_of(self.places, self.values)


def loss(values: FloatArray, places: Places, counts: FloatArray, ridge: float) -> tuple[float, FloatArray]:
    """Negative log posterior of one intention's values (C,) given its counts (S, A), in nats, and its gradient."""
    logits = places.logits(values)
    log_policy = logits - log_sum_exp(logits)[..., None]
    surprise = counts - counts.sum(axis=-1, keepdims=True) * np.exp(log_policy)
    value = 0.5 * ridge * values @ values - np.vdot(counts, np.where(places.valid_actions, log_policy, 0.0))
    return float(value), np.asarray(ridge * values - places.outlook_transposed @ surprise.ravel())


def fit_values(start: FloatArray, places: Places, counts: FloatArray, ridge: float) -> FloatArray:
    """Values (C,) that minimise `loss`, by L-BFGS in coordinates where often and rarely seen places curve alike."""
    policy = (counts + 1.0) / (counts + 1.0).sum(axis=-1, keepdims=True)
    curvature = counts.sum(axis=-1, keepdims=True) * policy * (1.0 - policy)
    unit = 1.0 / np.sqrt(ridge + places.outlook_transposed @ curvature.ravel())

    def scaled(x: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = loss(x * unit, places, counts, ridge)
        return value, gradient * unit

    options = {"maxiter": 200, "maxcor": 20, "ftol": 1e-10}
    found = optimize.minimize(scaled, start / unit, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x * unit)


def plan(places: Places, rewards: FloatArray, temperatures: FloatArray, iterations: int = 100) -> FloatArray:
    """Values V / τ, (K, C), that the last of so many soft value iterations from V = 1 looks ahead to."""
    tau = temperatures[:, None]
    values = np.ones_like(rewards) / tau
    for _ in range(iterations - 1):
        values = places.backup(rewards / tau, values)
    return values


def policies_of(places: Places, values: FloatArray) -> FloatArray:
    """exp((Q − V)/τ) + 1e-8 over valid actions, normalised, (K, S, A)."""
    logits = places.logits(values)
    policies = np.exp(logits - log_sum_exp(logits)[..., None]) + FLOOR * places.valid_actions
    return np.asarray(policies / policies.sum(axis=-1, keepdims=True))


def log_sum_exp(logits: FloatArray) -> FloatArray:
    """Log Σ_a exp over the last axis; SciPy's own spends most of its time on generality."""
    top = logits.max(axis=-1)
    return np.asarray(top + np.log(np.exp(logits - top[..., None]).sum(axis=-1)))


def _one_hot(columns: IntArray, width: int | None = None) -> Any:
    """Sparse matrix with a one per row."""
    shape = (len(columns), int(columns.max()) + 1 if width is None else width)
    return sparse.csr_array((np.ones(len(columns)), (np.arange(len(columns)), columns)), shape=shape)
