"""One E-step and one M-step of a pair (switching, rewards), over all data at once or in parts.

Beliefs about every step take K numbers of it, several times over. Policies that are regressions (`RewardModel.adds_up`)
need of them no more than sums over steps, so that large data are read some trajectories at a time: a chain with a
constant kernel adds up what it counts (`e_step`), a network goes from minibatch to minibatch of mapped data, whose
beliefs are added up and forgotten (`improve_in_parts`). Nothing that is as long as the data is made, and these may be
mapped files (`data.mapped`). A trajectory's beliefs never depend on others, so that both ways give the same up to
rounding (tested).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl.data.batching import Prepared
from prism_irl.data.labels import clamped
from prism_irl.data.mapped import is_mapped
from prism_irl.data.sampling import some_trajectories
from prism_irl.rewards.base import RewardModel
from prism_irl.switching.base import Counts, Posterior, Switching

LARGE, PART = 2**20, 2**18
"""Data of more steps are read in parts of so many, where rewards add up."""
SOME = 2**18
"""Steps of large data that are enough for a first guess, and for a regression that is made once."""


class EStep(NamedTuple):
    """What an E-step leaves for the M-step: beliefs about every step or, where both halves only count, their sums.

    ``log_likelihood`` is the mean per step over all data; ``emission`` (n, K) are the log π_k(a_t | s_t), as the
    switching model reads them.
    """

    log_likelihood: float
    counts: Counts | None = None
    emission: Any = None
    posterior: Posterior | None = None


def is_in_parts(rewards: RewardModel, data: Prepared) -> bool:
    """Whether these data are read in parts."""
    return data.n_steps > LARGE and rewards.adds_up


def is_in_minibatches(switching: Switching, rewards: RewardModel, data: Prepared) -> bool:
    """Whether a network learns from them without keeping a belief: slower, and for mapped data alone."""
    mapped = data.demos.observations is not None and is_mapped(data.demos.observations)
    return switching.has_parts and mapped and is_in_parts(rewards, data)


def some_of(rewards: RewardModel, data: Prepared, seed: int) -> Prepared:
    """Data of which no more than `SOME` steps are asked for, where `is_in_parts`, else all of them."""
    if not is_in_parts(rewards, data):
        return data
    return data.subset(some_trajectories(data.demos, SOME, seed))


def e_step(switching: Switching, rewards: RewardModel, data: Prepared, power: float = 1.0) -> EStep:
    """Eq. (posterior), with emissions to a power; by counts alone where both halves allow it (equal up to rounding)."""
    table = rewards.choice_table(data.demos.n_steps) if data.demos.known is None else None
    counts = None if table is None else switching.count(data, table if power == 1.0 else table**power)
    if switching.only_counts and is_in_parts(rewards, data):
        counts = _counted_in_parts(switching, rewards, data, power)
    if counts is not None:
        return EStep(counts.log_likelihood, counts)
    emission, posterior = expectation(switching, rewards, data, power)
    return EStep(float(posterior.log_likelihood.mean()), None, emission, posterior)


def _counted_in_parts(switching: Switching, rewards: RewardModel, data: Prepared, power: float) -> Counts:
    """`expectation` of some trajectories at a time, of which only sums are kept: memory is that of a part."""
    totals: list[npt.NDArray[np.float64]] = []
    for part in data.parts(PART):
        posterior = expectation(switching, rewards, part, power)[1]
        assert posterior.transitions is not None
        beliefs, firsts = posterior.responsibilities, part.demos.offsets[:-1]
        found = [beliefs[firsts].sum(0), posterior.transitions, rewards.sums(part, beliefs)]
        found.append(posterior.log_likelihood.sum())
        totals = [one + other for one, other in zip(totals, found, strict=True)] if totals else found
    begun, moves, sums, likelihood = totals
    return Counts(begun, moves, sums, float(likelihood) / data.n_steps)


def m_step(switching: Switching, rewards: RewardModel | None, data: Prepared, step: EStep, seed: Any = None) -> None:
    """Both halves of the M-step, Theorem 1: independent given the responsibilities. Without rewards they stay."""
    if step.counts is not None:
        switching.maximise_counts(step.counts)
        if rewards is not None:
            rewards.maximise_counts(step.counts.choices)
        return
    assert step.emission is not None
    assert step.posterior is not None
    switching.maximise(data, step.emission, step.posterior, seed)
    if rewards is not None:
        rewards.maximise(data, step.posterior.responsibilities)


def expectation(
    switching: Switching, rewards: RewardModel, data: Prepared, power: float = 1.0, *, online: bool = False
) -> tuple[Any, Posterior]:
    """Emissions log π_k(a_t | s_t), (n, K), clamped where the intention is known, and beliefs about every step."""
    emission = emissions(switching, rewards, data, power)
    return emission, switching.expectation(data, emission, online=online)


def emissions(switching: Switching, rewards: RewardModel, data: Prepared, power: float = 1.0) -> Any:
    """Emissions log π_k(a_t | s_t), (n, K), as the switching model reads them."""
    logs = clamped(rewards.log_likelihood(data), data.demos)
    return switching.reads(logs if power == 1.0 else logs * power)


def likelihood(switching: Switching, rewards: RewardModel, data: Prepared) -> float:
    """Mean log-likelihood per step of an E-step of which nothing else is kept."""
    if not is_in_parts(rewards, data):
        return e_step(switching, rewards, data).log_likelihood
    found = (expectation(switching, rewards, part)[1].log_likelihood.sum() for part in data.parts(PART))
    return float(sum(found)) / data.n_steps


def labels(switching: Switching, rewards: RewardModel, data: Prepared) -> npt.NDArray[np.int64]:
    """Likeliest intention of every step, (n,)."""
    parts = data.parts(PART) if is_in_parts(rewards, data) else [data]
    return np.concatenate([expectation(switching, rewards, part)[1].responsibilities.argmax(1) for part in parts])


def improve_in_parts(switching: Switching, rewards: RewardModel, data: Prepared, seed: Any, *, learn: bool) -> float:
    """One iteration of incremental EM, a minibatch at a time; returns the likelihood per step that the pass met.

    Policies stay as they are during the pass, and with ``learn`` are refitted to the sums of what it saw.
    """
    sums: Any = 0.0
    met = 0.0
    for part, seen in switching.improve_parts(data, partial(emissions, switching, rewards), seed):
        met += float(seen.log_likelihood.sum())
        if learn:
            sums = sums + rewards.sums(part, seen.responsibilities)
    if learn:
        rewards.maximise_counts(sums)
    return met / data.n_steps
