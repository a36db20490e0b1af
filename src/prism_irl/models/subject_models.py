"""The model that the steps of one animal are counted with, where animals are compared.

Two things would draw everybody towards the mean. A chain that all animals share misses short visits of an animal that
switches often, and finds some in one that rarely does: each has a chain of its own. And policies that were fitted to
the animal's own steps have learned its short visits as slips, the more of them the more often it switches: policies
come from the choices of the *other* animals (leave one out).

`OwnModels` does no more than that and does not know the conditions, so that animals can be exchanged between them: it
is what is permuted. `ConditionModels` gives every condition policies of its own. Where an animal wants something else
than half of the others do, what it does looks like a short visit of another intention under policies that all share,
and a group with another goal seems to switch more often: it is what differences and their intervals are estimated with.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl import em
from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.batching import Prepared, Stats
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.models.fitted import SOLVED
from prism_irl.models.intentions import Intentions

OWN_PRIOR, OWN_ITERATIONS = 2.0, 30
ROUNDS, ROUND_ITERATIONS = 3, 10
SHARED = 20.0
"""Steps in a context and intention that the choices of all other animals count for beside those of a condition."""
SMOOTHING = 0.1
"""Pseudo-count of an action, where policies of few animals meet steps that they have not seen."""


def has_own_chains(model: Any) -> bool:
    """Whether every animal can have a chain of its own: only a Markov chain is small enough for the steps of one."""
    return isinstance(model, Intentions) and model.switching_.free_kernel and model.n_intentions > 1


def with_own_chain(model: Intentions, demos: Demonstrations, iterations: int = OWN_ITERATIONS) -> Intentions:
    """The model with a Markov chain of these demonstrations alone, its policies as they are.

    Beside `OWN_PRIOR` moves of the shared kernel the animal's own count. Other switching models are returned as they
    are.
    """
    if not has_own_chains(model):
        return model
    chain = copy.deepcopy(model.switching_)
    state = model.switching_.state()
    shared = Stats(initial=state["initial"].copy(), transitions=OWN_PRIOR * state["kernel"])
    data = Prepared.of(demos, model.contexts_, model.device_)
    emission = model._emission(data)
    for _ in range(iterations):
        chain.update(chain.statistics(data, chain.expectation(data, emission, online=False)) + shared)
    again = copy.copy(model)
    again.switching_ = chain
    return again


class OwnModels:
    """For each animal, its own chain on policies of a fitted pair that the others chose.

    ``unit`` (N,) numbers the animal (and condition) of every trajectory, ``times`` (N,) says how often each counts for
    the policies of the others. Policies are left as they are where they are more than a table of counts (planned
    rewards, effects): those share parameters between states, and no animal's slip can become a policy.
    """

    def __init__(
        self, model: Intentions, demos: Demonstrations, unit: IntArray, times: npt.ArrayLike | None = None
    ) -> None:
        self.model, self.times = model, np.ones(len(demos)) if times is None else np.asarray(times, float)
        self.unit = unit
        self.counts = self._count(demos, self.times) if _has_counted_policies(model) else None

    def _count(self, demos: Demonstrations, times: FloatArray) -> FloatArray:
        """Choices of every intention (K, C, A) that the fit expects in these demonstrations."""
        weights = self.model.posterior(demos).responsibilities * np.repeat(times, demos.lengths)[:, None]
        data = Prepared.of(demos, self.model.contexts_, self.model.device_)
        found: FloatArray = self.model.rewards_model_.statistics(data, weights)["counts"]
        return found

    def __call__(self, u: int, part: Demonstrations) -> Intentions:
        """The model of animal ``u``, whose demonstrations are given."""
        if self.counts is None:
            return with_own_chain(self.model, part)
        rest = np.maximum(self.counts - self._count(part, self.times[self.unit == u]), 0.0)
        return with_own_chain(_with_counts(self.model, rest), part)


class ConditionModels:
    """For each animal, its own chain on policies that the others of its condition chose.

    With N the choices of the other animals of the condition and M those of all others, both expected, the policy is
    that of the counts N + M · min(1, `SHARED` / Σ_a M), row by row. What is expected under the fit's one chain still
    has short visits among the slips, so that chains and choices take `ROUNDS` turns (generalised EM of a model with
    a chain per animal), each animal always left out of its own policies. ``condition`` (U,) is that of every animal,
    from 0; the rest is as of `OwnModels`, which leaves policies as they are in the same cases.
    """

    def __init__(
        self,
        model: Intentions,
        demos: Demonstrations,
        unit: IntArray,
        condition: npt.NDArray[Any],
        times: npt.ArrayLike | None = None,
    ) -> None:
        self.model, self.condition = model, np.asarray(condition).astype(np.int64)
        self.beliefs: list[FloatArray] | None = None
        if not _has_counted_policies(model):
            return
        often = np.ones(len(demos)) if times is None else np.asarray(times, float)
        parts = [demos.subset(unit == u) for u in range(len(self.condition))]
        self.data = [Prepared.of(part, model.contexts_, model.device_) for part in parts]
        self.often = [np.repeat(often[unit == u], part.lengths)[:, None] for u, part in enumerate(parts)]
        self.beliefs = [model.posterior(part).responsibilities for part in parts]
        for _ in range(ROUNDS):
            self._sum()
            self.beliefs = [
                with_own_chain(self._on_others(u), part, ROUND_ITERATIONS).posterior(part).responsibilities
                for u, part in enumerate(parts)
            ]
        self._sum()

    def _count(self, u: int) -> FloatArray:
        """Choices of every intention (K, C, A) expected of animal ``u``."""
        assert self.beliefs is not None
        weights = self.beliefs[u] * self.often[u]
        found: FloatArray = self.model.rewards_model_.statistics(self.data[u], weights)["counts"]
        return found

    def _sum(self) -> None:
        """Expected choices of every condition, (conditions, K, C, A)."""
        self.counts = np.zeros((self.condition.max() + 1, *self.model.rewards_model_.counts.shape))  # type: ignore[attr-defined]
        for u, condition in enumerate(self.condition):
            self.counts[condition] += self._count(u)

    def _on_others(self, u: int) -> Intentions:
        own = self._count(u)
        alike = np.maximum(self.counts[self.condition[u]] - own, 0.0)
        everybody = np.maximum(self.counts.sum(axis=0) - own, 0.0)
        steps = everybody.sum(axis=-1, keepdims=True)
        return _with_counts(self.model, alike + everybody * (SHARED / np.maximum(steps, SHARED)), SMOOTHING)

    def __call__(self, u: int, part: Demonstrations) -> Intentions:
        """The model of animal ``u``, whose demonstrations are given."""
        return with_own_chain(self.model if self.beliefs is None else self._on_others(u), part)


def _has_counted_policies(model: Intentions) -> bool:
    """Whether animals have chains of their own, on policies that are no more than a table of counts."""
    return has_own_chains(model) and model.rewards_model_.action_table() is not None


def _with_counts(model: Intentions, counts: FloatArray, smoothing: float = 0.0) -> Intentions:
    """The model with the policies of these counts (K, C, A)."""
    again = copy.copy(model)
    again.rewards_model_ = table = copy.copy(model.rewards_model_)
    table.smoothing = max(table.smoothing, smoothing)  # type: ignore[attr-defined]
    table.update(Stats(counts=counts))
    return again


PASSES = 10
"""Passes of a network over a resample, from the fit."""
PATIENCE = 5


def trained_on(model: Intentions, demos: Demonstrations) -> IntArray:
    """Trajectories that the fit was trained on: all but those of its validation."""
    if model.validation_fraction > 0 and len(demos) > 1:
        return np.asarray(demos.split_indices(model.validation_fraction, seed=model.seed)[1], dtype=np.int64)
    return np.arange(len(demos))


def refit(model: Intentions, demos: Demonstrations, times: IntArray) -> Intentions:
    """The model fitted again, from where it is, to trajectories that are drawn ``times`` (N,) each.

    Memory, effects and dynamics are those of the fit. Validation trajectories stay out of it, and do not stop it: the
    fit is the best for them already, and no resample would ever move. EM goes on until the training objective stops
    rising; networks, which would overfit, for a few passes.
    """
    model._check_fitted()
    again = copy.copy(model)
    for name in SOLVED:
        again.__dict__.pop(name, None)
    kept = trained_on(model, demos)
    chosen = np.repeat(kept, times[kept])
    if not len(chosen):
        raise InputError("A resample has no trajectory to fit to; give more animals, or no validation trajectories.")
    train = Prepared.of(demos.subset(chosen), model.contexts_, model.device_)
    start = again._new_start(0, train.demos)
    if start.switching.incremental:
        stopping = em.Stopping(PASSES, None, by="training")
    else:
        stopping = em.Stopping(model.max_iterations, PATIENCE, by="training")
    start.monitor = em.Monitor(stopping, exact=start.monitor.exact)
    before = em.Start(0, model.switching_, model.rewards_model_, start.monitor)
    start.restore(before.parameters())
    em.fit_start(start, train, None, seed=model.seed)
    again.switching_, again.rewards_model_ = start.switching, start.rewards
    return again
