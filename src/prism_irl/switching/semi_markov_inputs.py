"""Intentions with a typical length that reads covariates, and successors that do.

    P(a phase of k ends at step t)          = sigmoid(logit(1 − q_k) + v_k · x_t)
    P(k follows j | j ends at step t)       ∝ S_jk exp(u_jk · x_t),      k ≠ j

Every phase of an intention hurries or dawdles alike: a covariate stretches or shortens the dwell as a whole. How many
phases an intention begins with is drawn as before (`semi_markov`). q and S are those at the mean of the inputs. Both
M-steps are weighted logits (`logit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from prism_irl.core.stats import Rows, Stats
from prism_irl.data.batching import Batch, Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.switching.base import Posterior
from prism_irl.switching.chain import FLOOR, Chain, Previous
from prism_irl.switching.forward_backward import forward_backward
from prism_irl.switching.inference import infer_steps
from prism_irl.switching.inputs import FloatArray, ReadsInputs
from prism_irl.switching.logit import Logit, fit_logit
from prism_irl.switching.networks import Carry, SwitchingModule
from prism_irl.switching.semi_markov import SemiMarkovChain

BLOCK = 2**23
"""Entries of the kernels, (steps, K R, K R), that are in memory at a time."""


class SemiMarkovInputChain(SemiMarkovChain, ReadsInputs):
    """Chain over intentions and phases, with covariates.

    Parameters
    ----------
    n_intentions, n_inputs, phases : int
    ridge : float
        Strength of a Gaussian prior on v and u, in nats: inputs are standardised.
    """

    exact = False
    adds_up = False
    ending: Tensor
    following: Tensor

    def __init__(self, n_intentions: int, n_inputs: int, phases: int = 6, *, ridge: float = 1.0) -> None:
        super().__init__(n_intentions, phases)
        self.n_inputs, self.ridge = n_inputs, ridge
        K = n_intentions
        self.register_buffer("ending", torch.zeros(K, n_inputs, dtype=torch.float64))
        self.register_buffer("following", torch.zeros(K, K, n_inputs, dtype=torch.float64))

    # -- the chain at inputs -------------------------------------------------------------------------------------------

    def stay_at(self, inputs: Tensor) -> Tensor:
        """P(the phase stays) at inputs (…, d), (…, K)."""
        logits = torch.logit(self.stay, eps=FLOOR) - inputs.double() @ self.ending.T
        return torch.sigmoid(logits).clamp(FLOOR, 1.0 - FLOOR)

    def successors_at(self, inputs: Tensor) -> Tensor:
        """P(k follows j) at inputs (…, d), (…, K, K)."""
        pull = torch.einsum("...d,jkd->...jk", inputs.double(), self.following)
        return torch.softmax(self.successors.log() + pull, dim=-1)

    def phase_kernels(self, inputs: Tensor) -> Tensor:
        """P((k', r') | (k, r)) at inputs (…, d), (…, K R, K R)."""
        K, R, lead = self.n_intentions, self.phases, inputs.shape[:-1]
        stay = self.stay_at(inputs)
        kernel = torch.zeros(*lead, K, R, K, R, dtype=torch.float64, device=stay.device)
        leave = 1.0 - stay
        kernel[..., :, 0, :, :] = (leave.unsqueeze(-1) * self.successors_at(inputs)).unsqueeze(-1) * self.entry
        for k in range(K):
            for r in range(R):
                kernel[..., k, r, k, r] += stay[..., k]
                if r > 0:
                    kernel[..., k, r, k, r - 1] = leave[..., k]
        return kernel.reshape(*lead, K * R, K * R)

    def expanded(self) -> PhaseChain:  # type: ignore[override]
        """The same chain with its phases as intentions."""
        return PhaseChain(self)

    def log_kernel(self, batch: Batch) -> Tensor:
        """Kernel over intentions in the long run, were the inputs of a step those of all, (B, T, K, K)."""
        self.check_inputs(batch.observations)
        assert batch.observations is not None
        rate = self._rates(batch.observations)
        kernel = rate.unsqueeze(-1) * self.successors_at(batch.observations) + torch.diag_embed(1.0 - rate)
        return kernel.clamp_min(FLOOR).log()

    def _rates(self, inputs: Tensor) -> Tensor:
        """Exits per step at inputs (…, d), (…, K): of a phase, over the mean number of phases."""
        phases = (self.entry * torch.arange(1, self.phases + 1).to(self.entry)).sum(1)
        return (1.0 - self.stay_at(inputs)) / phases

    def stream_kernel(
        self, states: Tensor, previous: Previous | None, observations: Tensor | None, carry: Carry
    ) -> tuple[Tensor, Carry]:
        """Kernel over phases at the inputs of the step, (B, K R, K R)."""
        if observations is None:
            raise InputError(f"The switching reads {self.n_inputs} inputs; give them with every step.")
        return self.phase_kernels(observations).log(), carry

    # -- inference and learning ----------------------------------------------------------------------------------------

    @torch.no_grad()
    def expectation(self, data: Prepared, log_emission: Tensor, *, online: bool = True) -> Posterior:
        """Forward–backward over phases, summed, some trajectories at a time.

        ``pairwise`` has P(j → k) beside its diagonal, and on it P(a phase of k stays): what the M-step needs.
        """
        K, R, n = self.n_intentions, self.phases, len(log_emission)
        inputs, offsets = torch.from_numpy(self.inputs_of(data)), data.demos.offsets
        beliefs = np.zeros((3, n, K))
        likelihood, pairwise = np.zeros(n), np.zeros((0 if online else n, K, K))
        first, moves = np.zeros(K * R), np.zeros((K * R, K * R))
        for begin, end in _blocks(data.demos, BLOCK // (K * R) ** 2):
            steps = slice(int(offsets[begin]), int(offsets[end]))
            own = offsets[begin : end + 1] - offsets[begin]
            kernel = self.phase_kernels(inputs[steps].to(self.stay.device)).cpu()
            found = _infer(self.initial.cpu(), kernel, self._repeat(log_emission[steps].cpu()), own, online)
            for out, values in zip(beliefs, found[:3], strict=True):
                if len(values):
                    out[steps] = self._summed(values)
            likelihood[steps] = found.log_likelihood
            first += found.responsibilities[own[:-1]].sum(0)
            assert found.transitions is not None
            moves += found.transitions
            if not online:
                assert found.pairwise is not None
                pairs = found.pairwise.reshape(-1, K, R, K, R)
                between = pairs.sum((2, 4))
                between[:, range(K), range(K)] = np.einsum("nkrkr->nk", pairs)
                pairwise[steps] = between
        return Posterior(
            beliefs[0],
            beliefs[1],
            beliefs[2],
            likelihood,
            self._pooled(moves),
            hidden=Stats(initial=first, transitions=moves),
            pairwise=None if online else pairwise,
        )

    def statistics(self, data: Prepared, posterior: Posterior) -> Stats:
        """Those of phases; inputs, beliefs about the step before and expected moves of every step."""
        assert posterior.pairwise is not None
        was = np.zeros_like(posterior.responsibilities)  # P(z_{t-1}=k), zero at first steps
        was[1:] = posterior.responsibilities[:-1]
        was[data.demos.offsets[:-1]] = 0.0
        return super().statistics(data, posterior) + {"rows": Rows(self.inputs_of(data), was, posterior.pairwise)}

    @torch.no_grad()
    def update(self, stats: Stats) -> None:
        """Start and phases at entry as without inputs; when a phase ends, and what follows, by weighted logits."""
        K, stay, successors = self.n_intentions, self.stay.clone(), self.successors.clone()
        super().update(stats)
        if K == 1:
            return
        inputs, was, pairwise = stats["rows"].joined()
        group = np.zeros(len(pairwise), np.int64)
        options: dict[str, Any] = {"ridge": self.ridge}
        for k in range(K):
            kept = np.minimum(pairwise[:, k, k], was[:, k])
            bias = -float(torch.logit(stay[k], eps=FLOOR))
            start = Logit(np.array([[bias]]), self.ending[k : k + 1].cpu().numpy())
            found = fit_logit(start, inputs, group, np.stack([kept, was[:, k] - kept], axis=1), **options)
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
            found = fit_logit(
                Logit(log_odds[None], slopes), inputs, group, pairwise[:, j][:, others], metric=metric, **options
            )
            proba = np.exp(found.log_proba(np.zeros((1, self.n_inputs)), np.zeros(1, np.int64)))[0]
            self.successors[j, others] = torch.from_numpy(proba).to(self.successors)
            centred = np.concatenate([np.zeros((1, self.n_inputs)), found.slopes])
            self.following[j, others] = torch.from_numpy(centred - centred.mean(0)).to(self.following)

    # -- what it says --------------------------------------------------------------------------------------------------

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


class PhaseChain(SwitchingModule, Chain):
    """A semi-Markov chain at its inputs, its phases as intentions."""

    def __init__(self, chain: SemiMarkovInputChain) -> None:
        super().__init__()
        self.chain, self.n_intentions = chain, chain.n_intentions * chain.phases

    def log_initial(self) -> Tensor:
        """Log P(phase) of first steps, (K R,)."""
        return self.chain.initial.log()

    def log_kernel(self, batch: Batch) -> Tensor:
        """Kernel over phases, (B, T, K R, K R)."""
        self.chain.check_inputs(batch.observations)
        assert batch.observations is not None
        return self.chain.phase_kernels(batch.observations).log()

    def stream_kernel(
        self, states: Tensor, previous: Previous | None, observations: Tensor | None, carry: Carry
    ) -> tuple[Tensor, Carry]:
        """That of the chain."""
        return self.chain.stream_kernel(states, previous, observations, carry)


def _blocks(demos: Demonstrations, most: int) -> Iterator[tuple[int, int]]:
    """Neighbouring trajectories of at most so many steps together, or one alone, as ranges."""
    begin = 0
    for end in range(1, len(demos) + 1):
        if end == len(demos) or demos.offsets[end + 1] - demos.offsets[begin] > most:
            yield begin, end
            begin = end


def _infer(
    initial: Tensor, kernel: Tensor, log_emission: Tensor, offsets: npt.NDArray[np.int64], online: bool
) -> Posterior:
    """Beliefs of some trajectories as they lie, compiled or, padded, by the reference."""
    log_initial, emission = initial.log(), log_emission.double()
    found = infer_steps(log_initial.numpy(), kernel.numpy(), emission.numpy(), offsets, online=online)
    if found is not None:
        return found
    lengths = np.diff(offsets).tolist()
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    kernels, emissions = (
        pad_sequence(list(torch.split(values, lengths)), batch_first=True, padding_value=1.0)
        for values in (kernel, emission)
    )
    padded = forward_backward(log_initial, kernels.log(), emissions, mask)
    predicted, filtered, smoothed, likelihood, pairs = (values[mask] for values in padded)
    return Posterior(
        smoothed.exp().numpy(),
        predicted.exp().numpy(),
        filtered.exp().numpy(),
        likelihood.numpy(),
        pairs.sum(0).numpy(),
        pairwise=pairs.numpy(),
    )
