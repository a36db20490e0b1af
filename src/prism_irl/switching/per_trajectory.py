"""One intention per trajectory: the mixture of Babes et al. (2011), the switching model that never switches.

z is drawn once per trajectory from P(z=k) = ρ_k and kept. The evidence adds up, so that with the running sums
L_t = Σ_{u≤t} log π_k(a_u|s_u): p(z | s_≤t, a_<t) ∝ ρ_k exp L_{t−1}, p(z | s_≤t, a_≤t) ∝ ρ_k exp L_t, and the
responsibilities are those of the last step. Use it as the null hypothesis of switching: whatever a chain gains over it
is gained by changes of mind within trajectories.
"""

from __future__ import annotations

import torch
from torch import Tensor

from prism_irl.data.batching import Batch, Prepared, Stats
from prism_irl.switching.base import BatchPosterior, Posterior, Stream
from prism_irl.switching.chain import FLOOR
from prism_irl.switching.networks import SwitchingModule

IMPOSSIBLE = -1000.0
"""Stands for log 0 in running sums: a trajectory that every intention rules out somewhere still has a posterior."""


class TrajectoryChoice(SwitchingModule):
    """Mixture over trajectories with weights ρ, updated in closed form."""

    exact = True
    distributions = ("weights",)
    weights: Tensor

    def __init__(self, n_intentions: int) -> None:
        super().__init__()
        self.n_intentions = n_intentions
        self.register_buffer("weights", torch.full((n_intentions,), 1.0 / n_intentions, dtype=torch.float64))

    def expectation_of(self, batch: Batch, log_emission: Tensor, *, pairwise: bool = False) -> BatchPosterior:
        """Running posteriors by cumulative sums; padding adds no evidence."""
        evidence = log_emission.double().clamp_min(IMPOSSIBLE).masked_fill(~batch.mask.unsqueeze(-1), 0.0)
        after = self.weights.log() + evidence.cumsum(dim=1)
        before = torch.cat([self.weights.log().expand(len(after), 1, -1), after[:, :-1]], dim=1)
        predicted = torch.log_softmax(before, dim=-1)
        filtered = torch.softmax(after, dim=-1)
        likelihood = torch.logsumexp(predicted + log_emission.double(), dim=-1)
        return BatchPosterior(filtered[:, -1:].expand_as(filtered), predicted.exp(), filtered, likelihood)

    def statistics(self, data: Prepared, posterior: Posterior) -> Stats:
        """Expected number of trajectories of every intention, (K,)."""
        return Stats(initial=posterior.responsibilities[data.demos.offsets[:-1]].sum(0))

    @torch.no_grad()
    def update(self, stats: Stats) -> None:
        """ρ_k = mean responsibility of the trajectories."""
        first = torch.from_numpy(stats["initial"]) + FLOOR
        self.weights.copy_(first / first.sum())

    def stream(self, n_trajectories: int = 1) -> Stream:
        """Running posterior."""
        return PerTrajectoryStream(self, n_trajectories)


class PerTrajectoryStream(Stream):
    """The running posterior, one step at a time."""

    def __init__(self, switching: TrajectoryChoice, n_trajectories: int) -> None:
        self.log_weights = switching.weights.log().expand(n_trajectories, -1)

    @torch.no_grad()
    def joint(self, states: Tensor, policies: Tensor, observations: Tensor | None = None) -> Tensor:
        """P(z | s_≤t, a_<t) π_k(a | s_t)."""
        return torch.softmax(self.log_weights, dim=-1).unsqueeze(-1) * policies

    @torch.no_grad()
    def update(self, actions: Tensor, evidence: Tensor) -> Tensor:
        """P(z | s_≤t, a_≤t)."""
        self.log_weights = self.log_weights + evidence.double().clamp_min(IMPOSSIBLE)
        return torch.softmax(self.log_weights, dim=-1)
