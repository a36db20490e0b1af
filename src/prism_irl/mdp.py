"""Markov decision processes with sparse transitions: the world in which intentions have rewards and values.

Bellman's equation is Q(s,a) = r(s,a) + γ Σ_s' P(s'|s,a) V(s') with V = max_a Q (hard) or V = τ log Σ_a exp(Q/τ) (soft).
Use it when the transition model is known (`MDP.from_dense`) or to count one from data (`MDP.from_demonstrations`);
segmentation and likelihoods need no MDP, rewards and planning do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from prism_irl.arrays import BoolArray, FloatArray
from prism_irl.checked import frozen
from prism_irl.errors import InputError

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations

Solver = Callable[[FloatArray], FloatArray]
PIECE = 2**20
"""Steps that are counted at a time."""


class MDP:
    """Transition probabilities, discount and valid actions.

    Parameters
    ----------
    transitions : sparse or dense array, shape (S·A, S)
        Row s·A + a holds P(·|s, a). Rows of valid actions must sum to 1 and are rescaled to do so exactly; rows of
        invalid actions are stored empty whatever they hold, so that they cannot influence anything.
    discount : float
        γ, at least 0 and below 1.
    valid_actions : bool array, shape (S, A), optional
        Which actions exist in which state; all of them by default.
    """

    n_states: int
    n_actions: int
    transitions: Any  # scipy.sparse.csr_array; SciPy ships no types
    discount: float
    valid_actions: BoolArray

    def __init__(self, transitions: Any, discount: float = 0.97, valid_actions: BoolArray | None = None) -> None:
        matrix = sparse.coo_array(transitions)
        rows, n_states = matrix.shape if len(matrix.shape) == 2 else (0, 0)
        if n_states == 0 or rows == 0 or rows % n_states:
            raise InputError(
                f"Transitions have shape {tuple(matrix.shape)}, but (S·A, S) is needed with row s·A + a for action a "
                "in state s; use MDP.from_dense for an (S, A, S) array."
            )
        if not 0 <= discount < 1:
            raise InputError(f"The discount is {discount}; give a number of at least 0 and below 1.")
        self.n_states, self.n_actions, self.discount = n_states, rows // n_states, float(discount)
        shape = (self.n_states, self.n_actions)
        valid = np.ones(shape, dtype=bool) if valid_actions is None else np.array(valid_actions, dtype=bool)
        if valid.shape != shape:
            raise InputError(f"valid_actions has shape {valid.shape}; it must be (S, A) = {shape}.")
        if not valid.any(axis=1).all():
            state = int(np.flatnonzero(~valid.any(axis=1))[0])
            raise InputError(f"State {state} has no valid action; mark at least one in valid_actions.")
        self.valid_actions = frozen(valid)
        self.transitions = self._check_rows(matrix)

    @classmethod
    def from_dense(cls, P: npt.ArrayLike, discount: float = 0.97, valid_actions: BoolArray | None = None) -> MDP:
        """Build from a dense table P(s'|s, a) of shape (S, A, S)."""
        table = np.asarray(P, dtype=np.float64)
        if table.ndim != 3 or table.shape[0] != table.shape[2]:
            raise InputError(f"P has shape {table.shape}; give P(s'|s, a) as an array of shape (S, A, S).")
        return cls(table.reshape(-1, table.shape[2]), discount, valid_actions)

    @classmethod
    def from_demonstrations(cls, demos: Demonstrations, discount: float = 0.97) -> MDP:
        """Estimate P(s'|s, a) from counts of (s_t, a_t, s_{t+1}) inside trajectories, never across them.

        A pair (s, a) that was never seen with a successor becomes a self-loop: the data say nothing about where it
        leads, and any other guess (uniform, say) would invent connections through which the values of unrelated
        states leak into each other, and would fill the sparse matrix.
        The `valid_actions` of the demonstrations are taken over; all actions are valid where they have none.
        """
        S, A = int(demos.n_states), int(demos.n_actions)
        first, followed = demos.first_steps, sparse.csr_array((S * A, S))
        for begin in range(0, len(first) - 1, PIECE):  # a piece of the data at a time, which may be mapped
            now = begin + np.flatnonzero(~first[begin + 1 : begin + 1 + PIECE])
            # Demonstrations use the smallest integer type that fits, in which s·A + a would overflow.
            pair = demos.states[now].astype(np.int64) * A + demos.actions[now]
            entries = pair, demos.states[now + 1].astype(np.int64)
            followed = followed + sparse.coo_array((np.ones(len(now)), entries), shape=(S * A, S)).tocsr()
        unseen = np.flatnonzero(followed.sum(axis=1) == 0)
        loops = sparse.coo_array((np.ones(len(unseen)), (unseen, unseen // A)), shape=(S * A, S))
        counts = followed + loops.tocsr()
        return cls(sparse.diags_array(1.0 / counts.sum(axis=1)) @ counts, discount, demos.valid_actions)

    def closed(self, states: npt.ArrayLike) -> MDP:
        """The same world in which some states cannot be entered: whoever tries stays where he is."""
        P, shut = self.transitions.tocoo(), np.asarray(states, dtype=np.int64)
        here = P.row // self.n_actions
        to = np.where(np.isin(P.col, shut), here, P.col)
        return MDP(sparse.coo_array((P.data, (P.row, to)), P.shape), self.discount, self.valid_actions)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that, with the number of states and the discount, determine the MDP."""
        P = self.transitions
        return {"data": P.data, "indices": P.indices, "indptr": P.indptr, "valid": self.valid_actions}

    @classmethod
    def from_state(cls, n_states: int, discount: float, state: Mapping[str, npt.NDArray[Any]]) -> MDP:
        """Undo `state`; indices out of range, which compiled code would follow anywhere, are refused."""
        valid = state["valid"].astype(bool)
        data, indices, indptr = rows = state["data"], state["indices"], state["indptr"]
        if not (
            valid.ndim == 2
            and len(valid) == n_states
            and indptr.shape == (valid.size + 1,)
            and data.shape == indices.shape == (int(indptr[-1]),)
            and indptr.dtype.kind == indices.dtype.kind == "i"
            and data.dtype.kind == "f"
            and indptr[0] == 0
            and (np.diff(indptr) >= 0).all()
            and (not indices.size or (indices.min() >= 0 and indices.max() < n_states))
        ):
            raise InputError("The saved transitions are damaged: their indices do not fit; restore the file.")
        matrix = sparse.csr_array(rows, shape=(valid.size, n_states))
        mdp = cls(matrix, discount, valid)
        mdp.transitions = matrix  # exactly as saved: rescaling rows once more would move the last digit
        return mdp

    def mean_transitions(self) -> Any:
        """P̄(s'|s): average of P(s'|s, a) over the valid actions of s, a sparse (S, S) array."""
        return self.policy_transitions(self.valid_actions / self.valid_actions.sum(axis=1, keepdims=True))

    def expected_values(self, values: npt.ArrayLike) -> FloatArray:
        """Σ_s' P(s'|s, a) V(s') for values (…, S): array (…, S, A), zero for invalid actions."""
        v = np.asarray(values, dtype=np.float64)
        if v.shape[-1:] != (self.n_states,):
            raise InputError(f"The values have shape {v.shape}; their last axis must be S = {self.n_states}.")
        flat: FloatArray = (self.transitions @ v.reshape(-1, self.n_states).T).T
        return flat.reshape(*v.shape[:-1], self.n_states, self.n_actions)

    def action_values(self, reward: npt.ArrayLike, values: npt.ArrayLike) -> FloatArray:
        """Q(s, a) = r(s, a) + γ Σ_s' P(s'|s, a) V(s'): array (…, S, A), −inf for invalid actions.

        A reward (…, S) is received in s, whatever the action; an array whose last two axes are (S, A) is always read as
        state-action rewards. Leading axes of values V (…, S) broadcast with those of the reward (K intentions, say).
        """
        q: FloatArray = self._state_action(reward) + self.discount * self.expected_values(values)
        return np.where(self.valid_actions, q, -np.inf)

    def value_iteration(
        self, reward: npt.ArrayLike, tolerance: float = 1e-10, max_iterations: int = 100_000
    ) -> tuple[FloatArray, FloatArray]:
        """Optimal (q, v) of shapes (…, S, A) and (…, S); rewards as in `action_values`.

        The error of v is at most `tolerance` · max(1, max |v|), guaranteed by MacQueen's bounds.
        """
        return self._iterate(lambda q: q.max(axis=-1), reward, tolerance, max_iterations)

    def soft_value_iteration(
        self,
        reward: npt.ArrayLike,
        temperature: float = 1.0,
        tolerance: float = 1e-10,
        max_iterations: int = 100_000,
    ) -> tuple[FloatArray, FloatArray]:
        """Soft-optimal (q, v) with V(s) = τ log Σ_a exp(Q(s, a)/τ) over valid actions; else as `value_iteration`."""
        if not (np.isfinite(temperature) and temperature > 0):
            raise InputError(f"The temperature is {temperature}; give a finite number above 0.")

        def soft_maximum(q: FloatArray) -> FloatArray:
            top = q.max(axis=-1)
            v: FloatArray = top + temperature * np.log(np.exp((q - top[..., None]) / temperature).sum(axis=-1))
            return v

        return self._iterate(soft_maximum, reward, tolerance, max_iterations)

    def policy_evaluation(self, policy: npt.ArrayLike, reward: npt.ArrayLike) -> FloatArray:
        """V = (I − γ P_π)⁻¹ r_π, exactly, for policies (…, S, A) and rewards as in `action_values`: (…, S)."""
        p = np.asarray(policy, dtype=np.float64)
        shape = (self.n_states, self.n_actions)
        if p.shape[-2:] != shape:
            raise InputError(f"The policy has shape {p.shape}; its last two axes must be (S, A) = {shape}.")
        allowed = np.where(self.valid_actions, p, 0.0)
        bad = ~((np.abs(allowed.sum(axis=-1) - 1) <= 1e-6) & (p >= 0).all(axis=-1) & (p.sum(axis=-1) <= 1 + 1e-6))
        if bad.any():
            raise InputError(
                f"The policy in state {np.argwhere(bad)[0, -1]} is not a distribution over its valid actions; "
                "give probabilities that sum to 1 and are 0 for invalid actions."
            )
        r_pi = (allowed * np.where(self.valid_actions, self._state_action(reward), 0.0)).sum(axis=-1)
        policies = np.broadcast_to(allowed, (*r_pi.shape, self.n_actions)).reshape(-1, *shape)
        identity, values = sparse.eye_array(self.n_states), np.empty((len(policies), self.n_states))
        for v, pi, r in zip(values, policies, r_pi.reshape(values.shape), strict=True):
            v[:] = factorize(identity - self.discount * self.policy_transitions(pi))(r)
        return values.reshape(r_pi.shape)

    def level(self, reward: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The one reward (…, S, A) among all shapings of this one that averages to 0 over the valid actions of a state.

        c(s, a) = r(s, a) + γ Σ_s' P(s'|s, a) U(s') − U(s), where U = (I − γP̄)⁻¹ r̄, (…, S), are the values of the policy
        that is uniform over valid actions. Shaping r by Φ turns U into U − Φ and leaves c as it is, so that c is the
        same for every reward on (s, a) that explains the same policy; where there is one action only it is 0. Rewards
        are as in `action_values`. Returns c, zero for invalid actions, and U, by which values of c are smaller.
        """
        r = np.where(self.valid_actions, self._state_action(reward), 0.0)
        mean = r.sum(axis=-1) / self.valid_actions.sum(axis=1)
        solve = factorize(sparse.eye_array(self.n_states) - self.discount * self.mean_transitions())
        ahead: FloatArray = solve(mean.reshape(-1, self.n_states).T).T.reshape(mean.shape)
        advantages = self.action_values(r, ahead) - ahead[..., None]
        single = (self.valid_actions.sum(axis=1) == 1)[:, None]  # exactly nothing, and not what rounding leaves
        return np.where(self.valid_actions & ~single, advantages, 0.0), ahead

    def __repr__(self) -> str:
        return (
            f"MDP({self.n_states} states, {self.n_actions} actions, {int(self.valid_actions.sum())} valid pairs, "
            f"{self.transitions.nnz} transitions, discount {self.discount:g})"
        )

    def _check_rows(self, matrix: Any) -> Any:
        valid = self.valid_actions.ravel()
        keep = valid[matrix.row]
        row, column, data = matrix.row[keep], matrix.col[keep], np.asarray(matrix.data[keep], dtype=np.float64)
        wrong = np.flatnonzero(~(np.isfinite(data) & (data >= 0)))
        if len(wrong):
            s, a = divmod(int(row[wrong[0]]), self.n_actions)
            raise InputError(
                f"P(s'={column[wrong[0]]} | s={s}, a={a}) is {data[wrong[0]]}; probabilities must be finite and at "
                "least 0."
            )
        total = np.bincount(row, weights=data, minlength=len(valid))
        wrong = np.flatnonzero(valid & (np.abs(total - 1) > 1e-6))
        if len(wrong):
            s, a = divmod(int(wrong[0]), self.n_actions)
            raise InputError(
                f"The probabilities of action {a} in state {s} sum to {total[wrong[0]]:.6g} instead of 1; normalise "
                "the row, or mark the action as invalid in valid_actions."
            )
        # Without rescaling, float32 tables whose rows sum to 1 + 1e-7 would exceed a discount very close to 1.
        normal = sparse.coo_array((data / total[row], (row, column)), shape=matrix.shape).tocsr()
        normal.eliminate_zeros()
        return normal

    def _state_action(self, reward: npt.ArrayLike) -> FloatArray:
        r = np.asarray(reward, dtype=np.float64)
        shape = (self.n_states, self.n_actions)
        if r.shape[-2:] != shape:
            if r.shape[-1:] != shape[:1]:
                raise InputError(
                    f"The reward has shape {r.shape}; it must end in (S, A) = {shape} or in S = {shape[0]}."
                )
            r = np.broadcast_to(r[..., None], (*r.shape, self.n_actions))
        wrong = np.argwhere(~np.isfinite(r) & self.valid_actions)
        if len(wrong):
            raise InputError(f"The reward of action {wrong[0, -1]} in state {wrong[0, -2]} is not finite; replace it.")
        return r

    def policy_transitions(self, policy: npt.NDArray[Any]) -> Any:
        """P_π(s'|s) = Σ_a π(a|s) P(s'|s, a) for a policy (S, A): a sparse (S, S) array."""
        size = self.n_states * self.n_actions
        pointers = np.arange(0, size + 1, self.n_actions)
        mix = sparse.csr_array((policy.ravel(), np.arange(size), pointers), shape=(self.n_states, size))
        return mix @ self.transitions

    def _iterate(
        self, backup: Callable[[FloatArray], FloatArray], reward: npt.ArrayLike, tolerance: float, max_iterations: int
    ) -> tuple[FloatArray, FloatArray]:
        r = self._state_action(reward)
        v = np.zeros(r.shape[:-1])
        horizon = self.discount / (1 - self.discount)
        for _ in range(max_iterations):
            new = backup(self.action_values(r, v))
            change = new - v
            low, high = change.min(axis=-1, keepdims=True), change.max(axis=-1, keepdims=True)
            # MacQueen's bounds: v* − new lies between horizon·low and horizon·high. Stepping to their middle costs
            # nothing, and the remaining error shrinks with the span of the change, which is faster than its maximum.
            v = new + horizon * (low + high) / 2
            error = horizon * (high - low) / 2
            if (error <= tolerance * np.maximum(1, np.abs(v).max(axis=-1, keepdims=True))).all():
                return self.action_values(r, v), v
        raise InputError(
            f"Value iteration did not reach tolerance {tolerance:g} in {max_iterations} iterations; raise "
            "max_iterations or tolerance, or lower the discount."
        )


def boltzmann(q: npt.ArrayLike, inverse_temperature: float = 1.0) -> FloatArray:
    """Boltzmann policy π(a|s) ∝ exp(β Q(s, a)) for q (…, S, A); actions with Q = −inf are invalid and get 0."""
    values = np.asarray(q, dtype=np.float64)
    if not (np.isfinite(inverse_temperature) and inverse_temperature >= 0):
        raise InputError(f"The inverse temperature is {inverse_temperature}; give a finite number of at least 0.")
    valid = values != -np.inf
    top = values.max(axis=-1, keepdims=True)
    if not np.isfinite(top).all():
        state = np.argwhere(~np.isfinite(top))[0, -2] if values.ndim > 1 else 0
        raise InputError(f"Q in state {state} has no finite maximum; give each state a valid action and no NaN.")
    # Q − max first, so that β = 0 never meets 0 · inf.
    weight = np.where(valid, np.exp(inverse_temperature * np.where(valid, values - top, 0.0)), 0.0)
    policy: FloatArray = weight / weight.sum(axis=-1, keepdims=True)
    return policy


def factorize(matrix: Any, method: Literal["auto", "dense", "sparse"] = "auto") -> Solver:
    """LU-factor a sparse (S, S) array once; return a function that solves for right-hand sides (S,) or (S, K).

    "auto" takes dense LU for small matrices and for those with many successors per state: the sparse factors of
    random successors fill in and are several times slower, those of grids and mazes do not.
    """
    n = matrix.shape[0]
    if method == "auto":
        crowded = matrix.nnz > 6 * n and n <= 8192  # 8192² doubles are 0.5 GB
        method = "dense" if n <= 200 or crowded else "sparse"
    if method == "dense":
        lu = linalg.lu_factor(matrix.toarray(), overwrite_a=True)
        return lambda b: np.asarray(linalg.lu_solve(lu, b), dtype=np.float64)
    factors = splu(sparse.csc_array(matrix))
    return lambda b: np.asarray(factors.solve(np.ascontiguousarray(b)), dtype=np.float64)
