"""Intentions with a typical length: dwell times that are negative binomial instead of geometric.

A Markov chain leaves an intention with the same probability at every step, so that the likeliest dwell is always one
step. Here an intention passes through phases, each left with probability 1 − q_k, and ends with the last of them: after
entering with r phases to go, it lasts NegBin(r, q_k) steps, at least r. How many phases an intention begins with is
drawn from e_k, so that the dwell of k is

    P(d) = Σ_r e_kr C(d − 1, r − 1) (1 − q_k)^r q_k^(d − r),      a Markov chain's where all mass is on r = 1.

(k, r) are the states of an ordinary chain with emissions that do not see r, so that the existing exact inference
serves, and q, e and the matrix of successors all have closed-form M-steps. Choose it where intentions have a typical
length, and look at the dwell histogram, where data and model lie beside each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl.core.stats import Stats
from prism_irl.data.batching import Batch, Prepared
from prism_irl.switching.base import BatchPosterior, Posterior, Stream
from prism_irl.switching.chain import FLOOR, Chain, ChainStream, Previous
from prism_irl.switching.inputs import first_counts
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.networks import Carry, SwitchingModule

LEAVE = 0.05  # an untrained chain leaves after about twenty steps


class SemiMarkovChain(SwitchingModule, Chain):
    """Chain over intentions and the phases that are left of each, updated in closed form.

    Parameters
    ----------
    n_intentions : int
    phases : int
        Phases R at most; state (k, r) of the chain has number k R + r, with r + 1 phases to go.
    """

    exact = True
    adds_up = True
    initial: Tensor
    stay: Tensor
    successors: Tensor
    entry: Tensor

    def __init__(self, n_intentions: int, phases: int = 6) -> None:
        super().__init__()
        K, R = n_intentions, phases
        self.n_intentions, self.phases = K, R
        others = torch.ones(K, K, dtype=torch.float64) - torch.eye(K, dtype=torch.float64)
        self.register_buffer("initial", torch.full((K * R,), 1.0 / (K * R), dtype=torch.float64))
        self.register_buffer("stay", torch.full((K,), 1.0 - min(0.5, LEAVE * (R + 1) / 2), dtype=torch.float64))
        self.register_buffer("successors", others / max(K - 1, 1) if K > 1 else torch.ones(1, 1, dtype=torch.float64))
        self.register_buffer("entry", torch.full((K, R), 1.0 / R, dtype=torch.float64))

    # -- the chain over (intention, phases to go) ----------------------------------------------------------------------

    def phase_kernel(self) -> Tensor:
        """P((k', r') | (k, r)), (K R, K R)."""
        K, R = self.n_intentions, self.phases
        kernel = torch.zeros(K, R, K, R, dtype=torch.float64, device=self.stay.device)
        leave = 1.0 - self.stay
        kernel[:, 0] = leave[:, None, None] * self.successors[:, :, None] * self.entry[None]
        for k in range(K):
            for r in range(R):
                kernel[k, r, k, r] += self.stay[k]
                if r > 0:
                    kernel[k, r, k, r - 1] = leave[k]
        return kernel.reshape(K * R, K * R)

    def expanded(self) -> MarkovChain:
        """The same chain with its phases as intentions."""
        chain = MarkovChain(self.n_intentions * self.phases).to(self.stay.device)
        chain.initial.copy_(self.initial)
        chain.kernel.copy_(self.phase_kernel())
        return chain

    def _repeat(self, values: Tensor, dim: int = -1) -> Tensor:
        """What holds for an intention holds for each of its phases."""
        return values.repeat_interleave(self.phases, dim=dim)

    def _summed(self, values: Any) -> Any:
        """Sum over phases of (…, K R), (…, K)."""
        return values.reshape(*values.shape[:-1], self.n_intentions, self.phases).sum(-1)

    def _pooled(self, pairs: Any) -> Any:
        """Steps from intention to intention, (K, K), of those from phase to phase."""
        K, R = self.n_intentions, self.phases
        return pairs.reshape(K, R, K, R).sum((1, 3))

    def log_initial(self) -> Tensor:
        """Log P(z_1=k), (K,)."""
        found: Tensor = self._summed(self.initial).log()
        return found

    def log_kernel(self, batch: Batch) -> Tensor:
        """Kernel over intentions in the long run, (B, T, K, K): how often each leads to each, whatever the phase."""
        rate = (1.0 - self.stay) / (self.entry * torch.arange(1, self.phases + 1).to(self.entry)).sum(1)
        kernel = rate[:, None] * self.successors + torch.diag(1.0 - rate)
        return kernel.clamp_min(FLOOR).log().expand(*batch.states.shape, -1, -1)

    # -- inference ----------------------------------------------------------------------------------------------------

    def expectation_of(self, batch: Batch, log_emission: Tensor, *, pairwise: bool = False) -> BatchPosterior:
        """Forward–backward over phases, summed."""
        found = self.expanded().expectation_of(batch, self._repeat(log_emission))
        pairs = None if found.transitions is None else self._pooled(found.transitions)
        smoothed, predicted, filtered = (self._summed(part) for part in found[:3])
        return BatchPosterior(smoothed, predicted, filtered, found.log_likelihood, pairs)

    def expectation(self, data: Prepared, log_emission: Tensor, *, online: bool = True) -> Posterior:
        """Forward–backward over phases, summed; ``hidden`` keeps what the M-step needs of each phase."""
        found = self.expanded().expectation(data, self._repeat(log_emission), online=online)
        assert found.transitions is not None
        first = first_counts(data, found)
        return Posterior(
            self._summed(found.responsibilities),
            self._summed(found.predicted),
            self._summed(found.filtered),
            found.log_likelihood,
            self._pooled(found.transitions),
            hidden=Stats(initial=first, transitions=found.transitions),
        )

    @torch.no_grad()
    def decode_batch(self, batch: Batch, log_emission: Tensor) -> Tensor:
        """Most probable path over phases, as intentions, (B, T)."""
        return self.expanded().decode_batch(batch, self._repeat(log_emission)) // self.phases

    def stream(self, n_trajectories: int = 1) -> Stream:
        """Streaming forward pass over phases."""
        return SemiMarkovStream(self, n_trajectories)

    def stream_kernel(
        self, states: Tensor, previous: Previous | None, observations: Tensor | None, carry: Carry
    ) -> tuple[Tensor, Carry]:
        """Kernel over phases, (B, K R, K R)."""
        return self.phase_kernel().log().expand(len(states), -1, -1), carry

    # -- learning ------------------------------------------------------------------------------------------------------

    def statistics(self, data: Prepared, posterior: Posterior) -> Stats:
        """Expected counts of the phases of first steps (K R,), and of moves from phase to phase (K R, K R)."""
        assert posterior.hidden is not None
        return posterior.hidden

    @torch.no_grad()
    def update(self, stats: Stats) -> None:
        """Expected counts, normalised: of staying, of successors, of phases at entry and at the start."""
        K, R = self.n_intentions, self.phases
        first = torch.from_numpy(stats["initial"]).to(self.initial) + FLOOR
        self.initial.copy_(first / first.sum())
        if K == 1:
            return  # nowhere to go: phases of one intention mean nothing
        pairs = torch.from_numpy(stats["transitions"]).to(self.stay).reshape(K, R, K, R)
        steps = pairs.sum((1, 2, 3))
        kept = torch.einsum("krkr->k", pairs)
        self.stay.copy_(((kept + FLOOR) / (steps + 2 * FLOOR)).clamp(FLOOR, 1.0 - FLOOR))
        entered = pairs[:, 0].clone()  # (from, to, phases)
        entered[torch.arange(K), torch.arange(K)] = 0.0
        others = 1.0 - torch.eye(K).to(entered)
        successors = entered.sum(-1) + FLOOR * others
        self.successors.copy_(successors / successors.sum(-1, keepdim=True))
        entry = entered.sum(0) + FLOOR
        self.entry.copy_(entry / entry.sum(-1, keepdim=True))

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin with the mean dwell and the successors of a Markov chain, and with any number of phases."""
        K, R = self.n_intentions, self.phases
        self.entry.fill_(1.0 / R)
        self.initial.copy_(self._repeat(chain.initial) / R)
        if K == 1:
            return
        leave = 1.0 - chain.kernel.diagonal()
        self.stay.copy_((1.0 - leave * (R + 1) / 2).clamp(0.05, 1.0 - 1e-4))
        others = chain.kernel.clone().fill_diagonal_(0.0) + FLOOR * (1.0 - torch.eye(K).to(chain.kernel))
        self.successors.copy_(others / others.sum(-1, keepdim=True))

    # -- what it says --------------------------------------------------------------------------------------------------

    def dwell_proba(self, longest: int) -> npt.NDArray[np.float64]:
        """P(dwell = d) of each intention for d = 1 … ``longest``, (K, longest)."""
        found = np.zeros((self.n_intentions, longest))
        stay, left = self.stay.cpu().numpy(), self.entry.cpu().numpy().copy()  # mass with r + 1 phases to go
        for d in range(longest):
            found[:, d] = left[:, 0] * (1 - stay)
            moved = np.zeros_like(left)
            moved[:, :-1] = left[:, 1:] * (1 - stay)[:, None]
            left = left * stay[:, None] + moved
        return found


class SemiMarkovStream(Stream):
    """The forward pass over phases, one step at a time."""

    def __init__(self, chain: SemiMarkovChain, n_trajectories: int) -> None:
        self.chain, self.inner = chain, ChainStream(chain.expanded(), n_trajectories)

    @torch.no_grad()
    def joint(self, states: Tensor, policies: Tensor, observations: Tensor | None = None) -> Tensor:
        """P(z_t | s_≤t, a_<t) π_k(a | s_t)."""
        found = self.inner.joint(states, self.chain._repeat(policies, dim=1), observations)
        return found.reshape(len(found), self.chain.n_intentions, self.chain.phases, -1).sum(2)

    @torch.no_grad()
    def update(self, actions: Tensor, evidence: Tensor) -> Tensor:
        """P(z_t | s_≤t, a_≤t)."""
        found: Tensor = self.chain._summed(self.inner.update(actions, self.chain._repeat(evidence)))
        return found
