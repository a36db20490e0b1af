"""What the components of a pair see of its fit: where a start begins, and what is done once when EM has ended."""

from __future__ import annotations

from typing import Any

import numpy as np

from prism_irl import em
from prism_irl.data.batching import Prepared
from prism_irl.models import starts
from prism_irl.models.base import FloatArray
from prism_irl.rewards.base import Fit, RewardModel


class FirstGuess(Fit):
    """A start that begins: its randomness is that of its number."""

    def __init__(self, model: Any, start: em.Start, train: Prepared) -> None:
        self.model, self.switching, self.rewards = model, start.switching, start.rewards
        self.train, self.index = train, start.index
        self.generator = np.random.default_rng([model.seed, start.index])
        kinds = model._start_kinds()
        self.kind = kinds[start.index % len(kinds)]
        self.candidates, iterations = model._warm_up(start.switching)
        self.powers = starts.annealing_powers() if self.kind == "annealed" else np.ones(iterations)

    def first_responsibilities(self) -> FloatArray:
        """Of the kind that is this start's turn."""
        found: FloatArray = self.model._first_responsibilities(self.kind, self.train, self.generator)
        return found

    def warm_up(self, rewards: RewardModel) -> tuple[float, Any]:
        """As many EM iterations as there are powers."""
        chain = self.switching.constant()
        assert chain is not None
        chain = chain.to(self.model.device_)
        return em.short_run(chain, rewards, self.train, len(self.powers), powers=self.powers), chain

    def run_fixed(
        self, data: Prepared, emission: FloatArray, iterations: int, *, places: FloatArray | None = None
    ) -> tuple[float, Any]:
        """See `starts.fixed_run`."""
        return starts.fixed_run(data, emission, iterations, places=places)

    def responsibilities(self, data: Prepared, *, partial_labels: bool = True) -> FloatArray:
        """Of the components as they are."""
        found = em.expectation(self.switching, self.rewards, data, online=True, partial_labels=partial_labels)
        return found.responsibilities

    def go_on(self) -> None:
        """Nothing has been fitted yet."""
        raise NotImplementedError


class Ending(FirstGuess):
    """The best start, when EM has ended."""

    def __init__(
        self, model: Any, best: em.Start, train: Prepared, validation: Prepared | None, data: Prepared
    ) -> None:
        super().__init__(model, best, train)
        self.validation, self.data, self.mdp = validation, data, model.mdp_

    def go_on(self) -> None:
        """EM of the switching alone, until it stops as any start does."""
        stopping = em.Stopping(max(self.model.max_iterations, em.Stopping.max_iterations), self.model.patience or 10)
        more = em.Start(self.index, self.switching, self.rewards, em.Monitor(stopping), fixed_rewards=True)
        em.fit_start(more, self.train, self.validation, seed=self.model.seed)
