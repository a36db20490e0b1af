"""Soft Bellman rewards: an intention plans towards a reward on states (SWIRL, maximum causal entropy).

With R(s) received in s and temperature τ, soft value iteration gives V = R + τ log Σ_a exp(γ P_a V / τ) and the policy
π(a|s) ∝ exp(γ Σ_s' P(s'|s,a) V(s') / τ). The policy sees R only through V, and R = V − τ log Σ_a exp(γ P_a V / τ) for
*any* V: rewards and values are two names for one thing. So the M-step maximises over U = V / τ, which is a softmax
regression (convex, no planning inside), and reads the rewards off. Its cost does not depend on the number of steps.

With memory (order 2) the reward R(s_prev, s) lives on transitions. It cancels from the choice in s, whose successors
(s, s') do not know s_prev: π(a|s) ∝ exp(γ Σ_s' P(s'|s,a) V(s, s') / τ).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prism_irl.arrays import BoolArray, FloatArray
from prism_irl.data.batching import Stats
from prism_irl.errors import InputError
from prism_irl.mdp import MDP, factorize
from prism_irl.rewards.base import IntArray, PolicyTable
from prism_irl.rewards.iavi import InverseSolution, unvisited_states

FLOOR = 1e-8  # the authors' constant: no action is impossible
NEWTON_STEPS, NEWTON_TOLERANCE, SMALLEST_STEP = 100, 1e-9, 1e-10
"""Nats by which a Newton step may still lower the loss of an intention when it is taken for the last."""
MANY_PLACES = 2000  # of which a dense factor would take seconds


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


class SoftRewards(PolicyTable):
    """Policies of K intentions that plan for rewards on states or on transitions.

    Parameters
    ----------
    n_intentions : int
    places : Places
        Dynamics, discount and order of the rewards.
    temperatures, ridge : see `rewards.options.SoftStates`; with a free reward per place τ is only its unit

    Attributes
    ----------
    rewards : (K, C), in units where τ is `temperatures`
    values : (K, C), V / τ that the policies look ahead to
    policies, counts : (K, S, A)
    """

    learned: ClassVar[tuple[str, ...]] = ("rewards", "values", "counts")

    def __init__(
        self, n_intentions: int, places: Places, temperatures: npt.ArrayLike | None = None, *, ridge: float = 0.01
    ) -> None:
        given = np.ones(n_intentions) if temperatures is None else np.asarray(temperatures, dtype=np.float64)
        if given.shape != (n_intentions,) or not (np.isfinite(given) & (given > 0)).all():
            raise InputError(f"The temperatures are {given.tolist()}; give {n_intentions} finite numbers above 0.")
        self.n_intentions, self.places, self.temperatures, self.ridge = n_intentions, places, given, ridge
        self.n_actions = places.n_actions
        self.counts: FloatArray = np.zeros((n_intentions, places.n_states, places.n_actions))
        self._set_values(np.zeros((n_intentions, places.n_places)))

    def _set_values(self, values: FloatArray) -> None:
        self.values = self.places.simplest(values)
        self.rewards: FloatArray = self.temperatures[:, None] * self.places.rewards_of(self.values)
        self.policies = policies_of(self.places, self.values)

    def set_rewards(self, rewards: npt.ArrayLike, iterations: int = 100) -> None:
        """Plan for given rewards (K, C) as SWIRL does, by so many soft value iterations from V = 1."""
        self.rewards = np.asarray(rewards, dtype=np.float64)
        if self.rewards.shape != self.values.shape:
            raise InputError(f"The rewards have shape {self.rewards.shape}; (K, C) = {self.values.shape} is needed.")
        self.values = plan(self.places, self.rewards, self.temperatures, iterations)
        self.policies = policies_of(self.places, self.values)

    def update(self, stats: Stats) -> None:
        """One convex fit per intention to the weighted counts, started at the present values."""
        self.counts = stats["counts"]
        values = self.places.centred(self.values)
        for k, counts in enumerate(self.counts):
            values[k] = fit_values(values[k], self.places, counts, self.ridge)
        self._set_values(values)

    def log_prior(self) -> float:
        """Gaussian on the values, in the gauge where they are smallest."""
        return float(-0.5 * self.ridge * (self.places.centred(self.values) ** 2).sum())

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`."""
        super().load_state(state)
        self.policies = policies_of(self.places, self.values)

    def moved(self, mdp: MDP) -> SoftRewards:
        """Plan for the same R(s) in other dynamics, to the fixed point; in the same ones the policies stay.

        Of a place where an intention never was, the fit knows nothing, and what stands there is an echo of others; it
        is given the reward that half of the others exceed.
        """
        if self.places.previous is not None:
            raise InputError(
                "Rewards on transitions (soft-2) say nothing of transitions that this world does not have; fit soft-1, "
                "or ask for agents that do not know of the change (--unaware)."
            )
        again = SoftRewards(self.n_intentions, Places(mdp), self.temperatures, ridge=self.ridge)
        rewards = self.rewards.copy()
        if self.counts.any():
            for reward, unknown in zip(rewards, unvisited_states(self.counts), strict=True):
                reward[unknown] = np.median(reward[~unknown]) if not unknown.all() else 0.0
        again.set_rewards(rewards, iterations=int(np.ceil(np.log(1e-12) / np.log(mdp.discount))))
        again.accents = self.accents
        return again

    def solution(self, mdp: MDP) -> InverseSolution:
        """The soft rewards as r(s, a), with which soft planning gives exactly the policies found.

        With order 1 r(s, a) = R(s). With order 2 the reward of a transition is credited to the action that makes it,
        r(s, a) = γ Σ_s' P(s'|s, a) R(s, s'), discounted because it is received on arrival.
        """
        tau, places = self.temperatures[:, None, None], self.places
        ahead = tau * places.logits(self.values)
        if places.previous is None:
            rewards = np.broadcast_to(self.rewards[:, :, None], ahead.shape)
            q = ahead + rewards
        else:
            rewards = (places.outlook @ self.rewards.T).T.reshape(ahead.shape)
            q = ahead
        values = tau[:, :, 0] * log_sum_exp(q / tau)
        unvisited = unvisited_states(self.counts) if self.counts.any() else None
        return InverseSolution(np.where(places.valid_actions, rewards, 0.0), q, values, unvisited)

    @property
    def state_rewards(self) -> FloatArray:
        """R_k(s), (K, S); with order 2 the mean of R_k(s_prev, s) over the predecessors of s (0 without any)."""
        S = self.places.n_states
        n = np.maximum(np.bincount(self.places.arrival, minlength=S), 1)
        return np.stack([np.bincount(self.places.arrival, r, minlength=S) / n for r in self.rewards])


class Planner:
    """Soft planning in one MDP with state-only rewards, and gradients through its fixed point.

        V(s) = r(s) + log Σ_a exp(γ Σ_s' P(s'|s,a) V(s')),     A(s,a) = γ Σ_s' P(s'|s,a) V(s') − log Σ_a' exp(…)

    By the implicit function theorem dL/dr = (I − γ P_πᵀ)⁻¹ dL/dV, with π the soft policy of the reward. ``discount`` is
    smaller than that of a displayed reward where a goal is a place to reach soon.
    """

    def __init__(self, mdp: MDP, discount: float) -> None:
        self.mdp, self.discount = mdp, discount
        self.valid = mdp.valid_actions

    @cached_property
    def still(self) -> FloatArray:
        """A_0, the advantage without any reward, (S, A)."""
        return self.advantage(self.values(np.zeros(self.mdp.n_states)))

    def values(self, rewards: FloatArray, tolerance: float = 1e-9, start: FloatArray | None = None) -> FloatArray:
        """Soft values (…, S) of state-only rewards (…, S), by Newton's method on the fixed point."""
        shape = rewards.shape
        rewards = rewards.reshape(-1, shape[-1])
        values = np.zeros_like(rewards) if start is None else start.reshape(rewards.shape).copy()
        for k, reward in enumerate(rewards):
            for _ in range(100):  # a handful suffice: each step is soft policy iteration
                log_policy, ahead = self._soft(values[k])
                rest = reward + ahead - values[k]
                if np.abs(rest).max() < tolerance:
                    break
                values[k] += factorize(self._system(log_policy))(rest)
        return values.reshape(shape)

    def _soft(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log soft policy (S, A) and log Σ_a exp(γ P V) (S,)."""
        q = np.where(self.valid, self.discount * self.mdp.expected_values(values), -np.inf)
        top = q.max(-1)
        ahead = top + np.log(np.exp(q - top[:, None]).sum(-1))
        return q - ahead[:, None], ahead

    def _system(self, log_policy: FloatArray) -> Any:
        """I − γ P_π, a sparse (S, S) array."""
        return sparse.eye_array(self.mdp.n_states) - self.discount * self.mdp.policy_transitions(np.exp(log_policy))

    def advantage(self, values: FloatArray) -> FloatArray:
        """A(s, a) of values (…, S), (…, S, A); −inf at invalid actions."""
        flat = values.reshape(-1, values.shape[-1])
        return np.stack([self._soft(v)[0] for v in flat]).reshape(*values.shape, -1)

    def tilt(self, values: FloatArray) -> FloatArray:
        """A_k − A_0 of soft values (…, S), (…, S, A); zero at invalid actions and everywhere without a reward."""
        with np.errstate(invalid="ignore"):  # −inf − (−inf) at invalid actions
            return np.where(self.valid, self.advantage(values) - self.still, 0.0)

    def pull_back(self, values: FloatArray, gradient: FloatArray) -> FloatArray:
        """dL/dr (S,) from dL/d(γ P V)(s, a) (S, A), at the fixed point ``values`` (S,)."""
        log_policy, _ = self._soft(values)
        on_values = self.discount * (self.mdp.transitions.T @ gradient.reshape(-1))
        return factorize(self._system(log_policy).T)(on_values)


def own_dynamics(mdp: MDP, valid: BoolArray, discount: float, invalid_actions: str) -> MDP:
    """Dynamics whose invalid actions are impossible ("mask") or stay in place ("stay")."""
    if not valid.any(axis=1).all():
        raise InputError("In some state the MDP and the demonstrations agree on no valid action; correct a mask.")
    if invalid_actions == "mask":
        return MDP(mdp.transitions, discount, valid)
    missing = np.flatnonzero(~valid)
    stay = sparse.csr_array((np.ones(len(missing)), (missing, missing // mdp.n_actions)), mdp.transitions.shape)
    return MDP(sparse.diags_array(valid.ravel().astype(np.float64)) @ mdp.transitions + stay, discount)


def loss(values: FloatArray, places: Places, counts: FloatArray, ridge: float) -> tuple[float, FloatArray]:
    """Negative log posterior of one intention's values (C,) given its counts (S, A), in nats, and its gradient."""
    logits = places.logits(values)
    log_policy = logits - log_sum_exp(logits)[..., None]
    surprise = counts - counts.sum(axis=-1, keepdims=True) * np.exp(log_policy)
    value = 0.5 * ridge * values @ values - np.vdot(counts, np.where(places.valid_actions, log_policy, 0.0))
    return float(value), np.asarray(ridge * values - places.outlook_transposed @ surprise.ravel())


def fit_values(start: FloatArray, places: Places, counts: FloatArray, ridge: float) -> FloatArray:
    """Values (C,) that minimise `loss`, by Newton's method: strictly convex, so that every processor ends there.

    Quasi-Newton methods stop where rounding tells them to, and a few EM iterations make millinats of that.
    """
    values, (value, gradient) = start, loss(start, places, counts, ridge)
    method: Literal["auto", "sparse"] = "auto" if places.n_places <= MANY_PLACES else "sparse"
    for _ in range(NEWTON_STEPS):
        step = factorize(_curvature(values, places, counts, ridge), method)(gradient)
        decrement = float(gradient @ step)
        if decrement <= NEWTON_TOLERANCE:
            return np.asarray(values - step)  # where convergence is quadratic, the last step costs nothing and is right
        size = 1.0
        while (trial := loss(values - size * step, places, counts, ridge))[0] > value - 0.25 * size * decrement:
            size /= 2.0
            if size < SMALLEST_STEP:  # no number nearby is better
                return values
        values, (value, gradient) = values - size * step, trial
    return values


def _curvature(values: FloatArray, places: Places, counts: FloatArray, ridge: float) -> Any:
    """Second derivatives of `loss`, a sparse (C, C) array: ridge + Oᵀ (n_s (diag π_s − π_s π_sᵀ)) O."""
    logits = places.logits(values)
    policy = np.exp(logits - log_sum_exp(logits)[..., None])
    visits = counts.sum(axis=-1, keepdims=True)
    weighted = sparse.diags_array((visits * policy).ravel()) @ places.outlook
    S, A = policy.shape
    rows = np.repeat(np.arange(S), A)
    mean = sparse.csr_array((policy.ravel(), (rows, np.arange(S * A))), shape=(S, S * A)) @ places.outlook
    spread = places.outlook_transposed @ weighted - mean.T @ (sparse.diags_array(visits.ravel()) @ mean)
    return sparse.csr_array(spread + ridge * sparse.eye_array(places.n_places))


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
