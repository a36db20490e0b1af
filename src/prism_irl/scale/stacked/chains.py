"""Many constant Markov chains at once, over weighted-count policies: first points of fits, and refits of a bootstrap.

`find_first_points`: what `models.pair` does for one start after the other, `em.short_run` of a constant chain from each
of a few first responsibilities, is done here for all starts of all fits and all their candidates side by side. The
first responsibilities come from the same randomness as those of a fit alone, so that a start ends where it would have
ended alone (tested); of an odd fit out, whose first point needs no chain, the model finds it itself.

`Resamples`: a bootstrap of animals changes only how often each trajectory counts, so that F refits share their data.
The E-step of all of them is one batched forward–backward over (F, N, T), and the M-step weighs expected counts by the
draws. Every refit stops by its own monitor. Each gives what `models.refit` gives, which the tests compare it with; on a
GPU with Triton it is one launch per iteration, on a CPU (tests only) it is slower than refits one after the other.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl import em
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.models.intentions import Intentions, RunningFit
from prism_irl.models.subject_models import PATIENCE, trained_on
from prism_irl.rewards.base import ROUNDING
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.scale.stacked.data import Flat, Rows
from prism_irl.scale.stacked.models import ABSENT, StackedPolicies, stacked_beliefs
from prism_irl.switching.chain import FLOOR
from prism_irl.switching.markov import MarkovChain

LARGEST = 2**28
"""Numbers of the largest array, (F, N, T, K, K): 2 GiB in double precision, of which there are a few."""
MOST_NUMBERS = 2**26  # of a kernel (F, B, T, K, K): 512 MB in double precision
SIDE_BY_SIDE = 128  # short chains

FloatArray = npt.NDArray[np.float64]


def find_first_points(fits: Sequence[tuple[Intentions, Sequence[em.Start], Prepared]], device: torch.device) -> None:
    """Give every start of every fit its first policies, and a chain what short runs of a constant chain found."""
    groups: dict[tuple[Any, ...], list[RunningFit]] = defaultdict(list)
    for model, own, train in fits:
        for start in own:
            guess = RunningFit(model, start, train)
            if start.switching.constant() is None or not len(guess.powers):
                start.rewards.first_guess(guess)
                start.switching.first_guess(guess)
                continue
            shape = (train.demos.n_states, train.demos.n_actions, guess.powers.tobytes())
            groups[shape].append(guess)
    for group in groups.values():
        for part in _parts(group):
            _run(part, device)


def _parts(group: Sequence[RunningFit]) -> Iterator[list[RunningFit]]:
    """Starts whose candidates are run side by side; those of one start stay together."""
    part: list[RunningFit] = []
    for one in group:
        if part and sum(other.candidates for other in part) + one.candidates > SIDE_BY_SIDE:
            yield part
            part = []
        part.append(one)
    if part:
        yield part


def _run(wanted: Sequence[RunningFit], device: torch.device) -> None:
    """Run the short chains of some starts, and leave each start where its likeliest one ended."""
    first = [[one.first_responsibilities() for _ in range(one.candidates)] for one in wanted]
    trials = [one for one, own in zip(wanted, first, strict=True) for _ in own]
    chains = ShortChains(trials, [one for own in first for one in own], device)
    for power in wanted[0].powers:
        chains.iterate(float(power))
    likelihood = chains.likelihood.cpu().numpy()
    begin = 0
    for one, own in zip(wanted, first, strict=True):
        best = begin
        for f in range(begin + 1, begin + len(own)):  # the first of those that differ by rounding alone
            best = f if likelihood[f] > likelihood[best] + ROUNDING else best
        begin += len(own)
        one.rewards.load_state(chains.policies.state_of(best))
        one.chain = chains.chain(best)
        one.switching.first_guess(one)


class ShortChains:
    """F constant chains side by side, each with policies of its own.

    Parameters
    ----------
    trials : the start that each belongs to
    first : (n, K) responsibilities that each begins with

    Attributes
    ----------
    initial, kernel : (F, K) and (F, K, K), zero where a fit has fewer intentions
    likelihood : (F,), per step, of the parameters that the last iteration began with
    """

    def __init__(self, trials: Sequence[RunningFit], first: Sequence[FloatArray], device: torch.device) -> None:
        F, self.sizes = len(trials), [one.model.n_intentions for one in trials]
        K = max(self.sizes)
        self.policies = StackedPolicies([cast(TabularPolicies, one.rewards) for one in trials], device)
        self.data = Flat([one.train for one in trials], device)
        self.initial = torch.zeros(F, K, dtype=torch.float64)
        self.kernel = torch.zeros(F, K, K, dtype=torch.float64)
        for f, size in enumerate(self.sizes):
            chain = MarkovChain(size)
            self.initial[f, :size], self.kernel[f, :size, :size] = chain.initial, chain.kernel
        self.initial, self.kernel = self.initial.to(device), self.kernel.to(device)
        self.present = torch.tensor([[k < size for k in range(K)] for size in self.sizes], device=device)
        self.likelihood = torch.full((F,), -torch.inf, dtype=torch.float64, device=device)
        width = max(1, min(self.data.most, MOST_NUMBERS // (F * self.data.longest * K * K)))
        self.batches = list(self.data.in_order(width))
        self._begin(first, device)

    def _begin(self, first: Sequence[FloatArray], device: torch.device) -> None:
        """Policies from the first responsibilities."""
        K = self.initial.shape[1]
        padded = [torch.from_numpy(np.pad(one, ((0, 0), (0, K - one.shape[1])))) for one in first]
        weights = torch.cat(padded).to(device)  # (steps of all fits, K), in the order of the flat data
        self.policies.clear()
        for rows in self.batches:
            own = torch.stack([rows.gather(column) for column in weights.unbind(1)], dim=-1)
            self.policies.count(rows.gather(self.data.pairs), own * rows.mask.unsqueeze(-1))
        self.policies.maximise()

    @torch.no_grad()
    def iterate(self, power: float) -> None:
        """One iteration of EM, the emissions to a power."""
        initial = self.initial.log().clamp_min(ABSENT)
        kernel = self.kernel.log().clamp_min(ABSENT)[:, None, None]
        starts_of, moves = torch.zeros_like(self.initial), torch.zeros_like(self.kernel)
        total = torch.zeros_like(self.likelihood)
        self.policies.clear()
        for rows in self.batches:
            pairs = rows.gather(self.data.pairs)
            emission = self.policies.log_emission(pairs) * power
            everywhere = kernel.expand(*emission.shape, -1)
            smoothed, pairwise, likelihood = stacked_beliefs(initial, everywhere, emission, rows)
            smoothed = smoothed * rows.mask.unsqueeze(-1)
            self.policies.count(pairs, smoothed)
            starts_of += smoothed[:, :, 0].sum(1)
            moves += pairwise.sum((1, 2))
            total += (likelihood * rows.mask).sum((1, 2))
        self.policies.maximise()
        self.initial = _normalised(starts_of, self.present)
        self.kernel = _normalised(moves, self.present[:, None] & self.present[:, :, None])
        self.likelihood = total / self.data.n_steps

    def chain(self, f: int) -> MarkovChain:
        """One of them by itself."""
        size = self.sizes[f]
        chain = MarkovChain(size)
        chain.initial.copy_(self.initial[f, :size])
        chain.kernel.copy_(self.kernel[f, :size, :size])
        return chain


def _normalised(counts: Tensor, present: Tensor) -> Tensor:
    """Expected counts as probabilities over the intentions that a fit has, as `MarkovChain.update`."""
    held = torch.where(present, counts + FLOOR, 0.0)
    return held / held.sum(-1, keepdim=True).clamp_min(FLOOR)


def can_stack_refits(model: Intentions, demos: Demonstrations) -> bool:
    """Whether refits of this model can be stacked: a plain Markov chain over weighted-count policies."""
    return (
        model.switching_.free_kernel
        and model.rewards_model_.action_table() is not None
        and cast(TabularPolicies, model.rewards_model_).smoothing > 0
        and demos.partial_labels is None
    )


def refits_at_once(model: Intentions, demos: Demonstrations) -> int:
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
        self, model: Intentions, demos: Demonstrations, times: npt.NDArray[np.int64], device: torch.device | str
    ) -> None:
        self.model, self.device = model, torch.device(device)
        F, N, T = len(times), len(demos), int(demos.lengths.max())
        data = Prepared.of(demos, model.contexts_, torch.device("cpu"))
        first, lengths = (
            torch.from_numpy(each.astype(np.int64)).to(self.device).expand(F, N)
            for each in (demos.offsets[:-1], demos.lengths)
        )
        self.rows = Rows(first.contiguous(), lengths.int().contiguous(), T)
        self.pairs = self.rows.gather(torch.from_numpy(np.asarray(data.pairs, dtype=np.int64)).to(self.device))
        kept = np.isin(np.arange(N), trained_on(model, demos))
        self.weights = torch.from_numpy((times * kept).astype(np.float64)).to(self.device)
        self.n_steps = (self.weights * lengths).sum(1)
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
        kernel = self.kernel.log()[:, None, None].expand(*emission.shape, -1)
        smoothed, pairwise, likelihood = stacked_beliefs(self.initial.log(), kernel, emission, self.rows)
        return Beliefs(smoothed, pairwise.sum(2), likelihood)

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

    def refitted(self, f: int) -> Intentions:
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
        return np.asarray(values[:, self.rows.mask[0]].cpu().numpy(), dtype=np.int64)
