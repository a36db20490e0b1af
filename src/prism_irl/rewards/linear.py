"""Gaussian policies that are linear in the observation: continuous states and actions, without tokens.

    y_t ~ N(W_k φ(x_t), Σ_k),     φ(x) = (1, x)  or  (1, x, √(2/p) cos(Ω x + b))   random Fourier features

x are standardised observations and y standardised commands (`data.units`). With the conjugate prior
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
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from prism_irl.core.stats import Stats
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.mapped import chunks
from prism_irl.errors import InputError
from prism_irl.rewards.base import FloatArray, IntArray, RewardModel

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

    Parameters
    ----------
    n_observations : int
    n_fourier : int
        Number of Fourier features; 0 for a linear policy.
    length_scale : float
        Distance, in standard deviations of the observations, over which policies may bend.
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


class LinearPolicies(RewardModel):
    """Gaussian policies of K intentions over commands, linear in a basis of the observations.

    Parameters
    ----------
    n_intentions, n_commands : int
    basis : Basis
    n_actions : int
        Cells of the commands: what a token of an action is.
    ridge : float
        λ, the prior's strength in steps.
    noise, noise_strength : float
        s², prior guess of a variance, and how many commands ν it is worth.
    full : bool
        Commands may be correlated given the intention; else Σ_k is diagonal.
    shared : bool
        All intentions have the same Σ: fewer numbers to learn from few labels, as in linear discriminant analysis.
    """

    is_density: ClassVar[bool] = True
    adds_up: ClassVar[bool] = True

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
        if not (ridge > 0 and noise > 0 and noise_strength > 0):
            raise InputError("The ridge, the noise and its strength must be above 0.")
        self.n_intentions, self.n_actions, self.basis, self.full = n_intentions, n_actions, basis, full
        self.shared = shared
        self.ridge, self.noise, self.noise_strength = ridge, noise, noise_strength
        self.weights: FloatArray = np.zeros((n_intentions, n_commands, basis.size))
        self.covariances: FloatArray = np.tile(np.eye(n_commands), (n_intentions, 1, 1))

    @property
    def exact(self) -> bool:
        """The M-step is in closed form."""
        return True

    def statistics(self, data: Prepared, weights: FloatArray) -> Stats:
        """Weighted products of features and commands with one another, and the weights, flat."""
        x, y = observed(data.demos, self.basis.n_observations, self.weights.shape[1])
        return Stats(products=self.products(x, y, weights))

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

    def log_likelihood(self, data: Prepared) -> FloatArray:
        """Log density of every command under every intention, (n, K), in the units of the data."""
        x, y = observed(data.demos, self.basis.n_observations, self.weights.shape[1])
        result = np.empty((len(x), self.n_intentions))
        for rows in chunks(len(x), ROWS):
            result[rows] = self.log_density(x[rows], y[rows])
        volume = data.demos.log_volume
        return result - volume

    def log_density(
        self, observations: npt.NDArray[Any], commands: FloatArray, design: FloatArray | None = None
    ) -> FloatArray:
        """Log N(y; W_k φ(x), Σ_k), (n, K), of standardised commands (n, m) and observations (n, d)."""
        features = self.basis(observations)
        K, m, _ = self.weights.shape
        result = np.empty((len(features), K))
        if self.shared and self.full:  # commands are turned once for all intentions
            factor = np.linalg.cholesky(self.covariances[0])
            whiten = np.linalg.inv(factor).T
            seen, constant = commands @ whiten, m * np.log(2.0 * np.pi) + 2.0 * np.log(np.diag(factor)).sum()
            for k in range(K):
                residual = seen - features @ (self.weights[k].T @ whiten)
                result[:, k] = -0.5 * (np.einsum("nm,nm->n", residual, residual) + constant)
            return result
        for k in range(K):
            factor = np.linalg.cholesky(self.covariances[k])
            residual = commands - features @ self.weights[k].T
            whitened = residual @ np.linalg.inv(factor).T if self.full else residual / np.diag(factor)
            constant = m * np.log(2.0 * np.pi) + 2.0 * np.log(np.diag(factor)).sum()
            result[:, k] = -0.5 * (np.einsum("nm,nm->n", whitened, whitened) + constant)
        return result

    def policies_at(self, rows: IntArray) -> FloatArray:
        """A density gives no probability to a cell of commands: uniform, (n, K, A)."""
        return np.full((len(rows), self.n_intentions, self.n_actions), 1.0 / self.n_actions)

    def state(self) -> dict[str, FloatArray]:
        """Weights, covariances and the frequencies of the basis."""
        basis = {"frequencies": self.basis.frequencies, "phases": self.basis.phases} if self.basis.n_fourier else {}
        return {"weights": self.weights, "covariances": self.covariances, **basis}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Undo `state`."""
        self._set_arrays(state, "weights", "covariances")
        if self.basis.n_fourier:
            self.basis.frequencies, self.basis.phases = state["frequencies"].copy(), state["phases"].copy()

    def check(self, demos: Demonstrations) -> None:
        """Observations and commands of the sizes that were fitted."""
        observed(demos, self.basis.n_observations, self.weights.shape[1])


def observed(demos: Demonstrations, n_observations: int, n_commands: int) -> tuple[npt.NDArray[np.float32], FloatArray]:
    """Observations (n, d) and commands (n, m), or say what is missing."""
    if demos.observations is None or demos.motions is None:
        raise InputError("These policies read observations and commands; name the columns with --observe and --act.")
    found = demos.observations.shape[1], demos.motions.shape[1]
    if found != (n_observations, n_commands):
        raise InputError(
            f"The data has {found[0]} observations and {found[1]} commands per step, those of the fit had "
            f"{n_observations} and {n_commands}."
        )
    return demos.observations, demos.motions
