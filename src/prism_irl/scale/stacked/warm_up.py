"""First points of many fits at once: the short Markov chains that a recurrent chain begins with, on the device.

What `models.pair` does for one start after the other, `em.short_run` of a constant chain from each of a few first
responsibilities, is done here for all starts of all fits and all their candidates side by side: Baum–Welch with the
policies of `StackedPolicies`, in double precision. The first responsibilities come from the same randomness as those of
a fit alone, so that a start ends where it would have ended alone (tested); of an odd fit out, whose first point needs
no chain, the model finds it itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prism_irl import em
from prism_irl.data.batching import Prepared
from prism_irl.models.hooks import FirstGuess
from prism_irl.models.intentions import Intentions
from prism_irl.rewards.base import ROUNDING
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.scale.stacked.flat import Flat
from prism_irl.scale.stacked.policies import StackedPolicies
from prism_irl.scale.stacked.switching import ABSENT, stacked_beliefs
from prism_irl.switching.chain import FLOOR
from prism_irl.switching.markov import MarkovChain

MOST_NUMBERS = 2**26  # of a kernel (F, B, T, K, K): 512 MB in double precision
SIDE_BY_SIDE = 128  # short chains

FloatArray = npt.NDArray[np.float64]


def find_first_points(fits: Sequence[tuple[Intentions, Sequence[em.Start], Prepared]], device: torch.device) -> None:
    """Give every start of every fit its first policies, and a chain what short runs of a constant chain found."""
    groups: dict[tuple[Any, ...], list[FirstGuess]] = defaultdict(list)
    for model, own, train in fits:
        for start in own:
            guess = FirstGuess(model, start, train)
            if start.switching.constant() is None or not len(guess.powers):
                start.rewards.first_guess(guess)
                start.switching.first_guess(guess)
                continue
            shape = (train.demos.n_states, train.demos.n_actions, guess.powers.tobytes())
            groups[shape].append(guess)
    for group in groups.values():
        for part in _parts(group):
            _run(part, device)


def _parts(group: Sequence[FirstGuess]) -> Iterator[list[FirstGuess]]:
    """Starts whose candidates are run side by side; those of one start stay together."""
    part: list[FirstGuess] = []
    for one in group:
        if part and sum(other.candidates for other in part) + one.candidates > SIDE_BY_SIDE:
            yield part
            part = []
        part.append(one)
    if part:
        yield part


def _run(wanted: Sequence[FirstGuess], device: torch.device) -> None:
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

    def __init__(self, trials: Sequence[FirstGuess], first: Sequence[FloatArray], device: torch.device) -> None:
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
