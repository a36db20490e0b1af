"""Many refits of one Markov chain at once: the same trajectories, counted another number of times in each.

A bootstrap of animals changes only how often each trajectory counts, so that F refits share their data: the E-step of
all of them is one batched forward–backward over (F, N, T), and the M-step weighs expected counts by the draws. Every
refit stops by its own monitor. Each gives what `models.refit` gives, which the tests compare it with; on a GPU with
Triton it is one launch per iteration, on a CPU (tests only) it is slower than refits one after the other.
"""

from __future__ import annotations

import copy
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl import em
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models.pair import PairModel
from prism_irl.models.refit import PATIENCE, trained_on
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.scale.stacked.policies import StackedPolicies
from prism_irl.switching.chain import FLOOR
from prism_irl.switching.forward_backward import forward_backward
from prism_irl.switching.inference import use_triton
from prism_irl.switching.markov import MarkovChain

LARGEST = 2**28
"""Numbers of the largest array, (F, N, T, K, K): 2 GiB in double precision, of which there are a few."""


def can_stack_refits(model: PairModel, demos: Demonstrations) -> bool:
    """Whether refits of this model can be stacked: a plain Markov chain over weighted-count policies."""
    return (
        model.switching_.free_kernel
        and model.rewards_model_.action_table() is not None
        and cast(TabularPolicies, model.rewards_model_).smoothing > 0
        and demos.partial_labels is None
    )


def refits_at_once(model: PairModel, demos: Demonstrations) -> int:
    """How many refits share a stack."""
    return max(1, LARGEST // (len(demos) * int(demos.lengths.max()) * model.n_intentions**2))


class Beliefs(NamedTuple):
    """E-step of F chains: ``smoothed`` (F, N, T, K), ``moves`` (F, N, K, K), ``log_likelihood`` (F, N, T)."""

    smoothed: Tensor
    moves: Tensor
    log_likelihood: Tensor


class Resamples:
    """F chains on the same trajectories, which count ``times`` (F, N) each.

    After `run`, ``beliefs`` are those of the chains found, over all trajectories.
    """

    def __init__(
        self, model: PairModel, demos: Demonstrations, times: npt.NDArray[np.int64], device: torch.device | str
    ) -> None:
        self.model, self.device = model, torch.device(device)
        F, N, T = len(times), len(demos), int(demos.lengths.max())
        data = Prepared.of(demos, model.contexts_, torch.device("cpu"))
        self.lengths = torch.from_numpy(demos.lengths.astype(np.int32)).to(self.device)
        self.mask = torch.arange(T, device=self.device) < self.lengths[:, None]
        steps = torch.from_numpy(demos.offsets[:-1].astype(np.int64)).to(self.device)[:, None] + torch.arange(
            T, device=self.device
        )
        self.steps = torch.where(self.mask, steps, 0)
        pairs = torch.from_numpy(np.asarray(data.pairs, dtype=np.int64)).to(self.device)
        self.pairs = pairs[self.steps].expand(F, N, T)
        kept = np.isin(np.arange(N), trained_on(model, demos))
        self.weights = torch.from_numpy((times * kept).astype(np.float64)).to(self.device)
        self.n_steps = (self.weights * self.lengths).sum(1)
        chain = cast(MarkovChain, model.switching_)
        self.initial = chain.initial.to(self.device).expand(F, -1).clone()
        self.kernel = chain.kernel.to(self.device).expand(F, -1, -1).clone()
        table = cast(TabularPolicies, model.rewards_model_)
        self.tables = [copy.copy(table) for _ in range(F)]
        self.policies = StackedPolicies(self.tables, self.device)
        stopping = em.Stopping(model.max_iterations, PATIENCE, by="training")
        self.monitors = [em.Monitor(stopping, exact=table.exact) for _ in range(F)]

    @torch.no_grad()
    def expectation(self) -> Beliefs:
        """Beliefs about every step under every chain."""
        emission = self.policies.log_emission(self.pairs)
        F, N, T, K = emission.shape
        kernel = self.kernel[:, None, None]
        if use_triton(self.device):
            from prism_irl.switching import triton_kernels

            length = self.lengths.expand(F, N).contiguous()
            found = triton_kernels.forward_backward(self.initial, kernel.expand(F, N, T, K, K), emission, length)
            return Beliefs(found.smoothed, found.pairwise.sum(2), found.log_likelihood)
        parts = [
            forward_backward(self.initial[f].log(), kernel[f].log().expand(N, T, K, K), emission[f], self.mask)
            for f in range(F)
        ]
        smoothed = torch.stack([part.smoothed.exp() for part in parts]) * self.mask[..., None]
        moves = torch.stack([part.pairwise.sum(1) for part in parts])
        return Beliefs(smoothed, moves, torch.stack([part.log_likelihood for part in parts]))

    @torch.no_grad()
    def maximise(self, beliefs: Beliefs) -> None:
        """Expected counts, weighted by the draws and normalised, as `MarkovChain` and `TabularPolicies` do."""
        begun = torch.einsum("fn,fnk->fk", self.weights, beliefs.smoothed[:, :, 0]) + FLOOR
        moves = torch.einsum("fn,fnjk->fjk", self.weights, beliefs.moves) + FLOOR
        self.initial, self.kernel = begun / begun.sum(-1, keepdim=True), moves / moves.sum(-1, keepdim=True)
        self.policies.clear()
        self.policies.count(self.pairs, beliefs.smoothed * self.weights[..., None, None])
        self.policies.maximise()

    def run(self) -> None:
        """EM until every monitor is finished; every chain is left at its best iteration."""
        beliefs = self.expectation()
        self._record(beliefs)
        best = {name: value.clone() for name, value in self._state().items()}
        while not all(monitor.finished for monitor in self.monitors):
            self.maximise(beliefs)
            beliefs = self.expectation()
            improved = self._record(beliefs)
            for name, value in self._state().items():
                best[name] = torch.where(improved.view((-1,) + (1,) * (value.dim() - 1)), value, best[name])
        self.initial, self.kernel = best["initial"], best["kernel"]
        self.policies.policies.copy_(best["policies"])
        self.policies.counts.copy_(best["counts"])
        self.policies.accept()
        self.policies.write_back(best)
        self.beliefs = self.expectation()

    def _record(self, beliefs: Beliefs) -> Tensor:
        train = (beliefs.log_likelihood.sum(2) * self.weights).sum(1) / self.n_steps
        objective = (train + self.policies.log_prior() / self.n_steps).cpu().tolist()
        improved = [
            not (monitor.rows and monitor.finished)
            and monitor.record_iteration(objective=objective[f], train=likelihood, seconds=0.0)
            for f, (monitor, likelihood) in enumerate(zip(self.monitors, train.cpu().tolist(), strict=True))
        ]
        return torch.tensor(improved, device=self.device)

    def _state(self) -> dict[str, Tensor]:
        own = {"initial": self.initial, "kernel": self.kernel}
        return own | {"policies": self.policies.policies, "counts": self.policies.counts}

    def refitted(self, f: int) -> PairModel:
        """The model of draw f, as `models.refit.refit` returns it."""
        again = copy.copy(self.model)
        for name in ("solution_", "context_solution_"):
            again.__dict__.pop(name, None)
        chain = MarkovChain(self.model.n_intentions)
        chain.initial.copy_(self.initial[f].cpu())
        chain.kernel.copy_(self.kernel[f].cpu())
        again.switching_, again.rewards_model_ = chain, self.tables[f]
        return again

    def flat(self, values: Tensor) -> npt.NDArray[np.int64]:
        """Integers (F, N, T) in the flat layout of the data, (F, n)."""
        return np.asarray(values[:, self.mask].cpu().numpy(), dtype=np.int64)
