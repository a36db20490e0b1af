"""A chain whose intentions end at places: each has one of its own, and hardly ever ends elsewhere.

    P(z_t=k | z_{t-1}=j, x_t) = (1 − h_j(x_t)) [j=k] + h_j(x_t) B_jk,      h_j(x) = inside_j where |x − c_j| ≤ r_j,
                                                                                  else outside_j

The kernel for continuous worlds: a goal ends where it is reached. A constant kernel lets an intention end anywhere, so
that the way that two goals share is anybody's; a kernel per cell of the world may learn that an intention ends at a
junction, where its goal lies behind one of the roads. One ball per intention can do neither. The M-step is in closed
form but for place and radius, which are the best of some candidates, the present ones among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl.arrays import FloatArray
from prism_irl.data.batching import Prepared, Rows, Stats
from prism_irl.data.mapped import chunks
from prism_irl.errors import InputError
from prism_irl.switching.base import Posterior
from prism_irl.switching.chain import FLOOR, sticky
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.varying import VaryingKernel, first_counts, first_intentions

if TYPE_CHECKING:
    from prism_irl.rewards.base import Fit

RADII = 0.05 * 2.0 ** (np.arange(11) / 2.0)
"""Radii that are tried, in standard deviations of the observations, for two of them; more grow with √d."""
EVEN = 0.5
"""Steps that leave and steps that stay which are added inside and outside of a place: Jeffreys' prior of its rates."""
FIRST_RADIUS, FIRST_INSIDE, FIRST_OUTSIDE = 0.3, 0.5, 1e-4
"""Of intentions whose places are known at the start; all of it is learned."""
LOWEST, HIGHEST = 1e-6, 1.0 - 1e-6


class PlaceChain(VaryingKernel):
    """An intention ends at its place."""

    distributions = ("initial", "onward")
    onward: Tensor
    places: Tensor
    radii: Tensor
    inside: Tensor
    outside: Tensor

    def __init__(self, n_intentions: int, n_observations: int) -> None:
        super().__init__(n_intentions)
        K, self.n_observations = n_intentions, n_observations
        stay = torch.softmax(sticky(K).double(), dim=-1).diagonal()
        self.register_buffer("onward", others_only(torch.ones(K, K, dtype=torch.float64)))
        self.register_buffer("places", torch.zeros(K, n_observations, dtype=torch.float64))
        self.register_buffer("radii", torch.full((K,), -1.0, dtype=torch.float64))  # nowhere yet
        self.register_buffer("inside", 1.0 - stay)
        self.register_buffer("outside", 1.0 - stay)
        self.anchored = False

    @classmethod
    def at(cls, places: FloatArray) -> Self:
        """A chain whose places (K, d) are known; radii and rates are learned."""
        chain = cls(*places.shape)
        chain.places.copy_(torch.from_numpy(places))
        chain.anchored = True
        return chain

    def inputs_in(self, observations: Any) -> Any:
        """Observations, as many as the fit had."""
        if observations is None:
            raise InputError("Intentions that end at places read observations of every step; else take --kernel pair.")
        if observations.shape[-1] != self.n_observations:
            raise InputError(
                f"The places have {self.n_observations} observations, the data {observations.shape[-1]}; give the "
                "columns that the fit had."
            )
        return observations

    def log_kernels(self, before: Tensor | None, inputs: Tensor | None) -> Tensor:
        """Log kernel at observations (…, d), (…, K, K)."""
        assert inputs is not None
        apart = torch.linalg.vector_norm(inputs.double().unsqueeze(-2) - self.places, dim=-1)
        leaving = torch.where(apart <= self.radii, self.inside, self.outside)
        if self.n_intentions == 1:
            return torch.zeros_like(leaving).unsqueeze(-1)
        kernel = leaving.unsqueeze(-1) * self.onward
        return (kernel + torch.diag_embed(1.0 - leaving)).clamp_min(FLOOR).log()

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given Markov chain, wherever the agent is."""
        self.initial.copy_(chain.initial)
        self.onward.copy_(others_only(chain.kernel))
        leaving = (1.0 - chain.kernel.diagonal()).clamp(LOWEST, HIGHEST)
        self.inside.copy_(leaving)
        self.outside.copy_(leaving)
        self.radii.fill_(-1.0)

    @torch.no_grad()
    def first_guess(self, fit: Fit) -> None:
        """Take over the chain that was found, and the places, where rewards know some."""
        super().first_guess(fit)
        if fit.chain is not None and fit.rewards.ends is not None:
            self.begin_at(fit.rewards.ends.at)

    def begin_at(self, places: FloatArray) -> None:
        """Begin with intentions that end at places (K, d), hardly ever elsewhere, and go on to any other.

        From a chain that ends anywhere, EM may learn to change intentions at corners, where policies are wrong.
        """
        self.places.copy_(torch.from_numpy(places))
        self.radii.fill_(FIRST_RADIUS * float(np.sqrt(places.shape[1] / 2.0)))
        self.inside.fill_(FIRST_INSIDE)
        self.outside.fill_(FIRST_OUTSIDE)
        self.onward.copy_(others_only(torch.ones_like(self.onward)))

    # -- learning ------------------------------------------------------------------------------------------------------

    def statistics(self, data: Prepared, posterior: Posterior) -> Stats:
        """Expected counts of first steps; observations, cells and expected moves of every step."""
        assert posterior.pairwise is not None
        assert data.demos.observations is not None
        rows = Rows(data.demos.observations, data.demos.states, posterior.pairwise)
        return Stats(initial=first_counts(data, posterior), rows=rows)

    @torch.no_grad()
    def update(self, stats: Stats) -> None:
        """Initial distribution, where intentions go on to, and the likeliest place at which each of them ends."""
        self.initial.copy_(first_intentions(stats["initial"]))
        x, cells, pairs = stats["rows"].joined()
        K = self.n_intentions
        if K == 1:
            return
        staying = pairs[:, range(K), range(K)]
        leaving = pairs.sum(axis=2) - staying
        self.onward.copy_(others_only(torch.from_numpy(pairs.sum(axis=0))))
        centres = cell_centres(x, cells)
        for j in range(K):
            self._settle(j, x, np.stack([leaving[:, j], staying[:, j]]), centres)

    def _settle(self, j: int, x: npt.NDArray[Any], moves: FloatArray, centres: FloatArray) -> None:
        """The best place of intention j: among the cells of the world, then around the best of them.

        ``moves`` (2, n) are expected steps that leave it and that stay.
        """
        place, radius = self.places[j].cpu().numpy().copy(), float(self.radii[j])
        tried = RADII * np.sqrt(x.shape[1] / 2.0)
        whole, used = moves.sum(axis=1), np.flatnonzero(moves.sum(axis=0) > 1e-4)
        near, (out, stay) = x[used].astype(np.float64), moves[:, used]

        def best(centres: FloatArray, radii: FloatArray) -> tuple[float, FloatArray, float, float, float]:
            within = _within(near, out, stay, centres, radii)  # (2, candidates, radii)
            value, rates = _profile(within, whole)
            c, r = np.unravel_index(int(value.argmax()), value.shape)
            return float(value[c, r]), centres[c], float(radii[r]), float(rates[0][c, r]), float(rates[1][c, r])

        found = best(place[None] if self.anchored else centres, tried)
        centre, size = found[1], found[2]
        at = np.linalg.norm(near - centre, axis=1) <= 2.0 * size
        sums = np.append(out[at] @ near[at], out[at].sum())
        if sums[-1] > FLOOR and not self.anchored:  # cells are coarse; the steps that leave say where exactly
            found = max(found, best((sums[:-1] / sums[-1])[None], tried), key=lambda each: each[0])
        if radius > 0:
            found = max(best(place[None], np.array([radius])), found, key=lambda each: each[0])
        self.places[j] = torch.from_numpy(found[1])
        self.radii[j], self.inside[j], self.outside[j] = found[2], found[3], found[4]


def others_only(kernel: Tensor) -> Tensor:
    """Where an intention goes on to, given that it ends: rows of a kernel (K, K) without its diagonal."""
    K = len(kernel)
    if K == 1:
        return torch.ones_like(kernel)
    left = kernel.double().clamp_min(FLOOR) * (1.0 - torch.eye(K, dtype=torch.float64, device=kernel.device))
    return left / left.sum(-1, keepdim=True)


def cell_centres(x: npt.NDArray[Any], cells: npt.NDArray[np.integer[Any]]) -> FloatArray:
    """Mean observation (n, d) of every cell (n,) of the world that the agent was in, (S, d): candidates of a place."""
    numbers = cells.astype(np.int64)
    sums = [np.bincount(numbers, column) for column in (*x.T.astype(np.float64), np.ones(len(numbers)))]
    whole = np.stack(sums, axis=1)
    seen = whole[:, -1] > 0
    return np.asarray(whole[seen, :-1] / whole[seen, -1:])


def _within(
    x: FloatArray, leaving: FloatArray, staying: FloatArray, centres: FloatArray, radii: FloatArray
) -> FloatArray:
    """Expected steps that leave and that stay within each radius (R,) of each centre (C, d), (2, C, R)."""
    C, R = len(centres), len(radii)
    found = np.zeros((2, C * (R + 1)))
    for rows in chunks(len(x), 2**14):
        part = x[rows]
        squared = (part**2).sum(axis=1)[:, None] - 2.0 * part @ centres.T + (centres**2).sum(axis=1)
        ring = np.searchsorted(radii, np.sqrt(np.maximum(squared, 0.0))) + (R + 1) * np.arange(C)
        for kind, weight in enumerate((leaving[rows], staying[rows])):
            found[kind] += np.bincount(ring.ravel(), np.repeat(weight, C), C * (R + 1))
    return np.asarray(found.reshape(2, C, R + 1)[:, :, :R].cumsum(axis=2))


def _profile(within: FloatArray, whole: FloatArray) -> tuple[FloatArray, tuple[FloatArray, FloatArray]]:
    """Expected log-likelihood at the best rates of leaving, and these rates, inside and outside of each ball.

    ``within`` (2, C, R): steps that leave and stay inside; ``whole`` (2,): anywhere.
    """
    value = np.zeros_like(within[0])
    rates = []
    for out, stay in (within, whole[:, None, None] - within):
        out, stay = np.maximum(out, 0.0) + EVEN, np.maximum(stay, 0.0) + EVEN
        rate = np.clip(out / (out + stay), LOWEST, HIGHEST)
        value = value + out * np.log(rate) + stay * np.log1p(-rate)
        rates.append(rate)
    return value, (rates[0], rates[1])
