"""Small chains of intentions over tables, many of them: what the test against a habit fits to every surrogate.

    p(a_t | past) = Σ_k P(z_t=k | past) π_k(a_t | c_t),      P(z_t=k | z_{t-1}=j) = T[g_t]_jk

One compiled pass serves three models, which differ in the group g_t of the kernel alone: a Markov chain (one group), a
chain whose switches follow the state that was left, or a covariate (a group per state or quantile), and a mixture over
trajectories (a kernel that never switches). Policies back off over contexts as the habit's do. A fit of 25,000 steps
takes a twentieth of a second; for everything else there are the models themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.optional import compiled

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
STAY = 0.9
"""Probability of staying in the first kernel."""
SHRINKAGE = 8.0
"""Steps that the kernel of all groups is worth in the kernel of one."""
SMOOTHING = 0.5
"""Pseudo-count of every action at every state, of habits, too: nothing is sure of what it has seen once."""
LOOK = 5
"""Iterations between looks at the validation trajectories."""


@compiled()
def _passes(
    pairs: Any, groups: Any, offsets: Any, initial: Any, kernels: Any, table: Any, smooth: bool
) -> tuple[Any, Any, Any, Any, Any]:
    """Forward–backward over ragged steps: predicted, smoothed (n, K), log-likelihood (n,), first (K,), moves (G, K, K).

    ``table`` (P, K) is the probability of every pair of context and action under every intention.
    """
    n, K = len(pairs), len(initial)
    predicted, filtered, likelihood = np.empty((n, K)), np.empty((n, K)), np.empty(n)
    begun, moves, message = np.zeros(K), np.zeros(kernels.shape), np.empty(K)
    for i in range(len(offsets) - 1):
        for t in range(offsets[i], offsets[i + 1]):
            total = 0.0
            for k in range(K):
                p = 0.0
                if t == offsets[i]:
                    p = initial[k]
                else:
                    for j in range(K):
                        p += filtered[t - 1, j] * kernels[groups[t], j, k]
                predicted[t, k] = p
                filtered[t, k] = p * table[pairs[t], k]
                total += filtered[t, k]
            if total <= 0.0:  # an impossible action says nothing about intentions
                for k in range(K):
                    filtered[t, k] = predicted[t, k]
                likelihood[t] = -np.inf
                continue
            for k in range(K):
                filtered[t, k] /= total
            likelihood[t] = np.log(total)
        if not smooth:
            continue
        for t in range(offsets[i + 1] - 1, offsets[i], -1):  # filtered becomes smoothed, from the end
            for k in range(K):
                message[k] = filtered[t, k] / max(predicted[t, k], 1e-300)
            for j in range(K):
                gone, own = 0.0, filtered[t - 1, j]
                for k in range(K):
                    move = own * kernels[groups[t], j, k] * message[k]
                    moves[groups[t], j, k] += move
                    gone += move
                filtered[t - 1, j] = gone
        for k in range(K):
            begun[k] += filtered[offsets[i], k]
    return predicted, filtered, likelihood, begun, moves


@compiled()
def _policies(
    pairs: Any, weights: Any, parents: Any, n_states: int, valid: Any, strength: float, shared: Any, anchor: float
) -> Any:
    """Back-off policies from weighted choices, (P, K), for the pairs of C contexts and one that nobody knows.

    ``parents`` (C,) row of the context without its oldest symbol, −1 for a state; ``shared`` (S, A) what a state
    shrinks towards with ``anchor`` steps.
    """
    C, (_, A), K = len(parents), shared.shape, weights.shape[1]
    table = np.zeros(((C + 1) * A, K))
    for t in range(len(pairs)):
        for k in range(K):
            table[pairs[t], k] += weights[t, k]
    for c in range(C - 1, n_states - 1, -1):
        for a in range(A):
            for k in range(K):
                table[parents[c] * A + a, k] += table[c * A + a, k]
    for c in range(C + 1):
        for k in range(K):
            total = 0.0
            for a in range(A):
                if c == C:
                    value = 1.0
                elif c < n_states:
                    value = table[c * A + a, k] + SMOOTHING * valid[c, a] + anchor * shared[c, a]
                else:
                    value = table[c * A + a, k] + strength * table[parents[c] * A + a, k]
                table[c * A + a, k] = value
                total += value
            for a in range(A):
                table[c * A + a, k] /= total
    return table


@dataclass(eq=False)
class Encoded:
    """Steps of some data as numbers: pairs of context and action (n,), groups of the kernel (n,), offsets."""

    rows: IntArray
    pairs: IntArray
    groups: IntArray
    offsets: IntArray

    @classmethod
    def of(cls, demos: Demonstrations, contexts: Contexts, groups: IntArray | None = None) -> Encoded:
        """Encode data; states that the contexts do not name share the last row."""
        rows = contexts.encode(demos)
        pairs = rows * demos.n_actions + demos.actions
        return cls(rows, pairs, np.zeros(len(rows), np.int64) if groups is None else groups, demos.offsets)


class TableChain:
    """A chain of K intentions over contexts; without ``switches`` a mixture over trajectories.

    ``demos`` give sizes and valid actions, and the policy of all steps that those of intentions shrink towards.
    """

    def __init__(
        self,
        n_intentions: int,
        contexts: Contexts,
        demos: Demonstrations,
        backoff: float,
        *,
        n_groups: int = 1,
        switches: bool = True,
    ) -> None:
        K, self.contexts, self.backoff, self.switches = n_intentions, contexts, backoff, switches
        self.n_actions = demos.n_actions
        self.parents = np.concatenate([np.full(contexts.n_states, -1), *contexts.parents]).astype(np.int64)
        shape = contexts.n_states, demos.n_actions
        self.valid = np.ones(shape) if demos.valid_actions is None else demos.valid_actions.astype(np.float64)
        self.initial = np.full(K, 1.0 / K)
        kernel = np.eye(K) if not switches else np.full((K, K), (1 - STAY) / max(K - 1, 1))
        if switches:
            np.fill_diagonal(kernel, STAY if K > 1 else 1.0)
        self.kernels = np.repeat(kernel[None], n_groups, axis=0)
        data = Encoded.of(demos, contexts)
        everyone, nothing = np.ones((demos.n_steps, 1)), np.zeros(shape)
        self.one = _policies(data.pairs, everyone, self.parents, shape[0], self.valid, backoff, nothing, 0.0)
        self.shared = self.one[: shape[0] * shape[1], 0].reshape(shape).copy()
        self.table = np.repeat(self.one, K, axis=1)

    def learn_policies(self, data: Encoded, weights: FloatArray) -> None:
        """Policies from responsibilities (n, K)."""
        anchor = self.backoff if self.contexts.length > 1 else 0.0
        n_states = self.contexts.n_states
        self.table = _policies(
            data.pairs, weights, self.parents, n_states, self.valid, self.backoff, self.shared, anchor
        )

    def step(self, data: Encoded) -> float:
        """One iteration of EM; the likelihood per step that it began with."""
        _, smoothed, likelihood, begun, moves = self._passes(data, smooth=True)
        self.initial = (begun + 1e-3) / (begun + 1e-3).sum()
        if self.switches:
            total = moves.sum(0) + 1e-3
            kernel = total / total.sum(-1, keepdims=True)
            own = moves + (SHRINKAGE * kernel if len(moves) > 1 else 1e-3)
            self.kernels = own / own.sum(-1, keepdims=True)
        self.learn_policies(data, smoothed)
        return float(likelihood.mean())

    def _passes(self, data: Encoded, *, smooth: bool) -> Any:
        return _passes(data.pairs, data.groups, data.offsets, self.initial, self.kernels, self.table, smooth)

    def smoothed(self, data: Encoded) -> FloatArray:
        """P(z_t=k | everything), (n, K)."""
        found: FloatArray = self._passes(data, smooth=True)[1]
        return found

    def ratio(self, data: Encoded) -> FloatArray:
        """What the intentions add to their mean, log p(a | past) − log π(a | c_t) of every action, (n, A)."""
        predicted = self._passes(data, smooth=False)[0]
        A = self.n_actions
        chosen = np.einsum("nk,nak->na", predicted, self.table.reshape(-1, A, predicted.shape[1])[data.rows])
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log(chosen) - np.log(self.one.reshape(-1, A)[data.rows])
        # what is never done is in neither of them
        return np.asarray(np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0))

    def mean_log_likelihood(self, demos: Demonstrations) -> FloatArray:
        """Log-likelihood of every step under the one policy of all intentions, (n,)."""
        return np.asarray(np.log(self.one[Encoded.of(demos, self.contexts).pairs, 0]))

    def likelihood(self, data: Encoded) -> float:
        """Log-likelihood per step."""
        return float(self._passes(data, smooth=False)[2].mean())


def fit_chain(chain: TableChain, data: Encoded, held_out: Encoded, first: FloatArray, iterations: int) -> float:
    """EM from first responsibilities; leaves the chain where validation liked it best, and returns that likelihood."""
    chain.learn_policies(data, first)
    best, kept = -np.inf, dict(vars(chain))  # EM replaces arrays, and never writes into them
    for i in range(iterations):
        chain.step(data)
        if i % LOOK == LOOK - 1:
            score = chain.likelihood(held_out)
            if score > best:
                best, kept = score, dict(vars(chain))
            elif score < best - 1e-3:
                break
    vars(chain).update(kept)
    return best
