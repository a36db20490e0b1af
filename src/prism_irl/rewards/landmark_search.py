"""The search for goals on landmarks: one after the other, then each against all other places while the rest stays.

Candidates are compared by the likelihood of short chains over their emissions. At first, while goals are missing, that
is a constant chain. Then goals change places, and the chain knows that an intention ends where its goal is reached (its
rates inside and outside of a goal are learned, and may be equal): a constant chain hardly minds a goal half way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.rewards.base import Fit, FloatArray
from prism_irl.rewards.linear import observed

if TYPE_CHECKING:
    from prism_irl.rewards.landmarks import LandmarkGoals

SCREENING, DECIDING, FINALISTS = 2, 8, 6
"""EM iterations of a chain for every candidate goal, for the best of these, and how many are the best."""
ENDING, SWEEPS = 5, 3
"""EM iterations of a chain that ends at goals, and how often every goal may change its place."""
SCREENED_STEPS = 20_000
"""Steps that a search looks at: goals are places, and a few hundred visits show them."""


def find_goals(rewards: LandmarkGoals, fit: Fit) -> Any:
    """Give the rewards goals on their graph, a skill and noise; return a Markov chain over them."""
    demos, generator = fit.train.demos, fit.generator
    x, y = observed(demos, rewards.goals.shape[1], len(rewards.variances))
    part = demos
    if demos.n_steps > SCREENED_STEPS:
        share = max(2, int(len(demos) * SCREENED_STEPS / demos.n_steps))
        part = demos.subset(np.sort(generator.permutation(len(demos))[:share]))
    first_skill(rewards, demos, x, y)
    search = _Search(rewards, Prepared(part, part.states.astype(np.int64)), part, fit)
    for _ in range(rewards.n_intentions):
        search.add()
    for _ in range(SWEEPS if rewards.n_intentions > 1 else 0):
        if not search.sweep():
            break
    rewards.goals = rewards.graph.landmarks[search.chosen].copy()
    return search.chain


class _Search:
    """Landmarks chosen so far, and the chain over them."""

    def __init__(self, rewards: LandmarkGoals, data: Prepared, part: Demonstrations, fit: Fit) -> None:
        assert part.observations is not None
        assert part.motions is not None
        self.rewards, self.data, self.run = rewards, data, fit.run_fixed
        self.x, self.y = part.observations, part.motions
        self.chosen: list[int] = []
        self.chain: Any = None

    def _screened(self, columns: FloatArray, others: list[int]) -> list[int]:
        """The best landmarks beside the others, by a constant chain."""
        free = [g for g in range(columns.shape[1]) if g not in others]
        scores = {g: self._trial(columns, [*others, g], SCREENING)[0] for g in free}
        return sorted(free, key=lambda g: -scores[g])[:FINALISTS]

    def _trial(self, columns: FloatArray, goals: list[int], iterations: int, **options: Any) -> tuple[float, Any]:
        return self.run(self.data, np.ascontiguousarray(columns[:, goals]), iterations, **options)

    def add(self) -> None:
        """One goal more."""
        columns = self.rewards.landmark_density(self.x, self.y)
        results = {g: self._trial(columns, [*self.chosen, g], DECIDING) for g in self._screened(columns, self.chosen)}
        self.chosen.append(max(results, key=lambda g: results[g][0]))
        self.chain = results[self.chosen[-1]][1]
        self._refit_noise()

    def sweep(self) -> bool:
        """Every goal against the best other places; returns whether one has changed."""
        columns, places = self.rewards.landmark_density(self.x, self.y), self.rewards.graph.landmarks
        before = list(self.chosen)
        best, ending = self._trial(columns, before, ENDING, places=places[before])
        for k in range(len(before)):
            others = self.chosen[:k] + self.chosen[k + 1 :]
            for goal in self._screened(columns, others):
                goals = [*self.chosen[:k], goal, *self.chosen[k + 1 :]]
                score, chain = self._trial(columns, goals, ENDING, places=places[goals])
                if score > best:
                    best, ending, self.chosen = score, chain, goals
        self.chain = self._trial(columns, self.chosen, DECIDING)[1]
        self._refit_skill(columns, ending)
        return self.chosen != before

    def _beliefs(self, emission: FloatArray, chain: Any) -> FloatArray:
        import torch

        found: FloatArray = chain.expectation(self.data, torch.from_numpy(emission), online=False).responsibilities
        return found

    def _refit_skill(self, columns: FloatArray, chain: Any) -> None:
        """Skill, habits and noise, now that there are as many goals as there should be."""
        found = self._beliefs(np.ascontiguousarray(columns[:, self.chosen]), chain)
        self.rewards.goals = self.rewards.graph.landmarks[self.chosen].copy()
        self.rewards.fit_skill(self.x.astype(np.float64), self.y, found)

    def _refit_noise(self) -> None:
        """Noise given the goals found so far. The skill waits: with too few goals, fleeing one explains more."""
        rewards, goals = self.rewards, self.rewards.graph.landmarks[self.chosen]
        found = self._beliefs(rewards.goal_density(self.x, self.y, goals), self.chain)
        x = self.x.astype(np.float64)
        habit, skill = rewards.habit_and_skill(x)
        gaps = self.y - habit - np.einsum("nmd,gnd->gnm", skill, rewards.fields(x, goals))
        squared = np.einsum("gnm,ng->nm", gaps**2, found)
        rewards.variances = np.maximum(np.mean(squared, axis=0), rewards.noise)


def first_skill(rewards: LandmarkGoals, demos: Demonstrations, x: npt.NDArray[Any], y: FloatArray) -> None:
    """What a command does, before any goal is known: regress it on the direction in which the next step went."""
    later = np.flatnonzero(~demos.first_steps)
    moved = np.float64(x[later] - x[later - 1])
    size = np.linalg.norm(moved, axis=1, keepdims=True)
    ways = moved / np.maximum(size, 1e-9)
    design = np.concatenate([ways, np.ones((len(ways), 1))], axis=1)
    p = design.shape[1]
    theta = np.linalg.solve(design.T @ design + rewards.ridge * np.eye(p), design.T @ y[later - 1])
    rewards.weights = np.zeros_like(rewards.weights)
    rewards.local = np.zeros_like(rewards.local)
    rewards.weights[:, :p] = theta.T
    # The direction that a noisy step went in explains more of the command than a goal will.
    rewards.variances = np.maximum(0.5 * y.var(axis=0), rewards.noise)
