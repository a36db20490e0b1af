"""Planned rewards on top of a shared habit: π_k(a|c) ∝ exp(h(c, a) + A_k(s, a) − A_0(s, a)).

A tabular policy shares nothing between states, so an intention can be anything. Here an intention is a sparse,
non-negative, state-only reward r_k(s), and what it does in every state follows by planning (soft Bellman)

    V_k(s) = r_k(s) + log Σ_a exp(γ Σ_s' P(s'|s,a) V_k(s')),     A_k(s,a) = γ Σ_s' P(s'|s,a) V_k(s') − log Σ_a' exp(…)

while everything that all intentions have in common (turning alternately, not turning back) is a habit h shared by all
of them. A_0 is the advantage without any reward, so that an intention that wants nothing follows the habit exactly.
Gradients go through the fixed point by the implicit function theorem: dL/dr = (I − γ P_πᵀ)⁻¹ dL/dV, with π the soft
policy of the reward.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import minimize

from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.errors import InputError
from prism_irl.mdp import MDP, factorize
from prism_irl.rewards.tabular import TabularPolicies

FloatArray = npt.NDArray[np.float64]


class Planner:
    """Soft planning in one MDP with state-only rewards.

    Parameters
    ----------
    mdp : MDP, of which the dynamics and the valid actions are used
    discount : γ of the goals; smaller than that of a displayed reward, since a goal is a place to reach soon
    """

    def __init__(self, mdp: MDP, discount: float) -> None:
        self.mdp, self.discount = mdp, discount
        self.valid = mdp.valid_actions
        self.still = self.advantage(self.values(np.zeros((1, mdp.n_states))))[0]

    def values(self, rewards: FloatArray, tolerance: float = 1e-9) -> FloatArray:
        """Soft values (…, S) of state-only rewards (…, S), by Newton's method on the fixed point."""
        shape = rewards.shape
        rewards = rewards.reshape(-1, shape[-1])
        values = np.zeros_like(rewards)
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


class GoalPolicies:
    """Policies of K intentions: a shared habit, tilted by what each intention wants; the last one wants nothing.

    Parameters
    ----------
    n_intentions : int
    planner : Planner
    contexts : Contexts
        Short histories that the habit may depend on.
    habit : bool
        Without it h = 0: pure goals, π_k = softmax of the soft advantage.
    sparsity : float
        λ of the penalty λ Σ_s r_k(s), in nats: what a unit of reward must earn over all steps.
    """

    exact = False

    def __init__(
        self,
        n_intentions: int,
        planner: Planner,
        contexts: Contexts,
        *,
        habit: bool = True,
        sparsity: float = 50.0,
        smoothing: float = 0.01,
        backoff: float = 32.0,
    ) -> None:
        if sparsity < 0:
            raise InputError("The sparsity penalty must not be negative.")
        self.n_intentions, self.planner, self.contexts = n_intentions, planner, contexts
        self.habitual, self.sparsity = habit, sparsity
        self.smoothing, self.backoff = smoothing, backoff
        self.states = contexts.current_state
        S, A = planner.valid.shape
        self.n_actions = A
        self.rewards: FloatArray = np.zeros((n_intentions, S))
        valid = planner.valid[self.states]
        self.habit: FloatArray = valid / valid.sum(-1, keepdims=True)
        self._refresh()

    # -- policies --------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        self.values = self.planner.values(self.rewards)
        self.policies = self.policies_of(self.planner.tilt(self.values))

    def policies_of(self, tilt: FloatArray, habit: FloatArray | None = None) -> FloatArray:
        """π ∝ habit · exp(tilt), (…, C, A), from tilts (…, S, A)."""
        base = self.base() if habit is None else habit
        tilted = tilt if len(base) == tilt.shape[-2] else tilt[..., self.states, :]
        weights = base * np.exp(tilted - tilted.max(-1, keepdims=True))
        policies: FloatArray = weights / weights.sum(-1, keepdims=True)
        return policies

    def base(self) -> FloatArray:
        """The policy of an intention that wants nothing, (C, A)."""
        if self.habitual:
            return self.habit
        still: FloatArray = np.exp(self.planner.still)[self.states]
        return still

    def log_likelihood(self, data: Prepared) -> FloatArray:
        """Log π_k(a_t | c_t), (n, K)."""
        flat = self.policies.reshape(self.n_intentions, -1)
        padded = np.concatenate([flat, np.full((self.n_intentions, self.n_actions), 1.0 / self.n_actions)], axis=1)
        with np.errstate(divide="ignore"):
            return np.ascontiguousarray(np.log(padded)[:, data.pairs].T)

    def policies_at(self, rows: npt.NDArray[np.int64]) -> FloatArray:
        """π_k(a | c) at context rows, (n, K, A)."""
        unknown = np.full((self.n_intentions, 1, self.n_actions), 1.0 / self.n_actions)
        return np.concatenate([self.policies, unknown], axis=1)[:, rows].transpose(1, 0, 2)

    def log_prior(self) -> float:
        """−λ Σ r."""
        return -self.sparsity * float(self.rewards.sum())

    def set_rewards(self, rewards: FloatArray) -> None:
        """Set r_k(s), (K, S)."""
        self.rewards = rewards.copy()
        self._refresh()

    # -- learning --------------------------------------------------------------------------------------------------

    def learn_habit(self, data: Prepared, weights: FloatArray, *, memory: bool) -> None:
        """Set the habit to what is done at steps with these weights (n,): per state, or with short histories."""
        contexts = self.contexts if memory else Contexts(self.planner.mdp.n_states)
        rows = data if memory else Prepared(data.demos, data.demos.states.astype(np.int64), data.device)
        table = TabularPolicies(
            1, self.n_actions, contexts, self.planner.valid, smoothing=self.smoothing, backoff=self.backoff
        )
        table.maximise(rows, weights[:, None])
        self.habit = table.policies[0] if memory else table.policies[0][self.states]
        self._refresh()

    def counts(self, data: Prepared, responsibilities: FloatArray) -> FloatArray:
        """Weighted counts (K, C, A) of the contexts that the habit tells apart."""
        C, A = self.habit.shape
        rows = data.pairs
        counts: FloatArray = np.empty((self.n_intentions, C, A))
        for k, weights in enumerate(responsibilities.T):
            counts[k] = np.bincount(rows, weights=weights, minlength=(C + 1) * A)[: C * A].reshape(C, A)
        return data.total(counts)

    def maximise(self, data: Prepared, responsibilities: FloatArray) -> None:
        """Improve each reward by projected gradient (L-BFGS-B, r ≥ 0) through the fixed point."""
        counts = self.counts(data, responsibilities)
        for k in range(self.n_intentions - 1):  # the last one wants nothing
            found = minimize(
                self._objective,
                self.rewards[k],
                args=(counts[k],),
                jac=True,
                method="L-BFGS-B",
                bounds=[(0.0, None)] * self.rewards.shape[1],
                options={"maxiter": 10},
            )
            self.rewards[k] = found.x
        self._refresh()

    def _objective(self, reward: FloatArray, counts: FloatArray) -> tuple[float, FloatArray]:
        """Negative weighted log-likelihood plus λ Σ r, and its gradient."""
        values = self.planner.values(reward)
        policy = self.policies_of(self.planner.tilt(values))
        with np.errstate(divide="ignore"):
            logs = np.where(counts > 0, np.log(policy), 0.0)
        surprise = counts - counts.sum(-1, keepdims=True) * policy
        per_state = np.zeros_like(self.planner.still)
        np.add.at(per_state, self.states, surprise)
        gradient = self.planner.pull_back(values, np.where(self.planner.valid, per_state, 0.0))
        return float(self.sparsity * reward.sum() - (counts * logs).sum()), self.sparsity - gradient

    def state(self) -> dict[str, FloatArray]:
        """Return rewards and habit."""
        return {"rewards": self.rewards, "habit": self.habit}

    def load_state(self, state: dict[str, FloatArray]) -> None:
        """Set rewards and habit."""
        for name, shape in (("rewards", self.rewards.shape), ("habit", self.habit.shape)):
            if state[name].shape != shape:
                raise InputError(
                    f"The saved {name} have shape {state[name].shape}, but this model needs {shape}; they belong to "
                    "other data or other parameters."
                )
        self.rewards, self.habit = state["rewards"].copy(), state["habit"]
        self._refresh()
