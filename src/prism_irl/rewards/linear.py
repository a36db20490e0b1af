"""Gaussian policies that are linear in the observation: continuous states and actions, without tokens.

    y_t ~ N(W_k φ(x_t), Σ_k),     φ(x) = (1, x)  or  (1, x, √(2/p) cos(Ω x + b))   random Fourier features

x are standardised observations and y standardised commands (`data.continuous`). With the conjugate prior
W_k | Σ_k ~ matrix normal(0, I/λ, Σ_k) and Σ_k inverse Wishart (or inverse gamma per command, where Σ_k is diagonal) the
M-step has one solution, so that EM never falls:

    W_k = (Φᵀ D_k Φ + λ I)⁻¹ Φᵀ D_k Y         D_k the responsibilities
    Σ_k = (residuals_k + λ W_k W_kᵀ + ν s² I) / (n_k + p + ν + 2)      or one Σ, from the sums over k

Fourier features bend the policies (length scale in standard deviations); linear ones are the safer default, since free
policies are not identified where the world has walls: a wrong solution can be likelier than the true one. The score is
a log *density* of commands, never comparable with the probability of a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import log_softmax

from prism_irl.arrays import BoolArray, FloatArray
from prism_irl.data.batching import Prepared, Rows, Stats
from prism_irl.data.contexts import Contexts
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.mapped import chunks
from prism_irl.errors import InputError
from prism_irl.rewards.base import IntArray, RewardModel
from prism_irl.rewards.tabular import TabularPolicies, normalise

ROWS = 2**14
"""Steps at a time: their features fit into the cache of a processor."""
RIDGES = (1.0, 0.1, 10.0, 100.0)
"""Strengths of the prior that "auto" tries, the usual one first."""
BENT, SCALES = 64, (1.0, 0.5, 2.0)
"""Fourier features that "auto" tries, and length scales relative to the usual distance √(d/2) of d observations."""


def candidates(ridge: Any, fourier: Any, length_scale: Any, n_observations: int) -> list[dict[str, Any]]:
    """Every choice of what is "auto" among the three, the usual one first; empty where nothing is."""
    if "auto" not in (ridge, fourier, length_scale):
        return []
    usual = max(n_observations / 2.0, 1.0) ** 0.5
    scales = [scale * usual for scale in SCALES] if length_scale == "auto" else [length_scale]
    bent = [BENT] if fourier == "auto" else [fourier] if fourier else []
    straight = [(0, scales[0])] if fourier in ("auto", 0) else []
    shapes = straight + [(n, scale) for n in bent for scale in scales]
    ridges = RIDGES if ridge == "auto" else (ridge,)
    return [{"ridge": r, "fourier": n, "length_scale": scale} for n, scale in shapes for r in ridges]


class Basis:
    """φ(x), (n, p): a constant, the observation, and random Fourier features where there are any.

    ``length_scale`` is the distance, in standard deviations of the observations, over which policies may bend.
    """

    def __init__(self, n_observations: int, n_fourier: int = 0, length_scale: float = 1.0) -> None:
        self.n_observations, self.n_fourier = n_observations, n_fourier
        generator = np.random.default_rng(0)  # which features are drawn is no part of a fit's randomness
        self.frequencies: FloatArray = generator.standard_normal((n_observations, n_fourier)) / length_scale
        self.phases: FloatArray = generator.uniform(0.0, 2.0 * np.pi, n_fourier)

    @property
    def size(self) -> int:
        """Number p of features."""
        return 1 + self.n_observations + self.n_fourier

    def __call__(self, observations: npt.NDArray[np.floating]) -> FloatArray:
        """Features (n, p) of observations (n, d)."""
        result = np.empty((len(observations), self.size))
        result[:, 0] = 1.0
        result[:, 1 : 1 + self.n_observations] = observations
        if self.n_fourier:
            angles = observations @ self.frequencies + self.phases
            result[:, 1 + self.n_observations :] = np.sqrt(2.0 / self.n_fourier) * np.cos(angles)
        return result


class CommandPolicies(RewardModel):
    """Policies over commands y (n, m) given observations x (n, d), whose likelihood is a density."""

    is_density: ClassVar[bool] = True
    n_observations: int
    n_commands: int

    def observed(self, demos: Demonstrations) -> tuple[npt.NDArray[np.float32], FloatArray]:
        """Observations (n, d) and commands (n, m), of the sizes of the fit."""
        x, y = measured(demos)
        found, own = (x.shape[1], y.shape[1]), (self.n_observations, self.n_commands)
        if found != own:
            raise InputError(
                f"The data has {found[0]} observations and {found[1]} commands per step, those of the fit had {own[0]} "
                f"and {own[1]}."
            )
        return x, y

    def check(self, demos: Demonstrations) -> None:
        """Observations and commands of the sizes that were fitted."""
        self.observed(demos)

    def log_likelihood(self, data: Prepared) -> FloatArray:
        """Log density of every command under every intention, (n, K), in the units of the data."""
        x, y = self.observed(data.demos)
        found = [self.log_density(x[rows], y[rows]) for rows in chunks(len(x), ROWS)]
        return np.concatenate(found) - data.demos.log_volume

    def policies_at(self, rows: IntArray) -> FloatArray:
        """A density gives no probability to a cell of commands: uniform, (n, K, A)."""
        return np.full((len(rows), self.n_intentions, self.n_actions), 1.0 / self.n_actions)


class LinearPolicies(CommandPolicies):
    """Gaussian policies of K intentions over commands, linear in a basis of the observations.

    Parameters
    ----------
    n_actions : int
        Cells of the commands: what a token of an action is.
    ridge, noise, noise_strength : λ, s² and ν, see `rewards.options.Features`
    full, shared : bool
        Whether Σ_k has entries beside its diagonal, and whether all intentions have the same one.
    """

    adds_up: ClassVar[bool] = True
    closed_form: ClassVar[bool] = True

    def __init__(
        self,
        n_intentions: int,
        n_commands: int,
        basis: Basis,
        n_actions: int = 1,
        *,
        ridge: float = 1.0,
        noise: float = 0.01,
        noise_strength: float = 10.0,
        full: bool = False,
        shared: bool = False,
    ) -> None:
        self.n_intentions, self.n_actions, self.basis, self.full = n_intentions, n_actions, basis, full
        self.n_observations, self.n_commands = basis.n_observations, n_commands
        self.shared = shared
        self.ridge, self.noise, self.noise_strength = ridge, noise, noise_strength
        self.weights: FloatArray = np.zeros((n_intentions, n_commands, basis.size))
        self.covariances: FloatArray = np.tile(np.eye(n_commands), (n_intentions, 1, 1))

    def statistics(self, data: Prepared, weights: FloatArray) -> Stats:
        """Weighted products of features and commands with one another, and the weights, flat."""
        return Stats(products=self.products(*self.observed(data.demos), weights))

    def products(self, x: npt.NDArray[np.floating], y: FloatArray, responsibilities: FloatArray) -> FloatArray:
        """Weighted products, flat, of observations (n, d) and commands (n, m).

        Of a shared covariance only the sum of the commands' own products over k is ever asked for: it stands at k = 0.
        """
        K, m, p = self.weights.shape
        sums = np.zeros((K, p + m, p + m))
        for rows in chunks(len(x), ROWS):
            joined = np.concatenate([self.basis(x[rows]), y[rows]], axis=1)
            weighted = joined[:, :p] if self.shared else joined
            for k, w in enumerate(responsibilities[rows].T):
                sums[k, : weighted.shape[1]] += (weighted * w[:, None]).T @ joined
            if self.shared:
                whole = responsibilities[rows].sum(axis=1, keepdims=True)
                sums[0, p:, p:] += (joined[:, p:] * whole).T @ joined[:, p:]
        return np.concatenate([sums.ravel(), responsibilities.sum(axis=0)])

    def update(self, stats: Stats) -> None:
        """Weighted ridge regression."""
        K, m, p = self.weights.shape
        sums, sizes = stats["products"][:-K].reshape(K, p + m, p + m), stats["products"][-K:]
        prior = self.noise_strength * self.noise
        scatters = np.empty((K, m, m))
        for k in range(K):
            gram, cross, square = sums[k, :p, :p], sums[k, :p, p:], sums[k, p:, p:]
            theta = np.linalg.solve(gram + self.ridge * np.eye(p), cross)  # (p, m)
            scatter = square - cross.T @ theta  # residuals plus λ W Wᵀ, of the solution
            scatters[k] = 0.5 * (scatter + scatter.T)
            self.weights[k] = theta.T
        if self.shared:
            scatters, sizes, p = scatters.sum(axis=0, keepdims=True), sizes.sum(keepdims=True), K * p
        scatters += prior * np.eye(m)
        if not self.full:
            scatters = np.stack([np.diag(np.maximum(np.diag(scatter), prior)) for scatter in scatters])
        self.covariances[:] = scatters / (sizes + p + self.noise_strength + self._shape())[:, None, None]

    def _shape(self) -> float:
        """What the prior of a covariance adds to its degrees of freedom at the mode."""
        return self.weights.shape[1] + 1.0 if self.full else 2.0

    def log_prior(self) -> float:
        """Matrix normal and inverse Wishart (inverse gamma, where diagonal), up to a constant."""
        K, m, p = self.weights.shape
        spreads = self.ridge * self.weights @ self.weights.transpose(0, 2, 1)
        covariances = self.covariances
        if self.shared:
            spreads, covariances, p = spreads.sum(axis=0, keepdims=True), covariances[:1], K * p
        total = 0.0
        for spread, covariance in zip(spreads, covariances, strict=True):
            precision = np.linalg.inv(covariance)
            whole = spread + self.noise_strength * self.noise * np.eye(m)
            total -= 0.5 * float((precision * whole).sum())
            total -= 0.5 * (p + self.noise_strength + self._shape()) * np.linalg.slogdet(covariance)[1]
        return total

    def log_density(self, observations: npt.NDArray[Any], commands: FloatArray, *design: FloatArray) -> FloatArray:
        """Log N(y; W_k φ(x), Σ_k), (n, K), of standardised commands (n, m) and observations (n, d)."""
        features, (K, m, _) = self.basis(observations), self.weights.shape
        result = np.empty((len(features), K))
        for k in range(K):
            if k == 0 or not self.shared:  # else commands are turned once for all intentions
                factor = np.linalg.cholesky(self.covariances[k])
                whiten = np.linalg.inv(factor).T if self.full else np.diag(1.0 / np.diag(factor))
                seen = commands @ whiten if self.full else commands / np.diag(factor)
                constant = m * np.log(2.0 * np.pi) + 2.0 * np.log(np.diag(factor)).sum()
            residual = seen - features @ (self.weights[k].T @ whiten)
            result[:, k] = -0.5 * (np.einsum("nm,nm->n", residual, residual) + constant)
        return result

    def state(self) -> dict[str, FloatArray]:
        """Weights, covariances and the frequencies of the basis."""
        basis = {"frequencies": self.basis.frequencies, "phases": self.basis.phases} if self.basis.n_fourier else {}
        return {"weights": self.weights, "covariances": self.covariances, **basis}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`."""
        self._set_arrays(state, "weights", "covariances")
        if self.basis.n_fourier:
            self.basis.frequencies, self.basis.phases = state["frequencies"].copy(), state["phases"].copy()


def measured(demos: Demonstrations) -> tuple[npt.NDArray[np.float32], FloatArray]:
    """Observations (n, d) and commands (n, m), or say what is missing."""
    if demos.observations is None or demos.motions is None:
        raise InputError("These policies read observations and commands; name the columns with --observe and --act.")
    return demos.observations, demos.motions


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
    ridge, noise, noise_strength : see `rewards.options.Features`
    """

    is_density: ClassVar[bool] = True
    closed_form: ClassVar[bool] = True

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
        self.n_intentions, self.n_actions, self.tokens = n_intentions, tokens.n_actions, tokens
        self.ridge, self.noise, self.noise_strength = ridge, noise, noise_strength
        self.blocks = np.asarray(noise_blocks, dtype=np.int64)
        self.n_blocks = int(self.blocks.max()) + 1
        self.weights: FloatArray = np.zeros((n_intentions, n_weights))
        self.variances: FloatArray = np.ones((n_intentions, self.n_blocks))

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

    def log_density(self, observations: npt.NDArray[Any], commands: FloatArray, *design: FloatArray) -> FloatArray:
        """Log N(y; Σ_j θ_kj φ_j, σ²_k), (n, K), of commands (n, m) given their vectors (n, m, p) alone."""
        if not design:
            raise InputError("Gaussian policies filter commands; give motion and design of the step.")
        result = np.empty((len(commands), self.n_intentions))
        for k, (weights, variances) in enumerate(zip(self.weights, self.variances[:, self.blocks], strict=True)):
            squared = (commands - design[0] @ weights) ** 2 / variances
            result[:, k] = -0.5 * (squared + np.log(2.0 * np.pi * variances)).sum(axis=1)
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
    ridge : float
        Precision of the prior on the weights (not on the intercepts, which get a hundredth of it).
    steps : int
        L-BFGS steps per M-step, from where the last one ended: a generalised EM.
    """

    learned: ClassVar[tuple[str, ...]] = ("weights", "centre", "scale", "policies", "counts")

    def __init__(
        self,
        n_intentions: int,
        n_actions: int,
        n_features: int,
        contexts: Contexts,
        valid_actions: BoolArray | None = None,
        *,
        ridge: float = 1.0,
        steps: int = 10,
    ) -> None:
        if contexts.parents:
            raise InputError("Policies on features have no history of states; put the past into the features.")
        self.n_intentions, self.n_actions, self.valid = n_intentions, n_actions, valid_actions
        self.steps = steps
        self.weights: FloatArray = np.zeros((n_intentions, n_actions, n_features + 1))
        self.penalty = ridge * np.append(np.ones(n_features), 0.01)
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
        from scipy.optimize import minimize  # here, because importing it takes longer than a fit that only counts

        for k, w in enumerate(weights.T):

            def loss(flat: FloatArray, w: FloatArray = w) -> tuple[float, FloatArray]:
                theta = flat.reshape(self.weights.shape[1:])
                logits = log_softmax(x @ theta.T + mask, axis=1)
                value = -float(w @ logits[np.arange(len(x)), actions]) + 0.5 * float((self.penalty * theta**2).sum())
                gradient = (w[:, None] * (np.exp(logits) - taken)).T @ x + self.penalty * theta
                return value / len(x), gradient.ravel() / len(x)

            start, options = self.weights[k].ravel(), {"maxiter": self.steps}
            found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
            self.weights[k] = found.x.reshape(self.weights.shape[1:])
            seen = visits @ (w[:, None] * np.exp(log_softmax(x @ self.weights[k].T + mask, axis=1)))
            self.policies[k] = normalise(seen, np.exp(log_softmax(self._mask(np.arange(len(seen))), axis=1)))
            self.counts[k] = visits @ (w[:, None] * taken)

    def log_prior(self) -> float:
        """Gaussian prior on the weights, up to a constant."""
        return float(-0.5 * (self.penalty * self.weights**2).sum())

    def log_likelihood(self, data: Prepared) -> FloatArray:
        """Log π_k(a_t | x_t), (n, K)."""
        demos = data.demos
        x, mask = self._features(_observations(demos, len(self.centre))), self._mask(demos.states)
        steps = np.arange(len(x))
        return np.stack([log_softmax(x @ w.T + mask, axis=1)[steps, demos.actions] for w in self.weights], axis=1)

    def policies_along(self, data: Prepared, steps: IntArray) -> FloatArray:
        """π_k(a | x_t) at flat steps, (m, K, A)."""
        observations = _observations(data.demos, len(self.centre))[steps]
        return self.policies_given(steps, data.demos.states[steps], observations)

    def policies_given(self, rows: IntArray, states: IntArray, observations: FloatArray | None) -> FloatArray:
        """π_k(a | x) at observations (n, d) in state tokens (n,), (n, K, A)."""
        if observations is None:
            raise InputError("Softmax policies on features read an observation at every step; give it.")
        x, mask = self._features(observations), self._mask(states)
        return np.stack([np.exp(log_softmax(x @ w.T + mask, axis=1)) for w in self.weights], axis=1)

    def check(self, demos: Demonstrations) -> None:
        """Observations of the size that was fitted."""
        _observations(demos, len(self.centre))

    def policies_at(self, rows: IntArray) -> FloatArray:
        """The policy that each state token saw on average, (n, K, A)."""
        return self.policies[:, rows].transpose(1, 0, 2)

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


FEATURES = 100
RIDGE = 0.01


@dataclass(frozen=True, eq=False)
class StateReward:
    """Rewards g_k and values V_k of K intentions, linear in a basis of standardised observations.

    ``rewards`` and ``values`` (K, p) are coefficients, ``efforts`` (K, 2) those of |a|² and 1.
    """

    basis: Basis
    rewards: FloatArray
    values: FloatArray
    efforts: FloatArray

    @classmethod
    def solve(
        cls,
        log_policy: FloatArray,
        observations: npt.NDArray[Any],
        commands: FloatArray,
        first_steps: BoolArray,
        weights: FloatArray,
        *,
        discount: float,
        ridge: float = RIDGE,
    ) -> Self:
        """Solve for all intentions, at standardised observations (n, d) and commands (n, m).

        Of log π_k(a_t | s_t) (n, K) and responsibilities (n, K); the step before a first one has no successor.
        """
        K, basis = log_policy.shape[1], bent_basis(observations.shape[1])
        p, size = basis.size, 2 * basis.size + 2
        gram, cross = np.zeros((K, size, size)), np.zeros((K, size))
        here = np.flatnonzero(~first_steps) - 1
        for rows in chunks(len(here), ROWS // 4):  # wider rows than those of a policy
            t = here[rows]
            now, then = basis(observations[t]), basis(observations[t + 1])
            effort = np.stack([(commands[t] ** 2).sum(axis=1), np.ones(len(t))], axis=1)
            x = np.concatenate([discount * then - now, then, effort], axis=1)
            for k in range(K):
                w = weights[t, k]
                gram[k] += (x * w[:, None]).T @ x
                cross[k] += x.T @ (w * log_policy[t, k])
        found = np.stack([np.linalg.solve(g + ridge * np.eye(size), c) for g, c in zip(gram, cross, strict=True)])
        return cls(basis, found[:, p : 2 * p], found[:, :p], found[:, 2 * p :])

    def at(self, observations: npt.NDArray[Any]) -> FloatArray:
        """g_k(x), (n, K), at standardised observations (n, d)."""
        return np.asarray(self.basis(observations) @ self.rewards.T)

    def values_at(self, observations: npt.NDArray[Any]) -> FloatArray:
        """V_k(x), (n, K)."""
        return np.asarray(self.basis(observations) @ self.values.T)

    def state(self) -> dict[str, FloatArray]:
        """Arrays that determine it."""
        own = {"rewards": self.rewards, "values": self.values, "efforts": self.efforts}
        return {**own, "frequencies": self.basis.frequencies, "phases": self.basis.phases}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self | None:
        """Undo `state`; None where nothing was kept."""
        if not state:
            return None
        basis = Basis(state["frequencies"].shape[0], state["frequencies"].shape[1])
        basis.frequencies, basis.phases = state["frequencies"], state["phases"]
        return cls(basis, state["rewards"], state["values"], state["efforts"])


def bent_basis(n_observations: int) -> Basis:
    """Fourier features that bend within about half a spread in two dimensions, more slowly in more."""
    return Basis(n_observations, FEATURES, 0.5 * np.sqrt(n_observations / 2.0))


def learn_state_reward(data: Prepared, weights: FloatArray, discount: float) -> StateReward:
    """Rewards of the intentions behind responsibilities (n, K), whatever policies found these.

    The equation needs log π_k as it is and not the linear policy that a segmentation gets along with, so bent policies
    are fitted to the same responsibilities first.
    """
    demos, (x, y) = data.demos, measured(data.demos)
    policies = LinearPolicies(weights.shape[1], y.shape[1], bent_basis(x.shape[1]))
    policies.m_step(data, weights)
    log_policy = policies.log_likelihood(data) + demos.log_volume
    return StateReward.solve(log_policy, x, y, demos.first_steps, weights, discount=discount)
