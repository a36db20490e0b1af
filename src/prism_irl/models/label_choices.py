"""What known labels decide, before EM: options of windows, by leaving labelled trajectories out.

Densities of windows of different lengths are of different numbers, and no likelihood chooses between them. Labels do:
the labelled trajectories of one individual (one trajectory, where there are no individuals) are left out in turn, every
candidate learns from the labelled steps of the others alone, and what counts is the share of labelled steps left out
that a Markov chain then gets right,

    score(c) = mean over those left out of  #{t labelled: argmax_k P(z_t = k | windows; c) = z_t} / #{t labelled}

No label is asked for that the fit is not told anyway, so that labels which are kept for a test have chosen nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_irl.core.stats import Stats
from prism_irl.data.batching import Prepared
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.data.labels import FAR
from prism_irl.rewards.base import RewardModel
from prism_irl.switching.markov import MarkovChain

FloatArray = npt.NDArray[np.float64]
FOLDS = 10
"""Parts that are left out, at most."""
LABELLED_STEPS = 50_000
"""About so many steps of labelled trajectories choose; there is no need to ask more."""


def chosen_by_labels(
    model: Any, demos: Demonstrations, candidates: list[dict[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """The candidate that labels most steps right, and all that were tried with their ``label_accuracy``.

    Validation trajectories take no part. The first candidate is taken where fewer than two trajectories have labels.
    """
    if len(candidates) < 2:
        return (dict(candidates[0]) if candidates else {}), []
    labelled = _labelled(model, demos)
    parts = left_out(labelled, model.seed)
    if len(parts) < 2:
        return dict(candidates[0]), []
    whole = Prepared.of(labelled, model.contexts_)
    data = [Prepared.of(labelled.subset(part), model.contexts_) for part in parts]
    tried = []
    for candidate in candidates:
        rewards = replace(model.reward_options, **candidate).build(model._problem(whole.demos))
        rewards.m_step(whole, _weights(whole.demos, model.n_intentions))  # fixes what all parts have in common
        tried.append({**candidate, "label_accuracy": _accuracy(rewards, data, model.n_intentions)})
    best = max(range(len(tried)), key=lambda i: tried[i]["label_accuracy"])
    return dict(candidates[best]), tried


def _labelled(model: Any, demos: Demonstrations) -> Demonstrations:
    """Training trajectories with labels, some where there are many."""
    if model.validation_fraction > 0 and len(demos) > 1:
        demos = demos.subset(demos.split_indices(model.validation_fraction, seed=model.seed)[1])
    assert demos.partial_labels is not None
    labelled = np.flatnonzero(np.logical_or.reduceat(demos.partial_labels >= 0, demos.offsets[:-1]))
    order = np.random.default_rng(model.seed).permutation(labelled)
    enough = int(np.searchsorted(np.cumsum(demos.lengths[order]), LABELLED_STEPS)) + 1
    return demos.subset(np.sort(order[:enough]))


def left_out(demos: Demonstrations, seed: int, most: int = FOLDS) -> list[npt.NDArray[np.int64]]:
    """Trajectories that are left out together: of an individual, where there are several, else each by itself."""
    own = np.arange(len(demos))
    who = own if demos.groups is None or len(np.unique(demos.groups)) < 2 else np.asarray(demos.groups)
    names = np.random.default_rng(seed).permutation(np.unique(who))
    return [own[np.isin(who, part)] for part in np.array_split(names, min(most, len(names)))]


def _accuracy(rewards: RewardModel, data: list[Prepared], n_intentions: int) -> float:
    """Mean share of the labelled steps that are right, over the parts left out."""
    counts = [_counts(rewards, part, n_intentions) for part in data]
    whole_chain, whole, sizes = (sum(values[1:], values[0]) for values in zip(*counts, strict=True))
    chain, found = MarkovChain(n_intentions), []
    for part, (own_chain, own, own_sizes) in zip(data, counts, strict=True):
        chain.update(whole_chain - own_chain)
        left = whole - own
        left.update({name: whole[name] for name in rewards.of_all_steps})  # the prior stays that of all steps
        rewards.update(left)
        logs = rewards.log_likelihood(part)
        logs[:, sizes - own_sizes < 0.5] = logs.min() - FAR  # of an intention that the others never showed
        beliefs = chain.expectation(part, chain.reads(logs), online=False).responsibilities
        known = part.demos.partial_labels
        assert known is not None
        found.append(float((beliefs.argmax(axis=1) == known)[known >= 0].mean()))
    return float(np.mean(found))


def _counts(rewards: RewardModel, data: Prepared, n_intentions: int) -> tuple[Any, Any, Any]:
    """What a chain and policies learn from the labels of some trajectories: statistics of both, and steps (K,)."""
    weights, known = _weights(data.demos, n_intentions), data.demos.partial_labels
    assert known is not None
    both = (known[:-1] >= 0) & (known[1:] >= 0) & ~data.demos.first_steps[1:]
    moves = np.zeros((n_intentions, n_intentions))
    np.add.at(moves, (known[:-1][both], known[1:][both]), 1.0)
    chain = Stats(initial=weights[data.demos.first_steps].sum(axis=0), transitions=moves)
    return chain, rewards.statistics(data, weights), weights.sum(axis=0)


def _weights(demos: Demonstrations, n_intentions: int) -> FloatArray:
    """One at the known intention of a step, (n, K); nothing where nobody knows it."""
    assert demos.partial_labels is not None
    return np.where(
        (demos.partial_labels >= 0)[:, None], np.eye(n_intentions)[np.maximum(demos.partial_labels, 0)], 0.0
    )
