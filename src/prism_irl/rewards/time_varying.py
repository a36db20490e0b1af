"""Rewards whose weights drift: r_t(s) = Σ_m a_m(t) u_m(s), and the policy that each r_t implies.

At time t the agent plans as if r_t were there to stay: V = log Σ_a exp Q, Q(s, a) = r_t(s) + γ Σ_s' P(s'|s, a) V(s'),
π_t = exp(Q − V) (Ashwood, Jha & Pillow 2022). The T Bellman equations are solved together, and their derivative costs
one more linear fixed point: with counts n of one time step and N(s) = Σ_a n(s, a),

    ∂/∂r Σ n log π = N + ρ,   (I − γ P_π)ᵀ ρ = γ Pᵀ n − N,

because ∂V/∂r = (I − γ P_π)⁻¹. Only counts (T, S, A) enter, so that the cost does not grow with the number of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP

Array = npt.NDArray[np.float64]

MAX_SWEEPS, MAX_ROUNDS = 10_000, 200


class Plan(NamedTuple):
    """Soft-optimal behaviour under each of T rewards: ``values`` (T, S) and ``log_policies`` (T, S, A)."""

    values: Array
    log_policies: Array


def plan(mdp: MDP, rewards: Array, start: Array | None = None, tolerance: float = 1e-8) -> Plan:
    """Solve the soft Bellman equation of every reward (T, S), from values ``start`` (T, S) where there are some.

    Newton's method, which is policy iteration here: a few evaluations of exp and log instead of one per sweep, and a
    warm start pays. Time is kept last in memory, (S, A, T), where every operation runs along it. The values are
    within ``tolerance`` of the solution, by MacQueen's bounds.
    """
    r = np.ascontiguousarray(rewards.T)
    v = np.zeros_like(r) if start is None else np.ascontiguousarray(start.T)
    P, discount = mdp.transitions, mdp.discount
    shape, horizon = (mdp.n_states, mdp.n_actions, r.shape[1]), discount / (1 - discount)
    closed = np.where(mdp.valid_actions, 0.0, -np.inf)[..., None]
    for _ in range(MAX_ROUNDS):
        # The reward depends on the state alone: it adds to every action alike, and the policy needs only the rest.
        ahead: Array = discount * (P @ v).reshape(shape) + closed
        top = ahead.max(axis=1, keepdims=True)
        policies = np.exp(ahead - top)
        total = policies.sum(axis=1, keepdims=True)
        soft = top + np.log(total)
        change: Array = r + soft[:, 0] - v
        low, high = change.min(axis=0), change.max(axis=0)
        middle: Array = change + horizon * (low + high) / 2
        if horizon * float((high - low).max()) <= 2 * tolerance:
            return Plan((v + middle).T, (ahead - soft).transpose(2, 0, 1))
        policies *= discount / total
        expected = partial(_expected, P, policies)
        # A direction twenty times closer to the solution than v is good enough to be replaced by the next one.
        v = v + _fixed_point(
            expected, change, middle, (1 - discount) * max(tolerance, 0.05 * float(np.abs(change).max()))
        )
    raise InputError(f"Planning did not converge with discount {discount}; lower it or the learning rates.")


def _expected(P: Any, policies: Array, x: Array) -> Array:
    """Σ_a π(a|s) Σ_s' P(s'|s, a) x(s') for policies (S, A, T) and x (S, T)."""
    product: Array = (policies * (P @ x).reshape(policies.shape)).sum(axis=1)
    return product


def _fixed_point(image: Callable[[Array], Array], source: Array, x: Array, tolerance: float) -> Array:
    """Solve x = source + image(x) for a contraction, until a sweep changes nothing by more than the tolerance."""
    for _ in range(MAX_SWEEPS):
        new = source + image(x)
        change = float(np.abs(new - x).max())
        x = new
        if change <= tolerance:
            break
    return x


def gradient(mdp: MDP, counts: Array, policies: Array, start: Array, tolerance: float = 1e-6) -> tuple[Array, Array]:
    """Derivative of Σ_t Σ_sa n_t(s, a) log π_t(a|s) with respect to r_t(s), (T, S), and ρ for the next call.

    Parameters
    ----------
    counts, policies : (T, S, A)
    start : (T, S)
        First guess of ρ, zeros or that of the last call.
    tolerance : float
        Largest change of the last sweep, relative to the largest entry of γ Pᵀ n − N.
    """
    n, pi = (np.ascontiguousarray(x.transpose(1, 2, 0)) for x in (counts, policies))
    T = n.shape[-1]
    inflow = mdp.discount * mdp.transitions.T.tocsr()  # (S, S·A)
    visits: Array = n.sum(axis=1)
    source: Array = inflow @ n.reshape(-1, T) - visits
    enough = tolerance * max(1.0, float(np.abs(source).max()))
    rho = _fixed_point(
        lambda x: inflow @ (pi * x[:, None]).reshape(-1, T), source, np.ascontiguousarray(start.T), enough
    )
    return (visits + rho).T, rho.T


def position_counts(demos: Demonstrations, window: int) -> Array:
    """How often action a was taken in state s at each position of a window, (window, S, A).

    A trajectory longer than the window is cut into consecutive windows; a shorter last piece counts where it can.
    """
    S, A = demos.n_states, demos.n_actions
    cells = (demos.step_index % window * S + demos.states) * A + demos.actions
    return np.bincount(cells, minlength=window * S * A).astype(np.float64).reshape(window, S, A)
