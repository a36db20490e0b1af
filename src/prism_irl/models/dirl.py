"""Dynamic inverse reinforcement learning (Ashwood, Jha & Pillow 2022): goals that wax and wane with time.

The reward at time t is r_t(s) = Σ_m a_m(t) u_m(s): goal maps u_m with an L2 penalty, and weights a_m(t) that follow a
Gaussian random walk and are shared by all trajectories. Choose it when behaviour depends on the time since the
trajectory began (satiation, a session's course) rather than on what the individual did a moment ago.

At time t the agent plans as if r_t were there to stay: V = log Σ_a exp Q, Q(s, a) = r_t(s) + γ Σ_s' P(s'|s, a) V(s'),
π_t = exp(Q − V). The T Bellman equations are solved together (`plan`), and their derivative costs one more linear fixed
point (`gradient`): with counts n of one time step and N(s) = Σ_a n(s, a),

    ∂/∂r Σ n log π = N + ρ,   (I − γ P_π)ᵀ ρ = γ Pᵀ n − N,

because ∂V/∂r = (I − γ P_π)⁻¹. Only counts (T, S, A) enter, so that the cost does not grow with the number of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from prism_irl import checked
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.halves import check_numbers
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel, with_valid_actions_of

LONGEST_WINDOW = 500
ACCURACY = 1e-4
"""Of values and gradients during the fit: far below the size of one step of Adam. The final policies are exact."""
MAX_SWEEPS, MAX_ROUNDS = 10_000, 200


@dataclass(eq=False, repr=False)
class DIRL(IntentionModel):
    """Time-varying weights on a few goal maps.

    Weights and maps take turns: ``steps_per_round`` steps of Adam on the log posterior each, ``n_rounds`` times. The
    defaults are the authors' for mice in the labyrinth. Time is the position within a trajectory. Fitting needs
    trajectories that start together and go on equally long, so longer ones are first cut into windows; prediction
    leaves them whole, and positions beyond the window use the last weights.

    Parameters
    ----------
    n_intentions : number of goal maps M
    window : length T of the windows; None takes the longest trajectory, at most 500
    discount : γ; replaces that of an MDP that is given to `fit`
    sigma : standard deviation of one step of the random walk
    l2 : penalty l2 · Σ u_m(s)² on the maps
    seed : draws the first maps

    Attributes
    ----------
    weights_ : (T, M), a_m(t). Maps and weights share a scale and a sign: only their products are identified.
    maps_ : (M, S), u_m(s)
    policies_ : (T, S, A), π_t(a|s)
    monitor_ : list of dict, round, log posterior and log-likelihood per step
    """

    n_intentions: int = 2
    window: int | None = None
    discount: float = 0.7
    sigma: float = 0.25
    l2: float = 0.001
    learning_rate_maps: float = 0.005
    learning_rate_weights: float = 0.05
    n_rounds: int = 20
    steps_per_round: int = 25
    seed: int = 0

    def fit(self, demos: Demonstrations, mdp: MDP | None = None) -> Self:
        """Maximise the posterior of weights and maps; ``mdp`` is counted from the demonstrations when absent."""
        self._check_parameters()
        demos = with_valid_actions_of(mdp, demos)
        world = self._world(demos, mdp)
        window = min(int(demos.lengths.max()), LONGEST_WINDOW) if self.window is None else self.window
        counts = position_counts(demos, window)

        rng = np.random.default_rng(self.seed)
        # Small random maps break the symmetry between goals; equal weights leave it to the data when each matters.
        maps = torch.from_numpy(0.1 * rng.standard_normal((self.n_intentions, demos.n_states)))
        weights = torch.ones(window, self.n_intentions, dtype=torch.float64)
        turns = (
            (weights, torch.optim.Adam([weights], lr=self.learning_rate_weights)),
            (maps, torch.optim.Adam([maps], lr=self.learning_rate_maps)),
        )
        solution = plan(world, (weights @ maps).numpy(), tolerance=ACCURACY)
        rho = np.zeros_like(solution.values)
        self.monitor_: list[dict[str, float]] = []
        for round_ in range(self.n_rounds):
            for variable, adam in turns:
                for _ in range(self.steps_per_round):
                    slope, rho = gradient(world, counts, np.exp(solution.log_policies), rho, ACCURACY)
                    ascent = torch.from_numpy(slope)
                    if variable is weights:  # and the pull of the random walk
                        walk = torch.diff(weights, dim=0, prepend=weights[:1], append=weights[-1:]) / self.sigma**2
                        variable.grad = -(ascent @ maps.T + torch.diff(walk, dim=0))
                    else:
                        variable.grad = -(weights.T @ ascent - 2 * self.l2 * maps)
                    adam.step()
                    solution = plan(world, (weights @ maps).numpy(), solution.values, tolerance=ACCURACY)
            self.monitor_.append({"round": round_ + 1.0, **self._objective(counts, solution, weights, maps)})
        self._keep(weights.numpy(), maps.numpy(), world)
        return self

    def _world(self, demos: Demonstrations, mdp: MDP | None) -> MDP:
        if mdp is None:
            return MDP.from_demonstrations(demos, self.discount)
        demos.with_valid_actions(mdp.valid_actions)  # an action that the MDP does not know is an error, and says where
        both = mdp.valid_actions if demos.valid_actions is None else mdp.valid_actions & demos.valid_actions
        return MDP(mdp.transitions, self.discount, both)

    def _objective(
        self, counts: FloatArray, solution: Plan, weights: torch.Tensor, maps: torch.Tensor
    ) -> dict[str, float]:
        taken = counts > 0
        likelihood = float((counts[taken] * solution.log_policies[taken]).sum())
        walk = float(((weights[1:] - weights[:-1]) ** 2).sum()) / (2 * self.sigma**2)
        posterior = likelihood - walk - self.l2 * float((maps**2).sum())
        n = float(counts.sum())
        return {"log_posterior": posterior / n, "train": likelihood / n}

    def _keep(self, weights: FloatArray, maps: FloatArray, mdp: MDP) -> None:
        self.n_states_, self.n_actions_ = mdp.n_states, mdp.n_actions
        self.weights_, self.maps_, self.mdp_ = weights, maps, mdp
        # From scratch, so that a model that was saved and loaded has the same policies to the last bit.
        self.policies_: FloatArray = np.exp(plan(mdp, weights @ maps).log_policies)

    def _check_parameters(self) -> None:
        check_numbers(self, {"n_intentions": 1, "n_rounds": 0, "steps_per_round": 1}, integer=True)
        if self.window is not None:
            check_numbers(self, {"window": 1}, integer=True)
        check_numbers(self, {"discount": 0}, below=1)
        check_numbers(self, dict.fromkeys(("sigma", "learning_rate_maps", "learning_rate_weights"), 0), above=True)
        check_numbers(self, {"l2": 0})

    def _positions(self, demos: Demonstrations) -> IntArray:
        return np.minimum(demos.step_index, len(self.weights_) - 1)

    def action_proba(self, demos: Demonstrations) -> FloatArray:
        """π_t(a | s_t), (n, A): of the present state and the time, not of the past."""
        demos = self._check_new(demos)
        unknown = np.full((len(self.weights_), 1, self.n_actions_), 1.0 / self.n_actions_)
        return np.concatenate([self.policies_, unknown], axis=1)[self._positions(demos), demos.states]

    def predict_proba(self, demos: Demonstrations) -> FloatArray:
        """Share of each goal map in the present reward, (n, M): |a_m(t)| · sd(u_m), normalised.

        Not a posterior: in this model all goals act at once, and nothing is inferred about a single step. The spread
        of the map makes the share independent of how a scale is divided between map and weight.
        """
        positions = self._positions(self._check_new(demos))
        parts = np.abs(self.weights_) * self.maps_.std(axis=1)
        total = parts.sum(axis=1, keepdims=True)
        shares = np.where(total > 0, parts / np.where(total > 0, total, 1.0), 1.0 / self.n_intentions)
        return shares[positions]

    @property
    def rewards_(self) -> FloatArray:
        """Goal maps as rewards of state and action, r_m(s, a) = u_m(s), (M, S, A)."""
        self._check_fitted()
        return np.repeat(self.maps_[:, :, None], self.n_actions_, axis=2)

    @property
    def time_varying_rewards_(self) -> FloatArray:
        """r_t(s), (T, S)."""
        self._check_fitted()
        return self.weights_ @ self.maps_

    def _state(self) -> dict[str, Any]:
        """Weights, maps and dynamics."""
        return {"weights": self.weights_, "maps": self.maps_, **self.mdp_.state()}

    def _info(self) -> dict[str, Any]:
        """Sizes and the course of the fit."""
        return {**self._sizes(), "history": self.monitor_}

    def _load_state(self, tensors: dict[str, Any], info: dict[str, Any]) -> None:
        """Rebuild the dynamics and plan again."""
        S = int(info["n_states"])
        arrays = {name: value.numpy() for name, value in tensors.items()}
        mdp, (weights, maps) = MDP.from_state(S, self.discount, arrays), (arrays["weights"], arrays["maps"])
        checked.shape("maps", maps, (self.n_intentions, S))
        checked.shape("weights", weights, (len(weights), self.n_intentions))
        self.monitor_ = info["history"]
        self._keep(weights, maps, mdp)


class Plan(NamedTuple):
    """Soft-optimal behaviour under each of T rewards: ``values`` (T, S) and ``log_policies`` (T, S, A)."""

    values: FloatArray
    log_policies: FloatArray


def plan(mdp: MDP, rewards: FloatArray, start: FloatArray | None = None, tolerance: float = 1e-8) -> Plan:
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
        ahead: FloatArray = discount * (P @ v).reshape(shape) + closed
        top = ahead.max(axis=1, keepdims=True)
        policies = np.exp(ahead - top)
        total = policies.sum(axis=1, keepdims=True)
        soft = top + np.log(total)
        change: FloatArray = r + soft[:, 0] - v
        low, high = change.min(axis=0), change.max(axis=0)
        middle: FloatArray = change + horizon * (low + high) / 2
        if horizon * float((high - low).max()) <= 2 * tolerance:
            return Plan((v + middle).T, (ahead - soft).transpose(2, 0, 1))
        policies *= discount / total
        # A direction twenty times closer to the solution than v is good enough to be replaced by the next one.
        enough = (1 - discount) * max(tolerance, 0.05 * float(np.abs(change).max()))
        v = v + _fixed_point(partial(_expected, P, policies), change, middle, enough)
    raise InputError(f"Planning did not converge with discount {discount}; lower it or the learning rates.")


def _expected(P: Any, policies: FloatArray, x: FloatArray) -> FloatArray:
    """Σ_a π(a|s) Σ_s' P(s'|s, a) x(s') for policies (S, A, T) and x (S, T)."""
    product: FloatArray = (policies * (P @ x).reshape(policies.shape)).sum(axis=1)
    return product


def _fixed_point(
    image: Callable[[FloatArray], FloatArray], source: FloatArray, x: FloatArray, tolerance: float
) -> FloatArray:
    """Solve x = source + image(x) for a contraction, until a sweep changes nothing by more than the tolerance."""
    for _ in range(MAX_SWEEPS):
        new = source + image(x)
        change = float(np.abs(new - x).max())
        x = new
        if change <= tolerance:
            break
    return x


def gradient(
    mdp: MDP, counts: FloatArray, policies: FloatArray, start: FloatArray, tolerance: float = 1e-6
) -> tuple[FloatArray, FloatArray]:
    """Derivative of Σ_t Σ_sa n_t(s, a) log π_t(a|s) with respect to r_t(s), (T, S), and ρ for the next call.

    ``counts`` and ``policies`` are (T, S, A), ``start`` (T, S) is the first guess of ρ, and ``tolerance`` the largest
    change of the last sweep, relative to the largest entry of γ Pᵀ n − N.
    """
    n, pi = (np.ascontiguousarray(x.transpose(1, 2, 0)) for x in (counts, policies))
    T = n.shape[-1]
    inflow = mdp.discount * mdp.transitions.T.tocsr()  # (S, S·A)
    visits: FloatArray = n.sum(axis=1)
    source: FloatArray = inflow @ n.reshape(-1, T) - visits
    enough = tolerance * max(1.0, float(np.abs(source).max()))
    rho = _fixed_point(
        lambda x: inflow @ (pi * x[:, None]).reshape(-1, T), source, np.ascontiguousarray(start.T), enough
    )
    return (visits + rho).T, rho.T


def position_counts(demos: Demonstrations, window: int) -> FloatArray:
    """How often action a was taken in state s at each position of a window, (window, S, A).

    A trajectory longer than the window is cut into consecutive windows; a shorter last piece counts where it can.
    """
    S, A = demos.n_states, demos.n_actions
    cells = (demos.step_index % window * S + demos.states) * A + demos.actions
    return np.bincount(cells, minlength=window * S * A).astype(np.float64).reshape(window, S, A)
