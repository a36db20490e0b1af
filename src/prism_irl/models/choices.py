"""What validation trajectories and partial labels decide before EM.

How policies of continuous worlds are held back, bent and reach (`chosen_options`): one short Markov chain finds
responsibilities, from where every candidate gets a few EM iterations, and the likelihood of the validation trajectories
chooses. How much a policy remembers (`choose_history`). And options of windows, by leaving labelled trajectories out
(`chosen_by_labels`). The chain stands in for every kind of switching: it costs seconds where a network costs minutes.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_irl import em
from prism_irl.data.batching import Prepared, Stats
from prism_irl.data.contexts import Contexts, Reads, levels_of
from prism_irl.data.demonstrations import Demonstrations, some_trajectories
from prism_irl.data.labels import FAR
from prism_irl.errors import InputError
from prism_irl.models.base import validation_split
from prism_irl.models.starts import StartKind, first_responsibilities
from prism_irl.rewards.accents import Accents, find_accents
from prism_irl.rewards.base import RewardModel
from prism_irl.rewards.options import RewardOptions
from prism_irl.rewards.tabular import TabularPolicies
from prism_irl.switching.markov import MarkovChain

FIRST_ITERATIONS, OWN_ITERATIONS = 20, 5
"""Of the chain that all candidates begin with, and of each candidate from there."""
TRIAL_STEPS = 50_000
"""Of the training trajectories, and as many of validation: larger data are represented by some trajectories."""


def chosen_options(model: Any, demos: Demonstrations) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """Options that were left to "auto", and all that were tried with the likelihood per validation step.

    Some options are chosen by known labels instead, and have their accuracy. The first candidate is taken where there
    are no validation trajectories to choose by.
    """
    options = model.reward_options
    candidates = options.candidates(demos)
    if options.labels_choose:
        return chosen_by_labels(model, demos, candidates)
    if len(candidates) < 2 or model.validation_fraction <= 0 or len(demos) < 2:
        return (dict(candidates[0]) if candidates else {}), []
    held_out, kept = demos.split_indices(model.validation_fraction, seed=model.seed)
    some = (some_trajectories(demos, TRIAL_STEPS, model.seed, among) for among in (kept, held_out))
    train, validation = (Prepared.of(demos.subset(part), model.contexts_) for part in some)
    chain, tried = MarkovChain(model.n_intentions), []
    rewards = replace(options, **candidates[0]).build(model._problem(train.demos))
    generator = np.random.default_rng([model.seed, len(candidates)])
    rewards.m_step(train, model._first_responsibilities("windows", train, generator))
    em.short_run(chain, rewards, train, FIRST_ITERATIONS)
    responsibilities = em.expectation(chain, rewards, train).responsibilities
    for candidate in candidates:
        own, rewards = copy.deepcopy(chain), replace(options, **candidate).build(model._problem(train.demos))
        rewards.m_step(train, responsibilities)
        em.short_run(own, rewards, train, OWN_ITERATIONS)
        tried.append({**candidate, "log_likelihood": em.likelihood(own, rewards, validation)})
    best = max(range(len(tried)), key=lambda i: tried[i]["log_likelihood"])
    return dict(candidates[best]), tried


LENGTHS = (1, 2, 3, 4, 5, 6)
"""Histories that "auto" tries."""
BACKOFFS = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""Strengths that "auto" tries; the likelihood is flat around the best one, so that a coarse grid is enough."""
SCREEN_MARGIN = 0.02
"""Nats per step that a length may lie behind the best one in the screen and still be tried with K intentions."""
SCREEN_GAIN = 5e-4
"""Nats per step that a longer history must gain in the screen, whose counts are exact."""
CHAIN_GAIN = 1e-3
"""The same for chains, which end a little higher or lower from different starts; short memories explain more.

It is also what another strength must gain over that of the screen, whose choice does not depend on starts."""
CHAIN_STARTS: tuple[StartKind, ...] = ("windows", "random", "windows", "random")
CHAIN_ITERATIONS = 32


DEFAULT_BACKOFF = 5.0
"""Strength where there is nothing to choose it on, or for."""


class HistoryChoice(NamedTuple):
    """What was chosen, and all that was tried (intentions, length, backoff, log_likelihood per step)."""

    length: int
    backoff: float
    tried: list[dict[str, float]]


def chosen_history(model: Any, demos: Demonstrations) -> HistoryChoice:
    """Length and back-off strength that a pair's policies remember with, and what was tried to choose them.

    What is "auto" is chosen on the validation trajectories of the model, a shared habit as a single intention.
    """
    options = model.reward_options
    if options.memory == "none":
        return HistoryChoice(1, 0.0, [])
    length, backoff = model.history, model.backoff
    fallback = DEFAULT_BACKOFF if backoff == "auto" else float(backoff)
    if length != "auto" and (backoff != "auto" or length == 1):
        return HistoryChoice(length, fallback, [])
    train, validation = validation_split(demos, model.validation_fraction, model.seed)
    if validation is None:  # a single step
        return HistoryChoice(1, fallback, [])
    return choose_history(
        train,
        validation,
        1 if options.memory == "habit" else model.n_intentions,
        lengths=LENGTHS if length == "auto" else (length,),
        backoffs=BACKOFFS if backoff == "auto" else (float(backoff),),
        smoothing=options.smoothing,
        seed=model.seed,
    )


def chosen_accents(model: Any, demos: Demonstrations) -> Accents | None:
    """How individuals differ, where a pair asks for it; its contexts and back-off have been chosen."""
    if not model.individuals:
        return None
    parts = validation_split(demos, model.validation_fraction, model.seed)
    smoothing = model.reward_options.smoothing
    return find_accents(demos, parts, model.contexts_, smoothing=smoothing, backoff=model.backoff_, all_data=False)


def check_individuals(rewards: RewardOptions, demos: Demonstrations) -> None:
    """Raise an error where individuals cannot be told apart."""
    if rewards.memory == "none":
        raise InputError(f"{type(rewards).__name__} rewards are the same for all individuals; leave individuals out.")
    if demos.groups is None:
        raise InputError("Individuals need groups; name the column that tells the animal (--group).")


def choose_history(
    train: Demonstrations,
    validation: Demonstrations,
    n_intentions: int,
    *,
    lengths: Sequence[int] = LENGTHS,
    backoffs: Sequence[float] = BACKOFFS,
    smoothing: float = 0.01,
    seed: int = 0,
    gain: float = SCREEN_GAIN,
    reads: Reads = "states",
) -> HistoryChoice:
    """Choose the history length and the back-off strength by likelihood on validation trajectories.

    Longer histories predict better until their contexts become rare, and stronger back-off postpones that, so the two
    are chosen together. First a screen: with a single intention every (length, strength) is one table of counts. Then
    short Markov chains with the K intentions wanted, which divide the same data among K policies, decide between the
    lengths and strengths that the screen leaves.

    ``lengths`` and ``backoffs`` increase; a longer history must gain ``gain`` nats per step with one intention. Every
    candidate has the starts of ``seed``, so that candidates differ in what is compared alone.
    """
    search = _Search(train, validation, smoothing, seed, reads)
    length, backoff = search.screen(lengths, backoffs, gain)
    if n_intentions == 1:
        return HistoryChoice(length, backoff, search.tried)
    # One axis after the other: the best strength hardly depends on the length once there is memory at all.
    best, score = length, -np.inf
    for candidate in search.near(lengths):
        found = search.chain(n_intentions, candidate, backoff)
        if found > score + (CHAIN_GAIN if candidate > best else 0.0):
            best, score = candidate, found
    strength, reference = backoff, score
    for candidate_strength in backoffs if best > 1 else ():
        if candidate_strength == backoff or not backoff / 4 <= candidate_strength <= 2 * backoff:
            continue
        found = search.chain(n_intentions, best, candidate_strength)
        if found > max(score, reference + CHAIN_GAIN):
            strength, score = candidate_strength, found
    return HistoryChoice(best, strength, search.tried)


class _Search:
    """Validation likelihoods of tables and of short chains, remembered in ``tried``."""

    def __init__(
        self, train: Demonstrations, validation: Demonstrations, smoothing: float, seed: int, reads: Reads = "states"
    ) -> None:
        self.train, self.validation, self.smoothing, self.seed, self.reads = train, validation, smoothing, seed, reads
        self.tried: list[dict[str, float]] = []
        self._longest = Contexts(train.n_states)

    def screen(self, lengths: Sequence[int], backoffs: Sequence[float], gain: float) -> tuple[int, float]:
        """Try every combination with one intention; return the best."""
        best, length, backoff = -np.inf, int(lengths[0]), float(backoffs[0])
        for candidate in lengths:
            data, held_out, contexts = self._data(candidate)
            # The strength makes no difference to the state alone, whose policy is the shared one.
            for strength in backoffs if candidate > 1 else backoffs[-1:]:
                table = self._table(1, contexts, strength)
                table.m_step(data, np.ones((data.demos.n_steps, 1)))
                score = float(table.log_likelihood(held_out).mean())
                self._remember(1, candidate, strength, score)
                if score > best + (gain if candidate > length else 0.0):
                    best, length, backoff = score, int(candidate), float(strength)
        return length, backoff

    def near(self, lengths: Sequence[int]) -> list[int]:
        """Lengths that the screen leaves: those whose best strength comes near the best of all."""
        rows = sorted(self.tried, key=lambda row: row["log_likelihood"])
        tops = {row["length"]: row["log_likelihood"] for row in rows}
        return [int(length) for length in lengths if tops[length] >= max(tops.values()) - SCREEN_MARGIN]

    def chain(self, n_intentions: int, length: int, backoff: float) -> float:
        """Highest validation likelihood on the way of a short Baum–Welch run, averaged over starts.

        The average, since the luckiest of a few starts says more about luck than about the history.
        """
        data, held_out, contexts = self._data(length)
        tops = np.full(len(CHAIN_STARTS), -np.inf)
        for index, kind in enumerate(CHAIN_STARTS):
            generator = np.random.default_rng([self.seed, index])
            policies, chain = self._table(n_intentions, contexts, backoff), MarkovChain(n_intentions)
            policies.m_step(data, first_responsibilities(kind, self.train, n_intentions, generator))

            def look(iteration: int, index: int = index, chain: Any = chain, policies: Any = policies) -> None:
                if iteration % 4 == 3:  # the curve is smooth: looking at every point would cost and find nothing
                    likelihood = chain.expectation(held_out, policies.log_likelihood(held_out))
                    tops[index] = max(tops[index], float(likelihood.log_likelihood.mean()))

            em.short_run(chain, policies, data, CHAIN_ITERATIONS, after=look)
        self._remember(n_intentions, length, backoff, float(tops.mean()))
        return float(tops.mean())

    def _data(self, length: int) -> tuple[Prepared, Prepared, Contexts]:
        levels = levels_of(length, self.reads)
        if self._longest.length < levels:
            self._longest = Contexts.fit(self.train, levels, self.reads)
        contexts = self._longest.cut(levels)
        return Prepared.of(self.train, contexts), Prepared.of(self.validation, contexts), contexts

    def _table(self, n_intentions: int, contexts: Contexts, backoff: float) -> TabularPolicies:
        settings: dict[str, Any] = {"smoothing": self.smoothing, "backoff": backoff}
        return TabularPolicies(n_intentions, self.train.n_actions, contexts, self.train.valid_actions, **settings)

    def _remember(self, intentions: int, length: int, backoff: float, score: float) -> None:
        self.tried.append({"intentions": intentions, "length": length, "backoff": backoff, "log_likelihood": score})


FloatArray = npt.NDArray[np.float64]
FOLDS = 10
"""Parts that are left out, at most."""
LABELLED_STEPS = 50_000
"""About so many steps of labelled trajectories choose; there is no need to ask more."""


def chosen_by_labels(
    model: Any, demos: Demonstrations, candidates: list[dict[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """The candidate that labels most steps right, and all that were tried with their ``label_accuracy``.

    Densities of windows of different lengths are of different numbers, and no likelihood chooses between them. The
    labelled trajectories of one individual (one trajectory, where there are no individuals) are left out in turn, every
    candidate learns from the labelled steps of the others alone, and what counts is the share of labelled steps left
    out that a Markov chain then gets right. No label is asked for that the fit does not have anyway. Validation
    trajectories take no part. The first candidate is taken where fewer than two trajectories have labels.
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
    counts = []  # what a chain and policies learn from the labels of each part, and its steps (K,)
    for part in data:
        weights, known = _weights(part.demos, n_intentions), part.demos.partial_labels
        assert known is not None
        both = (known[:-1] >= 0) & (known[1:] >= 0) & ~part.demos.first_steps[1:]
        moves = np.zeros((n_intentions, n_intentions))
        np.add.at(moves, (known[:-1][both], known[1:][both]), 1.0)
        own_chain = Stats(initial=weights[part.demos.first_steps].sum(axis=0), transitions=moves)
        counts.append((own_chain, rewards.statistics(part, weights), weights.sum(axis=0)))
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


def _weights(demos: Demonstrations, n_intentions: int) -> FloatArray:
    """One at the known intention of a step, (n, K); nothing where nobody knows it."""
    assert demos.partial_labels is not None
    return np.where(
        (demos.partial_labels >= 0)[:, None], np.eye(n_intentions)[np.maximum(demos.partial_labels, 0)], 0.0
    )
