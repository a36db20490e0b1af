"""Policies that share parameters across states: a few weights per intention, fitted by weighted regression.

A table ties intention k in state s to intention k in state s' by nothing but time, which on finely tokenised robot
demonstrations is too little (label accuracy 0.3 where Gaussian chains reach 0.6). Here an intention is a vector:

    Gaussian  y_t ~ N(Σ_j θ_kj φ_tj, diag σ²_k)          over continuous commands (`Demonstrations.continuous`)
    softmax   π_k(a | x_t) ∝ exp(w_ka · x_t + b_ka)       over action tokens, x_t the observation vector

The M-step is a ridge regression with responsibilities as weights: closed form for the Gaussian, L-BFGS for the
softmax. Without a design, Gaussian policies are linear in the observations (`rewards.linear`). A Gaussian scores a
*density* of a command, whose unit depends on the command's; it is never compared with the probability of a token.
Rewards follow per token as before, from the policy that each token sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prism_irl.core.stats import Rows, Stats
from prism_irl.data.batching import Prepared
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.rewards.base import FloatArray, IntArray, RewardModel
from prism_irl.rewards.tabular import TabularPolicies


class GaussianPolicies(RewardModel):
    """Gaussian policies of K intentions, linear in given vectors.

    Parameters
    ----------
    n_intentions : int
    n_weights : int
        Number p of vectors in the design.
    noise_blocks : tuple of m ints
        Which dimensions of the command share a variance.
    tokens : TabularPolicies
        Weighted counts of action tokens per state token: what rewards are solved from, since a density gives a token
        no probability.
    ridge : float
        Precision λ of the prior θ ~ N(0, 1/λ).
    noise, noise_strength : float
        Prior guess of a variance and how many commands it is worth; keeps an intention from collapsing on a point.
    """

    is_density: ClassVar[bool] = True

    def __init__(
        self,
        n_intentions: int,
        n_weights: int,
        noise_blocks: tuple[int, ...],
        tokens: TabularPolicies,
        *,
        ridge: float = 1.0,
        noise: float = 0.01,
        noise_strength: float = 10.0,
    ) -> None:
        if not (ridge > 0 and noise > 0 and noise_strength > 0):
            raise InputError("The ridge, the noise and its strength must be above 0.")
        self.n_intentions, self.n_actions, self.tokens = n_intentions, tokens.n_actions, tokens
        self.ridge, self.noise, self.noise_strength = ridge, noise, noise_strength
        self.blocks = np.asarray(noise_blocks, dtype=np.int64)
        self.n_blocks = int(self.blocks.max()) + 1
        self.weights: FloatArray = np.zeros((n_intentions, n_weights))
        self.variances: FloatArray = np.ones((n_intentions, self.n_blocks))

    @property
    def exact(self) -> bool:
        """Both parts of the M-step are in closed form."""
        return True

    def statistics(self, data: Prepared, weights: FloatArray) -> Stats:
        """Weighted products of vectors and commands per noise block, the weights, and counts of tokens."""
        motions, design = with_motions(data.demos)
        K, G, p = self.n_intentions, self.n_blocks, self.weights.shape[1]
        gram, cross, square = np.empty((K, G, p, p)), np.empty((K, G, p)), np.empty((K, G))
        for block in range(G):
            dimensions = np.flatnonzero(self.blocks == block)
            rows = design[:, dimensions].reshape(-1, p)
            y = motions[:, dimensions].reshape(-1)
            for k in range(K):
                w = np.repeat(weights[:, k], len(dimensions))
                weighted = rows * w[:, None]
                gram[k, block], cross[k, block] = weighted.T @ rows, weighted.T @ y
                square[k, block] = float(w @ y**2)
        own = Stats(gram=gram, cross=cross, square=square, sizes=weights.sum(0))
        return own + self.tokens.statistics(data, weights)

    def update(self, stats: Stats) -> None:
        """Weights given the variances, then variances given the weights: neither lowers likelihood plus prior."""
        K, p = self.weights.shape
        gram, cross, square = stats["gram"], stats["cross"], stats["square"]
        sizes = stats["sizes"][:, None] * np.bincount(self.blocks)
        for k in range(K):
            precision = 1.0 / self.variances[k]
            normal = np.einsum("g,gpq->pq", precision, gram[k]) + self.ridge * np.eye(p)
            theta = np.linalg.solve(normal, precision @ cross[k])
            residual = square[k] - 2.0 * cross[k] @ theta + np.einsum("p,gpq,q->g", theta, gram[k], theta)
            self.weights[k] = theta
            self.variances[k] = (np.maximum(residual, 0.0) + self.noise_strength * self.noise) / (
                sizes[k] + self.noise_strength + 2.0
            )
        self.tokens.update(stats)

    def log_prior(self) -> float:
        """θ ~ N(0, 1/λ) and σ² ~ inverse gamma, up to a constant."""
        half = 0.5 * self.noise_strength
        variances = (half + 1.0) * np.log(self.variances) + half * self.noise / self.variances
        return float(-0.5 * self.ridge * (self.weights**2).sum() - variances.sum())

    def log_likelihood(self, data: Prepared) -> FloatArray:
        """Log density of every command under every intention, (n, K); not nats of a discrete action."""
        motions, design = with_motions(data.demos)
        return self.log_density(motions, motions, design)

    def log_density(
        self, observations: npt.NDArray[Any], commands: FloatArray, design: FloatArray | None = None
    ) -> FloatArray:
        """Log N(y; Σ_j θ_kj φ_j, σ²_k), (n, K), of commands (n, m) given their vectors (n, m, p) alone."""
        if design is None:
            raise InputError("Gaussian policies filter commands; give motion and design of the step.")
        motions = commands
        variances = self.variances[:, self.blocks]
        result = np.empty((len(motions), self.n_intentions))
        for k in range(self.n_intentions):
            squared = (motions - design @ self.weights[k]) ** 2 / variances[k]
            result[:, k] = -0.5 * (squared + np.log(2.0 * np.pi * variances[k])).sum(axis=1)
        return result

    def policies_at(self, rows: IntArray) -> FloatArray:
        """Weighted counts of action tokens at state tokens, (n, K, A)."""
        return self.tokens.policies_at(rows)

    def state(self) -> dict[str, FloatArray]:
        """Weights, variances and the token table."""
        return {"weights": self.weights, "variances": self.variances, **self.tokens.state()}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`."""
        self._set_arrays(state, "weights", "variances")
        self.tokens.load_state(state)

    def check(self, demos: Demonstrations) -> None:
        """Commands of the dimensions that were fitted."""
        shape, own = with_motions(demos)[1].shape[1:], (len(self.blocks), self.weights.shape[1])
        if shape != own:
            raise InputError(
                f"The commands have {shape[0]} dimensions and {shape[1]} design vectors, those of the fit had "
                f"{own[0]} and {own[1]}."
            )


class SoftmaxPolicies(RewardModel):
    """Softmax policies of K intentions over action tokens, linear in the observation vector.

    Parameters
    ----------
    n_intentions, n_actions, n_features : int
    contexts : Contexts
        State tokens; histories longer than one state have no meaning here.
    valid_actions : (S, A) bool, optional
        An invalid action has probability zero.
    ridge : float
        Precision of the prior on the weights (not on the intercepts, which get a hundredth of it).
    steps : int
        L-BFGS steps per M-step, from where the last one ended: a generalised EM.
    """

    def __init__(
        self,
        n_intentions: int,
        n_actions: int,
        n_features: int,
        contexts: Contexts,
        valid_actions: npt.NDArray[np.bool_] | None = None,
        *,
        ridge: float = 1.0,
        steps: int = 10,
    ) -> None:
        if not ridge > 0 or steps < 1:
            raise InputError("The ridge must be above 0, and the M-step needs at least one step.")
        if contexts.parents:
            raise InputError("Policies on features have no history of states; put the past into the features.")
        self.n_intentions, self.n_actions, self.valid = n_intentions, n_actions, valid_actions
        self.ridge, self.steps = ridge, steps
        self.weights: FloatArray = np.zeros((n_intentions, n_actions, n_features + 1))
        self.centre: FloatArray = np.zeros(n_features)
        self.scale: FloatArray = np.zeros(n_features)
        shape = (n_intentions, contexts.n_states, n_actions)
        self.policies: FloatArray = np.full(shape, 1.0 / n_actions)
        self.counts: FloatArray = np.zeros(shape)

    def statistics(self, data: Prepared, weights: FloatArray) -> Stats:
        """Observations, states, actions and weights of every step: what L-BFGS reads again and again."""
        demos = data.demos
        return Stats(rows=Rows(_observations(demos, len(self.centre)), demos.states, demos.actions, weights))

    def update(self, stats: Stats) -> None:
        """A few L-BFGS steps on the weighted log-likelihood plus log prior of each intention."""
        observed, states, actions, weights = stats["rows"].joined()
        if not self.scale.any():  # the first call fixes the units for good
            spread = observed.std(axis=0)
            self.centre, self.scale = observed.mean(axis=0), np.where(spread > 1e-9, spread, 1.0)
        x, mask = self._features(observed), self._mask(states)
        taken = np.zeros((len(x), self.n_actions))
        taken[np.arange(len(x)), actions] = 1.0
        visits = sparse.csr_array((np.ones(len(x)), (states, np.arange(len(x)))), (self.counts.shape[1], len(x)))
        penalty = self._penalty()
        from scipy.optimize import minimize  # here, because importing it takes longer than a fit that only counts

        for k, w in enumerate(weights.T):

            def loss(flat: FloatArray, w: FloatArray = w) -> tuple[float, FloatArray]:
                theta = flat.reshape(self.weights.shape[1:])
                logits = _log_softmax(x @ theta.T + mask)
                value = -float(w @ logits[np.arange(len(x)), actions]) + 0.5 * float((penalty * theta**2).sum())
                gradient = (w[:, None] * (np.exp(logits) - taken)).T @ x + penalty * theta
                return value / len(x), gradient.ravel() / len(x)

            found = minimize(
                loss, self.weights[k].ravel(), jac=True, method="L-BFGS-B", options={"maxiter": self.steps}
            )
            self.weights[k] = found.x.reshape(self.weights.shape[1:])
            probabilities = np.exp(_log_softmax(x @ self.weights[k].T + mask))
            seen = visits @ (w[:, None] * probabilities)
            total = seen.sum(axis=1, keepdims=True)
            uniform = np.exp(_log_softmax(self._mask(np.arange(len(seen)))))
            self.policies[k] = np.where(total > 0, seen / np.where(total > 0, total, 1.0), uniform)
            self.counts[k] = visits @ (w[:, None] * taken)

    def _penalty(self) -> FloatArray:
        penalty = np.full(self.weights.shape[1:], self.ridge)
        penalty[:, -1] *= 0.01
        return penalty

    def log_prior(self) -> float:
        """Gaussian prior on the weights, up to a constant."""
        return float(-0.5 * (self._penalty() * self.weights**2).sum())

    def log_likelihood(self, data: Prepared) -> FloatArray:
        """Log π_k(a_t | x_t), (n, K)."""
        demos = data.demos
        x, mask = self._features(_observations(demos, len(self.centre))), self._mask(demos.states)
        steps = np.arange(len(x))
        return np.stack([_log_softmax(x @ w.T + mask)[steps, demos.actions] for w in self.weights], axis=1)

    def policies_along(self, data: Prepared, steps: IntArray) -> FloatArray:
        """π_k(a | x_t) at flat steps, (m, K, A)."""
        observations = _observations(data.demos, len(self.centre))[steps]
        return self.policies_given(steps, data.demos.states[steps], observations)

    def policies_given(self, rows: IntArray, states: IntArray, observations: FloatArray | None) -> FloatArray:
        """π_k(a | x) at observations (n, d) in state tokens (n,), (n, K, A)."""
        if observations is None:
            raise InputError("Softmax policies on features read an observation at every step; give it.")
        x, mask = self._features(observations), self._mask(states)
        return np.stack([np.exp(_log_softmax(x @ w.T + mask)) for w in self.weights], axis=1)

    def check(self, demos: Demonstrations) -> None:
        """Observations of the size that was fitted."""
        _observations(demos, len(self.centre))

    def policies_at(self, rows: IntArray) -> FloatArray:
        """The policy that each state token saw on average, (n, K, A)."""
        return self.policies[:, rows].transpose(1, 0, 2)

    def state(self) -> dict[str, FloatArray]:
        """Weights, units, and the average policy and counts of every token."""
        names = ("weights", "centre", "scale", "policies", "counts")
        return {name: getattr(self, name) for name in names}

    def _features(self, observations: FloatArray) -> FloatArray:
        scaled = (observations - self.centre) / np.where(self.scale > 0, self.scale, 1.0)
        return np.concatenate([scaled, np.ones((len(scaled), 1))], axis=1)

    def _mask(self, states: npt.NDArray[np.integer]) -> FloatArray:
        if self.valid is None:
            return np.zeros((len(states), self.n_actions))
        return np.where(self.valid[states], 0.0, -np.inf)


def with_motions(demos: Demonstrations) -> tuple[FloatArray, FloatArray]:
    """Return commands (n, m) and their vectors (n, m, p), or say what is missing."""
    if demos.motions is None or demos.design is None:
        raise InputError(
            "Gaussian policies need continuous commands; give Demonstrations.continuous(…) or with_commands(…)."
        )
    return demos.motions, demos.design


def _observations(demos: Demonstrations, width: int) -> FloatArray:
    found = 0 if demos.observations is None else demos.observations.shape[1]
    if demos.observations is None or found != width:
        raise InputError(f"The policies read {width} features per step, the demonstrations have {found} observations.")
    return demos.observations.astype(np.float64)


def _log_softmax(logits: FloatArray) -> FloatArray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
