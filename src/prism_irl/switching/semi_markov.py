"""Intentions with a typical length: dwell times that are negative binomial instead of geometric.

A Markov chain leaves an intention with the same probability at every step, so that the likeliest dwell is always one
step. Here an intention passes through phases, each left with probability 1 − q_k, and ends with the last of them: after
entering with r phases to go, it lasts NegBin(r, q_k) steps, at least r. How many phases an intention begins with is
drawn from e_k, so that the dwell of k is

    P(d) = Σ_r e_kr C(d − 1, r − 1) (1 − q_k)^r q_k^(d − r),      a Markov chain's where all mass is on r = 1.

(k, r) are the states of an ordinary chain with emissions that do not see r, so that the existing exact inference
serves, and q, e and the matrix of successors S all have closed-form M-steps. Choose it where intentions have a typical
length.

Where it reads covariates, both q and S are those at their mean, and both M-steps are weighted logits (`logit`):

    P(a phase of k ends at step t)          = sigmoid(logit(1 − q_k) + v_k · x_t)
    P(k follows j | j ends at step t)       ∝ S_jk exp(u_jk · x_t),      k ≠ j

Every phase of an intention hurries or dawdles alike: a covariate stretches or shortens the dwell as a whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl.arrays import FloatArray
from prism_irl.data.batching import Batch, Prepared, Rows, Stats
from prism_irl.devices import as_array
from prism_irl.switching.base import BatchPosterior, Posterior, Stream
from prism_irl.switching.chain import FLOOR, ChainStream
from prism_irl.switching.logit import Logit, fit_logit
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.varying import VaryingKernel

LEAVE = 0.05  # an untrained chain leaves after about twenty steps
BLOCK = 2**23
"""Entries of the kernels at inputs, (steps, K R, K R), that are in memory at a time."""


class SemiMarkovChain(VaryingKernel):
    """Chain over intentions and the phases that are left of each: a kernel over phases, whose beliefs are summed.

    State (k, r) of the chain has number k R + r, with r + 1 phases to go; R and the ridge are options
    (`switching.options.SemiMarkov`). Without inputs all is updated in closed form.
    """

    stay: Tensor
    successors: Tensor
    entry: Tensor
    ending: Tensor
    following: Tensor

    def __init__(self, n_intentions: int, phases: int = 6, n_inputs: int = 0, *, ridge: float = 1.0) -> None:
        super().__init__(n_intentions, n_inputs)
        K, R = n_intentions, phases
        self.phases, self.ridge = R, ridge
        self.exact = self.adds_up = not n_inputs
        self.reads_pairs = n_inputs > 0
        others = torch.ones(K, K, dtype=torch.float64) - torch.eye(K, dtype=torch.float64)
        self.register_buffer("initial", torch.full((K * R,), 1.0 / (K * R), dtype=torch.float64))
        self.register_buffer("stay", torch.full((K,), 1.0 - min(0.5, LEAVE * (R + 1) / 2), dtype=torch.float64))
        self.register_buffer("successors", others / max(K - 1, 1) if K > 1 else torch.ones(1, 1, dtype=torch.float64))
        self.register_buffer("entry", torch.full((K, R), 1.0 / R, dtype=torch.float64))
        if n_inputs:
            self.register_buffer("ending", torch.zeros(K, n_inputs, dtype=torch.float64))
            self.register_buffer("following", torch.zeros(K, K, n_inputs, dtype=torch.float64))

    def stay_at(self, inputs: Tensor | None) -> Tensor:
        """P(the phase stays) at inputs (…, d), (…, K)."""
        if inputs is None:
            return self.stay
        logits = torch.logit(self.stay, eps=FLOOR) - inputs.double() @ self.ending.T
        return torch.sigmoid(logits).clamp(FLOOR, 1.0 - FLOOR)

    def successors_at(self, inputs: Tensor | None) -> Tensor:
        """P(k follows j) at inputs (…, d), (…, K, K)."""
        if inputs is None:
            return self.successors
        pull = torch.einsum("...d,jkd->...jk", inputs.double(), self.following)
        return torch.softmax(self.successors.log() + pull, dim=-1)

    def log_kernels(self, before: Tensor | None, inputs: Tensor | None) -> Tensor:
        """Log P((k', r') | (k, r)) at inputs (…, d), (…, K R, K R)."""
        K, R, stay = self.n_intentions, self.phases, self.stay_at(inputs)
        kernel = torch.zeros(*stay.shape[:-1], K, R, K, R, dtype=torch.float64, device=stay.device)
        leave = 1.0 - stay
        kernel[..., :, 0, :, :] = (leave.unsqueeze(-1) * self.successors_at(inputs)).unsqueeze(-1) * self.entry
        for k in range(K):
            for r in range(R):
                kernel[..., k, r, k, r] += stay[..., k]
                if r > 0:
                    kernel[..., k, r, k, r - 1] = leave[..., k]
        return kernel.reshape(*stay.shape[:-1], K * R, K * R).log()

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

    def _rates(self, inputs: Tensor | None) -> Tensor:
        """Exits per step at inputs (…, d), (…, K): of a phase, over the mean number of phases."""
        phases = (self.entry * torch.arange(1, self.phases + 1).to(self.entry)).sum(1)
        return (1.0 - self.stay_at(inputs)) / phases

    def expectation_of(self, batch: Batch, log_emission: Tensor, *, pairwise: bool = False) -> BatchPosterior:
        """Forward–backward over phases, summed."""
        if log_emission.shape[-1] == len(self.initial):  # of phases already
            return super().expectation_of(batch, log_emission, pairwise=pairwise)
        found = super().expectation_of(batch, self._repeat(log_emission))
        pairs = None if found.transitions is None else self._pooled(found.transitions)
        smoothed, predicted, filtered = (self._summed(part) for part in found[:3])
        return BatchPosterior(smoothed, predicted, filtered, found.log_likelihood, pairs)

    @torch.no_grad()
    def expectation(self, data: Prepared, log_emission: Tensor, *, online: bool = True) -> Posterior:
        """Forward–backward over phases, summed; ``hidden`` keeps what the M-step needs of each phase.

        With inputs some trajectories at a time, and with a ``pairwise`` that has P(j → k) beside its diagonal, and on
        it P(a phase of k stays).
        """
        K, R, begin = self.n_intentions, self.phases, 0
        found: list[tuple[Any, ...]] = []
        hidden = Stats()
        for part in data.parts(max(BLOCK // (K * R) ** 2, 1)) if self.n_inputs else [data]:
            emission, begin = log_emission[begin : begin + part.n_steps], begin + part.n_steps
            own = super().expectation(part, self._repeat(emission), online=online)
            first = own.responsibilities[part.demos.offsets[:-1]].sum(0)
            hidden = hidden + Stats(initial=first, transitions=own.transitions)
            found.append((*map(self._summed, own[:3]), own.log_likelihood, self._phase_moves(own.pairwise)))
        beliefs = found[0] if len(found) == 1 else [np.concatenate(columns) for columns in zip(*found, strict=True)]
        smoothed, predicted, filtered, likelihood, moves = beliefs
        pooled, pairs = self._pooled(hidden["transitions"]), moves if self.n_inputs and not online else None
        return Posterior(smoothed, predicted, filtered, likelihood, pooled, hidden, pairs)

    def _phase_moves(self, pairwise: FloatArray | None) -> FloatArray:
        """Moves between intentions and, on the diagonal, stays of phases, (n, K, K), of those of phases."""
        K, R = self.n_intentions, self.phases
        if pairwise is None:
            return np.empty((0, K, K))
        pairs = pairwise.reshape(-1, K, R, K, R)
        between: FloatArray = pairs.sum((2, 4))
        between[:, range(K), range(K)] = np.einsum("nkrkr->nk", pairs)
        return between

    @torch.no_grad()
    def decode_batch(self, batch: Batch, log_emission: Tensor) -> Tensor:
        """Most probable path over phases, as intentions, (B, T)."""
        return super().decode_batch(batch, self._repeat(log_emission)) // self.phases

    def stream(self, n_trajectories: int = 1) -> Stream:
        """Streaming forward pass over phases."""
        return SemiMarkovStream(self, n_trajectories)

    def statistics(self, data: Prepared, posterior: Posterior) -> Stats:
        """Expected counts of the phases of first steps (K R,), and of moves from phase to phase (K R, K R).

        With inputs these, too, beliefs about the step before and expected moves of every step.
        """
        assert posterior.hidden is not None
        if posterior.pairwise is None:
            return posterior.hidden
        was = np.zeros_like(posterior.responsibilities)  # P(z_{t-1}=k), zero at first steps
        was[1:] = posterior.responsibilities[:-1]
        was[data.demos.offsets[:-1]] = 0.0
        inputs = np.asarray(data.demos.observations, dtype=np.float64)
        return posterior.hidden + {"rows": Rows(inputs, was, posterior.pairwise)}

    @torch.no_grad()
    def update(self, stats: Stats) -> None:
        """Expected counts, normalised: of staying, of successors, of phases at entry and at the start."""
        K, R, stay, successors = self.n_intentions, self.phases, self.stay.clone(), self.successors.clone()
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
        found = entered.sum(-1) + FLOOR * others
        self.successors.copy_(found / found.sum(-1, keepdim=True))
        entry = entered.sum(0) + FLOOR
        self.entry.copy_(entry / entry.sum(-1, keepdim=True))
        if "rows" in stats:
            self._regress(stay, successors, *stats["rows"].joined())

    def _regress(
        self, stay: Tensor, successors: Tensor, inputs: FloatArray, was: FloatArray, pairwise: FloatArray
    ) -> None:
        """When a phase ends, and what follows, by weighted logits, from the parameters before."""
        K, group = self.n_intentions, np.zeros(len(pairwise), np.int64)
        for k in range(K):
            kept = np.minimum(pairwise[:, k, k], was[:, k])
            bias = -float(torch.logit(stay[k], eps=FLOOR))
            start = Logit(np.array([[bias]]), self.ending[k : k + 1].cpu().numpy())
            targets = np.stack([kept, was[:, k] - kept], axis=1)
            found = fit_logit(start, inputs, group, targets, ridge=self.ridge)
            self.stay[k] = float(1.0 / (1.0 + np.exp(found.biases[0, 0])))
            self.ending[k] = torch.from_numpy(found.slopes[0]).to(self.ending)
        if K == 2:
            return  # the other one follows, whatever the inputs
        # No successor is a reference in itself: slopes are shrunk towards their mean, whichever has number 0.
        metric = np.eye(K - 2) - np.full((K - 2, K - 2), 1.0 / (K - 1))
        for j in range(K):
            first, *rest = others = [k for k in range(K) if k != j]
            log_odds = (successors[j].log() - successors[j, first].log()).cpu().numpy()[rest]
            slopes = (self.following[j] - self.following[j, first]).cpu().numpy()[rest]
            targets = pairwise[:, j][:, others]
            found = fit_logit(Logit(log_odds[None], slopes), inputs, group, targets, ridge=self.ridge, metric=metric)
            proba = np.exp(found.log_proba(np.zeros((1, self.n_inputs)), np.zeros(1, np.int64)))[0]
            self.successors[j, others] = torch.from_numpy(proba).to(self.successors)
            centred = np.concatenate([np.zeros((1, self.n_inputs)), found.slopes])
            self.following[j, others] = torch.from_numpy(centred - centred.mean(0)).to(self.following)

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

    def dwell_proba(self, longest: int) -> FloatArray:
        """P(dwell = d) of each intention for d = 1 … ``longest``, (K, longest), at the mean of inputs."""
        found = np.zeros((self.n_intentions, longest))
        stay, left = self.stay.cpu().numpy(), self.entry.cpu().numpy().copy()  # mass with r + 1 phases to go
        for d in range(longest):
            found[:, d] = left[:, 0] * (1 - stay)
            moved = np.zeros_like(left)
            moved[:, :-1] = left[:, 1:] * (1 - stay)[:, None]
            left = left * stay[:, None] + moved
        return found

    def effects(self) -> FloatArray:
        """Slope of the log odds of j → k against the phase's staying, at the mean of the inputs, (K, K, d)."""
        mean = torch.einsum("jk,jkd->jd", self.successors, self.following)
        found = self.ending.unsqueeze(1) + self.following - mean.unsqueeze(1)
        found[range(self.n_intentions), range(self.n_intentions)] = 0.0
        return np.asarray(found.cpu().numpy(), dtype=np.float64)

    def leaving(self, inputs: npt.ArrayLike) -> FloatArray:
        """Exits per step in the long run at inputs (m, d), (m, K)."""
        at = torch.as_tensor(np.asarray(inputs, dtype=np.float64)).to(self.stay)
        return np.asarray(self._rates(at).cpu().numpy(), dtype=np.float64)


class SemiMarkovStream(Stream):
    """The forward pass over phases, one step at a time."""

    def __init__(self, chain: SemiMarkovChain, n_trajectories: int) -> None:
        self.chain, self.inner = chain, ChainStream(chain, n_trajectories)

    def joint(self, states: Any, policies: Any, observations: Any | None = None) -> FloatArray:
        """P(z_t | s_≤t, a_<t) π_k(a | s_t)."""
        found = self.inner.joint(states, np.repeat(as_array(policies), self.chain.phases, axis=1), observations)
        return np.asarray(found.reshape(len(found), self.chain.n_intentions, self.chain.phases, -1).sum(2))

    def update(self, actions: Any, evidence: Any) -> FloatArray:
        """P(z_t | s_≤t, a_≤t)."""
        found = self.inner.update(actions, np.repeat(as_array(evidence), self.chain.phases, axis=1))
        return np.asarray(self.chain._summed(found))
